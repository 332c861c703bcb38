// SPDX-License-Identifier: GPL-2.0
/*
 * /sys/kernel/mm/tier: files take what they should, wishes are kept, the switch of all starts and
 * stops what is wished, and states say so.  No test depends on which parts the kernel has.
 *
 * With the boot parameter tier=off only the test "blocked" runs, and without it all others do.
 */
#define _GNU_SOURCE
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "../kselftest.h"
#include "tier_parts.h"

#define NODES		"/sys/devices/system/node/"
#define MAX_NODES	64
#define UNPRIVILEGED	65534
/* Until poll(2) must have returned, and until the other process writes */
#define POLL_MS		5000
#define WRITE_MS	200
/* How long two processes write, and what each waits after a write */
#define STRESS_S	1
#define STRESS_US	10000

/* The switch of all, then the parts */
static const char *name[1 + 16] = { TIER_ALL };
static int nr_names;

/* All that there is in a file, or false */
static bool read_all(const char *dir, const char *file, char *text, size_t size)
{
	int fd = tier_part_open(dir, file, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	return n >= 0;
}

/* Call @check for each file of @dir. */
static bool each_file_of(const char *dir, bool (*check)(const char *dir, const char *file))
{
	struct dirent *entry;
	char path[300];
	bool ok = true;
	DIR *files;

	snprintf(path, sizeof(path), TIER_PARTS "%s", dir);
	files = opendir(path);
	while (files && (entry = readdir(files)))
		if (entry->d_type == DT_REG)
			ok &= check(dir, entry->d_name);
	if (files)
		closedir(files);
	return ok && files;
}

/* Call @check for each file of all parts, of all nodes and of tier/ itself. */
static bool each_file(bool (*check)(const char *dir, const char *file))
{
	DIR *dirs = opendir(TIER_PARTS);
	struct dirent *entry;
	bool ok = true;

	while (dirs && (entry = readdir(dirs)))
		if (entry->d_type == DT_DIR && strcmp(entry->d_name, ".."))
			ok &= each_file_of(entry->d_name, check);
	if (dirs)
		closedir(dirs);
	return ok && dirs;
}

/* By its mode: access(2) lets root write everything. */
static bool writable(const char *dir, const char *file)
{
	char path[300];
	struct stat st;

	snprintf(path, sizeof(path), TIER_PARTS "%s/%s", dir, file);
	return !stat(path, &st) && st.st_mode & 0222;
}

/* One text line, which may be empty */
static bool is_line(const char *dir, const char *file)
{
	char text[4097], *end;

	if (!read_all(dir, file, text, sizeof(text)))
		return false;
	end = strchr(text, '\n');
	if (end && !end[1])
		return true;
	ksft_print_msg("%s/%s is not one line: \"%s\"\n", dir, file, text);
	return false;
}

/* Neither the switch of all nor any wish is set. */
static bool all_off(void)
{
	bool ok = true;
	int i;

	for (i = 0; i < nr_names; i++)
		ok &= tier_part_set(name[i], false) >= 0;
	return ok;
}

/* Write a wish, which must then be there. */
static bool wish(const char *part, bool on)
{
	if (tier_part_set(part, on) >= 0 && tier_part_number(part, "enabled") == on)
		return true;
	ksft_print_msg("%s/enabled does not take %d\n", part, on);
	return false;
}

/* Wish all parts, or none; the switch of all stays. */
static bool wish_all(bool on)
{
	bool ok = true;
	int i;

	for (i = 1; i < nr_names; i++)
		ok &= wish(name[i], on);
	return ok;
}

/* Does the state of a part agree with what is wished, and the reason with the state? */
static bool agrees(const char *part)
{
	bool wished = tier_part_number(TIER_ALL, "enabled") == 1 &&
		      tier_part_number(part, "enabled") == 1;
	char state[32], again[32], reason[512];
	bool ok;

	/* A part that waits may start meanwhile. */
	do {
		ok = tier_part_read(part, "state", state, sizeof(state)) &&
		     tier_part_read(part, "reason", reason, sizeof(reason)) &&
		     tier_part_read(part, "state", again, sizeof(again));
	} while (ok && strcmp(state, again));
	if (!strcmp(state, "off"))
		ok &= !wished && !*reason;
	else if (!strcmp(state, "on"))
		ok &= wished && !*reason;
	else
		ok &= (!strcmp(state, "waiting") || !strcmp(state, "unsupported")) && wished &&
		      *reason;
	ok &= is_line(part, "state") && is_line(part, "reason");
	if (!ok)
		ksft_print_msg("%s is %swished, its state \"%s\", and the reason \"%s\"\n", part,
			       wished ? "" : "not ", state, reason);
	return ok;
}

/* The same for all parts; and the state of all is that of the part which lacks most. */
static bool all_agree(void)
{
	bool waits = false, unsupported = false, ok = true;
	const char *expected;
	char state[32];
	int i;

	for (i = 1; i < nr_names; i++) {
		ok &= agrees(name[i]);
		/* Without virtual machines nothing is missing. */
		waits |= strcmp(name[i], "age") && tier_part_is(name[i], "waiting");
		unsupported |= tier_part_is(name[i], "unsupported");
	}
	ok &= tier_part_read(TIER_ALL, "state", state, sizeof(state)) && is_line(TIER_ALL, "state");
	if (tier_part_number(TIER_ALL, "enabled") != 1)
		expected = "off";
	else
		expected = unsupported ? "partly" : waits ? "waiting" : "on";
	if (strcmp(state, expected)) {
		ksft_print_msg("the state of all is %s, not %s\n", state, expected);
		ok = false;
	}
	return ok;
}

/* A value is refused, and neither the file nor the state changes. */
static bool refused(const char *dir, const char *file, const char *text)
{
	char before[64], after[64], state[32];
	int err;

	if (!tier_part_read(dir, file, before, sizeof(before)) ||
	    !tier_part_read(dir, "state", state, sizeof(state)))
		return false;
	err = tier_part_write(dir, file, text);
	tier_part_read(dir, file, after, sizeof(after));
	/* write() of nothing does not reach the file. */
	if ((err == -EINVAL || (!err && !*text)) && !strcmp(before, after) &&
	    tier_part_is(dir, state))
		return true;
	ksft_print_msg("%s/%s: \"%.32s\" gave %d, %s -> %s\n", dir, file, text, err, before, after);
	return false;
}

static void test_values(void)
{
	static const char * const bad[] = {
		"", "\n", " ", " 1x", "1x", "2", "-1", "0x1", "01", "yes", "y", "on", "off", "true",
		"1 1", "1\n1", "0.5", "99999999999999999999",
	};
	static const char * const good[] = { "0", "1", "0\n", "1\n", "1", "0" };
	bool ok = all_off();
	char ones[4097];
	unsigned int j;
	int i, on;

	memset(ones, '1', sizeof(ones) - 1);
	ones[sizeof(ones) - 1] = '\0';
	for (i = 0; i < nr_names; i++) {
		for (on = 0; on < 2; on++) {
			ok &= wish(name[i], on);
			for (j = 0; j < ARRAY_SIZE(bad); j++)
				ok &= refused(name[i], "enabled", bad[j]);
			ok &= refused(name[i], "enabled", ones);
		}
		for (j = 0; j < ARRAY_SIZE(good); j++) {
			ok &= !tier_part_write(name[i], "enabled", good[j]);
			ok &= tier_part_number(name[i], "enabled") == *good[j] - '0';
		}
	}
	ok &= all_agree();
	ksft_test_result(ok, "each enabled takes 0 and 1 only\n");
}

/* Of a part, whatever its files are: one decimal number */
static bool takes_a_number(const char *part, const char *file)
{
	static const char * const bad[] = {
		"", "\n", "x", "-1", "0x10", "1.5", "1 1", "1K", "on", "99999999999999999999",
	};
	char value[64], line[70];
	unsigned int j;
	bool ok;

	if (!writable(part, file))
		return true;
	ok = tier_part_read(part, file, value, sizeof(value)) && *value &&
	     strspn(value, "0123456789") == strlen(value);
	for (j = 0; j < ARRAY_SIZE(bad); j++)
		ok &= refused(part, file, bad[j]);
	snprintf(line, sizeof(line), "%sx", value);
	ok &= refused(part, file, line);
	snprintf(line, sizeof(line), "%s\n", value);
	ok &= !tier_part_write(part, file, value) && !tier_part_write(part, file, line);
	tier_part_read(part, file, line, sizeof(line));
	ok &= !strcmp(value, line);
	if (!ok)
		ksft_print_msg("%s/%s is %s at first, %s then\n", part, file, value, line);
	return ok;
}

static void test_numbers(void)
{
	bool ok = all_off();
	int i;

	for (i = 1; i < nr_names; i++)
		ok &= each_file_of(name[i], takes_a_number);
	ksft_test_result(ok, "each setting is a decimal number, and takes no other text\n");
}

static void test_lines(void)
{
	bool ok = all_off() && each_file(is_line);
	int i;

	ok &= wish_all(true) && wish(TIER_ALL, true);
	ok &= each_file(is_line);
	for (i = 0; i < nr_names; i++)
		ok &= !writable(name[i], "state") && (!i || !writable(name[i], "reason"));
	ksft_test_result(ok, "each file is one line, and states cannot be written\n");
}

/* A wish does nothing while the switch of all is 0, and is still there later. */
static void test_wishes(void)
{
	bool ok = all_off();
	int i, times, on;

	for (i = 1; i < nr_names; i++) {
		for (on = 1; on >= 0; on--) {
			for (times = 0; times < 2; times++)
				ok &= wish(name[i], on) && all_agree();
			ok &= tier_part_is(name[i], "off");
		}
	}
	/* Every other part */
	for (i = 1; i < nr_names; i++)
		ok &= wish(name[i], i & 1);
	for (times = 0; times < 4; times++)
		ok &= wish(TIER_ALL, times / 2 == 0) && all_agree();
	for (i = 1; i < nr_names; i++)
		ok &= tier_part_number(name[i], "enabled") == (i & 1);
	ksft_test_result(ok, "wishes are kept\n");
}

static void test_start(void)
{
	bool ok = all_off() && wish_all(true);
	char reason[512], state[32];
	int i, times;

	for (times = 0; times < 2; times++)
		ok &= wish(TIER_ALL, true) && all_agree();
	for (i = 1; i < nr_names; i++) {
		ok &= !tier_part_is(name[i], "off");
		tier_part_read(name[i], "state", state, sizeof(state));
		tier_part_read(name[i], "reason", reason, sizeof(reason));
		ksft_print_msg("%s: %s%s%s\n", name[i], state, *reason ? ", " : "", reason);
	}
	for (times = 0; times < 2; times++) {
		ok &= wish(TIER_ALL, false) && all_agree();
		for (i = 0; i < nr_names; i++)
			ok &= tier_part_is(name[i], "off");
	}
	ksft_test_result(ok, "the switch of all starts and stops what is wished\n");
}

/* While memory tiering is on a wish starts one part and no other. */
static void test_alone(void)
{
	bool ok = all_off() && wish(TIER_ALL, true) && all_agree();
	int i, j;

	for (i = 1; i < nr_names; i++) {
		ok &= wish(name[i], true) && all_agree();
		for (j = 1; j < nr_names; j++)
			ok &= tier_part_is(name[j], "off") == (i != j);
		ok &= wish(name[i], false) && all_agree();
		ok &= tier_part_is(name[i], "off");
	}
	ksft_test_result(ok, "each part has its own switch\n");
}

/* Read from the beginning, after which poll(2) waits for the next change. */
static bool read_again(int fd, char *word, size_t size)
{
	ssize_t n = pread(fd, word, size - 1, 0);

	word[n < 0 ? 0 : n] = '\0';
	return n > 0;
}

/* poll(2) on the state of @part returns when another process writes to @writer. */
static bool polled(const char *part, const char *writer, bool on)
{
	int fd = tier_part_open(part, "state", O_RDONLY), status = -1;
	struct pollfd poll_fd = { .fd = fd, .events = POLLPRI | POLLERR };
	char before[32], after[32];
	bool early, woken, ok;
	pid_t pid;

	ok = fd >= 0 && read_again(fd, before, sizeof(before));
	early = poll(&poll_fd, 1, 0) != 0;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		usleep(WRITE_MS * 1000);
		_exit(tier_part_set(writer, on) < 0);
	}
	woken = poll(&poll_fd, 1, POLL_MS) == 1 && poll_fd.revents & POLLPRI &&
		poll_fd.revents & POLLERR;
	ok &= pid > 0 && waitpid(pid, &status, 0) == pid && !status;
	ok &= read_again(fd, after, sizeof(after)) && strcmp(before, after);
	close(fd);
	if (ok && !early && woken)
		return true;
	ksft_print_msg("%s/state, %d to %s/enabled: woken before %d, then %d, %s -> %s\n", part, on,
		       writer, early, woken, before, after);
	return false;
}

