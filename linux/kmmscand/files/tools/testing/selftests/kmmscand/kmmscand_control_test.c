// SPDX-License-Identifier: GPL-2.0
/*
 * Control of kmmscand by workload: prctl(PR_SET_TIER_SCAN), memory.tier.max, and what promotion
 * does to a group's accounts.
 *
 * Each test must fail while the switch in /sys/kernel/debug/tier/faults/ is set that breaks its
 * rule:
 *
 *   opt_out, scale		scan_opt_out
 *   off, off_shared, offline,
 *   max, max_above		scan_max
 *   spans			scan_held
 *   missed			scan_missed
 *
 * That something stays proves nothing if nothing is promoted, so a twin that is as hot has
 * to arrive on the fast node.
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "kmmscand_hot.h"

#define MB		(1024UL * 1024)
#define PER_MB		(MB / PAGE)
#define CGROUPS		"/tmp/kmmscand_control_test"
#define SHOW_SCAN	"--show-scan"
#define SPANS		"/sys/kernel/debug/tier/spans"
#define HELD		"/sys/kernel/debug/tier/faults/scan_held"
/* A process that has opted out must have been seen at least so often */
#define OFF_SAMPLES	2

/* A file of a group, "" is the root */
static const char *in(const char *group, const char *file)
{
	static char path[128];

	snprintf(path, sizeof(path), CGROUPS "/%s%s%s", group, *group ? "/" : "", file);
	return path;
}

static bool make_group(const char *group)
{
	return !mkdir(in(group, ""), 0700) || errno == EEXIST;
}

static bool remove_group(const char *group)
{
	double end = now() + 5;

	/* Until the last process has gone */
	while (rmdir(in(group, "")) && errno == EBUSY && now() < end)
		usleep(20000);
	return access(in(group, ""), F_OK);
}

static bool is_set(const char *group, const char *file, const char *value)
{
	char buf[64];

	if (read_file(in(group, file), buf, sizeof(buf)) && !strcmp(buf, value))
		return true;
	ksft_print_msg("%s/%s is \"%s\", not \"%s\"\n", group, file, buf, value);
	return false;
}

/* The number behind a key in a file of a group, or -1. */
static long value_of(const char *group, const char *file, const char *key)
{
	FILE *f = fopen(in(group, file), "r");
	size_t len = strlen(key);
	char line[512];
	long val = -1;

	if (!f)
		return -1;
	while (val < 0 && fgets(line, sizeof(line), f))
		if (!strncmp(line, key, len) && line[len] == ' ')
			val = strtol(line + len, NULL, 10);
	fclose(f);
	return val;
}

/* Of memory.numa_stat: bytes on a node, or -1. */
static long on_node(const char *group, const char *key, int nid)
{
	FILE *f = fopen(in(group, "memory.numa_stat"), "r");
	char line[512], node[16], *p;
	size_t len = strlen(key);
	long val = -1;

	if (!f)
		return -1;
	snprintf(node, sizeof(node), " N%d=", nid);
	while (val < 0 && fgets(line, sizeof(line), f)) {
		if (strncmp(line, key, len) || line[len] != ' ')
			continue;
		p = strstr(line, node);
		if (p)
			val = strtol(p + strlen(node), NULL, 10);
	}
	fclose(f);
	return val;
}

/* A process that keeps memory hot, and this one */
struct worker {
	atomic_bool ready, stop;
	atomic_int scan;		/* to be set, if not negative */
	atomic_ulong moved;		/* pages on the fast node */
	char *addr;
	size_t len;
	char *shared;			/* to be populated first, if any, ... */
	size_t shared_len;
	bool idle;			/* ... and then nothing */
	pid_t pid;
};

static struct worker *workers;
static int nr_workers;

static bool populate_shared(struct worker *w)
{
	unsigned long mask = 1UL << slow, nodes = MAX_NODES + 1;
	size_t i;

	if (syscall(__NR_mbind, w->shared, w->shared_len, MPOL_BIND, &mask, nodes, 0))
		return false;
	for (i = 0; i < w->shared_len; i += PAGE)
		w->shared[i] = 1;
	return !syscall(__NR_mbind, w->shared, w->shared_len, MPOL_DEFAULT, NULL, 0UL, 0);
}

