// SPDX-License-Identifier: GPL-2.0
/*
 * Jobs of the simulator, and what they must reach.
 *
 *	sim [-v] [-n SEEDS] [-w RULE]... [JOB]...
 *
 * Without the name of a job all of them run.  Each job is a line of values, the worst of all seeds.
 * -w leaves out a rule.  -v prints each period.  The exit code is 1 if a limit is missed.
 */
#include "sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof(*(a)))
#define NEVER		1e9	/* seconds */

/* Instructions, measured in the lab */
static const struct costs lab = {
	.ns = .75, .visit = 20000, .region = 310, .skip = 60,
	.idle = 2.5, .fast = 10, .clear = 90, .look = 50, .found = 110,
	.promote = 5340, .demote = 6500, .spare = 1000, .age_young = 120, .age_idle = 13.5,
	.flush = 29400,
};

/* Nanoseconds, assumed for a server */
static const struct costs server = {
	.ns = 1, .visit = 5000, .region = 300, .skip = 40,
	.idle = 1, .clear = 120, .look = 75, .found = 80,
	.promote = 4000, .demote = 4000, .spare = 1000, .age_young = 60, .age_idle = 60,
	.flush = 22000,
};

/* Limits: end is in points below the best; per in cost a promoted page; 0: none */
struct limit {
	double end, again, back, per, late, hot_up, promoted, after_gain, scan_late, asleep;
};

struct entry {
	struct job job;
	struct limit limit;
};

#define TENANTS(...)	.tenants = (const struct tenant[]) { __VA_ARGS__ }, \
			.nr = ARRAY_SIZE(((const struct tenant[]) { __VA_ARGS__ }))
#define RUNS(n)		.cpu = n, .cpus = n
/* What else is on the fast node */
#define OTHERS(n)	{ HOTCOLD, n, .accesses = 1, .hot = .5, .share = .5, .cpu = .1, .cpus = 1, \
			  .fast = true }
#define LAB_RATE(s, r, pages)	.seconds = s, .room = r, .rate = pages, .scan = 5e8, .scale = 1, \
				.costs = &lab
#define LAB(s, r)	LAB_RATE(s, r, 25000)
#define ZIPF_(n, rate)	{ ZIPF, n, rate, .share = .99, RUNS(2) }
#define SMALL		{ HOTCOLD, 8192, 2e5, .25, .95, RUNS(1) }
/* A part of all CPUs, but at least so much of one, in ns a second */
#define PART(cpus, part, least)	(1e9 * ((cpus) * (part) > (least) ? (cpus) * (part) : (least)))
/* Room for the hot tenth, a page in ten: 20 accesses a second, others one in 50 seconds */
#define MACHINE(gib, cpus_, s) \
	TENANTS({ HOTCOLD, gib * 262144L / s, gib * 262144. / s * 2.018, .1, .99108, \
		  .cpu = 8, .cpus = cpus_ }), \
	.room = gib * 26214L / s + 4096, .seconds = 90, .scale = s, .costs = &server, \
	.rate = PART(cpus_, .015, .5) / 4000, .scan = PART(cpus_, .005, .25)

static struct tenant crowd[10000];

