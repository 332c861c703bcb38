// SPDX-License-Identifier: GPL-2.0
/*
 * A page is migrated without a flush, then swapped out, and mapped again: a fault that comes before
 * reclaim has flushed finds the page in the swap cache and may map it writable.  Must fail while
 * defer_swap is set.
 *
 * Reclaim flushes before it writes a page whose PTE was dirty.  So the pages are dirty, but not
 * their PTEs, which are read-only in a writable mapping: as a direct write to a file leaves them,
 * that takes possession of pages that were shared with a child which is gone.
 *
 * Reclaim may also write the page and discard it before it flushes, so that a fault reads another
 * page in: stale with the unmodified kernel, too.  So a pipe has the page as well.
 */
#include <sys/swap.h>
#include <sys/uio.h>
#include <linux/loop.h>

#include "../kselftest_harness.h"

#include "migrc.h"

/* The page, and others that keep reclaim busy after it: one page table of them */
#define NR_PAGES	256UL
#define LEN		(NR_PAGES * PAGE)
/* So often the page has to be mapped again before reclaim has flushed. */
#define NR_HITS		3
/* The page is one of so many, which reclaim takes first, and together. */
#define NR_FIRST	32
#define SWAP_SIZE	(64UL << 20)

/* A loop device on a memfd.  Unlike zram and brd it does not finish a write before it returns. */
struct loop {
	char path[32];
	int fd;		/* O_DIRECT; the device goes away when it is closed */
};

/* As mkswap(8) does: behind 1024 bytes the version, the last page, no bad pages */
static bool make_swap(int fd, size_t size)
{
	uint32_t header[3] = { 1, size / PAGE - 1, 0 };

	return pwrite(fd, header, sizeof(header), 1024) == sizeof(header) &&
	       pwrite(fd, "SWAPSPACE2", 10, PAGE - 10) == 10;
}

static bool loop_create(struct loop *loop, size_t size, bool swap)
{
	struct loop_config config = { .info.lo_flags = LO_FLAGS_AUTOCLEAR };
	int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);
	int file = memfd_create("migrc", MFD_CLOEXEC);
	int nr = -1, fd = -1;

	loop->fd = -1;
	if (control >= 0)
		nr = ioctl(control, LOOP_CTL_GET_FREE);
	snprintf(loop->path, sizeof(loop->path), "/dev/loop%d", nr);
	if (nr >= 0 && file >= 0 && !ftruncate(file, size) && (!swap || make_swap(file, size)))
		fd = open(loop->path, O_RDWR | O_CLOEXEC);
	config.fd = file;
	if (fd >= 0 && !ioctl(fd, LOOP_CONFIGURE, &config))
		loop->fd = open(loop->path, O_RDWR | O_DIRECT | O_CLOEXEC);
	close(fd);
	close(file);
	close(control);
	return loop->fd >= 0;
}

FIXTURE(swap)
{
	struct scene scene;
	struct loop swap, sink;
	struct group group;
	int pipe[2];
	char *area, *nothing;
};

FIXTURE_SETUP(swap)
{
	const char *lacks = scene_begin(&self->scene, 2);

	if (lacks)
		SKIP(return, "%s", lacks);
	if (!loop_create(&self->swap, SWAP_SIZE, true) || !loop_create(&self->sink, LEN, false) ||
	    swapon(self->swap.path, SWAP_FLAG_PREFER | 32767) || !group_enter(&self->group))
		SKIP(return, "no loop devices, swap, or memory control groups (v2)");
	ASSERT_EQ(0, pipe(self->pipe));
	self->nothing = map_area(HUGE);
	self->area = new_area(LEN, slow);
	ASSERT_TRUE(self->nothing && self->area);
	group_leave(&self->group);
}

FIXTURE_TEARDOWN(swap)
{
	scene_end(&self->scene);
	/* The device stays as long as it is swapped to. */
	unmap_area(self->area, HUGE);
	swapoff(self->swap.path);
	close(self->swap.fd);
	close(self->sink.fd);
	group_destroy(&self->group);
}

