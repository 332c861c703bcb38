// SPDX-License-Identifier: GPL-2.0
/*
 * Pages and their accesses.
 *
 * Accesses are Poisson, but for those of STREAM.  A TLB is modelled at its worst: a page that was
 * accessed stays in the TLB until the next flush, and its Accessed bit is not set again.
 */
#include "sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Accesses to a hot page of BURST in a second of a burst */
#define BURST_RATE	200

double uniform(struct world *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return (w->random >> 11) * (1.0 / 9007199254740992.0);
}

/* How much of [from, to] lies in bursts of @len, one in each @cycle, from @phase on */
static double in_bursts(double from, double to, double phase, double cycle, double len)
{
	double sum = 0;

	for (double s = floor((from - phase) / cycle) * cycle + phase; s < to; s += cycle)
		sum += fmax(0, fmin(to, s + len) - fmax(from, s));
	return sum;
}

/* Is the page accessed between two times? */
bool accessed(struct world *w, int i, double from, double to)
{
	const struct space *space = &w->spaces[w->owner[i]];
	const struct tenant *t = space->tenant;
	bool hot = w->flags[i] & HOT;
	double n = w->rate[i] * (to - from);

	if (to <= from)
		return false;
	if (t->kind == STREAM && !hot) {
		double at = t->seconds * (i - space->begin) / t->pages;

		return floor((to - at) / t->seconds) > floor((from - at) / t->seconds);
	}
	if (t->kind == BURST && hot)
		n = BURST_RATE * in_bursts(from, to, i * 2654435761U % 97 * t->seconds / 97,
					   t->seconds, t->share);
	return n > 30 || uniform(w) < 1 - exp(-n);
}

/* Is the Accessed bit set that was cleared at @from?  Not while a TLB keeps the page. */
bool bit_set(struct world *w, int i, double from, double to)
{
	const struct space *space = &w->spaces[w->owner[i]];

	if (w->kept[i] >= space->flushed || !accessed(w, i, fmax(from, space->began), to))
		return false;
	w->kept[i] = to;
	return true;
}

/* The order of pages by heat, the same each time for an address space */
static int *heat_order(const struct space *space)
{
	int n = space->tenant->pages, *order = malloc(n * sizeof(*order));

	for (int i = 0; i < n; i++)
		order[i] = i;
	srand(space->begin + 1);
	for (int i = n - 1; i > 0; i--) {
		int k = rand() % (i + 1), tmp = order[i];

		order[i] = order[k];
		order[k] = tmp;
	}
	return order;
}

static void set_rates(struct world *w, struct space *space, int hottest)
{
	const struct tenant *t = space->tenant;
	int n = t->pages, hot = t->kind == ZIPF ? n / 10 : n * t->hot, *order = heat_order(space);
	double sum = 0;

	for (int i = 1; t->kind == ZIPF && i <= n; i++)
		sum += pow(i, -t->share);
	for (int i = 0; i < n; i++) {
		int page = space->begin + order[(i + hottest) % n];

		if (t->kind == ZIPF)
			w->rate[page] = t->accesses * pow(i + 1, -t->share) / sum;
		else if (t->kind == BURST)
			w->rate[page] = i < hot ? BURST_RATE * t->share / t->seconds :
					t->accesses / (n - hot);
		else
			w->rate[page] = i < hot ? t->accesses * t->share / hot :
					t->accesses * (1 - t->share) / (n - hot);
		w->flags[page] &= ~HOT;
		if (i < hot)
			w->flags[page] |= HOT;
	}
	free(order);
}

static int whole_regions(int pages)
{
	return (pages + REGION - 1) / REGION * REGION;
}

static void world_allocate(struct world *w)
{
	int n = w->pages;

	w->rate = calloc(n, sizeof(*w->rate));
	w->cleared = calloc(n, sizeof(*w->cleared));
	w->kept = calloc(n, sizeof(*w->kept));
	w->demoted_at = calloc(n, sizeof(*w->demoted_at));
	w->flags = calloc(n, sizeof(*w->flags));
	w->owner = calloc(n, sizeof(*w->owner));
}