static void work(struct worker *w, const char *group)
{
	double next = now();
	char *p = NULL;
	int scan;

	if (*group && write_file(in(group, "cgroup.procs"), "0"))
		_exit(2);
	if (w->shared && !populate_shared(w))
		_exit(2);
	if (w->len) {
		p = map_on(w->len, slow, false);
		if (!p || count_on(p, w->len, slow) != w->len / PAGE)
			_exit(2);
		fill(p, w->len);
		w->addr = p;
	}
	while (!w->stop) {
		scan = atomic_exchange(&w->scan, -1);
		if (scan >= 0 && prctl(PR_SET_TIER_SCAN, scan, 0, 0, 0))
			_exit(2);
		w->ready = true;
		if (w->idle)
			usleep(2000);
		else
			touch_and_rest(p, w->len);
		if (now() >= next) {
			w->moved = count_on(p, w->len, fast);
			next = now() + 0.1;
		}
	}
	_exit(!p || intact(p, w->len) ? 0 : 1);
}

/* Start to keep @len bytes hot in a group; what is zero in @like is the default. */
static struct worker *start_like(const char *group, size_t len, const struct worker *like)
{
	struct worker *w = &workers[nr_workers++];
	int status;
	pid_t pid;

	memset(w, 0, sizeof(*w));
	if (like)
		*w = *like;
	w->len = len;
	if (!like)
		w->scan = -1;
	pid = fork_child();
	if (!pid)
		work(w, group);
	w->pid = pid;
	while (!w->ready) {
		if (waitpid(pid, &status, WNOHANG)) {
			ksft_print_msg("a worker in \"%s\" ended with status %#x\n", group, status);
			w->pid = -1;
			break;
		}
		usleep(10000);
	}
	return w;
}

static struct worker *start(const char *group, size_t len)
{
	return start_like(group, len, NULL);
}

/* Stop all workers; false if one of them has found an error. */
static bool stop_all(void)
{
	bool ok = true;
	int i, status;

	for (i = 0; i < nr_workers; i++)
		workers[i].stop = true;
	for (i = 0; i < nr_workers; i++)
		ok &= workers[i].pid > 0 && waitpid(workers[i].pid, &status, 0) > 0 && !status;
	nr_workers = 0;
	if (!ok)
		ksft_print_msg("a worker has failed\n");
	return ok;
}

/* Until most of a worker's pages are on the fast node, or @pages */
static bool arrives(struct worker *w, unsigned long pages)
{
	double start = now();

	if (!pages)
		pages = w->len / PAGE * 9 / 10;
	while (w->moved < pages && now() < start + ARRIVE_S)
		usleep(50000);
	ksft_print_msg("%lu of %lu pages were promoted in %.1f s\n", w->moved, w->len / PAGE,
		       now() - start);
	return w->moved >= pages;
}

static int scan_of(pid_t pid)
{
	char path[64], line[256];
	int val = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "TierScan: %d", &val);
	if (f)
		fclose(f);
	return val;
}

static bool refused(int option, unsigned long a, unsigned long b, unsigned long c,
		    unsigned long d)
{
	errno = 0;
	if (prctl(option, a, b, c, d) == -1 && errno == EINVAL)
		return true;
	ksft_print_msg("prctl(%#x, %lu, %lu, %lu, %lu) is accepted\n", option, a, b, c, d);
	return false;
}

