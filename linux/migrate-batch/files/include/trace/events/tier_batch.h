/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM tier
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE tier_batch

#if !defined(_TRACE_TIER_BATCH_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_TIER_BATCH_H

#include <linux/tracepoint.h>

/**
 * tier_batch - one flush has served a batch, which is about to be copied
 * @folios: that are unmapped
 * @pages: base pages of these
 * @reason: of the migration, see enum migrate_reason
 */
TRACE_EVENT(tier_batch,
	    TP_PROTO(unsigned int folios, unsigned long pages, int reason),
	    TP_ARGS(folios, pages, reason),
	    TP_STRUCT__entry(__field(unsigned int, folios)
			     __field(unsigned long, pages)
			     __field(int, reason)),
	    TP_fast_assign(__entry->folios = folios;
			   __entry->pages = pages;
			   __entry->reason = reason;),
	    TP_printk("folios=%u pages=%lu reason=%d", __entry->folios, __entry->pages,
		      __entry->reason)
);

#endif /* _TRACE_TIER_BATCH_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
