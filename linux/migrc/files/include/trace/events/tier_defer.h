/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM tier
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE tier_defer

#if !defined(_TRACE_TIER_DEFER_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_TIER_DEFER_H

#include <linux/tracepoint.h>

/**
 * tier_defer - sources of a demoted list are kept until their TLB flush
 * @pages: base pages of the list
 * @pending: base pages that are kept now
 */
TRACE_EVENT(tier_defer,
	    TP_PROTO(unsigned long pages, unsigned long pending),
	    TP_ARGS(pages, pending),
	    TP_STRUCT__entry(__field(unsigned long, pages)
			     __field(unsigned long, pending)),
	    TP_fast_assign(__entry->pages = pages;
			   __entry->pending = pending;),
	    TP_printk("pages=%lu pending=%lu", __entry->pages, __entry->pending)
);

#endif /* _TRACE_TIER_DEFER_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