static bool swap_out(char *area)
{
	unsigned long i;
	int tries;

	for (tries = 0; tries < 50; tries++) {
		madvise(area, LEN, MADV_PAGEOUT);
		for (i = 0; i < NR_PAGES && is_swapped(area + i * PAGE); i++)
			;
		if (i == NR_PAGES)
			return true;
		/* Is it still in a list of the CPU that brought it in?  This empties them. */
		move_page(area + i * PAGE, node_of(area + i * PAGE));
	}
	return false;
}

static bool read_in(void *area)
{
	unsigned long i;

	for (i = 0; i < NR_PAGES; i++)
		word_read((char *)area + i * PAGE);
	return true;
}

/* Present, dirty, this process's alone, with clean read-only PTEs */
static bool take_possession(struct _test_data_swap *self)
{
	struct other *other = swap_out(self->area) ? other_start(read_in, self->area) : NULL;

	if (!other)
		return false;
	read_in(self->area);
	other_end(other);
	return pwrite(self->sink.fd, self->area, LEN, 0) == LEN;
}

/* The page can be reclaimed at once, but not discarded until the pipe is read. */
static bool hold(struct _test_data_swap *self, char *page)
{
	struct iovec iov = { .iov_base = page, .iov_len = PAGE };

	if (vmsplice(self->pipe[1], &iov, 1, 0) != PAGE)
		return false;
	/* Out of the lists of this CPU, which has brought it in; no page table is walked */
	madvise(self->nothing, PAGE, MADV_COLD);
	forget_accesses();
	return true;
}

struct reclaim {
	struct group *group;
	char *page;
};

static void reclaim(void *arg)
{
	struct reclaim *reclaim = arg;
	int tries;

	/* Not all: a request for more than there is has all lists emptied, which flushes. */
	for (tries = 0; tries < 3 && !is_swapped(reclaim->page); tries++)
		group_reclaim(reclaim->group, LEN / 8);
}

/* Written as soon as reclaim has unmapped it */
TEST_F_TIMEOUT(swap, install, scene_timeout())
{
	struct reclaim arg = { &self->group, self->area };
	struct scene *scene = &self->scene;
	char buf[PAGE];
	int nid;

	scene->missing = NR_HITS;
	spot_show(scene->crew, 0, arg.page);
	while (scene_goes_on(scene)) {
		long met = counter("met_swap");
		char *last = arg.page;

		/*
		 * Another page, with the same word in it: would reclaim spare one for what it
		 * remembers of it, then that would be so in all rounds.
		 */
		spot_hide(scene->crew, 0);
		arg.page = self->area + scene->rounds % NR_FIRST * PAGE;
		word_write(arg.page, word_read(last));
		ASSERT_TRUE(take_possession(self)) TH_LOG("errno %d", errno);
		spot_show_again(scene->crew, 0, arg.page);
		scene_own(scene);
		/* All, and in one go, so that they are in the lists in this order */
		for (nid = slow; ; nid = fast) {
			crew_settle(scene->crew);
			moves_add(self->area, NR_PAGES, nid);
			moves_do();
			if (nid == fast)
				break;
			scene_drain();
		}
		crew_settle(scene->crew);
		ASSERT_TRUE(hold(self, arg.page));
		worker_run(scene->helper, reclaim, &arg);
		while (!is_swapped(arg.page) && worker_busy(scene->helper))
			;
		spot_write(scene->crew, 0);
		worker_wait(scene->helper);
		ASSERT_EQ((ssize_t)PAGE, read(self->pipe[0], buf, PAGE));
		crew_settle(scene->crew);
		scene->missing -= counter("met_swap") > met;
	}
	EXPECT_TRUE(scene_ends(scene, "tier_defer_success", scene->rounds / 2));
}

TEST_HARNESS_MAIN
