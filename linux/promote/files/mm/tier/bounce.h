/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages that are demoted soon after they have been promoted: see bounce.c.
 */
#ifndef _MM_TIER_BOUNCE_H
#define _MM_TIER_BOUNCE_H

#include <linux/types.h>

struct folio;

void tier_bounce_enable(void);
void tier_bounce_disable(void);
void tier_bounce_mark(struct folio *folio, bool mark);
void tier_bounce_promoted(unsigned long nr);

#endif /* _MM_TIER_BOUNCE_H */