static void test_prctl(void)
{
	bool ok = prctl(PR_GET_TIER_SCAN, 0, 0, 0, 0) == 1 && scan_of(getpid()) == 1;
	int i, thp = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);

	for (i = 0; i <= PR_TIER_SCAN_MAX; i++) {
		ok &= !prctl(PR_SET_TIER_SCAN, i, 0, 0, 0);
		ok &= prctl(PR_GET_TIER_SCAN, 0, 0, 0, 0) == i && scan_of(getpid()) == i;
	}
	ok &= !prctl(PR_SET_TIER_SCAN, 7, 0, 0, 0);
	ok &= refused(PR_SET_TIER_SCAN, PR_TIER_SCAN_MAX + 1, 0, 0, 0);
	ok &= refused(PR_SET_TIER_SCAN, -1UL, 0, 0, 0);
	ok &= refused(PR_SET_TIER_SCAN, 1UL << 32, 0, 0, 0);
	ok &= refused(PR_SET_TIER_SCAN, 1, 1, 0, 0);
	ok &= refused(PR_SET_TIER_SCAN, 1, 0, 1, 0);
	ok &= refused(PR_SET_TIER_SCAN, 1, 0, 0, 1);
	ok &= refused(PR_GET_TIER_SCAN, 1, 0, 0, 0);
	ok &= refused(PR_GET_TIER_SCAN, 0, 1, 0, 0);
	ok &= refused(PR_GET_TIER_SCAN, 0, 0, 1, 0);
	ok &= refused(PR_GET_TIER_SCAN, 0, 0, 0, 1);
	ok &= prctl(PR_GET_TIER_SCAN, 0, 0, 0, 0) == 7;
	/* In the same word */
	ok &= !prctl(PR_SET_THP_DISABLE, !thp, 0, 0, 0);
	ok &= prctl(PR_GET_TIER_SCAN, 0, 0, 0, 0) == 7;
	ok &= !prctl(PR_SET_TIER_SCAN, PR_TIER_SCAN_DEFAULT, 0, 0, 0);
	ok &= prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0) == !thp;
	ok &= !prctl(PR_SET_THP_DISABLE, thp, 0, 0, 0);
	ksft_test_result(ok, "prctl sets, tells and refuses, /proc/PID/status shows\n");
}

static int exit_code(pid_t pid)
{
	int status = 0;

	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ?
	       WEXITSTATUS(status) : -1;
}

/* A child has what its parent had at the fork, and a program what called it had. */
static void test_inherit(void)
{
	bool ok = true;
	pid_t pid;
	int i;

	for (i = 0; i <= PR_TIER_SCAN_MAX; i += 5) {
		prctl(PR_SET_TIER_SCAN, i, 0, 0, 0);
		pid = fork_child();
		if (!pid)
			_exit(prctl(PR_GET_TIER_SCAN, 0, 0, 0, 0));
		ok &= exit_code(pid) == i;

		pid = fork_child();
		if (!pid) {
			execl("/proc/self/exe", "control_test", SHOW_SCAN, NULL);
			_exit(99);
		}
		ok &= exit_code(pid) == i;
		/* And not the other way round */
		pid = fork_child();
		if (!pid)
			_exit(prctl(PR_SET_TIER_SCAN, 3, 0, 0, 0));
		ok &= exit_code(pid) == 0 && prctl(PR_GET_TIER_SCAN, 0, 0, 0, 0) == i;
	}
	prctl(PR_SET_TIER_SCAN, PR_TIER_SCAN_DEFAULT, 0, 0, 0);
	ksft_test_result(ok, "fork and exec keep what was set\n");
}

/* Who has opted out stays, while its twin is promoted, until it changes its mind. */
static void test_opt_out(void)
{
	long off = event_count("tier_scan_skip_prctl");
	struct worker *out = start_like("", 2 * MB, &(struct worker){ .scan = 0 });
	struct worker *twin = start("", 2 * MB);
	bool ok = !enable(true);
	double end;

	ok &= arrives(twin, 0);
	end = now() + ARRIVE_S;
	while (event_count("tier_scan_skip_prctl") < off + OFF_SAMPLES && now() < end)
		usleep(50000);
	sleep(2);
	off = event_count("tier_scan_skip_prctl") - off;
	ksft_print_msg("%lu pages of the process that opted out were promoted, seen %ld times\n",
		       out->moved, off);
	ok &= !out->moved && off >= OFF_SAMPLES;
	out->scan = 1;
	ok &= arrives(out, 0);
	enable(false);
	ok &= stop_all();
	ksft_test_result(ok, "a process can opt out\n");
}

/* Accessed slow pages found within some time, of hot memory that cannot be promoted */
static long young(int scan)
{
	struct worker *w = start_like("", 2 * MB, &(struct worker){ .scan = scan });
	long count;

	/* Nothing moves, so visits become rare, and looks for change are left. */
	sleep(7);
	count = event_count("tier_scan_young");
	sleep(12);
	count = event_count("tier_scan_young") - count;
	ksft_print_msg("%ld accessed pages found with %d, %lu promoted\n", count, scan, w->moved);
	return stop_all() ? count : -1;
}

