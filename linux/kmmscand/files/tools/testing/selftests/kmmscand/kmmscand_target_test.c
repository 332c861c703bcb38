// SPDX-License-Identifier: GPL-2.0
/*
 * On a machine with several fast nodes, does kmmscand promote to the right one?
 *
 * All pages begin on one slow node.  The fast node nearest to it is "near"; another one,
 * "far", is where pages have to go for a reason, or the test would prove nothing.
 *
 * Each test must fail while the switch in /sys/kernel/debug/tier/faults/ is set that breaks its
 * rule:
 *
 *   vote	scan_vote, scan_target
 *   policy, task_policy, cpuset	scan_policy
 *   full	scan_policy, scan_fallback
 *   moved	scan_vote, scan_target
 *   read	scan_target
 *
 * "split" and "shared" are about what must not happen where nobody can tell the node, and
 * "socket" about CPUs that go offline.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "kmmscand_util.h"
#include "../tier/tier_fill.h"

#define MB		(1024UL * 1024)
#define LEN		(4 * MB)

#define CGROUPS		"/tmp/kmmscand_target_cgroups"

/* Until hot pages must have arrived */
#define ARRIVE_S	40
#define STAY_S		4
/* The share of hot pages that has to be on the right node, in percent */
#define RIGHT		95

static int near = -1, far = -1;

/* From the row of a node */
static int distance(int from, int to)
{
	char path[64], buf[256], *p = buf;
	int i, val = -1;

	snprintf(path, sizeof(path), NODES "node%d/%s", from, __func__);
	if (!read_file(path, buf, sizeof(buf)))
		return -1;
	for (i = 0; i <= to; i++)
		val = strtol(p, &p, 10);
	return val;
}

/* Nodes with CPUs are fast. */
static void find_nodes(void)
{
	uint64_t nodes = read_nodes(NODES "has_cpu") & read_nodes(NODES "has_memory");
	int nid;

	for (nid = 0; nid < MAX_NODES; nid++) {
		if (!(nodes & (1ULL << nid)))
			continue;
		if (near < 0 || distance(slow, nid) < distance(slow, near))
			near = nid;
	}
	for (nid = 0; nid < MAX_NODES; nid++)
		if (nodes & (1ULL << nid) && nid != near && far < 0)
			far = nid;
	if (far < 0)
		ksft_exit_skip("only one fast node has CPUs\n");
	ksft_print_msg("near node %d, far node %d\n", near, far);
}

static uint64_t cpus_of(int nid)
{
	char path[64];

	snprintf(path, sizeof(path), NODES "node%d/cpulist", nid);
	return read_nodes(path);
}

/* This thread runs on the first CPU of a node from now on. */
static bool run_on(int nid)
{
	uint64_t mask = cpus_of(nid);
	cpu_set_t cpus;
	int cpu;

	for (cpu = 0; cpu < 64 && !(mask & (1ULL << cpu)); cpu++)
		;
	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	return !sched_setaffinity(0, sizeof(cpus), &cpus);
}

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

static bool move_to_slow(char *addr, size_t len)
{
	unsigned long mask = 1UL << slow;

	return !syscall(__NR_mbind, addr, len, MPOL_BIND, &mask, MAX_NODES + 1UL,
			2UL /* MPOL_MF_MOVE */) &&
	       !syscall(__NR_mbind, addr, len, MPOL_DEFAULT, NULL, 0UL, 0UL) &&
	       count_on(addr, len, slow) == len / PAGE;
}

static bool all_fast(char *addr, size_t len)
{
	return count_on(addr, len, near) + count_on(addr, len, far) >= len / PAGE / 100 * 99;
}

/* Keep pages hot for so long, or until all of them are fast, or on the node. */
static void heat(char *addr, size_t len, double seconds, int nid)
{
	double end = now() + seconds, next = now() + 0.3;

	while (now() < end) {
		touch(addr, len);
		/* Others need the CPU, too. */
		usleep(1000);
		if (now() < next)
			continue;
		if (nid >= 0 ? count_on(addr, len, nid) >= len / PAGE / 100 * RIGHT + 1 :
			       all_fast(addr, len))
			return;
		next = now() + 0.3;
	}
}

static bool right(char *addr, size_t len, int nid)
{
	unsigned long n = count_on(addr, len, nid);

	ksft_print_msg("of %lu hot pages %lu are on node %d, %lu still slow\n", len / PAGE, n,
		       nid, count_on(addr, len, slow));
	return n >= len / PAGE * RIGHT / 100;
}

/* A thread that keeps memory hot, on a node of its own */
struct heater {
	pthread_t thread;
	char *addr;
	size_t len;
	int nid;
};

static atomic_bool stop;

