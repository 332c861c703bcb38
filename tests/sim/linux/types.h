/* SPDX-License-Identifier: GPL-2.0 */
/* So much of the kernel as policy.c needs in user space. */
#ifndef _SIM_LINUX_TYPES_H
#define _SIM_LINUX_TYPES_H

#include <stdbool.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define U32_MAX	UINT32_MAX

#endif /* _SIM_LINUX_TYPES_H */
