// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of what the hotness table knows of where pages should go: scanners that
 * update it at the same time, pages that are bound to a full node, and users that disagree.
 *
 * The slots are numbers here, so this needs no machine with several fast nodes.
 */

#include <kunit/test.h>

#include <linux/atomic.h>
#include <linux/bits.h>
#include <linux/err.h>
#include <linux/jump_label.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/sched.h>

#include "frames_kunit.h"
#include "hotness.h"
#include "target.h"

/* Frames that two scanners meet, and how often they do */
#define TOGETHER_ORDER	8
#define TOGETHER_FRAMES	BIT(TOGETHER_ORDER)
#define TOGETHER_LOOKS	64

struct together {
	unsigned long pfn;
	unsigned int epoch;
	atomic_t look;			/* number of the look that has begun */
	atomic_t done;			/* scanners that have done it */
	atomic_t recorded;		/* frames that one of them was the first to record */
};

/* One of the scanners, and what its process wants */
struct together_scanner {
	struct together *all;
	u8 aim;
};

/* What a scanner does with the pages of its process: all of them, in each look */
static int together_thread(void *data)
{
	struct together_scanner *scanner = data;
	struct together *all = scanner->all;
	unsigned int look = 0, recorded, i;

	while (!kthread_should_stop()) {
		/* Pairs with together_look(). */
		if (atomic_read_acquire(&all->look) == look) {
			cond_resched();
			continue;
		}
		look++;
		recorded = 0;
		for (i = 0; i < TOGETHER_FRAMES; i++) {
			hotness_aim(all->pfn + i, all->epoch, true, scanner->aim, true);
			recorded += !!kunit_touch_close(all->pfn + i, all->epoch, true, 0);
		}
		atomic_add(recorded, &all->recorded);
		atomic_inc_return_release(&all->done);
	}
	return 0;
}

/* A table with room for slots, and frames in it; ends the test if kmmscand is in use. */
static unsigned long alloc_targets(struct kunit *test, unsigned int order)
{
	nodemask_t nodes = nodemask_of_node(first_memory_node);
	unsigned long pfn = kunit_alloc_frames(test, order);

	static_branch_enable(&target_key);
	KUNIT_EXPECT_EQ(test, hotness_enable(&nodes), 0);
	return pfn;
}

static void free_targets(unsigned long pfn, unsigned int order)
{
	kunit_free_table(pfn, order);
	static_branch_disable(&target_key);
}

/* Select all pages, as a promoter would; returns how many of them go to @slot. */
static unsigned long together_select(struct kunit *test, unsigned int slot)
{
	struct hotness_histogram histogram;
	struct hotness_cursor cursor = {};
	struct tier_range ranges[16];
	unsigned long pages = 0;
	unsigned int nr;

	KUNIT_EXPECT_TRUE(test, hotness_count(first_memory_node, &histogram, NULL, NULL));
	cursor.since = histogram.since;
	while ((nr = hotness_select(first_memory_node, 1, &cursor, ranges, ARRAY_SIZE(ranges),
				    TOGETHER_FRAMES))) {
		while (nr--) {
			if (ranges[nr].nid == slot)
				pages += ranges[nr].nr;
		}
	}
	return pages;
}

/*
 * A look in which two processes have accessed the same pages.  One wants them in slot 1, to
 * which it is bound no more; the other one wants them in slot 2.  Whoever comes first,
 * afterwards they disagree.
 */
static void together_look(struct kunit *test, struct together *all)
{
	unsigned int i;

	hotness_next_epoch();
	all->epoch = hotness_epoch();
	/* Somebody was there before: what has no history is forgotten. */
	for (i = 0; i < TOGETHER_FRAMES; i++) {
		hotness_forget(all->pfn + i, 1);
		hotness_aim(all->pfn + i, all->epoch, false, 1 | TARGET_STRICT, true);
		kunit_touch_close(all->pfn + i, all->epoch, false, 0);
	}
	KUNIT_EXPECT_EQ(test, together_select(test, 1 | TARGET_STRICT), TOGETHER_FRAMES);

	atomic_set(&all->recorded, 0);
	atomic_set(&all->done, 0);
	/* Pairs with together_thread(). */
	atomic_inc_return_release(&all->look);
	/* The promoter does not wait for them. */
	do {
		KUNIT_EXPECT_EQ_MSG(test, together_select(test, 2), 0,
				    "slot 2, but somebody disagrees");
		cond_resched();
	} while (atomic_read_acquire(&all->done) < 2);

	KUNIT_EXPECT_EQ_MSG(test, together_select(test, TARGET_ANY), TOGETHER_FRAMES,
			    "the wish of one of them was lost");
	KUNIT_EXPECT_EQ_MSG(test, atomic_read(&all->recorded), TOGETHER_FRAMES,
			    "recorded by both, or by none");
}

