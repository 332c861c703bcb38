// SPDX-License-Identifier: GPL-2.0
/*
 * On a machine with several fast nodes, does kmmscand promote to the right one?
 *
 * All pages begin on one slow node.  The fast node nearest to it is "near"; another one,
 * "far", is where pages have to go for a reason, or the test would prove nothing.
 *
 * Each test must fail while the switch in /sys/kernel/debug/tier/ is set that breaks
 * its rule:
 *
 *   vote	fault_vote, fault_target
 *   policy, task_policy, cpuset	fault_policy
 *   full	fault_policy, fault_fallback
 *   spatial	fault_spatial
 *   confirm	fault_confirm
 *   swap	fault_expire
 *   balancing	fault_balancing
 *   moved	fault_sideways
 *   mapped	fault_shared
 *   read	fault_target
 *
 * "toggle" is about what must not happen, whatever kmmscand is doing when it is switched off,
 * and "socket" about CPUs that go offline.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "kmmscand_util.h"
#include "tier_fill.h"

#define MB		(1024UL * 1024)
#define LEN		(4 * MB)

#define CGROUPS		"/tmp/kmmscand_target_cgroups"
#define SCHED		"/sys/kernel/debug/sched/numa_balancing/"

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

static bool is_on(void)
{
	char buf[8];

	return read_file(KMMSCAND "enabled", buf, sizeof(buf)) && *buf == '1';
}

static bool right(char *addr, size_t len, int nid)
{
	unsigned long n = count_on(addr, len, nid);

	ksft_print_msg("of %lu hot pages %lu are on node %d, %lu still slow\n", len / PAGE, n,
		       nid, count_on(addr, len, slow));
	return n >= len / PAGE * RIGHT / 100;
}

/* Threads that keep memory hot, each on a node of its own */
struct heater {
	pthread_t thread;
	char *addr;
	size_t len;
	int nid;
	bool writes;
	unsigned long passes;	/* over the memory, if it writes, */
	size_t at;		/* and how far it is in the next one */
	atomic_bool held;
};

static atomic_bool stop;

/* Shared with a child of test_toggle() */
static struct watch {
	atomic_bool hold;	/* heaters stop where they are */
	atomic_long above;	/* hints after which they are to be held, if not negative */
} *watch;

/* CPU time of this thread in seconds */
static double cpu_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

/* Add one to the first word of each page; returns where it ended. */
static size_t count_up(char *addr, size_t from, size_t len)
{
	for (; from < len && !watch->hold; from += PAGE)
		(*(uint64_t *)(addr + from))++;
	return from;
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
		heater->held = watch->hold;
		if (heater->held) {
			usleep(1000);
			start = now();
			used = cpu_time();
		} else if (cpu_time() - used > (now() - start) / 2) {
			/*
			 * Half of a CPU each, whatever it costs here to wait or to be scanned:
			 * threads vote with their CPU time.
			 */
			usleep(1000);
		} else if (heater->writes) {
			heater->at = count_up(heater->addr, heater->at, heater->len);
			if (heater->at == heater->len) {
				heater->at = 0;
				heater->passes++;
			}
		} else {
			touch(heater->addr, heater->len);
		}
	}
	return NULL;
}

static bool run_heater(struct heater *heater)
{
	return !pthread_create(&heater->thread, NULL, heater_thread, heater);
}

static bool start_heater(struct heater *heater, char *addr, size_t len, int nid)
{
	*heater = (struct heater) { .addr = addr, .len = len, .nid = nid };
	return run_heater(heater);
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
	/* Without the vote, hint faults would tell. */
	ok = !set("target_mode", "vote") && run_on(far) && !enable(true);
	heat(p, LEN, ARRIVE_S, -1);
	ok &= right(p, LEN, far);
	enable(false);
	ksft_test_result(ok, "pages go to where the process runs\n");
	unmap_on(p, LEN);
}

