/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KUnit tests of what batched unmapping gathers.  Part of zap_batch.c.
 *
 * That nothing is lost is for the selftest to see (tools/testing/selftests/zap_batch/).
 */

#include <kunit/test.h>

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
static void lru_test(struct kunit *test)
{
	struct folio *folio[NR_FOLIOS];
	long before, gathered, flushed, nr, *size;
	struct zap_lru lru = {};
	struct lruvec *lruvec;
	unsigned int i;

	if (!lru_gen_enabled())
		kunit_skip(test, "no generations");
	for (i = 0; i < NR_FOLIOS; i++) {
		folio[i] = new_folio(test, false);
		charge_to_root(folio[i]);
		if (i)
			folio_add_lru(folio[i]);
	}
	lru_add_drain_all();
	/* The first is on no list. */
	zap_lru_del(&lru, folio[0]);
	KUNIT_EXPECT_NULL(test, lru.lruvec);
	for (i = 1; i < NR_FOLIOS; i++)
		KUNIT_ASSERT_TRUE(test, folio_test_lru(folio[i]));
	/* Under the lock nothing is reported. */
	zap_lru_del(&lru, folio[1]);
	lruvec = lru.lruvec;
	size = &lruvec->lrugen.nr_pages[lru.gen][lru.type][lru.zone];
	before = *size;
	for (i = 2; i < NR_FOLIOS; i++)
		zap_lru_del(&lru, folio[i]);
	nr = lru.nr;
	gathered = *size;
	zap_lru_flush(&lru);
	flushed = *size;
	zap_lru_unlock(&lru);
	/* Nothing is written until the run ends. */
	KUNIT_EXPECT_PTR_EQ(test, lruvec, folio_lruvec(folio[1]));
	KUNIT_EXPECT_EQ(test, nr, NR_FOLIOS - 1);
	KUNIT_EXPECT_EQ(test, gathered, before);
	KUNIT_EXPECT_EQ(test, flushed, before - (NR_FOLIOS - 1));
	KUNIT_EXPECT_EQ(test, lru.nr, 0);
	KUNIT_EXPECT_NULL(test, lru.lruvec);
	for (i = 0; i < NR_FOLIOS; i++) {
		KUNIT_EXPECT_FALSE(test, folio_test_lru(folio[i]));
		KUNIT_EXPECT_EQ(test, folio_lru_gen(folio[i]), -1);
		free_folio(folio[i]);
	}
}
#else
static void lru_test(struct kunit *test)
{
	kunit_skip(test, "no generations");
}
#endif

#ifdef CONFIG_MEMCG
static void charge_test(struct kunit *test)
{
	struct zap_charge charge = {};
	struct folio *folio[NR_FOLIOS];
	unsigned int i;

	if (mem_cgroup_disabled())
		kunit_skip(test, "no groups");
	for (i = 0; i < NR_FOLIOS; i++) {
		folio[i] = new_folio(test, false);
		if (i)
			charge_to_root(folio[i]);
		zap_uncharge(&charge, folio[i]);
		KUNIT_EXPECT_EQ(test, charge.nr, i);
		KUNIT_EXPECT_EQ(test, folio[i]->memcg_data, 0);
	}
	zap_charge_flush(&charge);
	zap_charge_flush(&charge);
	KUNIT_EXPECT_EQ(test, charge.nr, 0);
	KUNIT_EXPECT_EQ(test, charge.runs, 1);
	for (i = 0; i < NR_FOLIOS; i++)
		free_folio(folio[i]);
}
#else
static void charge_test(struct kunit *test)
{
	kunit_skip(test, "no groups");
}
#endif

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

static struct kunit_case zap_batch_cases[] = {
	KUNIT_CASE(stat_test),
	KUNIT_CASE(stat_nodes_test),
	KUNIT_CASE(lru_test),
	KUNIT_CASE(charge_test),
	KUNIT_CASE(weight_test),
	{}
};

static struct kunit_suite zap_batch_suite = {
	.name = "zap_batch",
	.test_cases = zap_batch_cases,
};

kunit_test_suite(zap_batch_suite);
