// SPDX-License-Identifier: GPL-2.0
/*
 * Hotness table: two bytes for each page frame of the slow memory tier.
 *
 * The table is the only memory of who is hot.  It is an array of records per
 * memory section, found by section number in an xarray.  A folio of any size
 * uses the record of its first frame.  The table holds no folio pointers and no
 * references; nothing is allocated when a page is touched, so a record can be
 * updated under a page-table lock.
 *
 * Lifetime: the arrays exist while the scanner is enabled, for every section
 * with memory of a slow node.  Sections that come online later are added and
 * those that go offline are removed by a memory notifier.  hotness_mutex
 * serialises all changes to the xarray.  It nests inside the memory hotplug lock
 * (the notifier is called with that held for writing).  Readers take only
 * rcu_read_lock(); an array is freed a grace period after it was erased.
 *
 * What the table cannot tell, by design:
 *  - A record belongs to a frame, not to the data in it.  When a frame is freed
 *    and reused, the new user inherits the history until it has aged out, at
 *    most 8 rounds later.  The scanner forgets the records of what it has
 *    promoted, which is the most common case.
 *  - When a large folio is split or a new one is formed, the history of its first
 *    frame stands for the first small page, or for the whole of the new folio.
 *  - "Touched" means touched at least once in a round by any mapping.
 */

#define pr_fmt(fmt) "kmmscand: " fmt

#include <linux/atomic.h>
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
#include <linux/xarray.h>

#include "hotness.h"

/* Section number -> array of PAGES_PER_SECTION records */
static DEFINE_XARRAY(hotness_sections);
static DEFINE_MUTEX(hotness_mutex);
/* Should sections that come online get an array?  Under hotness_mutex. */
static bool hotness_enabled;

static u16 *hotness_section(unsigned long section)
{
	return xa_load(&hotness_sections, section);
}

/*
 * The record of @pfn, or NULL for a frame that is not tracked.  The cursor saves
 * the lookup while consecutive frames are in one section.
 */
static u16 *hotness_record(struct hotness_cursor *cursor, unsigned long pfn)
{
	unsigned long section = pfn_to_section_nr(pfn);

	RCU_LOCKDEP_WARN(!rcu_read_lock_held(), "hotness record without RCU");

	if (cursor->section != section) {
		cursor->section = section;
		cursor->records = hotness_section(section);
	}
	if (!cursor->records)
		return NULL;
	return &cursor->records[pfn & ~PAGE_SECTION_MASK];
}

/**
 * hotness_touch - a page was found accessed in this round
 * @cursor: of this RCU read-side critical section
 * @pfn:    first frame of the folio
 * @round:  number of the current round, modulo 256
 *
 * Context: rcu_read_lock(); any other locks.
 * Return: the score of the page, or 0 if it was recorded before in this round
 * (it is mapped more than once, or is a large folio mapped by PTEs) or is not
 * tracked.  So a caller that acts on the score acts once per page and round.
 */
unsigned int hotness_touch(struct hotness_cursor *cursor, unsigned long pfn, u8 round)
{
	u16 *record = hotness_record(cursor, pfn);
	u16 old, new;
	u8 history;

	if (!record)
		return 0;

	/*
	 * Each record stands for itself and orders nothing else, so relaxed
	 * atomics will do; the cmpxchg only keeps concurrent updates from
	 * getting lost.
	 */
	old = READ_ONCE(*record);
	do {
		history = hotness_aged(old, round);
		if (history & 1)
			return 0;
		history |= 1;
		new = (u16)round << 8 | history;
	} while (!try_cmpxchg_relaxed(record, &old, new));

	return hotness_score(history);
}

/**
 * hotness_forget - a frame is about to get a new owner
 * @pfn: page frame, need not be tracked or even exist any more
 */
void hotness_forget(unsigned long pfn)
{
	struct hotness_cursor cursor = HOTNESS_CURSOR_INIT;
	u16 *record;

	rcu_read_lock();
	record = hotness_record(&cursor, pfn);
	if (record)
		WRITE_ONCE(*record, 0);
	rcu_read_unlock();
}

