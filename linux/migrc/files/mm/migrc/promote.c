// SPDX-License-Identifier: GPL-2.0
/*
 * MIGRC: hint faults on pages that NUMA balancing's scanner has not flushed yet.
 *
 * The scanner takes away access to a range of pages, and flushes when it is through.  Who
 * touches one of them in between has a hint fault already, while TLBs may still know the
 * page, perhaps as writable.  To promote it now takes a flush for this page alone, which
 * must not be deferred (E1 in defer.c).  The more threads there are the more pages are met
 * like this, and the hottest ones in each pass.
 *
 * So such a page is not promoted in its fault.  It is mapped again, read-only as a hint fault
 * that promotes leaves it, and its frame is noted.  When the scanner has flushed, a worker
 * promotes what was noted, together, and these flushes can be deferred like others.  What
 * there is no room for beyond that is just mapped again, as without MIGRC.
 *
 * The next scan may begin before a page is unmapped, that was not noted or that the worker has
 * read.  Then its promotion fails, and it comes again with a later scan (migrc_postpone()).
 * This is for scans only, which take little of the time.  Somebody may be flushing for other
 * reasons all the time, and so no page would ever be promoted.
 *
 * No rule of safety depends on this file.  A note holds no reference, and by the time it is
 * read the frame may have another page or none; tier_promote() looks again.
 */

#include <linux/atomic.h>
#include <linux/hash.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/sched/sysctl.h>
#include <linux/sort.h>
#include <linux/spinlock.h>
#include <linux/tier.h>
#include <linux/vmstat.h>
#include <linux/workqueue.h>

#include "debug.h"
#include "migrc.h"

/* As many as are found in a short time; those beyond come again with the next scan. */
#define MIGRC_NOTES	1024

/* Scans that have not flushed yet, hashed by address space */
static atomic_t migrc_promote_scans[1 << MIGRC_SCAN_BITS];

struct migrc_note {
	unsigned long pfn;
	int nid;		/* where it should move to */
	unsigned int scan;	/* index into migrc_promote_scans */
};

/* Protects the notes.  Innermost: taken under page-table locks, takes none itself. */
static DEFINE_SPINLOCK(migrc_notes_lock);
static struct migrc_note migrc_notes[MIGRC_NOTES];
static unsigned int migrc_nr_notes;

static void migrc_promote_fn(struct work_struct *work);
static DECLARE_WORK(migrc_promote_work, migrc_promote_fn);

static unsigned int migrc_scan(struct mm_struct *mm)
{
	return hash_ptr(mm, MIGRC_SCAN_BITS);
}

static int migrc_cmp_ranges(const void *a, const void *b)
{
	const struct tier_range *x = a, *y = b;

	if (x->nid != y->nid)
		return x->nid - y->nid;
	return x->pfn < y->pfn ? -1 : x->pfn > y->pfn;
}

static void migrc_promote_fn(struct work_struct *work)
{
	/* A work item runs once at a time. */
	static struct tier_range ranges[MIGRC_NOTES];
	struct tier_promote_stats stats = {};
	unsigned int nr = 0, left = 0, i, end;

	spin_lock(&migrc_notes_lock);
	for (i = 0; i < migrc_nr_notes; i++) {
		struct migrc_note *note = &migrc_notes[i];

		/* Whoever ends that scan sends the worker again. */
		if (atomic_read(&migrc_promote_scans[note->scan]))
			migrc_notes[left++] = *note;
		else
			ranges[nr++] = (struct tier_range) {
				.pfn = note->pfn, .nr = 1, .nid = note->nid,
			};
	}
	WRITE_ONCE(migrc_nr_notes, left);
	spin_unlock(&migrc_notes_lock);

	/* Those for which there is no room now come again with the next pass. */
	sort(ranges, nr, sizeof(*ranges), migrc_cmp_ranges, NULL);
	for (i = 0; i < nr; i = end) {
		for (end = i + 1; end < nr && ranges[end].nid == ranges[i].nid; end++)
			;
		tier_promote(ranges + i, end - i, &stats);
	}
	count_vm_numa_events(NUMA_PAGE_MIGRATE, stats.moved);
}