/* Who runs far is not asked. */
static void test_nearest(void)
{
	char *p = map_slow(LEN);
	bool ok;

	if (!p)
		return;
	ok = !set("target_mode", "nearest") && run_on(far) && !enable(true);
	heat(p, LEN, ARRIVE_S, -1);
	ok &= right(p, LEN, near);
	enable(false);
	ksft_test_result(ok, "pages go to the nearest node if that is wanted\n");
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

/* Threads on both nodes use the memory.  Of each page table a part is far already. */
static void test_spatial(void)
{
	char *p = map_slow(2 * HUGE), *part[2];
	unsigned long mask = 1UL << far;
	struct heater heater[2];
	bool ok = true;
	long all;
	int i;

	if (!p)
		return;
	/* It is a multiple of a huge page, and aligned to one. */
	for (i = 0; i < 2; i++) {
		part[i] = p + i * HUGE;
		ok &= !syscall(__NR_mbind, part[i], HUGE / 4, MPOL_BIND, &mask, MAX_NODES + 1UL,
			       2UL /* MPOL_MF_MOVE */);
		ok &= !syscall(__NR_mbind, part[i], HUGE / 4, MPOL_DEFAULT, NULL, 0UL, 0UL);
	}
	ok &= count_on(p, 2 * HUGE, far) >= HUGE / 2 / PAGE * 9 / 10;
	ok &= !set("target_confirm_1in", "0") && run_on(near);
	all = all_promoted(p, 2 * HUGE);
	ok &= start_heater(&heater[0], p, 2 * HUGE, near);
	ok &= start_heater(&heater[1], p, 2 * HUGE, far);
	sleep(1);
	ok &= !enable(true);
	wait_promoted(all);
	ok &= stop_heaters(heater, 2);
	ok &= right(p, 2 * HUGE, far);
	enable(false);
	ksft_test_result(ok, "pages go to where their neighbours are\n");
	unmap_on(p, 2 * HUGE);
}

/* Faults that are NUMA balancing's may have moved pages. */
static bool move_to_slow(char *addr, size_t len)
{
	unsigned long mask = 1UL << slow;

	return !syscall(__NR_mbind, addr, len, MPOL_BIND, &mask, MAX_NODES + 1UL,
			2UL /* MPOL_MF_MOVE */) &&
	       !syscall(__NR_mbind, addr, len, MPOL_DEFAULT, NULL, 0UL, 0UL);
}

/*
 * Passes over an address space with a split vote until its pages know who uses them: some until
 * they are hot, one that asks, and some until what was known before is no longer believed.
 */
#define SETTLE_PASSES	20

/*
 * Until there have been so many, whatever an epoch is on this machine.  To look takes CPU time,
 * too, and may not tip the vote.
 */
static void wait_passes(long nr)
{
	long end_nr = event_count("kmmscand_target_split") + nr;
	double end = now() + ARRIVE_S;

	while (now() < end && event_count("kmmscand_target_split") < end_nr)
		usleep(300000);
}

/* Until pages have been made inaccessible; false if none have */
static bool wait_asked(long hints)
{
	double end = now() + ARRIVE_S;

	while (now() < end && event_count("kmmscand_target_hint") <= hints)
		usleep(300000);
	return event_count("kmmscand_target_hint") > hints;
}

/*
 * A thread on each node, and each has half of the memory to itself.  With @again, what was told
 * before is to be forgotten, and nothing is promoted until somebody is asked.
 */
static bool each_its_half(char *p, int first, int second, bool again)
{
	struct heater heater[2];
	char rate[16];
	long all, hints;
	bool ok;

	if (!start_heater(&heater[0], p, 2 * HUGE, first) ||
	    !start_heater(&heater[1], p + 2 * HUGE, 2 * HUGE, second))
		ksft_exit_fail_msg("pthread_create failed\n");
	/* To move the pages takes CPU time, too: nothing is promoted before some votes without. */
	ok = read_file(KMMSCAND "promote_rate_mbps", rate, sizeof(rate));
	ok &= !write_file(KMMSCAND "promote_rate_mbps", "0");
	hints = event_count("kmmscand_target_hint");
	ok &= move_to_slow(p, 4 * HUGE);
	all = all_promoted(p, 4 * HUGE);
	ok &= is_on() || !enable(true);
	sleep(5);
	if (again && !wait_asked(hints)) {
		ksft_print_msg("nobody was asked again\n");
		ok = false;
	}
	if (ok)
		wait_passes(SETTLE_PASSES);
	ok &= !write_file(KMMSCAND "promote_rate_mbps", rate);
	if (ok)
		wait_promoted(all);
	ok &= stop_heaters(heater, 2);
	ok &= right(p, 2 * HUGE, first);
	return ok & right(p + 2 * HUGE, 2 * HUGE, second);
}

static void test_confirm(void)
{
	long hints = event_count("kmmscand_target_hint"), balancing;
	char *p = map_slow(4 * HUGE);
	bool ok = true;

	if (!p)
		return;
	/* If something else is scanned as well, there is one in each page table still. */
	ok &= !set("target_confirm_1in", "16") && run_on(near);
	ok &= !change("/proc/sys/kernel/numa_balancing", "0");
	balancing = event_count("numa_hint_faults");
	ok &= each_its_half(p, near, far, false);
	ksft_print_msg("%ld pages were made inaccessible, %ld faults\n",
		       event_count("kmmscand_target_hint") - hints,
		       event_count("kmmscand_target_hint_fault"));
	ok &= event_count("kmmscand_target_hint") > hints;
	ok &= event_count("numa_hint_faults") == balancing;
	enable(false);
	ksft_test_result(ok, "pages go to the thread that uses them\n");
	unmap_on(p, 4 * HUGE);
}

/* The vote is split, nobody knows, and nobody may be asked: pages are promoted all the same. */
static void test_unasked(void)
{
	long hints = event_count("kmmscand_target_hint");
	long split = event_count("kmmscand_target_split"), all;
	char *p = map_slow(2 * HUGE);
	struct heater heater[2];
	bool ok;

	if (!p)
		return;
	ok = !set("target_confirm_1in", "0") && run_on(near);
	all = all_promoted(p, 2 * HUGE);
	ok &= start_heater(&heater[0], p, HUGE, near);
	ok &= start_heater(&heater[1], p + HUGE, HUGE, far);
	sleep(1);
	ok &= !enable(true);
	wait_promoted(all);
	ok &= stop_heaters(heater, 2);
	enable(false);
	hints = event_count("kmmscand_target_hint") - hints;
	split = event_count("kmmscand_target_split") - split;
	ksft_print_msg("%ld split votes, %ld pages made inaccessible, %lu of %lu still slow\n",
		       split, hints, count_on(p, 2 * HUGE, slow), 2 * HUGE / PAGE);
	ok &= split && !hints && all_fast(p, 2 * HUGE);
	ksft_test_result(ok, "with target_confirm_1in 0 no page is made inaccessible\n");
	unmap_on(p, 2 * HUGE);
}

/* An answer is believed for some 60 epochs (confirm.h). */
#define EXPIRE_S	30

/* The threads change places, after their pages have become slow again. */
static void test_swap(void)
{
	char *p = map_slow(4 * HUGE);
	bool ok = true;

	if (!p)
		return;
	/* Slow machines make epochs longer. */
	ok &= !set("target_confirm_1in", "16") && !set("scan_period_ms", "100") && run_on(near);
	ok &= !change("/proc/sys/kernel/numa_balancing", "0");
	ok &= each_its_half(p, near, far, false);
	sleep(EXPIRE_S);
	ok = ok && each_its_half(p, far, near, true);
	enable(false);
	ksft_test_result(ok, "what hint faults have told is not believed for ever\n");
	unmap_on(p, 4 * HUGE);
}

/*
 * While NUMA balancing is on, its hint faults tell, and there are no others.  Here it does not
 * get to scanning, so that it is kmmscand who promotes, without knowing where to.
 */
static void test_balancing(void)
{
	long hints = event_count("kmmscand_target_hint"), promoted;
	char *p = map_slow(4 * HUGE);
	bool ok = true;

	if (!p)
		return;
	ok &= run_on(near);
	if (change(SCHED "scan_delay_ms", "600000") ||
	    change(SCHED "scan_period_min_ms", "600000") ||
	    change("/proc/sys/kernel/numa_balancing", "1")) {
		ksft_test_result_skip("no CONFIG_NUMA_BALANCING, or no settings of it\n");
		unmap_on(p, 4 * HUGE);
		return;
	}
	promoted = event_count("tier_promote_success");
	each_its_half(p, near, far, false);
	promoted = event_count("tier_promote_success") - promoted;
	hints = event_count("kmmscand_target_hint") - hints;
	ksft_print_msg("%ld pages were promoted, %ld made inaccessible by kmmscand\n", promoted,
		       hints);
	ok &= !hints && promoted >= (long)(4 * HUGE / PAGE / 2);
	enable(false);
	ksft_test_result(ok, "with NUMA balancing there are no other hint faults\n");
	unmap_on(p, 4 * HUGE);
}

/* Pages were promoted near, without hint faults.  Then the process moves, and they follow. */
static void test_moved(void)
{
	long hints = event_count("kmmscand_target_hint"), sideways;
	char *p = map_slow(LEN);
	bool ok;

	if (!p)
		return;
	fill(p, LEN);
	ok = run_on(near) && !enable(true);
	heat(p, LEN, ARRIVE_S, -1);
	ok &= right(p, LEN, near);
	/* Other processes may take some. */
	hints = event_count("kmmscand_target_hint") - hints;
	ksft_print_msg("%ld pages were made inaccessible\n", hints);
	ok &= hints <= 16;
	sideways = event_count("kmmscand_sideways");
	ok &= run_on(far);
	heat(p, LEN, ARRIVE_S, far);
	ok &= right(p, LEN, far);
	sideways = event_count("kmmscand_sideways") - sideways;
	ksft_print_msg("%ld pages were brought over\n", sideways);
	ok &= intact(p, LEN);
	enable(false);
	ksft_test_result(ok, "pages follow a process that moves\n");
	unmap_on(p, LEN);
}

/* Both nodes use the same pages: they are promoted, and stay where they are. */
static void test_shared(void)
{
	int *before = calloc(LEN / PAGE, sizeof(int)), *after = calloc(LEN / PAGE, sizeof(int));
	char *p = map_slow(LEN);
	unsigned long i, moved = 0;
	struct heater heater[2];
	long all;
	bool ok;

	if (!p || !before || !after)
		return;
	ok = run_on(near);
	all = all_promoted(p, LEN);
	ok &= start_heater(&heater[0], p, LEN, near);
	ok &= start_heater(&heater[1], p, LEN, far);
	sleep(1);
	ok &= !enable(true);
	wait_promoted(all);
	ok &= all_fast(p, LEN) && !nodes_of(p, LEN / PAGE, before);
	sleep(5);
	ok &= stop_heaters(heater, 2) && !nodes_of(p, LEN / PAGE, after);
	for (i = 0; i < LEN / PAGE; i++)
		moved += before[i] != after[i] && before[i] != slow;
	ksft_print_msg("%lu of %lu pages moved again\n", moved, LEN / PAGE);
	ok &= moved <= LEN / PAGE / 100;
	enable(false);
	ksft_test_result(ok, "what both use does not go to and fro\n");
	unmap_on(p, LEN);
	free(before);
	free(after);
}

static void keep_hot(char *addr, double seconds)
{
	double end = now() + seconds;

	for (; now() < end; usleep(1000))
		touch(addr, LEN);
}

/*
 * Two processes map the same pages, and each votes for its node.  When one of them moves,
 * the pages stay where the other one uses them.
 */
static void test_mapped(void)
{
	long all, moved, sideways;
	char *p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double end;
	pid_t pid;
	bool ok;

	if (p == MAP_FAILED || !memset(p, 1, LEN) || !move_to_slow(p, LEN)) {
		ksft_test_result_skip("no memory on the slow node\n");
		return;
	}
	ok = run_on(near);
	watch->hold = false;
	pid = fork_child();
	if (!pid) {
		for (bool there = false;; usleep(1000)) {
			touch(p, LEN);
			if (watch->hold && !there)
				there = run_on(far);
		}
	}
	all = all_promoted(p, LEN);
	ok = ok && pid > 0 && !enable(true);
	for (end = now() + ARRIVE_S; now() < end && event_count("tier_promote_success") < all;)
		keep_hot(p, 0.1);
	/* Both have voted by then: an idle address space is scanned every 8 epochs. */
	keep_hot(p, 10);
	ok = ok && right(p, LEN, near);
	sideways = event_count("kmmscand_sideways");
	moved = event_count("kmmscand_target_moved");
	watch->hold = true;
	/* Two votes later it is known, and pages are looked for in the passes after that. */
	for (end = now() + ARRIVE_S; now() < end && event_count("kmmscand_target_moved") == moved;)
		keep_hot(p, 0.1);
	keep_hot(p, 8);
	ksft_print_msg("%ld processes have moved, %ld pages were brought over\n",
		       event_count("kmmscand_target_moved") - moved,
		       event_count("kmmscand_sideways") - sideways);
	ok = ok && event_count("kmmscand_target_moved") > moved && right(p, LEN, near);
	enable(false);
	watch->hold = false;
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	ksft_test_result(ok, "what another process maps stays when one moves\n");
	munmap(p, LEN);
}

/* Page cache goes to the node on which it is read. */
static void read_goes(int to, const char *what)
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
		ok &= move_to_slow(p, LEN) && count_on(p, LEN, slow) == LEN / PAGE;
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
		ok &= right(p, LEN, to);
		munmap(p, LEN);
	}
	ksft_test_result(ok && p != MAP_FAILED, "page cache goes to %s\n", what);
	close(fd);
}