static void test_scale(void)
{
	long normal, tenth;
	bool ok;

	only_look();
	ok = !enable(true);
	normal = young(1);
	tenth = young(10);
	enable(false);
	ok &= normal > 0 && tenth > 0 && tenth < normal / 3;
	ksft_test_result(ok, "a process can be scanned less often\n");
}

static bool kept(const char *file, const char *bad)
{
	char before[64], after[64];
	int err;

	read_file(in("a", file), before, sizeof(before));
	err = write_file(in("a", file), bad);
	read_file(in("a", file), after, sizeof(after));
	if (err == -EINVAL && !strcmp(before, after))
		return true;
	ksft_print_msg("\"%s\" to %s: %d, then \"%s\"\n", bad, file, err, after);
	return false;
}

static void test_files(void)
{
	bool ok = make_group("a");
	int i;

	ok &= is_set("a", "memory.tier.max", "max");
	for (i = 0; i < 2; i++) {
		ok &= !write_file(in("a", "memory.tier.max"), "4M\n");
		ok &= is_set("a", "memory.tier.max", "4194304");
		ok &= !write_file(in("a", "memory.tier.max"), "0");
		ok &= is_set("a", "memory.tier.max", "0");
	}
	ok &= kept("memory.tier.max", "-1") && kept("memory.tier.max", "x");
	ok &= kept("memory.tier.max", "1 2") && kept("memory.tier.max", "maximum");
	ok &= !write_file(in("a", "memory.tier.max"), "max");
	ok &= is_set("a", "memory.tier.max", "max");
	/* The root has none. */
	ok &= access(in("", "memory.tier.max"), F_OK);
	ok &= remove_group("a");
	/* A new group does not begin with what another has left. */
	ok &= make_group("a") && !write_file(in("a", "memory.tier.max"), "0");
	ok &= remove_group("a") && make_group("a");
	ok &= is_set("a", "memory.tier.max", "max");
	ok &= remove_group("a");
	ksft_test_result(ok, "the file takes what it should\n");
}

/* Nothing is promoted of a group with a limit of 0, or below one. */
static void test_off(void)
{
	bool ok = make_group("a") && make_group("p");
	struct worker *off, *below, *twin;

	ok &= !write_file(in("p", "cgroup.subtree_control"), "+memory") && make_group("p/a");
	ok &= !write_file(in("a", "memory.tier.max"), "0");
	ok &= !write_file(in("p", "memory.tier.max"), "0");
	ok &= !write_file(in("p/a", "memory.tier.max"), "max");
	off = start("a", 2 * MB);
	below = start("p/a", 2 * MB);
	twin = start("", 2 * MB);
	ok &= !enable(true);
	ok &= arrives(twin, 0);
	sleep(2);
	ksft_print_msg("%lu pages of a group with a limit of 0, and %lu below one, were promoted\n",
		       off->moved, below->moved);
	ok &= !off->moved && !below->moved;
	ok &= !write_file(in("p", "memory.tier.max"), "max");
	ok &= arrives(below, 0) && !off->moved;
	enable(false);
	ok &= stop_all();
	ok &= remove_group("a") & remove_group("p/a") & remove_group("p");
	ksft_test_result(ok, "a group with a limit of 0 is left alone\n");
}

/* Memory that a process in @group has populated on the slow node, and that has exited. */
static char *map_charged(size_t len, const char *group)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct worker like = { .scan = -1, .shared = p, .shared_len = len, .idle = true };

	if (p == MAP_FAILED)
		return NULL;
	start_like(group, 0, &like);
	if (!stop_all()) {
		munmap(p, len);
		return NULL;
	}
	touch(p, len);
	if (count_on(p, len, slow) != len / PAGE) {
		munmap(p, len);
		return NULL;
	}
	return p;
}

