// SPDX-License-Identifier: GPL-2.0
/*
 * Rules that kmmscand keeps: what is only streamed over stays, what becomes hot again is
 * found, promotion keeps to its rate and its share of CPU time, and memory that is bound or
 * read once stays.
 *
 * Each test must fail while the switch in /sys/kernel/debug/tier/faults/ is set that breaks its
 * rule:
 *
 *   stream		scan_one_look
 *   huge		scan_huge
 *   again		scan_skip
 *   rate, shared_rate	scan_rate
 *   promoter_cpu	scan_cpu
 *   bound, shm_bound, task_bound, cpuset, read_once	scan_policy
 *   every_cpu		scan_own_cpu
 *
 * That something stays proves nothing if nothing is promoted, so other pages that are
 * hot and free to move have to arrive on the fast node.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "kmmscand_hot.h"

#define MB		(1024UL * 1024)
#define PER_MB		(MB / PAGE)
/* Address space of a page table */
#define TABLE		(2 * MB)
#define CGROUPS		"/tmp/kmmscand_rule_test"
#define BALANCING	"/proc/sys/kernel/numa_balancing"
#define BALANCING_RATE	BALANCING "_promote_rate_limit_MBps"
/* Hot memory of a process with so many threads that map and unmap, and how long it may take */
#define CHURNED		(16 * MB)
#define CHURNERS	3
#define CHURN_S		60
/* With so much free memory on the fast node NUMA balancing keeps to no limit. */
#define BALANCING_FREE_KB	1048576L

/* Pages on the slow node, or NULL and the test has been skipped. */
static char *map_slow(size_t len)
{
	char *p = map_on(len, slow, false);

	if (p && count_on(p, len, slow) == len / PAGE)
		return p;
	if (p)
		unmap_on(p, len);
	ksft_test_result_skip("no memory on the slow node\n");
	return NULL;
}

/*
 * A program reads a lot of memory once.  Some of the pages are found in a look, but none in
 * two.
 */
static void test_stream(void)
{
	const size_t len = 64 * MB;
	char *p = map_slow(len), *hot = map_on(MB, slow, false);
	const double seconds = 4;
	size_t done = 0, due;
	unsigned long moved;
	double start;
	bool ok;

	if (!p)
		goto out;
	ok = hot && !set("scan/period_ms", "500") && !set("promote/rate_mbps", "4");
	ok = ok && !enable(true);
	for (start = now(); done < len; done = due) {
		due = (now() - start) / seconds * len;
		due = due < len ? due & ~(PAGE - 1) : len;
		touch(p + done, due - done);
		/* A process that rests most of the time is seldom visited. */
		run_for(0.002);
		usleep(2000);
	}
	moved = count_on(p, len, fast);
	ksft_print_msg("%lu of %lu pages that were read once were promoted\n", moved, len / PAGE);
	ok &= moved <= len / PAGE / 500;
	ok = ok && rises(hot, MB);
	enable(false);
	ksft_test_result(ok, "what is only streamed over stays\n");
	unmap_on(p, len);
out:
	if (hot)
		unmap_on(hot, MB);
}

#define NR_HUGE		12
#define NR_HUGE_HOT	2

/*
 * Each huge page is accessed often enough to be found in every window of small pages.  A few
 * are accessed all the time.  They have the last addresses, so they would come last if they
 * could not be told from the others.
 */
