// SPDX-License-Identifier: GPL-2.0
/*
 * A page is migrated without a flush, and then its address is used for something else: it is
 * unmapped, remapped, protected.  Whoever does so flushes the address space if somebody else
 * has left TLB entries behind (flush_tlb_batched_pending()), also where there is no present
 * PTE that would have to be flushed.
 *
 * In the variant in_flight it happens while there is a migration entry: the page is the first
 * of many that are migrated at once, and the test waits until its PTE is not present.
 *
 * With fault_unmap in /sys/kernel/debug/migrc/ most of in_flight must fail.  protect, uffd_end
 * and free must only if fault_wp is set, too: a migration entry gets no write permission from
 * these, so that the first write faults, and is flushed for.  What is at_rest the base kernel
 * flushes as well: it finds a present PTE.
 */
#include <sys/ioctl.h>

#include <linux/userfaultfd.h>

#include "../kselftest_harness.h"

#include "scene.h"
#include "sharers.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP	4
#endif

#define AREA	HUGE
/* So often the event has to be in the middle of a migration. */
#define NR_HITS	3

struct unmap {
	struct scene scene;
	struct sharers sharers;
	struct moves *moves;
	char *area;	/* its first page is the one */
};

FIXTURE(unmap)
{
	struct unmap data;
};

FIXTURE_VARIANT(unmap)
{
	bool in_flight;
};

FIXTURE_VARIANT_ADD(unmap, in_flight) { .in_flight = true };
FIXTURE_VARIANT_ADD(unmap, at_rest) { .in_flight = false };

FIXTURE_SETUP(unmap)
{
	const char *lacks = scene_begin(&self->data.scene, 1);

	if (lacks)
		SKIP(return, "%s", lacks);
	self->data.moves = calloc(1, sizeof(*self->data.moves));
	ASSERT_TRUE(self->data.moves && sharers_start(&self->data.sharers));
}

FIXTURE_TEARDOWN(unmap)
{
	scene_end(&self->data.scene);
	sharers_stop(&self->data.sharers);
}

static void move_all(void *arg)
{
	moves_do(arg);
}

/* A new page, read-only and in the readers' TLBs; others to be moved after it */
static bool fresh(struct unmap *self, enum read_only how)
{
	struct crew *crew = self->scene.crew;
	int nid = other_node(node_of(self->sharers.pages));

	spot_hide(crew, 0);
	unmap_area(self->area, AREA);
	self->area = map_area(AREA);
	if (!self->area || !place(self->area, PAGE, other_node(nid)))
		return false;
	moves_clear(self->moves);
	moves_add(self->moves, self->area, 1, nid);
	moves_add(self->moves, self->sharers.pages, NR_SHARED, nid);
	spot_show(crew, 0, self->area);
	return make_read_only(self->area, PAGE, how) && crew_settle(crew);
}

/*
 * Where an event has moved the page to.  It is read there at once, and written, which flushes,
 * after the readers have looked at where it was.
 */
static char *gone_to, *gone_area;	/* the latter if all of its table has gone */

static bool has_gone_to(struct spot *spot, char *there)
{
	gone_to = there;
	return there != MAP_FAILED && spot_intact(spot, there);
}

static bool goes_on(void)
{
	char *page = gone_to;
	bool ok = true;

	if (page) {
		word_write(page, 0xbad);
		ok = word_read(page) == 0xbad && !munmap(page, PAGE);
	}
	unmap_area(gone_area, AREA);
	gone_to = NULL;
	gone_area = NULL;
	return ok;
}

/*
 * Do it in the middle of migration, or after it.  @event writes the next number to the page, or
 * has it there by other means; it returns false if it cannot be done here.
 */
