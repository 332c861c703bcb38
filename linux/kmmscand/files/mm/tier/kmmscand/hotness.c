// SPDX-License-Identifier: GPL-2.0
/*
 * Hotness table: two bytes for each page frame of the slow memory tier.
 *
 * The table is the only memory of who is hot, and the only thing that sources of
 * hotness (the scanner, MGLRU's page-table walks) and promoters share: sources call
 * hotness_look_touch(), promoters ask hotness_count() how many pages have which score and
 * hotness_select() for those that they can afford.  There are no lists of pages, so
 * there is nothing to allocate, to deduplicate or to bound.  The table holds no folio
 * pointers and no references, and a record is updated by one cmpxchg, which is fine
 * under a page-table lock.
 *
 * A folio of any size uses the record of its first frame.
 *
 * Where there is a choice of fast nodes, a byte per frame tells where the page should
 * go (hotness_aim()).  It is worth as much as the record: nothing without history.
 *
 * Time is counted in epochs, one per scan period, of two ticks.  A record remembers in
 * which tick it was touched last and is shifted at the next touch.  hotness_next_epoch()
 * sees to it that no record gets so old that its stamp becomes ambiguous.
 *
 * Lifetime: the arrays exist while the scanner is enabled, for every section
 * with memory of a slow node.  Sections that come online later are added and
 * those that go offline are removed by a memory notifier.  hotness_mutex
 * serialises all changes to the xarray.  It nests inside the memory hotplug lock
 * (the notifier is called with that held for writing).  Touching takes only
 * rcu_read_lock(); an array is freed a grace period after it was erased.
 *
 * What the table cannot tell, by design:
 *  - A record belongs to a frame, not to the data in it.  When a frame is freed
 *    and reused, the new user inherits the history until it has aged out.  The
 *    promoter forgets the records of what it has promoted, which is the most common
 *    case.
 *  - When a large folio is split or a new one is formed, the history of its first
 *    frame stands for the first small page, or for the whole of the new folio.
 *  - "Touched" means touched at least once between two visits, by any mapping.
 */

#define pr_fmt(fmt) "kmmscand: " fmt

#include <linux/atomic.h>
#include <linux/delay.h>
#include <linux/memory-tiers.h>
#include <linux/memory.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/mutex.h>
#include <linux/pageblock-flags.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/tier.h>
#include <linux/xarray.h>

#include "control.h"
#include "fault.h"
#include "hotness.h"
#include "target.h"

/*
 * Records of one cache-friendly piece of a section are summed up by one word, so that
 * walks over a table of gigabytes of mostly cold memory read little of it.
 */
#define HOTNESS_BLOCK		512
#define HOTNESS_BLOCKS		(PAGES_PER_SECTION / HOTNESS_BLOCK)
/* Set in a block's word if there may be records; the low byte is the last tick. */
#define HOTNESS_BLOCK_USED	0x100
/* The best score of a block that has not been counted yet */
#define HOTNESS_NOT_COUNTED	0xff

#define HOTNESS_RETRY_MSECS	50

/* A page is a candidate in the epoch in which it was touched and in the next one. */
#define HOTNESS_FRESH_TICKS	4

struct hotness_section {
	struct rcu_head rcu;
	int nid;
	u16 *record;			/* PAGES_PER_SECTION of them */
	u8 *aim;			/* as many, see target.h; NULL with one fast node */
	u16 block[HOTNESS_BLOCKS];
	u8 best[HOTNESS_BLOCKS];	/* score when the promoter counted; used by nobody else */
};

/* Section number -> struct hotness_section */
static DEFINE_XARRAY(hotness_sections);
static DEFINE_MUTEX(hotness_mutex);
/* Should sections that come online get an array?  Under hotness_mutex. */
static bool hotness_enabled;

