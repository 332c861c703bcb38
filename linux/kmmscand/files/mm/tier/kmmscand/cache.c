// SPDX-License-Identifier: GPL-2.0
/*
 * Page cache that is hot through read(2), and mapped by nobody.
 *
 * No Accessed bit tells of a read(2): the kernel copies, through its own mapping.  But who
 * reads passes through few functions, with the folios in his hand.  They ask
 * kmmscand_looks_at_cache() (a static branch), and what is on a slow node is recorded in the
 * hotness table.  Everything else is as for mapped pages: the same score, the same
 * promoter, the same limits.
 *
 * What counts as an access.  The score of a page is the number of looks, out of the last
 * eight, that found it accessed.  A scanner looks from time to time, reads are events.  So
 * that both can be compared, a read takes the place of the Accessed bit: it is remembered
 * once until the next look, however many there are.  An epoch has one look.  When the
 * scanners make close visits (close.c), because more is hot than can be promoted, an epoch
 * has two, of the same windows: who is not read in them is not hot enough.
 *
 * A file that is read once from the beginning to the end is read at each page for a
 * moment.  With small buffers that moment has many reads, and a look may end between two
 * of them.  Therefore a read that goes on inside of a folio, where the one before it has
 * ended, is taken for a part of that one.
 *
 * There is a look in each epoch, also where little is found: nothing is scanned, so longer
 * intervals would save nothing.  So a file that is read again and again from the beginning
 * to the end is hot only if a pass takes less than three epochs.  Where that is more than
 * can be promoted, there are windows, and in those it is not found twice.
 *
 * Not counted, each for a reason:
 *   mapped folios      the scanners see them, and look at the policy, advice and mlock()
 *                      of those who map them, of which nothing is known here
 *   dirty, unevictable and folios under writeback: not promoted (promote.c)
 *   readers whose mempolicy or cpuset does not allow each fast node, as for mapped
 *                      memory; page cache has the policy of who brings it in
 *   tmpfs files with a mempolicy of their own
 *   POSIX_FADV_NOREUSE by the reader's own word it is not used again
 *   readers that have opted out by prctl()
 *   write(2)           makes it dirty; if it is read afterwards, that counts
 *   direct I/O, DAX, hugetlbfs: do not come here, as there is no page cache, or it
 *                      cannot move
 *
 * Cost.  With page_cache off, or kmmscand, one nop for each batch of folios (up to 31), in
 * tmpfs for each folio.
 * On, the node of each folio is looked at.  Only for those on slow nodes the clock and
 * the table, and only if one has not been recorded in this look all else.
 *
 * Reading races with everything: with the beginning of an epoch, with the folio being
 * truncated or migrated, also with being switched off (a reader may have passed the
 * branch).  The reader's reference keeps the folio; the table is under RCU; and what is
 * recorded of a page that has gone is as wrong as any record of a frame with a new owner
 * (hotness.c), and harmless.
 */

#define pr_fmt(fmt) "kmmscand: " fmt

#include <linux/cpuset.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/jump_label.h>
#include <linux/kmmscand.h>
#include <linux/kobject.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/pagevec.h>
#include <linux/sched.h>
#include <linux/shmem_fs.h>
#include <linux/sysfs.h>
#include <linux/tier.h>
#include <linux/topology.h>

#include "cache.h"
#include "control.h"
#include "events.h"
#include "fault.h"
#include "hotness.h"
#include "kmmscand.h"
#include "target.h"

/* True while kmmscand runs and is to look at page cache; see kmmscand_looks_at_cache() */
DEFINE_STATIC_KEY_FALSE(kmmscand_cache_key);

/* Serialises changes of the key.  Nests inside the mutex of kmmscand.c. */
static DEFINE_MUTEX(kmmscand_cache_mutex);
static bool kmmscand_cache_wanted = true;
static bool kmmscand_cache_running;

/* Changed while the key is off, but for readers that are late */
static nodemask_t kmmscand_cache_top __read_mostly;

/* Of this epoch, in jiffies.  The two may be of different epochs for a moment. */
static unsigned long kmmscand_cache_begun;
static unsigned long kmmscand_cache_window;

static void kmmscand_cache_update(void)
{
	bool on = kmmscand_cache_running && (kmmscand_cache_wanted || kmmscand_fault(CACHE_OFF));

	lockdep_assert_held(&kmmscand_cache_mutex);

	if (on)
		static_branch_enable(&kmmscand_cache_key);
	else
		static_branch_disable(&kmmscand_cache_key);
}

/**
 * kmmscand_cache_run - look at reads from now on, if that is wanted, or not any more
 * @nodes: tiers, which are copied, or NULL: not any more
 *
 * Who reads just now may still record it.  Context: may sleep.
 */
void kmmscand_cache_run(const struct kmmscand_nodes *nodes)
{
	mutex_lock(&kmmscand_cache_mutex);
	kmmscand_cache_running = !!nodes;
	if (nodes)
		kmmscand_cache_top = nodes->top;
	kmmscand_cache_update();
	mutex_unlock(&kmmscand_cache_mutex);
}

