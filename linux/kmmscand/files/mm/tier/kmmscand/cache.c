// SPDX-License-Identifier: GPL-2.0
/*
 * Page cache that is hot through read(2), and not mapped.
 *
 * No Accessed bit tells of a read(2): the kernel copies, through its own mapping.  The few
 * functions that copy ask kmmscand_looks_at_cache() (a static branch), and tell of folios on slow
 * nodes.  A read takes the place of the Accessed bit.  Looks last for CACHE_LOOK periods
 * (scan/period_ms), and so do the pauses between them, in which a read costs a look at the clock.
 * A folio that is read in two looks, one after the other, is a candidate, as a mapped page that
 * both looks of a visit find.
 *
 * A bit for each frame says that the frame was read in this look, another one in the look before.
 * The promoter of the node ends a look (cache_period()).  Only stretches of frames in which a bit
 * was set are walked.
 *
 * A read that goes on inside of a folio, where the one before it has ended, is taken for a part of
 * that one.  So a file that is read once from the beginning to the end counts once.
 *
 * Not counted, each for a reason:
 *   mapped folios      workers find them, and ask the policies of all mappings
 *   dirty, unevictable and folios under writeback: not promoted (promote.c)
 *   readers whose mempolicy or cpuset does not allow each fast node, as for mapped memory; page
 *                      cache has the policy of the task that brings it in
 *   tmpfs files with a mempolicy of their own
 *   POSIX_FADV_NOREUSE by the reader's own word it is not used again
 *   readers that have opted out by prctl()
 *   write(2)           makes it dirty; if it is read afterwards, that counts
 *   direct I/O, DAX, hugetlbfs: there is no page cache, or it cannot move
 *
 * Cost.  With page_cache off, or kmmscand, one nop for each batch of folios (up to 31), in tmpfs
 * for each folio.  On, the clock is read for each batch.  During a look the node of each folio is
 * looked at; on slow nodes the bit; and only for a folio that has not been read in this look all
 * else.
 *
 * Memory: two bits for each frame that a slow node spans, while page_cache is on; with several fast
 * nodes two bytes more for 256 frames.
 *
 * Races: bits of frames and of stretches are ordered against each other (cache_end_look()).  A
 * reader that passes the branch while it is switched off may set a bit late; RCU keeps the
 * bitmaps.  The reader's reference keeps the folio.  A candidate of a frame that has another owner
 * by then is looked at again by tier_promote().
 */

#define pr_fmt(fmt) "kmmscand: " fmt

#include <linux/cpuset.h>
#include <linux/fs.h>
#include <linux/jiffies.h>
#include <linux/kmmscand.h>
#include <linux/kobject.h>
#include <linux/memory_hotplug.h>
#include <linux/mempolicy.h>
#include <linux/mm.h>
#include <linux/mm_inline.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/rcupdate.h>
#include <linux/shmem_fs.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/tier.h>

#include "cache.h"
#include "control.h"
#include "events.h"
#include "fault.h"
#include "kmmscand.h"
#include "ring.h"
#include "target.h"

/* Frames of a stretch that is walked if a bit was set */
#define CACHE_STRETCH	32768UL
/* So many frames go to the fast node of their last reader, if there are several fast nodes */
#define CACHE_READER	256UL
/* Periods of a look, and of a pause */
#define CACHE_LOOK		2
/* Candidates that are pushed at a time */
#define CACHE_BATCH	16

struct cache_node {
	unsigned long start_pfn;
	unsigned long frames;
	unsigned long begun;		/* the look, in jiffies */
	unsigned long window;		/* its length */
	unsigned int periods;		/* until the next one begins */
	unsigned long *now;		/* bits by frame: read in this look */
	unsigned long *before;		/* and in the one before */
	unsigned long *stretch;		/* bits by stretch: some bit of @now or @before is set */
	s16 *reader;			/* by CACHE_READER frames: node of the last one; or NULL */
};

/* True while kmmscand runs and is to look at page cache; see kmmscand_looks_at_cache() */
DEFINE_STATIC_KEY_FALSE(kmmscand_cache_key);
/* Slow nodes, for readers */
nodemask_t kmmscand_slow_nodes __read_mostly;
/* When the last look of all nodes ends, in jiffies */
unsigned long kmmscand_cache_until __read_mostly;

/* Serialises changes of the key and of the bitmaps.  Nests inside kmmscand_mutex. */
static DEFINE_MUTEX(cache_mutex);
static bool cache_wanted = true;
static const struct kmmscand_nodes *cache_nodes;	/* NULL: kmmscand does not run */
static nodemask_t cache_top __read_mostly;
static struct cache_node __rcu *caches[MAX_NUMNODES];

static void cache_free(struct cache_node *cache)
{
	kvfree(cache->now);
	kvfree(cache->before);
	kvfree(cache->stretch);
	kvfree(cache->reader);
	kfree(cache);
}

static struct cache_node *cache_alloc(int nid, bool several)
{
	struct cache_node *cache = kzalloc(sizeof(*cache), GFP_KERNEL);
	unsigned long words;

