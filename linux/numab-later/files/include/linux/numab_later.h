/* SPDX-License-Identifier: GPL-2.0 */
/* Promotions of NUMA balancing that would flush in a hint fault.  See mm/numab_later.c. */
#ifndef _LINUX_NUMAB_LATER_H
#define _LINUX_NUMAB_LATER_H

#include <linux/jump_label.h>
#include <linux/mm_types.h>

struct folio;

#ifdef CONFIG_NUMAB_LATER
DECLARE_STATIC_KEY_FALSE(numab_later_key);

bool __numab_later(struct mm_struct *mm, struct folio *folio);

/* Leave the promotion of @folio to a later hint fault?  Under the page-table lock. */
static inline bool numab_later(struct mm_struct *mm, struct folio *folio)
{
	return static_branch_unlikely(&numab_later_key) && __numab_later(mm, folio);
}
#else
static inline bool numab_later(struct mm_struct *mm, struct folio *folio)
{
	return false;
}
#endif

#endif /* _LINUX_NUMAB_LATER_H */
