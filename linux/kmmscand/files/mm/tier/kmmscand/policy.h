/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Decisions of the promoter, see policy.c.
 *
 * Pages are base pages.  Costs are in any unit, if all of them are in the same one.
 */
#ifndef _MM_TIER_KMMSCAND_POLICY_H
#define _MM_TIER_KMMSCAND_POLICY_H

#include <linux/types.h>

/* An address space is visited in one period of 2^e, e at most */
#define POLICY_MAX_TURN		6
#define POLICY_WINDOW_LEAST_US	16000U

/* Of a slow node and the fast node that its pages are promoted to */
struct policy_node {
	u32 window_us;
	bool saturated;		/* more visits would not move more pages */
	u64 begun_ms;		/* anew, the last time */
};

/* How hot the candidates of a group are */
struct policy_heat {
	u64 sum;		/* of rates, each times the pages of its visit; decayed */
	u32 pages;		/* found in first looks; decayed */
	u32 quiet;		/* periods since pages were looked at */
	u32 rate;		/* in accesses for 1,000 seconds; 0: not known */
	bool looked;		/* in this period */
};

/* When victims are looked for, for the candidates of a group */
struct policy_wait {
	u32 wait_ms;		/* from one attempt to the next one */
	u32 rate;		/* of the hottest candidates of attempts in vain, or 0 */
	u64 last_ms;		/* when the last one began */
};

/* How often the slow pages of an address space are accessed */
struct policy_change {
	u32 rate;		/* mean of pages found, of 2^20 */
	u8 looks;		/* of that mean, at first */
};

/* What a period has brought */
struct policy_period {
	bool visited;		/* enough pages were to tell that few are found */
	u32 window_us;		/* of these visits, the last one */
	u32 pushed;		/* candidates */
	u32 quota;		/* pages that may move: policy_quota() */
	u32 room;		/* pages that the fast node has free for promotion */
	u32 victims;		/* pages known to be idle, not yet demoted */
	u32 window_max_us;	/* policy_window_max() */
	bool full;		/* a candidate moves only when a victim goes */
	bool pending;		/* an attempt has not ended */
};

/* Of the address spaces of a group, or of several */
struct policy_bucket {
	u32 exchanged, again;	/* pages promoted for a victim; of these, demoted lately; decayed */
	u32 found, moved;	/* candidates, and those that moved; since loss was judged */
	u32 weight;		/* candidates of which loss is the mean, decayed */
	u16 loss;		/* candidates that do not move, of 1,024 */
	u8 shift;		/* its quota of exchanges is divided by 4^shift */
	u64 changed_ms;
};

u32 policy_rate(u32 first, u32 last, u32 window_us);
u32 policy_idle_ms(u32 rate);
u32 policy_quota(u32 rate_pages, u32 cpu_pages, u32 gain_permille);
u32 policy_window_max(u32 gain_ns, u32 cost_ns, bool full);
bool policy_node_begin(struct policy_node *node, u64 now_ms);
bool policy_jump(struct policy_change *change, u32 found, u32 of);
void policy_heat_add(struct policy_heat *heat, u32 first, u32 last, u32 window_us);
void policy_heat_age(struct policy_heat *heat);
bool policy_serves(u32 rate, u32 candidate);
bool policy_update_window(struct policy_node *node, const struct policy_period *period);
bool policy_attempt_due(const struct policy_wait *wait, u32 rate,
			const struct policy_period *period, u32 waiting, u64 now_ms);
void policy_attempt_begins(struct policy_wait *wait, u64 now_ms);
void policy_attempt_ends(struct policy_wait *wait, u32 rate, u32 victims, u64 cost, u32 page_cost);
bool policy_bucket_update(struct policy_bucket *bucket, u32 exchanged, u32 again, u64 now_ms);
void policy_bucket_begin(struct policy_bucket *bucket);
u32 policy_bucket_quota(const struct policy_bucket *bucket, u32 quota);
void policy_bucket_moved(struct policy_bucket *bucket, u32 found, u32 moved);
unsigned int policy_turn(unsigned int e, u64 cost, u32 found, u32 loss, u32 page_cost,
			 bool saturated);
u32 policy_enough(u32 quota);

#endif /* _MM_TIER_KMMSCAND_POLICY_H */
