// SPDX-License-Identifier: GPL-2.0
/*
 * Promotion of page frames by hand, through /sys/kernel/debug/tier/promote:
 * pages arrive whole and intact, huge pages stay huge whether there is room or
 * not, and what must not move stays.
 *
 * Each test must fail while the switch in /sys/kernel/debug/tier/faults/ is set that breaks its
 * rule: "full" promote_watermark, "fragmented" promote_split, "mlocked" promote_mlocked.
 */
#include "tier_fill.h"
#include "tier_util.h"

#define NR_4K	64UL
#define NR_HUGE	8UL

static int fast, slow;

static void test_bad_input(void)
{
	char buf[128];
	bool ok = true;
	size_t i;
	static const char * const bad[] = {
		"", " ", "1", "1 1", "x 1 0", "1 x 0", "1 1 x", "-1 1 0", "1 -1 0",
		"1 1 -1", "1 0 0", "1 1 0 0", "1 1 1000000", "1 9999999999 0",
		"99999999999999999999999 1 0",
	};

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		/* write() of nothing never reaches the file */
		if (bad[i][0] && write_file(PROMOTE, bad[i]) != -EINVAL) {
			ksft_print_msg("\"%s\" was not refused\n", bad[i]);
			ok = false;
		}
	}
	/* A slow node is no target, and neither is a node that is not there. */
	snprintf(buf, sizeof(buf), "1 1 %d", slow);
	ok &= write_file(PROMOTE, buf) == -EINVAL;
	snprintf(buf, sizeof(buf), "1 1 %d", MAX_NODES - 1);
	ok &= write_file(PROMOTE, buf) == -EINVAL;
	ksft_test_result(ok, "malformed requests are refused\n");
}

static void test_nothing_there(void)
{
	bool ok = promote(1ULL << 50, 1, fast) == -ENOENT;
	char *onfast = map_on(PAGE, fast, false);

	if (!onfast) {
		ksft_test_result_skip("no memory on the fast node\n");
		return;
	}
	ok &= promote(pfn_of(onfast), 1, fast) == -ENOENT;
	ksft_test_result(ok, "no frame, or one on a fast node: ENOENT\n");
	unmap_on(onfast, PAGE);
}

static void test_small(void)
{
	char *p = map_on(NR_4K * PAGE, slow, false);
	unsigned long i;
	bool ok = true;

	if (!p || count_on(p, NR_4K * PAGE, slow) != NR_4K) {
		ksft_test_result_skip("no memory on the slow node\n");
		return;
	}
	fill(p, NR_4K * PAGE);
	for (i = 0; i < NR_4K; i++) {
		int err = promote(pfn_of(p + i * PAGE), 1, fast);

		if (err) {
			ksft_print_msg("page %lu: %s\n", i, strerror(-err));
			ok = false;
		}
	}
	ok &= count_on(p, NR_4K * PAGE, fast) == NR_4K;
	ok &= intact(p, NR_4K * PAGE);
	ksft_test_result(ok, "small pages arrive, contents intact\n");
	unmap_on(p, NR_4K * PAGE);
}

static void test_mlocked(void)
{
	char *p = map_on(PAGE, slow, false);
	bool ok;

	if (!p || mlock(p, PAGE)) {
		ksft_test_result_skip("mlock: %s\n", strerror(errno));
		return;
	}
	ok = promote(pfn_of(p), 1, fast) == -ENOENT && node_of(p) == slow;
	ksft_test_result(ok, "mlocked page stays\n");
	unmap_on(p, PAGE);
}

/* One mapping of NR_HUGE huge pages on the slow node, or NULL. */
static char *map_huge(void)
{
	char *p = map_on(NR_HUGE * HUGE, slow, true);

	if (p && huge_kb(p) == (long)(NR_HUGE * HUGE / 1024) &&
	    count_on(p, NR_HUGE * HUGE, slow) == NR_HUGE * PER_HUGE)
		return p;
	if (p)
		unmap_on(p, NR_HUGE * HUGE);
	return NULL;
}

