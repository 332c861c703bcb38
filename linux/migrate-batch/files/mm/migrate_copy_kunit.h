/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KUnit tests of the copy phase, with an engine that copies, fails or is late.  Part of
 * migrate_copy.c.  Pages of a file in shared memory move within their node.
 */

#include <kunit/test.h>
#include <linux/file.h>
#include <linux/highmem.h>
#include <linux/shmem_fs.h>

#define NR	40

static int test_err, test_calls, test_nr;
static bool test_late;

static int test_copy(struct list_head *srcs, struct list_head *dsts, int nr, size_t bytes,
		     enum migrate_reason reason)
{
	struct folio *src, *dst = list_first_entry(dsts, struct folio, lru);

	test_calls++;
	test_nr += nr;
	if (test_late)
		schedule_timeout_uninterruptible(2 * migrate_copy_jiffies(bytes));
	list_for_each_entry(src, srcs, lru) {
		/* As an engine that gives up half-way does */
		if (test_err && src == list_last_entry(srcs, struct folio, lru))
			return test_err;
		folio_copy(dst, src);
		/* So that it is seen who has copied */
		memset(folio_address(dst), 0xee, 8);
		dst = list_next_entry(dst, lru);
	}
	return 0;
}

static struct migrate_copy_engine test_engine = {
	.name = "test",
	.reasons = BIT(MR_SYSCALL),
	.copy = test_copy,
};

/* Move all pages of a file, one of which has a reference.  Returns how many the engine copied. */
static int move_file(struct kunit *test, int reason)
{
	struct migration_target_control mtc = {
		.nid = numa_node_id(),
		.gfp_mask = GFP_HIGHUSER_MOVABLE,
		.reason = reason,
	};
	struct file *file = shmem_kernel_file_setup("migrate_copy", NR * PAGE_SIZE, 0);
	struct folio *folio, *held = NULL;
	int i, marks = 0, bad = 0;
	LIST_HEAD(list);

	KUNIT_ASSERT_FALSE(test, IS_ERR(file));
	for (i = 0; i < NR; i++) {
		folio = shmem_read_folio(file->f_mapping, i);
		KUNIT_ASSERT_FALSE(test, IS_ERR(folio));
		memset(folio_address(folio), i + 1, PAGE_SIZE);
		lru_add_drain_all();
		KUNIT_ASSERT_TRUE(test, folio_isolate_lru(folio));
		node_stat_mod_folio(folio, NR_ISOLATED_ANON + folio_is_file_lru(folio), 1);
		list_add_tail(&folio->lru, &list);
		if (i == NR / 2)
			held = folio;
		else
			folio_put(folio);
	}
	static_branch_enable(&migrate_batch_key);
	migrate_pages(&list, alloc_migration_target, NULL, (unsigned long)&mtc, MIGRATE_ASYNC,
		      reason, NULL);
	static_branch_disable(&migrate_batch_key);
	putback_movable_pages(&list);
	for (i = 0; i < NR; i++) {
		folio = shmem_read_folio(file->f_mapping, i);
		KUNIT_ASSERT_FALSE(test, IS_ERR(folio));
		KUNIT_EXPECT_EQ(test, folio == held, i == NR / 2);
		KUNIT_EXPECT_NULL(test, folio->private);
		marks += *(u8 *)folio_address(folio) == 0xee;
		bad += !!memchr_inv(folio_address(folio) + 8, i + 1, PAGE_SIZE - 8);
		folio_put(folio);
	}
	KUNIT_EXPECT_EQ(test, bad, 0);
	folio_put(held);
	fput(file);
	return marks;
}

static void engine_test(struct kunit *test)
{
	migrate_copy_register(&test_engine);
	KUNIT_EXPECT_EQ(test, move_file(test, MR_SYSCALL), NR - 1);
	KUNIT_EXPECT_EQ(test, test_nr, NR - 1);
	KUNIT_EXPECT_EQ(test, atomic_long_read(&test_engine.nr_pages), NR - 1);
	KUNIT_EXPECT_EQ(test, move_file(test, MR_COMPACTION), 0);
	KUNIT_EXPECT_EQ(test, test_calls, 1);
	test_err = -EIO;
	KUNIT_EXPECT_EQ(test, move_file(test, MR_SYSCALL), 0);
	test_err = 0;
	test_late = true;
	move_file(test, MR_SYSCALL);
	move_file(test, MR_SYSCALL);
	test_late = false;
	KUNIT_EXPECT_EQ(test, test_calls, 4);
	KUNIT_EXPECT_EQ(test, move_file(test, MR_SYSCALL), 0);
	KUNIT_EXPECT_EQ(test, test_calls, 4);
	migrate_copy_unregister(&test_engine);
}

static struct kunit_case migrate_copy_cases[] = { KUNIT_CASE(engine_test), {} };

static struct kunit_suite migrate_copy_suite = {
	.name = "migrate_copy",
	.test_cases = migrate_copy_cases,
};

kunit_test_suite(migrate_copy_suite);
