// SPDX-License-Identifier: GPL-2.0
/*
 * kmmscand on a machine whose slow memory comes and goes: without slow memory its parts wait, and
 * when it comes they start by themselves; what is added is scanned and promoted from; and when all
 * of it goes the parts end, and wait again.
 *
 * The slow node must have no memory but such that is offline when the program begins; it
 * is taken offline again at the end.  With the argument "unplug", and only then, it is
 * taken away for good.
 */
#include "kmmscand_hot.h"

/* How long a memory device may take to go */
#define UNPLUG_S	60

/* Memory blocks that were offline */
static int blocks[64], nr_blocks;

static bool block_exists(int id)
{
	char path[64];

	snprintf(path, sizeof(path), BLOCKS "memory%d", id);
	return !access(path, F_OK);
}

static bool block_is(int id, const char *state)
{
	char path[64], buf[32];

	snprintf(path, sizeof(path), BLOCKS "memory%d/state", id);
	return read_file(path, buf, sizeof(buf)) && !strcmp(buf, state);
}

static void find_offline_blocks(void)
{
	DIR *dir = opendir(BLOCKS);
	struct dirent *entry;
	int id;

	while (dir && nr_blocks < (int)ARRAY_SIZE(blocks) && (entry = readdir(dir)))
		if (sscanf(entry->d_name, "memory%d", &id) == 1 && block_is(id, "offline"))
			blocks[nr_blocks++] = id;
	if (dir)
		closedir(dir);
}

/* Movable, so that nothing of the kernel's own keeps it from going offline */
static bool add_block(int i)
{
	int err = block_is(blocks[i], "online") ? 0 : set_block(blocks[i], "online_movable");

	if (err)
		ksft_print_msg("block %d does not go online: %s\n", blocks[i], strerror(-err));
	return !err;
}

static bool remove_block(int i)
{
	int err = block_is(blocks[i], "offline") ? 0 : set_block_offline(blocks[i]);

	if (err)
		ksft_print_msg("block %d does not go offline: %s\n", blocks[i], strerror(-err));
	return !err;
}

/* Have the first blocks, and no others, online. */
static bool plug(int nr)
{
	bool ok = true;
	int i;

	for (i = 0; i < nr_blocks; i++)
		ok &= i < nr ? add_block(i) : remove_block(i);
	return ok;
}

/* Without slow memory both are wished, and wait. */
static bool waits(void)
{
	int err = wish(true);

	if (!err && both_wait())
		return true;
	ksft_print_msg("without slow memory: error %d, enabled %d\n", err, is_enabled());
	return false;
}

/* Since there is slow memory both start, without another write. */
static bool starts_by_itself(void)
{
	double start = now();
	bool ok = tier_part_wait("scan", "on", START_MS) &&
		  tier_part_wait("promote", "on", START_MS) && now() < start + START_MS / 1e3 + 1;

	ksft_print_msg("%s after %.1f s\n", ok ? "started" : "not started", now() - start);
	return ok;
}

/* Since there is no slow memory both have nothing to do, and the wishes are kept. */
static bool ends_by_itself(void)
{
	bool ok = tier_part_wait("scan", "waiting", ARRIVE_S * 1000) &&
		  tier_part_wait("promote", "waiting", ARRIVE_S * 1000);

	if (!ok)
		ksft_print_msg("enabled without slow memory\n");
	return ok && both_wait();
}

/* Small and huge pages of the slow node, which has only this block, are promoted. */
static bool promotes_from(int id)
{
	unsigned long block_size;
	char buf[32], *p;
	bool ok;

	if (!read_file(BLOCKS "block_size_bytes", buf, sizeof(buf)))
		return false;
	block_size = strtoul(buf, NULL, 16);
	p = map_on(HUGE, slow, true);
	if (!p)
		return false;
	ok = huge_kb(p) == HUGE / 1024 && pfn_of(p) / (block_size / PAGE) == (unsigned int)id;
	if (!ok)
		ksft_print_msg("not in block %d, but %ld kB huge at frame %#lx\n", id,
			       huge_kb(p), (unsigned long)pfn_of(p));
	ok = ok && rises(p, HUGE);
	unmap_on(p, HUGE);
	return ok && threads_work();
}

