// SPDX-License-Identifier: GPL-2.0
/*
 * The scanner and the promoter.  In each period the scanner visits regions of address spaces that
 * have run, within its budget; candidates move; victims are looked for; policy.c learns.
 *
 * Not modelled: order inside a period, locks, migrations that fail, caches.
 */
#include "sim.h"

#include <linux/minmax.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MARGIN		64	/* free pages that are no room */
#define GROUP		4096	/* regions that share flushes */
#define SAMPLE		32	/* regions of a change look */
#define CHANGE_PERIODS	4	/* from a change look to the next one */
#define LOOKS		2
#define FLUSHES_A_S	45.0	/* of an address space, at most */
#define GAIN_NS		150
#define COST_NS		4000
#define LATELY		64	/* seconds */

bool without[NR_RULES];
bool verbose;

static int room(const struct world *w)
{
	return w->job->room - w->fast - MARGIN;
}

static bool gain_has_ended(const struct world *w)
{
	return w->job->gain_ends && w->now >= w->job->gain_ends;
}

static int group_of(struct world *w, const struct space *space)
{
	return (space - w->spaces) % BUCKETS;
}

static struct policy_bucket *bucket_of(struct world *w, const struct space *space)
{
	return &w->buckets[group_of(w, space)];
}

/*
 * The looks of a visit at one slow page, with a flush after each but the last.  A change look is
 * one look in the shortest window.
 */
static void look(struct world *w, struct space *space, int i, double *cost)
{
	int looks = space->looks;
	double s = (looks > 1 ? w->node.window_us : POLICY_WINDOW_LEAST_US) / 1e6, at = w->now;

	w->cleared[i] = at + looks * s;
	w->kept[i] = -1;
	if (looks == 1) {
		space->sampled_of++;
		space->sampled += accessed(w, i, at, at + s);
		return;
	}
	for (int k = 0; k < looks; k++, at += s) {
		if (!accessed(w, i, at, at + s))
			return;
		*cost += w->c->look;
		space->first += !k;
	}
	w->kept[i] = at;
	*cost += w->c->found;
	space->found[space->nr_found++] = i;
}

static void visit_region(struct world *w, struct space *space, int r)
{
	int first = r * REGION, last = first + REGION < space->end ? first + REGION : space->end;
	double cost = w->c->region, rate = 0;
	bool walked = false;

	for (int i = first; i < last; i++) {
		rate += w->flags[i] & FAST ? w->rate[i] : 0;
		if (w->flags[i] & FAST) {
			cost += 2 * (w->c->idle + w->c->fast);
		} else if (bit_set(w, i, w->cleared[i], w->now)) {
			cost += 2 * w->c->idle + w->c->clear;
			walked = true;
		} else {
			cost += 2 * w->c->idle;
		}
	}
	/* The processor marks a page table that it walks, for fast pages, too. */
	if (!walked && rate * PERIOD * (1 << space->turn) < 1) {
		cost = w->c->skip;
	} else {
		for (int i = first; i < last; i++) {
			if (!(w->flags[i] & FAST))
				look(w, space, i, &cost);
		}
		w->region_ns += (cost * w->c->ns - w->region_ns) / 16;
	}
	space->cost += cost;
}

/* How many regions share flushes?  To clear their bits takes at most a quarter of a window. */
static double group(const struct world *w)
{
	return fmin(GROUP, w->node.window_us * 1e3 / 4 / fmax(w->region_ns, 1));
}

static void count_visit(struct world *w, struct space *space, int regions)
{
	double groups = regions * w->job->scale / group(w);

	if (space->looks == 1)
		space->flushes = 1;
	else if (w->job->scale == 1)
		space->flushes = ceil(groups) * LOOKS;
	else
		space->flushes = groups * LOOKS;
	space->flushed = w->now + (space->looks - 1) * w->node.window_us / 1e6;
	space->cost += w->c->visit;
	space->jump = policy_jump(&space->change, space->sampled, space->sampled_of) &&
		      !without[CHANGE];
	w->result->flushes += space->flushes;
	w->result->visits += space->looks > 1;
	w->result->asleep += !space->tenant->cpu;
}