/* Written by the scanner only; everybody else, reads of page cache too, takes what they see. */
static unsigned int hotness_now __read_mostly;
/* Changes when a promoter should look at the table again; on a cache line of its own */
static atomic_t hotness_changes ____cacheline_aligned_in_smp = ATOMIC_INIT(0);

/**
 * hotness_epoch - the current epoch
 */
unsigned int hotness_epoch(void)
{
	return READ_ONCE(hotness_now);
}

/* The tick of the second look of a close visit, and of all others, in this epoch */
static u8 hotness_tick(void)
{
	return 2 * hotness_epoch() + 1;
}

/* The record of a frame, if there is one; the caller is under RCU. */
static struct hotness_section *hotness_find(unsigned long pfn, unsigned int *index)
{
	*index = pfn & ~PAGE_SECTION_MASK;
	return xa_load(&hotness_sections, pfn_to_section_nr(pfn));
}

/* Remember that the block of a record was touched. */
static void hotness_touch_block(struct hotness_section *section, unsigned int index, u8 tick)
{
	u16 word = HOTNESS_BLOCK_USED | tick;

	/*
	 * Who sees the record without the block's new word misses a page for one
	 * epoch (hotness_count()) or zeroes a record too early (hotness_sweep()).
	 * Neither is worth a barrier.
	 */
	if (READ_ONCE(section->block[index / HOTNESS_BLOCK]) != word) {
		WRITE_ONCE(section->block[index / HOTNESS_BLOCK], word);
		/* As in hotness_add_news(); once for a block in a tick */
		atomic_fetch_inc_release(&hotness_changes);
	}
}

/**
 * hotness_news - has anything been touched?
 *
 * Context: a promoter, before it looks at the table.
 * Return: a number that changes when the answer is yes; perhaps not for touches of a
 * walk that goes on, but at its end.
 */
int hotness_news(void)
{
	/* What was touched before the number changed is seen by who sees the number. */
	return atomic_read_acquire(&hotness_changes);
}

/**
 * hotness_add_news - the scanner has touched pages
 *
 * Context: any; after a walk.
 */
void hotness_add_news(void)
{
	/* Pairs with hotness_news(). */
	atomic_fetch_inc_release(&hotness_changes);
}

/* What becomes of a record when the page is found accessed; false if that is known */
static bool hotness_look_record(struct hotness_look *look, u16 record)
{
	const unsigned int shift = look->shift;
	const u8 tick = look->tick;
	u8 history;

	/* Recorded later already, when another of its mappings was looked at */
	if ((u8)record && (u8)((record >> 8) - tick - 1) < HOTNESS_FRESH_TICKS)
		return false;
	/* The longer the intervals, the fewer bits count: see hotness_score(). */
	if (look->close)
		history = hotness_aged_close(record, tick, shift);
	else
		history = hotness_aged(record, tick, shift + 1) & (0xff >> shift);
	if (history & 1)
		return false;
	history |= (look->close && kmmscand_fault(ONE_LOOK)) ? 3 : 1;
	look->old = record;
	look->new = (u16)tick << 8 | history;
	look->score = hotness_score(history);
	return true;
}

/**
 * hotness_look_touch - a page was found accessed
 * @look: started in this read-side critical section
 * @pfn:  first frame of the folio
 *
 * Each record stands for itself and orders nothing else, so relaxed atomics will do
 * here and below; the cmpxchg only keeps concurrent updates from getting lost.
 *
 * Context: under RCU, also with a page-table lock held.
 * Return: the score of the page, or 0 if it was recorded before in this period (it
 * is mapped more than once, or is a large folio mapped by PTEs) or is not tracked.
 */
