// SPDX-License-Identifier: GPL-2.0
/*
 * As it is meant to be used: kswapd demotes read-only pages of a node that fills up, without a
 * flush, while they are written and made read-only again.  move_pages(2) may not defer here.
 *
 * Must fail while fault_wp is set in /sys/kernel/debug/migrc/.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <linux/mempolicy.h>

#include "../kselftest_harness.h"

#include "scene.h"

#define DEMOTION	"/sys/kernel/mm/numa/demotion_enabled"
#define NR_PAGES	2048UL
#define LEN		(NR_PAGES * PAGE)
/*
 * Few enough, and an odd number of pages apart, for a reader's TLB to keep them all: what it
 * has forgotten cannot be stale.
 */
#define NR_SPOTS	16
#define APART		(127 * PAGE)
/* How long it may take until the node is full and kswapd has demoted something, */
#define FILL_S		60
/* how long from then on until all is made anew, */
#define DEMOTE_S	5
/* and for one spot, before all pages are made read-only again */
#define SPOT_S		1

FIXTURE(demote)
{
	struct scene scene;
	char *area;
};

FIXTURE_SETUP(demote)
{
	const char *lacks = scene_begin(&self->scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	ASSERT_EQ(0, set(MIGRC_DEBUG "defer_syscalls", "0"));
	if (set(DEMOTION, "1"))
		SKIP(return, "no demotion");
	self->area = map_area(LEN);
	ASSERT_NE(NULL, self->area);
}

FIXTURE_TEARDOWN(demote)
{
	scene_end(&self->scene);
}

static long free_pages(int nid)
{
	long free = 0, value;
	bool here = false;
	char line[256];
	FILE *f = fopen("/proc/zoneinfo", "r");
	int n;

	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "Node %d, zone", &n) == 1)
			here = n == nid;
		else if (here && sscanf(line, " pages free %ld", &value) == 1)
			free += value;
	}
	fclose(f);
	return free;
}

/*
 * kswapd leaves alone what is read all the time.  So the readers have looked at all spots, and
 * turn away until kswapd has demoted some, which are written before they look again.
 */
static int write_demoted(struct crew *crew, char *area)
{
	double end = now() + SPOT_S;
	bool done[NR_SPOTS];
	int i, nr = 0;

	crew_settle(crew);
	for (i = 0; i < NR_SPOTS; i++) {
		spot_hide(crew, i);
		done[i] = node_of(area + i * APART) == slow;
	}
	while (!nr && now() < end) {
		usleep(random_number() % 1000);
		for (i = 0; i < NR_SPOTS; i++) {
			char *page = area + i * APART;
			struct spot *spot = crew_spot(crew, i);

			if (done[i] || node_of(page) != slow)
				continue;
			done[i] = true;
			word_write(page, spot_next(spot));
			spot_has_next(spot);
			spot_show_again(crew, i, page);
			nr++;
		}
	}
	for (i = 0; i < NR_SPOTS; i++)
		spot_show_again(crew, i, area + i * APART);
	crew_settle(crew);
	return nr;
}

static bool all_demoted(char *area)
{
	int i;

	for (i = 0; i < NR_SPOTS; i++)
		if (node_of(area + i * APART) != slow)
			return false;
	return true;
}

/* More than the fast node has, and nowhere else: kswapd makes room. */
static void fill(void)
{
	size_t size = (free_pages(fast) + 4 * NR_PAGES) * PAGE, i;
	unsigned long mask = 1UL << fast;
	char *p;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED || syscall(__NR_mbind, p, size, MPOL_BIND, &mask, 65UL, 0))
		_exit(1);
	madvise(p, size, MADV_NOHUGEPAGE);
	pin(1);
	madvise(p, size, MADV_POPULATE_WRITE);
	for (;;)
		for (i = 0; i < size; i += PAGE)
			word_write(p + i, i);
}

static bool met(struct scene *scene)
{
	return counter_since(&scene->before, "migrc_force_wp") > 0;
}

TEST_F_TIMEOUT(demote, write, scene_timeout())
{
	struct scene *scene = &self->scene;
	unsigned long demoted = 0, written = 0, i;
	pid_t pid;

	/* Not shared with the child, or its pages would be copied when they are written. */
	ASSERT_EQ(0, madvise(self->area, LEN, MADV_DONTFORK));
	for (i = 0; i < NR_SPOTS; i++)
		spot_show(scene->crew, i, self->area + i * APART);
	scene->missing = 1;
	while (scene_goes_on(scene)) {
		bool begun = false;
		double end;

		ASSERT_TRUE(place(self->area, LEN, fast));
		pid = fork();
		if (!pid)
			fill();
		ASSERT_GT(pid, 0);
		end = now() + FILL_S;
		while (now() < end && crew_clean(scene->crew)) {
			ASSERT_TRUE(make_read_only(self->area, LEN, BY_UFFD));
			written += write_demoted(scene->crew, self->area);
			/* At any time */
			spot_write(crew_spot(scene->crew, random_number() % NR_SPOTS));
			if (!begun && count_on(self->area, NR_PAGES, slow)) {
				begun = true;
				end = now() + DEMOTE_S;
			}
			if (all_demoted(self->area))
				break;
			/* What the child shares with this process is demoted and written, too. */
			if (begun && met(scene) && now() > scene->end)
				break;
		}
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		demoted += count_on(self->area, NR_PAGES, slow);
		crew_settle(scene->crew);
		scene->missing = !demoted || !met(scene);
	}
	ksft_print_msg("%lu rounds, %lu pages demoted, %lu spots written soon\n",
		       scene->rounds, demoted, written);
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_GE(demoted, 1);
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", 1));
	EXPECT_TRUE(scene_rose(scene, "migrc_force_wp", 1));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
