// SPDX-License-Identifier: GPL-2.0
/*
 * Decisions of the promoter.  They depend on their arguments only.  The simulator in tests/sim
 * compiles this file, too.
 *
 * A visit of a region clears Accessed bits, waits for a window w, looks, waits, and looks again.
 * A look finds a page that is accessed at a rate r with the chance 1 - exp(-r w), so visits tell
 * rates apart below 1/w, by their square.  A page that both looks find is a candidate.
 *
 * - Window.  policy_update_window() shortens the window if more candidates are found than can move,
 *   and prolongs it if fewer are.
 * - Heat.  Of the pages found in the first look, the share found in the second one is the chance
 *   that a candidate is accessed in a window (policy_rate()).  Groups have a rate each, so that one
 *   with few hot pages is not measured by a large one.
 * - Victims.  For a candidate a fast page goes that was idle for KAPPA times the mean time between
 *   two accesses of a candidate.  A page that is as hot as the candidates is idle for so long with
 *   a chance of exp(-6), 0.25 %.  So equally hot pages do not take turns.  An attempt to find
 *   victims is for the candidates of one group, and serves the hotter ones as well
 *   (policy_serves()).
 * - Turns.  A visit that costs more than to move its candidates is not worth it: the address space
 *   is visited half as often (policy_turn()).  Flushes are part of the cost.
 * - Loss.  Candidates count as many as move of those of their group (policy_bucket_moved()).
 * - Change.  An address space that is seldom visited is looked at for change: one look in the
 *   shortest window, so one flush.  If three times as many pages are found as on average, something
 *   else became hot (policy_jump()): the address space is visited in each period again.
 * - Repeated promotion.  policy_bucket_update() divides a group's quota of exchanges by four if
 *   more than a tenth of the pages that the group exchanges were demoted in the last minute.
 */

#include <linux/log2.h>
#include <linux/math64.h>
#include <linux/minmax.h>

#include "policy.h"

/* A victim is idle for so many times the mean time between two accesses of a candidate */
#define KAPPA			6
#define IDLE_LEAST_MS		16U
#define IDLE_MOST_MS		64000U
/* The second look finds so many of the hottest pages, in 1/1024: the rate is no longer told */
#define RATE_MOST		1004
/* Fewer pages of a visit tell no rate */
#define HEAT_LEAST		16U
/* A visit that finds more pages counts for this many */
#define HEAT_MOST		65536U
/* While nothing can move, a window that finds fewer candidates is too short */
#define CANDIDATES_LEAST	16
/* A rate is forgotten after so many periods without a look */
#define HEAT_PERIODS		128
/* While the fast node is full, an exchange costs two migrations */
#define WINDOW_FULL_US		250000U
#define WINDOW_MOST_US		1000000U
/* From one time that windows begin anew to the next one */
#define BEGIN_LEAST_MS		16000U
/* A page pays for its promotion by accesses within so many seconds */
#define PAYBACK_S		60
/* A window becomes a quarter or twice as long at most, in 1/1024 */
#define WINDOW_LESS		256ULL
#define WINDOW_MORE		2048ULL
/* So many looks make a mean; a sample of fewer pages, or of fewer found, tells no change */
#define JUMP_LOOKS		2
#define JUMP_LEAST		64
/* So many times the mean is a change */
#define JUMP_TIMES		3
#define ATTEMPT_WAIT_MS		2000U
#define ATTEMPT_MOST_MS		64000U
/* A group does not wait if its candidates are this many times hotter than in failed attempts */
#define WAIT_HOTTER		4
/* Pages again of which a group is judged, and for how long it is then left alone */
#define AGAIN_LEAST		32
#define AGAIN_SHIFT_MOST	6
#define AGAIN_EASE_MS		16000U
/* So few candidates do not tell which part of them moves */
#define LOSS_LEAST		32
/* A loss is forgotten over some times as many periods without candidates */
#define LOSS_QUIET		64

