// SPDX-License-Identifier: GPL-2.0
/*
 * Address spaces that the scanners know, and how often each is scanned.
 *
 * Nothing is hooked into fork, exec or exit, and nothing is added to mm_struct: in
 * each round a scanner goes through the processes, meets the address spaces, and
 * looks up here what is known about them.  What its scanner has not met in a round has
 * exited and is dropped.  If a round could not meet all, only what has no users is.  Until
 * then a reference to mm_count keeps the mm_struct, not the memory of the process; so a
 * pointer in the table cannot be that of a new one.
 *
 * Whose: that of the scanner of the node that the process runs on.  A process that
 * moves to and fro keeps its scanner until it has stayed away for some rounds.
 *
 * How often: every epoch while scanning costs less than to promote what it finds.  When
 * it costs more, the interval doubles, up to 2^HOTNESS_MAX_SHIFT epochs.  For close visits
 * (close.c) to a large address space that is the interval of each of its page tables: in
 * each epoch one in so many is looked at.  So when something else becomes hot a few of its pages
 * are found in the next epoch, and all are looked at again.  That saves CPU
 * time, and since one bit of history stands for one pass, it also lets pages count as hot
 * that are accessed less often: first the hottest pages are found, and then, if there is
 * still room, the warm ones.  While there are warm pages that just cannot be afforded,
 * the interval stays short enough to tell them from hotter ones.  When the number of
 * accessed pages jumps, something new is going on, and the interval is short again.
 */

#include <linux/hashtable.h>
#include <linux/mutex.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "hotness.h"
#include "kmmscand.h"
#include "target.h"

/*
 * To promote a page takes as many instructions as to read so many entries, and to read
 * one with its Accessed bit set as so many others (measured under emulation).
 */
#define KMMSCAND_PROMOTE_COST	512
#define KMMSCAND_YOUNG_COST	12
/* So many hot pages are scanned for at least every other epoch. */
#define KMMSCAND_MANY		1024
/* A jump: twice as many pages as before, and this many more */
#define KMMSCAND_JUMP		64
/* Close passes are at most so many epochs apart, as a power of two, if they are not in parts. */
#define KMMSCAND_CLOSE_SHIFT	2U
/* Entries of an address space that is looked at in parts */
#define KMMSCAND_PART_LEAST	(32UL * PTRS_PER_PTE)
/*
 * With longer intervals there would be gaps in a history that stands for 2^HOTNESS_MAX_SHIFT
 * epochs a bit; some epochs are for visits that come late.
 */
#define KMMSCAND_LONGEST	12U
/* Rounds after which a process that runs on another node belongs there */
#define KMMSCAND_AWAY		8

/* Address spaces by pointer.  The mutex also covers all but ->pass of each. */
static DEFINE_HASHTABLE(kmmscand_mms, 8);
static DEFINE_MUTEX(kmmscand_mms_mutex);

/* Is it for scanner @nid to visit?  @home is where its process runs now. */
static bool kmmscand_mm_is_ours(struct kmmscand_mm *state, int nid, int home,
				unsigned int round)
{
	if (state->home != nid)
		return false;
	/* Processes share it. */
	if (!state->moved && state->round == round)
		return false;
	state->round = round;
	state->moved = false;
	if (home == nid) {
		state->away = 0;
	} else if (++state->away == KMMSCAND_AWAY) {
		state->home = home;
		state->away = 0;
		state->moved = true;
		return false;
	}
	return true;
}

/**
 * kmmscand_mm_get - what is known of an address space
 * @mm:    the address space; its mm_count is held by the caller
 * @nid:   of the scanner that asks
 * @home:  of the scanner of the node that the process runs on
 * @round: of the scanner that asks
 *
 * Return: NULL if it is another scanner's, or was met in this round before, or if
 * there is no memory.  Otherwise it is the caller's until the end of the round.
 */
struct kmmscand_mm *kmmscand_mm_get(struct mm_struct *mm, int nid, int home,
				    unsigned int round)
{
	struct kmmscand_mm *state;

	mutex_lock(&kmmscand_mms_mutex);
	hash_for_each_possible(kmmscand_mms, state, node, (unsigned long)mm) {
		if (state->pass.mm == mm)
			break;
	}
	if (state) {
		if (!kmmscand_mm_is_ours(state, nid, home, round))
			state = NULL;
	} else if (home == nid) {
		state = kzalloc(sizeof(*state), GFP_KERNEL | __GFP_NOWARN);
		if (state) {
			mmgrab(mm);
			state->pass.mm = mm;
			state->home = nid;
			state->round = round;
			state->due = hotness_epoch();
			hash_add(kmmscand_mms, &state->node, (unsigned long)mm);
		}
	}
	mutex_unlock(&kmmscand_mms_mutex);
	return state;
}

static void kmmscand_mm_free(struct kmmscand_mm *state)
{
	hash_del(&state->node);
	mmdrop(state->pass.mm);
	target_free(state);
	kfree(state);
}

/**
 * kmmscand_mms_drop - forget the address spaces that have gone
 * @nid:     scanner that asks, at the end of a round
 * @round:   of the scanner
 * @met_all: what was not met in this round has gone; or else only what nobody uses any more
 */