static void test_poll(void)
{
	bool ok = all_off() && wish(TIER_ALL, true);
	int i, on;

	for (i = 1; i < nr_names; i++)
		for (on = 1; on >= 0; on--)
			ok &= polled(name[i], name[i], on);
	ok &= wish_all(true) && wish(TIER_ALL, false);
	for (i = 0; i < nr_names; i++)
		for (on = 1; on >= 0; on--)
			ok &= polled(name[i], TIER_ALL, on);
	ksft_test_result(ok, "poll(2) returns when a state has changed\n");
}

static bool may_only_read(const char *dir, const char *file)
{
	int fd = tier_part_open(dir, file, O_WRONLY), err = errno;

	close(fd);
	if (fd < 0 && err == EACCES && is_line(dir, file))
		return true;
	ksft_print_msg("%s/%s: opened to be written: %s\n", dir, file,
		       fd < 0 ? strerror(err) : "no error");
	return false;
}

static void test_reader(void)
{
	int status = -1;
	pid_t pid;

	pid = fork();
	if (!pid) {
		if (setgroups(0, NULL) || setgid(UNPRIVILEGED) || setuid(UNPRIVILEGED))
			_exit(2);
		_exit(!each_file(may_only_read));
	}
	waitpid(pid, &status, 0);
	ksft_test_result(!status, "a user without privilege reads each file, and writes none\n");
}

