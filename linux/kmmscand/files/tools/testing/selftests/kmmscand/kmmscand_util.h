/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of kmmscand share: switching its parts, "scan" and "promote", its threads,
 * load, memory blocks.  Inline is what not all of them need.
 */
#ifndef _KMMSCAND_UTIL_H
#define _KMMSCAND_UTIL_H

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "../tier/tier_process.h"
#include "../tier/tier_util.h"
#include "../tier_parts/tier_parts.h"

#define BLOCKS		"/sys/devices/system/memory/"
#define CPUS		"/sys/devices/system/cpu/"
#define NODES		"/sys/devices/system/node/"
/* Kept hot by load_touch() */
#define LOAD		(8UL << 20)
/* Until a part that waits has been tried again */
#define START_MS	15000

static int fast, slow;

/* For how long a test goes on that could do so for ever: @usual, or KMMSCAND_SECONDS */
static inline double test_seconds(double usual)
{
	const char *value = getenv("KMMSCAND_SECONDS");
	double seconds = value ? atof(value) : 0;

	return seconds > 0 ? seconds : usual;
}

/* Wish both parts, or none of them.  Returns 0 or -errno. */
static int wish(bool on)
{
	int err = tier_part_set("scan", on);

	if (err >= 0)
		err = tier_part_set("promote", on);
	return err < 0 ? err : 0;
}

static bool only_looks;

/* What is enabled next promotes nothing, until it is disabled, ... */
static inline void only_look(void)
{
	only_looks = true;
}

/* ... or until this.  Returns 0, -errno, or -EAGAIN: it does not promote. */
static inline int promote_too(void)
{
	only_looks = false;
	return tier_part_turn("promote", true);
}

/* Start or stop to look and to promote.  Returns 0, -errno, or -EAGAIN: it does not at once. */
static int enable(bool on)
{
	int err = tier_part_turn("scan", on);

	if (!err)
		err = tier_part_turn("promote", on && !only_looks);
	only_looks &= on;
	return err;
}

/* Change a file of a part until the test ends.  Returns 0 or -errno. */
static inline int set(const char *file, const char *value)
{
	char path[64];

	snprintf(path, sizeof(path), TIER_PARTS "%s", file);
	return change(path, value);
}

/* Change a share of CPU time, which a test wants in percent of one CPU.  Returns 0 or -errno. */
static inline int set_share(const char *file, unsigned int percent)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), permille = percent * 10 / cpus;
	char value[16];

	snprintf(value, sizeof(value), "%ld", permille ? permille : 1);
	return set(file, value);
}

/* Neither of both switches lets reclaim demote, until the test ends.  Returns 0 or -errno. */
static inline int no_demotion(void)
{
	int err = change(DEMOTION, "0");

	return err ? err : change(TIER_PARTS "demote/enabled", "0");
}

static void touch(const char *addr, size_t len)
{
	size_t i;

	/* The asm keeps the load from being optimised away. */
	for (i = 0; i < len; i += PAGE)
		asm volatile("" : : "r" (addr[i]) : "memory");
}

/*
 * Touch for 2 ms and rest for 2 ms, since other programs need the CPU, too.  A process that rests
 * most of the time is seldom met by a sample of the CPUs.
 */
static inline void touch_and_rest(const char *addr, size_t len)
{
	double end = now() + 0.002;

	do
		touch(addr, len);
	while (now() < end);
	usleep(2000);
}

/* Only address spaces that run are visited. */
static inline void run_for(double seconds)
{
	double end = now() + seconds;

	while (now() < end)
		;
}

/* Process id of a kernel thread, or -1. */
static pid_t thread_pid(const char *comm)
{
	char path[300], buf[64];
	struct dirent *entry;
	DIR *dir = opendir("/proc");
	pid_t pid = -1;

	while (dir && pid < 0 && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		if (read_file(path, buf, sizeof(buf)) && !strcmp(buf, comm))
			pid = atoi(entry->d_name);
	}
	if (dir)
		closedir(dir);
	return pid;
}

/* Of /proc/PID/stat, behind the name: user and system time in clock ticks */
#define STAT_TIMES " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu"

/* CPU time of a kernel thread in seconds, or a negative value. */
static inline double thread_seconds(const char *comm)
{
	unsigned long user, system;
	char path[64], buf[512];

	snprintf(path, sizeof(path), "/proc/%d/stat", thread_pid(comm));
	if (!read_file(path, buf, sizeof(buf)) ||
	    sscanf(strrchr(buf, ')') + 1, STAT_TIMES, &user, &system) != 2)
		return -1;
	return (double)(user + system) / sysconf(_SC_CLK_TCK);
}

/* Keeps its memory on the slow node hot and checks it. */
static inline void load_touch(void)
{
	char *p = map_on(LOAD, slow, false);

	if (!p)
		exit(2);
	fill(p, LOAD);
	for (;;)
		if (!intact(p, LOAD))
			exit(1);
}

