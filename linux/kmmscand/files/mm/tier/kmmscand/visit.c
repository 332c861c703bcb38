// SPDX-License-Identifier: GPL-2.0
/*
 * Visits: a worker looks at address spaces that are due.
 *
 * A visit clears Accessed bits, flushes, waits for a window, looks, flushes, waits, and looks again
 * (walk.c).  A page that both looks find accessed is a candidate.  The window is the one that the
 * promoters of the slow nodes ask for (policy_update_window()).  Huge mappings have a window of
 * 1/512 of that one, because heat for each byte has to compete with that of small pages; all of
 * their looks are over before the first look at the others.  Small address spaces share the
 * windows, not the flushes.
 *
 * No flush follows the last look.  So TLBs hide accesses to the pages of that look.  The next visit
 * chooses all of their page tables, and sends the flush that is owed (space->owed).
 *
 * An address space has a turn over all of its page tables in one period of 2^turn (policy_turn()):
 * as long as a turn costs more than to promote what it finds, turns become longer.  Flushes are
 * part of the cost: VISIT_FLUSH_NS for each CPU that runs the space.  In between there is a look
 * for change every VISIT_CHANGE periods: one look at VISIT_SAMPLE page tables in the shortest
 * window.  Three times the pages of the mean (policy_jump()) mean that something else has become
 * hot.
 *
 * A turn over a large address space has as many visits one after the other as it takes.  A visit
 * ends with visit->regions page tables, or when clearing has taken a quarter of a window, or when
 * as many candidates are expected as two periods can move (policy_enough()).
 *
 * Address spaces of different kinds (enum visit_kind) are not visited together, because windows
 * differ.
 *
 * Locking: a space that a worker has taken is the worker's (space.c).
 */

#define pr_fmt(fmt) "kmmscand: " fmt

#include <linux/cpumask.h>
#include <linux/delay.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmu_age.h>
#include <linux/tier.h>

#include "control.h"
#include "cpu.h"
#include "events.h"
#include "fault.h"
#include "flush.h"
#include "kmmscand.h"
#include "period.h"
#include "policy.h"
#include "ring.h"
#include "space.h"
#include "victim.h"
#include "visit.h"
#include "walk.h"

#include <trace/events/tier_scan.h>

/* Regions of a visit at most */
#define VISIT_REGIONS		4096UL
/* A huge mapping has so many times the accesses of a small one */
#define VISIT_HUGE_SHIFT	(PMD_SHIFT - PAGE_SHIFT)
#define VISIT_HUGE_LEAST_US	250U
/* Four huge mappings tell a rate */
#define VISIT_HUGE_HEAT		4
/* Of guests, which answer for page tables and are flushed by interrupts; and from flush to flush */
#define VISIT_GUEST_US		64000U
#define VISIT_GUEST_NS		(250 * NSEC_PER_MSEC)
/* A flush of a CPU with the misses that follow; and the mean time between flushes of a space */
#define VISIT_FLUSH_NS		22000
#define VISIT_FLUSHES_NS	(NSEC_PER_SEC / 45)
/* Page tables of a look for change, and periods from one to the next */
#define VISIT_SAMPLE		32U
#define VISIT_CHANGE		4
/* An address space whose mmap_lock was taken is due again after a period by this */
#define VISIT_BUSY		8

static u64 visit_period_ns(void)
{
	return (u64)kmmscand_period_ms * NSEC_PER_MSEC;
}

/* Sleep until some time after the last walk has begun. */
static void visit_wait(struct visit *visit, u64 until)
{
	u64 now = ktime_get_ns(), ns = until - min(until, now);

	kmmscand_cpu_charge(visit->cpu);
	if (kthread_should_stop())
		return;
	if (ns < 20 * NSEC_PER_MSEC)
		usleep_idle_range(ns / NSEC_PER_USEC, (ns + ns / 8) / NSEC_PER_USEC + 1);
	else
		schedule_timeout_idle(nsecs_to_jiffies(ns));
}

/* So many page tables that two periods can move what they will have, as far as can be known */
static unsigned int visit_most(const struct visit *visit, const struct space *space)
{
	u64 enough = policy_enough(period_quota(&visit->nodes->slow));
	unsigned int left = visit->regions - visit->nr;

	if (!space->found || !enough)
		return left;
	return clamp_t(u64, div_u64(enough * space->found_of, space->found), 1, left);
}

/* The distance of page tables in a look for change, for about as many as the space has */
static unsigned long visit_stride(const struct space *space)
{
	return (space->tables / VISIT_SAMPLE + 1) * PMD_SIZE;
}