unsigned int hotness_look_touch(struct hotness_look *look, unsigned long pfn)
{
	struct hotness_section *section = look->section;
	u16 *record, old;

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "the section is kept, but not by RCU");
	if (!section || pfn_to_section_nr(pfn) != look->number) {
		look->number = pfn_to_section_nr(pfn);
		section = xa_load(&hotness_sections, look->number);
		look->section = section;
		if (!section)
			return 0;
	}
	record = &section->record[pfn & ~PAGE_SECTION_MASK];
	old = READ_ONCE(*record);
	do {
		if ((!look->score || old != look->old) && !hotness_look_record(look, old))
			return 0;
	} while (!try_cmpxchg_relaxed(record, &old, look->new));

	hotness_touch_block(section, pfn & ~PAGE_SECTION_MASK, look->tick);
	return look->score;
}

/**
 * hotness_touch - one page was found accessed
 * @pfn:    first frame of the folio
 * @epoch:  of the visit; may have ended meanwhile
 * @second: it is the second look of a close visit, or the only one of the epoch
 * @close:  the visit is a close one
 * @shift:  there is a visit every 2^@shift epochs, or less often
 *
 * Context: any; only RCU and relaxed atomics are used.
 * Return: as hotness_look_touch().
 */
unsigned int hotness_touch(unsigned long pfn, unsigned int epoch, bool second, bool close,
			   unsigned int shift)
{
	struct hotness_look look;
	unsigned int score;

	rcu_read_lock();
	hotness_look_start(&look, epoch, second, close, shift);
	score = hotness_look_touch(&look, pfn);
	rcu_read_unlock();
	return score;
}

/**
 * hotness_touch_known - somebody else than the scanner found a page accessed
 * @pfn: first frame of the folio
 *
 * Counts only for pages that have a history: that the scanner has recorded one says
 * that policy lets the page move, which others do not look at.  How often the
 * scanner comes by is not known here, so the touch stands for the scan that will not
 * find the page accessed now.
 *
 * Context: any; only RCU and relaxed atomics are used.
 */
void hotness_touch_known(unsigned long pfn)
{
	struct hotness_section *section;
	u8 history, tick = hotness_tick();
	unsigned int index;
	u16 old, new;

	rcu_read_lock();
	section = hotness_find(pfn, &index);
	if (!section)
		goto out;

	old = READ_ONCE(section->record[index]);
	do {
		history = hotness_aged(old, tick, HOTNESS_MAX_SHIFT + 1);
		/* Nothing known, or recorded in this epoch already */
		if (!history || (u8)(tick - (old >> 8)) < 2)
			goto out;
		/* At least one scan is over since, whatever the interval. */
		if (history == (u8)old)
			history <<= 1;
		new = (u16)tick << 8 | history | 1;
	} while (!try_cmpxchg_relaxed(&section->record[index], &old, new));
	hotness_touch_block(section, index, tick);
out:
	rcu_read_unlock();
}

/**
 * hotness_retract - what was recorded in both looks of a close visit does not count
 * @pfn:   first frame of the folio
 * @epoch: of the visit
 * @shift: there is a visit every 2^@shift epochs
 *
 * Nothing is done if the record is of another look by now.
 *
 * Context: any; only RCU and relaxed atomics are used.
 * Return: the score that the page has had, or 0 if nothing was done.
 */
unsigned int hotness_retract(unsigned long pfn, unsigned int epoch, unsigned int shift)
{
	struct hotness_section *section;
	u8 tick = 2 * epoch + 1;
	unsigned int index, score = 0;
	u16 old;

	rcu_read_lock();
	section = hotness_find(pfn, &index);
	if (!section)
		goto out;
	old = READ_ONCE(section->record[index]);
	do {
		if (old >> 8 != tick || !(old & 1)) {
			score = 0;
			break;
		}
		score = hotness_score(old);
	} while (!try_cmpxchg_relaxed(&section->record[index], &old,
				      hotness_retracted(old, shift)));
out:
	rcu_read_unlock();
	return score;
}

/**
 * hotness_found - was a page found in a look, and in none since?
 * @pfn:    first frame of the folio
 * @epoch:  of the visit
 * @second: it is the second look of a close visit, or the only one of the epoch
 *
 * Context: any; only RCU is used.
 */