/**
 * migrc_promote_scan_begin - a scan is about to change PTEs
 * @mm: address space
 *
 * Context: any.
 */
void migrc_promote_scan_begin(struct mm_struct *mm)
{
	atomic_inc(&migrc_promote_scans[migrc_scan(mm)]);
}

/**
 * migrc_promote_scan_end - a scan has flushed: promote what was noted meanwhile
 * @mm: address space
 *
 * Context: any.
 */
void migrc_promote_scan_end(struct mm_struct *mm)
{
	/* A full barrier: either the notes are seen here, or their writer sees the end. */
	atomic_dec_return(&migrc_promote_scans[migrc_scan(mm)]);
	if (READ_ONCE(migrc_nr_notes))
		queue_work(system_unbound_wq, &migrc_promote_work);
}

/**
 * __migrc_postpone - see migrc_postpone()
 * @unmap:	of the folio
 * @mm:		address space
 * @ptep:	that maps the folio
 *
 * Context: under the page-table lock.
 * Return: whether.
 */
bool __migrc_postpone(struct migrc_unmap *unmap, struct mm_struct *mm, pte_t *ptep)
{
	pte_t pte = ptep_get(ptep);
	int nid;

	if (!atomic_read(&migrc_promote_scans[migrc_scan(mm)]) || !mm_tlb_flush_pending(mm) ||
	    !pte_accessible(mm, pte) || pte_write(pte))
		return false;
	nid = page_to_nid(pte_page(pte));
	/* Elsewhere NUMA balancing would learn from the failure that it scans too often. */
	if (!(sysctl_numa_balancing_mode & NUMA_BALANCING_MEMORY_TIERING) ||
	    node_is_toptier(nid) || migrc_scans_spare(mm, nid) || migrc_fault(POSTPONE))
		return false;
	unmap->postponed = true;
	count_migrc(postponed, 1);
	return true;
}

/**
 * __migrc_promote_later - see migrc_promote_later()
 * @vmf:	the fault
 * @folio:	that the faulting PTE maps
 * @target:	node that it should move to
 * @nid:	node that the fault is accounted to
 * @writable:	whether the PTE will be writable
 *
 * Context: under the page-table lock.
 * Return: whether the fault is to map the page again.
 */
bool __migrc_promote_later(struct vm_fault *vmf, struct folio *folio, int target, int *nid,
			   bool *writable)
{
	unsigned int scan = migrc_scan(vmf->vma->vm_mm);
	bool noted = false;

	if (!atomic_read(&migrc_promote_scans[scan]) || !READ_ONCE(migrc_deferring) ||
	    migrc_fault(AT_ONCE))
		return false;
	/* What could not be deferred, or would not be promoted, is as well done at once. */
	if (folio_test_large(folio) || !folio_test_anon(folio) || folio_test_ksm(folio) ||
	    folio_test_mlocked(folio) || folio_test_unevictable(folio) ||
	    folio_maybe_dma_pinned(folio))
		return false;
	if (!(sysctl_numa_balancing_mode & NUMA_BALANCING_MEMORY_TIERING) ||
	    node_is_toptier(folio_nid(folio)) || !tier_target_valid(target))
		return false;

	/* Wakes kswapd if there is none. */
	if (!tier_target_has_room(target, 0, READ_ONCE(migrc_nr_notes) + 1))
		return true;

	spin_lock(&migrc_notes_lock);
	if (migrc_nr_notes < MIGRC_NOTES) {
		migrc_notes[migrc_nr_notes] = (struct migrc_note) {
			.pfn = folio_pfn(folio), .nid = target, .scan = scan,
		};
		WRITE_ONCE(migrc_nr_notes, migrc_nr_notes + 1);
		noted = true;
	}
	spin_unlock(&migrc_notes_lock);
	if (!noted)
		return true;

	count_migrc(later, 1);
	*nid = target;
	/* Read-only as after a migration, unless this is a write already */
	*writable &= !!(vmf->flags & FAULT_FLAG_WRITE);
	/* With the barrier in migrc_promote_scan_end(): the scan may have ended meanwhile. */
	smp_mb();
	if (!atomic_read(&migrc_promote_scans[scan]))
		queue_work(system_unbound_wq, &migrc_promote_work);
	return true;
}