static bool round_of(struct unmap *self, bool in_flight, enum read_only how,
		     bool (*event)(struct spot *spot, char *page))
{
	struct scene *scene = &self->scene;
	struct spot *spot = crew_spot(scene->crew, 0);
	bool ok;

	if (!fresh(self, how))
		return false;
	worker_run(scene->helper, move_all, self->moves);
	if (!in_flight)
		worker_wait(scene->helper);
	while (in_flight && worker_busy(scene->helper))
		if (is_swapped(self->area)) {
			scene->missing--;
			break;
		}
	spot_begin_change(spot);
	ok = event(spot, self->area);
	spot_end_change(spot);
	worker_wait(scene->helper);
	crew_settle(scene->crew);
	return goes_on() && ok;
}

/* With @forced it is MIGRC's flush that has to come, and not one of the event's own. */
#define RUN(how, event, forced) \
	do { \
		self->data.scene.missing = variant->in_flight ? NR_HITS : 0; \
		while (scene_goes_on(&self->data.scene)) \
			ASSERT_TRUE(round_of(&self->data, variant->in_flight, how, event)); \
		EXPECT_TRUE(scene_clean(&self->data.scene)); \
		EXPECT_TRUE(scene_rose(&self->data.scene, "migrc_deferred", \
				       self->data.scene.rounds)); \
		EXPECT_TRUE(!(forced) || scene_rose(&self->data.scene, "migrc_force_unmap", 1)); \
		EXPECT_TRUE(scene_met(&self->data.scene)); \
	} while (0)

#define RUN_ROUNDS(how, event)	RUN(how, event, variant->in_flight)

static bool drop(struct spot *spot, char *page)
{
	if (madvise(page, PAGE, MADV_DONTNEED))
		return false;
	spot_write(spot);
	return true;
}

TEST_F_TIMEOUT(unmap, dontneed, scene_timeout())
{
	RUN_ROUNDS(BY_UFFD, drop);
}

static bool map_over(struct spot *spot, char *page)
{
	if (mmap(page, PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page)
		return false;
	spot_write(spot);
	return true;
}

TEST_F_TIMEOUT(unmap, fixed, scene_timeout())
{
	RUN_ROUNDS(BY_UFFD, map_over);
}

/* A reader that finds nothing there tries again. */
static bool leave_hole(struct spot *spot, char *page)
{
	return !munmap(page, PAGE) && map_over(spot, page);
}

TEST_F_TIMEOUT(unmap, munmap, scene_timeout())
{
	ASSERT_TRUE(bear_faults());
	RUN_ROUNDS(BY_UFFD, leave_hole);
}

/* The page goes on at another address. */
static bool move_away(struct spot *spot, char *page)
{
	if (!has_gone_to(spot, mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL)))
		return false;
	spot_write(spot);
	return true;
}

TEST_F_TIMEOUT(unmap, mremap, scene_timeout())
{
	RUN_ROUNDS(BY_UFFD, move_away);
}

/* The same, and something new is mapped where it was, before it goes on. */
static bool move_to_and_fro(struct spot *spot, char *page)
{
	char *there = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *moved;

	if (there == MAP_FAILED)
		return false;
	moved = mremap(page, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, there);
	if (moved != there || mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
				   MAP_ANONYMOUS | MAP_FIXED | MAP_POPULATE, -1, 0) != page)
		return false;
	if (!has_gone_to(spot, moved))
		return false;
	spot_write(spot);
	return true;
}

TEST_F_TIMEOUT(unmap, mremap_fixed, scene_timeout())
{
	ASSERT_TRUE(bear_faults());
	RUN_ROUNDS(BY_UFFD, move_to_and_fro);
}

/*
 * All that a page table maps, with the table: nothing looks at the entries.  The page is in its
 * first entry.
 */
static bool move_table(struct spot *spot, char *page)
{
	char *there = gone_area = map_area(AREA);

	if (!there || mremap(page, AREA, AREA, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP,
			     there) != there || !has_gone_to(spot, there))
		return false;
	spot_write(spot);
	return true;
}

TEST_F_TIMEOUT(unmap, mremap_table, scene_timeout())
{
	/* Who moves tables flushes their range, which is the whole TLB as tlb_gen has moved. */
	RUN(BY_SOFT_DIRTY, move_table, false);
}

static bool allow_writes(struct spot *spot, char *page)
{
	if (mprotect(page, PAGE, PROT_READ | PROT_WRITE))
		return false;
	spot_write(spot);
	return true;
}