bool hotness_found(unsigned long pfn, unsigned int epoch, bool second)
{
	const u8 tick = 2 * epoch + second;
	struct hotness_section *section;
	unsigned int index;
	u16 record = 0;

	rcu_read_lock();
	section = hotness_find(pfn, &index);
	if (section)
		record = READ_ONCE(section->record[index]);
	rcu_read_unlock();
	return record >> 8 == tick && (record & 1);
}

/**
 * hotness_forget - frames are about to get new owners
 * @pfn: first page frame; need not be tracked or even exist any more
 * @nr:  number of frames
 */
void hotness_forget(unsigned long pfn, unsigned long nr)
{
	struct hotness_section *section = NULL;
	unsigned long end = pfn + nr;

	if (kmmscand_fault(FORGET))
		return;
	rcu_read_lock();
	for (; pfn < end; pfn++) {
		if (!section || !(pfn & ~PAGE_SECTION_MASK))
			section = xa_load(&hotness_sections, pfn_to_section_nr(pfn));
		if (section)
			WRITE_ONCE(section->record[pfn & ~PAGE_SECTION_MASK], 0);
	}
	rcu_read_unlock();
}

/**
 * hotness_aim - say where a page should go that is about to be touched
 * @pfn:    first frame of the folio
 * @epoch:  as for hotness_touch()
 * @second: likewise
 * @aim:    slot, and whether the page may go elsewhere; see target.h
 * @shared: there may be other users
 *
 * Before the touch, so that no page is promoted before it is known where it may go.
 *
 * Context: any; only RCU and atomics are used.
 */
void hotness_aim(unsigned long pfn, unsigned int epoch, bool second, u8 aim, bool shared)
{
	u8 old, new, known, tick = 2 * epoch + second;
	struct hotness_section *section;
	unsigned int index;
	u16 record;

	rcu_read_lock();
	section = hotness_find(pfn, &index);
	if (!section || !section->aim)
		goto out;
	record = READ_ONCE(section->record[index]);
	old = READ_ONCE(section->aim[index]);
	do {
		/*
		 * Without history it is of another owner, or of long ago.  But somebody else
		 * may have recorded the page in a later look.
		 */
		known = 0;
		if (hotness_aged(record, tick, HOTNESS_MAX_SHIFT + 1) ||
		    ((u8)record && (u8)((record >> 8) - tick - 1) < HOTNESS_FRESH_TICKS))
			known = old;
		new = target_merge(known, aim, shared);
		if (new == old)
			break;
		/* Fully ordered, for hotness_select() */
	} while (!try_cmpxchg(&section->aim[index], &old, new));
out:
	rcu_read_unlock();
}

/* Zero the records from which nothing can be learned any more. */
static void hotness_sweep(void)
{
	struct hotness_section *section;
	u8 tick = hotness_tick();
	unsigned int i, block;
	unsigned long nr;
	bool used;
	u16 old;

	/* Not under RCU: walking all of an array takes long. */
	mutex_lock(&hotness_mutex);
	xa_for_each(&hotness_sections, nr, section) {
		for (block = 0; block < HOTNESS_BLOCKS; block++) {
			if (!READ_ONCE(section->block[block]))
				continue;
			/* Before looking at the records, lest a touch gets lost. */
			WRITE_ONCE(section->block[block], 0);
			used = false;
			for (i = block * HOTNESS_BLOCK; i < (block + 1) * HOTNESS_BLOCK; i++) {
				old = READ_ONCE(section->record[i]);
				if (!old)
					continue;
				/* A failed exchange: it was touched just now. */
				if (!hotness_aged(old, tick, HOTNESS_MAX_SHIFT + 1) &&
				    try_cmpxchg_relaxed(&section->record[i], &old, 0))
					continue;
				used = true;
			}
			/* The stamp says when the last touch was at the latest. */
			if (used && !READ_ONCE(section->block[block]))
				WRITE_ONCE(section->block[block], HOTNESS_BLOCK_USED | tick);
			cond_resched();
		}
	}
	mutex_unlock(&hotness_mutex);
}