static enum visit_kind visit_kind(const struct space *space)
{
	if (ktime_before(ktime_get(), space->full))
		return VISIT_CHANGE;
	return mmu_age_secondary(space->mm) ? VISIT_GUEST : VISIT_FULL;
}

static void visit_learn(struct visit *visit, struct piece *piece);

/* Clear the bits of an address space that is due.  Returns false if there are no more. */
static bool visit_clear(struct visit *visit, u64 deadline)
{
	struct piece *piece = &visit->piece[visit->nr_pieces];
	struct space *space = space_take(visit->home);
	enum visit_kind kind;
	int ret;

	if (!space)
		return false;
	kind = visit_kind(space);
	if (!visit->nr_pieces)
		visit->kind = kind;
	if (kind != visit->kind) {
		space_give(space, space->due, true);
		return ++visit->bumped < VISIT_PIECES;
	}
	space->group = tier_mm_group(space->mm);
	if (!space->next)
		space->told = jiffies;
	*piece = (struct piece) {
		.space = space, .begin = visit->nr, .end = visit->nr, .cleared = space->owed,
	};
	if (visit->kind == VISIT_CHANGE)
		ret = walk_space(visit, piece, WALK_SAMPLE, deadline, VISIT_SAMPLE,
				 visit_stride(space));
	else
		ret = walk_space(visit, piece, WALK_CLEAR, deadline, visit_most(visit, space), 0);
	if (ret == -ESRCH) {
		space_drop(space);
		visit->nr = piece->begin;
		return true;
	}
	space->owed = piece->cleared;
	if (ret == -EBUSY && piece->begin == piece->end) {
		space_give(space, ktime_add_ns(ktime_get(), visit_period_ns() / VISIT_BUSY), true);
		return true;
	}
	piece->done = ret == 1;
	piece->next = piece->begin;
	/* There is nothing to look at, so the visit goes on with another one. */
	if (piece->begin == piece->end)
		visit_learn(visit, piece);
	else
		visit->nr_pieces++;
	return true;
}

static void visit_flush(struct visit *visit)
{
	unsigned int i;

	for (i = 0; i < visit->nr_pieces; i++) {
		struct piece *piece = &visit->piece[i];

		flush_cleared(piece->space->mm, piece->cleared);
		piece->flushes += !!(piece->cleared & MMU_AGE_CPU);
		piece->guest_flushes += !!(piece->cleared & MMU_AGE_SECONDARY);
		piece->cleared = 0;
	}
}

/* A look begins, perhaps late. */
static void visit_time(struct visit *visit, struct piece *piece, enum walk_look look, bool huge)
{
	u64 now = ktime_get_ns(), window_us = huge ? visit->huge_us : visit->window_us;

	if (look == WALK_CHANGE)
		piece->late |= now - visit->flushed > window_us * NSEC_PER_USEC * 3 / 2;
	else if (look == WALK_SECOND)
		piece->between_us[huge] = div_u64(now - piece->looked, NSEC_PER_USEC);
	piece->looked = now;
}

/* Look at all pieces, and a second time at pieces whose mmap_lock was taken. */
static void visit_look(struct visit *visit, enum walk_look look, bool huge)
{
	unsigned int i, tries;

	for (i = 0; i < visit->nr_pieces; i++)
		visit->piece[i].next = visit->piece[i].begin;
	for (tries = 0; tries < 2; tries++) {
		for (i = 0; i < visit->nr_pieces && !kthread_should_stop(); i++) {
			struct piece *piece = &visit->piece[i];

			if (piece->next == piece->end || (huge && !piece->huge))
				continue;
			if (!tries)
				visit_time(visit, piece, look, huge);
			piece->missed = !walk_regions(visit, piece, look, huge);
			piece->held |= tries && piece->missed && !kmmscand_fault(MISSED);
		}
	}
}

/* Two looks at huge mappings, or at page tables, and one flush between them */
static void visit_two_looks(struct visit *visit, bool huge)
{
	u64 window = (u64)(huge ? visit->huge_us : visit->window_us) * NSEC_PER_USEC;
	u64 begun;
	int nid;

	visit_wait(visit, visit->flushed + window);
	begun = ktime_get_ns();
	visit_look(visit, WALK_FIRST, huge);
	visit_flush(visit);
	visit_wait(visit, begun + window);
	visit_look(visit, WALK_SECOND, huge);
	for_each_node_mask(nid, visit->nodes->slow)
		ring_wake(nid);
}

