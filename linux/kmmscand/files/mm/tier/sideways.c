// SPDX-License-Identifier: GPL-2.0
/*
 * Sideways: from one fast node to another, after an address space has moved.
 *
 * What has been promoted for a process stays behind when the process moves to another
 * socket.  Its pages are fast, so the hotness table does not know them, and the scanner
 * leaves their Accessed bits alone.  So it is done once, when it is known that the
 * address space has moved (two clear votes in a row, target.c): for some passes the
 * scanner clears the bits of pages on other fast nodes as well, notes those that are
 * accessed within a short window (close.c), and a promoter brings them over, until a
 * pass finds few.
 *
 * To go by bits that nobody has cleared for long was tried: nearly all pages of the process
 * had them set, and after half a minute half of the hot ones had still not had their
 * turn.  What is cleared is handed back to reclaim as that of slow pages is.
 *
 * The rate and the CPU time are those of promoters.  The former is shared with NUMA balancing,
 * for which these pages are candidates for promotion like others; but not by memory control
 * groups, because nothing is promoted.  Where there is no room it is an
 * exchange like others: kswapd is woken if it can demote, and no more is moved in an
 * epoch than promoters exchange.
 *
 * Left out: what others map, too, since it is not known where those run, and all that is
 * not promoted either.  What nobody has decided about stays: there is no move without a
 * clear vote, and none before.  Pages on a slow node need nothing of this, whichever
 * socket it is behind: if they are hot they are promoted to where the vote says, and if they
 * are cold it does not matter.  When a page is demoted later, reclaim chooses the slow node
 * by the fast one that it is on by then.
 *
 * What is noted are frames, as for tier_promote(): no references, and they are looked at
 * again before they move.  A full buffer loses what is found; another pass
 * may find it again, as long as there are any for this process.
 *
 * Locking: sideways_lock, which nests inside page-table locks.  The buffer exists while
 * kmmscand runs on a machine with several fast nodes.
 */

#include <linux/minmax.h>
#include <linux/numa.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/tier.h>

#include "sideways.h"

#define SIDEWAYS_RANGES		2048
/* Base pages of one of them: what is moved before limits are looked at again */
#define SIDEWAYS_RANGE_PAGES	512

static DEFINE_SPINLOCK(sideways_lock);
/* Under the lock */
static struct tier_range *sideways_ranges;
static unsigned int sideways_nr;

/**
 * sideways_start - allocate the buffer; without memory nothing is brought over
 *
 * Context: may sleep; no thread of kmmscand runs.
 */
void sideways_start(void)
{
	sideways_nr = 0;
	sideways_ranges = kvmalloc_array(SIDEWAYS_RANGES, sizeof(*sideways_ranges),
					 GFP_KERNEL | __GFP_NOWARN);
}

/**
 * sideways_stop - free the buffer
 *
 * Context: may sleep; no thread of kmmscand runs.
 */
void sideways_stop(void)
{
	kvfree(sideways_ranges);
	sideways_ranges = NULL;
}

/**
 * sideways_add - note a folio on the wrong fast node
 * @pfn: its first frame
 * @nr:  base pages
 * @nid: fast node that it should be on
 *
 * Context: the scanner, under a page-table lock.
 * Return: @nr, also if there was no room for it; 0 if it was the last one that was noted.
 */
unsigned int sideways_add(unsigned long pfn, unsigned int nr, int nid)
{
	struct tier_range *last;
	unsigned int new = nr;

	spin_lock(&sideways_lock);
	last = sideways_nr ? &sideways_ranges[sideways_nr - 1] : NULL;
	if (!sideways_ranges) {
		new = 0;
	} else if (last && last->nid == nid && last->pfn + last->nr == pfn &&
		   last->nr + nr <= SIDEWAYS_RANGE_PAGES) {
		last->nr += nr;
	} else if (last && pfn >= last->pfn && pfn < last->pfn + last->nr) {
		/* A large folio is mapped more than once. */
		new = 0;
	} else if (sideways_nr < SIDEWAYS_RANGES) {
		sideways_ranges[sideways_nr++] = (struct tier_range) {
			.pfn = pfn, .nr = nr, .nid = nid, .sideways = true,
		};
	}
	spin_unlock(&sideways_lock);
	return new;
}

/**
 * sideways_target - where should go what has been noted first?
 *
 * Context: a promoter.
 * Return: fast node, or NUMA_NO_NODE if nothing has been noted.
 */
int sideways_target(void)
{
	int nid;

	spin_lock(&sideways_lock);
	nid = sideways_nr ? sideways_ranges[0].nid : NUMA_NO_NODE;
	spin_unlock(&sideways_lock);
	return nid;
}

/**
 * sideways_take - what has been noted first, all with one target
 * @ranges:     filled
 * @max_ranges: size of @ranges
 * @max_pages:  base pages to stop at; the last range may exceed it
 *
 * Context: a promoter.
 * Return: number of ranges.
 */
unsigned int sideways_take(struct tier_range *ranges, unsigned int max_ranges,
			   unsigned long max_pages)
{
	unsigned long sum = 0;
	unsigned int nr = 0;

	spin_lock(&sideways_lock);
	while (nr < min(max_ranges, sideways_nr) && sum < max_pages &&
	       sideways_ranges[nr].nid == sideways_ranges[0].nid) {
		ranges[nr] = sideways_ranges[nr];
		sum += ranges[nr++].nr;
	}
	sideways_nr -= nr;
	if (nr)
		memmove(sideways_ranges, sideways_ranges + nr,
			sideways_nr * sizeof(*sideways_ranges));
	spin_unlock(&sideways_lock);
	return nr;
}
