/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A disk in memory (zram), with ext2.
 */
#ifndef _TIER_DISK_H
#define _TIER_DISK_H

#include <sys/mount.h>
#include <sys/stat.h>

#include "tier_util.h"

#define ZRAM	"/sys/block/zram0/"
#define DISK	"/dev/zram0"

static inline void remove_disk(const char *dir)
{
	umount(dir);
	rmdir(dir);
	write_file(ZRAM "reset", "1");
}

/* Mount ext2 on it at @dir.  False if it cannot be had, or is in use. */
static inline bool make_disk(const char *dir)
{
	char buf[64];

	if (!read_file(ZRAM "disksize", buf, sizeof(buf)) || strcmp(buf, "0") ||
	    write_file(ZRAM "disksize", "256M"))
		return false;
	mkdir(dir, 0700);
	if (!system("PATH=$PATH:/sbin:/usr/sbin mke2fs -q -F -b 4096 " DISK) &&
	    !mount(DISK, dir, "ext2", 0, NULL))
		return true;
	remove_disk(dir);
	return false;
}

#endif /* _TIER_DISK_H */
