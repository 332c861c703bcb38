/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM tier
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE tier_scan

#if !defined(_TRACE_TIER_SCAN_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_TIER_SCAN_H

#include <linux/tracepoint.h>

/**
 * tier_scan_pass - an address space was visited
 * @pid: of the process that owns the address space, or 0
 * @cgroup: id of its memory control group, or 0
 * @change: it was a look for change
 * @done: the visit has ended a turn over all page tables
 * @window_us: between looks
 * @regions: page tables, and huge mappings
 * @first: folios that the first look has found
 * @last: of these, folios that the last look has found
 * @pushed: candidates, in base pages
 * @cost: in ns
 * @turn: the next visit is due after 2^@turn periods
 */
TRACE_EVENT(tier_scan_pass,
	    TP_PROTO(pid_t pid, u64 cgroup, bool change, bool done, u32 window_us,
		     unsigned int regions, u32 first, u32 last, u32 pushed, u64 cost,
		     unsigned int turn),
	    TP_ARGS(pid, cgroup, change, done, window_us, regions, first, last, pushed, cost, turn),
	    TP_STRUCT__entry(__field(pid_t, pid)
			     __field(u64, cgroup)
			     __field(bool, change)
			     __field(bool, done)
			     __field(u32, window_us)
			     __field(unsigned int, regions)
			     __field(u32, first)
			     __field(u32, last)
			     __field(u32, pushed)
			     __field(u64, cost)
			     __field(unsigned int, turn)),
	    TP_fast_assign(__entry->pid = pid;
			   __entry->cgroup = cgroup;
			   __entry->change = change;
			   __entry->done = done;
			   __entry->window_us = window_us;
			   __entry->regions = regions;
			   __entry->first = first;
			   __entry->last = last;
			   __entry->pushed = pushed;
			   __entry->cost = cost;
			   __entry->turn = turn;),
	    TP_printk("pid=%d cgroup=%llu change=%d done=%d window_us=%u regions=%u first=%u last=%u pushed=%u cost=%llu turn=%u",
		      __entry->pid, __entry->cgroup, __entry->change,
		      __entry->done, __entry->window_us, __entry->regions,
		      __entry->first, __entry->last, __entry->pushed, __entry->cost,
		      __entry->turn)
);

/**
 * tier_promote_round - a period of a promoter has ended
 * @nid: slow node
 * @pushed: candidates, in base pages
 * @quota: base pages that could move
 * @moved: base pages that did
 * @room: base pages that are free on fast nodes
 * @victims: base pages that may make room
 * @window_us: between the looks of the next visits
 */
TRACE_EVENT(tier_promote_round,
	    TP_PROTO(int nid, u32 pushed, unsigned long quota, unsigned long moved,
		     unsigned long room, unsigned long victims, u32 window_us),
	    TP_ARGS(nid, pushed, quota, moved, room, victims, window_us),
	    TP_STRUCT__entry(__field(int, nid)
			     __field(u32, pushed)
			     __field(unsigned long, quota)
			     __field(unsigned long, moved)
			     __field(unsigned long, room)
			     __field(unsigned long, victims)
			     __field(u32, window_us)),
	    TP_fast_assign(__entry->nid = nid;
			   __entry->pushed = pushed;
			   __entry->quota = quota;
			   __entry->moved = moved;
			   __entry->room = room;
			   __entry->victims = victims;
			   __entry->window_us = window_us;),
	    TP_printk("nid=%d pushed=%u quota=%lu moved=%lu room=%lu victims=%lu window_us=%u",
		      __entry->nid, __entry->pushed, __entry->quota, __entry->moved,
		      __entry->room, __entry->victims, __entry->window_us)
);

#endif /* _TRACE_TIER_SCAN_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