/* That counts by whom a page is charged to, and not by who uses it. */
static void test_off_shared(void)
{
	long off = event_count("tier_scan_skip_memcg");
	struct worker *twin;
	unsigned long moved;
	char *p = NULL;
	bool ok;

	ok = make_group("a") && !write_file(in("a", "memory.tier.max"), "0");
	p = ok ? map_charged(2 * MB, "a") : NULL;
	ok &= !!p;
	twin = start("", 2 * MB);
	ok &= !enable(true);
	moved = p ? keep_hot(p, 2 * MB, 5, 100) : 0;
	ksft_print_msg("%lu shared pages that are charged to a limit of 0 were promoted\n", moved);
	ok &= !moved && arrives(twin, 0) && event_count("tier_scan_skip_memcg") > off;
	ok &= !write_file(in("a", "memory.tier.max"), "max");
	moved = p ? keep_hot(p, 2 * MB, ARRIVE_S, 90) : 0;
	ksft_print_msg("%lu when there was no limit any more\n", moved);
	ok &= moved >= 2 * PER_MB * 9 / 10;
	enable(false);
	ok &= stop_all();
	if (p)
		munmap(p, 2 * MB);
	ok &= remove_group("a");
	ksft_test_result(ok, "pages charged to a group with limit 0 stay, whoever uses them\n");
}

/* @group limits what is in @worker, which is the same or below. */
static void try_max(const char *group, const char *worker)
{
	/* What waits in per-CPU batches to be put on a list, where it is counted */
	unsigned long slack = 31 * sysconf(_SC_NPROCESSORS_ONLN);
	long limited = event_count("tier_promote_skip_max");
	struct worker *w, *twin;
	unsigned long moved;
	char buf[32];
	bool ok;

	ok = !write_file(in(group, "memory.tier.max"), "3M");
	w = start(worker, 8 * MB);
	twin = start("", 8 * MB);
	ok &= !enable(true);
	ok &= arrives(twin, 0) && arrives(w, 2 * PER_MB);
	sleep(2);
	moved = w->moved;
	ksft_print_msg("%lu of at most %lu pages\n", moved, 3 * PER_MB);
	ok &= moved <= 3 * PER_MB + slack && event_count("tier_promote_skip_max") > limited;

	/* More is allowed: so much more is promoted, and no more. */
	snprintf(buf, sizeof(buf), "%lu", 6 * MB);
	ok &= !write_file(in(group, "memory.tier.max"), buf);
	ok &= arrives(w, 5 * PER_MB);
	sleep(2);
	moved = w->moved;
	ksft_print_msg("%lu of at most %lu pages\n", moved, 6 * PER_MB);
	ok &= moved <= 6 * PER_MB + slack;

	ok &= !write_file(in(group, "memory.tier.max"), "max");
	ok &= arrives(w, 0);
	enable(false);
	ok &= stop_all();
	ksft_test_result(ok, "%s limits what is promoted of %s\n", group, worker);
}

static void test_max(void)
{
	make_group("a");
	try_max("a", "a");
	remove_group("a");
}

static void test_max_above(void)
{
	make_group("p");
	write_file(in("p", "cgroup.subtree_control"), "+memory");
	make_group("p/a");
	try_max("p", "p/a");
	remove_group("p/a");
	remove_group("p");
}

static long dying(void)
{
	return value_of("", "cgroup.stat", "nr_dying_descendants");
}

/* Groups that have been removed are freed as soon as nothing is charged to them. */
static bool no_more_dying(long before)
{
	double end = now() + 15;
	long nr;

	/* Per-CPU references are given back when something happens. */
	while ((nr = dying()) > before && now() < end) {
		write_file("/proc/sys/vm/drop_caches", "3");
		usleep(200000);
	}
	if (nr > before)
		ksft_print_msg("%ld groups are left, %ld before\n", nr, before);
	return nr <= before;
}

/*
 * Groups are removed, and their pages stay.  What was set for them is forgotten, but not what is
 * set for a group above.
 */