/**
 * kmmscand_cache_epoch - an epoch has begun
 * @window_ms: of the scanners' close visits in it, 0 if they make none
 *
 * Context: the first scanner.
 */
void kmmscand_cache_epoch(unsigned int window_ms)
{
	WRITE_ONCE(kmmscand_cache_window, msecs_to_jiffies(window_ms));
	WRITE_ONCE(kmmscand_cache_begun, jiffies);
}

/* May what this task and others read from this file move to the fast nodes? */
static bool kmmscand_cache_allowed(struct file *file)
{
	struct address_space *mapping = file->f_mapping;
	nodemask_t nodes;

	if (kmmscand_fault(POLICY))
		return true;
	if (file->f_mode & FMODE_NOREUSE)
		return false;
	if (current->mm && !tier_mm_scale(current->mm))
		return false;
	if (shmem_mapping(mapping) && !RB_EMPTY_ROOT(&SHMEM_I(mapping->host)->policy.root))
		return false;
	/* Both are the task's own.  What a cpuset changes meanwhile is not waited for. */
	kmmscand_policy_nodes(current->mempolicy, &nodes);
	nodes_and(nodes, nodes, cpuset_current_mems_allowed);
	return nodes_subset(kmmscand_cache_top, nodes);
}

static bool kmmscand_cache_may_move(struct folio *folio)
{
	if (folio_mapped(folio) && !kmmscand_fault(CACHE_MAPPED))
		return false;
	return !folio_test_unevictable(folio) && !folio_test_writeback(folio) &&
	       !(folio_is_file_lru(folio) && folio_test_dirty(folio));
}

/* Record a slow folio.  Returns false if it has been in this look, or is not tracked. */
static bool kmmscand_cache_touch(unsigned long pfn, unsigned int epoch,
				 enum kmmscand_cache_look look, unsigned int slot)
{
	bool second = look != KMMSCAND_CACHE_FIRST;

	if (target_matters())
		hotness_aim(pfn, epoch, second, slot, true);
	if (kmmscand_fault(CACHE_ONCE)) {
		hotness_touch(pfn, epoch, false, true, 0);
		return hotness_touch(pfn, epoch, true, true, 0);
	}
	return hotness_touch(pfn, epoch, second, look != KMMSCAND_CACHE_WHOLE, 0);
}

/**
 * __kmmscand_file_read - page cache on slow nodes is read
 * @file:   that is read
 * @folios: that are about to be copied from, in the order of the file; references are held
 * @nr:     number of folios, at most PAGEVEC_SIZE
 * @pos:    where the read begins, in the first folio or in front of it
 * @prev:   where the read before it has ended; anything else if that is not known
 *
 * See kmmscand_looks_at_cache().
 *
 * Context: a process that reads; no locks needed.
 */
void __kmmscand_file_read(struct file *file, struct folio **folios, unsigned int nr, loff_t pos,
			  loff_t prev)
{
	unsigned int i, touched = 0, epoch = hotness_epoch(), slot = TARGET_ANY;
	enum kmmscand_cache_look look;
	bool asked = false;

	look = kmmscand_cache_look(jiffies - READ_ONCE(kmmscand_cache_begun),
				   READ_ONCE(kmmscand_cache_window));
	if (look == KMMSCAND_CACHE_NONE)
		return;
	/* To who reads it; if there are several, they disagree. */
	if (target_matters())
		slot = target_slot(numa_node_id());
	i = kmmscand_cache_goes_on(pos, prev, folio_pos(folios[0])) && !kmmscand_fault(CACHE_PART);
	for (; i < nr; i++) {
		unsigned long pfn = folio_pfn(folios[i]);

		/* Most of what is read often ends here. */
		if (hotness_found(pfn, epoch, look != KMMSCAND_CACHE_FIRST))
			continue;
		if (!asked && !kmmscand_cache_allowed(file))
			return;
		asked = true;
		if (kmmscand_cache_may_move(folios[i]))
			touched += kmmscand_cache_touch(pfn, epoch, look, slot);
	}
	if (touched)
		count_kmmscand_events(KMMSCAND_READ_TOUCHED, touched);
}

static ssize_t page_cache_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(kmmscand_cache_wanted));
}

static ssize_t page_cache_store(struct kobject *kobj, struct kobj_attribute *attr,
				const char *buf, size_t count)
{
	bool wanted = sysfs_streq(buf, "1");

	/* kstrtobool() would take "yes", "offer" and more. */
	if (!wanted && !sysfs_streq(buf, "0"))
		return -EINVAL;

	if (mutex_lock_interruptible(&kmmscand_cache_mutex))
		return -ERESTARTSYS;
	WRITE_ONCE(kmmscand_cache_wanted, wanted);
	kmmscand_cache_update();
	mutex_unlock(&kmmscand_cache_mutex);
	return count;
}

struct kobj_attribute kmmscand_cache_attr = __ATTR_RW(page_cache);
