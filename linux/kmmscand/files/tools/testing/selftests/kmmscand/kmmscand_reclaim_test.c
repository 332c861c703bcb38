// SPDX-License-Identifier: GPL-2.0
/*
 * kmmscand and reclaim, with NUMA balancing off: promotion leaves what is below the high
 * watermark of a fast node alone; kpromoted makes room for it by demotion, and only if that is
 * enabled.  Of a promoted page PG_young is cleared, where it would only repeat what the generation
 * says.  Memory of a control group is neither demoted out of its cpuset nor swapped out only to
 * make room for promotions ("keep": promote_keep).  A process that cannot be asked is left out.
 * Demotion is enabled by the file of NUMA balancing in one test, by the part "demote" in another.
 *
 * A node with room in any of its zones counts as one that has room.  So that all is about the
 * largest one, the others are reserved.
 */
#define _GNU_SOURCE
#include <stdatomic.h>

#include "kmmscand_hot.h"
#include "../tier/tier_disk.h"
#include "../tier/tier_fill.h"

#define MB		(1024UL * 1024)
#define VM		"/proc/sys/vm/"
#define BALANCING	"/proc/sys/kernel/numa_balancing"
#define LRU_GEN		"/sys/kernel/debug/lru_gen"
#define DEMOTE_PART	TIER_PARTS "demote/enabled"
#define CGROUPS		"/tmp/kmmscand_reclaim_test"
#define LRU_GEN_ENABLED	"/sys/kernel/mm/lru_gen/enabled"

/* Hot, slow at first */
#define SET		(24 * MB)
/* Pages of it that fit above the high watermark */
#define SPACE		2048

/* Of a group that is confined to the fast node, and how long it is watched */
#define CONFINED	(128 * MB)
#define KEEP_S		20
/* Hot meanwhile, so much that some of it would surely be demoted if it could be */
#define DEMANDED	(48 * MB)

/* Of a process that cannot be asked: more than there is room, and until it is left out */
#define REFUSED		(16 * MB)
#define REFUSED_S	8

/* With PG_young */
#define YOUNG		(64 * PAGE)

/* Until demotion has made room for what is hot */
#define DEMOTE_S	60
/* Until a child is ready */
#define SETTLE_S	40

/* How long nothing must be promoted */
#define STAY_S		12
static char *hog;
static size_t hog_len;

/* Fill the fast node, but for @space pages above its high watermark. */
static bool fill_fast(long space)
{
	size_t used;

	write_file(VM "drop_caches", "3");
	hog = fill_node(fast, &hog_len);
	if (!hog)
		return false;
	for (used = 0; used < hog_len / 2 && room(fast) < space; used += MB / 4) {
		madvise(hog + used, MB / 4, MADV_DONTNEED);
		usleep(10000);
	}
	return room(fast) >= space;
}

static void empty_fast(void)
{
	if (hog)
		munmap(hog, hog_len);
	hog = NULL;
}

/* Nothing is demoted, and the watermarks are so many ten thousandths of a node apart. */
static bool prepare(const char *scale)
{
	/* Which may not be there */
	change(BALANCING, "0");
	return !no_demotion() && !change(VM "watermark_boost_factor", "0") &&
	       !change(VM "lowmem_reserve_ratio", "1 1") &&
	       !change(VM "watermark_scale_factor", scale) && !change(PCP_HIGH, "1000");
}

