// SPDX-License-Identifier: GPL-2.0
/*
 * restore_readonly: what was not written stays read-only when it comes back to the fast node,
 * what was written there is remembered and comes back writable.
 */
#include "../kselftest_harness.h"

#include "scene.h"

#define NR_PAGES	512UL
#define LEN		(NR_PAGES * PAGE)
/* Pages that are being moved by somebody else, or share a bit of the memory by chance */
#define MANY		(NR_PAGES * 3 / 4)
#define FEW		(NR_PAGES / 4)

FIXTURE(restore)
{
	struct scene scene;
	struct moves *moves;
	char *area;
};

FIXTURE_SETUP(restore)
{
	/* One that reads nothing: without it there may be no other CPU to be flushed. */
	const char *lacks = scene_begin(&self->scene, 1);

	if (lacks)
		SKIP(return, "%s", lacks);
	ASSERT_EQ(0, set(MIGRC "restore_readonly", "1"));
	self->moves = calloc(1, sizeof(*self->moves));
	self->area = map_area(LEN);
	ASSERT_TRUE(self->area && self->moves && place(self->area, LEN, fast));
}

FIXTURE_TEARDOWN(restore)
{
	scene_end(&self->scene);
}

/* To the slow node and back.  By how much has the row risen? */
static long there_and_back(struct moves *moves, char *area, const char *row)
{
	struct counters before;
	int i;

	counters_read(&before);
	for (i = 0; i < 2; i++) {
		moves_clear(moves);
		moves_add(moves, area, NR_PAGES, i ? fast : slow);
		if (moves_do(moves) < MANY)
			return -1;
	}
	return counter_since(&before, row);
}

static void write_all(char *area, uint64_t value)
{
	unsigned long i;

	for (i = 0; i < NR_PAGES; i++)
		word_write(area + i * PAGE, value);
}

static bool all_are(const char *area, uint64_t value)
{
	unsigned long i;

	for (i = 0; i < NR_PAGES; i++)
		if (word_read(area + i * PAGE) != value)
			return false;
	return true;
}

TEST_F(restore, clean)
{
	write_all(self->area, 1);
	EXPECT_GE(there_and_back(self->moves, self->area, "migrc_readonly"), MANY);
	/* They are read-only already, and move without a flush. */
	EXPECT_GE(there_and_back(self->moves, self->area, "migrc_deferred"), MANY);
	EXPECT_TRUE(all_are(self->area, 1));
}

TEST_F(restore, written)
{
	struct counters before;
	long readonly;

	write_all(self->area, 1);
	ASSERT_GE(there_and_back(self->moves, self->area, "migrc_readonly"), MANY);
	counters_read(&before);
	write_all(self->area, 2);
	EXPECT_GE(counter_since(&before, "migrc_readonly_written"), MANY);

	readonly = there_and_back(self->moves, self->area, "migrc_readonly");
	ASSERT_GE(readonly, 0);
	if (readonly > (long)FEW)
		ksft_print_msg("%ld of %lu written pages were left read-only\n", readonly,
			       NR_PAGES);
	EXPECT_LE(readonly, (long)FEW);
	counters_read(&before);
	write_all(self->area, 3);
	EXPECT_LE(counter_since(&before, "migrc_readonly_written"), (long)FEW);
	EXPECT_TRUE(all_are(self->area, 3));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
