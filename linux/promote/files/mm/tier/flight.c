// SPDX-License-Identifier: GPL-2.0
/*
 * Promotions under way, and the changes of policies that wait for them.
 *
 * Invariant: when a system call has changed a policy or a cpuset, no page arrives any more that
 * the new one forbids, and pages that arrived before have been found by MPOL_MF_MOVE and by a
 * change of cpuset.mems.
 *
 * A call of tier_promote() is a flight.  It isolates a batch of folios, asks about each, migrates
 * those that are allowed, and ends the batch: at most 512 base pages, or one larger folio.  For
 * the time of a batch the flight has a bit for each address space and each object that it has
 * asked (tier_flight_asks()), and for each folio that it has isolated.
 *
 * A change of a policy first makes the policy visible.  Then it looks for flights that have asked
 * its own address space or object (tier_wait_add()), and waits for the end of their batches, with
 * no lock held (tier_wait()).  Batches that begin or ask later see the new policy.  It does not
 * wait if the new policy forbids no node that the old one allowed.
 *
 * mbind(2) looks for pages before it sets the policy, and has the VMA locked for writing until
 * both are done.  An address space with MMF_TIER_VMA_POLICY is asked with that lock for reading.
 * So a flight asks before mbind(2) locks the VMA, or the flight is refused.  As soon as the VMA is
 * locked, tier_vma_locked() adds the flights that have asked.  The pages of a flight whose batch
 * has ended by then have arrived, and mbind(2) finds them.  mbind(2) waits after the change, and
 * looks for pages once more.
 *
 * Fork copies migration entries of a batch that has not asked the child: the child takes over the
 * parent's bit (__tier_mm_forked()).
 *
 * Not covered: where a change of cpusets moves no pages, it waits for none.  These are control
 * groups v1 without memory_migrate, a task that changes its group without the leader of its
 * threads, CLONE_INTO_CGROUP, and page cache that no PTE of the group maps.  What is under way
 * then arrives, as what has arrived before stays.  And mbind(2) with MPOL_MF_STRICT may return -EIO
 * for page cache of another group that is just promoted.
 *
 * Two keys may share a bit: a change waits for nothing then.  TIER_ASKED_MAX and TIER_ASKED_EACH
 * keep that rare: at most 3,072 of 16,384 bits are set, as a rule one or two.
 *
 * Cost.  A change looks at a word of each flight, one for each slow node as a rule.  A flight has
 * 4 KiB, clears 2.5 KiB of bits for each batch, and is never freed.
 */

#include <linux/bitmap.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <linux/swapops.h>
#include <linux/tier_policy.h>
#include <linux/wait.h>

#include "events.h"
#include "fault.h"
#include "flight.h"

static struct tier_flight *tier_flights[TIER_FLIGHTS];	/* set once each */
static unsigned long tier_flights_busy;			/* slots, a bit each */
static atomic64_t tier_flight_seq = ATOMIC64_INIT(0);	/* id of the last batch that has begun */

static_assert(TIER_FLIGHTS <= BITS_PER_LONG);

/**
 * tier_flight_get - begin a flight
 *
 * Context: process context, may sleep.  A full barrier.
 * Return: the flight of this task until tier_flight_put(); NULL if there are too many, or no
 * memory.
 */
struct tier_flight *tier_flight_get(void)
{
	struct tier_flight *flight;
	int slot;

	for (slot = 0; slot < TIER_FLIGHTS; slot++)
		if (!test_and_set_bit(slot, &tier_flights_busy))
			break;
	if (slot == TIER_FLIGHTS)
		return NULL;
	flight = tier_flights[slot];
	if (!flight) {
		flight = kzalloc(sizeof(*flight), GFP_KERNEL | __GFP_NOWARN);
		if (!flight) {
			clear_bit_unlock(slot, &tier_flights_busy);
			return NULL;
		}
		flight->slot = slot;
		flight->id = U64_MAX;
		init_waitqueue_head(&flight->wait);
		spin_lock_init(&flight->lock);
		/* Pairs with __tier_wait_add(), which depends on the address. */
		smp_store_release(&tier_flights[slot], flight);
		smp_mb();	/* as test_and_set_bit(), for tier_flights_wait_idle() */
	}
	return flight;
}

