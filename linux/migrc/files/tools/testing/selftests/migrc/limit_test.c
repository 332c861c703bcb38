// SPDX-License-Identifier: GPL-2.0
/*
 * The number and the age of the pages that are kept are limited, and they are given back before a
 * process is killed for lack of memory.  Must fail: cap while defer_cap is set, age while defer_age
 * is, oom while defer_oom is.
 */
#include "../kselftest_harness.h"

#include "migrc.h"

/* migrate_pages() unmaps so many at once: NR_MAX_BATCHED_MIGRATION */
#define BATCH		512
#define NR_PAGES	4096UL
#define LIMIT_S		3	/* an emulated CPU may be late, but not by more */
#define FILL_S		240	/* a debug kernel is slow to fill a node */

#define PAGE_FIXTURE limit
#include "page_fixture.h"

/* All pages, in one system call: each begins with a drain. */
static long move_all(char *area)
{
	make_read_only(area, NR_PAGES * PAGE, BY_UFFD);
	moves_add(area, NR_PAGES, other_node(node_of(area)));
	moves_do();
	return counter("tier_defer_pending");
}

TEST_F_TIMEOUT(limit, cap, scene_timeout())
{
	char *area = new_area(NR_PAGES * PAGE, slow);
	struct scene *scene = &self->scene;
	long pending, most = 0;

	ASSERT_TRUE(area && !set(MIGRC_DEBUG "max_pages", "64"));
	while (scene_goes_on(scene)) {
		pending = move_all(area);
		most = pending > most ? pending : most;
	}
	EXPECT_LE(most, 64 + BATCH) TH_LOG("too many: %ld pages were kept at once", most);
	EXPECT_TRUE(scene_ends(scene, "met_cap", 1));
}

TEST_F_TIMEOUT(limit, age, scene_timeout())
{
	char *area = new_area(NR_PAGES * PAGE, slow);
	struct scene *scene = &self->scene;
	double start, took = 0;

	ASSERT_TRUE(area && !set(MIGRC_DEBUG "age_ms", "50"));
	/* Stops a timer that runs. */
	scene_drain();
	while (scene_goes_on(scene) && took < LIMIT_S) {
		move_all(area);
		start = now();
		while (counter("tier_defer_pending") > 0 && now() - start < LIMIT_S)
			usleep(1000);
		took = now() - start;
	}
	EXPECT_LT(took, LIMIT_S) TH_LOG("too long: pages are still kept after %d s", LIMIT_S);
	EXPECT_TRUE(scene_ends(scene, "tier_defer_success", NR_PAGES / 2));
}

/* Takes memory of the node until no page is kept any more, and stays. */
static void fill(int nid, atomic_bool *full)
{
	unsigned long mask = 1UL << nid, i;
	size_t size = 1UL << 34;
	char *p;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	write_file("/proc/self/oom_score_adj", "1000");
	p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED || syscall(__NR_mbind, p, size, MPOL_BIND, &mask, 65UL, 0))
		_exit(1);
	madvise(p, size, MADV_NOHUGEPAGE);
	while (counter("tier_defer_pending") > 0)
		for (i = 0; i < 64; i++, p += PAGE)
			*p = 1;
	atomic_store(full, true);
	for (;;)
		pause();
}

TEST_F_TIMEOUT(limit, oom, 2 * FILL_S + scene_timeout())
{
	atomic_bool *full = shared_alloc(sizeof(*full));
	char *area = new_area(NR_PAGES * PAGE, slow);
	struct scene *scene = &self->scene;
	double end;
	pid_t pid;
	int i;

	ASSERT_TRUE(full && area);
	ASSERT_EQ(0, set(MIGRC_DEBUG "age_ms", "600000"));
	/* A process that is killed fails this test; the kernel's call trace is no news then. */
	ASSERT_EQ(0, set("/proc/sys/kernel/printk", "3"));
	/* Before memory is short others may have drained: for the LRU caches, or an old timer. */
	for (i = 0; i < 3 && risen("met_oom") <= 0; i++) {
		if (node_of(area) != slow)
			move_all(area);
		EXPECT_GT(move_all(area), NR_PAGES / 2);
		atomic_store(full, false);
		pid = fork();
		if (!pid)
			fill(slow, full);
		end = now() + FILL_S;
		while (!atomic_load(full) && !waitpid(pid, NULL, WNOHANG) && now() < end)
			usleep(10000);
		ASSERT_TRUE(atomic_load(full)) TH_LOG("it was killed for lack of memory");
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	EXPECT_TRUE(scene_ends(scene, "met_oom", 1));
}

TEST_HARNESS_MAIN