static void test_watermark(void)
{
	char *p = map_on(SET, slow, false);
	long demoted, scanned, left, space;
	unsigned long moved;
	bool ok;

	if (!p || count_on(p, SET, slow) < SET / PAGE) {
		ksft_test_result_skip("no memory on the slow node\n");
		goto unmap;
	}
	fill(p, SET);
	if (!prepare("100") || !fill_fast(SPACE)) {
		ksft_test_result_skip("cannot fill the fast node\n");
		goto empty;
	}
	sleep(1);
	space = room(fast);
	demoted = event_count("tier_demote_success");
	scanned = event_count("pgscan_kswapd");
	ok = !enable(true);
	warm(p, SET, 8);
	moved = count_on(p, SET, fast);
	left = room(fast);
	scanned = event_count("pgscan_kswapd") - scanned;
	demoted = event_count("tier_demote_success") - demoted;
	ksft_print_msg("of %ld pages %ld are left, %lu promoted; kswapd scanned %ld, %ld demoted\n",
		       space, left, moved, scanned, demoted);
	/* Per-CPU lists blur it a bit. */
	ok &= (long)moved >= space / 4 && (long)moved <= space + 512 && left > -256;
	ok &= !scanned && !demoted;

	/* The same with demotion */
	ok &= !change(DEMOTION, "1");
	demoted = event_count("tier_demote_success");
	moved = keep_hot(p, SET, DEMOTE_S, 75);
	demoted = event_count("tier_demote_success") - demoted;
	ksft_print_msg("%lu of %lu pages promoted, %ld demoted\n", moved, SET / PAGE,
		       demoted);
	ok &= moved >= SET / PAGE * 3 / 4 && demoted > 0;
	ok &= !enable(false);
	ok &= intact(p, SET);
	ksft_test_result(ok, "promotion stays above the high watermark, or demotion makes room\n");
empty:
	empty_fast();
unmap:
	if (p)
		unmap_on(p, SET);
}

static int promote_page(const char *addr)
{
	return promote(pfn_of(addr), 1, fast);
}

/* A process of a confined group, and what it finds out when it is told to */
struct confined {
	atomic_bool ready, stop;
	unsigned long on_fast, on_slow;
};

/* Has memory, does not use it, and looks where it is. */
static void be_confined(struct confined *c)
{
	char mems[16], *p;

	snprintf(mems, sizeof(mems), "%d", fast);
	/* Demotion knows the group by what the memory is charged to. */
	if (write_file(CGROUPS "/cgroup.subtree_control", "+memory") ||
	    !enter_cpuset(CGROUPS, "fast", mems))
		_exit(2);
	p = map_on(CONFINED, fast, false);
	if (!p || count_on(p, CONFINED, fast) != CONFINED / PAGE)
		_exit(2);
	fill(p, CONFINED);
	c->ready = true;
	while (!c->stop)
		usleep(50000);
	c->on_fast = count_on(p, CONFINED, fast);
	c->on_slow = count_on(p, CONFINED, slow);
	_exit(intact(p, CONFINED) ? 0 : 1);
}

/*
 * What is hot has room only if something is demoted.  The coldest memory may not leave the fast
 * node, by the cpuset of its control group; but there is other memory that may.
 */
static void test_keep(void)
{
	struct confined *c = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				  -1, 0);
	long demoted, others;
	char *p = NULL;
	unsigned long moved;
	int status = 0;
	pid_t pid;
	double end;
	bool ok;

	/* Swap to a disk in memory needs some, which the fast node does not have. */
	if (c == MAP_FAILED || !make_swap()) {
		ksft_test_result_skip("no swap on " DISK "\n");
		goto unmap;
	}
	if (!mount_group(CGROUPS, "fast")) {
		ksft_test_result_skip("no control groups: %s\n", strerror(errno));
		goto swapoff;
	}
	pid = fork_child();
	if (!pid)
		be_confined(c);
	for (end = now() + SETTLE_S; !c->ready && now() < end; usleep(50000))
		if (waitpid(pid, &status, WNOHANG))
			break;
	/* Not before the child has entered the group, which takes along what it shares with us. */
	p = map_on(DEMANDED, slow, false);
	if (p)
		fill(p, DEMANDED);
	if (!c->ready || !p || count_on(p, DEMANDED, slow) < DEMANDED / PAGE) {
		ksft_test_result_skip("no cpuset and memory controllers, or no memory\n");
		goto stop;
	}
	if (!prepare("300") || change(DEMOTE_PART, "1") || !fill_fast(SPACE)) {
		ksft_test_result_skip("cannot fill the fast node\n");
		goto stop;
	}
	demoted = event_count("tier_demote_success");
	ok = !enable(true) && tier_part_on("demote");
	end = now() + KEEP_S;
	moved = keep_hot(p, DEMANDED, DEMOTE_S, 75);
	/* kpromoted goes on to look for victims. */
	while (now() < end)
		warm(p, DEMANDED, 1);
	demoted = event_count("tier_demote_success") - demoted;
	others = count_on(hog, hog_len, slow);
	ok &= zone_value(fast, UNRECLAIMABLE) != 1;
	ok &= !enable(false);
	c->stop = true;
	ok &= waitpid(pid, &status, 0) == pid && !status;
	ksft_print_msg("%lu of %lu hot pages promoted; %ld demoted, %ld of them ours\n",
		       moved, DEMANDED / PAGE, demoted, others);
	ksft_print_msg("of %lu confined pages %lu are on the fast node, %lu on the slow one\n",
		       CONFINED / PAGE, c->on_fast, c->on_slow);
	ok &= moved >= DEMANDED / PAGE * 3 / 4 && demoted > 0 && others > 0;
	ok &= c->on_fast == CONFINED / PAGE && !c->on_slow && intact(p, DEMANDED);
	ksft_test_result(ok, "memory of a cpuset is neither demoted nor swapped for promotions\n");
