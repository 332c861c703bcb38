// SPDX-License-Identifier: GPL-2.0
/*
 * Close visits: what is accessed within a short window, and in the next one again?
 *
 * Where more pages are accessed in each epoch than can be promoted, asking once an
 * epoch does not tell the hot ones.  A close visit clears the Accessed bits of a piece of
 * an address space, and reads and clears them a window later, and once more another
 * window later.  How long the window is, the promoters say (kpromoted_window()).  A page
 * that is found twice is accessed about once per window or more often; what a program
 * only streams over is found once, or twice if that is just when a window ends.
 * Nothing has to be known from earlier passes, so the first visit can tell already.
 *
 * The window does not depend on how long a pass over a large address space takes,
 * because that is done in pieces.  Pieces of small address spaces wait together: a
 * group is as much as a walk can clear in the scanner's share of two windows.  Bits that
 * were cleared so long ago are of no use, so the scanner sleeps for nothing but the
 * windows and the looks of a burst until it has done with a group, and pays for its CPU time
 * then.
 * A piece whose mmap_lock is taken in a look is tried once more at its end.
 *
 * A huge page is accessed much more often than a small one, and even in the shortest
 * window most of them are.  So as long as more of them have been found in a group than the
 * promoters can afford, these are looked at again, after half a window, half of that and
 * so on (kmmscand_burst_next()).  Of what has not been accessed in one of these looks nothing
 * was found (hotness_retract()), though a promoter may have seen it until then.  Not judged,
 * and not counted, are those with other mappings; those whose mmap_lock is taken just then are
 * left.  A page of which reclaim clears the bit between two looks is taken for one that was
 * not accessed, in this visit.
 *
 * Address spaces with a secondary MMU are left out (kmmscand.c): asking that is
 * expensive, and its TLB is not flushed.
 */

#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/minmax.h>

#include "decide.h"
#include "hotness.h"
#include "kmmscand.h"
#include "victim.h"

/* To clear a group takes so long at most, however long the windows are. */
#define KMMSCAND_CLEAR_MSECS	200U

/* A walk that has begun is not broken off. */
#define KMMSCAND_NO_DEADLINE	(60 * HZ)

/* A sleep in a burst that is not shorter need not be exact, and has to end when asked to */
#define KMMSCAND_SLEEP_USECS	(8 * USEC_PER_MSEC)

/* How long may clearing the group take?  The scanner's share of the two windows after it. */
static unsigned int kmmscand_close_msecs(struct kmmscand_close *close)
{
	unsigned int msecs = close->window_ms *
			     min(2 * READ_ONCE(kmmscand_tunables.scan_cpu_pct), 100U) / 100;

	return min(msecs, KMMSCAND_CLEAR_MSECS);
}

/**
 * kmmscand_close_due - is it time to look at the group?
 * @close: group, not empty
 */
bool kmmscand_close_due(struct kmmscand_close *close)
{
	return close->nr == KMMSCAND_PIECES ||
	       time_after_eq(jiffies, close->begun + msecs_to_jiffies(kmmscand_close_msecs(close)));
}

/**
 * kmmscand_close_visit - clear the bits of the next piece, and look if the group is full
 * @close:  group
 * @state:  address space; must stay until kmmscand_close_look()
 * @cpu:    of the scanner
 *
 * Context: a kthread, may sleep; no locks held.
 * Return: as kmmscand_scan(), for the whole of the pass.
 */
int kmmscand_close_visit(struct kmmscand_close *close, struct kmmscand_mm *state,
			 struct kmmscand_cpu *cpu)
{
	struct kmmscand_pass *pass = &state->pass;
	unsigned long start = pass->next, young = pass->young;
	int ret;

	if (!close->nr)
		close->begun = jiffies;
	ret = kmmscand_scan(pass, KMMSCAND_CLEAR, &pass->next, ULONG_MAX, cpu,
			    close->begun + msecs_to_jiffies(kmmscand_close_msecs(close)));
	if (ret == -ESRCH)
		return ret;
	/* Where nothing was accessed for long, nothing is hot. */
	if (pass->young == young)
		start = ULONG_MAX;
	if (ret == 1 || pass->young != young) {
		close->piece[close->nr++] = (struct kmmscand_piece) {
			.state = state, .start = start,
			.end = ret == 1 ? ULONG_MAX : pass->next, .last = ret == 1,
		};
	}
	if (kmmscand_close_due(close))
		kmmscand_close_look(close, cpu);
	return ret;
}

/* Returns false if somebody has the mmap_lock: @piece->next is where to go on. */
static bool kmmscand_close_piece(struct kmmscand_piece *piece, enum kmmscand_look look,
				 struct kmmscand_cpu *cpu)
{
	return kmmscand_scan(&piece->state->pass, look, &piece->next, piece->end, cpu,
			     jiffies + KMMSCAND_NO_DEADLINE) != -EBUSY;
}