static const struct entry entries[] = {
	{ { "hotcold-4k", TENANTS({ HOTCOLD, 49152, 1.9e6, .1, .9, RUNS(2) }, OTHERS(6000)),
	    LAB(25, 43200) }, { .end = 1, .again = .05, .per = 8500 } },
	{ { "zipf-4k", TENANTS(ZIPF_(49152, 1.75e6), OTHERS(6000)), LAB(27, 43200) },
	  { .end = 1, .again = .05, .per = 9000, .scan_late = .002 } },
	{ { "twice-uniform", TENANTS({ HOTCOLD, 65536, 1.3e6, .5, .5, RUNS(2) }, OTHERS(7000)),
	    LAB(37, 30500) }, { .end = 1, .again = .05, .scan_late = .002 } },
	{ { "twice-zipf", TENANTS(ZIPF_(65536, 1.5e6), OTHERS(7000)), LAB(26, 30500) },
	  { .end = 2, .again = .05 } },
	{ { "shifting", TENANTS({ HOTCOLD, 98304, 1.4e6, .25, .9, RUNS(2), .shifts = 34 },
				OTHERS(6000)), LAB(68, 43200) },
	  { .end = 1, .again = .05, .back = 3.5 } },
	{ { "shifting-late", TENANTS({ HOTCOLD, 98304, 1.4e6, .25, .9, RUNS(2), .shifts = 34.5 },
				     OTHERS(6000)), LAB(68, 43200) },
	  { .end = 1, .again = .05, .back = 4.5 } },
	{ { "hotcold-4g", TENANTS({ HOTCOLD, 1048576, .9e6, .1, .9, RUNS(2) }, OTHERS(6000)),
	    LAB(53, 240000) }, { .end = 1, .again = .05 } },
	{ { "uniform-slow", TENANTS({ HOTCOLD, 65536, 1.3e5, .5, .5, RUNS(2) }, OTHERS(7000)),
	    LAB(60, 30500) }, { .end = 1, .again = .05 } },
	/* Nearly uniform, 1.3 times the fast node; a stream over 1.6 times the fast node */
	{ { "lookup", TENANTS({ HOTCOLD, 42600, 3e5, .1, .12, RUNS(8) }, OTHERS(3000)),
	    LAB(150, 32768) }, { .end = 1, .again = .05, .late = .02 } },
	{ { "graph", TENANTS({ STREAM, 52400, 6e5, .05, .3, 8, RUNS(8) }, OTHERS(3000)),
	    LAB(160, 32768) }, { .again = .05, .late = .02, .promoted = 2800 } },
	{ { "stream", TENANTS({ STREAM, 98304, 3e5, .001, .001, 10, RUNS(2) }, OTHERS(6000)),
	    LAB(40, 43200) }, { .promoted = 98304 * .005 } },
	{ { "bursts", TENANTS({ BURST, 65536, 1e3, .5, 1, 10, RUNS(2) }, OTHERS(7000)),
	    LAB(60, 30500) }, { .end = 25, .again = .2 } },
	{ { "long-bursts", TENANTS({ BURST, 65536, 1e3, .9, 2, 4, RUNS(2) }, OTHERS(7000)),
	    LAB(60, 30500) }, { .again = .2, .late = .05 } },
	{ { "stuck", TENANTS({ HOTCOLD, 65536, 1.3e6, .5, .5, RUNS(2), .stuck = .05 }, OTHERS(7000)),
	    LAB(60, 30500) }, { .end = 1, .again = .05 } },
	{ { "gain-ends", TENANTS(ZIPF_(65536, 1.5e6), OTHERS(7000)), LAB(26, 30500),
	    .gain_ends = 1.5 }, { .after_gain = 1 } },
	{ { "small", TENANTS(SMALL, OTHERS(40000)), LAB(30, 43200) }, { .hot_up = 2 } },
	{ { "small-thrash", TENANTS(SMALL, { STREAM, 131072, 1e6, .3, .5, 4, RUNS(4) },
				    OTHERS(40000)), LAB(30, 43200) }, { .hot_up = 4 } },
	{ { "small-restart", TENANTS(SMALL, { HOTCOLD, 65536, 1e6, .3, .9, .restarts = 2, RUNS(4) },
				     OTHERS(40000)), LAB(30, 43200) }, { .hot_up = 4 } },
	/* Both want more than can move */
	{ { "small-queue", TENANTS(SMALL, { HOTCOLD, 262144, 4e6, .5, .9, RUNS(4) }, OTHERS(40000)),
	    LAB_RATE(60, 143200, 1500) }, { .hot_up = 8, .per = 11000 } },
	/* 10,000 processes, of which 100 run */
	{ { "crowd", crowd, ARRAY_SIZE(crowd), LAB(30, 20000) }, { .asleep = 1 } },
	{ { "64-GiB", MACHINE(64L, 16, 16) }, { .hot_up = 15.5 } },
	{ { "1-TiB", MACHINE(1024L, 128, 256) }, { .hot_up = 68 } },
	{ { "4-TiB", MACHINE(4096L, 512, 1024) }, { .hot_up = 72 } },
};

static const char *const rules[NR_RULES] = {
	[TURNS] = "turns", [WINDOW] = "window", [IDLE] = "idle",
	[WAIT] = "wait", [AGAIN] = "again", [CHANGE] = "change", [ENOUGH] = "enough",
};

/* Values of a result, as limits have them; each is worse if it is larger. */
static struct limit values(const struct job *job, const struct result *r)
{
	double pages = fmax(1, r->promoted);

