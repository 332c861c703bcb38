/* SPDX-License-Identifier: GPL-2.0 */
/* KUnit: which SPTEs aging changes, and how.  Included by age.c. */
#include <kunit/test.h>
#include <linux/gfp.h>

#define HVA		(3UL << PMD_SHIFT)
#define MADE_UP_PFN	0x1234000ULL
#define LEAF		(SPTE_MMU_PRESENT_MASK | PT_PRESENT_MASK | PT_USER_MASK | MADE_UP_PFN)

/*
 * A root.  Its first entry leads to a page table, its second one maps 2 MiB, and the remaining ones
 * map nothing.
 */
struct made_up {
	struct kvm_mmu_page root;
	u64 *spt[2];
	struct kvm_memory_slot slot;
	struct mmu_age age;
	struct kvm_gfn_range range;
};

static u64 accessed(void)
{
	return LEAF | PT_WRITABLE_MASK | shadow_dirty_mask | shadow_accessed_mask;
}

static struct made_up *make_up(struct kunit *test)
{
	struct made_up *m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, m);
	if (!shadow_accessed_mask)
		kunit_skip(test, "there is no vendor module, or it has no Accessed bits");
	for (i = 0; i < 2; i++) {
		m->spt[i] = (u64 *)get_zeroed_page(GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, m->spt[i]);
	}
	m->root.spt = m->spt[0];
	m->root.role.level = PG_LEVEL_2M;
	m->spt[0][0] = __pa(m->spt[1]) | SPTE_MMU_PRESENT_MASK | PT_PRESENT_MASK |
		       PT_USER_MASK | shadow_accessed_mask;
	for (i = 0; i < SPTE_ENT_PER_PAGE; i++)
		m->spt[1][i] = SHADOW_NONPRESENT_VALUE;
	for (i = 1; i < SPTE_ENT_PER_PAGE; i++)
		m->spt[0][i] = SHADOW_NONPRESENT_VALUE;
	m->slot.userspace_addr = HVA;
	m->slot.npages = 2 * SPTE_ENT_PER_PAGE;
	m->age.budget = MMU_AGE_BUDGET;
	m->age.start = HVA;
	m->range.slot = &m->slot;
	m->range.end = SPTE_ENT_PER_PAGE;
	m->range.arg.age = &m->age;
	return m;
}

static bool look(struct made_up *m, bool test)
{
	bool young;

	rcu_read_lock();
	young = tdp_age_root(&m->root, &m->range, test, &m->age.budget);
	rcu_read_unlock();
	return young;
}

static void unmake(struct made_up *m)
{
	free_page((unsigned long)m->spt[0]);
	free_page((unsigned long)m->spt[1]);
}

/* Only that bit goes, and only from the value that was read. */
static void clears_accessed_only(struct kunit *test)
{
	u64 spte, before;

	if (!shadow_accessed_mask)
		kunit_skip(test, "there is no vendor module, or it has no Accessed bits");

	spte = accessed();
	kvm_age_spte(&spte, spte, false);
	KUNIT_EXPECT_EQ(test, spte, accessed() & ~shadow_accessed_mask);

	/* It was zapped, frozen, written to, or write-protected since it was read. */
	spte = SHADOW_NONPRESENT_VALUE;
	kvm_age_spte(&spte, accessed(), false);
	KUNIT_EXPECT_EQ(test, spte, SHADOW_NONPRESENT_VALUE);

	spte = FROZEN_SPTE;
	kvm_age_spte(&spte, accessed(), false);
	KUNIT_EXPECT_TRUE(test, is_frozen_spte(spte));

	before = accessed() & ~shadow_dirty_mask;
	spte = accessed();
	kvm_age_spte(&spte, before, false);
	KUNIT_EXPECT_EQ(test, spte, accessed());

	before = accessed() & ~(u64)PT_WRITABLE_MASK;
	spte = before;
	kvm_age_spte(&spte, accessed(), false);
	KUNIT_EXPECT_EQ(test, spte, before);
}

/* Pages that are not asked about keep their bits, whatever part of a table is meant. */
static void answers_for_pages(struct kunit *test)
{
	struct made_up *m = make_up(test);
	unsigned int i;

	for (i = 0; i < SPTE_ENT_PER_PAGE; i++)
		m->spt[1][i] = i % 2 ? accessed() : accessed() & ~shadow_accessed_mask;
	/* Bit 10 stands for gfn 100. */
	m->range.start = 100;
	m->range.end = 300;
	m->age.start = HVA + 90 * PAGE_SIZE;
	for (i = 100; i < 300; i += 3)
		__set_bit(i - 90, m->age.pages);
	KUNIT_EXPECT_TRUE(test, look(m, false));
	for (i = 0; i < SPTE_ENT_PER_PAGE; i++) {
		bool asked = i >= 100 && i < 300 && (i - 100) % 3 == 0;
		bool expected = i % 2 && !asked;

		KUNIT_EXPECT_EQ(test, !!(m->spt[1][i] & shadow_accessed_mask), expected);
		if (i >= 90)
			KUNIT_EXPECT_EQ(test, test_bit(i - 90, m->age.young), asked && i % 2);
	}
	unmake(m);
}

