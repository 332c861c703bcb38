// SPDX-License-Identifier: GPL-2.0
/*
 * kmmscand: hot pages of the slow node are promoted, cold ones stay, nothing is
 * split or damaged; what it clears stays visible to others, and of the fast node's
 * pages it clears nothing; bad settings are refused, NUMA balancing is warned of; toggling
 * it under load and taking memory away from it are harmless.
 *
 * KMMSCAND_SECONDS is how long "toggle" goes on (default 10).
 *
 * While /sys/kernel/debug/tier/faults/scan_young is set, the tests "young" and "idle" must fail;
 * while scan_cpu is, the test "cpu".
 */
#include "kmmscand_util.h"

#define BALANCING	"/proc/sys/kernel/numa_balancing"
#define HOT		(8UL << 20)
#define COLD		(32UL << 20)
#define FAST		(1024UL * 1024)
#define NR_HOT		(HOT / PAGE)
#define NR_COLD		(COLD / PAGE)
#define NR_FAST		(FAST / PAGE)
#define TIMEOUT_S	90
#define TOGGLE_S	10
#define HOTPLUG_S	15
#define CPU_S		8
/* Pages that page_idle watches, and how often */
#define WATCHED		(4UL << 20)
#define NR_WATCHED	(WATCHED / PAGE)
#define WATCH_ROUNDS	6

static bool refused(const char *file, const char *text)
{
	char path[128], before[64], after[64];
	int err;

	snprintf(path, sizeof(path), TIER_PARTS "%s", file);
	read_file(path, before, sizeof(before));
	err = write_file(path, text);
	read_file(path, after, sizeof(after));
	if (err == -EINVAL && !strcmp(before, after))
		return true;
	ksft_print_msg("%s: \"%s\" gave %d, %s -> %s\n", file, text, err, before, after);
	return false;
}

static void test_bad_input(void)
{
	static const char * const bad[] = {
		"x", "-1", "", " ", "1 1", "0x", "99999999999999999999", "1.5", "on", "2x",
	};
	static const struct {
		const char *file, *below, *above;
	} files[] = {
		{ "scan/enabled", "y", "2" },
		{ "scan/period_ms", "99", "60001" },
		{ "scan/cpu_permille", "0", "1001" },
		{ "promote/enabled", "y", "2" },
		{ "promote/rate_mbps", "0", "65537" },
		{ "promote/cpu_permille", "0", "1001" },
	};
	bool ok = true;
	size_t i, j;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		for (j = 0; j < ARRAY_SIZE(bad); j++) {
			/* write() of nothing never reaches the file */
			if (bad[j][0])
				ok &= refused(files[i].file, bad[j]);
		}
		ok &= refused(files[i].file, files[i].below);
		ok &= refused(files[i].file, files[i].above);
	}
	ksft_test_result(ok, "bad settings are refused and change nothing\n");
}

static void test_settings(void)
{
	char buf[32];
	bool ok;

	ok = !write_file(TIER_PARTS "scan/period_ms", "200\n");
	ok &= read_file(TIER_PARTS "scan/period_ms", buf, sizeof(buf)) && !strcmp(buf, "200");
	ok &= !enable(true) && !enable(true);
	ok &= tier_part_number("scan", "enabled") == 1;
	ok &= tier_part_number("promote", "enabled") == 1;
	ok &= !enable(false) && !enable(false);
	ok &= !tier_part_number("scan", "enabled") && !tier_part_number("promote", "enabled");
	ksft_test_result(ok, "good settings are kept, enabling twice is fine\n");
}

static void test_off(void)
{
	long scanned = event_count("tier_scan_pte");
	char *hot = map_on(HOT, slow, false);
	char reason[256] = "";
	double end;
	bool ok;

	if (!hot) {
		ksft_test_result_skip("no memory on the slow node\n");
		return;
	}
	for (end = now() + 2; now() < end;)
		touch(hot, HOT);
	ok = count_on(hot, HOT, slow) == NR_HOT;
	/* Who only promotes waits for somebody who looks. */
	ok &= tier_part_set("promote", true) >= 0 && tier_part_is("promote", "waiting");
	ok &= tier_part_read("promote", "reason", reason, sizeof(reason)) && *reason;
	for (end = now() + 2; now() < end;)
		touch(hot, HOT);
	ok &= !tier_part_turn("promote", false);
	ok &= count_on(hot, HOT, slow) == NR_HOT && event_count("tier_scan_pte") == scanned;
	ksft_test_result(ok, "disabled: nothing is scanned, nothing moves\n");
	unmap_on(hot, HOT);
}

