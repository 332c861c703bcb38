// SPDX-License-Identifier: GPL-2.0
/*
 * Candidates of each slow node, on their way from workers to promoters.
 *
 * A ring has RING_SIZE entries, first in, first out.  Workers push folios that the last look of a
 * visit has found; promoters pop.  An entry that is RING_AGE old is dropped, because its heat is no
 * longer known.  A candidate that finds no place is dropped, too: a page that stays hot is found
 * again in the next visit.
 *
 * While a ring is half full, a group of address spaces has at most a quarter of it.
 *
 * Workers and other sources of heat may push from any context that may take a spinlock.
 *
 * Memory: RING_SIZE * 16 bytes for each slow node, 512 KiB.
 *
 * Locking: a spinlock for each ring, taken once for a page table or a batch.  ring_start() and
 * ring_stop() run while no worker and no promoter does.
 */

#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/numa.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "events.h"
#include "ring.h"

#define RING_SIZE	32768U
#define RING_AGE	(2 * HZ)
/* So many entries wake a promoter before the look is over */
#define RING_BATCH	512U

struct ring {
	spinlock_t lock;		/* for all below but @wait */
	unsigned int head, tail;	/* of entries pushed and popped; they wrap */
	unsigned int queued[TIER_GROUPS];	/* entries */
	unsigned long waiting[TIER_GROUPS];	/* base pages of these */
	unsigned long pushed;		/* base pages */
	unsigned long gone[TIER_GROUPS];	/* base pages popped or dropped */
	wait_queue_head_t wait;		/* promoters */
	struct candidate entry[RING_SIZE];
};

static struct ring *rings[MAX_NUMNODES];
static unsigned long ring_hot_pages[MAX_NUMNODES];	/* of the last period */

/**
 * ring_start - prepare the ring of a slow node
 * @nid: slow node
 *
 * Context: may sleep.
 * Return: 0 or -ENOMEM.
 */
int ring_start(int nid)
{
	rings[nid] = kvzalloc_node(sizeof(*rings[nid]), GFP_KERNEL, numa_node_id());
	if (!rings[nid])
		return -ENOMEM;
	spin_lock_init(&rings[nid]->lock);
	init_waitqueue_head(&rings[nid]->wait);
	return 0;
}

/**
 * ring_stop - free the ring of a slow node, if there is one
 * @nid: slow node
 *
 * Context: may sleep.
 */
void ring_stop(int nid)
{
	kvfree(rings[nid]);
	rings[nid] = NULL;
	WRITE_ONCE(ring_hot_pages[nid], 0);
}

/* The oldest entry leaves. */
static void ring_take(struct ring *ring)
{
	const struct candidate *entry = &ring->entry[ring->tail++ % RING_SIZE];

	ring->gone[entry->group] += 1UL << entry->order;
	ring->waiting[entry->group] -= 1UL << entry->order;
	ring->queued[entry->group]--;
}

/* What is too old leaves. */
static void ring_expire(struct ring *ring)
{
	u32 now = jiffies;

	while (ring->tail != ring->head &&
	       now - ring->entry[ring->tail % RING_SIZE].stamp > RING_AGE)
		ring_take(ring);
}

static bool ring_has_place(const struct ring *ring, unsigned int group)
{
	unsigned int used = ring->head - ring->tail;

	return used < RING_SIZE / 2 ||
	       (used < RING_SIZE && ring->queued[group] < RING_SIZE / 4);
}

/**
 * ring_push - hot folios of a slow node were found
 * @nid:   slow node with a ring
 * @found: folios
 * @nr:    number of folios
 *
 * Context: any; irqs on.
 */
void ring_push(int nid, const struct candidate *found, unsigned int nr)
{
	struct ring *ring = rings[nid];
	unsigned long pages = 0;
	unsigned int i;
	bool wake;

	spin_lock(&ring->lock);
	ring_expire(ring);
	for (i = 0; i < nr; i++) {
		unsigned int group = found[i].group;

		pages += 1UL << found[i].order;
		if (!ring_has_place(ring, group)) {
			ring->gone[group] += 1UL << found[i].order;
			continue;
		}
		ring->queued[group]++;
		ring->waiting[group] += 1UL << found[i].order;
		ring->entry[ring->head++ % RING_SIZE] = found[i];
	}
	ring->pushed += pages;
	wake = ring->head - ring->tail >= RING_BATCH;
	spin_unlock(&ring->lock);
	count_kmmscand_events(KMMSCAND_CANDIDATE, pages);
	if (wake)
		ring_wake(nid);
}

