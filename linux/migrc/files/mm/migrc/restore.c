// SPDX-License-Identifier: GPL-2.0
/*
 * MIGRC: make more pages eligible, by leaving PTEs read-only that nobody writes through.
 *
 * The memory of a process that was written once and is only read since then stays mapped
 * writable, and its migrations have to flush.  NUMA balancing's hint faults leave PTEs
 * read-only as a by-product; a promotion without hint faults does not.
 *
 * Whether a page was written is told by the Dirty bit, which the processor sets.  It is
 * cleared when a page is demoted (the folio stays dirty, nothing is lost).  If it is still
 * clear when the page is promoted, then nobody wrote for as long as the page was on the
 * slow node, and the PTE is left read-only.  The next demotion can defer its flush, and so
 * can all that follow, until somebody writes: that costs one fault, in which the page is
 * reused in place, and the PTE is writable again.
 *
 * khugepaged does not collapse a range without any writable PTE, so such memory gets no huge
 * pages any more.
 *
 * The bit can be cleared without a flush of its own: the PTE was removed and flushed before,
 * and no TLB has the new one.
 */

#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/swap.h>
#include <linux/swapops.h>

#include "migrc.h"

/* Set in sysfs.c */
bool migrc_restore_readonly;

/**
 * __migrc_restore_pte - see migrc_restore_pte()
 * @pte:	writable PTE that is about to replace a migration entry
 * @vma:	where
 * @src:	where the page was
 * @dst:	where the page is
 *
 * Context: under the page-table lock.
 * Return: the PTE to be used.
 */
pte_t __migrc_restore_pte(pte_t pte, struct vm_area_struct *vma, struct folio *src,
			  struct folio *dst)
{
	bool from_top, to_top;

	if (!READ_ONCE(migrc_restore_readonly) || src == dst || folio_test_large(dst) ||
	    !folio_test_anon(dst))
		return pte;
	/* Entries without room for a Dirty bit have lost it. */
	if (!migration_entry_supports_ad())
		return pte;
	/* A guest's writes do not set the Dirty bit of this page table. */
	if (mm_has_notifiers(vma->vm_mm))
		return pte;
	/* A shadow stack is told from others by a Dirty bit without write permission. */
	if (vma->vm_flags & VM_SHADOW_STACK)
		return pte;

	from_top = node_is_toptier(folio_nid(src));
	to_top = node_is_toptier(folio_nid(dst));
	if (from_top && !to_top && folio_test_dirty(dst))
		return pte_mkclean(pte);
	if (!from_top && to_top && !pte_dirty(pte)) {
		count_migrc(readonly, 1);
		return pte_wrprotect(pte);
	}
	return pte;
}
