// SPDX-License-Identifier: GPL-2.0
/*
 * Who wants certain page frames gets them, though pages were migrated from there without a
 * flush; and who migrates pages because of that does flush.
 *
 * Each test must fail while a switch in /sys/kernel/debug/migrc/ is set:
 *
 *   kept: offline			fault_isolate
 *   kept: memory_failure		fault_failure
 *   kept: soft_offline			fault_failure and fault_isolate
 *   kept: freeze			fault_freeze
 *   reason: but soft_offline		fault_reason
 */
#include <signal.h>

#include "../kselftest_harness.h"

#include "scene.h"

#define BLOCKS		"/sys/devices/system/memory/"
#define HWPOISON	"/sys/kernel/debug/hwpoison/"
#define NR_PAGES	1024UL
#define LEN		(NR_PAGES * PAGE)
/* Memory blocks that are looked at, and what may be allocated to get pages in one of them */
#define NR_BLOCKS	64
#define MOST_AREAS	64

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

/* So that the kernel puts nothing there that it cannot move: it is to go offline again */
static int back_online(long block)
{
	return set_block(block, "online_movable") ? set_block(block, "online") : 0;
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

/*
 * A block of the slow node that can go offline: without holes, and without pages of the kernel
 * that cannot be moved.  -1 if there is none.
 */
static long movable_block(void)
{
	char path[96];
	long block;

	for (block = 0; block < NR_BLOCKS; block++) {
		snprintf(path, sizeof(path), BLOCKS "memory%ld/node%d", block, slow);
		if (exists(path) && !offline(block))
			return back_online(block) ? -1 : block;
	}
	return -1;
}

/*
 * Memory of which at least half lies in that block, NULL if there is none.  Nothing else of
 * ours does: offlining would migrate it, and flush for that.
 */
static char *area_in(long block)
{
	uint64_t per_block = block_frames();
	char *areas[MOST_AREAS], *found = NULL;
	unsigned long i, inside, nr;

	for (nr = 0; nr < MOST_AREAS && !found; nr++) {
		areas[nr] = map_area(LEN);
		if (!areas[nr] || !place(areas[nr], LEN, slow))
			break;
		for (i = inside = 0; i < NR_PAGES; i++)
			inside += (long)(pfn_of(areas[nr] + i * PAGE) / per_block) == block;
		if (inside >= NR_PAGES / 2)
			found = areas[nr];
	}
	while (nr--)
		if (areas[nr] && areas[nr] != found)
			unmap_area(areas[nr], LEN);
	return found;
}

/*
 * Did the block go offline, as an attempt says that returned @err?  If not, is it what is kept
 * that stands in the way?
 */
static bool went_offline(long block, int err)
{
	if (!err)
		return !back_online(block);
	scene_drain();
	if (offline(block)) {
		ksft_print_msg("block %ld could not go offline\n", block);
	} else {
		back_online(block);
		ksft_print_msg("block %ld could go offline only after a drain\n", block);
	}
	return false;
}

struct kept {
	struct scene scene;
	char *area;
};

FIXTURE(kept)
{
	struct kept data;
};

FIXTURE_SETUP(kept)
{
	const char *lacks = scene_begin(&self->data.scene, 1);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->data.area = map_area(LEN);
	ASSERT_TRUE(self->data.area && place(self->data.area, LEN, slow));
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
	long block = movable_block();

	if (block < 0)
		SKIP(return, "no memory block of the slow node can go offline");
	unmap_area(self->data.area, LEN);
	self->data.area = area_in(block);
	ASSERT_NE(NULL, self->data.area);
	spot_show(self->data.scene.crew, 0, self->data.area);
	ASSERT_TRUE(leave(&self->data));
	counters_read(&self->data.scene.before);
	EXPECT_TRUE(went_offline(block, offline(block)));
	EXPECT_TRUE(scene_rose(&self->data.scene, "migrc_drain_isolate", 1));
	EXPECT_TRUE(scene_clean(&self->data.scene));
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
		/* Who is kept has the only reference, which this would drop. */
		if (err)
			scene_drain();
		write_file(HWPOISON "unpoison-pfn", pfn);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	if (!err)
		EXPECT_TRUE(scene_rose(scene, "migrc_drain_failure", scene->rounds / 2));
}

/*
 * A frame that is kept is to be taken out of use.  It is drained for that first; if it were
 * not, then with the LRU caches, which is done when the frame looks like nobody's.
 */
TEST_F_TIMEOUT(kept, soft_offline, scene_timeout())
{
	struct scene *scene = &self->data.scene;
	char frame[32], pfn[32];
	uint64_t nr;
	int err = 0;

	if (!exists(HWPOISON "unpoison-pfn") || !exists(BLOCKS "soft_offline_page"))
		SKIP(return, "no CONFIG_MEMORY_FAILURE, or no CONFIG_HWPOISON_INJECT");
	spot_show(scene->crew, 0, self->data.area);
	while (!err && scene_goes_on(scene)) {
		ASSERT_TRUE(place(self->data.area, PAGE, slow));
		crew_settle(scene->crew);
		nr = pfn_of(self->data.area);
		snprintf(frame, sizeof(frame), "%#llx", (unsigned long long)(nr * PAGE));
		snprintf(pfn, sizeof(pfn), "%#llx", (unsigned long long)nr);
		ASSERT_TRUE(make_read_only(self->data.area, PAGE, BY_UFFD));
		if (!move_page(self->data.area, fast))
			continue;
		err = write_file(BLOCKS "soft_offline_page", frame);
		EXPECT_EQ(0, err) TH_LOG("soft offlining of frame %s was not handled", pfn);
		if (err)
			scene_drain();
		write_file(HWPOISON "unpoison-pfn", pfn);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	if (!err)
		EXPECT_TRUE(scene_rose(scene, "migrc_drain_failure", scene->rounds / 2));
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

/* Readers look at another area than the fixture's; nothing of it is deferred yet. */
static bool show_another(struct scene *scene, char *area, size_t len)
{
	spot_hide(scene->crew, 0);
	if (!area || !make_read_only(area, len, BY_UFFD))
		return false;
	spot_show(scene->crew, 0, area);
	crew_settle(scene->crew);
	scene_drain();
	counters_read(&scene->before);
	return true;
}

/* Of so many huge pages every other small page: compaction fills holes of some with others. */
#define TO_COMPACT	(8 * HUGE)
/* It may have nothing to do where these lie; another area lies elsewhere. */
#define TRIES		6

/* How many of the pages that are left has compaction moved?  Negative if there is none. */
static long compacted(struct scene *scene, char *area)
{
	static uint64_t frames[TO_COMPACT / PAGE];
	size_t i, step = 2 * PAGE;
	long moved = 0;

	if (!area || !place(area, TO_COMPACT, slow) || !show_another(scene, area, TO_COMPACT))
		return -1;
	for (i = 0; i < TO_COMPACT; i += step) {
		frames[i / PAGE] = pfn_of(area + i);
		madvise(area + i + PAGE, PAGE, MADV_DONTNEED);
	}
	if (write_file("/proc/sys/vm/compact_memory", "1"))
		return -1;
	for (i = 0; i < TO_COMPACT; i += step)
		moved += frames[i / PAGE] != pfn_of(area + i);
	return moved;
}

TEST_F_TIMEOUT(reason, compaction, scene_timeout())
{
	long moved = 0;
	int i;

	if (!exists("/proc/sys/vm/compact_memory"))
		SKIP(return, "no CONFIG_COMPACTION");
	for (i = 0; i < TRIES && !moved; i++)
		moved = compacted(&self->scene, map_area(TO_COMPACT));
	EXPECT_GT(moved, 0)
		TH_LOG("nothing had to be compacted");
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
	long block = movable_block();

	if (block < 0)
		SKIP(return, "no memory block of the slow node can go offline");
	self->area = area_in(block);
	ASSERT_TRUE(show_another(&self->scene, self->area, LEN));
	EXPECT_TRUE(went_offline(block, offline(block)));
	EXPECT_TRUE(not_deferred(&self->scene));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
