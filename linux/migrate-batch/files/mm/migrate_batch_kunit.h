/* SPDX-License-Identifier: GPL-2.0 */
/*
 * KUnit tests of how batched migration forms runs.  Part of migrate_batch.c.
 *
 * That memory stays what it is while it moves is for the selftest to see
 * (tools/testing/selftests/migrate_batch/).
 */

#include <kunit/test.h>

#define ORDER	4
#define NR	16

/* A large folio, as an anonymous one whose pages are all exclusive, and PTEs that map it */
struct mapped {
	struct folio *folio;
	struct vm_area_struct vma;
	pte_t pte[NR + 1];
};

static struct mapped *map_folio(struct kunit *test)
{
	struct mapped *map = kunit_kzalloc(test, sizeof(*map), GFP_KERNEL);
	int i;

	KUNIT_ASSERT_NOT_NULL(test, map);
	map->folio = folio_alloc(GFP_KERNEL, ORDER);
	KUNIT_ASSERT_NOT_NULL(test, map->folio);
	map->folio->mapping = (struct address_space *)PAGE_MAPPING_ANON;
	map->vma.vm_start = PMD_SIZE;
	map->vma.vm_end = 2 * PMD_SIZE;
	map->vma.vm_page_prot = PAGE_COPY;
	for (i = 0; i < NR; i++) {
		SetPageAnonExclusive(folio_page(map->folio, i));
		map->pte[i] = pte_mkyoung(mk_pte(folio_page(map->folio, i), PAGE_COPY));
	}
	return map;
}

static void unmap_folio(struct mapped *map)
{
	int i;

	for (i = 0; i < NR; i++)
		ClearPageAnonExclusive(folio_page(map->folio, i));
	map->folio->mapping = NULL;
	folio_put(map->folio);
}

static int length(struct mapped *map, int from)
{
	return migrate_unmap_length(map->folio, &map->vma, PMD_SIZE + from * PAGE_SIZE,
				    map->pte + from, map->pte[from]);
}

static void length_test(struct kunit *test)
{
	struct mapped *map = map_folio(test);

	KUNIT_EXPECT_EQ(test, length(map, 0), NR);
	KUNIT_EXPECT_EQ(test, length(map, 3), NR - 3);

	/* What each entry gets from its own PTE does not end a run. */
	map->pte[2] = pte_mkold(map->pte[2]);
	map->pte[3] = pte_mkdirty(map->pte[3]);
	map->pte[4] = pte_mkwrite_novma(map->pte[4]);
	map->pte[5] = pte_mksoft_dirty(map->pte[5]);
	KUNIT_EXPECT_EQ(test, length(map, 0), NR);

	/* The end of the page table ends a run: PTEs of the next one are elsewhere. */
	map->vma.vm_end = 3 * PMD_SIZE;
	KUNIT_EXPECT_EQ(test, migrate_unmap_length(map->folio, &map->vma,
						   2 * PMD_SIZE - 5 * PAGE_SIZE, map->pte,
						   map->pte[0]), 5);

	/* The end of the VMA does, and what the folio has to know. */
	map->vma.vm_end = PMD_SIZE + 9 * PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, length(map, 0), 9);
	ClearPageAnonExclusive(folio_page(map->folio, 7));
	KUNIT_EXPECT_EQ(test, length(map, 0), 7);
	KUNIT_EXPECT_EQ(test, length(map, 7), 1);
	map->pte[6] = pte_modify(map->pte[6], PAGE_NONE);
	KUNIT_EXPECT_EQ(test, length(map, 0), 6);
	map->pte[5] = pte_next_pfn(map->pte[5]);
	KUNIT_EXPECT_EQ(test, length(map, 0), 5);
	pte_clear(NULL, 0, &map->pte[4]);
	KUNIT_EXPECT_EQ(test, length(map, 0), 4);
#ifdef CONFIG_MEMORY_FAILURE
	SetPageHWPoison(folio_page(map->folio, 1));
	KUNIT_EXPECT_EQ(test, length(map, 0), 1);
	KUNIT_EXPECT_EQ(test, length(map, 1), 0);
	ClearPageHWPoison(folio_page(map->folio, 1));