/* All pages of a huge SPTE were accessed, and the entry that leads to a page table stays. */
static void answers_for_huge(struct kunit *test)
{
	struct made_up *m = make_up(test);
	u64 link = m->spt[0][0];
	unsigned int i;

	/* Bit 256 stands for the first page of the huge SPTE. */
	m->range.start = 256;
	m->range.end = 256 + SPTE_ENT_PER_PAGE;
	m->age.start = HVA + 256 * PAGE_SIZE;
	m->spt[0][1] = accessed() | PT_PAGE_SIZE_MASK;
	m->spt[1][263] = accessed();
	bitmap_fill(m->age.pages, SPTE_ENT_PER_PAGE);
	look(m, false);
	for (i = 0; i < SPTE_ENT_PER_PAGE; i++)
		KUNIT_EXPECT_EQ(test, test_bit(i, m->age.young), i == 7 || i >= 256);
	KUNIT_EXPECT_EQ(test, m->spt[0][1],
			(accessed() & ~shadow_accessed_mask) | PT_PAGE_SIZE_MASK);
	KUNIT_EXPECT_EQ(test, m->spt[0][0], link);
	unmake(m);
}

/* An SPTE without Accessed bits becomes inaccessible, and is not found a second time. */
static void tracks_without_accessed_bits(struct kunit *test)
{
	struct made_up *m = make_up(test);
	u64 spte = LEAF | SPTE_TDP_AD_DISABLED, acc_track_mask = shadow_acc_track_mask;

	/* As with EPT: Readable, Writable and Executable go. */
	shadow_acc_track_mask = VMX_EPT_RWX_MASK;
	m->spt[1][3] = spte;
	m->spt[1][4] = accessed();
	m->spt[1][5] = mark_spte_for_access_track(spte);
	bitmap_fill(m->age.pages, SPTE_ENT_PER_PAGE);
	KUNIT_EXPECT_TRUE(test, look(m, true));
	KUNIT_EXPECT_EQ(test, m->spt[1][3], spte);
	KUNIT_EXPECT_TRUE(test, look(m, false));
	KUNIT_EXPECT_EQ(test, m->spt[1][3], mark_spte_for_access_track(spte));
	KUNIT_EXPECT_TRUE(test, is_access_track_spte(m->spt[1][3]));
	KUNIT_EXPECT_EQ(test, restore_acc_track_spte(m->spt[1][3]), spte);
	KUNIT_EXPECT_TRUE(test, test_bit(3, m->age.young));
	KUNIT_EXPECT_TRUE(test, test_bit(4, m->age.young));
	KUNIT_EXPECT_FALSE(test, test_bit(5, m->age.young));
	KUNIT_EXPECT_FALSE(test, look(m, false));

	/* It was zapped, frozen or restored since it was read. */
	m->spt[1][3] = FROZEN_SPTE;
	KUNIT_EXPECT_TRUE(test, kvm_age_spte(&m->spt[1][3], spte, false));
	KUNIT_EXPECT_EQ(test, m->spt[1][3], FROZEN_SPTE);
	shadow_acc_track_mask = acc_track_mask;
	unmake(m);
}

/* When the budget is spent, SPTEs are left alone, and the question counts as young. */
static void stops_at_the_budget(struct kunit *test)
{
	struct made_up *m = make_up(test);
	unsigned int i;

	for (i = 0; i < SPTE_ENT_PER_PAGE; i++)
		m->spt[1][i] = accessed();
	bitmap_fill(m->age.pages, SPTE_ENT_PER_PAGE);
	m->age.budget = 101;	/* one is the entry that leads to the page table */
	look(m, false);
	KUNIT_EXPECT_EQ(test, m->age.budget, 0);
	for (i = 0; i < SPTE_ENT_PER_PAGE; i++)
		KUNIT_EXPECT_EQ(test, !!(m->spt[1][i] & shadow_accessed_mask), i >= 100);
	KUNIT_EXPECT_FALSE(test, look(m, false));
	unmake(m);
}

