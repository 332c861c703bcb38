// SPDX-License-Identifier: GPL-2.0
/*
 * ka_read NODE PAGES TIMES: known answer for access.so when it counts what read(2) copies.
 *
 * Between START and STOP: read a file of PAGES pages in tmpfs, all on NODE, TIMES times
 * over by pread(2), a page at a time.  The kernel copies by words of eight bytes, so that
 * is 512 loads for each page that is read.  Pinned to CPU 0.
 */
#define _GNU_SOURCE
#include <sched.h>

#include "lab_marker.h"
#include "lab_numa.h"

int main(int argc, char **argv)
{
	static char page[LAB_PAGE];
	unsigned long pages, times, i, mask;
	cpu_set_t cpu0;
	int fd;

	if (argc != 4) {
		fputs("usage: ka_read NODE PAGES TIMES\n", stderr);
		return 2;
	}
	mask = 1UL << atoi(argv[1]);
	pages = strtoul(argv[2], NULL, 10);
	times = strtoul(argv[3], NULL, 10);

	CPU_ZERO(&cpu0);
	CPU_SET(0, &cpu0);
	fd = (int)syscall(SYS_memfd_create, "ka_read", 0);
	if (fd < 0 || sched_setaffinity(0, sizeof(cpu0), &cpu0) ||
	    syscall(SYS_set_mempolicy, LAB_MPOL_BIND, &mask, 8 * sizeof(mask))) {
		perror("ka_read");
		return 1;
	}
	memset(page, 1, sizeof(page));
	for (i = 0; i < pages; i++) {
		if (pwrite(fd, page, sizeof(page), (off_t)(i * LAB_PAGE)) != sizeof(page)) {
			perror("pwrite");
			return 1;
		}
	}
	lab_start();
	for (i = 0; i < pages * times; i++)
		if (pread(fd, page, sizeof(page), (off_t)(i % pages * LAB_PAGE)) != sizeof(page))
			return 1;
	lab_stop();
	return 0;
}