static void test_offline(void)
{
	static const char * const group[] = { "a", "b", "p/c" };
	bool ok = make_group("a") && make_group("b") && make_group("p");
	unsigned long moved[3] = {};
	long before = dying();
	char *p[3];
	int i;

	ok &= !write_file(in("p", "cgroup.subtree_control"), "+memory") && make_group("p/c");
	ok &= !write_file(in("a", "memory.tier.max"), "0");
	ok &= !write_file(in("b", "memory.tier.max"), "0");
	ok &= !write_file(in("p", "memory.tier.max"), "0");
	for (i = 0; i < 3; i++) {
		p[i] = map_charged(2 * MB, group[i]);
		ok &= p[i] && remove_group(group[i]);
	}
	ok = ok && dying() > 0 && !enable(true);
	for (i = 0; ok && i < 3; i++)
		moved[i] = keep_hot(p[i], 2 * MB, i < 2 ? ARRIVE_S : 3, i < 2 ? 90 : 100);
	ksft_print_msg("%lu and %lu of %lu pages of removed groups were promoted, %lu below 0\n",
		       moved[0], moved[1], 2 * PER_MB, moved[2]);
	ok &= moved[0] >= 2 * PER_MB * 9 / 10 && moved[1] >= 2 * PER_MB * 9 / 10 && !moved[2];
	for (i = 0; i < 3; i++) {
		if (p[i])
			munmap(p[i], 2 * MB);
	}
	/* Also while kmmscand runs */
	ok &= remove_group("p") && no_more_dying(before);
	enable(false);
	ksft_test_result(ok, "what is set for a group goes with it\n");
}

/*
 * Promotion moves what is charged from node to node, and changes nothing else.  Pages of both
 * groups are promoted in the same lists.
 */
static void test_charges(void)
{
	long current, promoted, others, n_fast, n_slow, limit[2], after;
	/* By turns, so that candidates of both are neighbours in the ring */
	enum { EACH = 4, LEN = MB / 2 };
	bool ok = make_group("a") && make_group("b");
	struct worker *w[EACH], *other[EACH];
	unsigned long moved = 0;
	char buf[32];
	int i;

	ok &= !write_file(in("a", "memory.tier.max"), "1G");
	for (i = 0; i < EACH; i++) {
		w[i] = start("a", LEN);
		other[i] = start("b", LEN);
	}
	sleep(3);
	current = read_file(in("a", "memory.current"), buf, sizeof(buf)) ? atol(buf) : -1;
	/* Tight enough for the group to be in trouble if promotion charged it */
	snprintf(buf, sizeof(buf), "%lu", current + 256 * 1024);
	ok &= !write_file(in("a", "memory.high"), buf) && !write_file(in("a", "memory.max"), buf);
	limit[0] = value_of("a", "memory.events", "high");
	limit[1] = value_of("a", "memory.events", "max");
	promoted = value_of("a", "memory.stat", "pgpromote_success");
	others = value_of("b", "memory.stat", "pgpromote_success");
	n_fast = on_node("a", "anon", fast);
	n_slow = on_node("a", "anon", slow);
	/* Candidates gather in the ring, so lists have pages of both groups. */
	ok &= !set("promote/rate_mbps", "1");
	ok &= !enable(true);
	for (i = 0; i < EACH; i++) {
		ok &= arrives(w[i], LEN / PAGE) && arrives(other[i], LEN / PAGE);
		moved += w[i]->moved;
	}
	enable(false);
	/* Statistics are summed up every other second. */
	sleep(4);
	after = read_file(in("a", "memory.current"), buf, sizeof(buf)) ? atol(buf) : -1;
	promoted = value_of("a", "memory.stat", "pgpromote_success") - promoted;
	others = value_of("b", "memory.stat", "pgpromote_success") - others;
	n_fast = on_node("a", "anon", fast) - n_fast;
	n_slow = on_node("a", "anon", slow) - n_slow;
	ksft_print_msg("%lu pages; %ld and %ld promoted, current %ld to %ld, nodes %+ld and %+ld\n",
		       moved, promoted, others, current, after, n_fast, n_slow);
	ok &= labs(after - current) <= 128 * 1024;
	ok &= promoted == (long)moved && others == (long)moved;
	ok &= n_fast >= (long)(moved * PAGE) && n_fast <= (long)(moved * PAGE + 64 * 1024);
	ok &= n_slow == -(long)(moved * PAGE);
	ok &= value_of("a", "memory.events", "high") == limit[0];
	ok &= value_of("a", "memory.events", "max") == limit[1];
	ok &= stop_all();
	ok &= remove_group("a") && remove_group("b");
	ksft_test_result(ok, "promotion changes no charges\n");
}

