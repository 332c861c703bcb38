// SPDX-License-Identifier: GPL-2.0
/*
 * A page is migrated without a flush, then swapped out, and mapped again.  Reclaim flushes
 * what it unmaps in batches; a fault that comes before the flush finds the page in the swap
 * cache and may map it writable.  With a page that has just been migrated, TLBs may then
 * still have the frame that it was migrated from.
 *
 * For this, reclaim has to have unmapped the page and not flushed yet.  It flushes before it
 * writes a page whose PTE was dirty, so the pages have to be dirty, but not their PTEs; and
 * the page has to be this process's alone with a read-only PTE in a writable mapping.  Such
 * PTEs are what a direct write to a file leaves behind: it pins pages that were shared with a
 * child that is gone, and so takes possession of them.
 *
 * Reclaim may also write the page, find that this has been done, and discard it, all before
 * it flushes.  A fault then reads another page in, and what others read from the old one is
 * stale with the unmodified kernel, too.  So there is somebody else who has the page: a pipe.
 *
 * The test install must fail while fault_swap is set in /sys/kernel/debug/migrc/.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/swap.h>
#include <sys/uio.h>

#include "../kselftest_harness.h"

#include "group.h"
#include "loop.h"
#include "scene.h"

/* The page, and others that keep reclaim busy after it: one page table of them */
#define NR_PAGES	256UL
#define LEN		(NR_PAGES * PAGE)
/* So often the page has to be mapped again before reclaim has flushed. */
#define NR_HITS		3
/* The page is one of so many, which reclaim takes first, and together. */
#define NR_FIRST	32
#define SWAP_SIZE	(64UL << 20)

#ifndef MADV_COLD
#define MADV_COLD	20
#endif
#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT	21
#endif

struct swap {
	struct scene scene;
	struct loop swap, sink;
	struct group group;
	int pipe[2];
	char *area, *page, *nothing;
	bool on;
};

FIXTURE(swap)
{
	struct swap data;
};

