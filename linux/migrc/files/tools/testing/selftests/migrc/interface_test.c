// SPDX-License-Identifier: GPL-2.0
/*
 * The files of MIGRC: what they accept and refuse, what they say, and that off is off.
 */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "../kselftest_harness.h"

#include "scene.h"

FIXTURE(interface) { };

FIXTURE_SETUP(interface)
{
	if (geteuid())
		SKIP(return, "needs root");
	if (!exists(MIGRC "enabled"))
		SKIP(return, "no " MIGRC " (CONFIG_MIGRC)");
	/* To be put back at the end */
	set(MIGRC "enabled", "0");
	set(MIGRC "max_pages", "1024");
	set(MIGRC "max_age_ms", "100");
	set(MIGRC "restore_readonly", "0");
}

FIXTURE_TEARDOWN(interface)
{
	write_file(MIGRC "enabled", "0");
}

struct bad {
	const char *file;
	const char *values[8];
};

static const struct bad bad[] = {
	{ MIGRC "enabled", { "2", "-1", "x", "\n", "y", "on", "N" } },
	{ MIGRC "restore_readonly", { "2", "-1", "x", "\n", "y", "on", "N" } },
	{ MIGRC "max_pages", { "0", "65537", "-1", "x", "\n", "1 2", "4294967297" } },
	{ MIGRC "max_age_ms", { "0", "60001", "-1", "x", "\n", "1 2", "4294967297" } },
};

TEST_F(interface, bad_values)
{
	char before[32], after[32];
	unsigned long i, k;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		ASSERT_TRUE(read_file(bad[i].file, before, sizeof(before)));
		for (k = 0; k < ARRAY_SIZE(bad[i].values) && bad[i].values[k]; k++) {
			EXPECT_EQ(-EINVAL, write_file(bad[i].file, bad[i].values[k]))
				TH_LOG("\"%s\" to %s", bad[i].values[k], bad[i].file);
			ASSERT_TRUE(read_file(bad[i].file, after, sizeof(after)));
			EXPECT_STREQ(before, after);
		}
	}
}

struct good {
	const char *file, *value;
};

static const struct good good[] = {
	{ MIGRC "max_pages", "1" },
	{ MIGRC "max_pages", "65536" },
	{ MIGRC "max_age_ms", "1" },
	{ MIGRC "max_age_ms", "60000" },
	{ MIGRC "enabled", "1" },
	{ MIGRC "enabled", "1" },
	{ MIGRC "max_pages", "77" },
	{ MIGRC "max_age_ms", "77" },
	{ MIGRC "restore_readonly", "1" },
	{ MIGRC "restore_readonly", "0" },
	{ MIGRC "enabled", "0" },
	{ MIGRC "enabled", "0" },
};

TEST_F(interface, good_values)
{
	unsigned long i;
	char now[32];

	for (i = 0; i < ARRAY_SIZE(good); i++) {
		EXPECT_EQ(0, write_file(good[i].file, good[i].value));
		ASSERT_TRUE(read_file(good[i].file, now, sizeof(now)));
		EXPECT_STREQ(good[i].value, now);
	}
}

TEST_F(interface, modes)
{
	static const char * const files[] = { "enabled", "max_pages", "max_age_ms",
					       "restore_readonly" };
	char path[64];
	unsigned long i;
	struct stat st;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		snprintf(path, sizeof(path), MIGRC "%s", files[i]);
		ASSERT_EQ(0, stat(path, &st));
		EXPECT_EQ(0644, st.st_mode & 07777);
	}
}

TEST_F(interface, rows)
{
	static const char * const rows[] = {
		"migrc_deferred", "migrc_pending", "migrc_flush",
		"migrc_drain_cap", "migrc_drain_age", "migrc_drain_pressure",
		"migrc_drain_alloc", "migrc_drain_oom",
		"migrc_drain_isolate", "migrc_drain_failure", "migrc_drain_contig",
		"migrc_drain_freeze", "migrc_drain_off",
		"migrc_drain_mixed", "migrc_drain_along", "migrc_drain_debug",
		"migrc_force_wp", "migrc_force_swap", "migrc_force_gup",
		"migrc_force_numa", "migrc_force_unmap",
		"migrc_skip_write", "migrc_skip_pending", "migrc_skip_large",
		"migrc_skip_file", "migrc_skip_limit", "migrc_skip_collision", "migrc_readonly",
		"migrc_readonly_written", "migrc_promote_later", "migrc_scan_spared",
		"migrc_promote_postponed",
	};
	int missing = 0;
	unsigned long i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		if (counter(rows[i]) < 0) {
			ksft_print_msg("no row %s in /proc/vmstat\n", rows[i]);
			missing++;
		}
	EXPECT_EQ(0, missing);
}