/* Groups with all kinds of limits come and go while their pages are promoted. */
static void test_churn(void)
{
	static const char * const limits[] = { "0", "1M", "max" };
	double end = now() + 6;
	long before = dying();
	char name[16], path[128], pid[16];
	struct worker *w, *other;
	unsigned int n = 0;
	bool ok = true;

	ok &= !set("promote/rate_mbps", "2");
	w = start("", 8 * MB);
	other = start("", 8 * MB);
	snprintf(pid, sizeof(pid), "%d", w->pid);
	ok &= !enable(true);
	while (now() < end) {
		char *p = NULL;

		snprintf(name, sizeof(name), "g%u", n % 8);
		snprintf(path, sizeof(path), "%s", in(name, "cgroup.procs"));
		ok &= make_group(name);
		ok &= !write_file(in(name, "memory.tier.max"), limits[n % 3]);
		ok &= !write_file(path, pid);
		/* Pages of a group that will be removed before they are */
		if (!(n % 4)) {
			p = mmap(NULL, MB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
				 0);
			ok &= !write_file(path, "0");
			for (size_t i = 0; i < MB; i += PAGE)
				p[i] = 1;
			ok &= !write_file(in("", "cgroup.procs"), "0");
			touch(p, MB);
		}
		usleep(20000);
		ok &= !write_file(in("", "cgroup.procs"), pid);
		ok &= remove_group(name);
		if (p)
			munmap(p, MB);
		n++;
		if (!(n % 16)) {
			enable(false);
			ok &= !enable(true);
		}
	}
	ksft_print_msg("%u groups, %lu and %lu pages promoted\n", n, w->moved, other->moved);
	ok &= stop_all() && no_more_dying(before);
	enable(false);
	ksft_test_result(ok, "groups come and go while pages are promoted\n");
}

/* A line of tier/spans */
struct span_line {
	int pid;
	unsigned long long cgroup;
	unsigned long begin, end;
	unsigned int window_us, first, last, pushed, age_ms, turn;
	unsigned int turn_pushed, turn_age_ms;	/* 0 before the end of the first turn */
};

/* Looks up the line of a process.  Returns false if there is none. */
static bool span_of(pid_t pid, struct span_line *s)
{
	char line[256];
	bool found = false;
	FILE *f = fopen(SPANS, "r");

	while (f && !found && fgets(line, sizeof(line), f)) {
		*s = (struct span_line) {};
		found = sscanf(line, "%d %llu %lx %lx %u %u %u %u %u %u %u %u", &s->pid,
			       &s->cgroup, &s->begin, &s->end, &s->window_us, &s->first, &s->last,
			       &s->pushed, &s->age_ms, &s->turn, &s->turn_pushed,
			       &s->turn_age_ms) >= 10 && s->pid == pid;
	}
	if (f)
		fclose(f);
	return found;
}

/* Does the line say that the memory of a worker is hot? */
static bool span_is_of(const struct span_line *s, const struct worker *w)
{
	return s->begin < (unsigned long)w->addr + w->len && s->end > (unsigned long)w->addr &&
	       s->window_us && s->first && s->last && s->first >= s->last && s->pushed &&
	       s->turn_pushed && s->turn_age_ms >= s->age_ms;
}

/* Where a process was visited can be read, and by root only. */
static void test_spans(void)
{
	struct stat st, group = {};
	struct span_line s = {};
	struct worker *w, *out;
	bool ok, seen = false;
	double end;

	if (access("/sys/kernel/debug/tier", F_OK)) {
		ksft_test_result_skip("no debugfs: %s\n", strerror(errno));
		return;
	}
	ok = !stat(SPANS, &st) && (st.st_mode & 07777) == 0400;
	ok &= make_group("spans") && !stat(in("spans", ""), &group);
	only_look();
	w = start("spans", 2 * MB);
	out = start_like("", MB, &(struct worker){ .scan = 0 });
	ok &= !enable(true);
	for (end = now() + ARRIVE_S; !seen && now() < end; usleep(20000))
		seen = span_of(w->pid, &s) && span_is_of(&s, w);
	ksft_print_msg("pid %d cgroup %llu: %lx-%lx, window %u us, %u and %u found, %u ms ago\n",
		       s.pid, s.cgroup, s.begin, s.end, s.window_us, s.first, s.last, s.age_ms);
	ksft_print_msg("%u candidates in a turn that ended %u ms ago\n", s.turn_pushed,
		       s.turn_age_ms);
	ok &= seen && s.cgroup == group.st_ino && s.age_ms <= 1000 * (ARRIVE_S + 1) && s.turn <= 6;
	/* A process that has opted out has no line. */
	ok &= !span_of(out->pid, &s);
	ok &= stop_all() && !span_of(w->pid, &s) && !span_of(0, &s);
	enable(false);
	ok &= remove_group("spans");
	ksft_test_result(ok, "the last visit and the last turn of a process can be read\n");
}