static void test_read(void)
{
	read_goes(far, "where it is read");
}

/* Whoever reads it */
static void test_read_nearest(void)
{
	set("target_mode", "nearest");
	read_goes(near, "the nearest node if that is asked for");
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
	ok = !change(DEMOTION, "0");
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

/* Each page has been written to in each pass. */
static bool all_counted(const struct heater *heater)
{
	uint64_t want;
	size_t i;

	for (i = 0; i < heater->len; i += PAGE) {
		/* map_on() has begun with 1. */
		want = 1 + heater->passes;
		if (i < heater->at)
			want++;
		if (*(uint64_t *)(heater->addr + i) != want)
			return false;
	}
	return true;
}

/* A child that holds the heaters as soon as a page is inaccessible; it takes CPU time. */
static void watch_hints(void)
{
	long above;

	for (;; usleep(500)) {
		above = watch->above;
		if (above >= 0 && event_count("kmmscand_target_hint") > above) {
			watch->hold = true;
			watch->above = -1;
		}
	}
}

/* Until pages have been made inaccessible, and their users are held, if so wanted */
static bool wait_hints(struct heater *heater, long above, bool hold)
{
	double end = now() + ARRIVE_S;

	watch->above = hold ? above : -1;
	while (event_count("kmmscand_target_hint") <= above && now() < end)
		usleep(50000);
	while (hold && !(heater[0].held && heater[1].held) && now() < end)
		usleep(500);
	return now() < end;
}

/* What is inaccessible stays so in a child.  It uses one half, and unmaps the other one. */
static bool counted_by_child(const struct heater *heater)
{
	int status = 0;
	pid_t pid = fork_child();
	bool ok;

	if (!pid) {
		ok = all_counted(heater);
		*heater->addr = 0;
		_exit(!ok);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && !status;
}

#define TOGGLES	4

/*
 * kmmscand is switched off just after hot pages have been made inaccessible, for who uses them
 * to tell.  Nothing is lost, whatever happens to them next, and their users find them
 * accessible, at the price of a fault that is NUMA balancing's then.
 */
static void test_toggle(void)
{
	pid_t pid = start_load(watch_hints);
	char *p = map_slow(4 * HUGE);
	struct heater heater[2] = {};
	long hints, left = 0, faults;
	bool ok, held;
	int i;

	if (!p) {
		stop_load(pid);
		return;
	}
	/* All hot pages are asked for, until one of a page table has told; none is promoted. */
	ok = !set("target_confirm_1in", "1") && !set("hot_threshold", "1");
	ok &= !set("promote_rate_mbps", "0") && !set("scan_period_ms", "200");
	ok &= !change("/proc/sys/kernel/numa_balancing", "0") && run_on(near);
	for (i = 0; i < 2; i++) {
		heater[i] = (struct heater) {
			.addr = p + i * 2 * HUGE, .len = 2 * HUGE, .nid = i ? far : near,
			.writes = true,
		};
		ok &= run_heater(&heater[i]);
	}
	faults = event_count("numa_hint_faults");
	for (i = 0; i < TOGGLES && ok; i++) {
		/* Their users go on accessing them in every other round. */
		held = i % 2;
		ok &= move_to_slow(p, 4 * HUGE);
		hints = event_count("kmmscand_target_hint");
		left -= hints - event_count("kmmscand_target_hint_fault");
		ok &= !enable(true);
		ok &= wait_hints(heater, hints, held);
		ok &= !enable(false);
		left += event_count("kmmscand_target_hint") -
			event_count("kmmscand_target_hint_fault");
		if (held) {
			ok &= counted_by_child(&heater[1]);
			ok &= !mprotect(p, HUGE, PROT_READ);
			ok &= !mprotect(p, HUGE, PROT_READ | PROT_WRITE);
		}
		watch->hold = false;
	}
	ok &= stop_heaters(heater, 2);
	ok &= stop_load(pid);
	faults = event_count("numa_hint_faults") - faults;
	ksft_print_msg("%d rounds, %ld pages left inaccessible, %ld faults later\n", i, left,
		       faults);
	ok &= left > 0 && faults > 0;
	ok &= all_counted(&heater[0]) && all_counted(&heater[1]);
	ksft_test_result(ok, "nothing is lost when it is switched off and on\n");
	unmap_on(p, 4 * HUGE);
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

/* What the files take */
static void test_files(void)
{
	char buf[32];
	bool ok;

	ok = !set("target_mode", "nearest") && !set("target_mode", "vote") &&
	     !set("target_mode", "auto");
	ok &= set("target_mode", "near") == -EINVAL && set("target_mode", "\n") == -EINVAL;
	ok &= !set("target_confirm_1in", "0") && !set("target_confirm_1in", "4096");
	ok &= set("target_confirm_1in", "4097") == -EINVAL;
	ok &= set("target_confirm_1in", "-1") == -EINVAL;
	ok &= read_file(KMMSCAND "target_mode", buf, sizeof(buf)) && !strcmp(buf, "auto");
	ok &= read_file(KMMSCAND "target_confirm_1in", buf, sizeof(buf)) && !strcmp(buf, "4096");
	ksft_test_result(ok, "target_mode and target_confirm_1in take what they should\n");
}

static const struct tier_test tests[] = {
	{ "files", test_files },
	{ "vote", test_vote },
	{ "nearest", test_nearest },
	{ "policy", test_policy },
	{ "task_policy", test_task_policy },
	{ "cpuset", test_cpuset },
	{ "spatial", test_spatial },
	{ "confirm", test_confirm },
	{ "unasked", test_unasked },
	{ "swap", test_swap },
	{ "balancing", test_balancing },
	{ "moved", test_moved },
	{ "shared", test_shared },
	{ "mapped", test_mapped },
	{ "read", test_read },
	{ "read_nearest", test_read_nearest },
	{ "full", test_full },
	{ "toggle", test_toggle },
	{ "socket", test_socket },
};

int main(int argc, char **argv)
{
	begin_kmmscand_tests();
	find_nodes();
	watch = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (watch == MAP_FAILED)
		ksft_exit_fail_msg("mmap: %s\n", strerror(errno));
	watch->above = -1;
	run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	ksft_finished();
}
