// SPDX-License-Identifier: GPL-2.0
/*
 * Frames of slow nodes that reclaim or DAMON demoted a folio to lately.
 *
 * A page that is promoted soon after it was demoted was moved twice for nothing.  The promoter
 * counts such pages by memory control group, and exchanges less for the groups that have many of
 * them.
 *
 * A bit stands for a frame.  A demotion sets the bit of the first frame of the folio, a promotion
 * clears the bit.  tier_demoted_age() clears one part of PARTS each second, so a bit lasts at most
 * PARTS seconds, or longer if the promoter is late.  If the frame is freed and used again before
 * that, the bit stands for the new page.
 *
 * Memory: 1/8 byte for each frame that a slow node spans, while a promoter is active.  Frames by
 * which the node grows later have no bit until promoters start again.
 *
 * A promotion counts when it is tried, and again if it is retried.
 *
 * Bits are set and cleared by atomic operations, and order nothing else.  RCU keeps the bitmaps.
 */

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/jiffies.h>
#include <linux/memcontrol.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mmzone.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/tier.h>

#include "demoted.h"
#include "events.h"

#define PARTS	64UL

struct demoted_node {
	unsigned long start_pfn;
	unsigned long nr_words;
	/* By the promoter of the node: */
	unsigned long next;		/* word */
	unsigned long aged;		/* in jiffies */
	/* Base pages by tier_group() */
	atomic_long_t promoted[TIER_GROUPS];
	atomic_long_t again[TIER_GROUPS];
	unsigned long bits[];
};

/* Slow nodes, while a promoter is active; written under the caller's lock */
static struct demoted_node __rcu *demoted_nodes[MAX_NUMNODES];

/* The node of a frame, and the bit of the frame, or NULL; under RCU */
static struct demoted_node *demoted_find(int nid, unsigned long pfn, unsigned long *bit)
{
	struct demoted_node *node = rcu_dereference(demoted_nodes[nid]);

	if (!node)
		return NULL;
	*bit = pfn - node->start_pfn;
	return *bit < node->nr_words * BITS_PER_LONG ? node : NULL;
}

/**
 * tier_group - number of the memory control group that a page is charged to
 * @page: any page; need not be kept
 *
 * Groups are told apart by TIER_GROUPS numbers; some share one.
 *
 * Context: any.
 * Return: number below TIER_GROUPS; 0 without a group.
 */
unsigned int tier_group(const struct page *page)
{
	unsigned int group = 0;
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg;

	rcu_read_lock();
	memcg = page_memcg_check((struct page *)page);
	if (memcg)
		group = (unsigned int)memcg->css.id % TIER_GROUPS;
	rcu_read_unlock();
#endif
	return group;
}

/**
 * tier_mm_group - number of the memory control group that an address space charges pages to
 * @mm: address space; need not be used by a task any more
 *
 * Context: process.
 * Return: as tier_group().
 */
unsigned int tier_mm_group(struct mm_struct *mm)
{
	unsigned int group = 0;
#ifdef CONFIG_MEMCG
	struct mem_cgroup *memcg = get_mem_cgroup_from_mm(mm);

	if (memcg)
		group = (unsigned int)memcg->css.id % TIER_GROUPS;
	mem_cgroup_put(memcg);
#endif
	return group;
}

/**
 * tier_demoted_promote - a folio is about to be promoted
 * @src: isolated, on a slow node
 *
 * Context: any.
 */
void tier_demoted_promote(struct folio *src)
{
	unsigned int group = tier_group(&src->page);
	unsigned long bit, nr = folio_nr_pages(src);
	struct demoted_node *node;
	bool again = false;

	rcu_read_lock();
	node = demoted_find(folio_nid(src), folio_pfn(src), &bit);
	if (node) {
		/* Few bits are set: look before writing. */
		again = test_bit(bit, node->bits) && test_and_clear_bit(bit, node->bits);
		atomic_long_add(nr, &node->promoted[group]);
		if (again)
			atomic_long_add(nr, &node->again[group]);
	}
	rcu_read_unlock();
	if (again)
		count_tier_events(TIER_PROMOTE_AGAIN, nr);
}