/* Write something to some file all the time. */
static void write_at_random(unsigned int seed)
{
	time_t end = time(NULL) + STRESS_S + 1;
	unsigned int writes = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	srand(seed);
	for (; time(NULL) < end || writes < 10; writes++) {
		const char *part = name[rand() % nr_names];

		if (tier_part_write(part, "enabled", rand() & 1 ? "1" : "0"))
			_exit(1);
		usleep(STRESS_US);
	}
	_exit(0);
}

static void test_writers(void)
{
	bool ok = all_off();
	int i, status;
	pid_t pid[2];

	for (i = 0; i < 2; i++) {
		pid[i] = fork();
		if (!pid[i])
			write_at_random(i + 1);
	}
	for (i = 0; i < 2; i++)
		ok &= pid[i] > 0 && waitpid(pid[i], &status, 0) == pid[i] && !status;
	ok &= all_agree();
	/* It works as if nothing had been. */
	ok &= wish_all(true) && wish(TIER_ALL, true) && all_agree();
	ok &= all_off() && all_agree();
	ksft_test_result(ok, "of two processes that write at once one has its way\n");
}

/* What the kernel says of a node: numbers, a word and a list of nodes */
static bool describes(const char *node)
{
	char source[32], targets[256];
	long distance = tier_part_number(node, "distance");
	bool ok;

	ok = tier_part_read(node, "source", source, sizeof(source)) &&
	     tier_part_read(node, "targets", targets, sizeof(targets));
	ok &= distance > 0 && *source && !strpbrk(source, " \t");
	ok &= strspn(targets, "0123456789,-") == strlen(targets);
	ok &= tier_part_number(node, "hot") >= 0;
	ksft_print_msg("%s: distance %ld, source \"%s\", targets \"%s\"\n", node, distance, source,
		       targets);
	return ok;
}

