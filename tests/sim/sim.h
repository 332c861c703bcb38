/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Simulator of the promoter: pages with access rates, a fast and a slow node, and the decisions of
 * policy.c, period by period.  access.c has the pages, sim.c the scanner and the promoter, jobs.c
 * the jobs and their limits.
 */
#ifndef _TIERSHIFT_SIM_H
#define _TIERSHIFT_SIM_H

#include "policy.h"

#define REGION		512	/* pages below a page table */
#define PERIOD		0.5	/* seconds */
#define BUCKETS		64	/* of groups */

/* How the pages of a tenant are accessed */
enum kind {
	HOTCOLD,	/* share of the accesses goes to the hot pages */
	ZIPF,		/* share is theta */
	STREAM,		/* as HOTCOLD, but the cold pages one after the other, once in seconds */
	BURST,		/* the hot pages for share of seconds, at 200 accesses a second */
};

struct tenant {
	enum kind kind;
	int pages;
	double accesses;	/* for a second */
	double hot;		/* part of the pages */
	double share;
	double seconds;
	double cpu;		/* CPUs that it runs on, on average; 0: it sleeps */
	int cpus;		/* that a flush of its address space interrupts */
	bool fast;		/* it begins on the fast node, others on the slow one */
	double shifts;		/* when other pages become hot; 0: never */
	double restarts;	/* it exits after so many seconds, and begins anew; 0: never */
	double stuck;		/* part of the pages that look idle on the fast node, in TLBs */
};

/* In instructions in the lab, in nanoseconds on a server */
struct costs {
	double ns;		/* of a unit */
	double visit, region, skip;	/* skip: a region that the processor has not walked */
	double idle, fast, clear, look, found;	/* of an entry */
	double promote, demote, spare, age_young, age_idle;	/* of a page */
	double flush;		/* of a CPU */
};

struct job {
	const char *name;
	const struct tenant *tenants;
	int nr;
	int room;		/* pages of the fast node that tenants can have */
	int seconds;
	double rate;		/* pages a second that promotion can move */
	double scan;		/* cost that scanning can have in a second */
	double gain_ends;	/* when a promotion gains nothing any more; 0: never */
	int scale;		/* one page in so many is simulated */
	const struct costs *costs;
};

/* Rules that can be left out */
enum rule {
	TURNS, WINDOW, IDLE, WAIT, AGAIN, CHANGE, ENOUGH, NR_RULES
};

extern bool without[NR_RULES];
extern bool verbose;

struct result {
	double end, ideal;	/* share of accesses to the fast node: in the last 30 %, at best */
	double up, back;	/* seconds to 90 % of the best, at first and after a shift; or -1 */
	double hot_up;		/* until 90 % of the first tenant's hot pages are fast; or -1 */
	double promoted, demoted, again;	/* pages; again: promoted not for the first time */
	double late;		/* pages promoted after 20 s, per minute, as a share of the room */
	double after_gain;	/* pages promoted later than two periods after gain_ends */
	double scan, move, demote, age;	/* costs */
	double scan_late;	/* of scanning in the last third, for a second */
	double flushes, visits, asleep;	/* asleep: visits of tenants that sleep */
};

enum { FAST = 1, VICTIM = 2, EVER = 4, STUCK = 8, HOT = 16 };

/* An address space */
struct space {
	const struct tenant *tenant;
	int begin, end;		/* pages */
	double began, flushed;	/* when, the last time */
	bool seen;		/* running, since the last visit */
	unsigned int turn;
	unsigned int due;	/* period of the next visit */
	int next;		/* region to go on at */
	struct policy_change change;
	/* Of this period */
	int looks;
	double flushes;
	double cost;
	u32 sampled, sampled_of;
	bool jump;
	int *found, nr_found, moved, first;	/* candidates, of which so many have moved */
};

struct world {
	const struct job *job;
	const struct costs *c;
	struct result *result;
	struct space *spaces;
	struct policy_node node;
	struct policy_bucket buckets[BUCKETS];
	struct policy_heat heat[BUCKETS];
	struct policy_wait wait[BUCKETS];
	double now;
	unsigned int number;	/* of the period */
	u64 random;
	/* Pages */
	int pages, fast;
	float *rate, *cleared, *kept, *demoted_at;	/* kept: TLBs have it since then */
	u8 *flags;
	int *owner;
	double region_ns;	/* of a visit of a region, on average */
	u32 quota;
	/* Victims */
	int victims, hand;
	double victims_at;	/* when the attempt ends */
	u32 victims_rate;	/* of the candidates for which it was made */
	int turn;		/* bucket of the last attempt */
	u32 exchanged[BUCKETS], again[BUCKETS];
	bool shifted;
	int judged;		/* periods in result->end */
};

double uniform(struct world *w);
bool accessed(struct world *w, int i, double from, double to);
bool bit_set(struct world *w, int i, double from, double to);
void world_begin(struct world *w, const struct job *job, unsigned int seed);
void world_end(struct world *w);
void world_change(struct world *w, double before);
double world_best(const struct world *w);
double world_fast(const struct world *w);
bool world_hot_is_fast(const struct world *w);

void simulate(const struct job *job, unsigned int seed, struct result *result);

#endif /* _TIERSHIFT_SIM_H */