void world_begin(struct world *w, const struct job *job, unsigned int seed)
{
	*w = (struct world) { .job = job, .c = job->costs, .result = w->result };
	w->random = 88172645463325252ULL + seed * 7919ULL;
	w->spaces = calloc(job->nr, sizeof(*w->spaces));
	for (int k = 0; k < job->nr; k++)
		w->pages += whole_regions(job->tenants[k].pages);
	world_allocate(w);
	for (int k = 0, first = 0; k < job->nr; k++) {
		const struct tenant *t = &job->tenants[k];
		struct space *space = &w->spaces[k];

		space->tenant = t;
		space->begin = first;
		space->end = first + t->pages;
		space->flushed = 0;
		space->found = malloc(t->pages * sizeof(*space->found));
		first += whole_regions(t->pages);
		for (int i = space->begin; i < first; i++) {
			w->owner[i] = k;
			w->demoted_at[i] = -1e9;
			w->kept[i] = -1;
			if (uniform(w) < t->stuck)
				w->flags[i] |= STUCK;
			if (!t->fast || i >= space->end)
				continue;
			w->flags[i] |= FAST;
			w->fast++;
		}
		set_rates(w, space, 0);
	}
}

void world_end(struct world *w)
{
	for (int k = 0; k < w->job->nr; k++)
		free(w->spaces[k].found);
	free(w->spaces);
	free(w->rate);
	free(w->cleared);
	free(w->kept);
	free(w->demoted_at);
	free(w->flags);
	free(w->owner);
}

static void restart(struct world *w, struct space *space)
{
	space->began = w->now;
	space->flushed = w->now;
	for (int i = space->begin; i < space->end; i++) {
		w->fast -= !!(w->flags[i] & FAST);
		w->victims -= !!(w->flags[i] & VICTIM);
		w->flags[i] &= ~(FAST | VICTIM | EVER);
		w->demoted_at[i] = -1e9;
	}
}

/* What tenants change by themselves, since @before */
void world_change(struct world *w, double before)
{
	for (int k = 0; k < w->job->nr; k++) {
		struct space *space = &w->spaces[k];
		const struct tenant *t = space->tenant;

		if (t->shifts && before < t->shifts && w->now >= t->shifts) {
			set_rates(w, space, t->pages - t->pages * t->hot);
			w->shifted = true;
		}
		if (t->restarts && floor(before / t->restarts) < floor(w->now / t->restarts))
			restart(w, space);
	}
}

/* Share of accesses to the fast node */
double world_fast(const struct world *w)
{
	double fast = 0, all = 0;

	for (int i = 0; i < w->pages; i++) {
		all += w->rate[i];
		if (w->flags[i] & FAST)
			fast += w->rate[i];
	}
	return fast / all;
}

/* Are nine tenths of the first tenant's hot pages on the fast node? */
bool world_hot_is_fast(const struct world *w)
{
	const struct space *space = &w->spaces[0];
	int hot = 0, fast = 0;

	for (int i = space->begin; i < space->end; i++) {
		hot += !!(w->flags[i] & HOT);
		fast += (w->flags[i] & (HOT | FAST)) == (HOT | FAST);
	}
	return fast >= .9 * hot;
}

static int hotter(const void *a, const void *b)
{
	const float *x = a, *y = b;

	return *x < *y ? 1 : *x > *y ? -1 : 0;
}

/* The share that is possible */
double world_best(const struct world *w)
{
	float *sorted = malloc(w->pages * sizeof(*sorted));
	double all = 0, fast = 0;

	memcpy(sorted, w->rate, w->pages * sizeof(*sorted));
	qsort(sorted, w->pages, sizeof(*sorted), hotter);
	for (int i = 0; i < w->pages; i++) {
		all += sorted[i];
		if (i < w->job->room)
			fast += sorted[i];
	}
	free(sorted);
	return fast / all;
}
