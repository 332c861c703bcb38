/* SPDX-License-Identifier: GPL-2.0 */
/*
 * To which fast node should a page go?  See target.c.
 */
#ifndef _MM_TIER_TARGET_H
#define _MM_TIER_TARGET_H

#include <linux/jump_label.h>
#include <linux/nodemask.h>
#include <linux/types.h>

struct kmmscand_mm;
struct kmmscand_nodes;
struct kmmscand_pass;
struct task_struct;

/*
 * What is known of a slow page frame, beside its record in the hotness table, in one
 * byte; 0 if nothing is:
 *
 *   bits 0-4  slot: a fast node by its place among them, from 1 on, or one of the two below
 *   bit  5    the page may go there only, or stay
 *   bits 6-7  doubt: users disagree; so many touches must agree until it is believed again
 */
#define TARGET_SLOT		0x1f
#define TARGET_STRICT		0x20
#define TARGET_DOUBT		0xc0
#define TARGET_ONE_DOUBT	0x40
#define TARGET_AIM		(TARGET_SLOT | TARGET_STRICT)

/* No fast node is better than the others. */
#define TARGET_ANY		0x1f
/* It is being found out; the page can wait for some touches. */
#define TARGET_WAIT		0x1e
/* More fast nodes than these have no slot; they get what finds no room elsewhere. */
#define TARGET_SLOTS		0x1d

/* For target_merge(): there is only one user, who cannot disagree with others. */
#define TARGET_SOLE		0xff

/* A vote is clear if so many percent agree. */
#define TARGET_CLEAR_PCT	60

/**
 * target_merge - a page was touched by somebody who wants it somewhere
 * @old:   what is known of the page, 0 if that is of a former owner
 * @aim:   slot that the user wants, and whether the page may go elsewhere
 * @was:   @aim of the same user in its last pass, or TARGET_SOLE
 * @again: the page has been recorded in this look already
 *
 * Users are address spaces.  If they disagree, the page is in doubt until only one of
 * them is left; but one that has changed its mind agrees with itself.
 *
 * Return: what is to be known now.
 */
static inline u8 target_merge(u8 old, u8 aim, u8 was, bool again)
{
	if (aim == TARGET_WAIT && (old & TARGET_SLOT) != TARGET_WAIT) {
		/* What is known of the page itself is better. */
		if (old && old != TARGET_ANY)
			return old;
		return TARGET_WAIT | TARGET_DOUBT;
	}
	if (!old || ((old & TARGET_SLOT) == TARGET_WAIT && aim != TARGET_WAIT))
		return aim;
	if ((old & TARGET_AIM) == aim)
		return !again && old >= TARGET_ONE_DOUBT ? old - TARGET_ONE_DOUBT : old;
	if (was == TARGET_SOLE)
		return aim;
	/* Who is bound decides for who is not. */
	if (old & ~aim & TARGET_STRICT)
		return old;
	if (aim & ~old & TARGET_STRICT)
		return aim;
	if ((old & TARGET_AIM) == was)
		return aim | (old & TARGET_DOUBT);
	return aim | TARGET_DOUBT;
}

/* Is it too early to move the page, or do users forbid it to each other? */
static inline bool target_stays(u8 known)
{
	return known >= TARGET_ONE_DOUBT &&
	       ((known & TARGET_STRICT) || (known & TARGET_SLOT) == TARGET_WAIT);
}

/* The slot that the page should go to, or TARGET_ANY. */
static inline unsigned int target_wanted(u8 known)
{
	unsigned int slot = known & TARGET_SLOT;

	if (!slot || slot > TARGET_SLOTS || known >= TARGET_ONE_DOUBT)
		return TARGET_ANY;
	return slot;
}

/**
 * target_winner - has a vote a clear winner?
 * @votes: by slot
 * @least: votes that are needed in total
 *
 * Return: its slot, or TARGET_ANY.
 */
static inline unsigned int target_winner(const u32 votes[TARGET_SLOTS + 1], u64 least)
{
	unsigned int slot, best = 1;
	u64 sum = 0;

	for (slot = 1; slot <= TARGET_SLOTS; slot++) {
		sum += votes[slot];
		if (votes[slot] > votes[best])
			best = slot;
	}
	if (!sum || sum < least || (u64)votes[best] * 100 < sum * TARGET_CLEAR_PCT)
		return TARGET_ANY;
	return best;
}

/* Where an address space has settled, and where it seems to have gone */
struct target_place {
	u8 home;			/* slot, 0 at first */
	u8 next;			/* slot, 0 if it is at home or undecided */
};

/**
 * target_settle - has an address space moved?
 * @place: where it was
 * @slot:  result of its vote
 *
 * Return: true if two votes in a row say that it has.
 */
static inline bool target_settle(struct target_place *place, unsigned int slot)
{
	unsigned int next = place->next;

	place->next = 0;
	if (slot > TARGET_SLOTS || slot == place->home)
		return false;
	if (!place->home) {
		place->home = slot;
		return false;
	}
	if (slot != next) {
		place->next = slot;
		return false;
	}
	place->home = slot;
	return true;
}

/* More than one fast node, while kmmscand runs */
DECLARE_STATIC_KEY_FALSE(target_key);

static inline bool target_matters(void)
{
	return static_branch_unlikely(&target_key);
}

/* What is used of the list above, see target_mode in sysfs */
enum target_mode {
	TARGET_MODE_AUTO,
	TARGET_MODE_VOTE,
	TARGET_MODE_NEAREST,
};

extern unsigned int target_mode;

void target_start(const struct kmmscand_nodes *nodes);
void target_stop(void);
int target_node(unsigned int slot);
unsigned int target_slot(int nid);
u8 target_aim(unsigned int vote, const nodemask_t *allowed);
void target_vote(struct kmmscand_mm *state, struct task_struct *task);
bool target_has_left(struct kmmscand_mm *state, struct task_struct *task);
unsigned int target_window_ms(void);
void target_pass_done(struct kmmscand_mm *state);
void target_free(struct kmmscand_mm *state);

#endif /* _MM_TIER_TARGET_H */
