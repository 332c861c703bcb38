/* SPDX-License-Identifier: GPL-2.0 */
/*
 * May a folio be promoted?  For mm/internal.h, which must not define a type that exported symbols
 * lead to: the checksums that modules ask for would change.
 */
#ifndef _LINUX_TIER_QUESTION_H
#define _LINUX_TIER_QUESTION_H

#include <linux/types.h>

struct tier_flight;

/* What is known of a policy or a cpuset, as far as the target node of a promotion goes */
enum tier_answer {
	TIER_NO_POLICY,
	TIER_ALLOWS,
	TIER_REFUSES,
	TIER_NOT_KNOWN,
};

/**
 * struct tier_question - may the folio that is being unmapped be promoted?
 * @flight: the promotion; NULL for every other migration
 * @asked:  what the object of the folio and its mappings have answered so far; TIER_NOT_KNOWN
 *          if none of them has
 * @object: of that, the answer of the object (page cache, shmem)
 * @sole:   the folio seems to be mapped once
 */
struct tier_question {
	struct tier_flight *flight;
	enum tier_answer asked;
	enum tier_answer object;
	bool sole;
};

#endif /* _LINUX_TIER_QUESTION_H */
