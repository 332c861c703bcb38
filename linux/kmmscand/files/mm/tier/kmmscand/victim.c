// SPDX-License-Identifier: GPL-2.0
/*
 * Victims: idle pages of a fast node that are demoted to make room for promotions.
 *
 * Scanners tell how often the candidates of each group (tier_group()) are accessed: the share of
 * pages that the first look of a close visit finds and the second one finds again (policy_rate()).
 * A victim is a page that was idle for several times the mean time T between two accesses of a
 * candidate (policy_idle_ms()).  So equally hot pages do not take turns.
 *
 * An attempt to find victims is for the candidates of one group; groups take turns, and each waits
 * for longer after an attempt that was not worth its cost (policy_attempt_ends()), or of whose
 * victims no page could be demoted.  An attempt begins a new generation of the node (tier_age()),
 * flushes TLBs, waits for T, and begins another one.  What is then in older generations was not
 * accessed in between.  A T of up to VICTIM_SLEEP_MS is slept for; for a longer one the promoter
 * comes back.  The second generation of an attempt is the first one of the next, if that follows
 * soon.
 *
 * MGLRU has four generations, so attempts cannot overlap.  A group whose T is at most half as
 * long does not wait for the end of another group's attempt, but begins its own.  The group that
 * has lost its attempt so comes next, and keeps that one; its T is then at most VICTIM_OWED_MS, so
 * that the others do not wait for long.
 *
 * The victims also serve other groups, if their candidates are as hot (policy_serves()).
 *
 * What kswapd ages in between is younger than the attempt: tier_demote() leaves alone what is in
 * generations that began after the first tier_age(), and what has been accessed since the second.
 * The rate of groups whose pages are not looked at twice (virtual machines, page cache) is not
 * known: they get the lowest one.  Pages of an address space that no scanner knows (opted out, or
 * new) may be in a TLB, and then look idle, as they do for MGLRU.
 *
 * Cost of an attempt: two walks over page tables by MGLRU and a look up for each address space.
 * The promoter's share of CPU time (promote_cpu_pct) pays for them.
 *
 * Locking: a fast node's mutex is held for an attempt, and while pages of the node are demoted.
 * Promoters of other slow nodes do not wait for it.  Below it: kmmscand_mms_mutex.  victim_lock
 * protects what scanners tell.
 */

#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/mutex.h>
#include <linux/nodemask.h>
#include <linux/sched.h>
#include <linux/sched/cputime.h>
#include <linux/spinlock.h>
#include <linux/tier.h>

#include "fault.h"
#include "hotness.h"
#include "kmmscand.h"
#include "policy.h"
#include "victim.h"

/* For so long an attempt sleeps */
#define VICTIM_SLEEP_MS		250
/* For a walk that ended so many epochs ago, the waiting does not begin anew */
#define VICTIM_EPOCHS		3
/* The longest T of a group that has lost an attempt */
#define VICTIM_OWED_MS		4000U

struct victim_node {
	struct mutex lock;	/* for all below */
	struct policy_wait wait[TIER_GROUPS];
	bool vain[TIER_GROUPS];	/* of what the group's last attempt has found, nothing went yet */
	bool anew;		/* waiting begins anew; set without the lock */
	unsigned int group;	/* of the last attempt */
	unsigned int owed;	/* that has lost an attempt, or TIER_GROUPS */
	u32 rate;		/* of the candidates of @group */
	unsigned long need;	/* pages that it can exchange */
	bool pending;		/* the second walk is still to come */
	unsigned long known;	/* base pages that it has found, at most */
	unsigned long since;	/* these were idle since then, in jiffies */
	unsigned long aged;	/* the end of the last walk, in jiffies, if there was one */
	u64 aged_ms;		/* the same, or 0 */
	u64 cost_ns;		/* of the walks */
};

static struct victim_node victim_nodes[MAX_NUMNODES];

static DEFINE_SPINLOCK(victim_lock);
static struct policy_heat victim_heat[TIER_GROUPS];

/**
 * victim_start - forget everything
 *
 * Context: before scanners and promoters start.
 */
void victim_start(void)
{
	int nid;

	for_each_node(nid) {
		victim_nodes[nid] = (struct victim_node) {};
		mutex_init(&victim_nodes[nid].lock);
		victim_nodes[nid].owed = TIER_GROUPS;
	}
	memset(victim_heat, 0, sizeof(victim_heat));
}

/**
 * victim_found - a scanner has looked twice
 * @group:     of the pages
 * @first:     pages that the first look has found
 * @last:      of these, pages that the second look has found
 * @window_ms: between looks
 *
 * Context: any scanner.
 */
void victim_found(unsigned int group, unsigned long first, unsigned long last,
		  unsigned int window_ms)
{
	spin_lock(&victim_lock);
	policy_heat_add(&victim_heat[group], min(first, U32_MAX), min(last, U32_MAX),
			window_ms * USEC_PER_MSEC);
	spin_unlock(&victim_lock);
}

/**
 * victim_period - a period is over
 *
 * Context: the first scanner.
 */