/**
 * hotness_next_epoch - a scan period begins
 *
 * A stamp says in which of the last 128 epochs a record was touched.  Records that
 * have reached HOTNESS_HORIZON are zeroed every HOTNESS_SWEEP_EPOCHS, before the
 * epoch advances, so none that is left is older than the sum of the two.
 *
 * Context: the scanner, may sleep.
 */
void hotness_next_epoch(void)
{
	unsigned int epoch = hotness_epoch() + 1;

	if (!(epoch % HOTNESS_SWEEP_EPOCHS) && !kmmscand_fault(SWEEP))
		hotness_sweep();
	WRITE_ONCE(hotness_now, epoch);
}

/*
 * Base pages of the folio that begins at a frame, 0 if none does.  A guess.  The frame
 * has a record, so it had a folio once, and the section is online (memory hotplug
 * lock): there is a struct page.
 */
static unsigned long hotness_pages(unsigned long pfn)
{
	struct page *page = pfn_to_page(pfn);
	unsigned int order;

	if (PageTail(page))
		return 0;
	if (!PageHead(page))
		return 1;
	/* No reference is held, so it may be freed and reused just now. */
	order = data_race(compound_order(page));
	return order <= MAX_PAGE_ORDER ? 1UL << order : 0;
}

/* From a multiple of four on, the first four records with one to be looked at, or @end */
static unsigned int hotness_skip(struct hotness_section *section, unsigned int index,
				 unsigned int end, u8 tick, u8 oldest, unsigned int bits)
{
	while (index < end && !hotness_any_fresh(READ_ONCE(*(u64 *)&section->record[index]),
						 tick, oldest, bits))
		index += HOTNESS_LANES;
	return index;
}

/*
 * The first record at or after @index that was touched in @since or later and has at least
 * @min_score, with its score, or the end of the section.  Blocks are left out that are not as
 * good by @best, unless that is NULL.
 */
static unsigned int hotness_next_fresh(struct hotness_section *section, const u8 *best,
				       unsigned int index, u8 since, unsigned int min_score,
				       unsigned int *score)
{
	const u8 tick = hotness_tick(), oldest = tick - since;
	const unsigned int bits = hotness_score_bits(min_score);
	unsigned int end;

	for (; index < PAGES_PER_SECTION; index = end) {
		u16 word = READ_ONCE(section->block[index / HOTNESS_BLOCK]);

		end = round_down(index, HOTNESS_BLOCK) + HOTNESS_BLOCK;
		if (!word || (u8)(tick - word) > oldest ||
		    (best && best[index / HOTNESS_BLOCK] < min_score))
			continue;
		if (!(index % HOTNESS_BLOCK))
			cond_resched();
		for (; index < end; index++) {
			u16 record;

			if (!(index % HOTNESS_LANES))
				index = hotness_skip(section, index, end, tick, oldest, bits);
			if (index == end)
				break;
			record = READ_ONCE(section->record[index]);
			if ((u8)(tick - (record >> 8)) > oldest || !(u8)record)
				continue;
			*score = hotness_score(record);
			if (*score >= min_score)
				return index;
		}
	}
	cond_resched();
	return index;
}

/*
 * The next section of a node, beginning with *@nr, or NULL.  The memory hotplug lock
 * must be held, which keeps the array: only hotness_disable() could free it as well,
 * and that is not called while a promoter runs.
 */
static struct hotness_section *hotness_next_section(unsigned long *nr, int nid)
{
	struct hotness_section *section;

	section = xa_find(&hotness_sections, nr, ULONG_MAX, XA_PRESENT);
	while (section && section->nid != nid)
		section = xa_find_after(&hotness_sections, nr, ULONG_MAX, XA_PRESENT);
	return section;
}

