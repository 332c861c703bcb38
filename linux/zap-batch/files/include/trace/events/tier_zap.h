/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM tier
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE tier_zap

#if !defined(_TRACE_TIER_ZAP_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_TIER_ZAP_H

#include <linux/tracepoint.h>

/**
 * tier_zap_run - what was unmapped lost its last references
 * @entries: of struct mmu_gather
 * @freed: folios of order 0 that had no other reference
 * @runs: of these that have one memory control group
 */
TRACE_EVENT(tier_zap_run,
	    TP_PROTO(unsigned int entries, unsigned int freed, unsigned int runs),
	    TP_ARGS(entries, freed, runs),
	    TP_STRUCT__entry(__field(unsigned int, entries)
			     __field(unsigned int, freed)
			     __field(unsigned int, runs)),
	    TP_fast_assign(__entry->entries = entries;
			   __entry->freed = freed;
			   __entry->runs = runs;),
	    TP_printk("entries=%u freed=%u runs=%u",
		      __entry->entries, __entry->freed, __entry->runs)
);

#endif /* _TRACE_TIER_ZAP_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
