// SPDX-License-Identifier: GPL-2.0
/*
 * TLB flushes after Accessed bits were cleared.
 *
 * A processor sets an Accessed bit only when it walks the page table.  A page whose translation
 * stays in a TLB looks idle.  Nothing else depends on these flushes, because no mapping has
 * changed.  mm_count is enough: an address space that has exited runs on no CPU.
 */

#include <linux/mm.h>
#include <linux/mmu_age.h>
#include <linux/sched.h>
#include <linux/tier.h>

#include <asm/tlbflush.h>

#include "../../internal.h"
#include "flush.h"

/**
 * flush_cleared - flush the TLBs that hold pages of an address space
 * @mm:      address space; mm_count is held
 * @cleared: MMU_AGE_CPU and MMU_AGE_SECONDARY: whose Accessed bits were cleared
 *
 * No page table was freed, so no CPU is interrupted that has the address space but runs none of its
 * threads.
 *
 * Context: may sleep; no locks held.
 */
void flush_cleared(struct mm_struct *mm, unsigned int cleared)
{
	if (cleared & MMU_AGE_CPU) {
#ifdef CONFIG_X86
		flush_tlb_mm_range(mm, 0, TLB_FLUSH_ALL, 0, false);
#else
		flush_tlb_mm(mm);
#endif
		tier_count_flush(TIER_FLUSH_SCAN, mm);
	}
	if (cleared & MMU_AGE_SECONDARY)
		mmu_age_flush(mm);
}

/**
 * flush_later - the next flush_now() also flushes an address space
 * @mm: mm_count is held
 *
 * Where TLBs are flushed by interrupts, one serves all address spaces that a CPU has run lately.
 *
 * Context: does not sleep; interrupts are on.
 */
void flush_later(struct mm_struct *mm)
{
#ifdef CONFIG_X86
	arch_tlbbatch_add_pending(&current->tlb_ubc.arch, mm, 0);
	current->tlb_ubc.flush_required = true;
#else
	flush_tlb_mm(mm);
#endif
}

/**
 * flush_now - see flush_later()
 *
 * Context: may sleep.
 */
void flush_now(void)
{
#ifdef CONFIG_X86
	tier_count_batch_flush(TIER_FLUSH_SCAN);
	try_to_unmap_flush();
#endif
}
