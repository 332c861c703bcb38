/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Changes of a PTE that find the mark by flush_tlb_batched_pending().
 *
 * One mm with two pages under two page-table locks; a CPU that reads both.  Each page is
 * migrated once, deferred, and then unmapped, moved away or made writable by a system
 * call: zap_pte_range(), move_ptes(), change_pte_range() (and madvise alike) begin with
 * flush_tlb_batched_pending(), which calls migrc_flush_mm().  What they find in the PTE may
 * be the migration entry: then they themselves do not flush anything.  A drain may be first.
 * What reclaim has unmapped, and mm->tlb_flush_batched, is the base kernel's: not here.
 *
 * I4 when mprotect() makes a PTE writable, no TLB has an old translation
 * I5 when munmap(), mremap() or madvise() return, no TLB has any translation of the page
 *
 * Each of these switches must give a counterexample:
 *	MUT_BATCHED	I4 I5	flush_tlb_batched_pending() does not call migrc_flush_mm()
 *	MUT_UNLOCKED	I4 I5	it does before the page-table lock is taken
 *	MUT_MARK_FIRST	I4 I5	the mark is set before the PTE is cleared
 *	MUT_MARK_LATE	I5	the mark is set after the page-table lock is released
 *	MUT_LOST_MARK	I4 I5	what is deferred during such a flush is taken for flushed
 */
#include "common.pml"

#define NONE 0
#define A 1
#define B 2
#define MIGRATION 3

hidden byte R_ENTRY, R_STALE, R_CONCURRENT, R_NEWER, R_DRAINED, R_CHANGED;

byte pte[2] = A;
byte tlb[2];
bool ptl[2], writable;
byte mark_seq, mark_flushed;		/* of the mm all the time: marks.pml */
byte migrc_done;

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
#ifdef MUT_MARK_FIRST
		mark_seq++;
#endif
		pte[page] = MIGRATION;		/* ptep_get_and_clear() */
		/* migrc_defer_pte(): migrc_set_mark() */
#if !defined(MUT_MARK_FIRST) && !defined(MUT_MARK_LATE)
		mark_seq++;
#endif
		unlock(ptl[page]);
#ifdef MUT_MARK_LATE
		mark_seq++;
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

/* migrc_flush_all(); whom it flushes and what it frees: lifetime.pml, tlbgen.pml */
active proctype drain()
{
	byte seq;

	seq = mark_seq;
	flush_tlb_mm();
	migrc_done = seq
}

inline migrc_flush_mm()
{
	seq = mark_seq;
	if
	:: seq > mark_flushed && seq > migrc_done ->
		flush_tlb_mm();
		atomic {
			REACHED(R_NEWER, seq != mark_seq);
			if
#ifdef MUT_LOST_MARK
			:: true -> mark_flushed = mark_seq
#else
			:: mark_flushed < seq -> mark_flushed = seq
#endif
			:: else -> REACHED(R_CONCURRENT, true)
			fi
		}
	:: else -> REACHED(R_DRAINED, seq > mark_flushed)
	fi;
	seq = 0
}

inline lock_and_flush(page)
{
#ifdef MUT_UNLOCKED
	migrc_flush_mm();
#endif
	lock(ptl[page]);
	/* flush_tlb_batched_pending() */
	atomic { REACHED(R_STALE, pte[page] == B && tlb[page] == A) };
#if !defined(MUT_BATCHED) && !defined(MUT_UNLOCKED)
	migrc_flush_mm()
#else
	skip
#endif
}

/* zap_pte_range(), move_ptes() for the old address */
proctype unmap(byte page)
{
	byte seq;
	bool present;

	lock_and_flush(page);
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
	byte seq;

	lock_and_flush(page);
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
