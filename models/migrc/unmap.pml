/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Changes of a PTE that find the mark by flush_tlb_batched_pending(), and hint faults that do not.
 *
 * One page of one mm, and a CPU that reads and writes it.  The page moves A -> B -> C (frames
 * 1, 2, 3), deferred if that may be.  munmap() (or mremap(), madvise()),
 * mprotect() and NUMA balancing's scanner look for the mark when they have the page-table lock;
 * what they find in the PTE may be the migration entry.  The scanner makes the PTE inaccessible
 * (PROT_NONE) and flushes when it is through; a hint fault makes it accessible again, and
 * writable, without a look at the mark.  A drain may be first; other faults of the mm: marks.pml.
 * What reclaim has unmapped, and mm->tlb_flush_batched, is the base kernel's: not here.
 *
 * I3 when the copy starts, no TLB holds the source writable
 * I4 when a PTE becomes writable, no TLB has an older translation
 * I5 when munmap(), mremap() or madvise() return, no TLB has any translation of the page
 *
 * Each of these switches must give a counterexample:
 *	MUT_BATCHED	I4 I5	flush_tlb_batched_pending() does not call migrc_flush_mm()
 *	MUT_SCANNER	I4	NUMA balancing's scanner does not call it
 *	MUT_SCANNER_LATE	I4	it does when it has released the lock, before its own flush
 *	MUT_MARK_LATE	I5	the mark is set after the page-table lock is released
 *	MUT_RAISE_LATE	I3	the scanner raises tlb_flush_pending after the first PTE
 *	MUT_LOWER_EARLY	I3	it lowers tlb_flush_pending before it has flushed
 *	MUT_NO_RANGE	I3 I4	it does not flush what it has changed
 *	MUT_PENDING	I3	a PTE is deferred while tlb_flush_pending is raised
 */
#include "common.pml"

#define NONE 0
#define C 3
#define MIGRATION 4
#define MAPPED (pte && pte <= C)

hidden byte R_ENTRY, R_STALE, R_DRAINED, R_CHANGED, R_HINT_READ, R_HINT_WRITE;
hidden byte R_OWED, R_CHAIN, R_SCANNED, R_SKIPPED;

byte pte = 1;
bool pte_w, none, entry_w;	/* none: PROT_NONE; entry_w: is_writable_migration_entry() */
byte tlb, pending;		/* pending: mm->tlb_flush_pending */
bool tlb_w;
bool ptl;
byte mark_seq, mark_flushed, migrc_done;	/* the mm has its mark all the time: marks.pml */

/* The hardware's page walk; of several CPUs the one with the oldest entry counts. */
active proctype cpu()
{
end:
	do
	:: atomic { MAPPED && !none && (!tlb || (tlb == pte && pte_w && !tlb_w)) ->
		tlb = pte;
		tlb_w = pte_w
	}
	od
}

inline flush()
{
	d_step { tlb = 0; tlb_w = false }
}

#define PENDING (mark_seq > mark_flushed && mark_seq > migrc_done)

inline migrc_flush_mm()
{
	if
	:: atomic { PENDING -> seq = mark_seq };
		flush();		/* flush_tlb_mm_range() */
		atomic { mark_flushed = seq; seq = 0 }
	:: atomic { !PENDING -> REACHED(R_DRAINED, mark_seq > mark_flushed) }
	fi
}