/* A test changes nothing; an SPTE that is not present has no bits. */
static void tests_without_change(struct kunit *test)
{
	struct made_up *m = make_up(test);

	m->range.arg.age = NULL;
	m->spt[1][0] = FROZEN_SPTE;
	m->spt[1][1] = SHADOW_NONPRESENT_VALUE | shadow_accessed_mask;
	KUNIT_EXPECT_FALSE(test, look(m, true));
	m->spt[1][511] = accessed();
	KUNIT_EXPECT_TRUE(test, look(m, true));
	KUNIT_EXPECT_EQ(test, m->spt[1][511], accessed());
	KUNIT_EXPECT_EQ(test, m->spt[1][0], FROZEN_SPTE);
	unmake(m);
}

/* All SPTEs of an rmap are looked at; the list does not change, and is not locked. */
static void answers_by_rmap(struct kunit *test)
{
	struct pte_list_desc tail = { .spte_count = PTE_LIST_EXT };
	struct pte_list_desc desc = { .more = &tail, .spte_count = 2, .tail_count = PTE_LIST_EXT };
	unsigned long many = (unsigned long)&desc | KVM_RMAP_MANY;
	u64 spte[PTE_LIST_EXT + 2], idle;
	struct kvm_rmap_head rmap_head = {};
	unsigned int i, budget = 100;

	if (!shadow_accessed_mask)
		kunit_skip(test, "there is no vendor module, or it has no Accessed bits");
	idle = accessed() & ~shadow_accessed_mask;
	for (i = 0; i < ARRAY_SIZE(spte); i++)
		*(i < 2 ? &desc.sptes[i] : &tail.sptes[i - 2]) = &spte[i];

	KUNIT_EXPECT_FALSE(test, rmap_age(&rmap_head, false, &budget));
	KUNIT_EXPECT_EQ(test, rmap_head.val, 0);

	spte[0] = accessed();
	rmap_head.val = (unsigned long)spte;
	KUNIT_EXPECT_TRUE(test, rmap_age(&rmap_head, true, &budget));
	KUNIT_EXPECT_EQ(test, spte[0], accessed());
	KUNIT_EXPECT_TRUE(test, rmap_age(&rmap_head, false, &budget));
	KUNIT_EXPECT_EQ(test, spte[0], idle);
	KUNIT_EXPECT_FALSE(test, rmap_age(&rmap_head, false, &budget));
	KUNIT_EXPECT_EQ(test, rmap_head.val, (unsigned long)spte);

	for (i = 0; i < ARRAY_SIZE(spte); i++)
		spte[i] = accessed();
	spte[1] = SHADOW_NONPRESENT_VALUE | shadow_accessed_mask;
	rmap_head.val = many;
	KUNIT_EXPECT_TRUE(test, rmap_age(&rmap_head, false, &budget));
	for (i = 0; i < ARRAY_SIZE(spte); i++)
		KUNIT_EXPECT_EQ(test, spte[i],
				i == 1 ? SHADOW_NONPRESENT_VALUE | shadow_accessed_mask : idle);
	KUNIT_EXPECT_EQ(test, rmap_head.val, many);
	KUNIT_EXPECT_EQ(test, budget, 100 - ARRAY_SIZE(spte));

	/* The budget ends in the middle of the list. */
	for (i = 0; i < ARRAY_SIZE(spte); i++)
		spte[i] = accessed();
	budget = 4;
	KUNIT_EXPECT_TRUE(test, rmap_age(&rmap_head, false, &budget));
	for (i = 0; i < ARRAY_SIZE(spte); i++)
		KUNIT_EXPECT_EQ(test, spte[i], i < 4 ? idle : accessed());
	KUNIT_EXPECT_EQ(test, rmap_head.val, many);
}

/* A huge SPTE of an rmap answers for each of its pages that is in the question. */
static void answers_by_huge_rmap(struct kunit *test)
{
	struct made_up *m = make_up(test);
	u64 spte = accessed() | PT_PAGE_SIZE_MASK;
	unsigned int i;

	for (i = 0; i < KVM_NR_PAGE_SIZES; i++) {
		m->slot.arch.rmap[i] = kunit_kcalloc(test, SPTE_ENT_PER_PAGE,
						     sizeof(struct kvm_rmap_head), GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, m->slot.arch.rmap[i]);
	}
	m->slot.arch.rmap[PG_LEVEL_2M - PG_LEVEL_4K][0].val = (unsigned long)&spte;
	for (i = 0; i < SPTE_ENT_PER_PAGE; i += 2)
		__set_bit(i, m->age.pages);
	KUNIT_EXPECT_TRUE(test, rmap_age_range(&m->range, false, &m->age.budget));
	KUNIT_EXPECT_EQ(test, spte, (accessed() & ~shadow_accessed_mask) | PT_PAGE_SIZE_MASK);
	for (i = 0; i < SPTE_ENT_PER_PAGE; i++)
		KUNIT_EXPECT_EQ(test, test_bit(i, m->age.young), i % 2 == 0);
	KUNIT_EXPECT_FALSE(test, rmap_age_range(&m->range, false, &m->age.budget));
	unmake(m);
}