#endif
	unmap_folio(map);
}

/*
 * A run leaves no page exclusive, and the folio as dirty as its pages.  A pin leaves all as it was.
 * Without a task: init_mm has no user addresses.
 */
static void unmap_test(struct kunit *test)
{
	struct mapped *map = map_folio(test);
	struct migrate_unmap unmap = {};
	pte_t old[NR];
	int i;

	map->vma.vm_mm = &init_mm;
	map->pte[NR - 1] = pte_mkdirty(map->pte[NR - 1]);
	memcpy(old, map->pte, sizeof(old));
	atomic_inc(&map->folio->_pincount);
	KUNIT_EXPECT_EQ(test, migrate_unmap_ptes(&unmap, map->folio, &map->vma, PMD_SIZE,
						 map->pte, NR), -EBUSY);
	KUNIT_EXPECT_MEMEQ(test, map->pte, old, sizeof(old));
	KUNIT_EXPECT_TRUE(test, PageAnonExclusive(folio_page(map->folio, NR - 1)));
	KUNIT_EXPECT_FALSE(test, folio_test_dirty(map->folio));
	atomic_dec(&map->folio->_pincount);

	KUNIT_EXPECT_EQ(test, migrate_unmap_ptes(&unmap, map->folio, &map->vma, PMD_SIZE,
						 map->pte, NR), 0);
	for (i = 0; i < NR; i++) {
		swp_entry_t entry = pte_to_swp_entry(map->pte[i]);

		KUNIT_EXPECT_FALSE(test, PageAnonExclusive(folio_page(map->folio, i)));
		KUNIT_EXPECT_EQ(test, swp_offset_pfn(entry), folio_pfn(map->folio) + i);
		KUNIT_EXPECT_EQ(test, is_migration_entry_dirty(entry), i == NR - 1);
	}
	KUNIT_EXPECT_TRUE(test, folio_test_dirty(map->folio));
	folio_clear_dirty(map->folio);
	unmap_folio(map);
}

/* All combinations of what a PTE knows go through a migration entry and come back. */
static void round_trip_test(struct kunit *test)
{
	struct mapped *map = map_folio(test);
	struct page *page = folio_page(map->folio, 1);
	int bits;

	folio_set_dirty(map->folio);
	for (bits = 0; bits < 16; bits++) {
		pte_t pte = pte_mkold(pte_wrprotect(mk_pte(page, PAGE_COPY))), entry, back;

		if (bits & 1)
			pte = pte_mkyoung(pte);
		if (bits & 2)
			pte = pte_mkdirty(pte);
		pte = bits & 4 ? pte_mksoft_dirty(pte) : pte_clear_soft_dirty(pte);
		vm_flags_init(&map->vma, bits & 8 ? VM_WRITE : 0);
		if (bits & 8)
			pte = pte_mkwrite(pte, &map->vma);
		entry = pte_to_migration_entry(page, pte, true);
		KUNIT_EXPECT_TRUE(test, is_swap_pte(entry));
		KUNIT_EXPECT_FALSE(test, is_readable_migration_entry(pte_to_swp_entry(entry)));
		back = migration_entry_to_pte(map->folio, page, &map->vma, entry);
		KUNIT_EXPECT_TRUE_MSG(test, pte_same(back, pte), "bits %d", bits);
	}
	folio_clear_dirty(map->folio);
	unmap_folio(map);
}

/* Entries that were computed from the one before are what they would be by themselves. */
static void step_test(struct kunit *test)
{
	struct mapped *map = map_folio(test);
	unsigned long step = migrate_entry_step(&map->folio->page);
	pte_t first = pte_to_migration_entry(&map->folio->page, map->pte[0], true), pte = first;
	int i;

	for (i = 0; i < NR; i++) {
		pte_t own = pte_to_migration_entry(folio_page(map->folio, i), map->pte[i], true);

		KUNIT_EXPECT_TRUE(test, pte_same(pte, own));
		map->pte[i] = pte;
		pte = __pte(pte_val(pte) + step);
	}
	pte_clear(NULL, 0, &map->pte[NR]);
	KUNIT_EXPECT_EQ(test, migrate_restore_length(map->pte, first, NR + 1), NR);
	map->pte[9] = pte_swp_mksoft_dirty(map->pte[9]);
	if (!pte_same(map->pte[9], map->pte[8]) && pte_swp_soft_dirty(map->pte[9]) &&
	    !pte_swp_soft_dirty(first))
		KUNIT_EXPECT_EQ(test, migrate_restore_length(map->pte, first, NR), 9);
	pte_clear(NULL, 0, &map->pte[5]);
	KUNIT_EXPECT_EQ(test, migrate_restore_length(map->pte, first, NR), 5);
	unmap_folio(map);
}

