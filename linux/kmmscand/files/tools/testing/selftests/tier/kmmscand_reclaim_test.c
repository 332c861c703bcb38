// SPDX-License-Identifier: GPL-2.0
/*
 * kmmscand and reclaim, with NUMA balancing off: promotion leaves what is below the high
 * watermark of a fast node alone; kswapd makes room for it by demotion, and only if that is
 * enabled; kswapd keeps the promo watermark while kmmscand is on, and only then.
 *
 * A node with room in any of its zones counts as one that has room, and kswapd is content when
 * any zone has enough.  So that all is about the largest one, the others are reserved.
 *
 * "headroom" needs CONFIG_TIER_DEBUG.
 */
#define _GNU_SOURCE
#include "kmmscand_hot.h"
#include "tier_fill.h"

#define MB		(1024UL * 1024)
#define VM		"/proc/sys/vm/"
#define BALANCING	"/proc/sys/kernel/numa_balancing"
#define PROMOTE		"/sys/kernel/debug/tier/promote"

/* Hot, slow at first */
#define SET		(24 * MB)
/* Pages of it that fit above the high watermark */
#define SPACE		2048
/* That are promoted by hand, in bytes */
#define BY_HAND		(2 * MB)

/* Until demotion has made room for what is hot */
#define DEMOTE_S	60
/* Until kswapd has done what it wants, and how long it is idle then */
#define SETTLE_S	40
#define IDLE_S		1

static char *hog;
static size_t hog_len;

/* Fill the fast node, but for @space pages above its high watermark. */
static bool fill_fast(long space)
{
	size_t used;

	write_file(VM "drop_caches", "3");
	hog = fill_node(fast, &hog_len);
	if (!hog)
		return false;
	for (used = 0; used < hog_len / 2 && room(fast) < space; used += MB / 4) {
		madvise(hog + used, MB / 4, MADV_DONTNEED);
		usleep(10000);
	}
	return room(fast) >= space;
}

static void empty_fast(void)
{
	if (hog)
		munmap(hog, hog_len);
	hog = NULL;
}

/* Demotion is as told, and the watermarks are so many ten thousandths of a node apart. */
static bool prepare(const char *demotion, const char *scale)
{
	/* Which may not be there */
	change(BALANCING, "0");
	return !change(DEMOTION, demotion) && !change(VM "watermark_boost_factor", "0") &&
	       !change(VM "lowmem_reserve_ratio", "1 1") &&
	       !change(VM "watermark_scale_factor", scale) && !change(PCP_HIGH, "1000");
}

static void test_watermark(void)
{
	char *p = map_on(SET, slow, false);
	long demoted, scanned, left, space;
	unsigned long moved;
	bool ok;

	if (!p || count_on(p, SET, slow) < SET / PAGE) {
		ksft_test_result_skip("no memory on the slow node\n");
		goto unmap;
	}
	fill(p, SET);
	if (!prepare("0", "100") || !fill_fast(SPACE)) {
		ksft_test_result_skip("cannot fill the fast node\n");
		goto empty;
	}
	sleep(1);
	space = room(fast);
	demoted = event_count("pgdemote_kswapd");
	scanned = event_count("pgscan_kswapd");
	ok = !enable(true);
	warm(p, SET, 8);
	moved = count_on(p, SET, fast);
	left = room(fast);
	scanned = event_count("pgscan_kswapd") - scanned;
	demoted = event_count("pgdemote_kswapd") - demoted;
	ksft_print_msg("of %ld pages %ld are left, %lu promoted; kswapd scanned %ld, demoted %ld\n",
		       space, left, moved, scanned, demoted);
	/* Per-CPU lists blur it a bit. */
	ok &= (long)moved >= space / 4 && (long)moved <= space + 512 && left > -256;
	ok &= !scanned && !demoted;

	/* The same with demotion */
	ok &= !change(DEMOTION, "1");
	demoted = event_count("pgdemote_kswapd");
	moved = keep_hot(p, SET, DEMOTE_S, 75);
	demoted = event_count("pgdemote_kswapd") - demoted;
	ksft_print_msg("%lu of %lu pages promoted, kswapd demoted %ld\n", moved, SET / PAGE,
		       demoted);
	ok &= moved >= SET / PAGE * 3 / 4 && demoted > 0;
	ok &= !enable(false);
	ok &= intact(p, SET);
	ksft_test_result(ok, "promotion stays above the high watermark, or demotion makes room\n");
empty:
	empty_fast();
unmap:
	if (p)
		unmap_on(p, SET);
}

