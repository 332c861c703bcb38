/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the models share.  I1..I10 are the invariants of README.md; a violated one is
 * named in the message of the verifier.  They are hidden, so they cost no state.
 *
 * With -DREACH the verifier must find every REACHED(): the situation that a property is
 * about does come up, so the property is not true just because nothing happens.
 */
hidden byte I1, I2, I3, I4, I5, I6, I7, I8, I9, I10;

#define CHECK(name, holds) name = (holds); assert(name)

#ifdef REACH
#define REACHED(name, here) name = !(here); assert(name)
#else
#define REACHED(name, here) skip
#endif

/* A spinlock, a mutex: the models have neither preemption nor interrupts of the holder. */
inline lock(held)
{
	atomic { !held -> held = true }
}

inline unlock(held)
{
	held = false
}
