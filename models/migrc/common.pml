/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the models share.  I1..I8 are the invariants of mm/migrc/defer.c and README.md; a
 * violated one is named in the message of the verifier.  They are hidden: they cost no state.
 *
 * With -DREACH the verifier must find every REACHED(): the situation that a property is
 * about does come up, so the property is not true just because nothing happens.
 */
hidden byte I1, I2, I3, I4, I5, I6, I7, I8;

#define CHECK(name, holds) name = (holds); assert(name)

#ifdef REACH
#define REACHED(name, here) name = !(here); assert(name)
#else
#define REACHED(name, here) skip
#endif

/* A step that is skipped if it need not be taken */
#define WHEN(holds, step) if :: holds -> step :: else fi

/*
 * WITH() is text that only a mutation has, WITHOUT() text that the mutation leaves out, and
 * EITHER() has one text for each.  -DMUT_NAME makes MUT_NAME a 1, and BY_1 adds an argument, so
 * that THIRD() finds the other text.  Text that is left out costs no step and no state.
 */
#define WITH(mut, text) EITHER(mut, text, )
#define WITHOUT(mut, text) EITHER(mut, , text)
#define EITHER(mut, with, without) PASTE(mut, with, without)
#define PASTE(mut, ...) CHOOSE(BY_##mut, __VA_ARGS__)
#define CHOOSE(...) THIRD(__VA_ARGS__, )
#define THIRD(one, two, three, ...) three
#define BY_1 ,

/*
 * A spinlock, a mutex: the models have neither preemption nor interrupts of the holder.
 * Where taking a lock is one step with what comes next, or releasing it with what came
 * before, nobody could tell the difference.
 */
inline lock(held)
{
	atomic { !held -> held = true }
}

inline unlock(held)
{
	held = false
}