/* CPU time of this thread in seconds */
static double cpu_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static void *heater_thread(void *arg)
{
	struct heater *heater = arg;
	double start, used;

	if (!run_on(heater->nid))
		return arg;
	start = now();
	used = cpu_time();
	while (!atomic_load(&stop)) {
		/*
		 * Half of a CPU each, whatever it costs here to wait or to be scanned: threads
		 * vote with their CPU time.
		 */
		if (cpu_time() - used > (now() - start) / 2)
			usleep(1000);
		else
			touch(heater->addr, heater->len);
	}
	return NULL;
}

static bool start_heater(struct heater *heater, char *addr, size_t len, int nid)
{
	*heater = (struct heater) { .addr = addr, .len = len, .nid = nid };
	return !pthread_create(&heater->thread, NULL, heater_thread, heater);
}

static bool stop_heaters(struct heater *heater, int nr)
{
	bool ok = true;
	void *ret;

	atomic_store(&stop, true);
	while (nr--)
		ok &= !pthread_join(heater[nr].thread, &ret) && !ret;
	atomic_store(&stop, false);
	return ok;
}

/* Counter of promoted pages when all that is slow of this memory has been promoted */
static long all_promoted(char *addr, size_t len)
{
	return event_count("tier_promote_success") + count_on(addr, len, slow);
}

/*
 * Until so many pages have been promoted.  Threads vote with their CPU time, this one as well,
 * and where the pages are is expensive to ask on a debug kernel.
 */
static void wait_promoted(long all)
{
	double end = now() + ARRIVE_S;

	while (now() < end && event_count("tier_promote_success") < all)
		usleep(300000);
	/* Some may have been others' pages. */
	sleep(1);
}

/* Pages go to the node on which the process runs. */
static void test_vote(void)
{
	char *p = map_slow(LEN);
	bool ok;

	if (!p)
		return;
	ok = run_on(far) && !enable(true);
	heat(p, LEN, ARRIVE_S, -1);
	ok &= right(p, LEN, far);
	enable(false);
	ksft_test_result(ok, "pages go to where the process runs\n");
	unmap_on(p, LEN);
}

/* The process runs near, but its memory may only go far. */
static void test_policy(void)
{
	unsigned long mask = 1UL << far | 1UL << slow;
	char *p = map_slow(LEN), *q = map_slow(LEN);
	bool ok;

	if (!p || !q)
		return;
	ok = !syscall(__NR_mbind, p, LEN, MPOL_BIND, &mask, MAX_NODES + 1UL, 0UL);
	ok &= run_on(near) && !enable(true);
	heat(p, LEN, ARRIVE_S, -1);
	ok &= right(p, LEN, far);
	/* What is not bound goes near. */
	heat(q, LEN, ARRIVE_S, -1);
	ok &= right(q, LEN, near);
	enable(false);
	ksft_test_result(ok, "what is bound to a fast node goes there\n");
	unmap_on(p, LEN);
	unmap_on(q, LEN);
}