	if (!cache)
		return NULL;
	cache->start_pfn = node_start_pfn(nid);
	cache->frames = node_spanned_pages(nid);
	words = BITS_TO_LONGS(cache->frames);
	cache->now = kvcalloc(words, sizeof(long), GFP_KERNEL | __GFP_NOWARN);
	cache->before = kvcalloc(words, sizeof(long), GFP_KERNEL | __GFP_NOWARN);
	cache->stretch = kvcalloc(BITS_TO_LONGS(cache->frames / CACHE_STRETCH + 1), sizeof(long),
				  GFP_KERNEL | __GFP_NOWARN);
	if (several)
		cache->reader = kvcalloc(cache->frames / CACHE_READER + 1, sizeof(s16),
					 GFP_KERNEL | __GFP_NOWARN);
	if (!cache->now || !cache->before || !cache->stretch || (several && !cache->reader)) {
		cache_free(cache);
		return NULL;
	}
	return cache;
}

static void cache_disable(void)
{
	struct cache_node *cache;
	int nid;

	static_branch_disable(&kmmscand_cache_key);
	for_each_node(nid) {
		cache = rcu_replace_pointer(caches[nid], NULL, lockdep_is_held(&cache_mutex));
		if (!cache)
			continue;
		synchronize_rcu();
		cache_free(cache);
	}
}

static int cache_update(void)
{
	bool on = cache_nodes && (cache_wanted || kmmscand_fault(CACHE_OFF));
	int nid;

	lockdep_assert_held(&cache_mutex);

	if (!on) {
		cache_disable();
		return 0;
	}
	kmmscand_slow_nodes = cache_nodes->slow;
	cache_top = cache_nodes->top;
	for_each_node_mask(nid, cache_nodes->slow) {
		struct cache_node *cache;

		if (rcu_access_pointer(caches[nid]))
			continue;
		cache = cache_alloc(nid, nodes_weight(cache_top) > 1);
		if (!cache) {
			cache_disable();
			return -ENOMEM;
		}
		rcu_assign_pointer(caches[nid], cache);
	}
	/* Jiffies wrap 5 minutes after boot: an old value would look like a look that goes on. */
	if (!static_key_enabled(&kmmscand_cache_key))
		WRITE_ONCE(kmmscand_cache_until, jiffies);
	static_branch_enable(&kmmscand_cache_key);
	return 0;
}

/**
 * kmmscand_cache_run - look at reads from now on, if that is wanted, or not any more
 * @nodes: tiers, or NULL: not any more
 *
 * Context: may sleep; no promoter runs if @nodes is NULL.
 * Return: 0 or -ENOMEM.
 */
int kmmscand_cache_run(const struct kmmscand_nodes *nodes)
{
	int err;

	mutex_lock(&cache_mutex);
	cache_nodes = nodes;
	err = cache_update();
	mutex_unlock(&cache_mutex);
	return err;
}

/* May what this task and others read from this file move to the fast nodes? */
static bool cache_allowed(struct file *file)
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
	target_policy_nodes(current->mempolicy, &nodes);
	nodes_and(nodes, nodes, cpuset_current_mems_allowed);
	return nodes_subset(cache_top, nodes);
}

static bool cache_may_move(struct folio *folio)
{
	if (folio_mapped(folio) && !kmmscand_fault(CACHE_MAPPED))
		return false;
	return !folio_test_unevictable(folio) && !folio_test_writeback(folio) &&
	       !(folio_is_file_lru(folio) && folio_test_dirty(folio));
}

/* The slow frame of a folio was read.  Returns false if it is known, or is not to be counted. */
static bool cache_note(struct cache_node *cache, unsigned long pfn)
{
	unsigned long i = pfn - cache->start_pfn;

	if (i >= cache->frames || test_and_set_bit(i, cache->now))
		return false;
	if (!test_bit(i / CACHE_STRETCH, cache->stretch))
		set_bit(i / CACHE_STRETCH, cache->stretch);
	if (cache->reader)
		WRITE_ONCE(cache->reader[i / CACHE_READER], numa_node_id());
	if (kmmscand_fault(CACHE_ONCE))
		set_bit(i, cache->before);
	return true;
}

/* Is the folio not known in this look? */
static bool cache_is_new(const struct cache_node *cache, unsigned long pfn)
{
	unsigned long i = pfn - cache->start_pfn;

	return i < cache->frames && !test_bit(i, cache->now);
}

/* Does the node have a look just now?  Another one may have. */
static bool cache_looks(const struct cache_node *cache)
{
	return jiffies - READ_ONCE(cache->begun) <= READ_ONCE(cache->window);
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
	unsigned int i, touched = 0;
	struct cache_node *cache;
	bool asked = false;

	rcu_read_lock();
	for (i = 0; i < nr; i++) {
		cache = rcu_dereference(caches[folio_nid(folios[i])]);
		/* Most of what is read often ends here. */
		if (!cache || !cache_is_new(cache, folio_pfn(folios[i])) || !cache_looks(cache))
			continue;
		if (!i && kmmscand_cache_goes_on(pos, prev, folio_pos(folios[0])) &&
		    !kmmscand_fault(CACHE_PART))
			continue;
		if (!asked && !cache_allowed(file))
			break;
		asked = true;
		if (cache_may_move(folios[i]))
			touched += cache_note(cache, folio_pfn(folios[i]));
	}
	rcu_read_unlock();
	if (touched)
		count_kmmscand_events(KMMSCAND_READ_TOUCHED, touched);
}