static void test_nodes(void)
{
	char path[80], dir[16];
	bool ok = true;
	int nid, nr = 0;

	for (nid = 0; nid < MAX_NODES; nid++) {
		snprintf(dir, sizeof(dir), "node%d", nid);
		snprintf(path, sizeof(path), TIER_PARTS "%s", dir);
		if (access(path, F_OK))
			continue;
		ok &= describes(dir);
		nr++;
		snprintf(path, sizeof(path), NODES "%s", dir);
		ok &= !access(path, F_OK);
	}
	if (nr)
		ksft_test_result(ok, "each node is described\n");
	else
		ksft_test_result_skip("no node has a memory tier (CONFIG_NUMA)\n");
}

/* With the boot parameter tier=off nothing can be switched on, and all can be switched off. */
static void test_blocked(void)
{
	bool ok = true;
	int i, err;

	for (i = 0; i < nr_names; i++) {
		long before = tier_part_number(name[i], "enabled");

		err = tier_part_write(name[i], "enabled", "1");
		if (err != -EPERM || tier_part_number(name[i], "enabled") != before) {
			ksft_print_msg("%s/enabled: 1 gave %d\n", name[i], err);
			ok = false;
		}
		ok &= !tier_part_write(name[i], "enabled", "0");
		ok &= !tier_part_number(name[i], "enabled");
		ok &= tier_part_is(name[i], i ? "off" : "blocked");
	}
	ok &= tier_part_is(TIER_ALL, "blocked") && each_file(is_line);
	ksft_test_result(ok, "tier=off keeps all parts off\n");
}