/**
 * tier_flight_put - end a flight
 * @flight: that has no isolated folios any more
 *
 * Context: process context.
 */
void tier_flight_put(struct tier_flight *flight)
{
	/* A batch that could isolate nothing */
	if (flight->id != U64_MAX)
		tier_flight_end(flight, NULL);
	clear_bit_unlock(flight->slot, &tier_flights_busy);
	smp_mb__after_atomic();	/* pairs with prepare_to_wait() */
	wake_up(&flight->wait);
}

static void tier_flight_wake(struct tier_flight *flight)
{
	smp_mb();	/* The id comes first; pairs with prepare_to_wait(). */
	if (waitqueue_active(&flight->wait))
		wake_up_all(&flight->wait);
}

/**
 * tier_flight_begin - begin a batch
 * @flight: of the running task
 * @nid:    target
 *
 * Context: process context.
 */
void tier_flight_begin(struct tier_flight *flight, int nid)
{
	flight->nid = nid;
	flight->refused = 0;
	flight->task = current;
	/* A full barrier: with a higher id than a waiter has read, its change is seen. */
	WRITE_ONCE(flight->id, atomic64_inc_return(&tier_flight_seq));
	smp_wmb();	/* The id comes before the bits; pairs with __tier_wait_add(). */
	tier_flight_wake(flight);
}

/**
 * tier_flight_end - all folios of a batch, but for @next, have moved or are back on the LRU
 * @flight: of the running task
 * @next:   that is isolated and the first of another batch with the same target, which begins;
 *          or NULL
 *
 * Context: process context.
 */
void tier_flight_end(struct tier_flight *flight, const struct folio *next)
{
	unsigned int i, keep = next ? hash_ptr(next, TIER_FOLIO_BITS) : UINT_MAX;

	for (i = 0; i < ARRAY_SIZE(flight->judged); i++) {
		if (flight->judged[i].mm)
			mmdrop(flight->judged[i].mm);
		flight->judged[i].mm = NULL;
	}
	bitmap_zero(flight->asked, 1 << TIER_ASKED_BITS);
	flight->nr_asked = 0;
	flight->nr_each = 0;
	for (i = 0; i < ARRAY_SIZE(flight->folios); i++)
		WRITE_ONCE(flight->folios[i], i == BIT_WORD(keep) ? BIT_MASK(keep) : 0);
	if (next) {
		tier_flight_begin(flight, flight->nid);
		return;
	}
	/* What was migrated is visible to a waiter that finds the batch over. */
	smp_store_release(&flight->id, U64_MAX);
	tier_flight_wake(flight);
	/* A waiter that gets the lock later finds the batch over. */
	spin_lock(&flight->lock);
	if (flight->hurried && !task_nice(current))
		set_user_nice(current, flight->nice);
	flight->hurried = false;
	spin_unlock(&flight->lock);
}

/*
 * A waiter does not wait for a nice thread: until the flight has no batch any more, the thread has
 * the priority of most tasks.  While the batch is not over, the task of the flight stays.
 */
static void tier_flight_hurry(struct tier_flight *flight, u64 seq)
{
	spin_lock(&flight->lock);
	/* Pairs with tier_flight_begin(): the task was written before the id. */
	if (smp_load_acquire(&flight->id) <= seq && task_nice(flight->task) > 0) {
		flight->hurried = true;
		flight->nice = task_nice(flight->task);
		set_user_nice(flight->task, 0);
	}
	spin_unlock(&flight->lock);
}

/**
 * tier_flights_wait_idle - wait until no flight is under way
 *
 * The caller has made sure that a flight that begins now does nothing.
 *
 * Context: may sleep.
 */
void tier_flights_wait_idle(void)
{
	int slot;

	for (slot = 0; slot < TIER_FLIGHTS; slot++)
		if (READ_ONCE(tier_flights[slot]))
			wait_event(tier_flights[slot]->wait,
				   !test_bit_acquire(slot, &tier_flights_busy));
}

