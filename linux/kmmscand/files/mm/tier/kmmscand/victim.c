// SPDX-License-Identifier: GPL-2.0
/*
 * Victims: idle pages of a fast node that are demoted to make room for promotions.
 *
 * Scanners tell how often the candidates of each group (tier_group()) are accessed: the share of
 * pages that the first look of a visit finds and the second one finds again (policy_rate()).
 * A victim is a page that was idle for several times the mean time T between two accesses of a
 * candidate (policy_idle_ms()).  So equally hot pages do not take turns.
 *
 * An attempt to find victims is for the candidates of one group; groups take turns, and each waits
 * for longer after an attempt that was not worth its cost (policy_attempt_ends()), by the pages
 * that could be demoted.  An attempt begins a new generation of the node (tier_age()),
 * flushes TLBs, waits for T, and begins another one.  What is then in older generations was not
 * accessed in between.  The promoter sleeps for a T of up to VICTIM_SLEEP_MS; for a longer one the
 * promoter comes back.  The second generation of an attempt is the first one of the next, if that
 * follows soon.
 *
 * MGLRU has four generations, so attempts cannot overlap.  A group whose T is at most half as long
 * does not wait for the end of another group's attempt, but begins its own.  The group that has
 * lost its attempt so comes next, and keeps that one; its T is then at most VICTIM_OWED_MS, so that
 * the others do not wait for long.
 *
 * The victims also serve other groups, if their candidates are as hot (policy_serves()).
 *
 * What kswapd ages in between is younger than the attempt: tier_demote() leaves alone what is in
 * generations that began after the first tier_age(), and what has been accessed since the second.
 * The rate of groups whose pages are not looked at twice (page cache that is only read) is not
 * known: they get the lowest one.  Pages of an address space that no worker knows (opted out, or
 * new) may be in a TLB, and then look idle, as they do for MGLRU.
 *
 * Cost of an attempt: two walks over page tables by MGLRU and a look up for each address space.
 * The share of promotion (promote_cpu_permille) pays for them.
 *
 * Locking: a fast node's mutex is held for a walk, and while pages of the node are demoted.
 * Other promoters do not wait for it.  Below it: spaces_lock.  victim_lock protects what workers
 * tell.
 */

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/sched.h>
#include <linux/sched/cputime.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/tier.h>

#include "kmmscand.h"
#include "policy.h"
#include "space.h"
#include "victim.h"

/* For so long a promoter sleeps in a period */
#define VICTIM_SLEEP_MS		250
/* For a walk that ended so many periods ago, the waiting does not begin anew */
#define VICTIM_PERIODS		3
/* Fewer candidates pay for no attempt */
#define VICTIM_LEAST		16
/* Victims expected at least */
#define VICTIM_EXPECTED		512UL
/* The longest T of a group that has lost an attempt */
#define VICTIM_OWED_MS		4000U

struct victim_node {
	struct mutex lock;	/* for all below */
	struct policy_wait wait[TIER_GROUPS];
	DECLARE_BITMAP(anew, TIER_GROUPS);	/* waiting begins anew; set without the lock */
	unsigned int group;	/* of the last attempt */
	unsigned int owed;	/* that has lost an attempt, or TIER_GROUPS */
	u64 owed_ms;		/* when */
	u32 rate;		/* of the candidates of @group */
	unsigned long need;	/* pages that it can exchange */
	bool pending;		/* the second walk is still to come */
	unsigned long known;	/* base pages that it has found, at most */
	atomic_long_t made;	/* base pages of room that its victims have left, not yet used */
	unsigned long since;	/* these were idle since then, in jiffies */
	unsigned long aged;	/* the end of the last walk, in jiffies, if there was one */
	u64 aged_ms;		/* the same, or 0 */
	u64 cost_ns;		/* of the walks */
	bool judged;		/* the last attempt was, or there was none */
	bool tried;		/* to demote some of its victims */
	unsigned long taken;	/* base pages of these that have been demoted */
	unsigned long expected;	/* of the next attempt's victims, at most */
};

static struct victim_node *victim_nodes[MAX_NUMNODES];

