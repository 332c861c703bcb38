// SPDX-License-Identifier: GPL-2.0
/*
 * Ways around memory policies and cpusets that a promotion must not find, and what a policy must
 * not cost: folios that no PTE maps when they are asked about, cpusets of tasks that do not
 * belong to the owner of the address space, page cache of a confined group, policy calls of
 * a process beside another's promotions, and mappings that veto what is not theirs.
 *
 * Each test must fail while the switch in /sys/kernel/debug/tier/faults/ is set that breaks its
 * rule:
 *
 *   shared_process, shared_policy	promote_shared
 *   task_race, shm_pair_race, home_race, fork_race	promote_wait
 *   last_mapping, cpuset_thread, cache_cpuset, home_node, mbind_strict	promote_allow
 *   all others				none
 */
#define _GNU_SOURCE
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>

#include "tier_policy.h"

#ifndef __NR_set_mempolicy_home_node
#define __NR_set_mempolicy_home_node 450
#endif

#define DIR_SWAP	"/tmp/policy_test_swap"
#define SWAP_FILE	DIR_SWAP "/swap"
#define SWAP_MB		"32"
/* Pages that are swapped out; a read brings some neighbours back. */
#define NR_SWAP		64UL
/* Calls of each kind beside other processes' promotions */
#define NR_CALLS	1000
/* Of all these calls, so many may wait for a folio or an address space with an equal hash. */
#define MAX_WAITS	4
/* Pages that it moves itself */
#define NR_MOVED	16UL
/* Pages of which promotion is refused one by one, and how many flushes that may cost */
#define NR_REFUSED	64UL
#define MAX_FLUSHES	16
/* Memory of a group of which half is reclaimed, in bytes */
#define RECLAIMED	(16UL << 20)

static int set_home(char *p, size_t len, int nid)
{
	return syscall(__NR_set_mempolicy_home_node, p, len, (unsigned long)nid, 0UL);
}