/* Look at some regions for change, others each time. */
static int look_for_change(struct world *w, struct space *space)
{
	int first = space->begin / REGION, last = (space->end - 1) / REGION, nr = 0;
	int step = (last - first + 1) / SAMPLE + 1;

	for (int r = first + w->number / CHANGE_PERIODS % step; r <= last; r += step, nr++)
		visit_region(w, space, r);
	return nr;
}

/* What does not fit into this period is left for the next one. */
static int look_for_candidates(struct world *w, struct space *space, double budget)
{
	double most = fmax(FLUSHES_A_S * PERIOD / LOOKS * group(w) / w->job->scale, 1);
	int r = space->begin / REGION + space->next, last = (space->end - 1) / REGION, nr = 0;

	for (; r <= last && nr < most && space->cost <= budget &&
	     (without[ENOUGH] || (u32)space->nr_found < policy_enough(w->quota)); r++, nr++)
		visit_region(w, space, r);
	space->next = r > last ? 0 : r - space->begin / REGION;
	return nr;
}

static void visit(struct world *w, struct space *space, double budget)
{
	int nr;

	if (without[TURNS] || w->number >= space->due) {
		space->looks = LOOKS;
		nr = look_for_candidates(w, space, budget);
		count_visit(w, space, nr);
	} else if (!((w->number + (space - w->spaces)) % CHANGE_PERIODS)) {
		space->looks = 1;
		nr = look_for_change(w, space);
		count_visit(w, space, nr);
	}
}

static void scan(struct world *w)
{
	double budget = w->job->scan * PERIOD / w->job->scale;

	for (int n = 0; n < w->job->nr; n++) {
		struct space *space = &w->spaces[(n + w->number) % w->job->nr];

		space->cost = 0;
		space->looks = 0;
		space->flushes = 0;
		space->first = 0;
		space->nr_found = 0;
		space->moved = 0;
		space->sampled = 0;
		space->sampled_of = 0;
		space->jump = false;
		/* Its CPUs are sampled eight times in a period. */
		if (space->tenant->cpu)
			space->seen |= uniform(w) < 1 - pow(1 - fmin(space->tenant->cpu, 1), 8);
		if (!space->seen || budget <= 0)
			continue;
		visit(w, space, budget);
		budget -= space->cost;
		w->result->scan += space->cost;
		space->seen = false;
	}
}

static void promote(struct world *w, int i)
{
	w->result->again += !!(w->flags[i] & EVER);
	w->flags[i] |= FAST | EVER;
	w->fast++;
	w->result->promoted++;
	w->result->move += w->c->promote;
	if (w->now >= 20)
		w->result->late++;
	if (gain_has_ended(w) && w->now > w->job->gain_ends + 2 * PERIOD)
		w->result->after_gain++;
}

/* Demote one page that was found idle, and has not been used since. */
static bool make_room(struct world *w)
{
	for (int n = 0; n < w->pages && w->victims > 0; n++) {
		int v = (w->hand + 1) % w->pages;

		w->hand = v;
		if (!(w->flags[v] & VICTIM))
			continue;
		w->flags[v] &= ~VICTIM;
		w->victims--;
		if (!(w->flags[v] & STUCK) && accessed(w, v, w->victims_at, w->now)) {
			w->result->demote += w->c->spare;
			continue;
		}
		w->flags[v] &= ~FAST;
		w->fast--;
		w->demoted_at[v] = w->cleared[v] = w->now;
		w->result->demoted++;
		w->result->demote += w->c->demote;
		return true;
	}
	return false;
}

/* Pages that may make room for the candidates of a group */
static u32 victims_for(const struct world *w, int b)
{
	bool pending = w->now + PERIOD / 2 < w->victims_at;

	return !pending && policy_serves(w->victims_rate, w->heat[b].rate) ? w->victims : 0;
}