static int promote(const char *addr)
{
	char buf[64];

	snprintf(buf, sizeof(buf), "%llu 1 %d", (unsigned long long)pfn_of(addr), fast);
	return write_file(PROMOTE, buf);
}

/*
 * Use up the room of the fast node, the last of it by promotion of pages from @next on, so that
 * kswapd is told to make some.  Returns how much there is when it has done; or little, if it
 * was not told.
 *
 * By then it has little to do to get to the high watermark.  The farther it has to go the more
 * it overshoots.
 */
static long room_made(char *p, unsigned long *next)
{
	const size_t size = 256 * MB;
	char *more = map_bound(size, fast);
	long before, after;
	double end, idle;
	size_t used = 0;
	int err = 0;

	if (!more)
		return 0;
	madvise(more, size, MADV_NOHUGEPAGE);
	for (; used < size; used += PAGE) {
		if (!(used % (32 * PAGE)) && room(fast) <= 64)
			break;
		more[used] = 1;
	}
	for (; err != -ENOSPC && *next < BY_HAND / PAGE; ++*next)
		err = promote(p + *next * PAGE);
	after = room(fast);
	end = now() + SETTLE_S;
	idle = now() + IDLE_S;
	while (now() < end && now() < idle) {
		usleep(100000);
		before = after;
		after = room(fast);
		/* Somebody always needs a page. */
		if (labs(after - before) > 32)
			idle = now() + IDLE_S;
	}
	ksft_print_msg("after %zu pages and %s there is room for %ld\n", used / PAGE,
		       err == -ENOSPC ? "no room for a promotion" : "promotions only", after);
	munmap(more, size);
	return after;
}

static void test_headroom(void)
{
	char *p = map_on(BY_HAND, slow, false);
	unsigned long next = 0;
	long gap, off, on, again;
	bool ok;

	if (!p || access(PROMOTE, W_OK)) {
		ksft_test_result_skip("no " PROMOTE " (CONFIG_TIER_DEBUG)\n");
		goto unmap;
	}
	/* Far apart, so that they cannot be taken for each other */
	if (!prepare("1", "300") || !fill_fast(0)) {
		ksft_test_result_skip("cannot fill the fast node\n");
		goto empty;
	}
	gap = zone_value(fast, "promo") - zone_value(fast, "high");
	off = room_made(p, &next);
	/* Nobody else is to tell kswapd. */
	ok = !set("promote_rate_mbps", "0");
	ok &= !enable(true);
	on = room_made(p, &next);
	ok &= !enable(false);
	again = room_made(p, &next);
	ksft_print_msg("disabled %ld, enabled %ld, disabled %ld; from high to promo are %ld\n", off,
		       on, again, gap);
	ok &= gap > 0 && labs(off) < gap / 2 && labs(again) < gap / 2 && on >= gap * 3 / 4;
	ksft_test_result(ok, "kswapd keeps the promo watermark while kmmscand is on\n");
empty:
	empty_fast();
unmap:
	if (p)
		unmap_on(p, BY_HAND);
}

static const struct tier_test tests[] = {
	{ "watermark", test_watermark },
	{ "headroom", test_headroom },
};

int main(int argc, char **argv)
{
	begin_kmmscand_tests();
	/* Emulated machines are slow enough without waiting for rounds. */
	set("scan_period_ms", "200");
	set("scan_cpu_pct", "50");
	set("hot_threshold", "2");
	run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	ksft_finished();
}