static void test_huge(void)
{
	const size_t len = NR_HUGE * HUGE;
	char *p = map_on(len, slow, true), *hot = p + len - NR_HUGE_HOT * HUGE, *i;
	unsigned int there = 0, cold = 0;
	double begun, turn;
	bool ok;

	if (!p || huge_kb(p) != (long)(len >> 10) || count_on(p, len, slow) != len / PAGE) {
		ksft_test_result_skip("no huge pages on the slow node\n");
		goto out;
	}
	/* One of them in a period */
	ok = !set("scan/period_ms", "500") && !set("promote/rate_mbps", "4");
	ok = ok && !enable(true);
	for (begun = now(); there < NR_HUGE_HOT && now() < begun + ARRIVE_S;) {
		for (turn = now(); now() < turn + 0.008;)
			for (i = hot; i < p + len; i += HUGE)
				touch(i, PAGE);
		for (i = p; i < hot; i += HUGE)
			touch(i, PAGE);
		for (there = 0, i = hot; i < p + len; i += HUGE)
			there += count_on(i, PAGE, fast);
	}
	for (i = p; i < hot; i += HUGE)
		cold += count_on(i, PAGE, fast);
	ksft_print_msg("%u of %u hot huge pages promoted in %.1f s, and %u of the others\n",
		       there, NR_HUGE_HOT, now() - begun, cold);
	ok &= there == NR_HUGE_HOT && cold <= 2;
	enable(false);
	ksft_test_result(ok, "the hottest huge pages come first\n");
out:
	if (p)
		unmap_on(p, len);
}

/*
 * Page tables of cold memory are skipped.  When it is used again this is noticed soon,
 * not only when all tables are read, which is in one pass of 64.
 */
static void test_again(void)
{
	const size_t len = 4 * MB;
	char *p = map_slow(len);
	long skipped;
	bool ok;

	if (!p)
		return;
	skipped = event_count("tier_scan_skip_pmd");
	ok = !enable(true);
	run_for(3);
	skipped = event_count("tier_scan_skip_pmd") - skipped;
	ksft_print_msg("%ld page tables were skipped\n", skipped);
	ok &= skipped > 0 && count_on(p, len, slow) == len / PAGE;
	ok = ok && rises(p, len);
	enable(false);
	ksft_test_result(ok, "cold memory that becomes hot is promoted\n");
	unmap_on(p, len);
}

static void test_rate(void)
{
	const size_t len = 16 * MB;
	unsigned long moved, limit;
	char *p = map_slow(len);
	double start;
	bool ok;

	if (!p)
		return;
	ok = !set("promote/rate_mbps", "1");
	ok &= !enable(true);
	start = now();
	moved = keep_hot(p, len, 5, 100);
	limit = (now() - start) * PER_MB;
	ksft_print_msg("%lu pages promoted, %lu are allowed\n", moved, limit);
	ok &= moved >= limit / 8 && moved <= 2 * limit;
	enable(false);
	ksft_test_result(ok, "promotion keeps to its rate\n");
	unmap_on(p, len);
}

static long free_kb(int nid)
{
	char path[64], line[128];
	long kb = -1;
	FILE *f;

	snprintf(path, sizeof(path), NODES "node%d/meminfo", nid);
	f = fopen(path, "r");
	while (f && kb < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "Node %*d MemFree: %ld kB", &kb) != 1)
			kb = -1;
	if (f)
		fclose(f);
	return kb;
}

/*
 * Keep pages hot for so long, or until @most have been promoted, by whomever.  Returns how
 * many were.
 */
static long promote_by_all(const char *addr, size_t len, double seconds, long most)
{
	long all = event_count("pgpromote_success"), ours = event_count("tier_promote_success");
	long faults = event_count("numa_hint_faults");
	double start = now(), end = start + seconds;
	long promoted = 0;

	/* Without sleeping: NUMA balancing scans by the CPU time of the task. */
	while (now() < end && promoted < most) {
		touch(addr, len);
		promoted = event_count("pgpromote_success") - all;
	}
	ksft_print_msg("%ld pages promoted in %.1f s, %ld of them by kmmscand, %ld hint faults\n",
		       promoted, now() - start, event_count("tier_promote_success") - ours,
		       event_count("numa_hint_faults") - faults);
	return promoted;
}

/*
 * NUMA balancing and kmmscand both want to promote more than either may.  With a limit for
 * each they would promote twice as much.
 */