static bool extend(unsigned long *start, unsigned long *end, long *pages, unsigned long at,
		   unsigned long nr)
{
	struct migrate_vmas seen = {
		.start = at << PAGE_SHIFT,
		.end = (at + nr) << PAGE_SHIFT,
	};

	return migrate_hull_widen(start, end, pages, &seen);
}

/* Half of the addresses that secondary MMUs forget belong to what moves. */
static void hull_test(struct kunit *test)
{
	unsigned long start = 100 << PAGE_SHIFT, end = 101 << PAGE_SHIFT;
	long pages = 1;
	int i;

	KUNIT_EXPECT_TRUE(test, extend(&start, &end, &pages, 102, 1));
	KUNIT_EXPECT_EQ(test, pages, 2);
	KUNIT_EXPECT_EQ(test, end, 103 << PAGE_SHIFT);
	/* Downwards as well */
	KUNIT_EXPECT_TRUE(test, extend(&start, &end, &pages, 99, 1));
	KUNIT_EXPECT_EQ(test, start, 99 << PAGE_SHIFT);
	/* Six of thirteen are less than half; eight of sixteen are not. */
	KUNIT_EXPECT_FALSE(test, extend(&start, &end, &pages, 109, 3));
	KUNIT_EXPECT_EQ(test, pages, 3);
	KUNIT_EXPECT_TRUE(test, extend(&start, &end, &pages, 110, 5));
	for (i = 115; pages < MIGRATE_RUN_PAGES; i++)
		KUNIT_ASSERT_TRUE(test, extend(&start, &end, &pages, i, 1));
	KUNIT_EXPECT_FALSE(test, extend(&start, &end, &pages, i, 1));
}

/* A gap is bridged if it is small, in both directions. */
static void gap_test(struct kunit *test)
{
	unsigned long start = 100 << PAGE_SHIFT, end = 130 << PAGE_SHIFT;
	long pages = 30;

	KUNIT_EXPECT_FALSE(test, extend(&start, &end, &pages, 139, 1));
	KUNIT_EXPECT_FALSE(test, extend(&start, &end, &pages, 90, 1));
	KUNIT_EXPECT_TRUE(test, extend(&start, &end, &pages, 138, 1));
	KUNIT_EXPECT_TRUE(test, extend(&start, &end, &pages, 91, 1));
	KUNIT_EXPECT_EQ(test, pages, 32);
}

/* A folio that several address spaces with secondary MMUs map, or many VMAs, is in no hull. */
static void seen_test(struct kunit *test)
{
	struct migrate_vmas seen = { .nr = 1, .vmas = MIGRATE_HULL_VMAS };

	KUNIT_EXPECT_TRUE(test, migrate_hull_fits(&seen));
	seen.vmas++;
	KUNIT_EXPECT_FALSE(test, migrate_hull_fits(&seen));
	seen.vmas = 2;
	seen.nr = 2;
	KUNIT_EXPECT_FALSE(test, migrate_hull_fits(&seen));
	seen.nr = 0;
	KUNIT_EXPECT_FALSE(test, migrate_hull_fits(&seen));
}

