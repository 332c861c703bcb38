/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kvm_age

#if !defined(_TRACE_KVM_AGE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_KVM_AGE_H

#include <linux/tracepoint.h>

/**
 * kvm_age_range - KVM was asked about pages of a page table of the host
 * @start: address of the page table
 * @pages: asked about
 * @young: that the guest had accessed, and that nobody had found before
 * @locked: mmu_lock was needed
 */
TRACE_EVENT(kvm_age_range,
	    TP_PROTO(unsigned long start, unsigned int pages, unsigned int young, bool locked),
	    TP_ARGS(start, pages, young, locked),
	    TP_STRUCT__entry(__field(unsigned long, start)
			     __field(unsigned int, pages)
			     __field(unsigned int, young)
			     __field(bool, locked)),
	    TP_fast_assign(__entry->start = start;
			   __entry->pages = pages;
			   __entry->young = young;
			   __entry->locked = locked;),
	    TP_printk("hva=%#lx pages=%u young=%u mmu_lock=%d",
		      __entry->start, __entry->pages, __entry->young, __entry->locked)
);

#endif /* _TRACE_KVM_AGE_H */

/* This part must be outside protection */
#include <trace/define_trace.h>
