// SPDX-License-Identifier: GPL-2.0
/* Aging of guest memory: switches that break it, for tests that must notice. */
#include <linux/delay.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>

#include "mmu.h"
#include "spte.h"
#include "age.h"

unsigned int kvm_age_faults;
module_param_named(aging_faults, kvm_age_faults, uint, 0600);

static unsigned int aging_delay_us;
module_param(aging_delay_us, uint, 0600);

/**
 * __kvm_age_delay - see kvm_age_delay()
 *
 * Context: any
 */
void __kvm_age_delay(void)
{
	unsigned int usecs = READ_ONCE(aging_delay_us);

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
