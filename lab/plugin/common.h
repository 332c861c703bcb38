/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the plugins share: the check that this QEMU fits, key=value
 * arguments, recognising markers, and a clock.
 */
#ifndef LAB_PLUGIN_COMMON_H
#define LAB_PLUGIN_COMMON_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../workloads/lab_marker.h"
#include "qemu_plugin_abi.h"

#define MAX_VCPUS	64
#define CACHE_LINE	64
#define MEM_ALIGNED	__attribute__((aligned(CACHE_LINE)))

#define complain(fmt, ...) \
	fprintf(stderr, PLUGIN_NAME ": " fmt "\n", ##__VA_ARGS__)

/*
 * Counters have one writer, their vCPU, and are read by whoever prints. Plain
 * relaxed accesses: no cost, never a torn value, but a sum over vCPUs is not
 * one instant.
 */
#define peek(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define poke(x, v)	__atomic_store_n(&(x), (v), __ATOMIC_RELAXED)
#define bump(x, by)	poke(x, (x) + (by))

static inline bool is_user(uint64_t pc)
{
	return pc < 1ULL << 47;
}

/* Returns the number of vCPUs, or 0 after saying why this QEMU will not do. */
static inline unsigned int plugin_check_qemu(const qemu_info_t *info)
{
	/* Beyond the version, the layout of *info is not known either. */
	if (info->version.cur != LAB_PLUGIN_API) {
		complain("this QEMU has plugin interface %d, built for %d (QEMU 7.2, Debian 12)",
			 info->version.cur, LAB_PLUGIN_API);
		return 0;
	}
	if (strcmp(info->target_name, "x86_64") || !info->system_emulation) {
		complain("needs qemu-system-x86_64, this is %s", info->target_name);
		return 0;
	}
	if (info->system.smp_vcpus < 1 || info->system.max_vcpus > MAX_VCPUS) {
		complain("needs 1 to %d vCPUs, the machine has %d",
			 MAX_VCPUS, info->system.max_vcpus);
		return 0;
	}
	return info->system.max_vcpus;
}

/* If @arg is "@key=value": the value. */
static inline const char *arg_value(const char *arg, const char *key)
{
	size_t len = strlen(key);

	return !strncmp(arg, key, len) && arg[len] == '=' ? arg + len + 1 : NULL;
}

static inline bool arg_number(const char *text, uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(text, &end, 0);
	return !errno && end != text && !*end && *text != '-';
}

/* The code of a marker or calibration load, 0 if @insn is neither. */
static inline unsigned int marker_code(const struct qemu_plugin_insn *insn)
{
	static const uint8_t mark[] = LAB_MARKER_OPCODE;
	static const uint8_t cal[] = LAB_CAL_OPCODE;
	const uint8_t *bytes = qemu_plugin_insn_data(insn);
	size_t size = qemu_plugin_insn_size(insn);
	bool is_cal = size == sizeof(cal) + 4 && !memcmp(bytes, cal, sizeof(cal));
	bool is_mark = size == sizeof(mark) + 4 && !memcmp(bytes, mark, sizeof(mark));
	uint32_t disp;

	if (!is_cal && !is_mark)
		return 0;
	memcpy(&disp, bytes + size - 4, 4);
	if ((disp & LAB_MAGIC_MASK) != LAB_MAGIC)
		return 0;
	disp &= ~LAB_MAGIC_MASK;
	return ((disp & LAB_CODE_KIND) == LAB_CODE_CAL) == is_cal ? disp : 0;
}

static inline uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000ULL + ts.tv_nsec / 1000000;
}

#endif