/* Turns of several visits add up: more candidates than a visit takes while few can move. */
static void test_turn(void)
{
	struct span_line s = {};
	struct worker *w;
	bool ok, seen = false;
	double end;

	set("promote/rate_mbps", "1");
	w = start("", 16 * MB);
	ok = !enable(true);
	for (end = now() + ARRIVE_S; !seen && now() < end; usleep(20000))
		seen = span_of(w->pid, &s) && s.pushed && s.turn_pushed > 2 * s.pushed &&
		       s.end - s.begin < 8 * MB;
	ksft_print_msg("%u candidates in a turn, %u in the last visit\n", s.turn_pushed, s.pushed);
	ok &= seen && s.turn_pushed <= 16 * MB / PAGE * 2;
	ok &= stop_all();
	enable(false);
	ksft_test_result(ok, "a turn has what all of its visits have found\n");
}

/* Waits for a turn of a process to end that began after this call. */
static bool turn_ends(pid_t pid, double seconds, struct span_line *s)
{
	double begin = now(), end = begin + seconds;

	for (; now() < end; usleep(20000))
		if (span_of(pid, s) && s->turn_pushed && now() - s->turn_age_ms / 1000.0 > begin)
			return true;
	return false;
}

/* A turn in which a look has met a taken mmap_lock tells nothing of what is hot. */
static void test_missed(void)
{
	struct span_line before = {}, s = {};
	struct worker *w;
	bool ok, kept;

	if (access(HELD, W_OK)) {
		ksft_test_result_skip("a kernel without faults\n");
		return;
	}
	only_look();
	w = start("", 2 * MB);
	ok = !enable(true) && turn_ends(w->pid, ARRIVE_S, &before) && !change(HELD, "Y");
	/* Visits that have begun come to their end. */
	sleep(1);
	ok &= span_of(w->pid, &before) && before.turn_pushed;
	sleep(2);
	kept = span_of(w->pid, &s) && s.turn_pushed == before.turn_pushed &&
	       s.turn_age_ms >= before.turn_age_ms + 1500;
	ksft_print_msg("%u candidates %u ms ago, then %u candidates %u ms ago\n",
		       before.turn_pushed, before.turn_age_ms, s.turn_pushed, s.turn_age_ms);
	ok &= !change(HELD, "N") && turn_ends(w->pid, ARRIVE_S, &s);
	ok &= stop_all();
	enable(false);
	ksft_test_result(ok && kept, "a turn with a missed look tells nothing\n");
}

static const struct tier_test tests[] = {
	{ "prctl", test_prctl },
	{ "inherit", test_inherit },
	{ "opt_out", test_opt_out },
	{ "scale", test_scale },
	{ "files", test_files },
	{ "off", test_off },
	{ "off_shared", test_off_shared },
	{ "max", test_max },
	{ "max_above", test_max_above },
	{ "offline", test_offline },
	{ "charges", test_charges },
	{ "churn", test_churn },
	{ "spans", test_spans },
	{ "turn", test_turn },
	{ "missed", test_missed },
};

int main(int argc, char **argv)
{
	/* For test_inherit() */
	if (argc == 2 && !strcmp(argv[1], SHOW_SCAN))
		return prctl(PR_GET_TIER_SCAN, 0, 0, 0, 0);

	begin_kmmscand_tests();
	workers = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	mkdir(CGROUPS, 0700);
	if (workers == MAP_FAILED || mount("none", CGROUPS, "cgroup2", 0, NULL) ||
	    write_file(CGROUPS "/cgroup.subtree_control", "+memory"))
		ksft_exit_skip("no memory control groups (v2)\n");
	/* Emulated machines are slow enough without waiting for rounds. */
	set("scan/period_ms", "200");
	set_share("scan/cpu_permille", 50);
	run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	umount(CGROUPS);
	rmdir(CGROUPS);
	ksft_finished();
}