/* A task that waits for the rmap lock ends a run, and the search for a hull. */
static void awaited_test(struct kunit *test)
{
	struct address_space *mapping = kunit_kzalloc(test, sizeof(*mapping), GFP_KERNEL);
	struct migrate_run run = { .mapping = mapping };
	LIST_HEAD(waiter);

	KUNIT_ASSERT_NOT_NULL(test, mapping);
	init_rwsem(&mapping->i_mmap_rwsem);
	KUNIT_EXPECT_TRUE(test, !migrate_run_contended(&run) || need_resched());
	list_add(&waiter, &mapping->i_mmap_rwsem.wait_list);
	KUNIT_EXPECT_TRUE(test, migrate_run_contended(&run));
	list_del(&waiter);
}

/* What no folio needed is given back; a target without pages is not asked twice. */
static void spares_test(struct kunit *test)
{
	struct migration_target_control mtc = {
		.nid = numa_node_id(),
		.gfp_mask = GFP_HIGHUSER_MOVABLE,
	};
	struct folio *src[2], *dst;
	bool empty = false;
	LIST_HEAD(spares);
	LIST_HEAD(from);
	int i;

	for (i = 0; i < 2; i++) {
		src[i] = folio_alloc(GFP_KERNEL, 0);
		KUNIT_ASSERT_NOT_NULL(test, src[i]);
		list_add_tail(&src[i]->lru, &from);
	}
	dst = migrate_bulk_alloc(&spares, &empty, &from, src[0], &mtc, true);
	KUNIT_EXPECT_NOT_NULL(test, dst);
	KUNIT_EXPECT_FALSE(test, empty);
	KUNIT_EXPECT_TRUE(test, list_is_singular(&spares));
	migrate_bulk_free(&spares);
	KUNIT_EXPECT_TRUE(test, list_empty(&spares));
	if (dst)
		folio_put(dst);
	empty = true;
	dst = migrate_bulk_alloc(&spares, &empty, &from, src[0], &mtc, false);
	KUNIT_EXPECT_NULL(test, dst);
	for (i = 0; i < 2; i++)
		folio_put(src[i]);
}

/* kswapd isolates what is due, and at most a batch. */
static void isolate_test(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, migrate_batch_isolate(1), 1);
	KUNIT_EXPECT_EQ(test, migrate_batch_isolate(100), 100);
	KUNIT_EXPECT_EQ(test, migrate_batch_isolate(100000), 512);
	migrate_max_folios = 70;
	KUNIT_EXPECT_EQ(test, migrate_batch_isolate(100000), 70);
	migrate_max_folios = MIGRATE_DEFAULT_FOLIOS;
}

static void special_test(struct kunit *test)
{
	static const vm_flags_t special[] = { VM_LOCKED, VM_UFFD_WP, VM_UFFD_MISSING,
					      VM_STACK | VM_STACK_INCOMPLETE_SETUP };
	struct vm_area_struct vma = {};
	int i;

	vm_flags_init(&vma, VM_READ | VM_WRITE | VM_STACK);
	KUNIT_EXPECT_FALSE(test, migrate_vma_is_special(&vma));
	for (i = 0; i < ARRAY_SIZE(special); i++) {
		vm_flags_init(&vma, VM_READ | VM_WRITE | special[i]);
		KUNIT_EXPECT_TRUE(test, migrate_vma_is_special(&vma));
	}
}

static void full_test(struct kunit *test)
{
	KUNIT_EXPECT_FALSE(test, migrate_batch_full(511, 511));
	KUNIT_EXPECT_TRUE(test, migrate_batch_full(512, 512));
	KUNIT_EXPECT_TRUE(test, migrate_batch_full(1, 512));
}

static struct kunit_case migrate_batch_cases[] = {
	KUNIT_CASE(length_test),
	KUNIT_CASE(unmap_test),
	KUNIT_CASE(round_trip_test),
	KUNIT_CASE(step_test),
	KUNIT_CASE(hull_test),
	KUNIT_CASE(gap_test),
	KUNIT_CASE(seen_test),
	KUNIT_CASE(awaited_test),
	KUNIT_CASE(spares_test),
	KUNIT_CASE(isolate_test),
	KUNIT_CASE(special_test),
	KUNIT_CASE(full_test),
	{}
};

static struct kunit_suite migrate_batch_suite = {
	.name = "migrate_batch",
	.test_cases = migrate_batch_cases,
};

kunit_test_suite(migrate_batch_suite);