static void visit_looks(struct visit *visit)
{
	bool huge = false, small = false;
	unsigned int i;

	visit_flush(visit);
	visit->flushed = ktime_get_ns();
	for (i = 0; i < visit->nr_pieces; i++) {
		huge |= visit->piece[i].huge;
		small |= visit->piece[i].end - visit->piece[i].begin > visit->piece[i].huge;
	}
	if (visit->kind != VISIT_CHANGE) {
		if (huge)
			visit_two_looks(visit, true);
		if (small)
			visit_two_looks(visit, false);
		return;
	}
	if (huge) {
		visit_wait(visit, visit->flushed + (u64)visit->huge_us * NSEC_PER_USEC);
		visit_look(visit, WALK_CHANGE, true);
	}
	visit_wait(visit, visit->flushed + (u64)visit->window_us * NSEC_PER_USEC);
	visit_look(visit, WALK_CHANGE, false);
}

/* When is the next visit due? */
static ktime_t visit_due(struct visit *visit, const struct piece *piece, bool jump)
{
	u64 period = visit_period_ns(), scaled = period * max(tier_mm_scale(piece->space->mm), 1U);
	u64 least = max(piece->flushes * (u64)VISIT_FLUSHES_NS,
			piece->guest_flushes * (u64)VISIT_GUEST_NS);
	ktime_t begun = ns_to_ktime(visit->begun), full = piece->space->full;

	if (jump)
		full = begun;
	else if (visit->kind != VISIT_CHANGE && piece->done)
		full = ktime_add_ns(begun, scaled << piece->space->turn);
	else if (visit->kind != VISIT_CHANGE)
		/* The next part at once, unless more would not move. */
		full = ktime_add_ns(begun, piece->pushed <
				    policy_enough(period_quota(&visit->nodes->slow)) ?
				    scaled - period : scaled);
	piece->space->full = full;
	return max_t(ktime_t, min_t(ktime_t, full, ktime_add_ns(begun, VISIT_CHANGE * scaled)),
		     ktime_add_ns(begun, least));
}

/* What has a look for change shown? */
static bool visit_learn_change(struct visit *visit, struct piece *piece)
{
	struct space *space = piece->space;
	int nid;

	if (piece->missed || piece->late ||
	    !policy_jump(&space->change, piece->sampled, piece->sampled_of))
		return false;
	space->turn = 0;
	for_each_node_mask(nid, visit->nodes->slow)
		period_begin_anew(nid, space->group);
	return true;
}

/* And looks for candidates */
static void visit_learn_full(struct visit *visit, struct piece *piece, u64 cost)
{
	const nodemask_t *slow = &visit->nodes->slow;
	struct space *space = piece->space;
	unsigned int nr = piece->end - piece->begin;
	unsigned int now = jiffies;
	bool tell = piece->done || now - space->told >= msecs_to_jiffies(kmmscand_period_ms);

	if (!piece->missed) {
		victim_found(space->group, piece->first[0], piece->last[0], piece->between_us[0]);
		victim_found(space->group, piece->first[1] * VISIT_HUGE_HEAT,
			     piece->last[1] * VISIT_HUGE_HEAT,
			     piece->between_us[1] << VISIT_HUGE_SHIFT);
	}
	space->cost += cost;
	space->pushed += piece->pushed;
	space->young += piece->young + (piece->huge << VISIT_HUGE_SHIFT);
	space->read += piece->tables;
	if (!piece->missed) {
		space->found = piece->pushed;
		space->found_of = nr;
	}
	period_visited(slow, tell ? visit->window_us : U32_MAX, tell ? space->young : 0);
	if (tell) {
		space->told = now;
		space->young = 0;
	}
	if (!piece->done)
		return;
	if (!piece->missed)
		space->turn = policy_turn(space->turn, space->cost, min(space->pushed, U32_MAX),
					  period_loss(slow, space->group), period_page_ns(slow),
					  period_saturated(slow));
	space->tables = space->read;
	space->cost = 0;
	space->pushed = 0;
	space->read = 0;
	space->number++;
	count_kmmscand_events(KMMSCAND_MM_SCANNED, 1);
}

/*
 * Where the visit has looked, and what it and the turn have found.  With a missed look the visit
 * tells where only: what the first look misses, the second one does not look for.
 * @pushed: candidates of the turn so far
 */