/* -ln(n / 1024) * 1024, with an error below 1 % of 1024 */
static u32 minus_ln(u32 n)
{
	unsigned int log = ilog2(n);
	u32 f = ((n << 10) >> log) - 1024;	/* n is 2^log * (1 + f / 1024) */
	u32 log2;

	/* log2(1 + x) is about x + 0.344 x (1 - x). */
	log2 = (log << 10) + f + (f * (1024 - f) / 1024) * 352 / 1024;
	return ((10 << 10) - log2) * 710 / 1024;
}

/**
 * policy_rate - how often are the candidates accessed?
 * @first:	pages found in the first look
 * @last:	of these, found in the second one, too
 * @window_us:	between looks
 *
 * For the hottest pages the result is too low, so victims are idle for longer.
 *
 * Return: accesses for 1,000 seconds and page.
 */
u32 policy_rate(u32 first, u32 last, u32 window_us)
{
	u32 share = min_t(u64, div_u64((u64)last << 10, max(first, 1U)), RATE_MOST);

	return div_u64((u64)minus_ln(1024 - share) * 1000000000 / 1024, window_us);
}

/**
 * policy_idle_ms - for how long is a page idle that makes room for a candidate?
 * @rate:	policy_rate() of the candidates
 */
u32 policy_idle_ms(u32 rate)
{
	return clamp_t(u32, KAPPA * 1000000 / max(rate, 1U), IDLE_LEAST_MS, IDLE_MOST_MS);
}

/**
 * policy_quota - how many pages may move in a period?
 * @rate_pages:		by the administrator's limit of bytes
 * @cpu_pages:		by the administrator's share of CPU time
 * @gain_permille:	what a promotion gains, of what it gains while no tier is loaded
 */
u32 policy_quota(u32 rate_pages, u32 cpu_pages, u32 gain_permille)
{
	return div_u64((u64)min(rate_pages, cpu_pages) * min(gain_permille, 1000U), 1000);
}

/**
 * policy_window_max - in how long a window must a page be accessed to be worth its promotion?
 * @gain_ns:	of an access to the fast node instead of the slow one
 * @cost_ns:	of a promotion
 * @full:	each promotion needs a victim
 *
 * Return: microseconds.
 */
u32 policy_window_max(u32 gain_ns, u32 cost_ns, bool full)
{
	u64 most = div_u64((u64)gain_ns * PAYBACK_S * 1000000, max(cost_ns, 1U));

	return clamp_t(u64, most, POLICY_WINDOW_LEAST_US, full ? WINDOW_FULL_US : WINDOW_MOST_US);
}

/**
 * policy_node_begin - begin anew, at first and when something else has become hot
 * @node:	updated
 * @now_ms:	time
 *
 * An address space whose hot pages change all the time must not keep the windows of all others
 * short.
 *
 * Return: false if that was done lately.
 */
bool policy_node_begin(struct policy_node *node, u64 now_ms)
{
	if (node->begun_ms && now_ms - node->begun_ms < BEGIN_LEAST_MS)
		return false;
	node->begun_ms = now_ms;
	node->window_us = POLICY_WINDOW_LEAST_US;
	node->saturated = false;
	return true;
}

/**
 * policy_jump - has something else become hot in an address space?
 * @change:	its mean is updated
 * @found:	slow pages that a change look has found
 * @of:		slow pages that were looked at
 *
 * A change look has the shortest window: in a long one, cold pages are found as well as hot ones.
 * The mean is of a page that was looked at: a sample of other regions alone changes nothing.
 */
bool policy_jump(struct policy_change *change, u32 found, u32 of)
{
	bool jump = false;
	u32 rate;

	if (of < JUMP_LEAST)
		return false;
	rate = div_u64((u64)found << 20, of);
	if (change->looks < JUMP_LOOKS) {
		change->looks++;
		change->rate = rate;
		return false;
	}
	jump = rate > JUMP_TIMES * change->rate && found >= JUMP_LEAST;
	change->rate = jump ? rate : change->rate - change->rate / 4 + rate / 4;
	return jump;
}

/* Window of the next visits.  While few pages are found, their number grows with its square. */
static u32 policy_window(const struct policy_period *period, u32 can)
{
	u64 next = period->window_us, pushed = period->pushed + 1ULL;
	u64 factor = int_sqrt64(div64_u64((u64)can << 20, pushed));	/* of 1,024 */

	if (!can)
		next = pushed > CANDIDATES_LEAST ? next / 2 : next * 2;
	else if (pushed >= 2ULL * can || pushed < can)
		next = (next * clamp(factor, WINDOW_LESS, WINDOW_MORE)) >> 10;
	return clamp_t(u64, next, POLICY_WINDOW_LEAST_US, period->window_max_us);
}