/* A candidate moves if there is room, or a victim for which its group may exchange. */
static bool move(struct world *w, struct space *space, int i)
{
	int b = group_of(w, space);

	if (room(w) <= 0) {
		if (!victims_for(w, b))
			return false;
		if (!without[AGAIN] &&
		    w->exchanged[b] >= policy_bucket_quota(&w->buckets[b], w->quota))
			return false;
		if (!make_room(w))
			return false;
		w->exchanged[b]++;
		w->again[b] += w->now - w->demoted_at[i] < LATELY;
	}
	promote(w, i);
	return true;
}

/* Candidates move; each period begins with another address space. */
static void drain(struct world *w)
{
	u32 left = w->quota;

	for (int n = 0; n < w->job->nr; n++) {
		struct space *space = &w->spaces[(n + w->number) % w->job->nr];

		for (; left && space->moved < space->nr_found; left--) {
			if (!move(w, space, space->found[space->moved]))
				break;
			space->moved++;
		}
	}
}

/* Find the pages of the fast node that are idle for so long that they can go. */
static void attempt(struct world *w, int b, u32 need)
{
	double idle = (without[IDLE] ? 16 : policy_idle_ms(w->heat[b].rate)) / 1e3, cost = 0;

	policy_attempt_begins(&w->wait[b], w->now * 1000);
	w->turn = b;
	w->victims_rate = w->heat[b].rate;
	w->victims = 0;
	for (int i = 0; i < w->pages; i++) {
		bool used;

		if (!(w->flags[i] & FAST))
			continue;
		used = accessed(w, i, w->now, w->now + idle);
		cost += used ? w->c->age_young : w->c->age_idle;
		cost += accessed(w, i, w->now - 1, w->now) ? w->c->age_young : w->c->age_idle;
		w->flags[i] &= ~VICTIM;
		if (used && !(w->flags[i] & STUCK))
			continue;
		w->flags[i] |= VICTIM;
		w->victims++;
	}
	w->victims_at = w->now + idle;
	w->result->age += cost;
	policy_attempt_ends(&w->wait[b], w->heat[b].rate, min((u32)w->victims, need), cost,
			    w->c->promote);
	if (without[WAIT])
		w->wait[b].wait_ms = 0;
}

/* Look for victims for the next group that needs some. */
static void look_for_victims(struct world *w, struct policy_period p, const u32 *pushed,
			     const u32 *waiting)
{
	for (int n = 1; n <= BUCKETS; n++) {
		int b = (w->turn + n) % BUCKETS;

		/* A hotter one does not wait for the end of another one's attempt. */
		if (p.pending && w->heat[b].rate <= 2 * w->victims_rate)
			continue;
		p.victims = victims_for(w, b);
		if (pushed[b] && policy_attempt_due(&w->wait[b], w->heat[b].rate, &p, waiting[b],
						    w->now * 1000)) {
			attempt(w, b, min(pushed[b], 2 * w->quota));
			return;
		}
	}
}

static void learn_of_buckets(struct world *w)
{
	for (int b = 0; b < BUCKETS; b++) {
		u32 found = 0, moved = 0;

		for (int n = b; n < w->job->nr; n += BUCKETS) {
			found += w->spaces[n].nr_found;
			moved += w->spaces[n].moved;
		}
		policy_bucket_moved(&w->buckets[b], found, moved);
		policy_bucket_update(&w->buckets[b], w->exchanged[b], w->again[b], w->now * 1000);
		w->exchanged[b] = 0;
		w->again[b] = 0;
	}
}

static void learn_of_spaces(struct world *w)
{
	for (int n = 0; n < w->job->nr; n++) {
		struct space *space = &w->spaces[n];
		double cost = space->cost +
			      space->flushes * w->c->flush * space->tenant->cpus / w->job->scale;

		if (space->looks > 1)
			space->turn = policy_turn(space->turn, cost, space->nr_found,
						  bucket_of(w, space)->loss, w->c->promote,
						  w->node.saturated);
		if (space->jump)
			space->turn = 0;
		if (space->looks > 1 || space->jump)
			space->due = w->number + (1 << space->turn);
	}
}

