/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KUnit tests of what batched unmapping gathers.  Part of zap_batch.c.
 *
 * That nothing is lost is for the selftest to see (tools/testing/selftests/zap_batch/).
 */

#include <kunit/test.h>
#include <linux/page-isolation.h>

#define NR_FOLIOS	4

/* Folios of order 0 on the first node with memory, or the second if there is one */
static struct folio *new_folio(struct kunit *test, bool second)
{
	int nid = first_memory_node;
	struct page *page;

	if (second)
		nid = next_memory_node(nid);
	page = alloc_pages_node(nid, GFP_KERNEL | __GFP_THISNODE, 0);
	KUNIT_ASSERT_NOT_NULL(test, page);
	return page_folio(page);
}

/* Mapped @maps times, anonymous or not, as far as zap_stat_unmap() looks */
static void map_folio(struct folio *folio, int maps, bool anon)
{
	atomic_set(&folio->_mapcount, maps - 1);
	folio->mapping = anon ? (struct address_space *)PAGE_MAPPING_ANON : NULL;
}

/* The root's references and charge are not counted. */
static void charge_to_root(struct folio *folio)
{
#ifdef CONFIG_MEMCG
	if (!mem_cgroup_disabled())
		folio->memcg_data = (unsigned long)root_mem_cgroup;
#endif
}

static void free_folio(struct folio *folio)
{
#ifdef CONFIG_MEMCG
	folio->memcg_data = 0;
#endif
	folio->mapping = NULL;
	folio_put(folio);
}

static void stat_test(struct kunit *test)
{
	struct vm_area_struct *vma = kunit_kzalloc(test, sizeof(*vma), GFP_KERNEL);
	struct folio *folio[NR_FOLIOS];
	struct zap_stat stat;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, vma);
	for (i = 0; i < NR_FOLIOS; i++) {
		folio[i] = new_folio(test, false);
		map_folio(folio[i], i == 2 ? 2 : 1, i != 3);
	}
	zap_stat_begin(&stat);
	for (i = 0; i < NR_FOLIOS; i++)
		zap_stat_unmap(&stat, folio[i], vma);
	/* Not the one that is mapped once more; the last one is of page cache */
	KUNIT_EXPECT_EQ(test, stat.nr[1], 2);
	KUNIT_EXPECT_EQ(test, stat.nr[0], 1);
	KUNIT_EXPECT_PTR_EQ(test, stat.pgdat, folio_pgdat(folio[0]));
	KUNIT_EXPECT_NULL(test, stat.memcg);
	zap_stat_unmap(&stat, folio[2], vma);
	KUNIT_EXPECT_EQ(test, stat.nr[1], 3);

	/* They were not counted as mapped before. */
	mod_node_page_state(stat.pgdat, NR_ANON_MAPPED, 3);
	mod_node_page_state(stat.pgdat, NR_FILE_MAPPED, 1);
	preempt_disable();
	zap_stat_flush(&stat);
	preempt_enable();
	KUNIT_EXPECT_EQ(test, stat.nr[0] | stat.nr[1], 0);
	KUNIT_EXPECT_NULL(test, stat.pgdat);
	for (i = 0; i < NR_FOLIOS; i++)
		free_folio(folio[i]);
}

/* A run ends where the node changes. */
static void stat_nodes_test(struct kunit *test)
{
	struct vm_area_struct *vma = kunit_kzalloc(test, sizeof(*vma), GFP_KERNEL);
	struct folio *folio[2];
	struct zap_stat stat;

	if (next_memory_node(first_memory_node) == MAX_NUMNODES)
		kunit_skip(test, "one node");
	KUNIT_ASSERT_NOT_NULL(test, vma);
	zap_stat_begin(&stat);
	for (int i = 0; i < 2; i++) {
		folio[i] = new_folio(test, i);
		map_folio(folio[i], 1, true);
		mod_node_page_state(folio_pgdat(folio[i]), NR_ANON_MAPPED, 1);
		preempt_disable();
		zap_stat_unmap(&stat, folio[i], vma);
		preempt_enable();
		KUNIT_EXPECT_EQ(test, stat.nr[1], 1);
		KUNIT_EXPECT_PTR_EQ(test, stat.pgdat, folio_pgdat(folio[i]));
	}
	preempt_disable();
	zap_stat_flush(&stat);
	preempt_enable();
	for (int i = 0; i < 2; i++)
		free_folio(folio[i]);
}

#ifdef CONFIG_LRU_GEN
/* All sizes of the lists of a lruvec */
static long lru_sizes(struct lruvec *lruvec)
{
	long sum = 0;

	for (int gen = 0; gen < MAX_NR_GENS; gen++)
		for (int type = 0; type < ANON_AND_FILE; type++)
			for (int zone = 0; zone < MAX_NR_ZONES; zone++)
				sum += READ_ONCE(lruvec->lrugen.nr_pages[gen][type][zone]);
	return sum;
}

