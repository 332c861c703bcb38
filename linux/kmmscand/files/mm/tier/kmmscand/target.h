/* SPDX-License-Identifier: GPL-2.0 */
/*
 * To which fast node should a page go?  See target.c.
 */
#ifndef _MM_TIER_KMMSCAND_TARGET_H
#define _MM_TIER_KMMSCAND_TARGET_H

#include <linux/jump_label.h>
#include <linux/nodemask.h>
#include <linux/types.h>

struct kmmscand_mm;
struct kmmscand_nodes;
struct task_struct;

/*
 * What is known of a slow page frame, beside its record in the hotness table, in one
 * byte; 0 if nothing is:
 *
 *   bits 0-4  slot: a fast node by its place among them, from 1 on, or TARGET_ANY
 *   bit  5    the page may go there only, or stay
 */
#define TARGET_SLOT		0x1f
#define TARGET_STRICT		0x20

/* No fast node is better than the others. */
#define TARGET_ANY		0x1f
/* Of an address space, never of a page: its threads have not voted yet. */
#define TARGET_WAIT		0x1e
/* More fast nodes than these have no slot; they get what finds no room elsewhere. */
#define TARGET_SLOTS		0x1d

/* A vote is clear if so many percent agree. */
#define TARGET_CLEAR_PCT	60

/**
 * target_merge - a page was touched by somebody who wants it somewhere
 * @old:    what is known of the page, 0 if that is of a former owner
 * @aim:    slot that the user wants, and whether the page may go elsewhere
 * @shared: there may be other users
 *
 * Users are address spaces, and tasks that read page cache.  Once they have disagreed no node is
 * better than the others, until the page has no history any more.  The page is bound to a node
 * only as long as each of them says so.
 *
 * Return: what is to be known now.
 */
static inline u8 target_merge(u8 old, u8 aim, bool shared)
{
	if (!old || !shared)
		return aim;
	return (old ^ aim) & TARGET_SLOT ? TARGET_ANY : old & aim;
}

/**
 * target_winner - has a vote a clear winner?
 * @votes: by slot
 *
 * Return: its slot, or TARGET_ANY.
 */
static inline unsigned int target_winner(const u32 votes[TARGET_SLOTS + 1])
{
	unsigned int slot, best = 1;
	u64 sum = 0;

	for (slot = 1; slot <= TARGET_SLOTS; slot++) {
		sum += votes[slot];
		if (votes[slot] > votes[best])
			best = slot;
	}
	if (!sum || (u64)votes[best] * 100 < sum * TARGET_CLEAR_PCT)
		return TARGET_ANY;
	return best;
}

/* More than one fast node, while kmmscand runs */
DECLARE_STATIC_KEY_FALSE(target_key);

static inline bool target_matters(void)
{
	return static_branch_unlikely(&target_key);
}

void target_start(const struct kmmscand_nodes *nodes);
void target_stop(void);
int target_node(unsigned int slot);
unsigned int target_slot(int nid);
u8 target_aim(unsigned int vote, const nodemask_t *allowed);
void target_vote(struct kmmscand_mm *state, struct task_struct *task);
void target_free(struct kmmscand_mm *state);

#endif /* _MM_TIER_KMMSCAND_TARGET_H */