static void test_shared_rate(void)
{
	const size_t len = 64 * MB;
	const double seconds = 12;
	/* A window of a second may begin or end outside; and batches can be too large. */
	const long limit = (seconds + 1) * PER_MB * 5 / 4;
	long faults, promoted;
	char *p = map_slow(len);
	bool ok;

	if (!p)
		return;
	if (free_kb(fast) > BALANCING_FREE_KB) {
		ksft_test_result_skip("too much free memory on the fast node\n");
		goto unmap;
	}
	if (change(BALANCING_RATE, "1") || change(BALANCING, "2")) {
		ksft_test_result_skip("no NUMA balancing (CONFIG_NUMA_BALANCING)\n");
		goto unmap;
	}
	ok = !set("promote/rate_mbps", "1");
	ok &= !enable(true);
	faults = event_count("numa_hint_faults");
	promoted = promote_by_all(p, len, seconds, len / PAGE);
	faults = event_count("numa_hint_faults") - faults;
	ksft_print_msg("%ld are allowed\n", limit);
	/* NUMA balancing alone would have had enough to promote. */
	ok &= promoted >= limit / 8 && promoted <= limit && faults >= limit;
	/* It was for the limit that there were no more. */
	ok &= !write_file(BALANCING_RATE, "65536");
	ok &= !write_file(TIER_PARTS "promote/rate_mbps", "65536");
	ok &= promote_by_all(p, len, 2 * seconds, 2 * limit) > limit;
	enable(false);
	ksft_test_result(ok, "promotion has one rate for kmmscand and NUMA balancing\n");
unmap:
	unmap_on(p, len);
}

/* The share of scanning is a test of kmmscand_test. */
static void test_promoter_cpu(void)
{
	const size_t len = 16 * MB;
	char comm[32], *p = map_slow(len);
	double start, used, share;
	unsigned long moved;
	bool ok;

	if (!p)
		return;
	snprintf(comm, sizeof(comm), "kpromoted%d", slow);
	ok = !set_share("promote/cpu_permille", 2) && !set("scan/period_ms", "100");
	ok &= !enable(true);
	start = now();
	used = thread_seconds(comm);
	moved = keep_hot(p, len, 8, 90);
	share = (thread_seconds(comm) - used) / (now() - start);
	ksft_print_msg("%s used %.2f %% of a CPU, %lu of %lu pages promoted in %.1f s\n", comm,
		       share * 100, moved, len / PAGE, now() - start);
	/* A batch is not interrupted: that much can be too much at the end. */
	ok &= used >= 0 && moved > 0 && share < 0.12;
	enable(false);
	ksft_test_result(ok, "the promoter keeps to its share of a CPU\n");
	unmap_on(p, len);
}

/* What a child that keeps memory hot and this process tell each other */
struct hot_child {
	atomic_bool ready, stop;
	unsigned long moved;
};

static void hot_child(struct hot_child *child, char *(*map)(void))
{
	char *p = map();

	if (!p)
		_exit(KSFT_SKIP);
	fill(p, MB);
	child->ready = true;
	while (!child->stop)
		touch_and_rest(p, MB);
	child->moved = count_on(p, MB, fast);
	_exit(intact(p, MB) ? 0 : 1);
}

/* Memory that a child maps and keeps hot stays. */
static void left_out(const char *what, char *(*map)(void))
{
	struct hot_child *child;
	int status = 0;
	long refused;
	pid_t pid;
	char *p;
	bool ok;

	child = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (child == MAP_FAILED) {
		ksft_test_result_skip("mmap: %s\n", strerror(errno));
		return;
	}
	pid = fork_child();
	if (!pid)
		hot_child(child, map);
	while (!child->ready && !waitpid(pid, &status, WNOHANG))
		usleep(10000);
	if (!child->ready) {
		ksft_test_result_skip("no memory that is %s\n", what);
		goto unmap;
	}
	p = map_on(MB, slow, false);
	refused = event_count("tier_promote_fail_policy");
	ok = p && !enable(true);
	ok = ok && rises(p, MB);
	/* The child's has been as hot as that, and is for some time more. */
	run_for(3);
	child->stop = true;
	ok &= waitpid(pid, &status, 0) == pid && !status;
	refused = event_count("tier_promote_fail_policy") - refused;
	ksft_print_msg("%lu of %lu pages that are %s were promoted, %ld refused\n", child->moved,
		       PER_MB, what, refused);
	/* They are not even tried. */
	ok &= !child->moved && refused <= (long)PER_MB / 8;
	enable(false);
	ksft_test_result(ok, "memory stays that is %s\n", what);
	if (p)
		unmap_on(p, MB);
unmap:
	munmap(child, PAGE);
}

