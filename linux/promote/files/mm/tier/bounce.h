/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pages that are promoted again soon after they have been demoted: see bounce.c.
 */
#ifndef _MM_TIER_BOUNCE_H
#define _MM_TIER_BOUNCE_H

#include <linux/types.h>

struct folio;

#define TIER_BOUNCE_MIN_MSECS	10000
#define TIER_BOUNCE_MAX_MSECS	60000

/**
 * enum tier_bounce_due - is a window over?
 * @TIER_BOUNCE_GO_ON:	no
 * @TIER_BOUNCE_NEXT:	yes, what is in the one before it is forgotten
 * @TIER_BOUNCE_BOTH:	for so long that what is in it is forgotten, too
 */
enum tier_bounce_due {
	TIER_BOUNCE_GO_ON,
	TIER_BOUNCE_NEXT,
	TIER_BOUNCE_BOTH,
};

/**
 * tier_bounce_due - see enum tier_bounce_due
 * @bounce:	window for bounces, not for demotions
 * @age_ms:	since it began
 * @promoted:	base pages promoted since
 * @fast_pages: base pages in the fast tier
 *
 * Return: what is to be done.
 */
static inline enum tier_bounce_due tier_bounce_due(bool bounce, unsigned int age_ms,
						   unsigned long promoted,
						   unsigned long fast_pages)
{
	if (age_ms < TIER_BOUNCE_MIN_MSECS)
		return TIER_BOUNCE_GO_ON;
	if (bounce && age_ms < TIER_BOUNCE_MAX_MSECS && promoted < fast_pages / 4)
		return TIER_BOUNCE_GO_ON;
	/* Nobody has asked for long. */
	if (age_ms > 2 * (bounce ? TIER_BOUNCE_MAX_MSECS : TIER_BOUNCE_MIN_MSECS))
		return TIER_BOUNCE_BOTH;
	return TIER_BOUNCE_NEXT;
}

int tier_bounce_enable(void);
void tier_bounce_disable(void);
void tier_bounce_promote(struct folio *src, struct folio *dst);
void tier_bounce_forget(struct folio *dst);
void tier_bounce_promoted(unsigned long nr);

#endif /* _MM_TIER_BOUNCE_H */