stop:
	if (!c->stop && pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	empty_fast();
	umount_group(CGROUPS, "fast");
swapoff:
	remove_swap();
unmap:
	if (p)
		unmap_on(p, DEMANDED);
	if (c != MAP_FAILED)
		munmap(c, PAGE);
}

/* Shares the memory of a process, and is no thread of it. */
static int sleep_on(void *unused)
{
	(void)unused;
	return pause();
}

/* Has memory that is hot, and may go to each node if its tasks could be asked, which they cannot */
static void be_refused(struct confined *c)
{
	unsigned long mask = 1UL << fast | 1UL << slow;
	static long stack[8192];
	pid_t pid;
	char *p;

	p = map_on(REFUSED, slow, false);
	if (!p || syscall(__NR_set_mempolicy, MPOL_BIND, &mask, (unsigned long)MAX_NODES + 1))
		_exit(2);
	pid = clone(sleep_on, stack + ARRAY_SIZE(stack), CLONE_VM | SIGCHLD, NULL);
	fill(p, REFUSED);
	c->ready = pid > 0;
	while (!c->stop)
		touch_and_rest(p, REFUSED);
	kill(pid, SIGKILL);
	c->on_slow = count_on(p, REFUSED, slow);
	_exit(intact(p, REFUSED) ? 0 : 1);
}

/*
 * The fast node has room for some pages.  A process has more that are hot, and may not move.  They
 * are tried in some visits, and then left out.
 */
static void test_refused(void)
{
	struct confined *c = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				  -1, 0);
	long tried, again;
	pid_t pid = -1;
	char *p;
	double end;
	int status;
	bool ok;

	if (c != MAP_FAILED)
		pid = fork_child();
	if (!pid)
		be_refused(c);
	/* The child must not have it. */
	p = map_on(MB, slow, false);
	for (end = now() + SETTLE_S; pid > 0 && !c->ready && now() < end;)
		usleep(50000);
	if (pid < 0 || !p || !c->ready || !prepare("100") || !fill_fast(SPACE)) {
		ksft_test_result_skip("cannot prepare the memory\n");
		goto stop;
	}
	fill(p, MB);
	tried = event_count("tier_promote_fail_policy");
	ok = !enable(true);
	for (end = now() + SETTLE_S; now() < end; sleep(1))
		if (event_count("tier_promote_fail_policy") - tried > (long)(REFUSED / PAGE / 2))
			break;
	ok &= now() < end;
	/* Others' pages arrive while they are refused. */
	ok = ok && rises(p, MB);
	sleep(REFUSED_S);
	again = event_count("tier_promote_fail_policy");
	tried = again - tried;
	sleep(REFUSED_S);
	again = event_count("tier_promote_fail_policy") - again;
	enable(false);
	c->stop = true;
	ok &= waitpid(pid, &status, 0) == pid && !status;
	ksft_print_msg("of %lu hot pages %lu stayed, tried %ld times and %ld times later\n",
		       REFUSED / PAGE, c->on_slow, tried, again);
	ok &= c->on_slow == REFUSED / PAGE && !again && intact(p, MB);
	pid = -1;
	ksft_test_result(ok, "a process that cannot be asked is left out\n");