static void kmmscand_close_scan(struct kmmscand_close *close, enum kmmscand_look look,
				struct kmmscand_cpu *cpu)
{
	unsigned long huge = 0;
	unsigned int i, held_up = 0;
	bool done;

	for (i = 0; i < close->nr && !kthread_should_stop(); i++) {
		struct kmmscand_piece *piece = &close->piece[i];
		struct kmmscand_pass *pass = &piece->state->pass;

		piece->next = piece->start;
		if (piece->start >= piece->end || (look == KMMSCAND_AGAIN && !piece->huge)) {
			piece->next = piece->end;
			continue;
		}
		pass->huge = 0;
		done = kmmscand_close_piece(piece, look, cpu);
		piece->missed = !done;
		/* What could not be looked at again is left. */
		if (look != KMMSCAND_AGAIN || done)
			piece->huge = pass->huge;
		/* The looks of a burst do not wait. */
		if (done || look == KMMSCAND_AGAIN)
			piece->next = piece->end;
		else
			held_up++;
		huge += piece->huge;
	}
	/* Once more what was held up, while others were looked at. */
	for (i = 0; held_up && i < close->nr && !kthread_should_stop(); i++) {
		struct kmmscand_piece *piece = &close->piece[i];

		if (piece->next >= piece->end)
			continue;
		held_up--;
		piece->state->pass.huge = 0;
		piece->missed = !kmmscand_close_piece(piece, look, cpu);
		piece->huge += piece->state->pass.huge;
		huge += piece->state->pass.huge;
	}
	close->huge = huge;
}

static void kmmscand_close_walk(struct kmmscand_close *close, enum kmmscand_look look,
				struct kmmscand_cpu *cpu)
{
	unsigned long window = msecs_to_jiffies(close->window_ms), now = jiffies;

	/* The sleep is pay for what was done before. */
	kmmscand_cpu_charge(cpu, READ_ONCE(kmmscand_tunables.scan_cpu_pct));
	if (time_before(now, close->begun + window))
		kmmscand_sleep(cpu, jiffies_to_msecs(close->begun + window - now));
	close->begun = jiffies;
	kmmscand_close_scan(close, look, cpu);
}

/* Tell how many have been found in the first look, and in the second one. */
static void kmmscand_close_found(struct kmmscand_close *close)
{
	unsigned int i;

	/* What has not been looked at a second time tells no rate. */
	for (i = 0; i < close->nr; i++) {
		if (close->piece[i].missed)
			close->piece[i].state->pass.first = 0;
	}
	for (i = 0; i < close->nr; i++) {
		struct kmmscand_pass *pass = &close->piece[i].state->pass;

		/* An address space may have several pieces. */
		if (pass->first)
			victim_found(tier_mm_group(pass->mm), pass->first, pass->both,
				     close->window_ms);
		pass->first = 0;
		pass->both = 0;
	}
}

/* Look at the huge pages that have been found again, as long as too many are left. */
static void kmmscand_close_burst(struct kmmscand_close *close, struct kmmscand_cpu *cpu)
{
	struct kmmscand_burst burst;
	unsigned long before = close->huge;

	kmmscand_burst_begin(&burst, close->window_ms, close->huge);
	while (!kthread_should_stop() &&
	       kmmscand_burst_next(&burst, before, close->huge, close->enough)) {
		before = close->huge;
		kmmscand_cpu_charge(cpu, READ_ONCE(kmmscand_tunables.scan_cpu_pct));
		if (burst.usecs >= KMMSCAND_SLEEP_USECS)
			kmmscand_sleep(cpu, burst.usecs / USEC_PER_MSEC);
		else
			usleep_idle_range(burst.usecs, burst.usecs + burst.usecs / 4);
		kmmscand_close_scan(close, KMMSCAND_AGAIN, cpu);
	}
}

/**
 * kmmscand_close_look - look twice at the group, and empty it
 * @close: group
 * @cpu:   of the scanner
 *
 * Context: a kthread, may sleep; no locks held.
 */
void kmmscand_close_look(struct kmmscand_close *close, struct kmmscand_cpu *cpu)
{
	unsigned int i, epoch = hotness_epoch();
	bool any = false;

	for (i = 0; i < close->nr; i++) {
		any |= close->piece[i].start < close->piece[i].end;
		close->piece[i].state->pass.looked = epoch;
	}
	/* If clearing took long, what was cleared last shall have a window, too. */
	if (time_after(jiffies, close->begun + msecs_to_jiffies(close->window_ms) / 4))
		close->begun = jiffies;
	if (any) {
		kmmscand_close_walk(close, KMMSCAND_FIRST, cpu);
		kmmscand_close_walk(close, KMMSCAND_SECOND, cpu);
		kmmscand_close_found(close);
		kmmscand_close_burst(close, cpu);
	}
	for (i = 0; i < close->nr; i++) {
		if (close->piece[i].last)
			kmmscand_pass_done(close->piece[i].state);
	}
	close->nr = 0;
	kmmscand_cpu_pay(cpu, READ_ONCE(kmmscand_tunables.scan_cpu_pct));
}