TEST_F_TIMEOUT(unmap, protect, scene_timeout())
{
	RUN_ROUNDS(BY_PROTECTION, allow_writes);
}

/* The same by userfaultfd: its end gives write permission back. */
static bool end_uffd(struct spot *spot, char *page)
{
	struct uffdio_range range = { .start = (uintptr_t)page, .len = PAGE };

	if (ioctl(read_only_uffd(), UFFDIO_UNREGISTER, &range))
		return false;
	spot_write(spot);
	return true;
}

TEST_F_TIMEOUT(unmap, uffd_end, scene_timeout())
{
	RUN_ROUNDS(BY_UFFD, end_uffd);
}

/* The contents may go, but only as long as nobody has written it again. */
static bool lazy_free(struct spot *spot, char *page)
{
	if (madvise(page, PAGE, MADV_FREE))
		return false;
	spot_write(spot);
	return true;
}

TEST_F_TIMEOUT(unmap, free, scene_timeout())
{
	RUN_ROUNDS(BY_UFFD, lazy_free);
}

/* A new page with contents, all at once */
static bool uffd_copy(struct spot *spot, char *page)
{
	static uint64_t contents[PAGE / sizeof(uint64_t)];
	struct uffdio_copy copy = {
		.dst = (uintptr_t)page,
		.src = (uintptr_t)contents,
		.len = PAGE,
	};

	contents[0] = spot_next(spot);
	if (!uffd_register(read_only_uffd(), page, PAGE,
			   UFFDIO_REGISTER_MODE_WP | UFFDIO_REGISTER_MODE_MISSING) ||
	    madvise(page, PAGE, MADV_DONTNEED) || ioctl(read_only_uffd(), UFFDIO_COPY, &copy))
		return false;
	spot_has_next(spot);
	return true;
}

TEST_F_TIMEOUT(unmap, uffd_copy, scene_timeout())
{
	RUN_ROUNDS(BY_UFFD, uffd_copy);
}

/* The zero page, which is then written */
static bool uffd_zero(struct spot *spot, char *page)
{
	struct uffdio_zeropage zero = {
		.range = { .start = (uintptr_t)page, .len = PAGE },
	};

	if (!uffd_register(read_only_uffd(), page, PAGE,
			   UFFDIO_REGISTER_MODE_WP | UFFDIO_REGISTER_MODE_MISSING) ||
	    madvise(page, PAGE, MADV_DONTNEED) || ioctl(read_only_uffd(), UFFDIO_ZEROPAGE, &zero))
		return false;
	spot_write(spot);
	/*
	 * A write to the zero page clears the entry for a moment.  userfaultfd_must_wait() looks
	 * without the lock: a reader that comes just then waits for a page that is there.
	 */
	return !ioctl(read_only_uffd(), UFFDIO_WAKE, &zero.range);
}

TEST_F_TIMEOUT(unmap, uffd_zero, scene_timeout())
{
	RUN_ROUNDS(BY_UFFD, uffd_zero);
}

/* The page goes on at another address, by userfaultfd. */
static bool uffd_move(struct spot *spot, char *page)
{
	char *there = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct uffdio_move move = {
		.dst = (uintptr_t)there,
		.src = (uintptr_t)page,
		.len = PAGE,
	};
	int tries = 100;

	if (there == MAP_FAILED || !uffd_register(read_only_uffd(), there, PAGE,
						  UFFDIO_REGISTER_MODE_MISSING))
		return false;
	while (ioctl(read_only_uffd(), UFFDIO_MOVE, &move))
		if (!--tries || (errno != EAGAIN && errno != EBUSY))
			return false;
	if (!has_gone_to(spot, there))
		return false;
	spot_write(spot);
	return true;
}

TEST_F_TIMEOUT(unmap, uffd_move, scene_timeout())
{
	RUN_ROUNDS(BY_UFFD, uffd_move);
}

int main(int argc, char **argv)
{
	keep_settings();
	return test_harness_run(argc, argv);
}
