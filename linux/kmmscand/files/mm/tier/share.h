/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Arithmetic of sharing by weight, which depends on nothing else, so that it can be
 * tested alone (kmmscand_kunit.c); what is shared is told in share.c.
 */
#ifndef _MM_TIER_SHARE_H
#define _MM_TIER_SHARE_H

#include <linux/list.h>
#include <linux/math.h>
#include <linux/types.h>

/**
 * struct share_claim - one of those who share something
 * @node:    in the list of them
 * @weight:  1 or more
 * @demand:  at most so much
 * @granted: result
 */
struct share_claim {
	struct list_head node;
	unsigned int weight;
	unsigned long demand;
	unsigned long granted;
};

/**
 * share_split - divide something by weight among those who want it
 * @claims: list of struct share_claim
 * @total:  what there is
 *
 * Nobody gets more than its demand; what one does not want goes to the others, by weight.
 * Rounds down: of what is wanted up to one unit per claim may be left over.
 *
 * Return: what was granted.
 */
static inline unsigned long share_split(struct list_head *claims, unsigned long total)
{
	unsigned long left = total, given, share, weights;
	struct share_claim *claim;

	list_for_each_entry(claim, claims, node)
		claim->granted = 0;
	do {
		weights = 0;
		list_for_each_entry(claim, claims, node)
			if (claim->granted < claim->demand)
				weights += claim->weight;
		/* First who wants no more than its share; that leaves more for the others. */
		given = 0;
		list_for_each_entry(claim, claims, node) {
			if (claim->granted == claim->demand)
				continue;
			if (claim->demand <= mult_frac(left, claim->weight, weights)) {
				claim->granted = claim->demand;
				given += claim->granted;
			}
		}
		left -= given;
	} while (given);

	share = left;
	list_for_each_entry(claim, claims, node) {
		if (claim->granted == claim->demand)
			continue;
		claim->granted = mult_frac(share, claim->weight, weights);
		left -= claim->granted;
	}
	return total - left;
}

/**
 * share_cut - leave out the coldest pages of those that are too many
 * @pages: number of pages by score
 * @nr:    number of scores
 * @most:  pages that may stay
 *
 * Return: pages left out.
 */
static inline unsigned long share_cut(unsigned long *pages, unsigned int nr, unsigned long most)
{
	unsigned long cut = 0;

	while (nr--) {
		if (pages[nr] > most) {
			cut += pages[nr] - most;
			pages[nr] = most;
		}
		most -= pages[nr];
	}
	return cut;
}

#endif /* _MM_TIER_SHARE_H */
