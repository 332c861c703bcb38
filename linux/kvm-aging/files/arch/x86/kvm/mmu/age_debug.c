// SPDX-License-Identifier: GPL-2.0
/* Aging of guest memory: faults (mm/tier_parts/faults.c), for tests that must notice them. */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/tier_parts.h>

#include "mmu.h"
#include "spte.h"
#include "age.h"

bool kvm_age_faults[NR_KVM_AGE_FAULTS];

static u32 kvm_age_delay_us;

static int __init kvm_age_debug_init(void)
{
	static const char * const names[NR_KVM_AGE_FAULTS] = {
		[KVM_AGE_STORE]	= "store",
		[KVM_AGE_PAGES]	= "pages",
		[KVM_AGE_ROOTS]	= "roots",
		[KVM_AGE_RMAPS]	= "rmaps",
		[KVM_AGE_LISTS]	= "lists",
	};

	tier_faults_add("age", names, kvm_age_faults, NR_KVM_AGE_FAULTS);
	debugfs_create_u32("delay_us", 0600, tier_debug_dir("age"), &kvm_age_delay_us);
	return 0;
}
late_initcall(kvm_age_debug_init);

/**
 * __kvm_age_delay - see kvm_age_delay()
 *
 * Context: any
 */
void __kvm_age_delay(void)
{
	unsigned int usecs = READ_ONCE(kvm_age_delay_us);

	if (usecs)
		udelay(min(usecs, 1000U));
}

/**
 * kvm_age_store - store to an SPTE, whatever has become of it
 * @sptep: of a leaf
 * @value: to store
 * @read:  the SPTE as it was read
 *
 * If another CPU has zapped the SPTE since, the store maps the page to the guest again.  The page
 * then keeps a reference for ever: the test fails, and the guest does not write to another
 * process's page.
 *
 * Context: RCU, so that the page table stays
 */
void kvm_age_store(u64 *sptep, u64 value, u64 read)
{
	struct folio *folio = page_folio(pfn_to_page(spte_to_pfn(read)));
	bool held = folio_try_get(folio);
	u64 now;

	__kvm_age_delay();
	now = xchg(sptep, value);
	if (held && now == read)
		folio_put(folio);
}