static void together_test(struct kunit *test)
{
	struct together *all = kunit_kzalloc(test, sizeof(*all), GFP_KERNEL);
	struct together_scanner scanner[2] = {
		{ .all = all, .aim = 1 },
		{ .all = all, .aim = 2 },
	};
	struct task_struct *task[2];
	int i, nr;

	KUNIT_ASSERT_NOT_NULL(test, all);
	all->pfn = alloc_targets(test, TOGETHER_ORDER);
	for (nr = 0; nr < 2; nr++) {
		task[nr] = kthread_run(together_thread, &scanner[nr], "together%d", nr);
		KUNIT_EXPECT_FALSE(test, IS_ERR(task[nr]));
		if (IS_ERR(task[nr]))
			break;
	}
	for (i = 0; i < TOGETHER_LOOKS && nr == 2; i++)
		together_look(test, all);
	while (nr--)
		kthread_stop(task[nr]);
	free_targets(all->pfn, TOGETHER_ORDER);
}

/* Pages of score 1 that count, if nothing can go to some slots */
static unsigned long counted(struct kunit *test, struct hotness_groups *groups, u32 closed)
{
	struct hotness_histogram histogram;

	groups->closed = closed;
	groups->warm = 0;
	groups->group[0] = (struct hotness_group) { .left = ULONG_MAX };
	KUNIT_EXPECT_TRUE(test, hotness_count(first_memory_node, &histogram, groups, NULL));
	return histogram.pages[1];
}

/* What is bound to a full node is neither counted nor selected. */
static void closed_test(struct kunit *test)
{
	struct hotness_groups *groups = kunit_kzalloc(test, sizeof(*groups), GFP_KERNEL);
	struct hotness_histogram histogram;
	struct hotness_cursor cursor = {};
	struct tier_range ranges[4];
	unsigned long pfn;
	int i;

	KUNIT_ASSERT_NOT_NULL(test, groups);
	groups->warm_score = 1;
	groups->min_score = 1;
	pfn = alloc_targets(test, 2);
	hotness_next_epoch();
	hotness_aim(pfn, hotness_epoch(), true, 1 | TARGET_STRICT, true);
	hotness_aim(pfn + 1, hotness_epoch(), true, 1, true);
	hotness_aim(pfn + 2, hotness_epoch(), true, 2 | TARGET_STRICT, true);
	hotness_aim(pfn + 3, hotness_epoch(), true, TARGET_ANY, true);
	for (i = 0; i < 4; i++)
		kunit_touch(pfn + i, 0);

	KUNIT_EXPECT_EQ(test, counted(test, groups, 0), 4);
	KUNIT_EXPECT_EQ(test, counted(test, groups, BIT(1)), 3);
	KUNIT_EXPECT_EQ(test, groups->warm, 3);
	KUNIT_EXPECT_EQ(test, counted(test, groups, BIT(1) | BIT(2)), 2);

	hotness_count(first_memory_node, &histogram, NULL, NULL);
	cursor.since = histogram.since;
	cursor.closed = BIT(1);
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 1, &cursor, ranges, 4, 4), 3);
	KUNIT_EXPECT_EQ(test, ranges[0].pfn, pfn + 1);
	KUNIT_EXPECT_EQ(test, ranges[0].nid, 1);
	KUNIT_EXPECT_EQ(test, ranges[1].nid, 2 | TARGET_STRICT);
	KUNIT_EXPECT_EQ(test, ranges[2].nid, TARGET_ANY);

	free_targets(pfn, 2);
}

/* What somebody else was bound to is no rule for who uses the page, too. */
static void bound_test(struct kunit *test)
{
	struct hotness_histogram histogram;
	struct hotness_cursor cursor = {};
	struct tier_range ranges[3];
	unsigned long pfn = alloc_targets(test, 2);
	int i;

	hotness_next_epoch();
	for (i = 0; i < 3; i++) {
		hotness_aim(pfn + i, hotness_epoch(), true, 1 | TARGET_STRICT, true);
		kunit_touch(pfn + i, 0);
	}
	hotness_next_epoch();
	/* Somebody wants it elsewhere, somebody wants it there, nobody else maps it. */
	hotness_aim(pfn, hotness_epoch(), true, 2, true);
	hotness_aim(pfn + 1, hotness_epoch(), true, 1, true);
	hotness_aim(pfn + 2, hotness_epoch(), true, 2, false);
	for (i = 0; i < 3; i++)
		kunit_touch(pfn + i, 0);

	hotness_count(first_memory_node, &histogram, NULL, NULL);
	cursor.since = histogram.since;
	cursor.closed = BIT(1);
	KUNIT_EXPECT_EQ(test, hotness_select(first_memory_node, 1, &cursor, ranges, 3, 3), 3);
	KUNIT_EXPECT_EQ(test, ranges[0].nid, TARGET_ANY);
	KUNIT_EXPECT_EQ(test, ranges[1].nid, 1);
	KUNIT_EXPECT_EQ(test, ranges[2].nid, 2);

	free_targets(pfn, 2);
}

static struct kunit_case target_test_cases[] = {
	KUNIT_CASE(together_test),
	KUNIT_CASE(closed_test),
	KUNIT_CASE(bound_test),
	{}
};

static struct kunit_suite target_test_suite = {
	.name = "kmmscand_target",
	.test_cases = target_test_cases,
};

kunit_test_suites(&target_test_suite);
