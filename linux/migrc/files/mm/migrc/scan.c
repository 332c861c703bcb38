// SPDX-License-Identifier: GPL-2.0
/*
 * MIGRC: what have NUMA balancing's scans changed that they have not flushed yet?
 *
 * While the scanner takes away access to pages it has raised mm->tlb_flush_pending: TLBs may
 * have entries with more rights than the PTEs, so that no flush is deferred (E1 in defer.c).
 * But a tiering scanner changes PTEs of slow nodes, and it is pages of the fast node that are
 * demoted meanwhile.  So a scan says pages of which nodes it has changed, and E1 need not hold
 * for a page of another node, if all that is pending are scans that say so:
 *
 *   A TLB entry that maps a page with more rights than the PTE was made before the PTE was
 *   changed.  If no scan has changed a PTE of any page of that node, a scan has not changed
 *   this one while it mapped this page.  If it did so earlier, while another page was
 *   mapped, then the entry maps the other page, and whoever has unmapped that has flushed it
 *   (E1), or will: zap and reclaim, see the exception in defer.c.
 *
 * A scan also takes write permission from migration entries, of any node, and says nothing:
 * who has put one there flushes before he takes it away, or maps a page that no TLB knows.
 * (Migration that gives up on a page may put it back first.  But the page stays isolated until
 * the flush at the end of the batch.  If the same batch tries again it may defer what is still
 * writable in a TLB; but the flush that it owes from its first attempt comes before the copy.)
 * Nor does it say which huge pages it has changed: whoever splits or moves these flushes.
 *
 * Are scans all that is pending?  They are counted here after they have raised
 * tlb_flush_pending, and no more when they have flushed, before they lower it.  So under
 * migrc_scans_lock there are at least as many pending as are counted here, and if the two
 * numbers are equal nobody else has changed the PTE in question without having flushed: he
 * would have raised tlb_flush_pending before he took the page-table lock, which the caller
 * holds.
 *
 * What a scan touches is not recorded while MIGRC is off.  Scans that were under way when it
 * was switched on count as having touched all nodes: migrc_scans_forget().
 */

#include <linux/hash.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mm_types.h>
#include <linux/nodemask.h>
#include <linux/spinlock.h>
#include <asm/tlb.h>

#include "debug.h"
#include "migrc.h"

/* Scans of one address space; of others with the same hash nothing is known meanwhile. */
struct migrc_scans {
	struct mm_struct *mm;		/* only compared */
	unsigned int nr;
	nodemask_t touched;
};

/* Innermost: taken under page-table locks, takes none itself. */
static DEFINE_SPINLOCK(migrc_scans_lock);
static struct migrc_scans migrc_scans[1 << MIGRC_SCAN_BITS];

/**
 * __migrc_scan_begin - see migrc_scan_begin()
 * @mm: address space
 *
 * Context: any.
 * Return: what migrc_scan_flush() and migrc_scan_end() have to undo.
 */
enum migrc_scan __migrc_scan_begin(struct mm_struct *mm)
{
	struct migrc_scans *scans = &migrc_scans[hash_ptr(mm, MIGRC_SCAN_BITS)];
	enum migrc_scan scan = MIGRC_SCAN_BEGUN;

	migrc_promote_scan_begin(mm);

	spin_lock(&migrc_scans_lock);
	if (!scans->nr) {
		scans->mm = mm;
		nodes_clear(scans->touched);
	}
	if (scans->mm == mm) {
		scans->nr++;
		scan = MIGRC_SCAN_KNOWN;
	}
	spin_unlock(&migrc_scans_lock);
	return scan;
}

/**
 * __migrc_scan_flush - see migrc_scan_flush()
 * @tlb: what the scan has to flush
 *
 * The flush takes a while, so it is done before the scan is counted no more.  If others are
 * pending as well tlb_finish_mmu() flushes everything, and once is enough.
 *
 * Context: may sleep.
 */
void __migrc_scan_flush(struct mmu_gather *tlb)
{
	struct migrc_scans *scans = &migrc_scans[hash_ptr(tlb->mm, MIGRC_SCAN_BITS)];

	migrc_delay_scan();
	if (!mm_tlb_flush_nested(tlb->mm))
		tlb_flush_mmu(tlb);
	spin_lock(&migrc_scans_lock);
	scans->nr--;
	spin_unlock(&migrc_scans_lock);
}

/**
 * __migrc_scan_end - see migrc_scan_end()
 * @mm: address space
 *
 * Context: any.
 */
void __migrc_scan_end(struct mm_struct *mm)
{
	migrc_promote_scan_end(mm);
}

/**
 * __migrc_scan_touch - see migrc_scan_touch()
 * @mm:		address space
 * @nid:	node of the page
 *
 * Context: under the page-table lock.
 */
void __migrc_scan_touch(struct mm_struct *mm, int nid)
{
	struct migrc_scans *scans = &migrc_scans[hash_ptr(mm, MIGRC_SCAN_BITS)];

	/*
	 * Set since this scan began, or else by one that began with it and has not ended: the
	 * mask is cleared only when nobody is counted.
	 */
	if (READ_ONCE(scans->mm) != mm || node_isset(nid, scans->touched))
		return;
	spin_lock(&migrc_scans_lock);
	if (scans->mm == mm)
		node_set(nid, scans->touched);
	spin_unlock(&migrc_scans_lock);
}

/**
 * migrc_scans_spare - is all that is pending for a PTE a scan that has not changed it?
 * @mm:		address space
 * @nid:	node of the page that the PTE maps, or has mapped until now
 *
 * Context: under the page-table lock.
 * Return: whether.
 */
bool migrc_scans_spare(struct mm_struct *mm, int nid)
{
	struct migrc_scans *scans = &migrc_scans[hash_ptr(mm, MIGRC_SCAN_BITS)];
	bool spare;

	spin_lock(&migrc_scans_lock);
	spare = scans->mm == mm && scans->nr &&
		(atomic_read(&mm->tlb_flush_pending) == scans->nr || migrc_fault(OTHERS)) &&
		(!node_isset(nid, scans->touched) || migrc_fault(TOUCH));
	spin_unlock(&migrc_scans_lock);
	return spare;
}

/**
 * migrc_scans_forget - scans that are under way may have touched any node
 *
 * Context: process; migrc_scan_touch() is on everywhere, and nothing is deferred yet.
 */
void migrc_scans_forget(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(migrc_scans); i++) {
		spin_lock(&migrc_scans_lock);
		if (migrc_scans[i].nr)
			nodes_setall(migrc_scans[i].touched);
		spin_unlock(&migrc_scans_lock);
	}
}