static DEFINE_SPINLOCK(victim_lock);
static struct policy_heat victim_heat[TIER_GROUPS];
static unsigned long victim_aged;	/* in jiffies */

/**
 * victim_stop - forget everything
 *
 * Context: no worker and no promoter runs.
 */
void victim_stop(void)
{
	int nid;

	for_each_node(nid) {
		kfree(victim_nodes[nid]);
		victim_nodes[nid] = NULL;
	}
}

/**
 * victim_start - prepare fast nodes
 * @top: fast nodes
 *
 * Context: before workers and promoters start.
 * Return: 0 or -ENOMEM; victim_stop() is to be called in both cases.
 */
int victim_start(const nodemask_t *top)
{
	struct victim_node *v;
	int nid;

	for_each_node_mask(nid, *top) {
		v = kzalloc(sizeof(*v), GFP_KERNEL);
		if (!v)
			return -ENOMEM;
		mutex_init(&v->lock);
		v->owed = TIER_GROUPS;
		v->judged = true;
		v->expected = ULONG_MAX;
		victim_nodes[nid] = v;
	}
	memset(victim_heat, 0, sizeof(victim_heat));
	return 0;
}

/**
 * victim_found - a worker has looked twice
 * @group:     of the pages
 * @first:     pages that the first look has found
 * @last:      of these, pages that the second look has found
 * @window_us: between the looks, or 0: there was no second one
 *
 * Context: a worker.
 */
void victim_found(unsigned int group, unsigned long first, unsigned long last,
		  u32 window_us)
{
	if (!window_us)
		return;
	spin_lock(&victim_lock);
	policy_heat_add(&victim_heat[group], min(first, U32_MAX), min(last, U32_MAX),
			window_us);
	spin_unlock(&victim_lock);
}

/**
 * victim_period - a period is over
 *
 * Context: a promoter; each calls this, and the first one in a period counts.
 */
void victim_period(void)
{
	unsigned long period = msecs_to_jiffies(kmmscand_period_ms);
	int i;

	spin_lock(&victim_lock);
	if (time_before(jiffies, victim_aged + period - period / 8)) {
		spin_unlock(&victim_lock);
		return;
	}
	victim_aged = jiffies;
	for (i = 0; i < TIER_GROUPS; i++)
		policy_heat_age(&victim_heat[i]);
	spin_unlock(&victim_lock);
}

/* What is not known is the lowest one. */
static u32 victim_rate(unsigned int group)
{
	return READ_ONCE(victim_heat[group].rate);
}

/**
 * victim_known - how many pages may make room?
 * @nid: fast node
 *
 * Context: any; a snapshot.
 * Return: base pages at most; 0 while another promoter has the victims of the node.
 */
unsigned long victim_known(int nid)
{
	struct victim_node *v = victim_nodes[nid];

	return mutex_is_locked(&v->lock) ? 0 : READ_ONCE(v->known);
}

/**
 * victim_expected - of how many pages of known victims can be expected that they make room?
 * @nid: fast node
 *
 * What is old may be in use again, or may not be demoted.  So an attempt is expected to give at
 * most twice what the last one has given.
 *
 * Context: any; a snapshot.
 * Return: base pages.
 */
unsigned long victim_expected(int nid)
{
	return min(victim_known(nid), READ_ONCE(victim_nodes[nid]->expected));
}

/**
 * victim_made - how much room have victims made?
 * @nid: fast node
 *
 * The room is for candidates that the victims serve, within the quota of their group.
 *
 * Context: any; a snapshot.
 * Return: base pages.
 */
unsigned long victim_made(int nid)
{
	return max(atomic_long_read(&victim_nodes[nid]->made), 0L);
}

/**
 * victim_used - candidates have taken room that victims have made
 * @nid: fast node
 * @nr:  base pages
 *
 * Context: any.
 */
void victim_used(int nid, unsigned long nr)
{
	/* At an attempt that begins meanwhile the rest may come out negative. */
	atomic_long_sub(nr, &victim_nodes[nid]->made);
}

/**
 * victim_serves - may the known victims make room for pages of a group?
 * @nid:   fast node
 * @group: number of the group
 *
 * Context: any; a snapshot.
 */