/* Does a page count?  A group's pages do up to what it may have promoted. */
static bool hotness_group_count(struct hotness_groups *groups, unsigned long pfn,
				unsigned int score, unsigned long pages, bool closed)
{
	struct hotness_group *group = &groups->group[tier_group(pfn_to_page(pfn))];

	if (score >= groups->min_score)
		group->hot += pages;
	if (closed)
		return false;
	if (score >= groups->warm_score)
		groups->warm += pages;
	if (score < groups->min_score || group->counted >= group->left)
		return false;
	group->counted += pages;
	return true;
}

/* Where a page should go, as of its record or later; see target.h */
static u8 hotness_wanted(const struct hotness_section *section, unsigned int index)
{
	if (!section->aim)
		return 0;
	/* After the record; pairs with hotness_aim() */
	smp_rmb();
	return READ_ONCE(section->aim[index]) ?: TARGET_ANY;
}

/* Is the page bound to a slot of @closed? */
static bool hotness_is_closed(u8 aim, u32 closed)
{
	return (aim & TARGET_STRICT) && (closed & BIT(aim & TARGET_SLOT));
}

/**
 * hotness_count - how many pages of a node have which score?
 * @nid:       slow node
 * @histogram: result: base pages that were touched in this or in the last epoch, by score
 * @groups:    what to look for by group, and the result, which is added; or NULL
 * @limits:    of memory control groups, for what counts; or NULL
 *
 * Context: may sleep; takes the memory hotplug lock for reading.
 * Return: false if it could not be done, because memory goes offline just now.
 */
bool hotness_count(int nid, struct hotness_histogram *histogram,
		   struct hotness_groups *groups, struct kpromoted_limits *limits)
{
	struct hotness_section *section;
	unsigned int i, score, least = 0;
	unsigned long nr, pfn, pages;
	bool closed;

	if (groups)
		least = min(groups->warm_score, groups->min_score);
	memset(histogram, 0, sizeof(*histogram));
	histogram->since = hotness_tick() - HOTNESS_FRESH_TICKS + 1;
	if (!try_get_online_mems())
		return false;
	for (nr = 0; (section = hotness_next_section(&nr, nid)); nr++) {
		/* Others count, too, for those who want to see a histogram. */
		u8 *best = groups ? section->best : NULL;

		if (best)
			memset(best, 0, sizeof(section->best));
		for (i = 0; (i = hotness_next_fresh(section, NULL, i, histogram->since, least,
						    &score)) < PAGES_PER_SECTION; i++) {
			if (best)
				best[i / HOTNESS_BLOCK] = max_t(u8, best[i / HOTNESS_BLOCK], score);
			pfn = section_nr_to_pfn(nr) + i;
			pages = hotness_pages(pfn);
			if (!pages)
				continue;
			closed = groups && groups->closed &&
				 hotness_is_closed(hotness_wanted(section, i), groups->closed);
			/* What cannot be promoted is not warm. */
			if (limits && !closed &&
			    !kpromoted_limits_take(limits, pfn, pages, score, false))
				continue;
			if (!groups || hotness_group_count(groups, pfn, score, pages, closed))
				histogram->pages[score] += pages;
		}
	}
	put_online_mems();
	return true;
}

/**
 * hotness_select - the pages of a node that are hot enough
 * @nid:        slow node
 * @min_score:  least score, at least 1, and not below what mattered to the last
 *              hotness_count() with groups
 * @cursor:     zero at first, but for @since of the histogram by which @min_score was
 *              chosen, and what was asked for with it; where the next call goes on
 * @ranges:     filled, in the order of the page frames, neighbours merged; instead of a
 *              node there is a slot and whether they may go elsewhere (target.h), or 0 if
 *              there is only one fast node
 * @max_ranges: size of @ranges
 * @max_pages:  base pages to stop at; one folio may exceed it
 *
 * What has become hot in a block of records in which nothing was when they were counted is
 * left for the next time.
 *
 * Nothing is reserved: what is selected stays in the table until it is forgotten.
 *
 * Context: may sleep; takes the memory hotplug lock for reading.
 * Return: number of ranges; 0 when the node has no more, or memory goes offline just now.
 */
