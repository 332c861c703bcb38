/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Processes of a test, and the control groups that they are in.
 */
#ifndef _TIER_PROCESS_H
#define _TIER_PROCESS_H

#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tier_util.h"

static inline double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* fork(); the child goes when the test does, whatever that dies of. */
static inline pid_t fork_child(void)
{
	pid_t pid = fork();

	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

/* Mount control groups (v2) at @dir, with a group @group.  False if there are none. */
static inline bool mount_group(const char *dir, const char *group)
{
	char path[128];

	mkdir(dir, 0700);
	if (mount("none", dir, "cgroup2", 0, NULL)) {
		rmdir(dir);
		return false;
	}
	snprintf(path, sizeof(path), "%s/%s", dir, group);
	mkdir(path, 0700);
	return true;
}

static inline void umount_group(const char *dir, const char *group)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, group);
	rmdir(path);
	umount(dir);
	rmdir(dir);
}

/* Enter a group of mount_group(), which may use the memory of nodes @mems only. */
static inline bool enter_cpuset(const char *dir, const char *group, const char *mems)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/cgroup.subtree_control", dir);
	if (write_file(path, "+cpuset"))
		return false;
	snprintf(path, sizeof(path), "%s/%s/cpuset.mems", dir, group);
	if (write_file(path, mems))
		return false;
	snprintf(path, sizeof(path), "%s/%s/cgroup.procs", dir, group);
	return !write_file(path, "0");
}

#endif /* _TIER_PROCESS_H */