/* migrate_pages_batch() of the page; its source is freed later: lifetime.pml */
active proctype migrate()
{
	byte n, src;
	bool owed;

	do
	:: n < 2 ->
		n++;
		atomic { !ptl ->
			src = 0;
			owed = false;
			if
			:: MAPPED ->
				src = pte;
				entry_w = pte_w;
				pte = MIGRATION;	/* ptep_get_and_clear() */
				pte_w = false;
				/* __migrc_defer_pte(): pte_accessible() */
				owed = (!none || pending);
				REACHED(R_OWED, none && owed && tlb_w);
				REACHED(R_SKIPPED, none && !owed);
				none = false;
				if
				:: owed && !entry_w WITHOUT(MUT_PENDING, && !pending) ->
					owed = false;
					WITHOUT(MUT_MARK_LATE, mark_seq++)
				:: else
				fi
			:: else
			fi
		};
		WITH(MUT_MARK_LATE, mark_seq++);
		WHEN(owed, flush());	/* try_to_unmap_flush() */
		atomic { !ptl ->
			CHECK(I3, !src || !(tlb_w && tlb == src));
			/* remove_migration_ptes(); if it was unmapped meanwhile: nothing */
			if
			:: pte == MIGRATION ->
				CHECK(I4, !entry_w || !tlb || tlb == src + 1);
				pte = src + 1;
				pte_w = entry_w;
				REACHED(R_CHAIN, pte == 3 && tlb == 1)
			:: else
			fi
		}
	:: else -> break
	od
}

active proctype drain()
{
	byte seq;

	seq = mark_seq;
	flush();
	migrc_done = seq
}

inline lock_and_flush()
{
	lock(ptl);
	/* flush_tlb_batched_pending() */
	atomic { REACHED(R_STALE, tlb && MAPPED && tlb != pte) };
	WITHOUT(MUT_BATCHED, migrc_flush_mm())
}

/* zap_pte_range(), move_ptes() for the old address */
proctype unmap()
{
	byte seq;
	bool present;

	lock_and_flush();
	atomic {
		present = MAPPED;
		REACHED(R_ENTRY, pte == MIGRATION);
		pte = NONE;
		pte_w = false;
		none = false;
		unlock(ptl)
	};
	WHEN(present, flush());	/* tlb_finish_mmu() */
	atomic { CHECK(I5, !tlb) }
}

/* change_pte_range() that makes the page writable at once */
proctype mprotect()
{
	byte seq;

	lock_and_flush();
	atomic {
		if
		:: MAPPED && !none ->
			CHECK(I4, !tlb || tlb == pte);
			pte_w = true;
			REACHED(R_CHANGED, pte == 2)
		:: else
		fi;
		unlock(ptl)
	}
}

/* change_prot_numa(), and the hint faults */
proctype scanner()
{
	byte seq, n;
	bool changed;

	do
	:: n < 2 ->
		n++;
		WITHOUT(MUT_RAISE_LATE, pending++);		/* tlb_gather_mmu() */
		EITHER(MUT_SCANNER, lock(ptl),
		       EITHER(MUT_SCANNER_LATE, lock(ptl), lock_and_flush()));
		/* change_pte_range() */
		atomic {
			changed = (MAPPED && !none);
			REACHED(R_SCANNED, changed && tlb_w);
			none = (none || changed);
			pte_w = (pte_w && !changed);
			entry_w = false;
			unlock(ptl)
		};
		WITH(MUT_SCANNER_LATE, migrc_flush_mm());
		WITH(MUT_RAISE_LATE, pending++);
		WITH(MUT_LOWER_EARLY, pending--);
		/* tlb_finish_mmu() */
		WITHOUT(MUT_NO_RANGE, WHEN(changed, flush()));
		WITHOUT(MUT_LOWER_EARLY, pending--)
	:: else -> break
	od
}

/* do_numa_page() that does not migrate the page: no hook */
proctype hint_fault()
{
end:
	do
	:: atomic { MAPPED && none && !ptl ->
		if
		:: true ->
			CHECK(I4, !tlb || tlb == pte);
			pte_w = true;
			REACHED(R_HINT_WRITE, pte == 2 && tlb_w)
		:: true -> REACHED(R_HINT_READ, tlb_w)
		fi;
		none = false
	}
	od
}

init
{
	atomic {
		if
		:: true -> run unmap()
		:: true -> run mprotect()
		:: true -> run scanner(); run hint_fault()
		fi
	}
}