static char *map_bound(void)
{
	char *p = map_on(MB, slow, false);
	unsigned long mask = 1UL << slow;

	if (p && syscall(__NR_mbind, p, MB, MPOL_BIND, &mask, (unsigned long)MAX_NODES + 1, 0))
		return NULL;
	return p;
}

static void test_bound(void)
{
	left_out("bound", map_bound);
}

/* The policy is one of the object, for the second page table of the mapping. */
static char *map_shm_bound(void)
{
	int fd = syscall(__NR_memfd_create, "kmmscand_rule_test", 0);
	unsigned long mask = 1UL << slow;
	char *bound, *p;

	if (fd < 0 || ftruncate(fd, TABLE + MB))
		return NULL;
	bound = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, TABLE);
	p = mmap(NULL, 2 * TABLE + MB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bound == MAP_FAILED || p == MAP_FAILED)
		return NULL;
	p = (char *)(((uintptr_t)p + TABLE - 1) & -TABLE);
	if (mmap(p, TABLE + MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) != p ||
	    syscall(__NR_mbind, bound, MB, MPOL_BIND, &mask, (unsigned long)MAX_NODES + 1, 0))
		return NULL;
	munmap(bound, MB);
	return p + TABLE;
}

static void test_shm_bound(void)
{
	left_out("bound by the policy of an object", map_shm_bound);
}

static char *map_task_bound(void)
{
	unsigned long mask = 1UL << slow;

	if (syscall(__NR_set_mempolicy, MPOL_BIND, &mask, (unsigned long)MAX_NODES + 1))
		return NULL;
	return map_on(MB, slow, false);
}

static void test_task_bound(void)
{
	left_out("a bound task's", map_task_bound);
}

static char *map_in_cpuset(void)
{
	char mems[16];

	snprintf(mems, sizeof(mems), "%d", slow);
	return enter_cpuset(CGROUPS, "slow", mems) ? map_on(MB, slow, false) : NULL;
}

static void test_cpuset(void)
{
	mount_group(CGROUPS, "slow");
	left_out("in a cpuset of the slow node", map_in_cpuset);
	umount_group(CGROUPS, "slow");
}

static char *map_read_once(void)
{
	char *p = map_on(MB, slow, false);

	return p && !madvise(p, MB, MADV_SEQUENTIAL) ? p : NULL;
}

static void test_read_once(void)
{
	left_out("read once", map_read_once);
}

/* Map and unmap for ever, as malloc() and free() of large blocks do. */
static void *churn(void *stop)
{
	const size_t len = 256 * 1024;

	while (!*(atomic_bool *)stop) {
		char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			       0);

		if (p == MAP_FAILED)
			break;
		p[0] = 1;
		p[len - PAGE] = 1;
		munmap(p, len);
	}
	return NULL;
}

/* Seconds until hot pages have arrived while so many threads have mmap_lock in turn, or -1 */
static double arrives_in(unsigned int threads, long *refused)
{
	pthread_t thread[CHURNERS];
	atomic_bool stop = false;
	char *p = map_slow(CHURNED);
	double start, took = -1;
	unsigned int i;

	if (!p)
		return -1;
	*refused = event_count("tier_promote_fail_policy");
	for (i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, churn, &stop))
			break;
	start = now();
	if (i == threads && keep_hot(p, CHURNED, CHURN_S, 90) * PAGE >= CHURNED / 10 * 9)
		took = now() - start;
	*refused = event_count("tier_promote_fail_policy") - *refused;
	stop = true;
	while (i)
		pthread_join(thread[--i], NULL);
	unmap_on(p, CHURNED);
	return took;
}