void victim_period(void)
{
	int i;

	spin_lock(&victim_lock);
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
 * Return: base pages at most.
 */
unsigned long victim_known(int nid)
{
	return READ_ONCE(victim_nodes[nid].known);
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
	struct victim_node *v = &victim_nodes[nid];

	return READ_ONCE(v->known) && policy_serves(READ_ONCE(v->rate), victim_rate(group));
}

static u32 victim_idle_ms(const struct victim_node *v)
{
	if (kmmscand_fault(IDLE))
		return 0;
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

	kmmscand_mms_flush();
	v->aged = jiffies;
	v->aged_ms = victim_now_ms();
	v->cost_ns += task_sched_runtime(current) - start;
	return old;
}

/* Does a group need victims, and is it time to look for some? */
static bool victim_due(struct victim_node *v, int nid, unsigned int group,
		       struct policy_period period, const struct hotness_groups *groups, u64 now_ms)
{
	static const struct policy_wait now;
	bool serves = victim_serves(nid, group);

	if (!groups->group[group].hot)
		return false;
	period.victims = serves ? min(v->known, U32_MAX) : 0;
	return policy_attempt_due(group == v->owed ? &now : &v->wait[group], victim_rate(group),
				  &period, min(groups->group[group].waiting, U32_MAX), now_ms);
}

/* The group that looks for victims next, or TIER_GROUPS.  Groups take turns. */
static unsigned int victim_next(struct victim_node *v, int nid, const struct policy_period *period,
				const struct hotness_groups *groups, u64 now_ms)
{
	unsigned int i, group;

	if (v->pending && v->group == v->owed)
		return TIER_GROUPS;
	if (!v->pending && v->owed < TIER_GROUPS) {
		if (victim_due(v, nid, v->owed, *period, groups, now_ms))
			return v->owed;
		v->owed = TIER_GROUPS;
	}
	for (i = 1; i <= TIER_GROUPS; i++) {
		group = (v->group + i) % TIER_GROUPS;
		if (v->pending && 2 * policy_idle_ms(victim_rate(group)) > policy_idle_ms(v->rate))
			continue;
		if (victim_due(v, nid, group, *period, groups, now_ms))
			return group;
	}
	return TIER_GROUPS;
}

static void victim_begin_attempt(struct victim_node *v, int nid, unsigned int group, u64 now_ms)
{
	u32 idle;

	if (v->pending && v->owed == TIER_GROUPS)
		v->owed = v->group;
	v->group = group;
	WRITE_ONCE(v->rate, victim_rate(group));
	WRITE_ONCE(v->known, 0);
	v->need = 0;
	v->cost_ns = 0;
	v->pending = true;
	policy_attempt_begins(&v->wait[group], now_ms);
	idle = victim_idle_ms(v);
	if (!v->aged_ms || now_ms - v->aged_ms > max(2 * idle, VICTIM_EPOCHS * kmmscand_epoch_ms()))
		victim_walk(v, nid);
}

static void victim_end_attempt(struct victim_node *v, int nid, u64 page_ns)
{
	unsigned long since = v->aged, old = victim_walk(v, nid);

	v->pending = false;
	v->since = since;
	WRITE_ONCE(v->known, old);
	policy_attempt_ends(&v->wait[v->group], v->rate,
			    v->vain[v->group] ? 0 : min3(old, v->need, U32_MAX), v->cost_ns,
			    min(page_ns, U32_MAX));
	/* Until victim_take() shows that it was not. */
	v->vain[v->group] = old;
	if (v->group == v->owed)
		v->owed = TIER_GROUPS;
}

/**
 * victim_seek - look for victims if it is time
 * @nid:     fast node
 * @period:  what the last period has brought
 * @groups:  and what each group has waiting
 * @page_ns: CPU time of a promotion
 *
 * What was idle until now may be in use soon, so victim_take() should follow.
 *
 * Context: a promoter, once a period; may sleep.
 * Return: false if candidates wait until victims will have been idle for long enough.
 */
bool victim_seek(int nid, const struct policy_period *period, const struct hotness_groups *groups,
		 u64 page_ns)
{
	struct victim_node *v = &victim_nodes[nid];
	unsigned int group;
	u64 now_ms, left;
	bool pending;

	if (!mutex_trylock(&v->lock))
		return true;
	if (xchg(&v->anew, false)) {
		memset(v->wait, 0, sizeof(v->wait));
		memset(v->vain, 0, sizeof(v->vain));
	}
	now_ms = victim_now_ms();
	group = victim_next(v, nid, period, groups, now_ms);
	if (group < TIER_GROUPS)
		victim_begin_attempt(v, nid, group, now_ms);
	if (v->pending) {
		v->need = max(v->need, min(groups->group[v->group].hot, 2UL * period->quota));
		left = v->aged_ms + victim_idle_ms(v);
		left -= min(left, victim_now_ms());
		if (left && left <= VICTIM_SLEEP_MS) {
			schedule_timeout_idle(msecs_to_jiffies(left));
			left = 0;
		}
		if (!left)
			victim_end_attempt(v, nid, page_ns);
	}
	/* Without a rate the waiting is long, and says nothing about the window. */
	pending = v->pending && v->rate;
	mutex_unlock(&v->lock);
	return !pending;
}

/**
 * victim_begin - something else has become hot
 * @nid: fast node
 *
 * Context: any.
 */
void victim_begin(int nid)
{
	WRITE_ONCE(victim_nodes[nid].anew, true);
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
	struct victim_node *v = &victim_nodes[nid];
	unsigned long taken = 0;

	if (!mutex_trylock(&v->lock))
		return 0;
	if (v->known) {
		taken = tier_demote(nid, nr, v->since);
		if (taken)
			v->vain[v->group] = false;
		/* What was looked at and not demoted was in use, or cannot be moved. */
		WRITE_ONCE(v->known, taken ? v->known - min(v->known, max(taken, nr)) : 0);
	}
	mutex_unlock(&v->lock);
	return taken;
}