void kmmscand_mms_drop(int nid, unsigned int round, bool met_all)
{
	struct kmmscand_mm *state;
	struct hlist_node *tmp;
	int i;

	mutex_lock(&kmmscand_mms_mutex);
	hash_for_each_safe(kmmscand_mms, i, tmp, state, node) {
		if (state->home != nid || state->round == round)
			continue;
		if (!met_all && atomic_read(&state->pass.mm->mm_users))
			continue;
		/* It may have come after we had passed its process id: once more. */
		if (state->moved) {
			state->moved = false;
			state->round = round - 1;
		} else {
			kmmscand_mm_free(state);
		}
	}
	mutex_unlock(&kmmscand_mms_mutex);
}

/**
 * kmmscand_mms_flush - flush the TLBs of all address spaces that scanners know
 *
 * CPUs that run none of them are not interrupted.
 *
 * Context: may sleep.
 */
void kmmscand_mms_flush(void)
{
	struct kmmscand_mm *state;
	int i;

	mutex_lock(&kmmscand_mms_mutex);
	hash_for_each(kmmscand_mms, i, state, node) {
		kmmscand_flush_later(state->pass.mm);
		cond_resched();
	}
	kmmscand_flush_now();
	mutex_unlock(&kmmscand_mms_mutex);
}

/**
 * kmmscand_mms_drop_all - forget everything, when no scanner runs any more
 */
void kmmscand_mms_drop_all(void)
{
	struct kmmscand_mm *state;
	struct hlist_node *tmp;
	int i;

	mutex_lock(&kmmscand_mms_mutex);
	hash_for_each_safe(kmmscand_mms, i, tmp, state, node)
		kmmscand_mm_free(state);
	mutex_unlock(&kmmscand_mms_mutex);
}

/* In a part, what is in a single page table is no jump: it would be one at each of its turns. */
static bool kmmscand_jumped(const struct kmmscand_pass *pass, unsigned long pages,
			    unsigned long before)
{
	return pages > 2 * (before >> pass->part) + (pass->part ? PTRS_PER_PTE : KMMSCAND_JUMP);
}

/* Is it worth a pass like that to find @pages? */
static bool kmmscand_pays(const struct kmmscand_pass *pass, unsigned long pages)
{
	return pages >= (pass->ptes + KMMSCAND_YOUNG_COST * pass->young) / KMMSCAND_PROMOTE_COST;
}

/* Is it so large that a part of it stands for the whole? */
static bool kmmscand_large(const struct kmmscand_pass *pass)
{
	unsigned long least = KMMSCAND_PART_LEAST;

	/* Parts differ. */
	if (pass->part)
		least /= 2;
	return pass->close && pass->mapped << pass->part >= least;
}

/**
 * kmmscand_next_shift - how long until a page is looked at again?
 * @state: with the pass that has just ended
 *
 * Return: n, for 2^n epochs.
 */
unsigned int kmmscand_next_shift(const struct kmmscand_mm *state)
{
	const struct kmmscand_pass *pass = &state->pass;
	unsigned int longer = min(state->shift + 1, (unsigned int)HOTNESS_MAX_SHIFT);
	unsigned int most = kmmscand_large(pass) ? HOTNESS_MAX_SHIFT : KMMSCAND_CLOSE_SHIFT;

	/* The first pass has only cleared. */
	if (pass->stale && !pass->close)
		return 0;
	/* How many are accessed in a window says nothing, unless it is again and again. */
	if (pass->close ? kmmscand_jumped(pass, pass->warm, state->warm) :
			  kmmscand_jumped(pass, pass->touched, state->touched))
		return 0;
	/* In other parts there may be nothing, so a larger one is next. */
	if (pass->hot && kmmscand_pays(pass, pass->hot))
		return pass->part ? state->shift - 1 : 0;
	/* Few of very many are still too many to be found stale. */
	if (pass->hot << pass->part >= KMMSCAND_MANY)
		return pass->part ? max(state->shift - 1, 1U) : min(longer, 1U);
	if (pass->warm && kmmscand_pays(pass, pass->warm))
		return min(longer, pass->close ? most : 1U);
	/* Windows are for when much is going on. */
	return pass->close && pass->touched ? min(longer, most) : longer;
}

/**
 * kmmscand_interval - how many epochs are that?
 * @shift: what kmmscand_next_shift() has said
 * @scale: how many times as long the process wants it to be
 *
 * Return: epochs from one pass to the next.
 */
unsigned int kmmscand_interval(unsigned int shift, unsigned int scale)
{
	return min(max(scale, 1U) << shift, KMMSCAND_LONGEST);
}

/**
 * kmmscand_next_part - which part of its page tables will each of the next passes look at?
 * @state:  with the pass that has just ended, and what kmmscand_next_shift() has said of it
 * @epochs: between two passes
 *
 * Return: n, for one in 2^n; 0 for all.
 */
unsigned int kmmscand_next_part(const struct kmmscand_mm *state, unsigned int epochs)
{
	unsigned int part = kmmscand_large(&state->pass) ? state->shift : 0;

	while (part && max(epochs, 1U) << part > KMMSCAND_LONGEST)
		part--;
	return part;
}
