/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A page that two mms share after fork: the writer flushes its own mm only.
 *
 * Parent (mm 0) and child (mm 1) have a CPU each and map frame A (1) read-only; it moves
 * to B (2), deferred for both.  Each may write once: in place if it is the only one left
 * with the folio (wp_can_reuse_anon_folio()), else to a copy (frame 3 or 4).  The child
 * may unmap it; reclaim may unmap it from both, and a fault finds it in the swap cache.
 * Versions: 0 was there at fork, 1 is the parent's, 2 the child's.
 *
 * I1 after its own write an mm reads that version, and never the other's
 * I4 when a PTE becomes writable in place, no TLB of that mm maps another frame, and
 *    none of the other mm maps A or B
 *
 * Each of these switches must give a counterexample:
 *	MUT_NO_FLUSH	I1 I4	no forced flush before a write in place
 *	MUT_COPY	I1	a write to a copy does not flush (ptep_clear_flush())
 *	MUT_ZAP		I1	munmap() drops its reference before it has flushed
 *	MUT_BATCHED	I1	munmap()'s flush_tlb_batched_pending() leaves out migrc_flush_mm()
 *	MUT_RECLAIM	I1	it leaves out what reclaim has unmapped (mm->tlb_flush_batched)
 *	MUT_UNLOCKED	I1	reuse while migration still has the destination
 */
#include "common.pml"

#define NONE 0
#define MIGRATION 5
#define SWAP 6
#define PRESENT(m) (pte[m] && pte[m] < MIGRATION)
/* in the TLB of an mm: nothing but the folio that it is about to write; neither A nor B */
#define ONE_FRAME(m) (!tlb[m] || tlb[m] == folio)
#define NO_FRAME(m) (tlb[m] != 1 && tlb[m] != 2)
#define HAS(m) (pte[m] == folio || pte[m] == SWAP)

hidden byte R_STALE, R_REUSE, R_COPY, R_FORCED, R_SWAP_REUSE, R_BOTH, R_ENTRY, R_MARK;

byte pte[2] = 1;
bool pte_w[2], ptl[2], wrote[2];
bool mark[2], batched[2];		/* the mm's slot; mm->tlb_flush_batched, of reclaim */
byte tlb[2] = 1;
byte data[5];
byte folio = 1, extra;			/* of the shared folio: references but for the PTEs */
bool isolated;

/* A CPU's loads; the writes of its own mm are made by another thread. */
active [2] proctype reader()
{
end:
	do
	:: atomic { tlb[_pid] == 0 && PRESENT(_pid) -> tlb[_pid] = pte[_pid] }
	:: atomic { tlb[_pid] ->
		CHECK(I1, data[tlb[_pid]] == (wrote[_pid] -> 1 + _pid : 0));
		REACHED(R_STALE, tlb[_pid] == 1 && folio == 2)
	}
	od
}

/* For a write in place */
inline migrc_flush_mm(m)
{
	if
	:: mark[m] ->
		WITHOUT(MUT_NO_FLUSH, tlb[m] = 0);
		atomic { mark[m] = false; REACHED(R_FORCED, HAS(1 - m) == false) }
	:: else
	fi
}

/* do_wp_page() */
inline do_wp_page(m)
{
	if
	:: atomic { extra == 0 && !HAS(1 - m) -> REACHED(R_REUSE, folio == 2) };
		/* wp_page_reuse() */
		migrc_flush_mm(m);
		atomic { CHECK(I4, ONE_FRAME(m) && NO_FRAME(1 - m)); pte_w[m] = true }
	:: else ->
		/* wp_page_copy() */
		extra++;
		data[3 + m] = data[pte[m]];
		pte[m] = NONE;		/* ptep_clear_flush() */
		WITHOUT(MUT_COPY, tlb[m] = 0);
		atomic { pte[m] = 3 + m; pte_w[m] = true; REACHED(R_COPY, folio == 2) };
		extra--
	fi
}

