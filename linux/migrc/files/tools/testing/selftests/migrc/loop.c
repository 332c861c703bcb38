// SPDX-License-Identifier: GPL-2.0
/*
 * Loop devices on memfds, see loop.h.
 *
 * zram and brd finish a write before they return, and swap-in from them passes over the swap
 * cache; loop does neither.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/loop.h>

#include "loop.h"
#include "pages.h"

/* What mkswap(8) writes: behind 1024 bytes the version, the last page, no bad pages */
static bool make_swap(int fd, size_t size)
{
	uint32_t header[3] = { 1, size / PAGE - 1, 0 };

	return pwrite(fd, header, sizeof(header), 1024) == sizeof(header) &&
	       pwrite(fd, "SWAPSPACE2", 10, PAGE - 10) == 10;
}

bool loop_create(struct loop *loop, size_t size, bool swap)
{
	struct loop_config config = { .info.lo_flags = LO_FLAGS_AUTOCLEAR };
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int file = memfd_create("migrc", MFD_CLOEXEC);
	int nr = -1, fd = -1;

	loop->fd = -1;
	if (control >= 0)
		nr = ioctl(control, LOOP_CTL_GET_FREE);
	snprintf(loop->path, sizeof(loop->path), "/dev/loop%d", nr);
	if (nr >= 0 && file >= 0 && !ftruncate(file, size) && (!swap || make_swap(file, size)))
		fd = open(loop->path, O_RDWR | O_CLOEXEC);
	config.fd = file;
	if (fd >= 0 && !ioctl(fd, LOOP_CONFIGURE, &config))
		loop->fd = open(loop->path, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	if (file >= 0)
		close(file);
	if (control >= 0)
		close(control);
	return loop->fd >= 0;
}

void loop_destroy(struct loop *loop)
{
	if (loop->fd >= 0)
		close(loop->fd);
	loop->fd = -1;
}