/**
 * __tier_wait_add - see tier_wait_add() and tier_wait_add_folio()
 * @wait:  to add to
 * @key:   struct mm_struct or struct address_space; or struct folio
 * @asked: it is not a folio
 */
void __tier_wait_add(struct tier_wait *wait, const void *key, bool asked)
{
	unsigned int bit = hash_ptr(key, asked ? TIER_ASKED_BITS : TIER_FOLIO_BITS);
	int slot;

	if (tier_fault(WAIT))
		return;
	smp_mb();	/* What the caller has changed comes first. */
	/* A batch with a higher id has begun after the change.  Read before the bits. */
	wait->seq = atomic64_read_acquire(&tier_flight_seq);
	for (slot = 0; slot < TIER_FLIGHTS; slot++) {
		struct tier_flight *flight = READ_ONCE(tier_flights[slot]);

		if (flight && test_bit(bit, asked ? flight->asked : flight->folios))
			wait->slots |= BIT(slot);
	}
	smp_rmb();	/* The bits come before the id, which tier_wait() reads. */
}

/**
 * __tier_wait_add_entry - see tier_wait_add_entry()
 * @wait:  to add to
 * @entry: a migration entry
 */
void __tier_wait_add_entry(struct tier_wait *wait, swp_entry_t entry)
{
	__tier_wait_add(wait, pfn_swap_entry_folio(entry), false);
}

/**
 * __tier_wait_add_objects - see tier_wait_add_objects()
 * @wait:  to add to
 * @mm:    that maps them; mmap_lock is held
 * @start: of the mappings
 * @end:   of the mappings
 */
void __tier_wait_add_objects(struct tier_wait *wait, struct mm_struct *mm, unsigned long start,
			     unsigned long end)
{
	VMA_ITERATOR(vmi, mm, start);
	struct vm_area_struct *vma;

	for_each_vma_range(vmi, vma, end)
		if (vma->vm_file && vma->vm_ops && vma->vm_ops->set_policy)
			__tier_wait_add(wait, vma->vm_file->f_mapping, true);
}

/**
 * __tier_wait - see tier_wait()
 * @wait: with flights
 */
bool __tier_wait(struct tier_wait *wait)
{
	unsigned long slot;
	bool done = true;

	count_tier_events(TIER_POLICY_WAIT, 1);
	for_each_set_bit(slot, &wait->slots, TIER_FLIGHTS) {
		struct tier_flight *flight = tier_flights[slot];

		tier_flight_hurry(flight, wait->seq);
		/* What the batch has migrated is visible then: pairs with tier_flight_end(). */
		if (wait_event_killable(flight->wait, smp_load_acquire(&flight->id) > wait->seq)) {
			done = false;
			break;
		}
	}
	wait->slots = 0;
	return done;
}

/**
 * __tier_mm_forked - see tier_mm_forked()
 * @mm:   new
 * @from: of the process that forks
 *
 * A batch may end while this function runs.  Then the child's bit stays set in the next batch, and
 * a change in @mm waits for that batch without need.
 */
void __tier_mm_forked(struct mm_struct *mm, const struct mm_struct *from)
{
	int slot;

	for (slot = 0; slot < TIER_FLIGHTS; slot++) {
		struct tier_flight *flight = READ_ONCE(tier_flights[slot]);

		if (flight && test_bit(hash_ptr(from, TIER_ASKED_BITS), flight->asked))
			set_bit(hash_ptr(mm, TIER_ASKED_BITS), flight->asked);
	}
}

/**
 * __tier_task_policy_changed - see tier_task_policy_changed()
 * @old: of the calling thread, which has another one now
 */
void __tier_task_policy_changed(const struct mempolicy *old)
{
	struct tier_wait wait = {};
	int nid;

	for_each_node_state(nid, N_MEMORY) {
		if (!tier_policy_allows(old, nid) || tier_policy_allows(current->mempolicy, nid))
			continue;
		__tier_wait_add(&wait, current->mm, true);
		tier_wait(&wait);
		return;
	}
}