bool victim_serves(int nid, unsigned int group)
{
	struct victim_node *v = victim_nodes[nid];

	return (READ_ONCE(v->known) || victim_made(nid)) &&
	       policy_serves(READ_ONCE(v->rate), victim_rate(group));
}

static u32 victim_idle_ms(const struct victim_node *v)
{
	return min(policy_idle_ms(v->rate), v->group == v->owed ? VICTIM_OWED_MS : U32_MAX);
}

static u64 victim_now_ms(void)
{
	return ktime_to_ms(ktime_get());
}

/* One walk over the node.  Returns the pages that are old. */
static unsigned long victim_walk(struct victim_node *v, int nid)
{
	u64 start = task_sched_runtime(current);
	unsigned long old = tier_age(nid);

	spaces_flush();
	v->aged = jiffies;
	v->aged_ms = victim_now_ms();
	v->cost_ns += task_sched_runtime(current) - start;
	return old;
}

/* Does a group need victims, and is it time to look for some? */
static bool victim_due(struct victim_node *v, int nid, unsigned int group,
		       struct policy_period period, const struct victim_need *need, u64 now_ms)
{
	static const struct policy_wait now;
	bool serves = victim_serves(nid, group);

	if (need[group].hot < VICTIM_LEAST)
		return false;
	period.victims = serves ? min(v->known, U32_MAX) : 0;
	return policy_attempt_due(group == v->owed ? &now : &v->wait[group], victim_rate(group),
				  &period, min(need[group].waiting, U32_MAX), now_ms);
}

/* The group that looks for victims next, or TIER_GROUPS.  Groups take turns. */
static unsigned int victim_next(struct victim_node *v, int nid, const struct policy_period *period,
				const struct victim_need *need, u64 now_ms)
{
	unsigned int i, group;

	if (v->pending && v->group == v->owed)
		return TIER_GROUPS;
	if (!v->pending && v->owed < TIER_GROUPS) {
		if (victim_due(v, nid, v->owed, *period, need, now_ms))
			return v->owed;
		/* Another promoter may know of candidates. */
		if (now_ms - v->owed_ms > VICTIM_OWED_MS)
			v->owed = TIER_GROUPS;
	}
	for (i = 1; i <= TIER_GROUPS; i++) {
		group = (v->group + i) % TIER_GROUPS;
		if (v->pending && 2 * policy_idle_ms(victim_rate(group)) > policy_idle_ms(v->rate))
			continue;
		if (victim_due(v, nid, group, *period, need, now_ms))
			return group;
	}
	return TIER_GROUPS;
}

static void victim_begin_attempt(struct victim_node *v, int nid, unsigned int group, u64 now_ms)
{
	u32 again;

	if (v->pending && v->owed == TIER_GROUPS) {
		v->owed = v->group;
		v->owed_ms = now_ms;
	}
	v->group = group;
	WRITE_ONCE(v->rate, victim_rate(group));
	WRITE_ONCE(v->known, 0);
	/* What is left is room for all. */
	atomic_long_set(&v->made, 0);
	v->need = 0;
	v->cost_ns = 0;
	v->pending = true;
	policy_attempt_begins(&v->wait[group], now_ms);
	again = max(2 * victim_idle_ms(v), VICTIM_PERIODS * kmmscand_period_ms);
	if (!v->aged_ms || now_ms - v->aged_ms > again)
		victim_walk(v, nid);
}

static void victim_end_attempt(struct victim_node *v, int nid)
{
	unsigned long since = v->aged, old = victim_walk(v, nid);

	v->pending = false;
	v->since = since;
	WRITE_ONCE(v->known, old);
	v->judged = false;
	v->tried = false;
	v->taken = 0;
	if (v->group == v->owed)
		v->owed = TIER_GROUPS;
}

/* Was the last attempt worth its cost?  While there is room, nothing shows that. */
static void victim_judge(struct victim_node *v, u64 page_ns)
{
	unsigned long victims = v->tried ? v->taken : min(v->known, v->need);

	v->judged = true;
	WRITE_ONCE(v->expected, max(2 * victims, VICTIM_EXPECTED));
	policy_attempt_ends(&v->wait[v->group], v->rate, min(victims, U32_MAX), v->cost_ns,
			    min(page_ns, U32_MAX));
}