static void test_huge(void)
{
	char *p = map_huge();
	unsigned long i;
	bool ok = true;
	long before;

	if (!p) {
		ksft_test_result_skip("no huge pages on the slow node\n");
		return;
	}
	fill(p, NR_HUGE * HUGE);
	before = huge_kb(p);

	/* Part of it is hot: that is not enough to move it. */
	ok &= promote(pfn_of(p), 1, fast) == -ENOENT;
	ok &= promote(pfn_of(p) + 1, 1, fast) == -ENOENT;
	ok &= node_of(p) == slow;

	for (i = 0; i < NR_HUGE; i++) {
		int err = promote(pfn_of(p + i * HUGE), PER_HUGE, fast);

		if (err) {
			ksft_print_msg("huge page %lu: %s\n", i, strerror(-err));
			ok = false;
		}
	}
	ok &= count_on(p, NR_HUGE * HUGE, fast) == NR_HUGE * PER_HUGE;
	ok &= huge_kb(p) == before;
	ok &= intact(p, NR_HUGE * HUGE);
	ksft_test_result(ok, "huge pages arrive as huge pages, contents intact\n");
	unmap_on(p, NR_HUGE * HUGE);
}

static void test_full(void)
{
	char *hog, *p = map_huge();
	size_t len = 0;
	long before;
	bool ok;
	int err;

	if (!p) {
		ksft_test_result_skip("no huge pages on the slow node\n");
		return;
	}
	fill(p, NR_HUGE * HUGE);
	before = huge_kb(p);
	hog = fill_node(fast, &len);
	if (!hog) {
		ksft_test_result_skip("cannot fill the fast node\n");
		unmap_on(p, NR_HUGE * HUGE);
		return;
	}
	err = promote(pfn_of(p), PER_HUGE, fast);
	if (err != -ENOSPC)
		ksft_print_msg("expected ENOSPC, got %s\n", strerror(-err));
	ok = err == -ENOSPC;
	ok &= count_on(p, NR_HUGE * HUGE, slow) == NR_HUGE * PER_HUGE;
	ok &= huge_kb(p) == before;
	ok &= intact(p, NR_HUGE * HUGE);
	ksft_test_result(ok, "fast node full: ENOSPC, nothing moved or split\n");
	munmap(hog, len);
	unmap_on(p, NR_HUGE * HUGE);
}

/* Plenty of free memory on the fast node, but hardly any in huge blocks. */
static void test_fragmented(void)
{
	char *blocks, *hog, *p = map_huge();
	size_t len = 0, blocks_len = 0;
	unsigned long i, nomem = 0, moved = 0;
	long before;
	bool ok;

	if (!p) {
		ksft_test_result_skip("no huge pages on the slow node\n");
		return;
	}
	fill(p, NR_HUGE * HUGE);
	before = huge_kb(p);

	/* 96 MiB are to be fragmented, if there is that much. */
	blocks = use_up_blocks(fast, 24576, &blocks_len);
	if (!blocks) {
		ksft_test_result_skip("cannot map: %s\n", strerror(errno));
		goto unmap;
	}
	hog = fill_node(fast, &len);
	ok = hog;
	if (hog) {
		punch_holes(hog, len);
		for (i = 0; i < NR_HUGE; i++) {
			int err = promote(pfn_of(p + i * HUGE), PER_HUGE, fast);

			if (err == -ENOMEM)
				nomem++;
			else if (!err)
				moved++;
			else
				ksft_print_msg("huge page %lu: %s\n", i, strerror(-err));
		}
		ksft_print_msg("%lu moved, %lu found no huge block, huge %ld -> %ld kB\n",
			       moved, nomem, before, huge_kb(p));
		ok &= nomem > 0 && nomem + moved == NR_HUGE;
		ok &= count_on(p, NR_HUGE * HUGE, fast) == moved * PER_HUGE;
		ok &= huge_kb(p) == before;
		ok &= intact(p, NR_HUGE * HUGE);
		munmap(hog, len);
	}
	munmap(blocks, blocks_len);
	ksft_test_result(ok, "fast node fragmented: ENOMEM, nothing split\n");
unmap:
	unmap_on(p, NR_HUGE * HUGE);
}

static const struct tier_test tests[] = {
	{ "bad_input", test_bad_input },
	{ "nothing_there", test_nothing_there },
	{ "small", test_small },
	{ "mlocked", test_mlocked },
	{ "huge", test_huge },
	{ "full", test_full },
	{ "fragmented", test_fragmented },
};

int main(int argc, char **argv)
{
	ksft_print_header();
	if (geteuid())
		ksft_exit_skip("needs root\n");
	if (access(PROMOTE, W_OK))
		ksft_exit_skip("no " PROMOTE " (CONFIG_TIER_DEBUG, mounted debugfs)\n");
	if (!find_tiers(&fast, &slow))
		ksft_exit_skip("no slow memory tier\n");

	ksft_print_msg("fast node %d, slow node %d\n", fast, slow);
	change(PCP_HIGH, "1000");
	run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	ksft_finished();
}
