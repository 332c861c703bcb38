// SPDX-License-Identifier: GPL-2.0
/*
 * Who wants certain page frames gets them, though pages were migrated from there without a
 * flush; and who migrates pages because of that does flush.
 *
 * Each test must fail while a switch in /sys/kernel/debug/migrc/ is set:
 *
 *   kept: offline, memory_failure	fault_isolate
 *   kept: freeze			fault_freeze
 *   reason: syscall, compaction	fault_reason
 *   reason: offline			fault_reason
 */
#include <signal.h>

#include "../kselftest_harness.h"

#include "scene.h"

#define BLOCKS		"/sys/devices/system/memory/"
#define HWPOISON	"/sys/kernel/debug/hwpoison/"
#define NR_PAGES	1024UL
#define LEN		(NR_PAGES * PAGE)

#ifndef MADV_SOFT_OFFLINE
#define MADV_SOFT_OFFLINE	101
#endif

static void on_alarm(int sig)
{
	(void)sig;
}

static int set_block(long block, const char *state)
{
	char path[96];

	snprintf(path, sizeof(path), BLOCKS "memory%ld/state", block);
	return write_file(path, state);
}

/* The kernel tries until it is interrupted. */
static int offline(long block)
{
	struct sigaction action = { .sa_handler = on_alarm };
	int err;

	sigaction(SIGALRM, &action, NULL);
	alarm(8);
	err = set_block(block, "offline");
	alarm(0);
	return err;
}

/* Frames per memory block, or 0 if there are none */
static uint64_t block_frames(void)
{
	char buf[32];

	if (!read_file(BLOCKS "block_size_bytes", buf, sizeof(buf)))
		return 0;
	return strtoull(buf, NULL, 16) / PAGE;
}

struct kept {
	struct scene scene;
	char *area;
	uint64_t frames[NR_PAGES];
};

FIXTURE(kept)
{
	struct kept data;
};

FIXTURE_SETUP(kept)
{
	unsigned long i;

	const char *lacks = scene_begin(&self->data.scene, 1);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->data.area = map_area(LEN);
	ASSERT_TRUE(self->data.area && place(self->data.area, LEN, slow));
	for (i = 0; i < NR_PAGES; i++)
		self->data.frames[i] = pfn_of(self->data.area + i * PAGE);
}

FIXTURE_TEARDOWN(kept)
{
	scene_end(&self->data.scene);
}

/* What the pages were in is kept when it returns. */
static bool leave(struct kept *self)
{
	struct moves *moves = calloc(1, sizeof(*moves));
	unsigned long moved = 0;

	if (moves && make_read_only(self->area, LEN, BY_UFFD)) {
		moves_add(moves, self->area, NR_PAGES, fast);
		moved = moves_do(moves);
	}
	free(moves);
	return moved >= NR_PAGES / 2 && counter("migrc_pending") > 0;
}

TEST_F_TIMEOUT(kept, offline, scene_timeout())
{
	uint64_t per_block = block_frames();
	unsigned long i, tried = 0;
	long block, last = -1;

	if (!per_block)
		SKIP(return, "no CONFIG_MEMORY_HOTPLUG");
	spot_show(self->data.scene.crew, 0, self->data.area);
	ASSERT_TRUE(leave(&self->data));
	for (i = 0; i < NR_PAGES && tried < 4; i++) {
		int err;

		block = self->data.frames[i] / per_block;
		if (block == last)
			continue;
		last = block;
		tried++;
		err = offline(block);
		if (!err) {
			EXPECT_EQ(0, set_block(block, "online"));
			EXPECT_TRUE(scene_rose(&self->data.scene, "migrc_drain_isolate", 1));
			EXPECT_TRUE(scene_clean(&self->data.scene));
			return;
		}
		/* Is it MIGRC that stands in the way? */
		scene_drain();
		if (!offline(block)) {
			set_block(block, "online");
			EXPECT_EQ(0, err)
				TH_LOG("block %ld could go offline only after a drain", block);
			return;
		}
		ASSERT_TRUE(place(self->data.area, LEN, slow) && leave(&self->data));
	}
	SKIP(return, "no memory block of the slow node can go offline");
}

