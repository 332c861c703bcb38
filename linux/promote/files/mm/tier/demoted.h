/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Frames of slow nodes that were demoted to lately: see demoted.c.
 */
#ifndef _MM_TIER_DEMOTED_H
#define _MM_TIER_DEMOTED_H

struct folio;

int tier_demoted_enable(void);
void tier_demoted_disable(void);
void tier_demoted_promote(struct folio *src);

#endif /* _MM_TIER_DEMOTED_H */