/* The switch of all parts stops these two, which start again, because both wishes are kept. */
static void test_switch(void)
{
	bool ok = !enable(true) && threads_are_there();

	ok &= tier_part_set(TIER_ALL, false) == 1 && threads_go();
	ok &= tier_part_is("scan", "off") && tier_part_is("promote", "off");
	ok &= tier_part_set(TIER_ALL, true) == 0 && threads_are_there();
	ok &= tier_part_on("scan") && tier_part_on("promote");
	ok &= !enable(false) && threads_go();
	ksft_test_result(ok, "the switch of all parts ends and starts the threads\n");
}

/*
 * Touches the hot pages until nine out of ten are on the fast node.  count_on()
 * asks move_pages(), which does not touch the page itself.
 */
static void find_hot(const char *what, bool huge)
{
	char *hot = map_on(HOT, slow, huge), *cold = map_on(COLD, slow, huge);
	unsigned long moved = 0, cold_moved;
	long before_hot, before_cold;
	double start, next = 0;
	bool ok;

	if (!hot || !cold || (huge && (huge_kb(hot) <= 0 || huge_kb(cold) <= 0))) {
		ksft_test_result_skip("no %s pages on the slow node\n", what);
		return;
	}
	fill(hot, HOT);
	fill(cold, COLD);
	before_hot = huge_kb(hot);
	before_cold = huge_kb(cold);
	if (enable(true)) {
		ksft_test_result_fail("cannot enable\n");
		return;
	}
	start = now();
	while (moved < NR_HOT * 9 / 10 && now() < start + TIMEOUT_S) {
		touch(hot, HOT);
		if (now() >= next) {
			moved = count_on(hot, HOT, fast);
			next = now() + 0.5;
		}
	}
	cold_moved = count_on(cold, COLD, fast);
	ksft_print_msg("%s: %lu of %lu hot and %lu of %lu cold pages promoted in %.1f s\n",
		       what, moved, NR_HOT, cold_moved, NR_COLD, now() - start);
	ok = moved >= NR_HOT * 9 / 10 && cold_moved <= NR_COLD / 100;
	/* Reading and scanning must not have changed anything. */
	if (huge) {
		ksft_print_msg("huge: hot %ld -> %ld kB, cold %ld -> %ld kB\n",
			       before_hot, huge_kb(hot), before_cold, huge_kb(cold));
		ok &= before_hot > 0 && huge_kb(hot) == before_hot;
		ok &= before_cold > 0 && huge_kb(cold) == before_cold;
	}
	enable(false);
	ok &= intact(hot, HOT) && intact(cold, COLD);
	ksft_test_result(ok, "enabled: hot %s pages are promoted, cold ones stay\n", what);
	unmap_on(hot, HOT);
	unmap_on(cold, COLD);
}

static void test_small(void)
{
	find_hot("small", false);
}

static void test_huge(void)
{
	find_hot("huge", true);
}

/*
 * What was accessed before kmmscand was enabled is not hot: pages that were filled
 * once and never touched again stay, even at the lowest threshold.
 */
static void test_stale(void)
{
	char *p = map_on(HOT, slow, false);
	unsigned long moved;
	long scanned;
	bool ok;

	if (!p) {
		ksft_test_result_skip("no memory on the slow node\n");
		return;
	}
	fill(p, HOT);
	scanned = event_count("tier_scan_young");
	ok = !enable(true);
	run_for(3);
	ok &= !enable(false);
	scanned = event_count("tier_scan_young") - scanned;
	moved = count_on(p, HOT, fast);
	ksft_print_msg("%ld accessed pages seen, %lu of %lu promoted\n", scanned, moved,
		       NR_HOT);
	ok &= scanned >= (long)NR_HOT && moved <= NR_HOT / 100;
	ksft_test_result(ok, "what was accessed long ago is not promoted\n");
	unmap_on(p, HOT);
}

/* With much to scan all the time, scanning still keeps to its share of CPU time. */
static void test_cpu(void)
{
	char comm[32], old[32];
	double start, used, share;
	char *p = map_on(COLD, slow, false);
	bool ok;

	if (!p) {
		ksft_test_result_skip("no memory on the slow node\n");
		return;
	}
	snprintf(comm, sizeof(comm), "kmmscand%d", fast);
	read_file(TIER_PARTS "scan/cpu_permille", old, sizeof(old));
	set_share("scan/cpu_permille", 1);
	write_file(TIER_PARTS "scan/period_ms", "100");
	only_look();
	ok = !enable(true);
	start = now();
	used = thread_seconds(comm);
	ok &= used >= 0;
	while (now() < start + CPU_S)
		touch(p, COLD);
	used = thread_seconds(comm) - used;
	share = used / (now() - start);
	ksft_print_msg("%s used %.2f %% of a CPU\n", comm, share * 100);
	/* A slice is not interrupted: that much can be too much at the end. */
	ksft_test_result(ok && used > 0 && share < 0.02,
			 "scanning keeps to its share of CPU time\n");
	enable(false);
	write_file(TIER_PARTS "scan/cpu_permille", old);
	write_file(TIER_PARTS "scan/period_ms", "200");
	unmap_on(p, COLD);
}

