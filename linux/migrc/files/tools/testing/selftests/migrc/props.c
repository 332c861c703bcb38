// SPDX-License-Identifier: GPL-2.0
/* A memory control group, many pages, other processes; see migrc.h. */
#include <sys/mount.h>
#include <sys/stat.h>

#include "migrc.h"

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

void forget_accesses(void)
{
	int i;

	for (i = 0; i < 4; i++) {
		write_file("/proc/self/clear_refs", "1");
		usleep(2000);
	}
}

void group_destroy(struct group *group)
{
	if (!*group->root)
		return;
	rmdir(group->dir);
	umount2(group->root, MNT_DETACH);
	rmdir(group->root);
}

char *bulk;

bool bulk_start(void)
{
	bulk = new_area(NR_BULK * PAGE, slow);
	return bulk && make_read_only(bulk, NR_BULK * PAGE, BY_UFFD);
}

static void move_all(void *unused)
{
	moves_do();
}

bool bulk_move(struct worker *worker, unsigned int before, char *page, char *seen)
{
	int nid = other_node(node_of(bulk));

	moves_add(bulk, before, nid);
	moves_add(page, 1, nid);
	moves_add(bulk + before * PAGE, NR_BULK - before, nid);
	worker_run(worker, move_all, NULL);
	while (worker_busy(worker))
		if (is_swapped(seen))
			return true;
	return false;
}

enum { WAITS, STARTS, HAS_DONE, HAS_FAILED };

struct other {
	atomic_int step;
	atomic_bool stop;
	pid_t pid;
};

/* So that the process has a second CPU */
static void spin_until(void *stop)
{
	while (!atomic_load((atomic_bool *)stop))
		relax();
}

static void other_runs(struct other *other, bool (*fn)(void *arg), void *arg)
{
	struct worker *worker = worker_start(1);
	bool done;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	write_own_data();
	while (worker) {
		while (atomic_load(&other->step) != STARTS)
			usleep(500);
		atomic_store(&other->stop, false);
		worker_run(worker, spin_until, &other->stop);
		done = fn(arg);
		atomic_store(&other->stop, true);
		worker_wait(worker);
		atomic_store(&other->step, done ? HAS_DONE : HAS_FAILED);
	}
	_exit(1);
}

struct other *other_start(bool (*fn)(void *arg), void *arg)
{
	struct other *other = shared_alloc(sizeof(*other));
	pid_t pid;

	if (!other)
		return NULL;
	pid = fork();
	if (!pid)
		other_runs(other, fn, arg);
	other->pid = pid;
	return pid > 0 ? other : NULL;
}

bool other_does(struct other *other)
{
	atomic_store(&other->step, STARTS);
	while (atomic_load(&other->step) == STARTS) {
		if (waitpid(other->pid, NULL, WNOHANG))
			return false;
		usleep(50);
	}
	return atomic_load(&other->step) == HAS_DONE;
}

void other_end(struct other *other)
{
	kill(other->pid, SIGKILL);
	waitpid(other->pid, NULL, 0);
	munmap(other, sizeof(*other));
}

void write_own_data(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long start, end, last = 0;
	char line[512], access[5], *name;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx %4s", &start, &end, access) != 3)
			continue;
		name = strpbrk(line, "/[");
		/* A .bss follows the pages of its file. */
		if ((name || start == last) && !strcmp(access, "rw-p"))
			madvise((void *)start, end - start, MADV_POPULATE_WRITE);
		last = name ? end : 0;
	}
	if (f)
		fclose(f);
}