/**
 * ring_pop - take candidates
 * @nid:   slow node with a ring
 * @taken: result
 * @max:   number of folios at most
 * @pages: base pages at most, but one folio
 *
 * Context: a promoter.
 * Return: number of folios.
 */
unsigned int ring_pop(int nid, struct candidate *taken, unsigned int max, unsigned long pages)
{
	struct ring *ring = rings[nid];
	unsigned long sum = 0;
	unsigned int nr = 0;

	spin_lock(&ring->lock);
	ring_expire(ring);
	while (nr < max && ring->tail != ring->head) {
		const struct candidate *entry = &ring->entry[ring->tail % RING_SIZE];

		sum += 1UL << entry->order;
		if (nr && sum > pages)
			break;
		taken[nr++] = *entry;
		ring_take(ring);
	}
	spin_unlock(&ring->lock);
	return nr;
}

/**
 * ring_drop - drop all candidates, because none can move
 * @nid: slow node with a ring
 *
 * Context: a promoter.
 */
void ring_drop(int nid)
{
	struct ring *ring = rings[nid];

	spin_lock(&ring->lock);
	while (ring->tail != ring->head)
		ring_take(ring);
	spin_unlock(&ring->lock);
}

/**
 * ring_empty - are there candidates?
 * @nid: slow node with a ring
 *
 * Context: any; a snapshot.
 */
bool ring_empty(int nid)
{
	return READ_ONCE(rings[nid]->head) == READ_ONCE(rings[nid]->tail);
}

/**
 * ring_queued - how many candidates are there?
 * @nid: slow node with a ring
 *
 * Context: any; a snapshot.
 * Return: folios.
 */
unsigned int ring_queued(int nid)
{
	return READ_ONCE(rings[nid]->head) - READ_ONCE(rings[nid]->tail);
}

/**
 * ring_waiting - how many candidates of a group are there?
 * @nid:   slow node with a ring
 * @group: number of the group
 *
 * Context: any; a snapshot.
 * Return: base pages.
 */
unsigned long ring_waiting(int nid, unsigned int group)
{
	return READ_ONCE(rings[nid]->waiting[group]);
}

/**
 * ring_counts - how many candidates were found until now?
 * @nid:     slow node with a ring
 * @gone:    result: base pages of TIER_GROUPS groups that were popped or dropped
 * @waiting: result: base pages that wait
 *
 * Context: may take a spinlock.
 * Return: base pages that were pushed.
 */
unsigned long ring_counts(int nid, unsigned long *gone, unsigned long *waiting)
{
	struct ring *ring = rings[nid];
	unsigned long pushed, hot = 0;
	unsigned int group;

	spin_lock(&ring->lock);
	ring_expire(ring);
	memcpy(gone, ring->gone, sizeof(ring->gone));
	memcpy(waiting, ring->waiting, sizeof(ring->waiting));
	pushed = ring->pushed;
	spin_unlock(&ring->lock);
	for (group = 0; group < TIER_GROUPS; group++)
		hot += waiting[group];
	WRITE_ONCE(ring_hot_pages[nid], hot);
	return pushed;
}

/**
 * ring_hot - how many pages of a node were found hot and wait?
 * @nid: node
 *
 * Context: any.
 * Return: base pages that waited when the last period ended; 0 without a ring.
 */
unsigned long ring_hot(int nid)
{
	return READ_ONCE(ring_hot_pages[nid]);
}

/**
 * ring_wake - wake the promoters, if there are candidates
 * @nid: slow node with a ring
 *
 * Context: any.
 */
void ring_wake(int nid)
{
	if (!ring_empty(nid) && wq_has_sleeper(&rings[nid]->wait))
		wake_up(&rings[nid]->wait);
}

/**
 * ring_wait - where promoters wait for candidates
 * @nid: slow node with a ring
 */
wait_queue_head_t *ring_wait(int nid)
{
	return &rings[nid]->wait;
}