/* What a child keeps hot, which runs near and may have memory far and slow only, goes far. */
static bool goes_far(bool (*restrict_child)(void))
{
	int status = 0;
	pid_t pid = fork_child();
	char *p;

	if (!pid) {
		p = run_on(near) && restrict_child() ? map_on(LEN, slow, false) : NULL;
		if (!p || count_on(p, LEN, slow) != LEN / PAGE || enable(true))
			_exit(2);
		heat(p, LEN, ARRIVE_S, far);
		_exit(!right(p, LEN, far));
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && !enable(false) && !status;
}

static bool set_task_policy(void)
{
	unsigned long mask = 1UL << far | 1UL << slow;

	return !syscall(__NR_set_mempolicy, MPOL_BIND, &mask, MAX_NODES + 1UL);
}

static void test_task_policy(void)
{
	ksft_test_result(goes_far(set_task_policy),
			 "what a task is bound to holds for its pages\n");
}

static bool enter_far_cpuset(void)
{
	char mems[16];

	snprintf(mems, sizeof(mems), "%d,%d", far, slow);
	return enter_cpuset(CGROUPS, "some", mems);
}

static void test_cpuset(void)
{
	bool ok;

	if (!mount_group(CGROUPS, "some")) {
		ksft_test_result_skip("no control groups (v2)\n");
		return;
	}
	ok = goes_far(enter_far_cpuset);
	umount_group(CGROUPS, "some");
	ksft_test_result(ok, "the cpuset decides between fast nodes, too\n");
}

/* Seconds in which all address spaces have voted for where they run now */
#define VOTE_S	12

/* The vote is split: pages go to the nearest node, without hint faults. */
static void test_split(void)
{
	long split = event_count("tier_promote_target_split"), faults, all;
	char *p = map_slow(2 * HUGE);
	struct heater heater[2];
	bool ok;

	if (!p)
		return;
	/* There may be no NUMA balancing. */
	change("/proc/sys/kernel/numa_balancing", "0");
	faults = event_count("numa_hint_faults");
	/* Nothing is promoted before some votes. */
	only_look();
	ok = run_on(near);
	all = all_promoted(p, 2 * HUGE);
	ok &= start_heater(&heater[0], p, 2 * HUGE, near);
	ok &= start_heater(&heater[1], p, 2 * HUGE, far);
	sleep(1);
	ok &= !enable(true);
	sleep(VOTE_S);
	ok &= !promote_too();
	wait_promoted(all);
	ok &= stop_heaters(heater, 2);
	split = event_count("tier_promote_target_split") - split;
	faults = event_count("numa_hint_faults") - faults;
	ksft_print_msg("%ld split votes, %ld hint faults\n", split, faults);
	ok &= split && !faults && right(p, 2 * HUGE, near);
	enable(false);
	ksft_test_result(ok, "pages go to the nearest node if the vote is split\n");
	unmap_on(p, 2 * HUGE);
}

/* After a process has moved, what is still slow goes to where it runs now. */
static void test_moved(void)
{
	char *p = map_slow(LEN);
	bool ok;

	if (!p)
		return;
	only_look();
	ok = run_on(near) && !enable(true);
	heat(p, LEN, VOTE_S / 2, near);
	ok &= count_on(p, LEN, slow) == LEN / PAGE && run_on(far);
	heat(p, LEN, VOTE_S, far);
	ok &= !promote_too();
	heat(p, LEN, ARRIVE_S, -1);
	ok &= right(p, LEN, far);
	enable(false);
	ksft_test_result(ok, "pages go to where the process has moved to\n");
	unmap_on(p, LEN);
}

static void keep_hot(char *addr, double seconds)
{
	double end = now() + seconds;

	for (; now() < end; usleep(1000))
		touch(addr, LEN);
}

/* Two processes on two nodes use the same pages, which go to the nearest. */
static void test_shared(void)
{
	char *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double end;
	pid_t pid;
	long all;
	bool ok;

	if (p == MAP_FAILED || !memset(p, 1, LEN) || !move_to_slow(p, LEN)) {
		ksft_test_result_skip("no memory on the slow node\n");
		return;
	}
	only_look();
	ok = run_on(far);
	pid = fork_child();
	if (!pid) {
		if (!run_on(near))
			_exit(2);
		for (;; usleep(1000))
			touch(p, LEN);
	}
	all = all_promoted(p, LEN);
	ok = ok && pid > 0 && !enable(true);
	keep_hot(p, VOTE_S);
	ok &= !promote_too();
	for (end = now() + ARRIVE_S; now() < end && event_count("tier_promote_success") < all;)
		keep_hot(p, 0.1);
	ok = ok && right(p, LEN, near);
	enable(false);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	ksft_test_result(ok, "what is used on several nodes goes to the nearest\n");
	munmap(p, LEN);
}

/* Page cache goes to the node on which it is read. */
static void test_read(void)
{
	int fd = memfd_create("read", 0);
	static char buf[PAGE];
	bool ok = fd >= 0 && !ftruncate(fd, LEN) && run_on(far);
	char *p = ok ? mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
	long all = event_count("tier_promote_success") + LEN / PAGE;
	double end = now() + ARRIVE_S;
	size_t i;

	if (p != MAP_FAILED) {
		memset(p, 1, LEN);
		ok &= move_to_slow(p, LEN);
		munmap(p, LEN);
	}
	ok &= p != MAP_FAILED && !enable(true);
	/* Another second for what may have been others' */
	while (ok && now() < end) {
		for (i = 0; i < LEN; i += PAGE)
			ok &= pread(fd, buf, PAGE, i) == PAGE;
		usleep(1000);
		if (event_count("tier_promote_success") >= all && now() + 1 < end)
			end = now() + 1;
	}
	enable(false);
	p = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
	if (p != MAP_FAILED) {
		touch(p, LEN);
		ok &= right(p, LEN, far);
		munmap(p, LEN);
	}
	ksft_test_result(ok && p != MAP_FAILED, "page cache goes to where it is read\n");
	close(fd);
}

/*
 * The far node is full.  What should go there goes near, what may go nowhere else waits, and
 * neither stops the other.
 */
static void test_full(void)
{
	unsigned long mask = 1UL << far | 1UL << slow, n;
	/* Far more than earlier tests may give back late */
	const size_t bound = 2 * LEN;
	char *p = map_slow(bound), *q = map_slow(LEN), *hog;
	double end = now() + ARRIVE_S, stay = 0;
	size_t len;
	bool ok;

	if (!p || !q)
		return;
	ok = !no_demotion();
	ok &= !change(PCP_HIGH, "8");
	ok &= !syscall(__NR_mbind, p, bound, MPOL_BIND, &mask, MAX_NODES + 1UL, 0UL);
	hog = fill_node(far, &len);
	ok &= hog && run_on(far) && !enable(true);
	while (now() < end && !(all_fast(q, LEN) && now() > stay)) {
		/* Is what waits still there when it has been scanned as often? */
		if (!all_fast(q, LEN))
			stay = now() + STAY_S;
		touch(p, bound);
		touch(q, LEN);
		usleep(1000);
	}
	n = count_on(p, bound, near) + count_on(q, LEN, slow);
	ksft_print_msg("of the bound pages %lu went far, of the others %lu near\n",
		       count_on(p, bound, far), count_on(q, LEN, near));
	ok &= !n && count_on(q, LEN, near) >= LEN / PAGE / 2;
	ok &= count_on(p, bound, slow) >= bound / PAGE / 2;
	if (hog)
		munmap(hog, len);
	heat(p, bound, ARRIVE_S, far);
	ok &= right(p, bound, far);
	enable(false);
	ksft_test_result(ok, "a full node does not stop what goes elsewhere\n");
	unmap_on(p, bound);
	unmap_on(q, LEN);
}

/* The CPUs that a kernel thread may run on, or "" if there is no such thread */
static void thread_cpus(const char *name, int nid, char list[64])
{
	char path[64], comm[32], line[256];
	FILE *f;

	snprintf(comm, sizeof(comm), "%s%d", name, nid);
	snprintf(path, sizeof(path), "/proc/%d/status", thread_pid(comm));
	*list = '\0';
	f = fopen(path, "r");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f) &&
	       sscanf(line, "Cpus_allowed_list: %63s", list) != 1)
		;
	fclose(f);
}