static void say(const struct world *w, const struct policy_period *p, u32 window_us, bool jump)
{
	printf("  %.1f s: window %u us, rate %.2f, pushed %u, room %d, victims %d, promoted %.0f, "
	       "flushes %.0f, turn %u, shift %u, scan %.1f M%s\n", w->now, window_us,
	       w->heat[0].rate / 1e3, p->pushed, room(w), w->victims, w->result->promoted,
	       w->result->flushes, w->spaces[0].turn, w->buckets[0].shift, w->result->scan / 1e6,
	       jump ? ", jump" : "");
}

static void learn(struct world *w)
{
	bool full = room(w) <= 0, jump = false;
	u32 window_us = w->node.window_us, waiting[BUCKETS] = {}, pushed[BUCKETS] = {};
	struct policy_period p = {
		.window_us = window_us, .quota = w->quota, .room = full ? 0 : room(w), .full = full,
		.pending = w->now + PERIOD / 2 < w->victims_at,
		.window_max_us = policy_window_max(gain_has_ended(w) ? 0 : GAIN_NS, COST_NS, full),
	};

	for (int n = 0; n < w->job->nr; n++) {
		struct space *space = &w->spaces[n];

		p.visited |= space->looks > 1;
		p.pushed += space->nr_found;
		pushed[group_of(w, space)] += space->nr_found;
		waiting[group_of(w, space)] += space->nr_found - space->moved;
		jump |= space->jump;
		if (space->jump)
			policy_bucket_begin(bucket_of(w, space));
		if (space->looks > 1)
			policy_heat_add(&w->heat[group_of(w, space)], space->first,
					space->nr_found, window_us);
	}
	for (int b = 0; b < BUCKETS; b++)
		policy_heat_age(&w->heat[b]);
	look_for_victims(w, p, pushed, waiting);
	learn_of_buckets(w);
	p.victims = w->victims;
	p.pending = w->now + PERIOD / 2 < w->victims_at;
	if (jump)
		memset(w->wait, 0, sizeof(w->wait));
	if (!jump || !policy_node_begin(&w->node, w->now * 1000))
		policy_update_window(&w->node, &p);
	if (without[WINDOW])
		w->node.window_us = POLICY_WINDOW_LEAST_US;
	learn_of_spaces(w);
	if (verbose)
		say(w, &p, window_us, jump);
}

/* What is found out about the period, from outside */
static void judge(struct world *w, double shift, double took, double scan_before)
{
	struct result *r = w->result;
	double share = world_fast(w), seconds = w->job->seconds;

	if (r->up < 0 && share >= .9 * r->ideal)
		r->up = w->now + took;
	if (r->hot_up < 0 && world_hot_is_fast(w))
		r->hot_up = w->now + took;
	if (w->shifted && r->back < 0 && w->now > shift + .3 && share >= .9 * r->ideal)
		r->back = w->now - shift + took;
	if (w->now >= .7 * seconds) {
		r->end = (r->end * w->judged + share) / (w->judged + 1);
		w->judged++;
	}
	if (w->now >= .67 * seconds)
		r->scan_late += (r->scan - scan_before) / (.33 * seconds);
}

void simulate(const struct job *job, unsigned int seed, struct result *result)
{
	struct world world = { .result = result }, *w = &world;
	u32 rate = job->rate * PERIOD / job->scale;
	int periods = job->seconds / PERIOD;
	double shift = job->tenants[0].shifts;

	*result = (struct result) { .up = -1, .back = -1, .hot_up = -1 };
	world_begin(w, job, seed);
	policy_node_begin(&w->node, 0);
	result->ideal = world_best(w);
	for (w->number = 0; (int)w->number < periods; w->number++) {
		double before = w->now, scan_before = result->scan, promoted = result->promoted;

		w->now = w->number * PERIOD;
		w->quota = policy_quota(rate, rate, gain_has_ended(w) ? 0 : 1000);
		world_change(w, before);
		scan(w);
		drain(w);
		promoted = (result->promoted - promoted) * job->scale / job->rate;
		before = LOOKS * w->node.window_us / 1e6;
		learn(w);
		judge(w, shift, before + promoted, scan_before);
	}
	result->late *= 60.0 / fmax(1, job->seconds - 20) / job->room;
	world_end(w);
}
