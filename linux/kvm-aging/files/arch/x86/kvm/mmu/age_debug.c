// SPDX-License-Identifier: GPL-2.0
/* Aging of guest memory: switches that break it, for tests that must notice. */
#include <linux/delay.h>
#include <linux/moduleparam.h>

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