	return (struct limit) {
		.end = 100 * (r->ideal - r->end),
		.again = r->again / pages,
		.back = r->back < 0 && job->tenants[0].shifts ? NEVER : r->back,
		.per = (r->scan + r->move + r->demote + r->age) / pages,
		.late = r->late,
		.hot_up = r->hot_up < 0 ? NEVER : r->hot_up,
		.promoted = r->promoted,
		.after_gain = r->after_gain,
		.scan_late = r->scan_late * job->costs->ns * 1e-9 * job->scale,
		.asleep = r->asleep,
	};
}

static void worst(struct limit *of, const struct limit *than)
{
	double *a = (double *)of;
	const double *b = (const double *)than;

	for (unsigned int k = 0; k < sizeof(*of) / sizeof(double); k++)
		a[k] = fmax(a[k], b[k]);
}

static bool missed(const struct limit *found, const struct limit *most)
{
	const double *a = (const double *)found, *b = (const double *)most;

	for (unsigned int k = 0; k < sizeof(*found) / sizeof(double); k++) {
		if (b[k] && a[k] > b[k])
			return true;
	}
	return false;
}

static void say(const struct job *job, const struct result *r, const struct limit *v, bool miss)
{
	double pages = fmax(1, r->promoted);

	printf("%-14s %5.1f %5.1f %5.1f %5.1f %6.1f ", job->name, 100 * r->ideal, v->end, r->up,
	       v->back < NEVER ? v->back : -1, v->hot_up < NEVER ? v->hot_up : -1);
	printf("%5.1f %9.0f %6.2f ", 100 * v->again, r->promoted * job->scale, 100 * v->late);
	printf("%6.0f %5.0f %5.0f %6.0f ", r->scan / pages, r->demote / pages, r->age / pages, v->per);
	printf("%6.0f %5.1f %6.3f%s\n", r->flushes,
	       1000 * r->flushes / fmax(1, (r->promoted + r->demoted) * job->scale),
	       100 * v->scan_late, miss ? "  MISSED" : "");
	fflush(stdout);
}

static bool run(const struct entry *entry, int seeds)
{
	struct limit all = { .end = -100 }, one;
	struct result result = { 0 };
	bool miss;

	for (int seed = 0; seed < seeds; seed++) {
		simulate(&entry->job, seed, &result);
		one = values(&entry->job, &result);
		worst(&all, &one);
	}
	miss = missed(&all, &entry->limit);
	say(&entry->job, &result, &all, miss);
	return !miss;
}

static void leave_out(const char *rule)
{
	for (int k = 0; k < NR_RULES; k++) {
		if (!strcmp(rule, rules[k])) {
			without[k] = true;
			return;
		}
	}
	fprintf(stderr, "sim: no rule \"%s\"; there are:", rule);
	for (int k = 0; k < NR_RULES; k++)
		fprintf(stderr, " %s", rules[k]);
	fputc('\n', stderr);
	exit(2);
}

static bool wanted(const char *name, char **names)
{
	if (!*names)
		return true;
	for (; *names; names++) {
		if (!strcmp(name, *names))
			return true;
	}
	return false;
}

int main(int argc, char **argv)
{
	int option, seeds = 1;
	bool ok = true, any = false;

	while ((option = getopt(argc, argv, "vn:w:")) != -1) {
		if (option == 'v')
			verbose = true;
		else if (option == 'n' && atoi(optarg) > 0)
			seeds = atoi(optarg);
		else if (option == 'w')
			leave_out(optarg);
		else
			return 2;
	}
	for (unsigned int k = 0; k < ARRAY_SIZE(crowd); k++)
		crowd[k] = (struct tenant) {
			HOTCOLD, 512, 5e3, .2, .9, .cpu = k % 100 ? 0 : .5, .cpus = 1
		};
	printf("%-14s %5s %5s %5s %5s %6s %5s %9s %6s %6s %5s %5s %6s %6s %5s %6s\n", "", "best",
	       "below", "up s", "back", "hot up", "again", "promoted", "late", "scan", "dem.",
	       "age", "all", "flush", "/1000", "CPU %");
	for (unsigned int k = 0; k < ARRAY_SIZE(entries); k++) {
		if (!wanted(entries[k].job.name, argv + optind))
			continue;
		any = true;
		ok &= run(&entries[k], seeds);
	}
	if (!any) {
		fprintf(stderr, "sim: no such job; there are:");
		for (unsigned int k = 0; k < ARRAY_SIZE(entries); k++)
			fprintf(stderr, " %s", entries[k].job.name);
		fputc('\n', stderr);
		return 2;
	}
	return !ok;
}
