// SPDX-License-Identifier: GPL-2.0
/*
 * Demotion of idle pages by hand, through /sys/kernel/debug/tier/demote: idle pages go, pages in
 * use stay, and so do mlocked pages and those of a group that memory.min, memory.low or the cpuset
 * protects.  All arrive intact.
 *
 * While /sys/kernel/debug/tier/faults/promote_spare is set, the tests "low" and "min" must fail.
 */
#include <stdatomic.h>

#include "tier_fill.h"
#include "tier_process.h"

#define DEMOTE		"/sys/kernel/debug/tier/demote"
#define CGROUPS		"/tmp/demote_test"
#define GROUP		CGROUPS "/group"
#define LRU_GEN		"/sys/kernel/mm/lru_gen/enabled"
#define SIZE		(8UL << 20)
#define NR		(SIZE / PAGE)
/* For so long a page has to be idle, and until a child is ready */
#define IDLE_MS		1000
#define READY_S		30

static int fast, slow;

/* What the child has, and what it finds at the end */
struct child {
	atomic_bool ready, stop;
	bool lock;
	unsigned long idle_fast, used_fast;
};

/* Use half of the memory all the time, and the other half not at all. */
static void be_child(struct child *c, const char *mems)
{
	char *idle, *used;
	size_t i;

	if (mems && !enter_cpuset(CGROUPS, "group", mems))
		_exit(2);
	if (!mems && write_file(GROUP "/cgroup.procs", "0"))
		_exit(2);
	idle = map_on(SIZE, fast, false);
	used = map_on(SIZE, fast, false);
	if (!idle || !used || count_on(idle, SIZE, fast) != NR || count_on(used, SIZE, fast) != NR)
		_exit(2);
	fill(idle, SIZE);
	fill(used, SIZE);
	if (c->lock && mlock(idle, SIZE))
		_exit(2);
	c->ready = true;
	while (!c->stop) {
		for (i = 0; i < SIZE; i += PAGE)
			asm volatile("" : : "r" (used[i]) : "memory");
		usleep(1000);
	}
	c->idle_fast = count_on(idle, SIZE, fast);
	c->used_fast = count_on(used, SIZE, fast);
	_exit(intact(idle, SIZE) && intact(used, SIZE) ? 0 : 1);
}

/* Demote all that is idle. */
static void demote_all(void)
{
	char buf[64];

	/* There is less, so it fails when all has gone. */
	snprintf(buf, sizeof(buf), "%d %lu %d", fast, 1UL << 30, IDLE_MS);
	write_file(DEMOTE, buf);
}

/*
 * Demote while a child of the group has memory.  Returns false if that cannot be tried.  Without
 * @mems the group may have memory of all nodes.
 */
static bool try(struct child *c, const char *protect, const char *mems, bool *ok)
{
	int status = 0;
	double end;
	pid_t pid;

	c->ready = false;
	c->stop = false;
	if (write_file(CGROUPS "/cgroup.subtree_control", "+memory"))
		return false;
	if (protect && write_file(protect, "max"))
		return false;
	pid = fork_child();
	if (!pid)
		be_child(c, mems);
	for (end = now() + READY_S; !c->ready && now() < end; usleep(20000))
		if (waitpid(pid, &status, WNOHANG))
			return false;
	demote_all();
	c->stop = true;
	*ok = waitpid(pid, &status, 0) == pid && !status;
	if (protect)
		write_file(protect, "0");
	ksft_print_msg("of %lu pages each, %lu idle and %lu used ones are on the fast node\n", NR,
		       c->idle_fast, c->used_fast);
	return true;
}

/* What is in use stays; @stays: so does what is idle. */
static void test(const char *protect, const char *mems, bool lock, bool stays, const char *what)
{
	struct child *c = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			       0);
	bool ok, tried;

	if (c == MAP_FAILED || !mount_group(CGROUPS, "group")) {
		ksft_test_result_skip("no control groups: %s\n", strerror(errno));
		return;
	}
	c->lock = lock;
	tried = !change(DEMOTION, "1") && try(c, protect, mems, &ok);
	umount_group(CGROUPS, "group");
	if (!tried) {
		ksft_test_result_skip("no memory controller, or no memory\n");
		return;
	}
	/* A few are in the batches of CPUs, or isolated. */
	ok &= c->used_fast >= NR * 9 / 10;
	if (stays)
		ok &= c->idle_fast == NR;
	else
		ok &= c->idle_fast <= NR / 10;
	ksft_test_result(ok, "%s\n", what);
	munmap(c, PAGE);
}

static void test_idle(void)
{
	test(NULL, NULL, false, false, "idle pages go, pages in use stay");
}

static void test_low(void)
{
	test(GROUP "/memory.low", NULL, false, true, "memory.low keeps idle pages");
}

static void test_min(void)
{
	test(GROUP "/memory.min", NULL, false, true, "memory.min keeps idle pages");
}

static void test_cpuset(void)
{
	char mems[16];

	snprintf(mems, sizeof(mems), "%d", fast);
	test(NULL, mems, false, true, "a cpuset without the slow node keeps idle pages");
}

static void test_mlocked(void)
{
	test(NULL, NULL, true, true, "mlocked pages stay");
}

/* Without generations nothing is known of the time, but pages go, and nothing is lost. */
static void test_classic(void)
{
	long demoted = event_count("tier_demote_success"), swapped = event_count("pswpout");
	char *p = map_on(SIZE, fast, false);
	bool ok;
	int i;

	if (!p || change(LRU_GEN, "0") || change(DEMOTION, "1")) {
		ksft_test_result_skip("no memory, or no " LRU_GEN "\n");
		return;
	}
	fill(p, SIZE);
	for (i = 0; i < 20 && count_on(p, SIZE, slow) < NR / 2; i++)
		demote_all();
	ksft_print_msg("%ld pages demoted, %lu of them ours\n",
		       event_count("tier_demote_success") - demoted, count_on(p, SIZE, slow));
	ok = count_on(p, SIZE, slow) >= NR / 2 && event_count("pswpout") == swapped;
	ok &= intact(p, SIZE);
	ksft_test_result(ok, "the classic LRU demotes, and swaps nothing out\n");
	unmap_on(p, SIZE);
}

static const struct tier_test tests[] = {
	{ "idle", test_idle },
	{ "low", test_low },
	{ "min", test_min },
	{ "cpuset", test_cpuset },
	{ "mlocked", test_mlocked },
	{ "classic", test_classic },
};

int main(int argc, char **argv)
{
	ksft_print_header();
	if (geteuid())
		ksft_exit_skip("needs root\n");
	if (access(DEMOTE, W_OK))
		ksft_exit_skip("no " DEMOTE " (CONFIG_TIER_DEBUG, mounted debugfs)\n");
	if (!find_tiers(&fast, &slow))
		ksft_exit_skip("no slow memory tier\n");

	ksft_print_msg("fast node %d, slow node %d\n", fast, slow);
	run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	ksft_finished();
}