static void lru_test(struct kunit *test)
{
	struct folio *folio[NR_FOLIOS];
	struct lruvec *lruvec;
	long before, after;
	unsigned int i;

	if (!lru_gen_enabled())
		kunit_skip(test, "no generations");
	for (i = 0; i < NR_FOLIOS; i++) {
		folio[i] = new_folio(test, false);
		charge_to_root(folio[i]);
		/* Two sizes: anonymous pages, and one of page cache */
		if (i == 2)
			__folio_set_swapbacked(folio[i]);
		if (i)
			folio_add_lru(folio[i]);
	}
	lru_add_drain_all();
	for (i = 1; i < NR_FOLIOS; i++)
		KUNIT_ASSERT_TRUE(test, folio_test_lru(folio[i]));
	lruvec = folio_lruvec(folio[1]);
	/* The first is on no list, so its run ends there. */
	KUNIT_EXPECT_EQ(test, zap_take(folio, NR_FOLIOS), 1);
	before = lru_sizes(lruvec);
	KUNIT_EXPECT_EQ(test, zap_take(folio + 1, NR_FOLIOS - 1), NR_FOLIOS - 1);
	after = lru_sizes(lruvec);
	KUNIT_EXPECT_EQ(test, after, before - (NR_FOLIOS - 1));
	for (i = 0; i < NR_FOLIOS; i++) {
		KUNIT_EXPECT_FALSE(test, folio_test_lru(folio[i]));
		KUNIT_EXPECT_EQ(test, folio_lru_gen(folio[i]), -1);
		KUNIT_EXPECT_NULL(test, folio_memcg(folio[i]));
		__folio_clear_swapbacked(folio[i]);
		free_folio(folio[i]);
	}
}
#else
static void lru_test(struct kunit *test)
{
	kunit_skip(test, "no generations");
}
#endif

/* A run ends where the node changes. */
static void take_nodes_test(struct kunit *test)
{
	struct folio *folio[2];

	if (next_memory_node(first_memory_node) == MAX_NUMNODES)
		kunit_skip(test, "one node");
	for (int i = 0; i < 2; i++)
		folio[i] = new_folio(test, i);
	KUNIT_EXPECT_EQ(test, zap_take(folio, 2), 1);
	for (int i = 0; i < 2; i++)
		free_folio(folio[i]);
}

/* Is a free page on a per-CPU list of this CPU for a migrate type? */
static bool on_pcp_list(struct page *page, int migratetype)
{
	struct per_cpu_pages *pcp = raw_cpu_ptr(page_zone(page)->per_cpu_pageset);
	struct page *one;
	bool found = false;

	spin_lock(&pcp->lock);
	list_for_each_entry(one, &pcp->lists[migratetype], pcp_list)
		found |= one == page;
	spin_unlock(&pcp->lock);
	return found;
}

/* Neighbours of two pageblocks go to the lists of their blocks' types. */
static void migratetype_test(struct kunit *test)
{
	struct page *blocks = alloc_pages(GFP_KERNEL, MAX_PAGE_ORDER);
	struct page *edge = blocks + pageblock_nr_pages;
	bool left = false, right = false;
	struct folio *run[2];
	int old;

	if (!blocks || pageblock_order >= MAX_PAGE_ORDER)
		kunit_skip(test, "no two pageblocks");
	split_page(blocks, MAX_PAGE_ORDER);
	old = get_pageblock_migratetype(edge);
	set_pageblock_migratetype(edge, old == MIGRATE_UNMOVABLE ? MIGRATE_RECLAIMABLE :
				  MIGRATE_UNMOVABLE);
	run[0] = page_folio(edge - 1);
	run[1] = page_folio(edge);
	for (int i = 0; i < 2; i++)
		KUNIT_ASSERT_TRUE(test, put_page_testzero(&run[i]->page));
	/* No task takes from the lists until the test looks, and two pages fill none. */
	preempt_disable();
	drain_local_pages(page_zone(edge));
	free_unref_run(run, 2);
	left = on_pcp_list(edge - 1, get_pageblock_migratetype(edge - 1));
	right = on_pcp_list(edge, get_pageblock_migratetype(edge));
	preempt_enable();
	KUNIT_EXPECT_TRUE(test, left);
	KUNIT_EXPECT_TRUE(test, right);
	for (unsigned long i = 0; i < MAX_ORDER_NR_PAGES; i++)
		if (blocks + i != edge && blocks + i != edge - 1)
			__free_page(blocks + i);
}

/* What large folios count until others may run */
static void weight_test(struct kunit *test)
{
	struct page *one = alloc_pages(GFP_KERNEL | __GFP_COMP, 3);
	struct page *two = alloc_pages(GFP_KERNEL | __GFP_COMP, 4);
	struct folio *last = NULL;

	KUNIT_ASSERT_TRUE(test, one && two);
	KUNIT_EXPECT_EQ(test, zap_weight(page_folio(one), &last), 8);
	/* Other pages of the same one */
	KUNIT_EXPECT_EQ(test, zap_weight(page_folio(one + 3), &last), 0);
	KUNIT_EXPECT_EQ(test, zap_weight(page_folio(two + 1), &last), 16);
	KUNIT_EXPECT_EQ(test, zap_weight(page_folio(one), &last), 8);
	__free_pages(one, 3);
	__free_pages(two, 4);
}

/* Others may run after as many base pages as there may be. */
static void bound_test(struct kunit *test)
{
	struct encoded_page *entry[4];

	for (int i = 0; i < 4; i++) {
		struct page *page = alloc_pages(GFP_KERNEL | __GFP_COMP, 3);

		KUNIT_ASSERT_NOT_NULL(test, page);
		entry[i] = encode_page(page, 0);
	}
	KUNIT_EXPECT_EQ(test, zap_put(entry, 4, 16), 2);
	KUNIT_EXPECT_EQ(test, zap_put(entry + 2, 2, 1), 1);
	KUNIT_EXPECT_EQ(test, zap_put(entry + 3, 1, 4096), 1);
}

static struct kunit_case zap_batch_cases[] = {
	KUNIT_CASE(stat_test),
	KUNIT_CASE(stat_nodes_test),
	KUNIT_CASE(lru_test),
	KUNIT_CASE(take_nodes_test),
	KUNIT_CASE(migratetype_test),
	KUNIT_CASE(weight_test),
	KUNIT_CASE(bound_test),
	{}
};

static struct kunit_suite zap_batch_suite = {
	.name = "zap_batch",
	.test_cases = zap_batch_cases,
};

kunit_test_suite(zap_batch_suite);