/* A frame that was read in two looks: is there still a folio that begins there? */
static bool cache_candidate(struct candidate *found, const struct cache_node *cache,
			    unsigned long i)
{
	struct page *page = pfn_to_online_page(cache->start_pfn + i);
	struct folio *folio = page ? page_folio(page) : NULL;
	int nid = cache->reader ? READ_ONCE(cache->reader[i / CACHE_READER]) : NUMA_NO_NODE;
	bool begins;

	/* Without a reference the size is that of something else, or none at all. */
	if (!folio || !folio_try_get(folio))
		return false;
	*found = (struct candidate) {
		.pfn = cache->start_pfn + i,
		.stamp = jiffies,
		.order = folio_order(folio),
		.group = tier_group(page),
		.nid = nid == NUMA_NO_NODE || node_isset(nid, cache_top) ? nid : NUMA_NO_NODE,
	};
	begins = page_folio(page) == folio && folio_pfn(folio) == found->pfn;
	folio_put(folio);
	return begins;
}

static void cache_end_look(int nid, struct cache_node *cache, unsigned long from, unsigned long to)
{
	unsigned long word, bits, first = from / BITS_PER_LONG;
	struct candidate found[CACHE_BATCH];
	bool any = false;
	unsigned int nr;

	clear_bit(from / CACHE_STRETCH, cache->stretch);
	/* A reader sets a frame's bit, then looks at this one: one of us two sees the other's. */
	smp_mb__after_atomic();
	for (word = first; word < DIV_ROUND_UP(to, BITS_PER_LONG); word++) {
		unsigned long now = READ_ONCE(cache->now[word]) ? xchg(&cache->now[word], 0) : 0;
		int i;

		bits = now & cache->before[word];
		cache->before[word] = now;
		any |= now;
		nr = 0;
		for_each_set_bit(i, &bits, BITS_PER_LONG) {
			nr += cache_candidate(&found[nr], cache, word * BITS_PER_LONG + i);
			if (nr == CACHE_BATCH) {
				ring_push(nid, found, nr);
				nr = 0;
			}
		}
		if (nr)
			ring_push(nid, found, nr);
	}
	/* @before is to be looked at once more. */
	if (any)
		set_bit(from / CACHE_STRETCH, cache->stretch);
}

/**
 * cache_period - a period is over: a look at page cache may be over, and the next one begin
 * @nid: slow node
 *
 * Context: the promoter of the node; may sleep.
 */
void cache_period(int nid)
{
	struct cache_node *cache;
	unsigned long i, until;

	if (!static_branch_unlikely(&kmmscand_cache_key))
		return;
	mutex_lock(&cache_mutex);
	/* In this order: a change of the key takes the lock of CPU hotplug under the mutex. */
	if (!try_get_online_mems()) {
		mutex_unlock(&cache_mutex);
		return;
	}
	cache = rcu_dereference_protected(caches[nid], lockdep_is_held(&cache_mutex));
	if (cache && cache->periods) {
		cache->periods--;
	} else if (cache) {
		for_each_set_bit(i, cache->stretch, cache->frames / CACHE_STRETCH + 1) {
			cache_end_look(nid, cache, i * CACHE_STRETCH,
				       min((i + 1) * CACHE_STRETCH, cache->frames));
			cond_resched();
		}
		cache->periods = 2 * CACHE_LOOK - 1;
		WRITE_ONCE(cache->window, msecs_to_jiffies(CACHE_LOOK * kmmscand_period_ms));
		WRITE_ONCE(cache->begun, jiffies);
		/* Under the mutex.  The other nodes have periods of their own. */
		until = cache->begun + cache->window;
		if (time_after(until, kmmscand_cache_until))
			WRITE_ONCE(kmmscand_cache_until, until);
	}
	put_online_mems();
	mutex_unlock(&cache_mutex);
}

static ssize_t page_cache_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(cache_wanted));
}

static ssize_t page_cache_store(struct kobject *kobj, struct kobj_attribute *attr,
				const char *buf, size_t count)
{
	bool wanted = sysfs_streq(buf, "1");
	int err;

	/* kstrtobool() would take "yes", "offer" and more. */
	if (!wanted && !sysfs_streq(buf, "0"))
		return -EINVAL;

	if (mutex_lock_interruptible(&cache_mutex))
		return -ERESTARTSYS;
	WRITE_ONCE(cache_wanted, wanted);
	err = cache_update();
	mutex_unlock(&cache_mutex);
	return err ?: count;
}

struct kobj_attribute kmmscand_cache_attr = __ATTR_RW(page_cache);
