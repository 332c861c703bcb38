// SPDX-License-Identifier: GPL-2.0
/*
 * ka_insn WHAT TIMES: known answers for insn.so and tlb.so.
 *
 * Between START and STOP, pinned to CPU 0, TIMES times:
 *   plain	a loop of 4 instructions (2 nops, dec, jnz), none locked
 *   locked	a loop of 8 instructions, 4 of them locked: three with the LOCK
 *		prefix in different encodings and one xchg with memory; the
 *		exchange of two registers and the segment prefix are decoys
 *   rep	rep stosb of 64 bytes, and 4 other instructions
 *   getppid	the system call: its kernel symbol is executed TIMES times
 *   phases	getppid TIMES times in phase 1, twice that in phase 2
 *   flush	64 pages become read-only, then writable again, each of which flushes
 *		the TLB of this CPU; then each of them is stored to
 *   empty	nothing
 */
#define _GNU_SOURCE
#include <sched.h>

#include "lab_marker.h"
#include "lab_numa.h"

static void plain(unsigned long times)
{
	lab_start();
	__asm__ volatile("1:	nop\n\t"
			 "nop\n\t"
			 "dec %0\n\t"
			 "jnz 1b"
			 : "+r"(times) : : "cc");
	lab_stop();
}

static void locked(unsigned long times)
{
	unsigned long word = 0, value = 0;

	lab_start();
	__asm__ volatile("1:	lock incl (%[p])\n\t"
			 "lock xadd %[v], (%[p])\n\t"
			 "lock orb $1, %%ds:(%[p])\n\t"
			 "xchg %[v], (%[p])\n\t"
			 "xchg %%rax, %%rdx\n\t"
			 "xchg %%cl, %%dl\n\t"
			 "dec %[times]\n\t"
			 "jnz 1b"
			 : [times] "+r"(times), [v] "+r"(value)
			 : [p] "r"(&word)
			 : "rax", "rcx", "rdx", "cc", "memory");
	lab_stop();
}

static void rep(unsigned long times)
{
	char buf[64];

	lab_start();
	__asm__ volatile("1:	lea %[buf], %%rdi\n\t"
			 "mov $64, %%ecx\n\t"
			 "rep stosb\n\t"
			 "dec %[times]\n\t"
			 "jnz 1b"
			 : [times] "+r"(times), [buf] "=m"(buf)
			 : : "rdi", "rcx", "cc", "memory");
	lab_stop();
}

static void getppids(unsigned long times)
{
	lab_start();
	while (times--)
		syscall(SYS_getppid);
	lab_stop();
}

static void phases(unsigned long times)
{
	unsigned long i;

	lab_start();
	lab_phase(1);
	for (i = 0; i < times; i++)
		syscall(SYS_getppid);
	lab_phase(2);
	for (i = 0; i < 2 * times; i++)
		syscall(SYS_getppid);
	lab_stop();
}

static void flush(unsigned long times)
{
	enum { PAGES = 64 };	/* more than are flushed one by one */
	size_t size = PAGES * LAB_PAGE;
	volatile char *p = lab_map_on_node(size, LAB_MPOL_PREFERRED, 0);
	size_t i;

	memset((void *)p, 1, size);
	lab_start();
	while (times--) {
		if (mprotect((void *)p, size, PROT_READ) ||
		    mprotect((void *)p, size, PROT_READ | PROT_WRITE)) {
			perror("mprotect");
			exit(1);
		}
		for (i = 0; i < size; i += LAB_PAGE)
			p[i] = 2;
	}
	lab_stop();
}

static void empty(unsigned long times)
{
	(void)times;
	lab_start();
	lab_stop();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(unsigned long times);
	} known[] = {
		{ "plain", plain }, { "locked", locked }, { "rep", rep },
		{ "getppid", getppids }, { "phases", phases },
		{ "flush", flush }, { "empty", empty },
	};
	unsigned long times = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	cpu_set_t cpu0;
	size_t i;

	CPU_ZERO(&cpu0);
	CPU_SET(0, &cpu0);
	if (sched_setaffinity(0, sizeof(cpu0), &cpu0)) {
		perror("sched_setaffinity");
		return 1;
	}
	for (i = 0; times && i < sizeof(known) / sizeof(known[0]); i++) {
		if (!strcmp(argv[1], known[i].name)) {
			known[i].run(times);
			return 0;
		}
	}
	fputs("usage: ka_insn plain|locked|rep|getppid|phases|flush|empty TIMES\n", stderr);
	return 2;
}