/* Memory failure in a frame that is kept: it is found free after the flush. */
TEST_F_TIMEOUT(kept, memory_failure, scene_timeout())
{
	struct scene *scene = &self->data.scene;
	char pfn[32];
	int err = 0;

	if (!exists(HWPOISON "corrupt-pfn"))
		SKIP(return, "no CONFIG_HWPOISON_INJECT");
	spot_show(scene->crew, 0, self->data.area);
	while (!err && scene_goes_on(scene)) {
		ASSERT_TRUE(place(self->data.area, PAGE, slow));
		crew_settle(scene->crew);
		snprintf(pfn, sizeof(pfn), "%#llx", (unsigned long long)pfn_of(self->data.area));
		ASSERT_TRUE(make_read_only(self->data.area, PAGE, BY_UFFD));
		if (!move_page(self->data.area, fast))
			continue;
		err = write_file(HWPOISON "corrupt-pfn", pfn);
		EXPECT_EQ(0, err) TH_LOG("memory failure of frame %s was not handled", pfn);
		write_file(HWPOISON "unpoison-pfn", pfn);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	if (!err)
		EXPECT_TRUE(scene_rose(scene, "migrc_drain_isolate", scene->rounds / 2));
}

/* Tasks are frozen: nothing must be kept over that. */
TEST_F_TIMEOUT(kept, freeze, scene_timeout())
{
	char states[64] = "";
	int err;

	read_file("/sys/power/state", states, sizeof(states));
	if (!strstr(states, "freeze") || set("/sys/power/pm_test", "freezer"))
		SKIP(return, "no pm_test (CONFIG_SUSPEND, CONFIG_PM_DEBUG)");
	set("/sys/module/suspend/parameters/pm_test_delay", "1");
	ASSERT_TRUE(leave(&self->data));
	err = write_file("/sys/power/state", "freeze");
	EXPECT_EQ(0, err);
	EXPECT_EQ(0, counter("migrc_pending"));
	EXPECT_TRUE(scene_rose(&self->data.scene, "migrc_drain_freeze", 1));
}

FIXTURE(reason)
{
	struct scene scene;
	char *area;
};

FIXTURE_SETUP(reason)
{
	const char *lacks = scene_begin(&self->scene, 1);

	if (lacks)
		SKIP(return, "%s", lacks);
	ASSERT_EQ(0, set(MIGRC_DEBUG "defer_syscalls", "0"));
	self->area = map_area(LEN);
	ASSERT_TRUE(self->area && place(self->area, LEN, slow));
	spot_show(self->scene.crew, 0, self->area);
	ASSERT_TRUE(make_read_only(self->area, LEN, BY_UFFD));
	crew_settle(self->scene.crew);
	scene_drain();
	counters_read(&self->scene.before);
}

FIXTURE_TEARDOWN(reason)
{
	scene_end(&self->scene);
}

static bool not_deferred(struct scene *scene)
{
	long deferred = counter_since(&scene->before, "migrc_deferred");
	long pending = counter("migrc_pending");

	if (deferred || pending)
		ksft_print_msg("%ld pages were deferred, %ld are kept\n", deferred, pending);
	return !deferred && !pending && scene_clean(scene);
}

TEST_F_TIMEOUT(reason, syscall, scene_timeout())
{
	ASSERT_TRUE(move_page(self->area, fast));
	EXPECT_TRUE(not_deferred(&self->scene));
}

TEST_F_TIMEOUT(reason, compaction, scene_timeout())
{
	long before = counter("pgmigrate_success");
	size_t i;

	/* Holes in other memory are where pages go. */
	for (i = PAGE; i < LEN; i += 2 * PAGE)
		madvise(self->area + i, PAGE, MADV_DONTNEED);
	if (write_file("/proc/sys/vm/compact_memory", "1"))
		SKIP(return, "no CONFIG_COMPACTION");
	if (counter("pgmigrate_success") == before)
		SKIP(return, "nothing had to be compacted");
	EXPECT_TRUE(not_deferred(&self->scene));
}

TEST_F_TIMEOUT(reason, soft_offline, scene_timeout())
{
	char pfn[32];

	snprintf(pfn, sizeof(pfn), "%#llx", (unsigned long long)pfn_of(self->area));
	if (!exists(HWPOISON "unpoison-pfn"))
		SKIP(return, "no CONFIG_HWPOISON_INJECT");
	EXPECT_EQ(0, madvise(self->area, PAGE, MADV_SOFT_OFFLINE));
	spot_write(crew_spot(self->scene.crew, 0));
	crew_settle(self->scene.crew);
	write_file(HWPOISON "unpoison-pfn", pfn);
	EXPECT_TRUE(not_deferred(&self->scene));
}

/* Pages move out of a block that goes offline: they must not leave anything in it. */
TEST_F_TIMEOUT(reason, offline, scene_timeout())
{
	uint64_t per_block = block_frames();
	unsigned long i, tried = 0;
	long block, last = -1;

	if (!per_block)
		SKIP(return, "no CONFIG_MEMORY_HOTPLUG");
	for (i = 0; i < NR_PAGES && tried < 4; i++) {
		int err;

		block = pfn_of(self->area + i * PAGE) / per_block;
		if (block == last)
			continue;
		last = block;
		tried++;
		err = offline(block);
		if (!err) {
			EXPECT_EQ(0, set_block(block, "online"));
			EXPECT_TRUE(not_deferred(&self->scene));
			return;
		}
		scene_drain();
		if (!offline(block)) {
			set_block(block, "online");
			EXPECT_EQ(0, err)
				TH_LOG("block %ld could go offline only after a drain", block);
			return;
		}
	}
	SKIP(return, "no memory block of the slow node can go offline");
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