static void test_hot_add(void)
{
	int found[ARRAY_SIZE(blocks)];
	bool ok;

	ok = plug(0) && waits();
	/* The node comes with its first block. */
	ok = ok && plug(1) && slow_blocks(found, ARRAY_SIZE(found)) == nr_blocks;
	ok = ok && starts_by_itself() && promotes_from(blocks[0]);
	ok &= !enable(false);
	/* Enabled when there is one it works at once. */
	ok = ok && plug(0) && plug(1) && !enable(true) && promotes_from(blocks[0]);
	ok &= !enable(false);
	ksft_test_result(ok, "waits without a slow node, works when one is added\n");
}

/* The node's memory is exchanged for other memory, block by block. */
static void test_grow(void)
{
	pid_t pid;
	bool ok;
	int i;

	ok = plug(1) && !enable(true);
	pid = start_load(load_touch);
	for (i = 1; ok && i < nr_blocks; i++) {
		ok = add_block(i) && remove_block(i - 1);
		ok = ok && promotes_from(blocks[i]) && is_enabled();
	}
	ok &= stop_load(pid);
	ok &= !enable(false);
	ksft_test_result(ok, "memory that is added while enabled is scanned and promoted\n");
}

static void test_no_slow_memory(void)
{
	pid_t pid;
	bool ok;

	/* It is enabled and at work, and loses all that there is to scan. */
	ok = plug(nr_blocks) && !enable(true);
	pid = start_load(load_touch);
	ok = ok && threads_work();
	ok = ok && plug(0) && ends_by_itself();
	ok &= stop_load(pid);
	ok = ok && waits();
	ok = ok && plug(nr_blocks) && starts_by_itself() && threads_work();
	ok &= !enable(true) && !enable(false);
	ksft_test_result(ok, "without slow memory both wait, with it again they promote\n");
}

/* The device to which the block belongs is removed, which takes its blocks offline. */
static bool unplug(int id)
{
	double end = now() + UNPLUG_S;
	char path[64];
	int err;

	snprintf(path, sizeof(path), BLOCKS "memory%d/firmware_node/eject", id);
	err = write_file(path, "1");
	while (!err && block_exists(id) && now() < end)
		usleep(100000);
	if (block_exists(id))
		ksft_print_msg("block %d does not go away: %s\n", id,
			       err ? strerror(-err) : "no error");
	return !block_exists(id);
}

static void test_unplug(void)
{
	char path[64];
	pid_t pid;
	bool ok;
	int i;

	snprintf(path, sizeof(path), BLOCKS "memory%d/firmware_node/eject", blocks[0]);
	if (access(path, W_OK)) {
		ksft_test_result_skip("no %s (CONFIG_ACPI_HOTPLUG_MEMORY)\n", path);
		return;
	}
	ok = plug(nr_blocks) && !enable(true);
	pid = start_load(load_touch);
	ok = ok && threads_work();
	/* One device may have several blocks. */
	for (i = 0; ok && i < nr_blocks; i++)
		ok &= !block_exists(blocks[i]) || unplug(blocks[i]);
	ok = ok && ends_by_itself() && waits();
	ok &= stop_load(pid);
	nr_blocks = 0;
	enable(false);
	ksft_test_result(ok, "memory can be unplugged while it is scanned\n");
}

static const struct tier_test tests[] = {
	{ "hot_add", test_hot_add },
	{ "grow", test_grow },
	{ "no_slow_memory", test_no_slow_memory },
};

static const struct tier_test unplug_tests[] = {
	{ "unplug", test_unplug },
};

int main(int argc, char **argv)
{
	int other_fast, other_slow;

	find_offline_blocks();
	/* So that the slow node is found */
	plug(nr_blocks ? 1 : 0);
	begin_kmmscand_tests();
	plug(0);
	if (find_tiers(&other_fast, &other_slow))
		ksft_exit_skip("the slow node has memory that was online before\n");
	if (nr_blocks < 2)
		ksft_exit_skip("needs two memory blocks that are offline\n");

	/* Off where there is little memory at boot */
	change(THP "enabled", "madvise");
	change(TIER_PARTS "scan/period_ms", "100");
	if (argc == 2 && !strcmp(argv[1], "unplug"))
		run_tests(unplug_tests, ARRAY_SIZE(unplug_tests), argc, argv);
	else
		run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	plug(0);
	ksft_finished();
}
