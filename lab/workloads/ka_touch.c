// SPDX-License-Identifier: GPL-2.0
/*
 * ka_touch NODE COUNT STRIDE TIMES [PHASES]: known answer for access.so.
 *
 * Between START and STOP: load COUNT bytes of NODE, STRIDE bytes apart, TIMES
 * times over, and nothing else; and that again in each of PHASES phases, from
 * phase 0 (default: one phase). The loop is written in assembly so that the
 * number of memory operations is COUNT * TIMES per phase by construction. Pinned to
 * CPU 0. Everything else that the instrument shows is other user code that was
 * run on the CPU in between. COUNT 0 is the empty region: START, then STOP.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "lab_marker.h"
#include "lab_numa.h"

static void touch(const char *buf, unsigned long count, unsigned long stride,
		  unsigned long times)
{
	const char *p;
	unsigned long left;

	__asm__ volatile("1:	mov %[buf], %[p]\n\t"
			 "mov %[count], %[left]\n"
			 "2:	movb (%[p]), %%al\n\t"
			 "add %[stride], %[p]\n\t"
			 "dec %[left]\n\t"
			 "jnz 2b\n\t"
			 "dec %[times]\n\t"
			 "jnz 1b"
			 : [p] "=&r"(p), [left] "=&r"(left), [times] "+&r"(times)
			 : [buf] "r"(buf), [count] "r"(count), [stride] "r"(stride)
			 : "rax", "memory", "cc");
}

int main(int argc, char **argv)
{
	unsigned long count, stride, times, size, off, phase, phases;
	cpu_set_t cpu0;
	char *buf;
	int node;

	if (argc != 5 && argc != 6) {
		fputs("usage: ka_touch NODE COUNT STRIDE TIMES [PHASES]\n", stderr);
		return 2;
	}
	node = atoi(argv[1]);
	count = strtoul(argv[2], NULL, 10);
	stride = strtoul(argv[3], NULL, 10);
	times = strtoul(argv[4], NULL, 10);
	phases = argc == 6 ? strtoul(argv[5], NULL, 10) : 1;

	CPU_ZERO(&cpu0);
	CPU_SET(0, &cpu0);
	if (sched_setaffinity(0, sizeof(cpu0), &cpu0)) {
		perror("sched_setaffinity");
		return 1;
	}

	size = (count * stride + LAB_PAGE) & ~(LAB_PAGE - 1);
	buf = lab_map_on_node(size, LAB_MPOL_BIND, node);
	memset(buf, 1, size);
	for (off = 0; off < size; off += LAB_PAGE) {
		if (lab_node_of(buf + off) != node) {
			fprintf(stderr, "ka_touch: a page is not on node %d\n", node);
			return 1;
		}
	}

	if (count && times) {
		lab_start();
		touch(buf, count, stride, times);
		for (phase = 1; phase < phases; phase++) {
			lab_phase(phase);
			touch(buf, count, stride, times);
		}
		lab_stop();
	} else {
		lab_start();
		lab_stop();
	}
	return 0;
}
