/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM zap_batch

#if !defined(_TRACE_ZAP_BATCH_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_ZAP_BATCH_H

#include <linux/tracepoint.h>

/**
 * zap_batch_free - what was unmapped lost its last references
 * @entries: of struct mmu_gather
 * @freed: folios of order 0 that had no other reference
 * @charges: runs of these with one memory control group
 */
TRACE_EVENT(zap_batch_free,
	    TP_PROTO(unsigned int entries, unsigned int freed, unsigned int charges),
	    TP_ARGS(entries, freed, charges),
	    TP_STRUCT__entry(__field(unsigned int, entries)
			     __field(unsigned int, freed)
			     __field(unsigned int, charges)),
	    TP_fast_assign(__entry->entries = entries;
			   __entry->freed = freed;
			   __entry->charges = charges;),
	    TP_printk("entries=%u freed=%u charges=%u",
		      __entry->entries, __entry->freed, __entry->charges)
);

#endif /* _TRACE_ZAP_BATCH_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