static bool is_idle(uint64_t pfn)
{
	uint64_t bits = 0;
	int fd = open(PAGE_IDLE, O_RDONLY);

	if (fd < 0)
		return false;
	if (pread(fd, &bits, sizeof(bits), pfn / 64 * sizeof(bits)) != sizeof(bits))
		bits = 0;
	close(fd);
	return bits & 1ULL << pfn % 64;
}

/*
 * The Accessed bits that kmmscand clears stay visible to others: smaps shows the
 * Accessed bit or PG_young, and page_idle tells an access since it was asked to
 * watch.
 */
static void test_young(void)
{
	char *p = map_on(HOT, slow, false);
	long young, before, after;
	bool watched, ok;

	if (!p) {
		ksft_test_result_skip("no memory on the slow node\n");
		return;
	}
	/* Nothing is promoted: a page on the fast node would prove nothing. */
	only_look();
	/* Forget the past, also PG_referenced and PG_young. */
	ok = !write_file("/proc/self/clear_refs", "1");
	before = referenced_kb(p);
	ok &= before <= (long)(HOT / 1024 / 100);
	watched = set_idle(pfn_of(p));
	/* Out of the TLB: the processor sets the bits only when it walks. */
	mprotect(p, HOT, PROT_READ);
	mprotect(p, HOT, PROT_READ | PROT_WRITE);
	touch(p, HOT);
	young = event_count("tier_scan_young");
	ok &= !enable(true);
	run_for(3);
	ok &= !enable(false);
	young = event_count("tier_scan_young") - young;
	after = referenced_kb(p);
	ksft_print_msg("%ld accessed pages seen, referenced %ld -> %ld kB\n", young, before,
		       after);
	ok &= young >= (long)NR_HOT && after == HOT / 1024;
	ok &= count_on(p, HOT, slow) == NR_HOT;
	if (watched && is_idle(pfn_of(p))) {
		ksft_print_msg("page_idle was not told of the access\n");
		ok = false;
	}
	ksft_test_result(ok, "accesses that kmmscand has seen are not lost to others\n");
	unmap_on(p, HOT);
}

/* How many of the frames have PG_idle set?  Looks at no Accessed bit, unlike is_idle(). */
static unsigned long count_idle(const uint64_t *pfns, unsigned long nr)
{
	unsigned long n = 0;
	uint64_t flags;

	for (; nr--; pfns++)
		n += read_kpageflags(*pfns, 1, &flags) && flags >> KPF_IDLE & 1;
	return n;
}

/*
 * With an Accessed bit kmmscand clears PG_idle.  So what has been accessed, and still has
 * PG_idle set after some passes, is as the processor has left it.
 */
static void test_fast(void)
{
	char *p = map_on(FAST, fast, false), *q = map_on(HOT, slow, false);
	unsigned long i, before, after, accessed = 0;
	uint64_t pfns[NR_FAST];
	long young;
	bool ok;

	if (!p || !q) {
		ksft_test_result_skip("no memory on one of the nodes\n");
		goto unmap;
	}
	for (i = 0; i < NR_FAST; i++) {
		pfns[i] = pfn_of(p + i * PAGE);
		set_idle(pfns[i]);
	}
	before = count_idle(pfns, NR_FAST);
	if (!before) {
		ksft_test_result_skip("no page_idle (CONFIG_IDLE_PAGE_TRACKING)\n");
		goto unmap;
	}
	/* Out of the TLB, as above */
	mprotect(p, FAST, PROT_READ);
	mprotect(p, FAST, PROT_READ | PROT_WRITE);
	touch(p, FAST);
	only_look();
	young = event_count("tier_scan_young");
	ok = !enable(true);
	run_for(3);
	ok &= !enable(false);
	young = event_count("tier_scan_young") - young;
	after = count_idle(pfns, NR_FAST);
	for (i = 0; i < NR_FAST; i++)
		accessed += !is_idle(pfns[i]);
	ksft_print_msg("%ld accessed slow pages seen, of %lu fast ones %lu left alone\n", young,
		       before, after);
	/* A few may wait in a per-CPU batch, where page_idle leaves them out. */
	ok &= young >= (long)NR_HOT && before >= NR_FAST * 8 / 10;
	ok &= after >= before * 99 / 100 && accessed >= NR_FAST * 99 / 100;
	ksft_test_result(ok, "Accessed bits of fast pages stay as they are\n");
unmap:
	if (p)
		unmap_on(p, FAST);
	if (q)
		unmap_on(q, HOT);
}

