/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM migrc

#if !defined(_TRACE_MIGRC_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_MIGRC_H

#include <linux/migrc.h>
#include <linux/tracepoint.h>

TRACE_DEFINE_ENUM(MIGRC_DRAIN_CAP);
TRACE_DEFINE_ENUM(MIGRC_DRAIN_AGE);
TRACE_DEFINE_ENUM(MIGRC_DRAIN_PRESSURE);
TRACE_DEFINE_ENUM(MIGRC_DRAIN_ALLOC);
TRACE_DEFINE_ENUM(MIGRC_DRAIN_OOM);
TRACE_DEFINE_ENUM(MIGRC_DRAIN_ISOLATE);
TRACE_DEFINE_ENUM(MIGRC_DRAIN_FAILURE);
TRACE_DEFINE_ENUM(MIGRC_DRAIN_CONTIG);
TRACE_DEFINE_ENUM(MIGRC_DRAIN_FREEZE);
TRACE_DEFINE_ENUM(MIGRC_DRAIN_OFF);
TRACE_DEFINE_ENUM(MIGRC_DRAIN_MIXED);
TRACE_DEFINE_ENUM(MIGRC_DRAIN_ALONG);
TRACE_DEFINE_ENUM(MIGRC_DRAIN_DEBUG);
TRACE_DEFINE_ENUM(MIGRC_FORCE_WP);
TRACE_DEFINE_ENUM(MIGRC_FORCE_SWAP);
TRACE_DEFINE_ENUM(MIGRC_FORCE_GUP);
TRACE_DEFINE_ENUM(MIGRC_FORCE_NUMA);
TRACE_DEFINE_ENUM(MIGRC_FORCE_UNMAP);

/**
 * migrc_queue - a batch of migration has left sources behind
 * @nr:		pages of this batch
 * @pending:	pages that wait now, of all nodes
 */
TRACE_EVENT(migrc_queue,
	    TP_PROTO(unsigned int nr, unsigned int pending),
	    TP_ARGS(nr, pending),
	    TP_STRUCT__entry(__field(unsigned int, nr)
			     __field(unsigned int, pending)),
	    TP_fast_assign(__entry->nr = nr;
			   __entry->pending = pending;),
	    TP_printk("nr=%u pending=%u", __entry->nr, __entry->pending)
);

/**
 * migrc_drain - sources have been released after a flush
 * @reason:	enum migrc_reason
 * @nr:		pages
 */
TRACE_EVENT(migrc_drain,
	    TP_PROTO(int reason, unsigned int nr),
	    TP_ARGS(reason, nr),
	    TP_STRUCT__entry(__field(int, reason)
			     __field(unsigned int, nr)),
	    TP_fast_assign(__entry->reason = reason;
			   __entry->nr = nr;),
	    TP_printk("reason=%s nr=%u",
		      __print_symbolic(__entry->reason,
				       { MIGRC_DRAIN_CAP, "cap" },
				       { MIGRC_DRAIN_AGE, "age" },
				       { MIGRC_DRAIN_PRESSURE, "pressure" },
				       { MIGRC_DRAIN_ALLOC, "alloc" },
				       { MIGRC_DRAIN_OOM, "oom" },
				       { MIGRC_DRAIN_ISOLATE, "isolate" },
				       { MIGRC_DRAIN_FAILURE, "failure" },
				       { MIGRC_DRAIN_CONTIG, "contig" },
				       { MIGRC_DRAIN_FREEZE, "freeze" },
				       { MIGRC_DRAIN_OFF, "off" },
				       { MIGRC_DRAIN_MIXED, "mixed" },
				       { MIGRC_DRAIN_ALONG, "along" },
				       { MIGRC_DRAIN_DEBUG, "debug" }),
		      __entry->nr)
);

/**
 * migrc_force - an address space was flushed for a change that could not wait
 * @site:	enum migrc_site
 */
TRACE_EVENT(migrc_force,
	    TP_PROTO(int site),
	    TP_ARGS(site),
	    TP_STRUCT__entry(__field(int, site)),
	    TP_fast_assign(__entry->site = site;),
	    TP_printk("site=%s",
		      __print_symbolic(__entry->site,
				       { MIGRC_FORCE_WP, "wp" },
				       { MIGRC_FORCE_SWAP, "swap" },
				       { MIGRC_FORCE_GUP, "gup" },
				       { MIGRC_FORCE_NUMA, "numa" },
				       { MIGRC_FORCE_UNMAP, "unmap" }))
);

#endif /* _TRACE_MIGRC_H */

#include <trace/define_trace.h>
