// SPDX-License-Identifier: GPL-2.0
/*
 * Hint faults that tell which node uses a part of an address space.
 *
 * Where threads of one address space run on several sockets, neither their CPU time nor
 * the Accessed bits tell who uses which page.  Then, of the hot pages of which nothing
 * else is known, the first one of each page table and one in target_confirm_1in are made
 * inaccessible, as NUMA balancing does it.
 * The next access is a fault, do_numa_page() tells us (tier_hint_fault()), and makes the
 * page accessible again.  That fault stands for all pages of the same page table, and ends
 * the asking there.
 *
 * So an application whose vote is split takes a few faults; no other takes any, and
 * none is taken on a machine with one fast node.
 *
 * NUMA balancing: while it is on, in whatever mode, no page is made inaccessible by us:
 * it could not tell our faults from its own, and would draw conclusions from times and
 * CPUs that it has not recorded.  Then its faults tell us as well, and it goes on with them
 * as ever.  While it is off, all such faults are ours (or are left over from when it was
 * on): they migrate nothing and are not counted as NUMA hint faults, for as long as
 * kmmscand is enabled.  A page that is inaccessible when it is disabled takes its one fault
 * later, and that is one of NUMA balancing's: it is counted, and may migrate the page.
 *
 * Only anonymous memory of one address space, mapped by PTEs, without a secondary MMU.
 * The entry is changed under the page-table lock, and the TLB flushed before that is
 * given up, so nobody sees an entry without access that some CPU can still write through.
 * pte_modify() keeps soft-dirty and uffd-wp; whether the page may be written again is for
 * can_change_pte_writable() to say, when do_numa_page() restores the entry.
 *
 * What is known is kept in a table of CONFIRM_REGIONS words by hash.  If two regions meet
 * in a word, the one with more faults stays, and the other one counts as unknown: a wrong
 * answer is a page on another fast node, and no error.
 *
 * An answer is good for CONFIRM_FRESH * CONFIRM_EPOCHS epochs: threads change places, and
 * memory is unmapped and mapped again.  Then hot pages that are still slow, or are again,
 * have to tell once more.  Of an address space that the scanners have just met nothing is
 * known, though its mm_struct may have been another one's.
 */

#include <linux/bits.h>
#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/sysctl.h>
#include <linux/string.h>
#include <linux/tier.h>
#include <linux/topology.h>

#include <asm/tlbflush.h>

#include "confirm.h"
#include "events.h"
#include "fault.h"
#include "hotness.h"
#include "target.h"

#define CONFIRM_BITS		12
#define CONFIRM_REGIONS		BIT(CONFIRM_BITS)
#define CONFIRM_SALTS		4096

/* target_confirm_1in; 0: no page is made inaccessible */
unsigned int confirm_1in = 64;

static u32 confirm_regions[CONFIRM_REGIONS];
/* By address space; changed by scanners.  Who misses a change asks once more. */
static u8 confirm_salts[CONFIRM_SALTS];

static u8 *confirm_salt(const struct mm_struct *mm)
{
	return &confirm_salts[hash_ptr(mm, ilog2(CONFIRM_SALTS))];
}

static u32 *confirm_find(struct mm_struct *mm, unsigned long addr, u32 *tag)
{
	u64 hash = hash_64((unsigned long)mm + READ_ONCE(*confirm_salt(mm)), 64);

	hash = hash_64(hash + (addr >> PMD_SHIFT), CONFIRM_BITS + 32 - CONFIRM_TAG_SHIFT);
	*tag = hash >> CONFIRM_BITS;
	return &confirm_regions[hash & (CONFIRM_REGIONS - 1)];
}

static u8 confirm_now(void)
{
	return tier_fault(EXPIRE) ? 0 : hotness_epoch() / CONFIRM_EPOCHS;
}

/**
 * confirm_reset - forget everything
 *
 * Context: no thread of kmmscand runs.
 */
void confirm_reset(void)
{
	memset(confirm_regions, 0, sizeof(confirm_regions));
}

/**
 * confirm_forget - an address space is met of which nothing is known
 * @mm: it; what is known of it is of another one that was at the same address
 *
 * What is known of some others may be forgotten, too.
 *
 * Context: a scanner, one at a time.
 */
void confirm_forget(const struct mm_struct *mm)
{
	u8 *salt = confirm_salt(mm);

	WRITE_ONCE(*salt, *salt + 1);
}

/**
 * confirm_active - may pages of this VMA be made to tell?
 * @vma: mmap_lock is held
 *
 * Context: the scanner.
 * Return: whether confirm_arm() may be called for them.
 */
bool confirm_active(struct vm_area_struct *vma)
{
	return IS_ENABLED(CONFIG_NUMA_BALANCING) && READ_ONCE(confirm_1in) &&
	       (!sysctl_numa_balancing_mode || tier_fault(BALANCING)) && vma_is_anonymous(vma) &&
	       vma_is_accessible(vma) && !(vma->vm_flags & VM_MIXEDMAP) &&
	       !mm_has_notifiers(vma->vm_mm);
}

/**
 * confirm_region - who uses what a page table maps?
 * @mm:   address space
 * @addr: in it
 *
 * Context: any.
 * Return: as confirm_slot().
 */
unsigned int confirm_region(struct mm_struct *mm, unsigned long addr)
{
	u32 tag, *region = confirm_find(mm, addr, &tag);
	u32 known = READ_ONCE(*region);	/* before the time is read: it is not from the future */

	return tier_fault(CONFIRM) ? 0 : confirm_slot(known, tag, confirm_now());
}

/**
 * confirm_arm - have the next access to a page tell the node of its CPU
 * @vma:   for which confirm_active()
 * @addr:  of the page
 * @pte:   present; its page table is locked
 * @folio: of the page
 *
 * Context: the scanner, under the page-table lock.
 * Return: true if it has been done.
 */
bool confirm_arm(struct vm_area_struct *vma, unsigned long addr, pte_t *pte,
		 struct folio *folio)
{
	pte_t old = ptep_get(pte);

	if (pte_protnone(old) || folio_likely_mapped_shared(folio) ||
	    folio_maybe_dma_pinned(folio))
		return false;
	old = ptep_modify_prot_start(vma, addr, pte);
	ptep_modify_prot_commit(vma, addr, pte, old, pte_modify(old, PAGE_NONE));
	/* Under the lock, see above */
	flush_tlb_page(vma, addr);
	count_tier_events(KMMSCAND_TARGET_HINT, 1);
	return true;
}

/**
 * __tier_hint_fault - see tier_hint_fault()
 * @vma:  of the fault
 * @addr: of the fault
 *
 * Context: a fault, under the page-table lock.
 * Return: true if NUMA balancing has nothing to do with it.
 */
bool __tier_hint_fault(struct vm_area_struct *vma, unsigned long addr)
{
	u32 tag, *region = confirm_find(vma->vm_mm, addr, &tag);
	u32 old = READ_ONCE(*region);
	u32 new = confirm_merge(old, tag, target_slot(numa_node_id()), confirm_now());

	/* If it fails: a fault on another CPU just now is as good as this one. */
	if (new != old)
		cmpxchg_relaxed(region, old, new);
	if (sysctl_numa_balancing_mode)
		return false;
	count_tier_events(KMMSCAND_TARGET_HINT_FAULT, 1);
	return true;
}