/* Read a byte of a page. */
static void touch_page(const char *p)
{
	static int sum;

	__atomic_fetch_add(&sum, __atomic_load_n(p, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

/* A child that runs a function and then waits until it is killed.  0 if that failed */
static pid_t start_child(bool (*begin)(char *arg), char *arg)
{
	int ready[2];
	pid_t pid;
	char c = 0;

	if (pipe(ready))
		return 0;
	fflush(stdout);
	pid = fork_child();
	if (!pid) {
		if (begin(arg) && write(ready[1], &c, 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	close(ready[1]);
	if (pid > 0 && read(ready[0], &c, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = 0;
	}
	close(ready[0]);
	return pid > 0 ? pid : 0;
}

static void end_child(pid_t pid)
{
	if (pid) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

/* Try to promote all frames of the slow node in the swap cache.  Returns how many were tried. */
static unsigned long promote_swap_cache(void)
{
	enum { CHUNK = 4096 };
	static uint64_t flags[CHUNK];
	unsigned long pfn, tried = 0;
	int i, fd = open("/proc/kpageflags", O_RDONLY);
	ssize_t n;

	for (pfn = 0; (n = pread(fd, flags, sizeof(flags), pfn * sizeof(*flags))) > 0;
	     pfn += n / sizeof(*flags)) {
		for (i = 0; i < n / (ssize_t)sizeof(*flags); i++) {
			if (!(flags[i] & 1ULL << KPF_SWAPCACHE) || flags[i] & 1ULL << KPF_MMAP)
				continue;
			promote_frames(pfn + i, 1);
			tried++;
		}
	}
	close(fd);
	return tried;
}

static bool use_swap(void)
{
	if (!make_disk(DIR_SWAP))
		return false;
	if (!system("PATH=$PATH:/sbin:/usr/sbin; dd if=/dev/zero of=" SWAP_FILE
		    " bs=1M count=" SWAP_MB " 2>/dev/null && chmod 600 " SWAP_FILE
		    " && mkswap " SWAP_FILE " >/dev/null") && !swapon(SWAP_FILE, 0))
		return true;
	remove_disk(DIR_SWAP);
	return false;
}

static bool bind_swapped(char *p)
{
	return !bind_range(p, NR_SWAP * PAGE, MPOL_BIND, only(slow), 0);
}

/* What is read back belongs to a parent and a child, so that it goes through the swap cache. */
static void test_swap_readback(void)
{
	const size_t len = NR_SWAP * PAGE;
	unsigned long tried = 0, i, moved;
	char *p = map_slow(NR_SWAP);
	pid_t pid = 0;
	bool ok = p;

	if (!use_swap()) {
		ksft_test_result_skip("no swap on " DISK "\n");
		return;
	}
	ok = ok && bind_swapped(p) && !madvise(p, len, MADV_PAGEOUT);
	if (ok)
		pid = start_child(bind_swapped, p);
	ok = ok && pid;
	for (i = 0; ok && i < NR_SWAP; i += NR_SWAP / 4) {
		touch_page(p + i * PAGE);
		usleep(10000);
		tried += promote_swap_cache();
		/* This one is mapped here, and a swap entry there. */
		if (pfn_of(p + i * PAGE) && node_of(p + i * PAGE) == slow)
			promote_frames(pfn_of(p + i * PAGE), 1);
	}
	moved = ok ? NR_SWAP - count_on(p, len, slow) : 0;
	for (i = 0; ok && i < NR_SWAP; i++)
		ok = intact(p + i * PAGE, PAGE);
	moved = ok ? NR_SWAP - count_on(p, len, slow) : moved;
	ksft_print_msg("%lu pages of the swap cache were tried, %lu moved\n", tried, moved);
	ksft_test_result(ok && tried && !moved, "pages that are read back from swap stay\n");
	end_child(pid);
	munmap(p, len);
	swapoff(SWAP_FILE);
	remove_disk(DIR_SWAP);
}

static bool bind_object(char *fd)
{
	char *p = map_shared((long)fd, RACE_LEN);
	bool ok = p && !bind_range(p, RACE_LEN, MPOL_BIND, only(slow), 0);

	if (ok)
		fill(p, RACE_LEN);
	return ok;
}

/* Promote frames of the slow node, which are sorted, in requests for many. */
static void promote_all_frames(const uint64_t *pfns, unsigned long nr)
{
	unsigned long i = 0, first;

	while (i < nr) {
		for (first = i++; i < nr && pfns[i] - pfns[first] < WINDOW; i++)
			;
		promote(pfns[first], pfns[i - 1] - pfns[first] + 1, fast);
	}
}

/* Processes map the object and unmap it again, so that it is often unmapped when it is asked. */
static void test_last_mapping(void)
{
	double end = now() + race_seconds();
	unsigned long rounds = 0, moved = 0, i;
	long fd = make_memfd(RACE_LEN);
	static uint64_t entries[NR_RACE];
	long skipped = event_count("tier_promote_fail_policy");
	pid_t pid = 0;
	char *p = NULL;
	bool ok;

	ok = fd >= 0 && in_child(bind_object, (char *)fd);
	p = ok ? map_shared(fd, RACE_LEN) : NULL;
	ok = ok && p && intact(p, RACE_LEN) && count_on(p, RACE_LEN, slow) == NR_RACE &&
	     read_pagemap(p, NR_RACE, entries);
	for (i = 0; ok && i < NR_RACE; i++)
		entries[i] = pagemap_value(entries[i]);
	qsort(entries, NR_RACE, sizeof(*entries), compare_pfns);
	if (p)
		munmap(p, RACE_LEN);
	pid = ok ? fork_child() : 0;
	if (ok && !pid)
		for (;;)
			promote_all_frames(entries, NR_RACE);
	for (; ok && !moved && now() < end; rounds++) {
		p = map_shared(fd, RACE_LEN);
		for (i = 0; p && i < NR_RACE; i++)
			touch_page(p + i * PAGE);
		if (ok && !(rounds % 16))
			moved = count_on(p, RACE_LEN, fast);
		munmap(p, RACE_LEN);
		usleep(rand() % 2000);
	}
	end_child(pid);
	skipped = event_count("tier_promote_fail_policy") - skipped;
	ksft_print_msg("%lu rounds, %ld refusals, %lu pages moved\n", rounds, skipped, moved);
	ksft_test_result(ok && rounds && skipped && !moved,
			 "a bound object stays whose last mapping goes\n");
	close(fd);
}

static bool write_id(const char *file, long id)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), CGROUPS "/%s", file);
	snprintf(text, sizeof(text), "%ld", id);
	return !write_file(path, text);
}

static long thread_id;
static atomic_int thread_state;

static void *wait_for_end(void *unused)
{
	(void)unused;
	thread_id = syscall(__NR_gettid);
	thread_state = 1;
	while (thread_state != 2)
		usleep(1000);
	return NULL;
}

/* One thread, not the first, is in a cpuset of the slow node. */
static void test_cpuset_thread(void)
{
	char *p = map_slow(NR);
	pthread_t thread;
	bool ok = p;

	if (!mount_group(CGROUPS, "group")) {
		ksft_test_result_skip("no control groups: %s\n", strerror(errno));
		return;
	}
	thread_state = 0;
	ok = ok && !pthread_create(&thread, NULL, wait_for_end, NULL);
	while (ok && !thread_state)
		usleep(1000);
	ok = ok && !write_file(CGROUPS "/cgroup.subtree_control", "+cpuset") &&
	     !write_file(CGROUPS "/group/cgroup.type", "threaded") && set_mems(only(slow)) &&
	     write_id("group/cgroup.threads", thread_id);
	ok = ok && refused(p);
	ok = ok && set_mems(both()) && allowed(p);
	ok = ok && set_mems(only(slow)) && refused(p + PAGE);
	ok = ok && write_id("cgroup.threads", thread_id) && allowed(p + PAGE);
	thread_state = 2;
	pthread_join(thread, NULL);
	ksft_test_result(ok, "one thread is in a cpuset of the slow node\n");
	umount_group(CGROUPS, "group");
	munmap(p, LEN);
}

/* Reclaims half of the memory of a group.  This process is in none: its cpuset would count. */
static void reclaim_when_told(const char *group, int told)
{
	char path[128], c;

	snprintf(path, sizeof(path), CGROUPS "/%s/memory.reclaim", group);
	/* Without swap this fails where nothing may be demoted. */
	if (read(told, &c, 1) == 1)
		write_file(path, "8M");
	_exit(0);
}

/*
 * Enter a group, have memory on the fast node, and let half of it be reclaimed.  Returns how many
 * pages of it are on node @nid then, or -1.
 */
static long demoted_in(const char *group, int nid)
{
	char path[128], *p;
	int tell[2];
	pid_t pid;

	if (pipe(tell))
		return -1;
	pid = fork_child();
	if (!pid)
		reclaim_when_told(group, tell[0]);
	snprintf(path, sizeof(path), CGROUPS "/%s/cgroup.procs", group);
	if (pid < 0 || write_file(path, "0"))
		return -1;
	p = map_on(RECLAIMED, fast, false);
	if (!p || count_on(p, RECLAIMED, fast) < RECLAIMED / PAGE)
		return -1;
	fill(p, RECLAIMED);
	if (write(tell[1], "", 1) != 1 || waitpid(pid, NULL, 0) != pid)
		return -1;
	return intact(p, RECLAIMED) ? count_on(p, RECLAIMED, nid) : -1;
}

static bool demotes(char *group)
{
	return demoted_in(group, slow) > 0;
}

static bool keeps(char *group)
{
	return demoted_in(group, fast) == RECLAIMED / PAGE;
}

static bool make_groups(void)
{
	if (change(DEMOTION, "1") || !mount_group(CGROUPS, "group")) {
		ksft_test_result_skip("no demotion, or no control groups\n");
		return false;
	}
	mkdir(CGROUPS "/group/leaf", 0700);
	mkdir(CGROUPS "/free", 0700);
	if (!write_file(CGROUPS "/cgroup.subtree_control", "+cpuset +memory") &&
	    !write_file(CGROUPS "/group/cgroup.subtree_control", "+memory"))
		return true;
	ksft_test_result_skip("no cpuset and memory controllers\n");
	return false;
}

static void remove_groups(void)
{
	rmdir(CGROUPS "/free");
	rmdir(CGROUPS "/group/leaf");
	umount_group(CGROUPS, "group");
}

/* The cpuset is that of the parent: the group of the memory has no cpuset of its own. */
static void test_demoted(void)
{
	bool ok;

	if (make_groups()) {
		ok = set_mems(only(fast)) && in_child(keeps, "group/leaf");
		ksft_print_msg("a confined group's memory %s\n", ok ? "stays" : "leaves");
		ok = in_child(demotes, "free") && ok;
		ksft_test_result(ok, "reclaim demotes within the cpuset of a group only\n");
	}
	remove_groups();
}

static int other_slow;

static bool demotes_to_other(char *group)
{
	return demoted_in(group, other_slow) > 0;
}

static bool demotes_to_none(char *group)
{
	return demoted_in(group, slow) == 0;
}

/* The nearest slow node is excluded, another one is not. */
static void test_demoted_to_other(void)
{
	uint64_t nodes = read_nodes("/sys/devices/system/node/has_memory") &
			 ~read_nodes("/sys/devices/system/node/has_cpu") & ~only(slow);
	bool ok;

	if (!nodes) {
		ksft_test_result_skip("only one slow node\n");
		return;
	}
	other_slow = __builtin_ctzll(nodes);
	if (make_groups()) {
		ok = set_mems(only(fast) | only(other_slow)) &&
		     in_child(demotes_to_other, "group/leaf") &&
		     in_child(demotes_to_none, "group/leaf");
		ksft_test_result(ok, "reclaim demotes to the slow node that the cpuset allows\n");
	}
	remove_groups();
}

/* A process that shares our memory, and is no thread of ours */
static int sharer_policy;
static atomic_int sharer_ready;

static int share(void *unused)
{
	(void)unused;
	if (sharer_policy && bind_thread(MPOL_BIND, only(slow)))
		return 1;
	sharer_ready = 1;
	for (;;)
		pause();
}

static pid_t start_sharer(bool policy)
{
	static long stack[8192];
	pid_t pid;

	sharer_policy = policy;
	sharer_ready = 0;
	pid = clone(share, stack + ARRAY_SIZE(stack), CLONE_VM | SIGCHLD, NULL);
	while (pid > 0 && !sharer_ready)
		usleep(1000);
	return pid > 0 ? pid : 0;
}

static void test_shared_process(void)
{
	char *p = map_slow(NR);
	pid_t pid = 0;
	bool ok = p;

	if (!mount_group(CGROUPS, "group")) {
		ksft_test_result_skip("no control groups: %s\n", strerror(errno));
		return;
	}
	ok = ok && !write_file(CGROUPS "/cgroup.subtree_control", "+cpuset") &&
	     set_mems(only(slow));
	if (ok)
		pid = start_sharer(false);
	ok = ok && pid && write_id("group/cgroup.procs", pid);
	/* The kernel moves all that the process can use. */
	ok = ok && move_to(p, NR, slow) == 0 && refused(p);
	end_child(pid);
	ok = ok && allowed(p);
	ksft_test_result(ok, "a process that shares the memory is in a cpuset of the slow node\n");
	umount_group(CGROUPS, "group");
	munmap(p, LEN);
}

static void test_shared_policy(void)
{
	char *p = map_slow(NR);
	pid_t pid = start_sharer(true);
	bool ok = p && pid && refused(p);

	end_child(pid);
	ok = ok && allowed(p);
	ksft_test_result(ok, "a process that shares the memory is bound\n");
	munmap(p, LEN);
}

/* A file whose pages are charged to a group, and on the slow node; entered by the child */
static bool write_in_group(char *unused)
{
	char buf[LEN];
	int fd = open(DIR_DISK "/file", O_RDWR | O_CREAT | O_TRUNC, 0600);

	(void)unused;
	fill_pages(buf, NR);
	return !write_file(CGROUPS "/group/cgroup.procs", "0") && fd >= 0 &&
	       write(fd, buf, LEN) == (ssize_t)LEN && !fsync(fd);
}

static bool make_group_file(void)
{
	if (!make_disk(DIR_DISK)) {
		ksft_test_result_skip("no ext2 on " DISK "\n");
		return false;
	}
	if (!mount_group(CGROUPS, "group")) {
		ksft_test_result_skip("no control groups: %s\n", strerror(errno));
		remove_disk(DIR_DISK);
		return false;
	}
	if (!write_file(CGROUPS "/cgroup.subtree_control", "+cpuset +memory") &&
	    set_mems(only(slow)) && in_child(write_in_group, NULL))
		return true;
	ksft_test_result_fail("cannot write a file in a group\n");
	umount_group(CGROUPS, "group");
	remove_disk(DIR_DISK);
	return false;
}

static void remove_group_file(int fd)
{
	close(fd);
	umount_group(CGROUPS, "group");
	remove_disk(DIR_DISK);
}

static void test_cache_cpuset(void)
{
	uint64_t pfn;
	int fd, node, err;
	bool ok;

	if (!make_group_file())
		return;
	fd = open(DIR_DISK "/file", O_RDONLY);
	pfn = look_at(fd, &node);
	ok = pfn && node == slow;
	err = ok ? promote(pfn, 1, fast) : -EINVAL;
	ok = ok && err && look_at(fd, &node) == pfn && node == slow;
	ksft_print_msg("page cache of the confined group: %s\n", err ? strerror(-err) : "promoted");
	ok = ok && set_mems(both()) && !promote(pfn, 1, fast) && look_at(fd, &node) &&
	     node == fast;
	ksft_test_result(ok, "page cache of a confined group that no process maps stays\n");
	remove_group_file(fd);
}

/* The mapping is ours, the page another group's. */
static void test_veto(void)
{
	char *p = MAP_FAILED;
	bool ok = true;
	int fd;

	if (!make_group_file())
		return;
	fd = open(DIR_DISK "/file", O_RDONLY);
	ok = set_mems(both());
	if (ok)
		p = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
	ok = ok && p != MAP_FAILED && intact(p, PAGE) && node_of(p) == slow;
	ok = ok && !bind_range(p, LEN, MPOL_BIND, only(slow), 0) && allowed(p);
	ksft_test_result(ok, "a reader of another group's file has no veto\n");
	if (p != MAP_FAILED)
		munmap(p, LEN);
	remove_group_file(fd);
}

static long flushes(void)
{
	return event_count("nr_tlb_remote_flush") + event_count("nr_tlb_local_flush_all") +
	       event_count("nr_tlb_local_flush_one");
}

static bool bind_refused(char *p)
{
	return !bind_range(p, NR_REFUSED * PAGE, MPOL_BIND, only(slow), 0);
}

static bool binds_nothing(char *p)
{
	return p;
}

/* Which of both mappings is asked first is not known: once this way, once that way. */
static void test_cheap_refusal(void)
{
	const size_t len = NR_REFUSED * PAGE;
	long spent, most = 0;
	bool ok = true;
	int i, way;

	if (event_count("nr_tlb_remote_flush") < 0) {
		ksft_test_result_skip("flushes are not counted\n");
		return;
	}
	for (way = 0; ok && way < 2; way++) {
		char *p = map_slow(NR_REFUSED);
		pid_t pid = p ? start_child(way ? bind_refused : binds_nothing, p) : 0;

		ok = pid && (way || bind_refused(p));
		spent = flushes();
		for (i = 0; ok && i < (int)NR_REFUSED; i++)
			ok = promote(pfn_of(p + i * PAGE), 1, fast) == -EPERM;
		spent = flushes() - spent;
		most = spent > most ? spent : most;
		end_child(pid);
		munmap(p, len);
	}
	ksft_print_msg("%lu refusals, at most %ld flushes\n", NR_REFUSED, most);
	ksft_test_result(ok && most <= MAX_FLUSHES, "a refusal costs no flush\n");
}

static void test_home_node(void)
{
	char *p = map_slow(NR);
	bool ok = p;

	ok = ok && !bind_range(p, LEN, MPOL_BIND, both(), 0) && allowed(p);
	ok = ok && !set_home(p, LEN, slow) && refused(p + PAGE);
	ok = ok && !set_home(p, LEN, fast) && allowed(p + PAGE);
	ok = ok && !bind_range(p, LEN, MPOL_PREFERRED_MANY, both(), 0) && !set_home(p, LEN, slow);
	ok = ok && refused(p + 2 * PAGE);
	ksft_test_result(ok, "pages stay on their home node\n");
	munmap(p, LEN);
}

/* Shared by all processes: do those whose memory could be promoted ask for that? */
static struct bystanders {
	atomic_bool promote;
} *bystanders;

/* A process whose memory is promoted once.  Its calls come before that, so they never wait. */
static void promoted_process(void)
{
	uint64_t pfn;
	struct race r = { .p = NULL };

	if (bind_thread(MPOL_BIND, only(slow)))
		_exit(1);
	r.p = mmap(NULL, RACE_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(r.p, RACE_LEN, MADV_NOHUGEPAGE);
	fill(r.p, RACE_LEN);
	if (bind_thread(MPOL_DEFAULT, 0))
		_exit(1);
	while (find_window(&r, &pfn) > 16)
		if (bystanders->promote)
			promote(pfn, WINDOW, fast);
	_exit(0);
}

static bool promoted_processes(char *unused)
{
	pid_t pid = fork_child();

	(void)unused;
	if (pid)
		return pid > 0;
	for (;;) {
		pid = fork_child();
		if (!pid)
			promoted_process();
		waitpid(pid, NULL, 0);
	}
}

/* Calls, and how many seconds each took */
enum { SET_MEMPOLICY, MBIND, MOVE_PAGES, CPUSET_MEMS, KINDS };

static const char * const call_name[KINDS] = {
	"set_mempolicy", "mbind", "move_pages", "cpuset.mems"
};

struct calls {
	double took[KINDS][NR_CALLS];
	long waits, promoted;		/* pages of others */
};

static int compare_times(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The same calls of this process beside others.  False if one of them fails. */
static bool call_policies(char *p, struct calls *c)
{
	bool ok = true;
	double start;
	int i, kind;

	c->promoted = event_count("tier_promote_success");
	c->waits = event_count("tier_promote_policy_wait");
	for (i = 0; ok && i < NR_CALLS; i++) {
		for (kind = 0; ok && kind < KINDS; kind++) {
			start = now();
			if (kind == SET_MEMPOLICY)
				ok = !bind_thread(i & 1 ? MPOL_DEFAULT : MPOL_BIND,
						  i & 1 ? 0 : only(slow));
			else if (kind == MBIND)
				ok = !bind_range(p, LEN, i & 1 ? MPOL_DEFAULT : MPOL_BIND,
						 i & 1 ? 0 : only(fast), MPOL_MF_MOVE);
			else if (kind == MOVE_PAGES)
				ok = move_to(p, NR_MOVED, fast) == 1;
			else
				ok = set_mems(only(fast)) && set_mems(both());
			c->took[kind][i] = now() - start;
		}
	}
	c->waits = event_count("tier_promote_policy_wait") - c->waits;
	c->promoted = event_count("tier_promote_success") - c->promoted;
	for (kind = 0; ok && kind < KINDS; kind++)
		qsort(c->took[kind], NR_CALLS, sizeof(double), compare_times);
	return ok;
}

/* Keeps CPUs busy, with children that die with it. */
static void hog_cpus(int nr)
{
	while (--nr > 0 && fork_child() > 0)
		;
	for (;;)
		;
}

/*
 * Others' memory is promoted beside a busy process, and before that it is not.  Times are printed,
 * and looked at only if that is asked for: an emulated machine stalls by itself.
 */
static void bystander(bool timed)
{
	static struct calls without, with;
	pid_t pid, hog;
	char *p = NULL;
	bool ok;
	int i;

	bystanders = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	hog = fork_child();
	if (!hog)
		hog_cpus(timed ? sysconf(_SC_NPROCESSORS_ONLN) : 1);
	pid = start_child(promoted_processes, NULL);
	ok = pid && hog > 0 && mount_group(CGROUPS, "group") && enter_group();
	/* None of it is on the slow node, where the others promote frames that may be ours. */
	p = ok ? map_slow(NR_MOVED) : NULL;
	ok = ok && p && !move_to(p, NR_MOVED, fast);
	/* A page that is not there is no reason to wait either. */
	madvise(p, PAGE, MADV_DONTNEED);
	ok = ok && event_count("tier_promote_policy_wait") >= 0;
	ok = ok && (!timed || call_policies(p, &without));
	bystanders->promote = true;
	ok = ok && call_policies(p, &with);
	end_child(pid);
	end_child(hog);
	if (ok)
		ksft_print_msg("%d calls of each kind, %ld waits, %ld pages of others promoted\n",
			       NR_CALLS, with.waits, with.promoted);
	for (i = 0; ok && timed && i < KINDS; i++) {
		double *off = without.took[i], *on = with.took[i];

		ksft_print_msg("%s: median %.3f and %.3f ms, slowest %.2f and %.2f ms\n",
			       call_name[i], off[NR_CALLS / 2] * 1e3, on[NR_CALLS / 2] * 1e3,
			       off[NR_CALLS - 1] * 1e3, on[NR_CALLS - 1] * 1e3);
		ok = on[NR_CALLS / 2] <= 2 * off[NR_CALLS / 2];
		if (i == SET_MEMPOLICY || i == MBIND)
			ok = ok && on[NR_CALLS - 1] <= 3 * off[NR_CALLS - 1] + 0.003;
	}
	ksft_test_result(ok && with.waits <= MAX_WAITS && with.promoted >= NR_CALLS,
			 "policy calls %s others' promotions\n",
			 timed ? "take no longer beside" : "do not wait for");
	write_file(CGROUPS "/cgroup.procs", "0");
	umount_group(CGROUPS, "group");
	munmap(p, NR_MOVED * PAGE);
}

static void test_bystander(void)
{
	bystander(false);
}

static void test_bystander_times(void)
{
	bystander(true);
}

/* A page that is just isolated to be promoted must not make it fail. */
static void test_mbind_strict(void)
{
	unsigned long calls = 0, failed = 0, promoted = 0;
	double end = now() + race_seconds();
	char *p = map_race(MAP_PRIVATE);
	struct race *r = start_race(p);
	bool ok = p && r;

	for (; ok && (now() < end || calls < TIMES); calls++) {
		wait_for_promotion(r);
		failed += !!bind_range(p, RACE_LEN, MPOL_BIND, only(fast),
				       MPOL_MF_MOVE | MPOL_MF_STRICT);
		ok = count_on(p, RACE_LEN, fast) == NR_RACE &&
		     !bind_range(p, RACE_LEN, MPOL_DEFAULT, 0, 0);
		move_to(p, NR_RACE, slow);
	}
	if (r)
		promoted = stop_race(r);
	ksft_print_msg("%lu of %lu calls failed\n", failed, calls);
	ksft_test_result(ok && !failed && calls >= TIMES && promoted >= calls,
			 "mbind() moves what is just promoted\n");
	munmap(p, RACE_LEN);
}

/* As never_arrives() of policy_test, but for pages that the change does not bring back */
static bool none_arrives(char *p, bool (*forbid)(char *p), bool (*allow)(char *p))
{
	unsigned long times = 0, bad = 0, before, after;
	double end = now() + race_seconds();
	struct race *r = start_race(p);
	bool ok = r;

	while (ok && !bad && (now() < end || times < TIMES)) {
		wait_for_promotion(r);
		ok = forbid(p);
		before = count_on(p, RACE_LEN, fast);
		usleep(STAY_US);
		after = count_on(p, RACE_LEN, fast);
		bad = after > before ? after - before : 0;
		if (bad)
			ksft_print_msg("%lu pages have arrived, of %lu\n", bad, after);
		ok = ok && allow(p);
		move_to(p, NR_RACE, slow);
		times++;
	}
	if (r)
		stop_race(r);
	ksft_print_msg("forbidden %lu times\n", times);
	return ok && times >= TIMES && !bad && intact(p, RACE_LEN);
}

static bool bind_this_thread(char *unused)
{
	(void)unused;
	return !bind_thread(MPOL_BIND, only(slow));
}

static bool unbind_this_thread(char *unused)
{
	(void)unused;
	return !bind_thread(MPOL_DEFAULT, 0);
}

static void test_task_race(void)
{
	char *p = map_race(MAP_PRIVATE);

	ksft_test_result(none_arrives(p, bind_this_thread, unbind_this_thread),
			 "nothing arrives after set_mempolicy() has forbidden it\n");
	munmap(p, RACE_LEN);
}

/* Of a child that has just been forked, and has the parent's pages on their way */
static bool none_arrives_in_child(char *p)
{
	unsigned long before, after;

	if (bind_thread(MPOL_BIND, only(slow)))
		return false;
	before = count_on(p, RACE_LEN, fast);
	usleep(STAY_US);
	after = count_on(p, RACE_LEN, fast);
	if (after > before)
		ksft_print_msg("%lu pages have arrived, of %lu\n", after - before, after);
	return after <= before;
}

static void test_fork_race(void)
{
	double end = now() + race_seconds();
	char *p = map_race(MAP_PRIVATE);
	struct race *r = start_race(p);
	unsigned long times = 0;
	bool ok = p && r;

	for (; ok && (now() < end || times < TIMES); times++) {
		wait_for_promotion(r);
		ok = in_child(none_arrives_in_child, p);
		move_to(p, NR_RACE, slow);
	}
	if (r)
		stop_race(r);
	ksft_print_msg("forked %lu times\n", times);
	ksft_test_result(ok && times >= TIMES, "nothing arrives in a child that forbids it\n");
	munmap(p, RACE_LEN);
}

/* A process that maps the object, has no PTE of it, and changes its policy when it is told */
static int pair[2] = { -1, -1 };

static bool tell_pair(char what)
{
	return write(pair[0], &what, 1) == 1 && read(pair[0], &what, 1) == 1 && what == 'y';
}

static bool pair_binds(char *unused)
{
	(void)unused;
	return tell_pair('b');
}

static bool pair_unbinds(char *unused)
{
	(void)unused;
	return tell_pair('u');
}

static void serve_pair(int fd)
{
	char *p = map_shared(fd, RACE_LEN), c;

	while (read(pair[1], &c, 1) == 1) {
		bool ok;

		if (c == 'h' || c == 'f')
			ok = !set_home(p, RACE_LEN, c == 'h' ? slow : fast);
		else
			ok = !bind_range(p, RACE_LEN, MPOL_BIND,
					 c == 'b' ? only(slow) : both(), 0);
		c = ok ? 'y' : 'n';
		if (write(pair[1], &c, 1) != 1)
			break;
	}
	_exit(0);
}

static bool pair_sets_home(char *unused)
{
	(void)unused;
	return tell_pair('h');
}

static bool pair_unsets_home(char *unused)
{
	(void)unused;
	return tell_pair('f');
}

static void race_with_pair(bool (*forbid)(char *p), bool (*allow)(char *p), const char *what)
{
	int fd = make_memfd(RACE_LEN);
	char *p = NULL;
	bool ok = fd >= 0 && !socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
	pid_t pid = ok ? fork_child() : 0;

	if (ok && !pid)
		serve_pair(fd);
	p = ok ? map_shared(fd, RACE_LEN) : NULL;
	if (p) {
		fill(p, RACE_LEN);
		ok = !move_to(p, NR_RACE, slow);
	}
	ok = ok && p && pair_unbinds(NULL) && none_arrives(p, forbid, allow);
	ksft_test_result(ok, "nothing arrives after another process has %s the object\n", what);
	end_child(pid);
	if (p)
		munmap(p, RACE_LEN);
	close(pair[0]);
	close(pair[1]);
	close(fd);
}

static void test_shm_pair_race(void)
{
	race_with_pair(pair_binds, pair_unbinds, "bound");
}

static void test_home_race(void)
{
	race_with_pair(pair_sets_home, pair_unsets_home, "set a home node of");
}

/*
 * A child that maps the pages and has no thread yet.  fork(2) waits until this test reads
 * UFFD_EVENT_FORK.  Before it does, the parent discards its pages: the child alone maps them.
 */
static struct {
	bool bind;
	atomic_bool done;
} forker;

static void *fork_once(void *unused)
{
	pid_t pid;

	(void)unused;
	if (forker.bind && bind_thread(MPOL_BIND, only(slow)))
		return NULL;
	pid = fork();
	if (!pid)
		_exit(0);
	forker.done = pid > 0 && waitpid(pid, NULL, 0) == pid;
	return NULL;
}

/* Fork, and promote the child's page before the child has a thread.  -errno, or -EIO */
static int promote_in_fork(bool bind)
{
	int uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK), err = -EIO;
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_EVENT_FORK };
	char *p = map_slow(NR), *watched = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register reg = {
		.range = { (unsigned long)watched, PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct pollfd event = { .fd = uffd, .events = POLLIN };
	struct uffd_msg msg;
	pthread_t thread;
	uint64_t pfn;

	if (!p || ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &reg))
		goto out;
	pfn = pfn_of(p);
	forker.bind = bind;
	forker.done = false;
	if (pthread_create(&thread, NULL, fork_once, NULL))
		goto out;
	if (poll(&event, 1, 10000) == 1 && event.revents == POLLIN) {
		madvise(p, LEN, MADV_DONTNEED);
		err = promote_frames(pfn, 1);
		if (read(uffd, &msg, sizeof(msg)) != sizeof(msg))
			err = -EIO;
		else
			close(msg.arg.fork.ufd);
	}
	pthread_join(thread, NULL);
	if (!forker.done)
		err = -EIO;
out:
	close(uffd);
	munmap(watched, PAGE);
	munmap(p, LEN);
	return err;
}

static void test_fork_window(void)
{
	int unbound = promote_in_fork(false), bound = promote_in_fork(true);

	ksft_print_msg("without a policy: %s, with one: %s\n", strerror(-unbound),
		       strerror(-bound));
	/* Where there are cpusets, that of the child is not known yet. */
	ksft_test_result((!unbound || unbound == -EPERM) && bound == -EPERM,
			 "nothing is promoted of a process that has no thread yet\n");
}

static const struct tier_test tests[] = {
	{ "swap_readback", test_swap_readback },
	{ "last_mapping", test_last_mapping },
	{ "cpuset_thread", test_cpuset_thread },
	{ "shared_process", test_shared_process },
	{ "shared_policy", test_shared_policy },
	{ "cache_cpuset", test_cache_cpuset },
	{ "veto", test_veto },
	{ "cheap_refusal", test_cheap_refusal },
	{ "home_node", test_home_node },
	{ "bystander", test_bystander },
	{ "bystander_times", test_bystander_times },
	{ "mbind_strict", test_mbind_strict },
	{ "task_race", test_task_race },
	{ "shm_pair_race", test_shm_pair_race },
	{ "home_race", test_home_race },
	{ "fork_window", test_fork_window },
	{ "fork_race", test_fork_race },
	{ "demoted", test_demoted },
	{ "demoted_to_other", test_demoted_to_other },
};

int main(int argc, char **argv)
{
	begin_tests();
	run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	ksft_finished();
}
