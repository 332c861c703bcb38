/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM tier

#if !defined(_TRACE_TIER_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_TIER_H

#include <linux/tracepoint.h>

/**
 * tier_promote_batch - one list handed to migrate_pages()
 * @nid: target node
 * @order: order of every folio on the list
 * @tried: base pages on the list
 * @moved: base pages that are on the target node now
 * @busy: base pages that could not be moved this time
 * @nomem: base pages for which the target node had no memory of that order
 *
 * What did not get onto a list is in /proc/vmstat only.
 */
TRACE_EVENT(tier_promote_batch,
	    TP_PROTO(int nid, unsigned int order, unsigned long tried,
		     unsigned long moved, unsigned long busy, unsigned long nomem),
	    TP_ARGS(nid, order, tried, moved, busy, nomem),
	    TP_STRUCT__entry(__field(int, nid)
			     __field(unsigned int, order)
			     __field(unsigned long, tried)
			     __field(unsigned long, moved)
			     __field(unsigned long, busy)
			     __field(unsigned long, nomem)),
	    TP_fast_assign(__entry->nid = nid;
			   __entry->order = order;
			   __entry->tried = tried;
			   __entry->moved = moved;
			   __entry->busy = busy;
			   __entry->nomem = nomem;),
	    TP_printk("nid=%d order=%u tried=%lu moved=%lu busy=%lu nomem=%lu",
		      __entry->nid, __entry->order, __entry->tried,
		      __entry->moved, __entry->busy, __entry->nomem)
);

TRACE_DEFINE_ENUM(TIER_PROMOTE_SKIPPED);
TRACE_DEFINE_ENUM(TIER_PROMOTE_FAIL_ISOLATE);
TRACE_DEFINE_ENUM(TIER_PROMOTE_FAIL_POLICY);
TRACE_DEFINE_ENUM(TIER_PROMOTE_FAIL_NOMEM);
TRACE_DEFINE_ENUM(TIER_PROMOTE_FAIL_WATERMARK);

/**
 * tier_promote_skip - a folio was not put on a list, or not moved
 * @pfn: of the folio
 * @nid: target node
 * @reason: changed: it is not to be promoted any more; isolate: off the LRU; policy: a mapping, an
 *	    object or a cpuset does not allow the target; nomem: no free block of its order;
 *	    watermark: the target is full
 *
 * tier_promote_batch has folios that migrate_pages() found busy.
 */
TRACE_EVENT(tier_promote_skip,
	    TP_PROTO(unsigned long pfn, int nid, int reason),
	    TP_ARGS(pfn, nid, reason),
	    TP_STRUCT__entry(__field(unsigned long, pfn)
			     __field(int, nid)
			     __field(int, reason)),
	    TP_fast_assign(__entry->pfn = pfn;
			   __entry->nid = nid;
			   __entry->reason = reason;),
	    TP_printk("pfn=0x%lx nid=%d reason=%s", __entry->pfn, __entry->nid,
		      __print_symbolic(__entry->reason,
				       { TIER_PROMOTE_SKIPPED,		"changed" },
				       { TIER_PROMOTE_FAIL_ISOLATE,	"isolate" },
				       { TIER_PROMOTE_FAIL_POLICY,	"policy" },
				       { TIER_PROMOTE_FAIL_NOMEM,	"nomem" },
				       { TIER_PROMOTE_FAIL_WATERMARK,	"watermark" }))
);

#endif /* _TRACE_TIER_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