/* For how long must the promoter wait before the attempt can end, in ms? */
static u64 victim_left(const struct victim_node *v)
{
	u64 ends = v->aged_ms + victim_idle_ms(v);

	return ends - min(ends, victim_now_ms());
}

/**
 * victim_seek - begin to look for victims if it is time
 * @nid:     fast node
 * @period:  what the last period has brought
 * @need:    and what each group has found
 * @page_ns: CPU time of a promotion
 *
 * Context: a promoter, once a period; may sleep.
 * Return: milliseconds after which victim_end() is to be called, VICTIM_LATER: in the next period,
 * or 0: at once.
 */
u32 victim_seek(int nid, const struct policy_period *period, const struct victim_need *need,
		u64 page_ns)
{
	struct victim_node *v = victim_nodes[nid];
	unsigned int group;
	u64 now_ms, left = 0;

	if (!mutex_trylock(&v->lock))
		return VICTIM_LATER;
	for_each_set_bit(group, v->anew, TIER_GROUPS) {
		clear_bit(group, v->anew);
		v->wait[group] = (struct policy_wait) {};
	}
	now_ms = victim_now_ms();
	if (!v->judged && !v->known)
		victim_judge(v, page_ns);
	group = victim_next(v, nid, period, need, now_ms);
	/* Victims may last for many periods, but not longer than until the next attempt. */
	if (group < TIER_GROUPS && !v->judged) {
		victim_judge(v, page_ns);
		group = victim_next(v, nid, period, need, now_ms);
	}
	if (group < TIER_GROUPS)
		victim_begin_attempt(v, nid, group, now_ms);
	if (v->pending) {
		v->need = max(v->need, min(need[v->group].hot, 2UL * period->quota));
		left = victim_left(v);
	}
	mutex_unlock(&v->lock);
	return left <= VICTIM_SLEEP_MS ? left : VICTIM_LATER;
}

/**
 * victim_end - end an attempt if it is time
 * @nid: fast node
 *
 * What was idle until now may be in use soon, so victim_take() should follow.
 *
 * Context: a promoter, may sleep.
 */
void victim_end(int nid)
{
	struct victim_node *v = victim_nodes[nid];

	if (!mutex_trylock(&v->lock))
		return;
	if (v->pending && !victim_left(v))
		victim_end_attempt(v, nid);
	mutex_unlock(&v->lock);
}

/**
 * victim_pending - do candidates wait until victims will have been idle for long enough?
 * @nid: fast node
 *
 * Without a rate the waiting is long, and says nothing about the window.
 *
 * Context: any; a snapshot.
 */
bool victim_pending(int nid)
{
	struct victim_node *v = victim_nodes[nid];

	return mutex_is_locked(&v->lock) || (READ_ONCE(v->pending) && READ_ONCE(v->rate));
}

/**
 * victim_begin - something else has become hot in a group
 * @nid:   fast node
 * @group: number of the group
 *
 * Context: any.
 */
void victim_begin(int nid, unsigned int group)
{
	set_bit(group, victim_nodes[nid]->anew);
}

/**
 * victim_take - demote victims
 * @nid: fast node
 * @nr:  base pages
 *
 * Context: a promoter, may sleep.
 * Return: base pages demoted; 0 if no victims are known.
 */
unsigned long victim_take(int nid, unsigned long nr)
{
	struct victim_node *v = victim_nodes[nid];
	unsigned long taken = 0;

	if (!mutex_trylock(&v->lock))
		return 0;
	if (v->known) {
		/* A search for more pages than are old looks at each page that is in use. */
		nr = min(nr, max(v->known, VICTIM_EXPECTED));
		taken = tier_demote(nid, nr, v->since);
		atomic_long_add(taken, &v->made);
		v->tried = true;
		v->taken += taken;
		/* What was looked at and not demoted was in use, or cannot be moved. */
		WRITE_ONCE(v->known, taken ? v->known - min(v->known, max(taken, nr)) : 0);
	}
	mutex_unlock(&v->lock);
	return taken;
}
