// SPDX-License-Identifier: GPL-2.0
/* A memory control group, see group.h. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "group.h"
#include "knobs.h"

static int group_write(const char *dir, const char *name, const char *text)
{
	char path[80];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return write_file(path, text);
}

bool group_enter(struct group *group)
{
	snprintf(group->root, sizeof(group->root), "/tmp/migrc-XXXXXX");
	if (!mkdtemp(group->root) || mount("none", group->root, "cgroup2", 0, NULL)) {
		rmdir(group->root);
		*group->root = '\0';
		return false;
	}
	snprintf(group->dir, sizeof(group->dir), "%s/migrc", group->root);
	return !group_write(group->root, "cgroup.subtree_control", "+memory") &&
	       !mkdir(group->dir, 0700) && !group_write(group->dir, "cgroup.procs", "0");
}

void group_leave(struct group *group)
{
	group_write(group->root, "cgroup.procs", "0");
}

void group_reclaim(struct group *group, unsigned long size)
{
	char text[64];

	snprintf(text, sizeof(text), "%lu swappiness=200", size);
	group_write(group->dir, "memory.reclaim", text);
}

void group_destroy(struct group *group)
{
	if (!*group->root)
		return;
	rmdir(group->dir);
	umount2(group->root, MNT_DETACH);
	rmdir(group->root);
}