/**
 * policy_heat_add - pages of a group were looked at twice
 * @heat:	updated
 * @first:	pages found in the first look
 * @last:	of these, found in the second one, too
 * @window_us:	between looks
 *
 * A rate of few pages is a matter of chance.
 */
void policy_heat_add(struct policy_heat *heat, u32 first, u32 last, u32 window_us)
{
	u32 weight = min(first, HEAT_MOST);

	if (first < HEAT_LEAST)
		return;
	heat->sum += (u64)weight * policy_rate(first, last, window_us);
	heat->pages += weight;
	heat->looked = true;
}

/**
 * policy_heat_age - a period is over: how often are the candidates of a group accessed?
 * @heat:	rate is updated, if pages were looked at
 */
void policy_heat_age(struct policy_heat *heat)
{
	if (!heat->looked) {
		/* The number may be another group's by now. */
		if (++heat->quiet == HEAT_PERIODS)
			*heat = (struct policy_heat) {};
		return;
	}
	heat->quiet = 0;
	heat->looked = false;
	heat->rate = div_u64(heat->sum, heat->pages);
	/* After a shift what was found before tells little. */
	heat->sum /= 4;
	heat->pages /= 4;
}

/**
 * policy_serves - do the victims that are known serve a candidate?
 * @rate:	of the candidates for which they were looked for
 * @candidate:	rate of this one
 *
 * A candidate that is half as hot is as hot, as far as rates are known.
 */
bool policy_serves(u32 rate, u32 candidate)
{
	return candidate >= rate / 2;
}

/**
 * policy_update_window - choose the window of the next period
 * @node:	updated
 * @period:	what the period has brought
 *
 * While victims are looked for, candidates wait, which tells nothing about the window.  Visits that
 * have ended may have begun with a window of some periods ago.
 *
 * Return: true if what the visits have found is used up.
 */
bool policy_update_window(struct policy_node *node, const struct policy_period *period)
{
	u32 can = min(period->quota, period->room + period->victims);
	bool many = period->pushed > 2ULL * can + CANDIDATES_LEAST;

	node->window_us = min(node->window_us, period->window_max_us);
	if (period->full && period->pending)
		return period->visited;
	if (!period->visited && !many)
		return false;
	node->window_us = policy_window(period, can);
	node->saturated = !can || node->window_us == period->window_max_us ||
			  period->pushed >= can;
	return true;
}

/**
 * policy_attempt_due - is it time to look for victims for the candidates of a group?
 * @wait:	of the group
 * @rate:	of the group's candidates
 * @period:	the last one
 * @waiting:	candidates that did not move
 * @now_ms:	time
 */
bool policy_attempt_due(const struct policy_wait *wait, u32 rate,
			const struct policy_period *period, u32 waiting, u64 now_ms)
{
	u64 most = 2ULL * min(period->quota, period->pushed);
	u32 wait_ms = rate / WAIT_HOTTER > wait->rate ? 0 : wait->wait_ms;

	if (period->room >= most)
		return false;
	if (period->victims >= min(waiting, most) + !period->full)
		return false;
	return now_ms - wait->last_ms >= max(wait_ms, policy_idle_ms(rate));
}

/**
 * policy_attempt_begins - begin to look for victims
 * @wait:	updated
 * @now_ms:	time
 */
void policy_attempt_begins(struct policy_wait *wait, u64 now_ms)
{
	wait->last_ms = now_ms;
}

/**
 * policy_attempt_ends - wait longer for the next attempt if this one was not worth it
 * @wait:	updated
 * @rate:	of the candidates
 * @victims:	pages that have made room
 * @cost:	of the attempt
 * @page_cost:	of a promotion
 */