static void test_churn(void)
{
	double quiet, busy;
	long refused;
	bool ok;

	ok = !enable(true);
	quiet = arrives_in(0, &refused);
	busy = arrives_in(CHURNERS, &refused);
	ok &= !enable(false);
	ksft_print_msg("%.1f s without and %.1f s with churn, %ld pages were refused\n", quiet,
		       busy, refused);
	ok &= quiet > 0 && busy > 0 && busy <= 20 * quiet;
	ok &= refused <= (long)(CHURNED / PAGE / 8);
	ksft_test_result(ok, "a process that maps and unmaps all the time is promoted\n");
}

#define EVERY_CPU_MAX	16
/* CPUs of unbound work items, as an administrator sets them who isolates CPUs */
#define WORK_CPUS	"/sys/devices/virtual/workqueue/cpumask"

struct pinned {
	atomic_bool ready;
	atomic_ulong moved;
};

static void pinned_child(struct pinned *mine, int cpu)
{
	double end = now() + 2 * ARRIVE_S;
	cpu_set_t cpus;
	char *p;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	p = map_on(MB, slow, false);
	if (!p || sched_setaffinity(0, sizeof(cpus), &cpus))
		_exit(KSFT_SKIP);
	fill(p, MB);
	mine->ready = true;
	while (now() < end) {
		touch_and_rest(p, MB);
		mine->moved = count_on(p, MB, fast);
	}
	_exit(0);
}

/*
 * A process on each CPU, so the sampler has to take a CPU from one of them: always the first CPU.
 * All are found.
 */
static void test_every_cpu(void)
{
	unsigned int n = 0, i, arrived = 0;
	struct pinned *pinned;
	pid_t pids[EVERY_CPU_MAX];
	cpu_set_t cpus;
	double end;
	int cpu;

	pinned = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (pinned == MAP_FAILED || sched_getaffinity(0, sizeof(cpus), &cpus) ||
	    change(WORK_CPUS, "1")) {
		ksft_test_result_skip("no memory, no list of CPUs, or work items keep theirs: %s\n",
				      strerror(errno));
		return;
	}
	for (cpu = 0; cpu < CPU_SETSIZE && n < EVERY_CPU_MAX; cpu++) {
		if (!CPU_ISSET(cpu, &cpus))
			continue;
		pids[n] = fork_child();
		if (!pids[n])
			pinned_child(&pinned[n], cpu);
		for (end = now() + ARRIVE_S; !pinned[n].ready && now() < end;)
			usleep(10000);
		n++;
	}
	enable(true);
	for (end = now() + ARRIVE_S; arrived < n && now() < end;) {
		usleep(100000);
		for (arrived = 0, i = 0; i < n; i++)
			arrived += pinned[i].moved >= PER_MB * 9 / 10;
	}
	enable(false);
	for (i = 0; i < n; i++) {
		ksft_print_msg("%lu of %lu pages of process %u were promoted\n", pinned[i].moved,
			       PER_MB, i);
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	munmap(pinned, PAGE);
	ksft_test_result(n && arrived == n, "processes on all CPUs are found\n");
}

static const struct tier_test tests[] = {
	{ "stream", test_stream },
	{ "huge", test_huge },
	{ "again", test_again },
	{ "rate", test_rate },
	{ "shared_rate", test_shared_rate },
	{ "promoter_cpu", test_promoter_cpu },
	{ "bound", test_bound },
	{ "shm_bound", test_shm_bound },
	{ "task_bound", test_task_bound },
	{ "cpuset", test_cpuset },
	{ "read_once", test_read_once },
	{ "churn", test_churn },
	{ "every_cpu", test_every_cpu },
};

int main(int argc, char **argv)
{
	begin_kmmscand_tests();
	/* Emulated machines are slow enough without waiting for rounds. */
	set("scan/period_ms", "200");
	set_share("scan/cpu_permille", 50);
	run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	ksft_finished();
}