FIXTURE_SETUP(swap)
{
	const char *lacks = scene_begin(&self->data.scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	if (!loop_create(&self->data.swap, SWAP_SIZE, true) ||
	    !loop_create(&self->data.sink, LEN, false))
		SKIP(return, "no loop devices");
	if (swapon(self->data.swap.path, SWAP_FLAG_PREFER | 32767))
		SKIP(return, "no swap");
	self->data.on = true;
	if (!group_enter(&self->data.group))
		SKIP(return, "no memory control groups (v2)");
	ASSERT_EQ(0, pipe(self->data.pipe));
	self->data.nothing = map_area(HUGE);
	ASSERT_NE(NULL, self->data.nothing);
	self->data.area = map_area(HUGE);
	ASSERT_TRUE(self->data.area && place(self->data.area, LEN, slow));
	self->data.page = self->data.area;
	group_leave(&self->data.group);
}

FIXTURE_TEARDOWN(swap)
{
	scene_end(&self->data.scene);
	/* The device stays until nobody swaps to it any more. */
	unmap_area(self->data.area, HUGE);
	if (self->data.on)
		swapoff(self->data.swap.path);
	loop_destroy(&self->data.swap);
	loop_destroy(&self->data.sink);
	group_destroy(&self->data.group);
}

static bool swap_out(char *p, unsigned long nr_pages)
{
	unsigned long i;
	int tries;

	for (tries = 0; tries < 50; tries++) {
		madvise(p, nr_pages * PAGE, MADV_PAGEOUT);
		for (i = 0; i < nr_pages && is_swapped(p + i * PAGE); i++)
			;
		if (i == nr_pages)
			return true;
		/* Is it still in a list of the CPU that brought it in?  This empties them. */
		move_page(p + i * PAGE, node_of(p + i * PAGE));
	}
	return false;
}

/* Present, dirty, this process's alone, with clean read-only PTEs */
static bool take_possession(struct swap *self)
{
	unsigned long i;
	pid_t pid;
	bool ok;

	if (!swap_out(self->area, NR_PAGES))
		return false;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	if (pid < 0)
		return false;
	for (i = 0; i < NR_PAGES; i++)
		word_read(self->area + i * PAGE);
	kill(pid, SIGKILL);
	ok = waitpid(pid, NULL, 0) == pid;
	return ok && pwrite(self->sink.fd, self->area, LEN, 0) == LEN;
}

/*
 * The page is another one in each round, with the same word in it: would reclaim spare one, for
 * what it remembers of it, then that would be so in all rounds.
 */
static void take_another(struct swap *self, unsigned long nr)
{
	char *page = self->area + nr * PAGE;

	word_write(page, word_read(self->page));
	self->page = page;
}

/* The page can be reclaimed at once, but not discarded until hold_no_more(). */
static bool hold(struct swap *self)
{
	struct iovec iov = { .iov_base = self->page, .iov_len = PAGE };
	int i;

	if (vmsplice(self->pipe[1], &iov, 1, 0) != PAGE)
		return false;
	/* Out of the lists of this CPU, which has brought it in; no page table is walked */
	madvise(self->nothing, PAGE, MADV_COLD);
	/*
	 * Nobody has read anything.  Who reads has TLB entries, and does not set the Accessed bit
	 * again; those who had lost theirs get new ones meanwhile.
	 */
	for (i = 0; i < 4; i++) {
		write_file("/proc/self/clear_refs", "1");
		usleep(2000);
	}
	return true;
}

static bool hold_no_more(struct swap *self)
{
	char buf[PAGE];

	return read(self->pipe[0], buf, PAGE) == PAGE;
}

static void reclaim(void *arg)
{
	struct swap *self = arg;
	int tries;

	/* Not all: who asks for more than there is has all lists emptied, which flushes. */
	for (tries = 0; tries < 3 && !is_swapped(self->page); tries++)
		group_reclaim(&self->group, LEN / 8);
}

/* Written as soon as reclaim has unmapped it */
TEST_F_TIMEOUT(swap, install, scene_timeout())
{
	struct scene *scene = &self->data.scene;
	struct spot *spot = crew_spot(scene->crew, 0);
	struct moves *moves = calloc(1, sizeof(*moves));
	unsigned long nr_mapped = 0;
	bool out;

	ASSERT_NE(NULL, moves);
	scene->missing = NR_HITS;
	spot_show(scene->crew, 0, self->data.page);
	while (scene_goes_on(scene)) {
		long forced = counter("migrc_force_swap");

		spot_hide(scene->crew, 0);
		take_another(&self->data, scene->rounds % NR_FIRST);
		ASSERT_TRUE(take_possession(&self->data)) TH_LOG("errno %d", errno);
		spot_show_again(scene->crew, 0, self->data.page);
		scene_own(scene);
		crew_settle(scene->crew);
		/* All, and in one go, so that they are in the lists in this order */
		moves_clear(moves);
		moves_add(moves, self->data.area, NR_PAGES, slow);
		moves_do(moves);
		scene_drain();
		crew_settle(scene->crew);
		moves_clear(moves);
		moves_add(moves, self->data.area, NR_PAGES, fast);
		moves_do(moves);
		crew_settle(scene->crew);
		ASSERT_TRUE(hold(&self->data));
		worker_run(scene->helper, reclaim, &self->data);
		do {
			out = is_swapped(self->data.page);
		} while (!out && worker_busy(scene->helper));
		spot_write(spot);
		worker_wait(scene->helper);
		ASSERT_TRUE(hold_no_more(&self->data));
		crew_settle(scene->crew);
		scene->missing -= counter("migrc_force_swap") > forced;
		nr_mapped += !out && counter("migrc_force_swap") == forced;
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_TRUE(scene_met(scene))
		TH_LOG("not seen to be unmapped in %lu rounds", nr_mapped);
}

/* Swapped out and in again, then written */
TEST_F_TIMEOUT(swap, refault, scene_timeout())
{
	struct scene *scene = &self->data.scene;
	struct spot *spot = crew_spot(scene->crew, 0);
	unsigned long hit = 0;

	spot_show(scene->crew, 0, self->data.area);
	while (scene_goes_on(scene)) {
		ASSERT_TRUE(make_read_only(self->data.area, PAGE, BY_FORK));
		crew_settle(scene->crew);
		move_page(self->data.area, other_node(node_of(self->data.area)));
		madvise(self->data.area, PAGE, MADV_PAGEOUT);
		hit += is_swapped(self->data.area);
		if (random_number() % 2)
			word_read(self->data.area);
		spot_write(spot);
		crew_settle(scene->crew);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
	EXPECT_GE(hit, 1);
}

/* Swapping ends, which brings pages back in, while what they were migrated from is kept. */
TEST_F_TIMEOUT(swap, swapoff, scene_timeout())
{
	struct scene *scene = &self->data.scene;
	struct spot *spot = crew_spot(scene->crew, 0);
	struct moves *moves = calloc(1, sizeof(*moves));
	int nid = slow;

	ASSERT_NE(NULL, moves);
	spot_show(scene->crew, 0, self->data.area);
	while (scene_goes_on(scene)) {
		ASSERT_TRUE(make_read_only(self->data.area, LEN, BY_FORK));
		crew_settle(scene->crew);
		nid = other_node(nid);
		moves_clear(moves);
		moves_add(moves, self->data.area, NR_PAGES, nid);
		moves_do(moves);
		madvise(self->data.area, LEN, MADV_PAGEOUT);
		self->data.on = swapoff(self->data.swap.path);
		ASSERT_FALSE(self->data.on);
		spot_write(spot);
		crew_settle(scene->crew);
		self->data.on = !swapon(self->data.swap.path, SWAP_FLAG_PREFER | 32767);
		ASSERT_TRUE(self->data.on);
	}
	EXPECT_TRUE(scene_clean(scene));
	EXPECT_TRUE(scene_rose(scene, "migrc_deferred", scene->rounds / 2));
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
