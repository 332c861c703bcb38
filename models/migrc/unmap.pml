/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Changes of a PTE that find the flush of a deferral through mm->tlb_flush_batched.
 *
 * One mm with two pages under two page-table locks; a CPU that reads both.  Each page is
 * migrated once, deferred, and then unmapped, moved away or made writable by a system
 * call: zap_pte_range(), move_ptes(), change_pte_range() (and madvise alike) begin with
 * flush_tlb_batched_pending() and do not know of marks.  What they find in the PTE may be
 * the migration entry: then they themselves do not flush anything.
 *
 * I4 when mprotect() makes a PTE writable, no TLB has an old translation
 * I5 when munmap(), mremap() or madvise() return, no TLB has any translation of the page
 *
 * Each of these switches must give a counterexample:
 *	MUT_UNCOUNTED	I4 I5	a deferral does not count mm->tlb_flush_batched up
 *	MUT_COUNT_FIRST	I4 I5	it is counted up before the PTE is cleared
 *	MUT_COUNT_LATE	I5	it is counted up after the page-table lock is released
 *	MUT_NO_CHECK	I4 I5	the system calls do not look
 *	MUT_LOST_COUNT	I4 I5	what is counted during such a flush is taken for flushed
 */
#include "common.pml"

#define NONE 0
#define A 1
#define B 2
#define MIGRATION 3

hidden byte R_ENTRY, R_STALE, R_CONCURRENT, R_CHANGED;

byte pte[2] = A;
byte tlb[2];
bool ptl[2], writable;
byte batched, batched_flushed;		/* the two halves of mm->tlb_flush_batched */

active proctype reader()
{
end:
	do
	:: atomic { tlb[0] == 0 && (pte[0] == A || pte[0] == B) -> tlb[0] = pte[0] }
	:: atomic { tlb[1] == 0 && (pte[1] == A || pte[1] == B) -> tlb[1] = pte[1] }
	od
}

inline flush_tlb_mm()
{
	d_step { tlb[0] = 0; tlb[1] = 0 }
}

proctype migrate(byte page)
{
	lock(ptl[page]);
	if
	:: pte[page] == A ->
#ifdef MUT_COUNT_FIRST
		batched++;
#endif
		pte[page] = MIGRATION;		/* ptep_get_and_clear() */
		/* migrc_defer_pte(): count_tlb_flush_batched() */
#if !defined(MUT_COUNT_FIRST) && !defined(MUT_COUNT_LATE) && !defined(MUT_UNCOUNTED)
		batched++;
#endif
		unlock(ptl[page]);
#ifdef MUT_COUNT_LATE
		batched++;
#endif
		/* remove_migration_ptes() */
		lock(ptl[page]);
		if
		:: pte[page] == MIGRATION -> pte[page] = B
		:: else			/* unmapped meanwhile */
		fi
	:: else
	fi;
	unlock(ptl[page])
}

/* under the page-table lock */
inline flush_tlb_batched_pending()
{
#ifndef MUT_NO_CHECK
	seen = batched;
	if
	:: seen != batched_flushed ->
		flush_tlb_mm();		/* arch_flush_tlb_batched_pending() */
		atomic {
			REACHED(R_CONCURRENT, seen != batched);
			if
#ifdef MUT_LOST_COUNT
			:: true -> batched_flushed = batched
#else
			:: batched == seen -> batched_flushed = seen	/* atomic_cmpxchg() */
#endif
			:: else
			fi
		}
	:: else
	fi;
	seen = 0
#else
	skip
#endif
}

/* zap_pte_range(), move_ptes() for the old address */
proctype unmap(byte page)
{
	byte seen;
	bool present;

	lock(ptl[page]);
	atomic { REACHED(R_STALE, pte[page] == B && tlb[page] == A) };
	flush_tlb_batched_pending();
	atomic {
		present = (pte[page] == A || pte[page] == B);
		REACHED(R_ENTRY, pte[page] == MIGRATION);
		pte[page] = NONE
	};
	if
	:: present -> flush_tlb_mm()	/* tlb_flush_mmu() */
	:: else
	fi;
	atomic {
		CHECK(I5, !tlb[page]);
		unlock(ptl[page])
	}
}

/* change_pte_range() that makes the page writable at once */
proctype mprotect(byte page)
{
	byte seen;

	lock(ptl[page]);
	flush_tlb_batched_pending();
	if
	:: pte[page] == A || pte[page] == B ->
		atomic {
			CHECK(I4, !tlb[page] || tlb[page] == pte[page]);
			writable = true;
			REACHED(R_CHANGED, pte[page] == B)
		}
	:: else
	fi;
	unlock(ptl[page])
}

init
{
	atomic {
		run migrate(0);
		run migrate(1);
		run unmap(0);
		if
		:: true -> run unmap(1)
		:: true -> run mprotect(1)
		fi
	}
}