stop:
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	empty_fast();
	if (p)
		unmap_on(p, MB);
	if (c != MAP_FAILED)
		munmap(c, PAGE);
}

/* Let MGLRU walk the page tables for the pages of a node, as if reclaim needed it. */
static bool age(int nid)
{
	unsigned long seq, newest = 0;
	char line[256], path[128];
	unsigned int id, root = 0;
	bool here = false;
	int node = -1;
	FILE *f = fopen(LRU_GEN, "r");

	if (!f)
		return false;
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "memcg %u %127s", &id, path) == 2) {
			here = !strcmp(path, "/");
			if (here)
				root = id;
		} else if (sscanf(line, " node %d", &node) != 1 && here && node == nid &&
			   sscanf(line, " %lu", &seq) == 1) {
			newest = seq;
		}
	}
	fclose(f);
	/* Anonymous pages, too, and all page tables */
	snprintf(line, sizeof(line), "+ %u %d %lu 1 1", root, nid, newest);
	return !write_file(LRU_GEN, line);
}

/*
 * Have page_idle turn Accessed bits into PG_young, let some generations begin, and promote.
 * Returns how many kB count as recently used afterwards, or -1 if that cannot be done.
 */
static long young_left(unsigned int generations)
{
	char *p = map_on(YOUNG, slow, false);
	long before = 0, after = -1;
	unsigned long i;
	bool ok;

	if (!p)
		return -1;
	/* Is refused, and brings all pages to their lists. */
	promote(1, 1, fast);
	ok = !write_file("/proc/self/clear_refs", "1");
	mprotect(p, YOUNG, PROT_READ);
	mprotect(p, YOUNG, PROT_READ | PROT_WRITE);
	touch(p, YOUNG);
	for (i = 0; i < YOUNG; i += PAGE)
		ok &= set_idle(pfn_of(p + i));
	for (; ok && generations; generations--)
		ok = age(slow);
	before = referenced_kb(p);
	for (i = 0; i < YOUNG; i += PAGE)
		promote_page(p + i);
	if (ok && before == YOUNG / 1024 && count_on(p, YOUNG, fast) == YOUNG / PAGE)
		after = referenced_kb(p);
	unmap_on(p, YOUNG);
	return after;
}

/*
 * A promoted page comes to MGLRU's youngest generation if it was in a young one.  PG_young, which
 * would spare it a second time, is then cleared.  Else it is what tells of an access.
 */
static void test_young(void)
{
	long young, old, classic;

	if (access(PAGE_IDLE, W_OK) || access(PROMOTE, W_OK) || access(LRU_GEN, W_OK) ||
	    change(LRU_GEN_ENABLED, "7")) {
		ksft_test_result_skip("no page_idle, MGLRU, CONFIG_TIER_DEBUG or debugfs\n");
		return;
	}
	young = young_left(0);
	old = young_left(2);
	write_file(LRU_GEN_ENABLED, "0");
	classic = young_left(0);
	write_file(LRU_GEN_ENABLED, "7");
	ksft_print_msg("of %lu kB %ld are young, %ld if aged twice, %ld without MGLRU\n",
		       YOUNG / 1024, young, old, classic);
	ksft_test_result(!young && old == YOUNG / 1024 && classic == YOUNG / 1024,
			 "PG_young is cleared where the generation says it all\n");
}

static const struct tier_test tests[] = {
	{ "watermark", test_watermark },
	{ "keep", test_keep },
	{ "refused", test_refused },
	{ "young", test_young },
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
