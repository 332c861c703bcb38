/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages that are promoted again soon after they have been demoted: see bounce.c.
 */
#ifndef _MM_TIER_BOUNCE_H
#define _MM_TIER_BOUNCE_H

#include <linux/types.h>

struct folio;

void tier_bounce_enable(void);
void tier_bounce_disable(void);
void tier_bounce_promote(struct folio *src, struct folio *dst);
void tier_bounce_forget(struct folio *dst);
void tier_bounce_promoted(unsigned long nr);

#endif /* _MM_TIER_BOUNCE_H */