/* Address spaces come, grow, shrink, exec and go. */
static void load_fork(void)
{
	for (;;) {
		pid_t pid = fork_child();
		int status;

		if (!pid) {
			char *p = map_on(HOT / 4, slow, false);

			if (!p)
				_exit(2);
			fill(p, HOT / 4);
			if (!intact(p, HOT / 4))
				_exit(1);
			munmap(p, HOT / 8);
			execl("/bin/true", "true", NULL);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) < 0 || !WIFEXITED(status) ||
		    WEXITSTATUS(status))
			exit(1);
	}
}

/* Huge mappings are split, moved, collapsed and dropped under the scanner. */
static void load_huge(void)
{
	for (;;) {
		char *p = map_on(2 * HUGE, slow, true);

		if (!p)
			exit(2);
		fill(p, 2 * HUGE);
		mprotect(p + HUGE / 2, PAGE, PROT_READ);
		if (!intact(p, 2 * HUGE))
			exit(1);
		mprotect(p + HUGE / 2, PAGE, PROT_READ | PROT_WRITE);
		madvise(p, 2 * HUGE, MADV_COLLAPSE);
		if (!intact(p, 2 * HUGE))
			exit(1);
		unmap_on(p, 2 * HUGE);
	}
}

static void test_toggle(void)
{
	static void (* const load[])(void) = { load_touch, load_fork, load_huge };
	const int nr = ARRAY_SIZE(load);
	double end = now() + test_seconds(TOGGLE_S);
	long moved = event_count("tier_promote_success");
	unsigned int toggles = 0;
	bool ok = true;
	pid_t pids[3];
	int i;

	for (i = 0; i < nr; i++)
		pids[i] = start_load(load[i]);
	while (now() < end) {
		ok &= !enable(true);
		/* Mostly too short to promote anything, but not always */
		usleep(toggles % 16 == 15 ? 4000000 : 100000 + toggles % 7 * 50000);
		ok &= !enable(false);
		toggles++;
	}
	for (i = 0; i < nr; i++)
		ok &= stop_load(pids[i]);
	moved = event_count("tier_promote_success") - moved;
	ksft_print_msg("%u times on and off, %ld pages promoted\n", toggles, moved);
	ksft_test_result(ok, "toggled under load, nothing lost\n");
}

/*
 * Memory of the slow node goes offline and comes back while its pages are scanned
 * and promoted.
 */
static void test_hotplug(void)
{
	double end = now() + HOTPLUG_S;
	int blocks[64], nr, i, off = 0, failed = 0;
	pid_t pids[2];
	bool ok;

	nr = slow_blocks(blocks, ARRAY_SIZE(blocks));
	if (!nr) {
		ksft_test_result_skip("no removable memory on the slow node\n");
		return;
	}
	pids[0] = start_load(load_touch);
	pids[1] = start_load(load_fork);

	ok = !enable(true);
	for (i = 0; nr && now() < end; i++) {
		if (set_block_offline(blocks[i % nr])) {
			/* It holds something that does not move: no use to insist. */
			failed++;
			blocks[i % nr] = blocks[nr - 1];
			nr--;
		} else {
			off++;
			ok &= !set_block(blocks[i % nr], "online");
		}
	}
	ok &= !enable(false);
	for (i = 0; i < 2; i++)
		ok &= stop_load(pids[i]);
	ksft_print_msg("%d of %d attempts to take a block offline succeeded\n", off,
		       off + failed);
	if (ok && !off)
		ksft_test_result_skip("no block could be taken offline\n");
	else
		ksft_test_result(ok, "memory goes offline and comes back under kmmscand\n");
}

/* Mark all pages idle, as a tracker does.  False if there is no page_idle. */
static bool watch_all(char *p, uint64_t *pfns)
{
	unsigned long i;

	for (i = 0; i < NR_WATCHED; i++) {
		pfns[i] = pfn_of(p + i * PAGE);
		if (!pfns[i] || !set_idle(pfns[i]))
			return false;
	}
	/* Out of the TLB, which page_idle does not do */
	return !mprotect(p, WATCHED, PROT_READ) && !mprotect(p, WATCHED, PROT_READ | PROT_WRITE);
}

