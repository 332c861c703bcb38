/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SIM_LINUX_MATH64_H
#define _SIM_LINUX_MATH64_H

#include <linux/types.h>

static inline u64 div_u64(u64 dividend, u32 divisor)
{
	return dividend / divisor;
}

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

static inline u64 int_sqrt64(u64 x)
{
	u64 root = 0;

	for (u64 bit = 1ULL << 31; bit; bit >>= 1) {
		if ((root + bit) * (root + bit) <= x)
			root += bit;
	}
	return root;
}

#endif /* _SIM_LINUX_MATH64_H */