/* Run something that never ends, unless it finds an error. */
static inline pid_t start_load(void (*load)(void))
{
	pid_t pid = fork_child();

	if (!pid) {
		load();
		_exit(3);
	}
	return pid;
}

/* False if it has ended by itself. */
static inline bool stop_load(pid_t pid)
{
	int status;

	if (pid < 0)
		return false;
	if (waitpid(pid, &status, WNOHANG) != 0) {
		ksft_print_msg("a load ended with status %#x\n", status);
		return false;
	}
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	return true;
}

/* The memory blocks of the slow node; returns how many were found. */
static inline int slow_blocks(int *blocks, int max)
{
	char path[128], buf[64];
	struct dirent *entry;
	int id, n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), NODES "node%d", slow);
	dir = opendir(path);
	if (!dir)
		return 0;
	while (n < max && (entry = readdir(dir))) {
		if (sscanf(entry->d_name, "memory%d", &id) != 1)
			continue;
		snprintf(path, sizeof(path), BLOCKS "memory%d/removable", id);
		if (read_file(path, buf, sizeof(buf)) && !strcmp(buf, "1"))
			blocks[n++] = id;
	}
	closedir(dir);
	return n;
}

static inline int set_block(int id, const char *state)
{
	char path[128];

	snprintf(path, sizeof(path), BLOCKS "memory%d/state", id);
	return write_file(path, state);
}

static void on_alarm(int sig)
{
	(void)sig;
}

/* An alarm ends an attempt that takes too long: the kernel tries until it succeeds. */
static inline int set_block_offline(int id)
{
	struct sigaction action = { .sa_handler = on_alarm };
	int err;

	sigaction(SIGALRM, &action, NULL);
	alarm(5);
	err = set_block(id, "offline");
	alarm(0);
	return err;
}

/* Is there a thread that scans or promotes? */
static inline bool threads_are_there(void)
{
	struct dirent *entry;
	char path[300], buf[64];
	bool found = false;
	DIR *dir = opendir("/proc");
	int nid;

	while (dir && !found && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		found = read_file(path, buf, sizeof(buf)) &&
			(sscanf(buf, "kmmscand%d", &nid) == 1 ||
			 sscanf(buf, "kpromoted%d", &nid) == 1);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* A thread that has ended is still there for a moment. */
static inline bool threads_go(void)
{
	int i;

	for (i = 0; i < 100 && threads_are_there(); i++)
		usleep(10000);
	return !threads_are_there();
}

/* Both parts are wished, but there is no slow memory: they wait, and say so. */
static inline bool both_wait(void)
{
	char scan[256], promote[256];
	bool ok;

	ok = tier_part_read("scan", "reason", scan, sizeof(scan)) &&
	     tier_part_read("promote", "reason", promote, sizeof(promote));
	ksft_print_msg("scan: \"%s\", promote: \"%s\"\n", scan, promote);
	ok &= strstr(scan, "slow memory") && *promote;
	ok &= tier_part_number("scan", "enabled") == 1 && tier_part_is("scan", "waiting");
	ok &= tier_part_number("promote", "enabled") == 1 && tier_part_is("promote", "waiting");
	/* What is incomplete is not called complete. */
	ok &= tier_part_is(TIER_ALL, "waiting") || tier_part_is(TIER_ALL, "partly");
	if (!threads_go()) {
		ksft_print_msg("there are threads without slow memory\n");
		ok = false;
	}
	return ok;
}

static inline int set_cpu_online(int cpu, bool online)
{
	char path[64];

	snprintf(path, sizeof(path), CPUS "cpu%d/online", cpu);
	return write_file(path, online ? "1" : "0");
}

/* Ends the program if it cannot be tested here.  Finds the nodes. */
static void begin_kmmscand_tests(void)
{
	bool ok;

	ksft_print_header();
	if (geteuid())
		ksft_exit_skip("needs root\n");
	if (tier_part_number("scan", "enabled") < 0)
		ksft_exit_skip("no " TIER_PARTS "scan/ (CONFIG_KMMSCAND)\n");
	if (tier_parts_begin())
		ksft_exit_skip("memory tiering cannot be switched on\n");
	if (tier_part_number("scan", "enabled") || tier_part_number("promote", "enabled"))
		ksft_exit_skip("kmmscand is in use\n");

	if (!find_tiers(&fast, &slow)) {
		/* Also a result: it must take the wish, and say so. */
		ksft_set_plan(1);
		ok = !wish(true) && both_wait();
		ok &= !enable(false);
		ksft_test_result(ok, "enabled without a slow tier both parts wait\n");
		ksft_finished();
	}
	ksft_print_msg("fast node %d, slow node %d\n", fast, slow);
}

#endif /* _KMMSCAND_UTIL_H */
