/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kmmscand

#if !defined(_TRACE_KMMSCAND_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_KMMSCAND_H

#include <linux/tracepoint.h>

/**
 * kmmscand_round - all address spaces were scanned once
 * @round: number of the round, modulo 256
 * @mms: address spaces looked at
 * @ptes: present page-table entries looked at
 * @young: entries of slow-tier pages that had been accessed
 * @candidates: base pages that reached the threshold
 * @promoted: base pages that were moved
 * @threshold: score that was needed
 * @full: a target node was short of memory
 * @msecs: duration
 */
TRACE_EVENT(kmmscand_round,
	    TP_PROTO(unsigned int round, unsigned long mms, unsigned long ptes,
		     unsigned long young, unsigned long candidates,
		     unsigned long promoted, unsigned int threshold, bool full,
		     unsigned int msecs),
	    TP_ARGS(round, mms, ptes, young, candidates, promoted, threshold, full,
		    msecs),
	    TP_STRUCT__entry(__field(unsigned int, round)
			     __field(unsigned long, mms)
			     __field(unsigned long, ptes)
			     __field(unsigned long, young)
			     __field(unsigned long, candidates)
			     __field(unsigned long, promoted)
			     __field(unsigned int, threshold)
			     __field(bool, full)
			     __field(unsigned int, msecs)),
	    TP_fast_assign(__entry->round = round;
			   __entry->mms = mms;
			   __entry->ptes = ptes;
			   __entry->young = young;
			   __entry->candidates = candidates;
			   __entry->promoted = promoted;
			   __entry->threshold = threshold;
			   __entry->full = full;
			   __entry->msecs = msecs;),
	    TP_printk("round=%u mms=%lu ptes=%lu young=%lu candidates=%lu promoted=%lu threshold=%u full=%d msecs=%u",
		      __entry->round, __entry->mms, __entry->ptes, __entry->young,
		      __entry->candidates, __entry->promoted, __entry->threshold,
		      __entry->full, __entry->msecs)
);

#endif /* _TRACE_KMMSCAND_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