void policy_attempt_ends(struct policy_wait *wait, u32 rate, u32 victims, u64 cost, u32 page_cost)
{
	u32 longer = 2 * max(wait->wait_ms, policy_idle_ms(rate));

	if (2ULL * victims * page_cost >= cost) {
		wait->wait_ms = 0;
		wait->rate = 0;
		return;
	}
	wait->wait_ms = clamp_t(u32, longer, ATTEMPT_WAIT_MS, ATTEMPT_MOST_MS);
	wait->rate = max(wait->rate, rate);
}

/**
 * policy_bucket_update - does a group promote pages that were demoted lately?
 * @bucket:	updated
 * @exchanged:	pages that were promoted for a victim, since the last update
 * @again:	of these, pages that were demoted lately
 * @now_ms:	time
 *
 * Return: true if so.
 */
bool policy_bucket_update(struct policy_bucket *bucket, u32 exchanged, u32 again, u64 now_ms)
{
	bucket->exchanged += exchanged - bucket->exchanged / 16;
	bucket->again += again - bucket->again / 16;
	if (bucket->again > AGAIN_LEAST && 10 * bucket->again > bucket->exchanged) {
		bucket->shift = min(bucket->shift + 1, AGAIN_SHIFT_MOST);
		bucket->changed_ms = now_ms;
		bucket->exchanged = 0;
		bucket->again = 0;
		return true;
	}
	if (bucket->shift && now_ms - bucket->changed_ms >= AGAIN_EASE_MS &&
	    20 * bucket->again < max(bucket->exchanged, 1U)) {
		bucket->shift--;
		bucket->changed_ms = now_ms;
	}
	return false;
}

/**
 * policy_bucket_begin - something else has become hot in a group
 * @bucket:	updated
 *
 * Pages that were cold may be hot, though they were demoted lately.
 */
void policy_bucket_begin(struct policy_bucket *bucket)
{
	bucket->shift = 0;
	bucket->exchanged = 0;
	bucket->again = 0;
	bucket->loss = 0;
	bucket->weight = 0;
}

/**
 * policy_bucket_quota - how many pages may a group exchange in a period?
 * @bucket:	of the group
 * @quota:	pages that may move
 */
u32 policy_bucket_quota(const struct policy_bucket *bucket, u32 quota)
{
	return max(quota >> (2 * bucket->shift), 1U);
}

/**
 * policy_bucket_moved - which part of a group's candidates moves?
 * @bucket:	updated
 * @found:	candidates since the last call
 * @moved:	of these
 */
void policy_bucket_moved(struct policy_bucket *bucket, u32 found, u32 moved)
{
	u32 loss;

	bucket->found += found;
	bucket->moved += moved;
	if (bucket->found < LOSS_LEAST) {
		/* The number may be another group's by now. */
		bucket->weight -= (bucket->weight + LOSS_QUIET - 1) / LOSS_QUIET;
		if (!bucket->weight)
			bucket->loss = 0;
		return;
	}
	loss = 1024 - div_u64((u64)min(bucket->moved, bucket->found) << 10, bucket->found);
	bucket->loss = (3 * bucket->loss + loss) / 4;
	bucket->weight = (3ULL * bucket->weight + bucket->found) / 4;
	bucket->found = 0;
	bucket->moved = 0;
}

/**
 * policy_turn - how often is an address space visited?
 * @e:		one period in 2^e, until now
 * @cost:	of a visit
 * @found:	candidates of the visit
 * @loss:	number of candidates that do not move, of 1,024
 * @page_cost:	of a promotion
 * @saturated:	of the node: policy_update_window()
 *
 * Return: the new e.
 */
unsigned int policy_turn(unsigned int e, u64 cost, u32 found, u32 loss, u32 page_cost,
			 bool saturated)
{
	u64 worth = (u64)found * page_cost * (1024 - loss) / 1024;

	if (worth >= cost)
		return e ? e - 1 : 0;
	return saturated ? min_t(unsigned int, e + 1, POLICY_MAX_TURN) : e;
}

/**
 * policy_enough - after how many candidates does a visit stop?
 * @quota:	pages that may move in a period
 *
 * More would not move.  The visit goes on there in the next period.  So many more than may move
 * still shorten the window.
 */
u32 policy_enough(u32 quota)
{
	return min_t(u64, 2ULL * quota, U32_MAX);
}
