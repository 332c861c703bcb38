/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM tier
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE tier_age

#if !defined(_TRACE_TIER_AGE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_TIER_AGE_H

#include <linux/tracepoint.h>

/**
 * tier_age - secondary MMUs were asked about pages of a page table
 * @start: first address that the page table maps
 * @pages: that were asked about
 * @young: of these, pages that a secondary MMU has accessed
 */
TRACE_EVENT(tier_age,
	    TP_PROTO(unsigned long start, unsigned int pages, unsigned int young),
	    TP_ARGS(start, pages, young),
	    TP_STRUCT__entry(__field(unsigned long, start)
			     __field(unsigned int, pages)
			     __field(unsigned int, young)),
	    TP_fast_assign(__entry->start = start;
			   __entry->pages = pages;
			   __entry->young = young;),
	    TP_printk("start=0x%lx pages=%u young=%u", __entry->start, __entry->pages,
		      __entry->young)
);

#endif /* _TRACE_TIER_AGE_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