/*
 * A tracker marks pages idle and looks after some epochs which of them still are.  Those that
 * have been used are not, whether kmmscand has taken their Accessed bits just before, or some
 * epochs ago; and those that have not been used are.
 */
static void test_idle(void)
{
	char *p = map_on(WATCHED, slow, false), *cold = map_on(WATCHED, slow, false);
	unsigned long i, idle[2] = {}, cold_idle = 0, asked = NR_WATCHED * WATCH_ROUNDS / 2;
	uint64_t *pfns = calloc(2 * NR_WATCHED, sizeof(*pfns));
	uint64_t *cold_pfns = pfns + NR_WATCHED;
	long young;
	double end;
	bool ok;
	int n;

	if (!p || !cold || !pfns || !watch_all(p, pfns)) {
		ksft_test_result_skip("no page_idle (CONFIG_IDLE_PAGE_TRACKING)\n");
		goto out;
	}
	/* What is promoted is another page, of which nobody has asked. */
	only_look();
	young = event_count("tier_scan_young");
	ok = !enable(true);
	for (n = 0; ok && n < WATCH_ROUNDS; n++) {
		ok &= watch_all(p, pfns) && watch_all(cold, cold_pfns);
		for (end = now() + 1; now() < end; usleep(50000))
			touch(p, WATCHED);
		/* Every other time kmmscand has the last word. */
		if (n % 2)
			sleep(1);
		for (i = 0; i < NR_WATCHED; i++)
			idle[n % 2] += is_idle(pfns[i]);
		for (i = 0; i < NR_WATCHED; i++)
			cold_idle += is_idle(cold_pfns[i]);
	}
	ok &= !enable(false);
	young = event_count("tier_scan_young") - young;
	ksft_print_msg("%ld accessed pages seen; of %lu used ones %lu are idle, or %lu later\n",
		       young, asked, idle[0], idle[1]);
	ksft_print_msg("of %lu unused ones %lu are idle\n", 2 * asked, cold_idle);
	ok &= young >= (long)asked && count_on(p, WATCHED, slow) == NR_WATCHED;
	ok &= idle[0] <= asked / 50 && idle[1] <= asked / 50;
	/* A few may wait in a per-CPU batch, where page_idle leaves them out. */
	ok &= cold_idle >= 2 * asked * 9 / 10;
	ksft_test_result(ok, "page_idle is told of what is used, while kmmscand scans\n");
out:
	free(pfns);
	if (p)
		unmap_on(p, WATCHED);
	if (cold)
		unmap_on(cold, WATCHED);
}

/* Enable kmmscand.  Does it say something of NUMA balancing then? */
static bool warns(int log)
{
	bool found = false;
	char line[1024];
	ssize_t len;

	lseek(log, 0, SEEK_END);
	if (enable(true))
		return false;
	for (;;) {
		len = read(log, line, sizeof(line) - 1);
		if (len < 0 && errno == EPIPE)
			continue;	/* overwritten meanwhile */
		if (len <= 0)
			break;
		line[len] = '\0';
		found |= strstr(line, "kmmscand:") && strstr(line, "NUMA balancing");
	}
	enable(false);
	return found;
}

/* Its hint faults go on.  Whoever enables kmmscand to have none is told. */
static void test_numa_balancing(void)
{
	int log = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	bool off, on, tiering;

	if (log < 0 || change(BALANCING, "0")) {
		ksft_test_result_skip("no CONFIG_NUMA_BALANCING, or no /dev/kmsg\n");
		goto out;
	}
	off = warns(log);
	write_file(BALANCING, "1");
	on = warns(log);
	write_file(BALANCING, "2");
	tiering = warns(log);
	ksft_print_msg("warned with 0: %d, 1: %d, 2: %d\n", off, on, tiering);
	ksft_test_result(!off && on && tiering, "enabling warns of NUMA balancing\n");
out:
	if (log >= 0)
		close(log);
}

static const struct tier_test tests[] = {
	{ "bad_input", test_bad_input },
	{ "settings", test_settings },
	{ "off", test_off },
	{ "switch", test_switch },
	{ "small", test_small },
	{ "huge", test_huge },
	{ "stale", test_stale },
	{ "young", test_young },
	{ "idle", test_idle },
	{ "fast", test_fast },
	{ "cpu", test_cpu },
	{ "numa_balancing", test_numa_balancing },
	{ "toggle", test_toggle },
	{ "hotplug", test_hotplug },
};

int main(int argc, char **argv)
{
	begin_kmmscand_tests();
	/* Emulated machines are slow enough without waiting for rounds. */
	change(TIER_PARTS "scan/period_ms", "200");
	run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	ksft_finished();
}