/* The scanner of the node may run on these CPUs, or soon will. */
static bool scanner_is_home(int nid, const char *cpus)
{
	double end = now() + ARRIVE_S;
	char list[64];

	do {
		usleep(100000);
		thread_cpus("kmmscand", nid, list);
	} while (strcmp(list, cpus) && now() < end);
	ksft_print_msg("CPUs of node %d: %s, kmmscand%d may run on %s\n", nid, cpus, nid, list);
	return !strcmp(list, cpus);
}

static bool set_cpus_online(uint64_t cpus, bool online)
{
	bool ok = true;
	int cpu;

	for (cpu = 0; cpu < 64; cpu++)
		if (cpus >> cpu & 1)
			ok &= !set_cpu_online(cpu, online);
	return ok;
}

/* All CPUs of a socket go offline and come back, once while kmmscand is on, once before. */
static void test_socket(void)
{
	char path[64], cpus[64], list[64], before[64], after[64];
	/* CPU 0 stays. */
	bool near_stays = cpus_of(near) & 1, ok;
	int nid = near_stays ? far : near;
	uint64_t mask = cpus_of(nid);

	snprintf(path, sizeof(path), NODES "node%d/cpulist", nid);
	if (!read_file(path, cpus, sizeof(cpus)) || !run_on(near_stays ? near : far) ||
	    !set_cpus_online(mask, false)) {
		set_cpus_online(mask, true);
		ksft_test_result_skip("the CPUs of a node cannot be taken offline\n");
		return;
	}
	ok = set_cpus_online(mask, true) && !enable(true);
	ok &= scanner_is_home(nid, cpus);
	thread_cpus("kpromoted", slow, before);
	ok &= set_cpus_online(mask, false);
	sleep(2);
	thread_cpus("kmmscand", nid, list);
	ksft_print_msg("while they are offline on %s\n", list);
	ok &= set_cpus_online(mask, true);
	ok &= scanner_is_home(nid, cpus);
	thread_cpus("kpromoted", slow, after);
	ok &= *before && !strcmp(before, after);
	ok &= !enable(false);

	ok &= set_cpus_online(mask, false) && !enable(true);
	thread_cpus("kmmscand", nid, list);
	ok &= !*list;
	ok &= set_cpus_online(mask, true);
	ok &= scanner_is_home(nid, cpus);
	ok &= !enable(false);
	ksft_test_result(ok, "a scanner goes back when the CPUs of its node do\n");
}

static const struct tier_test tests[] = {
	{ "vote", test_vote },
	{ "policy", test_policy },
	{ "task_policy", test_task_policy },
	{ "cpuset", test_cpuset },
	{ "split", test_split },
	{ "moved", test_moved },
	{ "shared", test_shared },
	{ "read", test_read },
	{ "full", test_full },
	{ "socket", test_socket },
};

int main(int argc, char **argv)
{
	begin_kmmscand_tests();
	find_nodes();
	run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	ksft_finished();
}