unsigned int hotness_select(int nid, unsigned int min_score, struct hotness_cursor *cursor,
			    struct tier_range *ranges, unsigned int max_ranges,
			    unsigned long max_pages)
{
	struct hotness_section *section;
	unsigned long pfn, pages, sum = 0;
	struct hotness_group *group = NULL;
	struct tier_range *last = NULL;
	unsigned int nr = 0, score;
	bool merge;
	u8 aim;

	if (!try_get_online_mems())
		return 0;
	while ((section = hotness_next_section(&cursor->section, nid))) {
		for (; (cursor->index = hotness_next_fresh(section, section->best, cursor->index,
							   cursor->since, min_score, &score)) <
		       PAGES_PER_SECTION; cursor->index++) {
			pfn = section_nr_to_pfn(cursor->section) + cursor->index;
			pages = hotness_pages(pfn);
			if (!pages)
				continue;
			if (cursor->groups)
				group = &cursor->groups->group[tier_group(pfn_to_page(pfn))];
			if (group && !group->left)
				continue;
			aim = hotness_wanted(section, cursor->index);
			if (hotness_is_closed(aim, cursor->closed))
				continue;
			merge = last && last->pfn + last->nr == pfn && last->nid == aim;
			if (sum >= max_pages || (!merge && nr == max_ranges))
				goto out;
			if (cursor->limits &&
			    !kpromoted_limits_take(cursor->limits, pfn, pages, score, true))
				continue;
			if (merge) {
				last->nr += pages;
			} else {
				last = &ranges[nr++];
				*last = (struct tier_range) { .pfn = pfn, .nr = pages, .nid = aim };
			}
			sum += pages;
			if (group)
				group->left -= min(group->left, pages);
		}
		cursor->section++;
		cursor->index = 0;
	}
out:
	put_online_mems();
	return nr;
}

/* The first of the nodes to which a part of the section belongs, or NUMA_NO_NODE. */
static int hotness_section_nid(unsigned long nr, const nodemask_t *nodes)
{
	unsigned long start = section_nr_to_pfn(nr), pfn;

	/* Nodes need not begin at section boundaries. */
	for (pfn = start; pfn < start + PAGES_PER_SECTION; pfn += pageblock_nr_pages) {
		struct page *page = pfn_to_online_page(pfn);

		if (page && node_isset(page_to_nid(page), *nodes))
			return page_to_nid(page);
	}
	return NUMA_NO_NODE;
}

static int hotness_add_section(unsigned long nr, int nid)
{
	struct hotness_section *section;
	int err = -ENOMEM;

	lockdep_assert_held(&hotness_mutex);

	if (xa_load(&hotness_sections, nr))
		return 0;
	section = kzalloc(sizeof(*section), GFP_KERNEL | __GFP_NOWARN);
	if (!section)
		return -ENOMEM;
	section->record = kvcalloc(PAGES_PER_SECTION, sizeof(*section->record),
				   GFP_KERNEL | __GFP_NOWARN);
	if (target_matters())
		section->aim = kvzalloc(PAGES_PER_SECTION, GFP_KERNEL | __GFP_NOWARN);
	if (section->record && (section->aim || !target_matters())) {
		/* Of two slow nodes in one section, the first one's promoter serves both. */
		section->nid = nid;
		memset(section->best, HOTNESS_NOT_COUNTED, sizeof(section->best));
		err = xa_err(xa_store(&hotness_sections, nr, section, GFP_KERNEL));
	}
	if (err) {
		kvfree(section->record);
		kvfree(section->aim);
		kfree(section);
	}
	return err;
}

