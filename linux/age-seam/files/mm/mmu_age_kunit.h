/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KUnit tests of questions about a page table, with subscribers that are made up: one kind that
 * answers for page tables, one that is asked about each page, and one that knows of no accesses.
 * Part of mmu_age.c.
 */
#include <kunit/test.h>
#include <linux/sched/mm.h>

#define TABLE	(3UL << PMD_SHIFT)

/* A subscriber that counts its calls, and has the pages of the last one */
struct subscriber {
	struct mmu_notifier mn;
	unsigned int calls;
	unsigned int flushes;
	DECLARE_BITMAP(pages, MAX_PTRS_PER_PTE);
};

/* The ops that had registered before the test, and the key */
static const struct mmu_age_ops *ops_before;
static const char *no_reason;
static bool on_before;

static bool by_table_found(unsigned int i)
{
	return i % 2 == 0;
}

static bool by_page_found(unsigned int i)
{
	return i % 3 == 0;
}

static int by_page_clear_young(struct mmu_notifier *mn, struct mm_struct *mm, unsigned long start,
			       unsigned long end)
{
	struct subscriber *s = container_of(mn, struct subscriber, mn);
	unsigned int i = (start - TABLE) / PAGE_SIZE;

	s->calls++;
	if (end != start + PAGE_SIZE || i >= PTRS_PER_PTE)
		return 0;
	__set_bit(i, s->pages);
	return by_page_found(i);
}

static void by_table_clear_young(struct mmu_notifier *mn, struct mmu_age *age)
{
	struct subscriber *s = container_of(mn, struct subscriber, mn);
	unsigned int i;

	s->calls++;
	if (age->start != TABLE)
		return;
	bitmap_copy(s->pages, age->pages, PTRS_PER_PTE);
	for_each_set_bit(i, age->pages, PTRS_PER_PTE)
		if (by_table_found(i))
			__set_bit(i, age->young);
}

static void ignore_invalidation(struct mmu_notifier *mn, struct mm_struct *mm, unsigned long start,
				unsigned long end)
{
}

static void by_table_flush(struct mmu_notifier *mn)
{
	container_of(mn, struct subscriber, mn)->flushes++;
}

static const struct mmu_notifier_ops by_table_ops = { .clear_young = by_page_clear_young };
static const struct mmu_notifier_ops by_page_ops = { .clear_young = by_page_clear_young };
static const struct mmu_notifier_ops mute_ops = {};
static const struct mmu_notifier_ops walker_ops = {
	.arch_invalidate_secondary_tlbs = ignore_invalidation,
};

static const struct mmu_age_ops made_up_ops = {
	.notifier_ops = &by_table_ops,
	.clear_young = by_table_clear_young,
	.flush = by_table_flush,
};

static struct subscriber *subscribe(struct kunit *test, struct mm_struct *mm,
				    const struct mmu_notifier_ops *ops)
{
	struct subscriber *s = kunit_kzalloc(test, sizeof(*s), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, s);
	s->mn.ops = ops;
	KUNIT_ASSERT_EQ(test, mmu_notifier_register(&s->mn, mm), 0);
	return s;
}

static struct mm_struct *begin(struct kunit *test)
{
	struct mm_struct *mm = mm_alloc();

	KUNIT_ASSERT_NOT_NULL(test, mm);
	ops_before = rcu_access_pointer(mmu_age_ops);
	on_before = static_key_enabled(&mmu_age_key);
	if (ops_before)
		mmu_age_unregister(ops_before);
	mmu_age_register(&made_up_ops);
	mmu_age_start(&no_reason);
	return mm;
}

static void end(struct mm_struct *mm, struct subscriber *s, struct subscriber *other)
{
	mmu_age_unregister(&made_up_ops);
	if (ops_before)
		mmu_age_register(ops_before);
	if (ops_before && on_before)
		mmu_age_start(&no_reason);
	mmu_notifier_unregister(&s->mn, mm);
	if (other)
		mmu_notifier_unregister(&other->mn, mm);
	mmput(mm);
}

/* Gather each fifth page. */
static void ask(struct mmu_age *age, struct mm_struct *mm)
{
	unsigned int i;

	mmu_age_table(age, TABLE + 7 * PAGE_SIZE);
	for (i = 0; i < PTRS_PER_PTE; i += 5)
		mmu_age_add(age, TABLE + i * PAGE_SIZE);
	mmu_age_ask(age, mm);
}

/* One kind is called once, another for each page; no subscriber is asked about other pages. */
static void asks_each_in_its_way(struct kunit *test)
{
	struct mm_struct *mm = begin(test);
	struct subscriber *table = subscribe(test, mm, &by_table_ops);
	struct subscriber *page = subscribe(test, mm, &by_page_ops);
	struct mmu_age *age = kunit_kzalloc(test, sizeof(*age), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, age);
	mmu_age_begin(age, mm);
	KUNIT_EXPECT_TRUE(test, mmu_age_by_range(age));
	ask(age, mm);
	KUNIT_EXPECT_EQ(test, table->calls, 1);
	KUNIT_EXPECT_EQ(test, page->calls, DIV_ROUND_UP(PTRS_PER_PTE, 5));
	for (i = 0; i < PTRS_PER_PTE; i++) {
		bool asked = i % 5 == 0;

		KUNIT_EXPECT_EQ(test, test_bit(i, table->pages), asked);
		KUNIT_EXPECT_EQ(test, test_bit(i, page->pages), asked);
		KUNIT_EXPECT_EQ(test, test_bit(i, age->young),
				asked && (by_table_found(i) || by_page_found(i)));
	}
	end(mm, table, page);
}

