/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A disk in memory (zram), with ext2 or as swap.
 */
#ifndef _TIER_DISK_H
#define _TIER_DISK_H

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/swap.h>

#include "tier_util.h"

#define ZRAM	"/sys/block/zram0/"
#define DISK	"/dev/zram0"

static inline void remove_disk(const char *dir)
{
	umount(dir);
	rmdir(dir);
	write_file(ZRAM "reset", "1");
}

/* False if the disk cannot be had, or is in use. */
static inline bool take_disk(void)
{
	char buf[64];

	return read_file(ZRAM "disksize", buf, sizeof(buf)) && !strcmp(buf, "0") &&
	       !write_file(ZRAM "disksize", "256M");
}

/* Mount ext2 on it at @dir. */
static inline bool make_disk(const char *dir)
{
	if (!take_disk())
		return false;
	mkdir(dir, 0700);
	if (!system("PATH=$PATH:/sbin:/usr/sbin mke2fs -q -F -b 4096 " DISK) &&
	    !mount(DISK, dir, "ext2", 0, NULL))
		return true;
	remove_disk(dir);
	return false;
}

static inline void remove_swap(void)
{
	swapoff(DISK);
	write_file(ZRAM "reset", "1");
}

/* Swap to it. */
static inline bool make_swap(void)
{
	if (!take_disk())
		return false;
	if (!system("PATH=$PATH:/sbin:/usr/sbin mkswap " DISK " >/dev/null") && !swapon(DISK, 0))
		return true;
	remove_swap();
	return false;
}

#endif /* _TIER_DISK_H */
