/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kmmscand

#if !defined(_TRACE_KMMSCAND_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_KMMSCAND_H

#include <linux/tracepoint.h>

/**
 * kmmscand_pass - an address space was scanned
 * @epoch: in which it began
 * @epochs: that it took
 * @ptes: present page-table entries looked at
 * @skipped: page tables that the processor had not walked
 * @young: entries of slow pages that had been accessed
 * @hot: of these, folios that reached the threshold
 * @shift: the next pass begins 2^@shift epochs after this one, or is over a part of it
 * @stale: the bits were of unknown age, and only cleared, unless @close
 * @close: it asked what is accessed within a short window
 */
TRACE_EVENT(kmmscand_pass,
	    TP_PROTO(unsigned int epoch, unsigned int epochs, unsigned long ptes,
		     unsigned long skipped, unsigned long young, unsigned long hot,
		     unsigned int shift, bool stale, bool close),
	    TP_ARGS(epoch, epochs, ptes, skipped, young, hot, shift, stale, close),
	    TP_STRUCT__entry(__field(unsigned int, epoch)
			     __field(unsigned int, epochs)
			     __field(unsigned long, ptes)
			     __field(unsigned long, skipped)
			     __field(unsigned long, young)
			     __field(unsigned long, hot)
			     __field(unsigned int, shift)
			     __field(bool, stale)
			     __field(bool, close)),
	    TP_fast_assign(__entry->epoch = epoch;
			   __entry->epochs = epochs;
			   __entry->ptes = ptes;
			   __entry->skipped = skipped;
			   __entry->young = young;
			   __entry->hot = hot;
			   __entry->shift = shift;
			   __entry->stale = stale;
			   __entry->close = close;),
	    TP_printk("epoch=%u epochs=%u ptes=%lu skipped=%lu young=%lu hot=%lu shift=%u stale=%d close=%d",
		      __entry->epoch, __entry->epochs, __entry->ptes, __entry->skipped,
		      __entry->young, __entry->hot, __entry->shift, __entry->stale,
		      __entry->close)
);

/**
 * kpromoted_epoch - a promoter has chosen a threshold and promoted
 * @nid: slow node
 * @target: fast node
 * @threshold: score that was needed
 * @hot: base pages that reached it
 * @budget: base pages that could be afforded
 * @moved: base pages that were promoted
 * @victims: base pages that may make room
 * @window_ms: in which the pages of the next epoch have to be accessed
 */
TRACE_EVENT(kpromoted_epoch,
	    TP_PROTO(int nid, int target, unsigned int threshold, unsigned long hot,
		     unsigned long budget, unsigned long moved, unsigned long victims,
		     unsigned int window_ms),
	    TP_ARGS(nid, target, threshold, hot, budget, moved, victims, window_ms),
	    TP_STRUCT__entry(__field(int, nid)
			     __field(int, target)
			     __field(unsigned int, threshold)
			     __field(unsigned long, hot)
			     __field(unsigned long, budget)
			     __field(unsigned long, moved)
			     __field(unsigned long, victims)
			     __field(unsigned int, window_ms)),
	    TP_fast_assign(__entry->nid = nid;
			   __entry->target = target;
			   __entry->threshold = threshold;
			   __entry->hot = hot;
			   __entry->budget = budget;
			   __entry->moved = moved;
			   __entry->victims = victims;
			   __entry->window_ms = window_ms;),
	    TP_printk("nid=%d target=%d threshold=%u hot=%lu budget=%lu moved=%lu victims=%lu window_ms=%u",
		      __entry->nid, __entry->target, __entry->threshold, __entry->hot,
		      __entry->budget, __entry->moved, __entry->victims, __entry->window_ms)
);

/**
 * kmmscand_target_vote - threads of a process have voted for another node than before
 * @pid: process
 * @nid: fast node, or -1 if the vote is split
 * @threads: that have voted
 */
TRACE_EVENT(kmmscand_target_vote,
	    TP_PROTO(pid_t pid, int nid, unsigned int threads),
	    TP_ARGS(pid, nid, threads),
	    TP_STRUCT__entry(__field(pid_t, pid)
			     __field(int, nid)
			     __field(unsigned int, threads)),
	    TP_fast_assign(__entry->pid = pid;
			   __entry->nid = nid;
			   __entry->threads = threads;),
	    TP_printk("pid=%d nid=%d threads=%u",
		      __entry->pid, __entry->nid, __entry->threads)
);

#endif /* _TRACE_KMMSCAND_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