/* For tier_folio_demoted(), which has the comment. */
void __tier_folio_demoted(struct folio *dst)
{
	struct demoted_node *node;
	unsigned long bit;

	rcu_read_lock();
	node = demoted_find(folio_nid(dst), folio_pfn(dst), &bit);
	if (node)
		set_bit(bit, node->bits);
	rcu_read_unlock();
}

/**
 * tier_promoted_pages - what was promoted from a node
 * @nid:      slow node
 * @promoted: result, TIER_GROUPS counters of base pages by tier_group()
 * @again:    of these, base pages that had been demoted lately
 *
 * The counters grow while a promoter is active, and begin at 0 then.
 *
 * Context: any.
 */
void tier_promoted_pages(int nid, unsigned long *promoted, unsigned long *again)
{
	struct demoted_node *node;
	int i;

	rcu_read_lock();
	node = rcu_dereference(demoted_nodes[nid]);
	for (i = 0; i < TIER_GROUPS; i++) {
		promoted[i] = node ? atomic_long_read(&node->promoted[i]) : 0;
		again[i] = node ? atomic_long_read(&node->again[i]) : 0;
	}
	rcu_read_unlock();
}

/**
 * tier_demoted_age - forget what was demoted long ago
 * @nid: slow node
 *
 * Clears a part for each second since the last call, at most PARTS / 16.
 *
 * Context: the promoter of the node.
 */
void tier_demoted_age(int nid)
{
	struct demoted_node *node;
	unsigned long parts, words;

	rcu_read_lock();
	node = rcu_dereference(demoted_nodes[nid]);
	/* A late promoter catches up in several calls, so that none of them takes long. */
	parts = node ? min((jiffies - node->aged) / HZ, PARTS / 16) : 0;
	if (parts)
		node->aged += parts * HZ;
	for (; parts; parts--) {
		words = min(DIV_ROUND_UP(node->nr_words, PARTS), node->nr_words - node->next);
		memset(node->bits + node->next, 0, words * sizeof(long));
		node->next += words;
		if (node->next == node->nr_words)
			node->next = 0;
	}
	rcu_read_unlock();
}

static int demoted_add_node(int nid)
{
	unsigned long words = BITS_TO_LONGS(node_spanned_pages(nid));
	struct demoted_node *node;

	node = kvzalloc(struct_size(node, bits, words), GFP_KERNEL | __GFP_NOWARN);
	if (!node)
		return -ENOMEM;
	node->start_pfn = node_start_pfn(nid);
	node->nr_words = words;
	node->aged = jiffies;
	rcu_assign_pointer(demoted_nodes[nid], node);
	return 0;
}

/**
 * tier_demoted_disable - forget everything
 *
 * Context: may sleep; the caller serialises this with tier_demoted_enable().
 */
void tier_demoted_disable(void)
{
	struct demoted_node *node;
	int nid;

	for_each_node(nid) {
		/* The caller's lock keeps others from writing. */
		node = rcu_replace_pointer(demoted_nodes[nid], NULL, true);
		if (!node)
			continue;
		synchronize_rcu();
		kvfree(node);
	}
}

/**
 * tier_demoted_enable - begin to remember what is demoted
 *
 * Context: may sleep; the caller serialises this with tier_demoted_disable().
 * Return: 0 or -ENOMEM.
 */
int tier_demoted_enable(void)
{
	int nid, err;

	for_each_node_state(nid, N_MEMORY) {
		if (node_is_toptier(nid))
			continue;
		err = demoted_add_node(nid);
		if (err) {
			tier_demoted_disable();
			return err;
		}
	}
	return 0;
}