FIXTURE(switched)
{
	struct scene scene;
	char *area;
};

FIXTURE_SETUP(switched)
{
	const char *lacks = scene_begin(&self->scene, 1);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->area = map_area(HUGE);
	ASSERT_TRUE(self->area && place(self->area, PAGE, slow));
	spot_show(self->scene.crew, 0, self->area);
	ASSERT_TRUE(make_read_only(self->area, PAGE, BY_UFFD));
	crew_settle(self->scene.crew);
}

FIXTURE_TEARDOWN(switched)
{
	scene_end(&self->scene);
}

/* On, a move is deferred, off, it is not, and nothing stays behind. */
TEST_F_TIMEOUT(switched, off, scene_timeout())
{
	struct scene *scene = &self->scene;

	ASSERT_TRUE(move_page(self->area, fast));
	EXPECT_EQ(1, counter_since(&scene->before, "migrc_deferred"));
	EXPECT_EQ(1, counter("migrc_pending"));
	ASSERT_EQ(0, write_file(MIGRC "enabled", "0"));
	EXPECT_EQ(0, counter("migrc_pending"));
	EXPECT_EQ(1, counter_since(&scene->before, "migrc_drain_off"));
	ASSERT_TRUE(move_page(self->area, slow));
	EXPECT_EQ(1, counter_since(&scene->before, "migrc_deferred"));
	EXPECT_EQ(0, counter("migrc_pending"));
	EXPECT_TRUE(scene_clean(scene));
}

TEST_F_TIMEOUT(switched, drain, scene_timeout())
{
	struct scene *scene = &self->scene;

	ASSERT_TRUE(move_page(self->area, fast));
	EXPECT_EQ(1, counter("migrc_pending"));
	scene_drain();
	EXPECT_EQ(0, counter("migrc_pending"));
	EXPECT_EQ(1, counter_since(&scene->before, "migrc_drain_debug"));
	EXPECT_EQ(1, counter_since(&scene->before, "migrc_flush"));
	EXPECT_TRUE(scene_clean(scene));
}

/* The next system call that wants pages drains what the last one has left. */
TEST_F_TIMEOUT(switched, again, scene_timeout())
{
	struct scene *scene = &self->scene;

	ASSERT_TRUE(move_page(self->area, fast));
	ASSERT_TRUE(move_page(self->area, slow));
	EXPECT_EQ(2, counter_since(&scene->before, "migrc_deferred"));
	EXPECT_EQ(1, counter_since(&scene->before, "migrc_drain_isolate"));
	EXPECT_EQ(1, counter("migrc_pending"));
	EXPECT_TRUE(scene_clean(scene));
}

#define TRACING	"/sys/kernel/tracing/"

/* Does a line of the trace contain this? */
static bool traced(const char *what)
{
	FILE *trace = fopen(TRACING "trace", "r");
	bool found = false;
	char line[256];

	while (trace && !found && fgets(line, sizeof(line), trace))
		found = strstr(line, what);
	if (trace)
		fclose(trace);
	if (!found)
		ksft_print_msg("no \"%s\" in " TRACING "trace\n", what);
	return found;
}

TEST_F_TIMEOUT(switched, trace, scene_timeout())
{
	struct scene *scene = &self->scene;

	if (!exists(TRACING "trace"))
		mount("none", TRACING, "tracefs", 0, NULL);
	if (!exists(TRACING "events/migrc/enable"))
		SKIP(return, "no " TRACING " (CONFIG_FTRACE)");
	ASSERT_EQ(0, write_file(TRACING "trace", " "));
	ASSERT_EQ(0, set(TRACING "events/migrc/enable", "1"));
	ASSERT_TRUE(move_page(self->area, fast));
	scene_drain();
	ASSERT_TRUE(move_page(self->area, slow));
	word_write(self->area, 1);
	ASSERT_EQ(0, write_file(MIGRC "enabled", "0"));
	ASSERT_EQ(0, set(TRACING "events/migrc/enable", "0"));
	EXPECT_TRUE(traced("migrc_queue: nr=1 pending=1"));
	EXPECT_TRUE(traced("migrc_drain: reason=debug nr=1"));
	EXPECT_TRUE(traced("migrc_force: site=wp"));
	EXPECT_TRUE(traced("migrc_drain: reason=off nr=1"));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
