// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/debug/tier/: what the parts show to developers, beside faults.
 */

#include <linux/dcache.h>
#include <linux/debugfs.h>
#include <linux/mutex.h>
#include <linux/tier_parts.h>

/* The lock keeps two callers from creating the same directory. */
static DEFINE_MUTEX(tier_debug_lock);

/**
 * tier_debug_dir - a directory in /sys/kernel/debug/tier/
 * @part: name of the directory, or NULL for tier/
 *
 * Context: may sleep.
 * Return: as debugfs_create_dir().
 */
struct dentry *tier_debug_dir(const char *part)
{
	static struct dentry *tier;
	struct dentry *dir;

	mutex_lock(&tier_debug_lock);
	if (!tier)
		tier = debugfs_create_dir("tier", NULL);
	dir = tier;
	if (part) {
		dir = debugfs_lookup(part, tier);
		if (dir)
			dput(dir);	/* nothing removes the directory */
		else
			dir = debugfs_create_dir(part, tier);
	}
	mutex_unlock(&tier_debug_lock);
	return dir;
}