/**
 * hotness_sweep - zero the records whose history has run out
 * @round: number of the current round, modulo 256
 *
 * Must be called at least once in every 255 - HOTNESS_HISTORY_BITS rounds, so
 * that no stamp can be mistaken for one of 256 rounds later.
 *
 * Context: may sleep.
 */
void hotness_sweep(u8 round)
{
	unsigned long section;
	u16 *records;

	/*
	 * Under the mutex instead of RCU, because walking all of an array takes
	 * long enough to want to reschedule.
	 */
	mutex_lock(&hotness_mutex);
	xa_for_each(&hotness_sections, section, records) {
		unsigned long i;

		for (i = 0; i < PAGES_PER_SECTION; i++) {
			u16 old = READ_ONCE(records[i]);

			/* A failed exchange means that it was touched just now. */
			if (old && !hotness_aged(old, round))
				cmpxchg_relaxed(&records[i], old, 0);
		}
		cond_resched();
	}
	mutex_unlock(&hotness_mutex);
}

/* Does any part of the section belong to one of the nodes? */
static bool hotness_section_on(unsigned long section, const nodemask_t *nodes)
{
	unsigned long start = section_nr_to_pfn(section), pfn;

	/* Nodes need not begin at section boundaries. */
	for (pfn = start; pfn < start + PAGES_PER_SECTION; pfn += pageblock_nr_pages) {
		struct page *page = pfn_to_online_page(pfn);

		if (page && node_isset(page_to_nid(page), *nodes))
			return true;
	}
	return false;
}

static int hotness_add_section(unsigned long section)
{
	u16 *records;
	int err;

	lockdep_assert_held(&hotness_mutex);

	if (hotness_section(section))
		return 0;
	records = kvcalloc(PAGES_PER_SECTION, sizeof(*records), GFP_KERNEL);
	if (!records)
		return -ENOMEM;
	err = xa_err(xa_store(&hotness_sections, section, records, GFP_KERNEL));
	if (err)
		kvfree(records);
	return err;
}

static void hotness_del_section(unsigned long section)
{
	u16 *records;

	lockdep_assert_held(&hotness_mutex);

	records = xa_erase(&hotness_sections, section);
	if (records)
		kvfree_rcu_mightsleep(records);
}

/**
 * hotness_populate - allocate the arrays for nodes that do not have them yet
 * @slow: nodes to track
 *
 * Context: may sleep; takes the memory hotplug lock.
 * Return: 0 or -ENOMEM; then some sections are not tracked.
 */
int hotness_populate(const nodemask_t *slow)
{
	unsigned long section;
	int err = 0;

	/* Keeps online sections online while we look at their memmap. */
	get_online_mems();
	mutex_lock(&hotness_mutex);
	for (section = 0; section <= __highest_present_section_nr; section++) {
		if (online_section_nr(section) && hotness_section_on(section, slow) &&
		    hotness_add_section(section))
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
 * Return: 0, or -ENOMEM and no table.
 */
int hotness_enable(const nodemask_t *slow)
{
	int err;

	mutex_lock(&hotness_mutex);
	hotness_enabled = true;
	mutex_unlock(&hotness_mutex);

	err = hotness_populate(slow);
	if (err)
		hotness_disable();
	return err;
}

/**
 * hotness_disable - forget everything and free the table
 */
void hotness_disable(void)
{
	unsigned long section;
	u16 *records;

	mutex_lock(&hotness_mutex);
	hotness_enabled = false;
	xa_for_each(&hotness_sections, section, records)
		hotness_del_section(section);
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
		unsigned long section = pfn_to_section_nr(pfn);

		if (action == MEM_OFFLINE) {
			hotness_del_section(section);
		} else if (hotness_enabled && !node_is_toptier(pfn_to_nid(pfn)) &&
			   hotness_add_section(section)) {
			/* Not worth failing the hotplug for; the sweep tries again */
			pr_warn_once("no memory to track section %lu\n", section);
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