/* The lock returns the head without its bit; the unlock lets the next one in. */
static void locks_rmaps(struct kunit *test)
{
	struct kvm_rmap_head rmap_head = { 0x1000 };

	KUNIT_EXPECT_EQ(test, __kvm_rmap_lock(&rmap_head), 0x1000);
	KUNIT_EXPECT_EQ(test, rmap_head.val, 0x1000 | KVM_RMAP_LOCKED);
	KUNIT_EXPECT_EQ(test, kvm_rmap_unlocked(&rmap_head).val, 0x1000);
	__kvm_rmap_unlock(&rmap_head, 0x2000);
	KUNIT_EXPECT_EQ(test, rmap_head.val, 0x2000);

	rmap_head.val = 0;
	KUNIT_EXPECT_EQ(test, __kvm_rmap_lock(&rmap_head), 0);
	KUNIT_EXPECT_EQ(test, rmap_head.val, 0);
}

static u64 some_spte(unsigned int i)
{
	if (i % 3 == 0)
		return SHADOW_NONPRESENT_VALUE;
	return i % 3 == 1 ? accessed() : accessed() & ~shadow_accessed_mask;
}

/* Questions with bitmaps have the answers and effects of questions about single pages. */
static void same_as_page_by_page(struct kunit *test, bool rmaps)
{
	unsigned int i, nr = SPTE_ENT_PER_PAGE;
	struct made_up *m = make_up(test);
	u64 *after = kunit_kcalloc(test, nr, sizeof(u64), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, after);
	for (i = 0; i < KVM_NR_PAGE_SIZES; i++) {
		m->slot.arch.rmap[i] = kunit_kcalloc(test, nr, sizeof(struct kvm_rmap_head),
						     GFP_KERNEL);
		KUNIT_ASSERT_NOT_NULL(test, m->slot.arch.rmap[i]);
	}
	for (i = 0; i < nr; i++) {
		m->spt[1][i] = some_spte(i);
		if (is_shadow_present_pte(m->spt[1][i]))
			m->slot.arch.rmap[0][i].val = (unsigned long)&m->spt[1][i];
		if (i % 4)
			__set_bit(i, m->age.pages);
	}

	if (rmaps)
		KUNIT_EXPECT_TRUE(test, rmap_age_range(&m->range, false, &m->age.budget));
	else
		look(m, false);
	for (i = 0; i < nr; i++) {
		KUNIT_EXPECT_EQ(test, test_bit(i, m->age.young), i % 4 && i % 3 == 1);
		after[i] = m->spt[1][i];
		m->spt[1][i] = some_spte(i);
	}
	m->range.arg.age = NULL;
	for (i = 0; i < nr; i++) {
		bool young;

		if (!test_bit(i, m->age.pages))
			continue;
		m->range.start = i;
		m->range.end = i + 1;
		if (rmaps)
			young = rmap_age_range(&m->range, false, &m->age.budget);
		else
			young = look(m, false);
		KUNIT_EXPECT_EQ(test, young, test_bit(i, m->age.young));
	}
	KUNIT_EXPECT_MEMEQ(test, m->spt[1], after, nr * sizeof(u64));

	unmake(m);
}

static void same_in_page_tables(struct kunit *test)
{
	same_as_page_by_page(test, false);
}

static void same_in_rmaps(struct kunit *test)
{
	same_as_page_by_page(test, true);
}

static struct kunit_case kvm_age_cases[] = {
	KUNIT_CASE(clears_accessed_only),
	KUNIT_CASE(answers_for_pages),
	KUNIT_CASE(answers_for_huge),
	KUNIT_CASE(tracks_without_accessed_bits),
	KUNIT_CASE(stops_at_the_budget),
	KUNIT_CASE(tests_without_change),
	KUNIT_CASE(answers_by_rmap),
	KUNIT_CASE(answers_by_huge_rmap),
	KUNIT_CASE(locks_rmaps),
	KUNIT_CASE(same_in_page_tables),
	KUNIT_CASE(same_in_rmaps),
	{}
};

static struct kunit_suite kvm_age_suite = {
	.name = "kvm_aging",
	.test_cases = kvm_age_cases,
};

kunit_test_suite(kvm_age_suite);
