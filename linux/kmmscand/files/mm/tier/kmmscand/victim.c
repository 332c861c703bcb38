// SPDX-License-Identifier: GPL-2.0
/*
 * Victims: idle pages of a fast node that are demoted to make room for promotions.
 *
 * Scanners tell how often the candidates are accessed: the share of pages that the first look of a
 * close visit finds and the second one finds again (policy_rate()).  A victim is a page that was
 * idle for several times the mean time between two accesses of a candidate (policy_idle_ms()).  So
 * equally hot pages do not take turns.
 *
 * An attempt to find victims begins a new generation of the node (tier_age()) and flushes the TLBs
 * of all address spaces that scanners know.  Pages that no task has accessed since the attempt
 * before are old then, and tier_demote() takes them.  The next attempt waits until its victims will
 * have been idle for long enough.  If an attempt was not worth its cost, the next one waits for
 * longer, up to a minute.  Few pages are idle for so long: such a late attempt is only the first
 * of two.
 *
 * What is not known to be idle: a page of an address space that no scanner knows (opted out, or
 * new) may be in a TLB; a page that kswapd has aged between two attempts is idle since then only.
 * tier_demote() spares what has its Accessed bit set again.
 *
 * Locking: a fast node's mutex is held while the node is aged or pages of it are demoted.  So the
 * promoters of several slow nodes share an attempt.  Below it: kmmscand_mms_mutex.
 */

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
#include "kmmscand.h"
#include "policy.h"
#include "victim.h"

/* So few candidates do not tell how often they are accessed */
#define VICTIM_LEAST_FOUND	64

struct victim_node {
	struct mutex lock;	/* for all below */
	struct policy_node policy;
	bool aged;		/* there was an attempt, so the next one finds victims */
	bool open;		/* the last attempt has not been judged */
	u32 late_ms;		/* for so long the last attempt had waited, if it was late */
	unsigned long known;	/* base pages that it has found, at most */
	unsigned long taken;	/* of these, demoted */
	u64 cost_ns;		/* of its walks */
	u64 page_ns;		/* of a promotion */
};

static struct victim_node victim_nodes[MAX_NUMNODES];

/* Pages found in first looks, and in second looks, too, with one window */
static DEFINE_SPINLOCK(victim_lock);
static unsigned long victim_first, victim_last;
static unsigned int victim_window_ms;

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
		policy_node_begin(&victim_nodes[nid].policy);
	}
	victim_first = 0;
	victim_last = 0;
}

/**
 * victim_found - scanners have looked twice
 * @first:     pages that the first look has found
 * @last:      of these, pages that the second look has found
 * @window_ms: between looks
 *
 * Context: any scanner.
 */
void victim_found(unsigned long first, unsigned long last, unsigned int window_ms)
{
	spin_lock(&victim_lock);
	if (window_ms != victim_window_ms) {
		victim_first = 0;
		victim_last = 0;
		victim_window_ms = window_ms;
	}
	victim_first += first;
	victim_last += last;
	spin_unlock(&victim_lock);
}

/**
 * victim_forget_found - a period is over
 *
 * Context: the first scanner.
 */
void victim_forget_found(void)
{
	spin_lock(&victim_lock);
	victim_first -= victim_first / 4;
	victim_last -= victim_last / 4;
	spin_unlock(&victim_lock);
}

/* 0: too few were found to tell */
static u32 victim_rate(void)
{
	u32 rate = 0;

	spin_lock(&victim_lock);
	if (victim_first >= VICTIM_LEAST_FOUND)
		rate = policy_rate(min(victim_first, U32_MAX), min(victim_last, U32_MAX),
				   max(victim_window_ms, 1U) * USEC_PER_MSEC);
	spin_unlock(&victim_lock);
	return rate;
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

/* The victims have been used up, or are given up. */
static void victim_judge(struct victim_node *v)
{
	if (v->open) {
		v->policy.wait_ms = max(v->policy.wait_ms, v->late_ms);
		v->late_ms = 0;
		policy_attempt_ends(&v->policy, min(v->taken, U32_MAX), v->cost_ns,
				    min(v->page_ns, U32_MAX));
		v->taken = 0;
		v->cost_ns = 0;
	}
	v->open = false;
	WRITE_ONCE(v->known, 0);
}

static void victim_attempt(struct victim_node *v, int nid, u64 now_ms)
{
	bool late = now_ms - v->policy.attempt_ms > 2 * policy_idle_ms(v->policy.rate);
	u64 start = task_sched_runtime(current);
	unsigned long old;

	victim_judge(v);
	if (kmmscand_fault(IDLE))
		tier_age(nid);
	old = tier_age(nid);
	kmmscand_mms_flush();
	policy_attempt_begins(&v->policy, ktime_to_ms(ktime_get()));
	v->cost_ns += task_sched_runtime(current) - start;
	if (late) {
		v->late_ms = v->policy.wait_ms;
		v->policy.wait_ms = 0;
	}
	v->open = !late;
	/* The first one does not know since when pages are idle. */
	if (v->aged && old)
		WRITE_ONCE(v->known, old);
	else
		victim_judge(v);
	v->aged = true;
}

/**
 * victim_seek - look for victims if it is time
 * @nid:     fast node
 * @period:  what the last period has brought; victims is filled in
 * @waiting: candidates that did not move, in base pages
 * @page_ns: CPU time of a promotion
 *
 * What was idle until now may be in use soon, so victim_take() should follow.
 *
 * Context: a promoter, once a period; may sleep.
 * Return: false if candidates wait until victims will have been idle for long enough.
 */
bool victim_seek(int nid, struct policy_period *period, unsigned long waiting, u64 page_ns)
{
	struct victim_node *v = &victim_nodes[nid];
	u64 now_ms = ktime_to_ms(ktime_get());
	bool found;

	mutex_lock(&v->lock);
	v->page_ns = page_ns;
	v->policy.rate = victim_rate();
	period->victims = min(v->known, U32_MAX);
	if (v->policy.rate &&
	    policy_attempt_due(&v->policy, period, min(waiting, U32_MAX), now_ms))
		victim_attempt(v, nid, now_ms);
	found = v->known || !v->aged || v->policy.wait_ms ||
		now_ms - v->policy.attempt_ms >= policy_idle_ms(v->policy.rate);
	mutex_unlock(&v->lock);
	return found;
}

/**
 * victim_begin - something else has become hot
 * @nid: fast node
 *
 * Context: a promoter, may sleep.
 */
void victim_begin(int nid)
{
	struct victim_node *v = &victim_nodes[nid];

	mutex_lock(&v->lock);
	v->policy.wait_ms = 0;
	v->late_ms = 0;
	mutex_unlock(&v->lock);
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

	mutex_lock(&v->lock);
	if (v->known) {
		taken = tier_demote(nid, nr);
		v->taken += taken;
		WRITE_ONCE(v->known, v->known - min(v->known, taken));
		if (taken < nr)
			victim_judge(v);
	}
	mutex_unlock(&v->lock);
	return taken;
}

/**
 * victim_drop - the known victims are not worth an exchange
 * @nid: fast node
 *
 * Context: a promoter, may sleep.
 */
void victim_drop(int nid)
{
	struct victim_node *v = &victim_nodes[nid];

	mutex_lock(&v->lock);
	victim_judge(v);
	mutex_unlock(&v->lock);
}