/* A thread of mm m that writes once */
proctype writer(bit m)
{
	do
	:: pte[m] == SWAP ->
		/* do_swap_page() */
		lock(ptl[m]);
		if
		:: pte[m] == SWAP ->
			if
			:: extra == 0 && !HAS(1 - m) ->
				migrc_flush_mm(m);
				atomic {
					CHECK(I4, ONE_FRAME(m) && NO_FRAME(1 - m));
					pte[m] = folio;
					pte_w[m] = true;
					REACHED(R_SWAP_REUSE, folio == 2)
				}
			:: else -> pte[m] = folio
			fi
		:: else
		fi;
		unlock(ptl[m])
	:: PRESENT(m) && !pte_w[m] ->
		lock(ptl[m]);
		WHEN(PRESENT(m) && !pte_w[m], do_wp_page(m));
		unlock(ptl[m])
	:: atomic { PRESENT(m) && pte_w[m] ->
		data[pte[m]] = 1 + m;
		/* seen by the readers of this mm from now on */
		wrote[m] = true;
		REACHED(R_BOTH, wrote[1 - m] && folio == 2)
	};
		break
	:: pte[m] == NONE && !ptl[m] -> break		/* munmap() was first */
	od
}

/* zap_pte_range() and tlb_finish_mmu() of the child */
active proctype munmap()
{
	bool present, held;

	lock(ptl[1]);
	/* flush_tlb_batched_pending(): migrc_flush_mm() */
#ifndef MUT_BATCHED
	if
	:: mark[1] ->
		atomic { REACHED(R_MARK, folio == 1 && pte[1] == MIGRATION && !batched[1]); tlb[1] = 0 };
		mark[1] = false
	:: else
	fi;
#endif
	/* and mm->tlb_flush_batched */
	WITHOUT(MUT_RECLAIM, WHEN(batched[1], tlb[1] = 0; batched[1] = false));
	atomic {
		present = PRESENT(1);
		held = pte[1] == folio;
		REACHED(R_ENTRY, pte[1] == MIGRATION && tlb[0] == 1);
		pte[1] = NONE;
		pte_w[1] = false;
		WITHOUT(MUT_ZAP, extra = extra + held)
	};
	unlock(ptl[1]);
	WHEN(present, tlb[1] = 0);
	/* folio_put() */
	WITHOUT(MUT_ZAP, extra = extra - held)
}

inline unmap(m, entry, defers)
{
	lock(ptl[m]);
	if
	:: pte[m] == folio && !pte_w[m] ->
		pte[m] = entry;
		if
		:: defers -> mark[m] = true
		:: else -> batched[m] = true
		fi
	:: else
	fi;
	unlock(ptl[m])
}

inline remap(m)
{
	lock(ptl[m]);
	WHEN(pte[m] == MIGRATION, pte[m] = folio);
	unlock(ptl[m])
}

/* migrate_pages_batch(); a folio that somebody writes to is left alone: eligible.pml */
active proctype migrate()
{
	atomic { !isolated && !extra && !pte_w[0] && !pte_w[1] -> isolated = true };
	atomic { extra++ };			/* locked, and so is B */
	unmap(0, MIGRATION, true);
	unmap(1, MIGRATION, true);
	if
	:: atomic { extra == 1 && pte[0] != folio && pte[1] != folio ->
		data[2] = data[1];
		folio = 2
	}
	:: true			/* migrate_folio_undo_src(): somebody has a reference */
	fi;
	WITH(MUT_UNLOCKED, extra--);
	remap(0);
	remap(1);
	WITHOUT(MUT_UNLOCKED, extra--);
	isolated = false
}

/* shrink_folio_list(); the swap entry counts as a user of the folio */
active proctype reclaim()
{
	atomic { !isolated -> isolated = true };
	unmap(0, SWAP, false);
	unmap(1, SWAP, false);
	tlb[0] = 0;				/* try_to_unmap_flush() */
	tlb[1] = 0;
	isolated = false
}

init
{
	atomic { run writer(0); run writer(1) }
}
