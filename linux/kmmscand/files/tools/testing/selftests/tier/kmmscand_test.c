// SPDX-License-Identifier: GPL-2.0
/*
 * kmmscand: hot pages of the slow node are promoted, cold ones stay, nothing is
 * split or damaged; bad settings are refused; toggling it under load is harmless.
 */
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#include "tier_util.h"

#define DIR		"/sys/kernel/mm/kmmscand/"
#define HOT		(8UL << 20)
#define COLD		(32UL << 20)
#define NR_HOT		(HOT / PAGE)
#define NR_COLD		(COLD / PAGE)
#define TIMEOUT_S	90
#define TOGGLE_S	10

static int fast, slow;
static char old_period[32], old_threshold[32];

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec + ts.tv_nsec / 1e9;
}

static int enable(bool on)
{
	return write_file(DIR "enabled", on ? "1" : "0");
}

static long event_count(const char *name)
{
	char line[256], key[128];
	long val = -1, v;
	FILE *f = fopen("/proc/vmstat", "r");

	if (!f)
		return -1;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%127s %ld", key, &v) == 2 && !strcmp(key, name))
			val = v;
	fclose(f);
	return val;
}

static void touch(const char *addr, size_t len)
{
	size_t i;

	/* The asm keeps the load from being optimised away. */
	for (i = 0; i < len; i += PAGE)
		asm volatile("" : : "r" (addr[i]) : "memory");
}

static bool refused(const char *file, const char *text)
{
	char path[128], before[64], after[64];
	int err;

	snprintf(path, sizeof(path), DIR "%s", file);
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
	bool ok = true;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		if (!bad[i][0])
			continue;	/* write() of nothing never reaches the file */
		ok &= refused("enabled", bad[i]);
		ok &= refused("scan_period_ms", bad[i]);
		ok &= refused("hot_threshold", bad[i]);
	}
	ok &= refused("enabled", "2") && refused("enabled", "y");
	ok &= refused("scan_period_ms", "99") && refused("scan_period_ms", "60001");
	ok &= refused("hot_threshold", "0") && refused("hot_threshold", "10");
	ksft_test_result(ok, "bad settings are refused and change nothing\n");
}

static void test_settings(void)
{
	char buf[32];
	bool ok;

	ok = !write_file(DIR "scan_period_ms", "200\n");
	ok &= read_file(DIR "scan_period_ms", buf, sizeof(buf)) && !strcmp(buf, "200");
	ok &= !enable(true) && !enable(true);
	ok &= read_file(DIR "enabled", buf, sizeof(buf)) && !strcmp(buf, "1");
	ok &= !enable(false) && !enable(false);
	ok &= read_file(DIR "enabled", buf, sizeof(buf)) && !strcmp(buf, "0");
	ksft_test_result(ok, "good settings are kept, enabling twice is fine\n");
}

static void test_off(char *hot)
{
	long scanned = event_count("kmmscand_pte_scanned");
	double end = now() + 2;

	while (now() < end)
		touch(hot, HOT);
	ksft_test_result(count_on(hot, HOT, slow) == NR_HOT &&
			 event_count("kmmscand_pte_scanned") == scanned,
			 "disabled: nothing is scanned, nothing moves\n");
}

/*
 * Touches the hot pages until nine out of ten are on the fast node.  count_on()
 * asks move_pages(), which does not touch the page itself.
 */
static void test_on(char *hot, char *cold, const char *what, bool huge)
{
	long before_hot = huge_kb(hot), before_cold = huge_kb(cold);
	unsigned long moved = 0, cold_moved;
	double start = now(), next = 0;
	bool ok;

	if (enable(true)) {
		ksft_test_result_fail("cannot enable\n");
		return;
	}
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
}

/* Keeps its memory on the slow node hot and checks it. */
static void load_touch(void)
{
	char *p = map_on(HOT, slow, false);

	if (!p)
		exit(2);
	fill(p, HOT);
	for (;;)
		if (!intact(p, HOT))
			exit(1);
}

/* Address spaces come, grow, shrink, exec and go. */
static void load_fork(void)
{
	for (;;) {
		pid_t pid = fork();
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
	double end = now() + TOGGLE_S;
	unsigned int toggles = 0;
	bool ok = true;
	pid_t pids[3];
	int i;

	for (i = 0; i < nr; i++) {
		pids[i] = fork();
		if (!pids[i])
			load[i]();
	}
	while (now() < end) {
		ok &= !enable(true);
		usleep(100000 + toggles % 7 * 50000);
		ok &= !enable(false);
		toggles++;
	}
	for (i = 0; i < nr; i++) {
		int status;

		/* They run until killed; whoever has ended has found an error. */
		if (waitpid(pids[i], &status, WNOHANG) != 0) {
			ksft_print_msg("load %d ended with status %#x\n", i, status);
			ok = false;
			continue;
		}
		kill(pids[i], SIGKILL);
		waitpid(pids[i], &status, 0);
	}
	ksft_print_msg("%u times on and off\n", toggles);
	ksft_test_result(ok, "toggled under load, nothing lost\n");
}

int main(void)
{
	char *hot, *cold, buf[32];

	ksft_print_header();
	if (geteuid())
		ksft_exit_skip("needs root\n");
	if (!read_file(DIR "enabled", buf, sizeof(buf)))
		ksft_exit_skip("no " DIR " (CONFIG_KMMSCAND)\n");
	if (!strcmp(buf, "1"))
		ksft_exit_skip("kmmscand is in use\n");

	if (!find_tiers(&fast, &slow)) {
		/* Also a result: it must say so. */
		ksft_set_plan(1);
		ksft_test_result(enable(true) == -ENODEV,
				 "enabling without a slow tier: ENODEV\n");
		ksft_finished();
	}
	read_file(DIR "scan_period_ms", old_period, sizeof(old_period));
	read_file(DIR "hot_threshold", old_threshold, sizeof(old_threshold));

	ksft_print_msg("fast node %d, slow node %d\n", fast, slow);
	ksft_set_plan(6);
	test_bad_input();
	test_settings();

	hot = map_on(HOT, slow, false);
	cold = map_on(COLD, slow, false);
	if (!hot || !cold)
		ksft_exit_fail_msg("no memory on the slow node\n");
	fill(hot, HOT);
	fill(cold, COLD);
	test_off(hot);
	test_on(hot, cold, "small", false);
	unmap_on(hot, HOT);
	unmap_on(cold, COLD);

	hot = map_on(HOT, slow, true);
	cold = map_on(COLD, slow, true);
	if (!hot || !cold || huge_kb(hot) <= 0 || huge_kb(cold) <= 0) {
		ksft_test_result_skip("no huge pages on the slow node\n");
	} else {
		fill(hot, HOT);
		fill(cold, COLD);
		test_on(hot, cold, "huge", true);
	}
	test_toggle();

	write_file(DIR "scan_period_ms", old_period);
	write_file(DIR "hot_threshold", old_threshold);
	ksft_finished();
}