/* The next page table does not use the answer about the last one; with the key off none is used. */
static void forgets_answers(struct kunit *test)
{
	struct mm_struct *mm = begin(test);
	struct subscriber *table = subscribe(test, mm, &by_table_ops);
	struct mmu_age *age = kunit_kzalloc(test, sizeof(*age), GFP_KERNEL);
	pte_t old = __pte(0);

	KUNIT_ASSERT_NOT_NULL(test, age);
	mmu_age_begin(age, mm);
	ask(age, mm);
	KUNIT_EXPECT_TRUE(test, mmu_age_any(age));
	KUNIT_EXPECT_FALSE(test, mmu_age_idle(age, TABLE, old));
	KUNIT_EXPECT_TRUE(test, mmu_age_idle(age, TABLE + 5 * PAGE_SIZE, old));
	KUNIT_EXPECT_TRUE(test, mmu_age_by_range(age));
	KUNIT_EXPECT_FALSE(test, mmu_age_idle(age, TABLE + 5 * PAGE_SIZE, old));

	ask(age, mm);
	mmu_age_stop();
	KUNIT_EXPECT_FALSE(test, mmu_age_by_range(age));
	KUNIT_EXPECT_FALSE(test, mmu_age_idle(age, TABLE + 5 * PAGE_SIZE, old));
	end(mm, table, NULL);
}

/*
 * A subscriber without Accessed bits does not matter, on or off.  One that has them matters, and
 * one that walks the page tables of the CPUs does.
 */
static void finds_accessed_bits(struct kunit *test)
{
	const struct mmu_notifier_ops *kinds[] = { &by_page_ops, &walker_ops };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct mm_struct *mm = begin(test);
		struct subscriber *mute, *other;

		KUNIT_EXPECT_FALSE(test, mmu_age_secondary(mm));
		mute = subscribe(test, mm, &mute_ops);
		KUNIT_EXPECT_FALSE(test, mmu_age_secondary(mm));
		mmu_age_stop();
		KUNIT_EXPECT_FALSE(test, mmu_age_secondary(mm));
		other = subscribe(test, mm, kinds[i]);
		KUNIT_EXPECT_TRUE(test, mmu_age_secondary(mm));
		end(mm, mute, other);
	}
}

/* All subscribers of a kind are asked and flushed, not only the newest one of an address space. */
static void asks_every_subscriber(struct kunit *test)
{
	struct mm_struct *mm = begin(test);
	struct subscriber *first = subscribe(test, mm, &by_table_ops);
	struct subscriber *second = subscribe(test, mm, &by_table_ops);
	struct mmu_age *age = kunit_kzalloc(test, sizeof(*age), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, age);
	mmu_age_begin(age, mm);
	ask(age, mm);
	KUNIT_EXPECT_EQ(test, first->calls, 1);
	KUNIT_EXPECT_EQ(test, second->calls, 1);
	mmu_age_flush(mm);
	KUNIT_EXPECT_EQ(test, first->flushes, 1);
	KUNIT_EXPECT_EQ(test, second->flushes, 1);
	/* A flush does not depend on how secondary MMUs are asked. */
	mmu_age_stop();
	mmu_age_flush(mm);
	KUNIT_EXPECT_EQ(test, first->flushes, 2);
	end(mm, first, second);
}

/* The answer names the MMU that had set its Accessed bit. */
static void tells_whose_bit(struct kunit *test)
{
	struct mm_struct *mm = begin(test);
	struct subscriber *table = subscribe(test, mm, &by_table_ops);
	struct mmu_age *age = kunit_kzalloc(test, sizeof(*age), GFP_KERNEL);
	struct vm_area_struct vma = { .vm_mm = mm };
	pte_t old = __pte(0), young = pte_mkyoung(__pte(0));

	KUNIT_ASSERT_NOT_NULL(test, age);
	mmu_age_begin(age, mm);
	ask(age, mm);
	KUNIT_EXPECT_EQ(test, mmu_age_clear_young(age, &vma, TABLE, &old), MMU_AGE_SECONDARY);
	KUNIT_EXPECT_EQ(test, mmu_age_clear_young(age, &vma, TABLE, &young),
			MMU_AGE_CPU | MMU_AGE_SECONDARY);
	young = pte_mkyoung(young);
	KUNIT_EXPECT_EQ(test, mmu_age_clear_young(age, &vma, TABLE + 5 * PAGE_SIZE, &young),
			MMU_AGE_CPU);
	KUNIT_EXPECT_EQ(test, mmu_age_clear_young(age, &vma, TABLE + 5 * PAGE_SIZE, &old), 0);
	end(mm, table, NULL);
}

static struct kunit_case mmu_age_cases[] = {
	KUNIT_CASE(asks_each_in_its_way),
	KUNIT_CASE(forgets_answers),
	KUNIT_CASE(finds_accessed_bits),
	KUNIT_CASE(asks_every_subscriber),
	KUNIT_CASE(tells_whose_bit),
	{}
};

static struct kunit_suite mmu_age_suite = {
	.name = "mmu_age",
	.test_cases = mmu_age_cases,
};

kunit_test_suite(mmu_age_suite);