static void visit_span(const struct visit *visit, const struct piece *piece, unsigned long pushed)
{
	struct span span = piece->space->span;
	unsigned int nr = piece->end - piece->begin;

	if (nr) {
		span.begin = visit->region[piece->begin].addr;
		span.end = visit->region[piece->end - 1].addr + PMD_SIZE;
	}
	if (!piece->held) {
		if (nr)
			span.window_us = piece->huge == nr ? visit->huge_us : visit->window_us;
		span.at = jiffies;
		span.first = piece->first[0] + piece->first[1];
		span.last = piece->last[0] + piece->last[1];
		span.pushed = piece->pushed;
		span.turn = piece->space->turn;
	}
	piece->space->missed |= piece->held;
	if (piece->done) {
		if (!piece->space->missed) {
			span.turn_at = span.at ?: 1;
			span.turn_pushed = min(pushed, U32_MAX);
		}
		piece->space->missed = false;
	}
	space_found(piece->space, &span);
}

static void visit_trace(const struct visit *visit, const struct piece *piece, bool change, u64 cost)
{
	u64 cgroup;
	pid_t pid;

	space_owner(piece->space->mm, &pid, &cgroup);
	trace_tier_scan_pass(pid, cgroup, change, !change && piece->done, visit->window_us,
			     piece->end - piece->begin, piece->first[0] + piece->first[1],
			     piece->last[0] + piece->last[1], piece->pushed, cost,
			     piece->space->turn);
}

static void visit_learn(struct visit *visit, struct piece *piece)
{
	struct space *space = piece->space;
	unsigned int cpus = cpumask_weight(mm_cpumask(space->mm));
	u64 cost = piece->cost_ns + (u64)piece->flushes * cpus * VISIT_FLUSH_NS;
	bool change = visit->kind == VISIT_CHANGE, jump = false;
	unsigned long pushed = space->pushed + piece->pushed;

	space->owed = piece->cleared;
	if (change) {
		jump = visit_learn_change(visit, piece);
	} else {
		visit_learn_full(visit, piece, cost);
		visit_span(visit, piece, pushed);
	}
	if (trace_tier_scan_pass_enabled())
		visit_trace(visit, piece, change, cost);
	/* The parts of a turn count as one visit. */
	space_give(space, visit_due(visit, piece, jump), !change && !piece->done);
}

/**
 * visit_alloc - prepare visits
 * @home:  fast node whose address spaces are visited
 * @nodes: tiers
 * @cpu:   CPU time of the worker
 *
 * A small machine has few page tables, and not much fast memory to spare.
 *
 * Context: may sleep.
 * Return: for kvfree(), or NULL.
 */
struct visit *visit_alloc(int home, const struct kmmscand_nodes *nodes, struct kmmscand_cpu *cpu)
{
	unsigned int regions = clamp(totalram_pages() / PTRS_PER_PTE, 64UL, VISIT_REGIONS);
	struct visit *visit;

	visit = kvzalloc_node(struct_size(visit, region, regions), GFP_KERNEL, home);
	if (!visit)
		return NULL;
	visit->home = home;
	visit->nodes = nodes;
	visit->cpu = cpu;
	visit->regions = regions;
	return visit;
}

/**
 * visit_gather - begin a visit: take what is due, and clear Accessed bits
 * @visit: from visit_alloc()
 *
 * Context: a worker, may sleep.
 * Return: false if nothing was due.
 */
bool visit_gather(struct visit *visit)
{
	bool any = false;
	u64 deadline;

	visit->nr = 0;
	visit->nr_pieces = 0;
	visit->bumped = 0;
	visit->window_us = period_window_us(&visit->nodes->slow);
	visit->begun = ktime_get_ns();
	deadline = visit->begun + (u64)visit->window_us * NSEC_PER_USEC / 4;
	while (visit->nr_pieces < VISIT_PIECES && visit->nr < visit->regions &&
	       !kthread_should_stop() && visit_clear(visit, deadline)) {
		any = true;
		if (ktime_get_ns() >= deadline)
			break;
	}
	return any;
}

/**
 * visit_finish - flush and look, and learn from that
 * @visit: after visit_gather()
 *
 * Context: a worker, may sleep.
 */
void visit_finish(struct visit *visit)
{
	unsigned int i;

	if (visit->kind == VISIT_CHANGE)
		visit->window_us = POLICY_WINDOW_LEAST_US;
	else if (visit->kind == VISIT_GUEST)
		visit->window_us = max(visit->window_us, VISIT_GUEST_US);
	visit->huge_us = kmmscand_fault(HUGE) ? visit->window_us :
			 max(visit->window_us >> VISIT_HUGE_SHIFT, VISIT_HUGE_LEAST_US);
	if (visit->nr)
		visit_looks(visit);
	for (i = 0; i < visit->nr_pieces; i++)
		visit_learn(visit, &visit->piece[i]);
}