static void hotness_del_section(unsigned long nr)
{
	struct hotness_section *section;

	lockdep_assert_held(&hotness_mutex);

	section = xa_erase(&hotness_sections, nr);
	if (section) {
		kvfree_rcu_mightsleep(section->record);
		kvfree_rcu_mightsleep(section->aim);
		kfree_rcu(section, rcu);
	}
}

/**
 * hotness_populate - allocate the arrays for nodes that do not have them yet
 * @slow: nodes to track
 *
 * Context: may sleep; takes the memory hotplug lock.
 * Return: 0, or -ENOMEM if some sections are not tracked, or -EAGAIN if memory goes
 * offline just now.
 */
int hotness_populate(const nodemask_t *slow)
{
	unsigned long nr;
	int nid, err = 0;

	/* Keeps online sections online while we look at their memmap. */
	if (!try_get_online_mems())
		return -EAGAIN;
	mutex_lock(&hotness_mutex);
	for (nr = 0; nr <= __highest_present_section_nr; nr++) {
		nid = online_section_nr(nr) ? hotness_section_nid(nr, slow) : NUMA_NO_NODE;
		if (nid != NUMA_NO_NODE && hotness_add_section(nr, nid))
			err = -ENOMEM;
		cond_resched();
	}
	mutex_unlock(&hotness_mutex);
	put_online_mems();
	return err;
}

/**
 * hotness_enable - start to keep the table
 * @slow: nodes to track
 *
 * Context: may sleep; waits while memory goes offline.
 * Return: 0, or -ENOMEM or -EINTR and no table.
 */
int hotness_enable(const nodemask_t *slow)
{
	int err;

	mutex_lock(&hotness_mutex);
	hotness_enabled = true;
	mutex_unlock(&hotness_mutex);

	/* Offlining can take as long as somebody holds on to a page. */
	while ((err = hotness_populate(slow)) == -EAGAIN) {
		if (msleep_interruptible(HOTNESS_RETRY_MSECS)) {
			err = -EINTR;
			break;
		}
	}
	if (err)
		hotness_disable();
	return err;
}

/**
 * hotness_disable - forget everything and free the table
 */
void hotness_disable(void)
{
	struct hotness_section *section;
	unsigned long nr;

	mutex_lock(&hotness_mutex);
	hotness_enabled = false;
	xa_for_each(&hotness_sections, nr, section)
		hotness_del_section(nr);
	mutex_unlock(&hotness_mutex);
}

/* Called with the memory hotplug lock held for writing */
static int hotness_memory_notify(struct notifier_block *nb, unsigned long action,
				 void *data)
{
	struct memory_notify *arg = data;
	unsigned long pfn, end = arg->start_pfn + arg->nr_pages;

	if (action != MEM_ONLINE && action != MEM_OFFLINE)
		return NOTIFY_OK;

	mutex_lock(&hotness_mutex);
	for (pfn = arg->start_pfn; pfn < end; pfn += PAGES_PER_SECTION) {
		unsigned long nr = pfn_to_section_nr(pfn);
		int nid = pfn_to_nid(pfn);

		if (action == MEM_OFFLINE) {
			hotness_del_section(nr);
		} else if (hotness_enabled && !node_is_toptier(nid) &&
			   hotness_add_section(nr, nid)) {
			/* Not worth failing the hotplug for; hotness_populate() tries again */
			pr_warn_once("no memory to track section %lu\n", nr);
		}
	}
	mutex_unlock(&hotness_mutex);
	return NOTIFY_OK;
}

static int __init hotness_init(void)
{
	/* After memory-tiers.c (MEMTIER_HOTPLUG_PRI) has put the node into a tier */
	return hotplug_memory_notifier(hotness_memory_notify, DEFAULT_CALLBACK_PRI);
}
subsys_initcall(hotness_init);
