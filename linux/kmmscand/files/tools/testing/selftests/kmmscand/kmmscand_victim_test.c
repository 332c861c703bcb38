// SPDX-License-Identifier: GPL-2.0
/*
 * More memory is equally hot than fits into the fast tier: does kmmscand find no victims among
 * pages that are as hot, and are another group's hot pages promoted all the same?
 *
 * The fast node is filled with locked memory but for some room.  A process has twice as much
 * on the slow node, and reads all of it all the time.
 *
 * Not for the debug kernel, on which promotion is too slow to fill the room in time.
 */
#define _GNU_SOURCE
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "kmmscand_util.h"
#include "../tier/tier_fill.h"

#define MB		(1024UL * 1024)
#define CGROUPS		"/tmp/kmmscand_victim_cgroups"
/* Free on the fast node when the tests begin */
#define ROOM		(48 * MB)
#define SET		(2 * ROOM)
#define SMALL		MB
/*
 * Between two reads of all of it, so that pages of the set are used some tens of times a second,
 * and those of the other group some hundred times.  What is used more than 250 times a second
 * cannot be told apart, and what is used less often than windows are long is no candidate.
 */
#define SET_US		10000
#define SMALL_US	1000
/* Until it is known that there is too much, and how long it is watched then */
#define LEARN_S		30
#define WATCH_S		30
/* The test promotes at most this share of the slow hot pages, in percent */
#define FEW		100
/* Limit of pages that are promoted again, in percent of all promoted pages */
#define FEW_AGAIN	1
/* Until hot pages must have arrived that have nothing to do with it */
#define ARRIVE_S	20

static char *hog;
static size_t hog_len;

/* Leave ROOM above what is kept free for promotion. */
static bool take_the_rest(void)
{
	char *room = map_on(ROOM, fast, false);

	if (!room)
		return false;
	hog = fill_node(fast, &hog_len);
	if (!hog || mlock(hog, hog_len))
		return false;
	unmap_on(room, ROOM);
	return true;
}

/* A child in a group of its own, which reads memory that is slow at first */
static pid_t start_reader(const char *group, size_t len, unsigned int pause_us)
{
	char path[96];
	pid_t pid;

	snprintf(path, sizeof(path), CGROUPS "/%s", group);
	mkdir(path, 0700);
	strcat(path, "/cgroup.procs");
	pid = fork_child();
	if (!pid) {
		char *p = write_file(path, "0") ? NULL : map_on(len, slow, false);

		for (;;) {
			if (!p)
				_exit(1);
			touch(p, len);
			/* Others need the CPU, too. */
			usleep(pause_us);
		}
	}
	return pid;
}

static void end_reader(pid_t pid, const char *group)
{
	char path[96];

	stop_load(pid);
	snprintf(path, sizeof(path), CGROUPS "/%s", group);
	while (rmdir(path) && errno == EBUSY)
		usleep(10000);
}

/* Pages of a group on a node */
static long group_pages(const char *group, int nid)
{
	char path[96], line[512], key[16];
	long found = 0;
	FILE *f;
	char *p;

	snprintf(path, sizeof(path), CGROUPS "/%s/memory.numa_stat", group);
	f = fopen(path, "r");
	if (!f)
		return -1;
	snprintf(key, sizeof(key), " N%d=", nid);
	while (fgets(line, sizeof(line), f)) {
		p = strstr(line, key);
		if (p && !strncmp(line, "anon ", 5))
			found = strtol(p + strlen(key), NULL, 10) / PAGE;
	}
	fclose(f);
	return found;
}

static void say(const char *when, long promoted, long again)
{
	ksft_print_msg("%s: %ld pages promoted, %ld of them again\n", when,
		       event_count("tier_promote_success") - promoted,
		       event_count("tier_promote_again") - again);
	ksft_print_msg("of the set %ld are fast, %ld slow\n", group_pages("set", fast),
		       group_pages("set", slow));
}

/* Returns the reader once there has been time to learn. */
static pid_t learn(void)
{
	long promoted = event_count("tier_promote_success");
	long again = event_count("tier_promote_again");
	pid_t pid = start_reader("set", SET, SET_US);

	sleep(2);
	if (enable(true))
		ksft_print_msg("kmmscand cannot be enabled\n");
	sleep(LEARN_S);
	say("at first", promoted, again);
	return pid;
}

static void test_uniform(void)
{
	long all = event_count("tier_promote_success"), again = event_count("tier_promote_again");
	pid_t pid = learn();
	long promoted;
	bool ok;

	/* To do nothing is no solution. */
	ok = group_pages("set", fast) >= (long)(ROOM / PAGE / 2);
	promoted = event_count("tier_promote_success");
	sleep(WATCH_S);
	say("then", all, again);
	promoted = event_count("tier_promote_success") - promoted;
	ok &= promoted <= group_pages("set", slow) * FEW / 100;
	/* Since the beginning */
	ok &= event_count("tier_promote_again") - again <=
	      (event_count("tier_promote_success") - all) * FEW_AGAIN / 100;
	enable(false);
	end_reader(pid, "set");
	ksft_test_result(ok, "pages are not exchanged for others that are as hot\n");
}

/* Another group gets its few hot pages promoted all the same. */
static void test_innocent(void)
{
	pid_t set = learn();
	pid_t other = start_reader("other", SMALL, SMALL_US);
	double end = now() + ARRIVE_S;
	long arrived = 0;

	while (now() < end && arrived < (long)(SMALL / PAGE * 8 / 10)) {
		usleep(300000);
		arrived = group_pages("other", fast);
	}
	ksft_print_msg("of %lu pages of the other group %ld are fast after %.1f s\n",
		       SMALL / PAGE, arrived, now() - end + ARRIVE_S);
	enable(false);
	end_reader(other, "other");
	end_reader(set, "set");
	ksft_test_result(arrived >= (long)(SMALL / PAGE * 8 / 10),
			 "who is not to blame gets his pages promoted\n");
}

static const struct tier_test tests[] = {
	{ "uniform", test_uniform },
	{ "innocent", test_innocent },
};

int main(int argc, char **argv)
{
	begin_kmmscand_tests();
	mkdir(CGROUPS, 0700);
	if (mount("none", CGROUPS, "cgroup2", 0, NULL) ||
	    write_file(CGROUPS "/cgroup.subtree_control", "+memory"))
		ksft_exit_skip("no memory control groups (v2)\n");
	change("/sys/kernel/mm/numa/demotion_enabled", "1");
	change(PCP_HIGH, "8");
	set("scan/period_ms", "200");
	if (take_the_rest())
		run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	else
		ksft_test_result_fail("the fast node cannot be filled\n");
	munmap(hog, hog_len);
	umount(CGROUPS);
	rmdir(CGROUPS);
	ksft_finished();
}
