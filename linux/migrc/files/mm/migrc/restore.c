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
 * A page that is written on the fast node only is clean each time it comes back, and would
 * take a fault each time.  So writes that fault are remembered, by address space and offset,
 * hashed into one bit, for one to two minutes; such a page is restored writable.  Where very
 * many pages are written most bits are set, and hardly a page is left read-only: rightly so.
 *
 * khugepaged does not collapse a range without any writable PTE, so such memory gets no huge
 * pages any more.
 *
 * The bit can be cleared without a flush of its own: the PTE was removed and flushed before,
 * and no TLB has the new one.
 */

#include <linux/bitmap.h>
#include <linux/hash.h>
#include <linux/jiffies.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/swap.h>
#include <linux/swapops.h>

#include "debug.h"
#include "migrc.h"

#define MIGRC_WRITTEN_BITS	16
#define MIGRC_WRITTEN_SECS	60

/* Set in sysfs.c */
bool migrc_restore_readonly;

/*
 * Pages that were written, in this minute and in the one before.  Without a lock: a bit that
 * gets lost costs a fault, one that is left over a flush.
 */
static DECLARE_BITMAP(migrc_written[2], 1 << MIGRC_WRITTEN_BITS);
static unsigned int migrc_written_now;
static unsigned long migrc_written_since;	/* in jiffies */

static unsigned long migrc_written_bit(struct mm_struct *mm, struct folio *folio)
{
	return hash_64((unsigned long)mm ^ folio->index * GOLDEN_RATIO_64, MIGRC_WRITTEN_BITS);
}

/* Forget what is older than the minute before. */
static void migrc_written_age(void)
{
	unsigned long since = READ_ONCE(migrc_written_since);
	unsigned int next;

	if (time_before(jiffies, since + MIGRC_WRITTEN_SECS * HZ) ||
	    cmpxchg(&migrc_written_since, since, jiffies) != since)
		return;
	next = !READ_ONCE(migrc_written_now);
	if (time_after(jiffies, since + 2 * MIGRC_WRITTEN_SECS * HZ))
		bitmap_zero(migrc_written[!next], 1 << MIGRC_WRITTEN_BITS);
	bitmap_zero(migrc_written[next], 1 << MIGRC_WRITTEN_BITS);
	WRITE_ONCE(migrc_written_now, next);
}

/**
 * __migrc_wrote - see migrc_wrote()
 * @mm:		address space
 * @folio:	that is about to be written
 *
 * Context: under the page-table lock.
 */
void __migrc_wrote(struct mm_struct *mm, struct folio *folio)
{
	if (folio_test_large(folio))
		return;
	count_migrc(written, 1);
	migrc_written_age();
	set_bit(migrc_written_bit(mm, folio), migrc_written[READ_ONCE(migrc_written_now)]);
}

static bool migrc_was_written(struct mm_struct *mm, struct folio *folio)
{
	unsigned long bit = migrc_written_bit(mm, folio);

	migrc_written_age();
	return !migrc_fault(FORGET) &&
	       (test_bit(bit, migrc_written[0]) || test_bit(bit, migrc_written[1]));
}

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

	if (src == dst || folio_test_large(dst) || !folio_test_anon(dst))
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
	if (!from_top && to_top && !pte_dirty(pte) && !migrc_was_written(vma->vm_mm, dst)) {
		count_migrc(readonly, 1);
		return pte_wrprotect(pte);
	}
	return pte;
}