static const struct parts_test {
	const char *name;
	void (*run)(void);
} tests[] = {
	{ "values", test_values },
	{ "numbers", test_numbers },
	{ "lines", test_lines },
	{ "wishes", test_wishes },
	{ "start", test_start },
	{ "alone", test_alone },
	{ "poll", test_poll },
	{ "reader", test_reader },
	{ "writers", test_writers },
	{ "nodes", test_nodes },
	{ "blocked", test_blocked },
};

/* Is a test named on the command line, or none? */
static bool chosen(const char *test, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc && strcmp(test, argv[i]); i++)
		;
	return argc < 2 || i < argc;
}

int main(int argc, char **argv)
{
	int nr = tier_parts_keep(), plan = 0;
	unsigned int i;

	ksft_print_header();
	if (nr < 0)
		ksft_exit_skip("no " TIER_PARTS " (CONFIG_TIER_PARTS)\n");
	if (geteuid())
		ksft_exit_skip("needs root\n");
	if (!nr)
		ksft_exit_fail_msg("there is no part in " TIER_PARTS "\n");
	for (nr_names = 1; nr_names <= nr; nr_names++)
		name[nr_names] = tier_parts_kept.part[nr_names - 1];
	for (i = 0; i < ARRAY_SIZE(tests); i++)
		plan += chosen(tests[i].name, argc, argv);
	if (argc > 1 && plan < argc - 1)
		ksft_exit_fail_msg("there is no such test\n");
	ksft_set_plan(plan);
	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		bool off = tests[i].run == test_blocked;

		if (!chosen(tests[i].name, argc, argv))
			continue;
		if (tier_part_is(TIER_ALL, "blocked") == off)
			tests[i].run();
		else
			ksft_test_result_skip("%s is for a boot %s tier=off\n", tests[i].name,
					      off ? "with" : "without");
	}
	ksft_finished();
}
