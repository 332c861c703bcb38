/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What most tests begin and end with: MIGRC on, with limits that do not get in the way, the
 * test on CPU 0, a helper on CPU 1, readers on the last CPUs, and a time to go on for.
 *
 * MIGRC_SECONDS is how long each test goes on (default 2), MIGRC_SEED what its random numbers
 * begin with (default 1).
 */
#ifndef _MIGRC_SCENE_H
#define _MIGRC_SCENE_H

#include "knobs.h"
#include "pages.h"
#include "readers.h"
#include "threads.h"

struct scene {
	struct crew *crew;
	struct worker *helper;
	struct counters before;
	double begin, end;
	unsigned long rounds;
	/*
	 * So often the test has still to meet what it is for, if that depends on chance: it goes
	 * on until it has, but not for ever.
	 */
	long missing;
};

/* Is there what all tests need?  NULL, or why not. */
const char *scene_lacks(void);
/* NULL, or why the test cannot be run */
const char *scene_begin(struct scene *scene, int nr_readers);
void scene_end(struct scene *scene);
/* Begins a round: false if the time is over, or somebody has read what he must not. */
bool scene_goes_on(struct scene *scene);
/*
 * After a fork all memory is read-only.  Have the test write what is its own now, and its
 * helper his stack: if they did it later, their faults would flush what the test is about.
 */
void scene_own(struct scene *scene);
/* Has nobody read what he must not?  Says what was read. */
bool scene_clean(struct scene *scene);
/*
 * Has the row risen by at least @least since scene_begin()?  Says so if not.  A run that finds
 * nothing proves something only if MIGRC had something to do; one that does find something
 * ends at once, and need not prove that.
 */
bool scene_rose(struct scene *scene, const char *row, long least);
/* Has it met what it is for as often as it should?  Says so if not. */
bool scene_met(struct scene *scene);
/* Flush and release everything that is deferred. */
void scene_drain(void);

/* Until a test that hangs is killed, for TEST_F_TIMEOUT() */
int scene_timeout(void);

#endif /* _MIGRC_SCENE_H */
