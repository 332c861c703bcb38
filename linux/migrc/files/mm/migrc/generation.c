// SPDX-License-Identifier: GPL-2.0
/*
 * MIGRC: may this PTE become writable?  A check for debug kernels.
 *
 * defer.c tells which places make a page writable, and calls migrc_flush_mm() there.  If it
 * has missed one, a model of what it knows cannot tell.  So here the number of a deferral
 * goes with the destination of the page, and whenever a writable PTE is installed, wherever
 * that is, the deferral must have been flushed.  When it was is noted by who flushes: the
 * marks and drains of MIGRC.  ptep_clear_flush() has flushed all that the address space may
 * know of the page, which is mapped by one PTE only.
 *
 * If a page is mapped by several address spaces, the first deferral is kept that has not been
 * flushed.  It is forgotten when the page is freed.  Large folios are never deferred, so of
 * several PTEs that are set at a time the first does.
 *
 * The hooks are those of page_table_check, and ptep_set_access_flags().  What FOLL_FORCE
 * writes without a writable PTE is not seen.
 */

#include <linux/mm.h>
#include <linux/page_ext.h>
#include <linux/page_table_check.h>
#include <linux/ratelimit.h>
#include <linux/spinlock.h>

#include "debug.h"
#include "migrc.h"

/* Under the page-table lock of a PTE that maps the page, or nobody else has the page */
struct migrc_generation {
	struct mm_struct *mm;		/* only compared */
	u64 seq;
};

static bool __init migrc_generation_need(void)
{
	return true;
}

struct page_ext_operations migrc_generation_ops = {
	.size = sizeof(struct migrc_generation),
	.need = migrc_generation_need,
};

static struct migrc_generation *migrc_generation(struct page_ext *page_ext)
{
	return page_ext_data(page_ext, &migrc_generation_ops);
}

/* What another owner of the mark has left has been flushed. */
static bool migrc_flushed(struct mm_struct *mm, u64 seq)
{
	struct migrc_mark *mark = migrc_mark(mm);
	bool flushed;

	spin_lock(&migrc_lock);
	flushed = mark->mm != mm || seq <= max(mark->flushed, migrc_done);
	spin_unlock(&migrc_lock);
	return flushed;
}

/**
 * migrc_generation_defer - a page's flush was deferred
 * @page:	the source
 * @mm:		address space
 * @seq:	of the deferral
 *
 * Context: under the page-table lock.
 */
void migrc_generation_defer(struct page *page, struct mm_struct *mm, u64 seq)
{
	struct page_ext *page_ext;
	struct migrc_generation *old;

	/* Nobody says when pages are freed. */
	if (static_branch_likely(&page_table_check_disabled))
		return;
	page_ext = page_ext_get(page);
	if (!page_ext)
		return;
	old = migrc_generation(page_ext);
	if (!old->mm || old->mm == mm || migrc_flushed(old->mm, old->seq))
		*old = (struct migrc_generation) { .mm = mm, .seq = seq };
	page_ext_put(page_ext);
}

/**
 * migrc_generation_move - a page has been copied
 * @src: where it was
 * @dst: where it is
 *
 * Context: process; before @dst is mapped.
 */
void migrc_generation_move(struct page *src, struct page *dst)
{
	struct page_ext *from = page_ext_get(src), *to = page_ext_get(dst);

	if (from && to)
		*migrc_generation(to) = *migrc_generation(from);
	if (to)
		page_ext_put(to);
	if (from)
		page_ext_put(from);
}

/**
 * migrc_generation_free - forget what is known of pages
 * @page:	the first
 * @order:	of their number
 *
 * Context: any.
 */
void migrc_generation_free(struct page *page, unsigned int order)
{
	unsigned long i;

	/* Each one anew: there may be several sections of memory. */
	for (i = 0; i < 1UL << order; i++) {
		struct page_ext *page_ext = page_ext_get(page + i);

		if (!page_ext)
			continue;
		*migrc_generation(page_ext) = (struct migrc_generation) { };
		page_ext_put(page_ext);
	}
}

/**
 * migrc_check_cleared - a PTE was cleared, and its address has been flushed
 * @mm:		address space
 * @pte:	what it was
 *
 * Context: under the page-table lock.
 */
void migrc_check_cleared(struct mm_struct *mm, pte_t pte)
{
	struct page_ext *page_ext;

	if (!pte_present(pte) || !pfn_valid(pte_pfn(pte)))
		return;
	page_ext = page_ext_get(pfn_to_page(pte_pfn(pte)));
	if (!page_ext)
		return;
	if (migrc_generation(page_ext)->mm == mm)
		*migrc_generation(page_ext) = (struct migrc_generation) { };
	page_ext_put(page_ext);
}

/**
 * migrc_check_writable - a PTE is about to be installed
 * @mm:		address space
 * @pte:	the PTE, of a page
 *
 * Context: under the page-table lock.
 */
void migrc_check_writable(struct mm_struct *mm, pte_t pte)
{
	struct page_ext *page_ext;
	struct migrc_generation generation;

	if (static_branch_likely(&page_table_check_disabled))
		return;
	if (!pte_present(pte) || !pte_write(pte) || !pfn_valid(pte_pfn(pte)))
		return;
	page_ext = page_ext_get(pfn_to_page(pte_pfn(pte)));
	if (!page_ext)
		return;
	generation = *migrc_generation(page_ext);
	page_ext_put(page_ext);
	if (generation.mm != mm || !migrc_checking())
		return;
	WARN_RATELIMIT(!migrc_flushed(mm, generation.seq),
		       "migrc: PTE made writable before its TLB entries are flushed\n");
}
