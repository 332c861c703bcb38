/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Coherence: one exclusive anonymous page, its writer on CPU 0, a reader on CPU 1.
 *
 * The page moves A -> B -> C (frames 1, 2, 3) with its flush deferred whenever its PTE
 * is read-only.  Nothing is ever drained here, so a stale entry lives until somebody
 * flushes the mm.  The writer stores version v and then sets a flag; it writes by a
 * store (write fault, wp_page_reuse()), by a store to a page that reclaim has just
 * unmapped (do_swap_page()), or by FOLL_FORCE through a read-only PTE.
 *
 * I1  who saw the flag reads no older version
 * I3  when the copy starts, no TLB holds the source writable
 * I4  when a PTE becomes writable, or FOLL_FORCE writes, no TLB maps another frame
 * I6  at that time no forced flush is outstanding
 * I10 I1 for a reader that is two moves behind
 *
 * Each of these switches must give a counterexample:
 *	MUT_NO_WP	I1 I4 I6	wp_page_reuse() does not flush
 *	MUT_NO_SWAP	I1 I4 I6	do_swap_page() does not flush
 *	MUT_NO_GUP	I1 I4 I6	the FOLL_FORCE path of follow_page_pte() does not flush
 *	MUT_LATE	I1 I4 I6	wp_page_reuse() flushes after the PTE is writable
 *	MUT_UNLOCKED	I1 I4 I6	wp_page_reuse() flushes before it takes the page-table lock
 *	MUT_STARTED	I1 I4 I6	the forced flush does not wait for the other CPU
 *	MUT_CHAIN	I1 I4	a page that has been moved before is not marked again
 *	MUT_WRITABLE	I3	a writable PTE is deferred (more of this: eligible.pml)
 *	MUT_RESTORE	I3	what moved is made read-only after it was mapped writable
 *	MUT_FILE	I1	a page of a file is deferred: write(2) needs no PTE, and flushes nothing
 *	MUT_NO_HOOK	I10	none of the three sites flushes: also a chain is read
 */
#include "common.pml"
#ifdef MUT_NO_HOOK
#define MUT_NO_WP
#define MUT_NO_SWAP
#define MUT_NO_GUP
#endif

#define WRITES 2
#define LAST 3		/* the last frame */
#define MIGRATION 4	/* pte: a migration entry */
#define SWAP 5		/* pte: a swap entry; the folio is in the swap cache */
#define PRESENT (pte <= LAST)

hidden byte R_DEFERRED, R_CHAIN, R_FORCED_WP, R_FORCED_SWAP, R_FORCED_GUP, R_REF, R_LATEST;

byte pte = 1, folio = 1;	/* folio: the newest frame, whatever the PTE is */
bool pte_w, ptl, mark, isolated, ref, storing;
byte tlb[2];
bool tlb_w[2];
byte data[4], flag;
bool ipi;		/* only with MUT_STARTED */

#define COMPLETED (!mark && !ipi)
#define ONE_FRAME(f) ((tlb[0] == 0 || tlb[0] == f) && (tlb[1] == 0 || tlb[1] == f))

/* The hardware's page walk. */
inline fill(cpu)
{
	tlb[cpu] = pte;
	tlb_w[cpu] = pte_w
}

inline invalidate(cpu)
{
	d_step { tlb[cpu] = 0; tlb_w[cpu] = false }
}

/* flush_tlb_mm(), arch_tlbbatch_flush(): returns when both CPUs have flushed. */
inline flush()
{
	invalidate(0);
	invalidate(1)
}

/* Under the page-table lock. */
inline migrc_flush_mm(reached)
{
	if
	:: mark ->
#ifdef MUT_STARTED
		invalidate(0);
		ipi = true;
#else
		flush();
#endif
		atomic { mark = false; REACHED(reached, true) }
	:: else
	fi
}

#ifdef MUT_STARTED
active proctype other_cpu()
{
end:
	do
	:: atomic { ipi -> ipi = false; tlb[1] = 0; tlb_w[1] = false }
	od
}
#endif

inline wp_page_reuse()
{
#ifdef MUT_UNLOCKED
	migrc_flush_mm(R_FORCED_WP);
#endif
	lock(ptl);
	if
	:: PRESENT && !pte_w ->
#if !defined(MUT_NO_WP) && !defined(MUT_LATE) && !defined(MUT_UNLOCKED)
		migrc_flush_mm(R_FORCED_WP);
#endif
		atomic {
			CHECK(I6, COMPLETED);
			CHECK(I4, ONE_FRAME(pte));
			pte_w = true		/* ptep_set_access_flags() */
		};
#ifdef MUT_LATE
		migrc_flush_mm(R_FORCED_WP);
#endif
	:: else
	fi;
	unlock(ptl)
}

/* The folio is still in the swap cache.  Exclusive: mapped writable, or not (VM_WRITE). */
inline do_swap_page()
{
	lock(ptl);
	if
	:: pte == SWAP ->
		if
		:: true ->
#ifndef MUT_NO_SWAP
			migrc_flush_mm(R_FORCED_SWAP);
#endif
			atomic {
				CHECK(I6, COMPLETED);
				CHECK(I4, ONE_FRAME(folio));
				pte = folio;
				pte_w = true
			}
		:: true -> atomic { pte = folio; pte_w = false }
		fi
	:: else
	fi;
	unlock(ptl)
}

active proctype writer()
{
	byte v;

	do
	:: v < WRITES ->
		v++;
		if
		:: true ->	/* a store by user code on CPU 0 */
			storing = true;
			do
			:: atomic { tlb_w[0] -> data[tlb[0]] = v; storing = false; break }
			:: atomic { !tlb_w[0] && PRESENT && pte_w -> fill(0) }
			od
		:: true ->	/* FOLL_FORCE: follow_page_pte(), can_follow_write_pte() */
			do
			:: PRESENT && !pte_w ->
				lock(ptl);
				if
				:: PRESENT && !pte_w ->
#ifndef MUT_NO_GUP
					migrc_flush_mm(R_FORCED_GUP);
#endif
					atomic {
						CHECK(I6, COMPLETED);
						CHECK(I4, ONE_FRAME(pte));
						ref = true
					};
					unlock(ptl);
					atomic { data[folio] = v; ref = false };
					break
				:: else -> unlock(ptl)
				fi
			:: PRESENT && pte_w -> v--; break
			od
#ifdef MUT_FILE
		:: atomic { !isolated -> data[folio] = v }	/* with the folio locked */
#endif
		fi;
		atomic { flag = v; REACHED(R_LATEST, v == WRITES) };
		if
		:: true
		:: true ->	/* fork and exit, mprotect(): read-only again, really flushed */
			lock(ptl);
			pte_w = false;
			flush();
			unlock(ptl)
		fi
	:: else -> break
	od
}

/* The faults of the writer, or of other threads of the mm. */
active proctype fault()
{
end:
	do
	:: storing && !tlb_w[0] && PRESENT && !pte_w -> wp_page_reuse()
	:: pte == SWAP -> do_swap_page()
	od
}

active proctype reader()
{
	byte seen;

end:
	do
	:: seen != flag -> seen = flag
	:: atomic {
		tlb[1] == 0 && PRESENT -> fill(1)
	}
	:: atomic {
		tlb[1] ->
		if
		:: tlb[1] + 2 <= folio -> CHECK(I10, data[tlb[1]] >= seen)
		:: else -> CHECK(I1, data[tlb[1]] >= seen)
		fi;
		REACHED(R_CHAIN, tlb[1] + 2 <= folio)
	}
	od
}

/* migrate_pages_batch() of the one page, twice */
active proctype migrate()
{
	byte n, src;
	bool w, deferred;

	do
	:: n < 2 ->
		n++;
		atomic { !isolated -> isolated = true };	/* folio_isolate_lru() */
		/* try_to_migrate_one() */
		lock(ptl);
		if
		:: PRESENT ->
			atomic { src = pte; w = pte_w; pte = MIGRATION; pte_w = false };
#ifdef MUT_WRITABLE
			deferred = true;
#else
			deferred = !w;
#endif
			if
			:: deferred ->
				/* migrc_defer_pte() */
#ifdef MUT_CHAIN
				if
				:: src == 1 -> mark = true
				:: else
				fi
#else
				mark = true
#endif
			:: else
			fi;
			unlock(ptl);
			if
			:: deferred
			:: else -> flush()		/* try_to_unmap_flush() */
			fi;
			if
			:: ref || src == LAST ->	/* migrate_folio_undo_src() */
				atomic { REACHED(R_REF, ref && deferred); pte = src; pte_w = w }
			:: else ->
				atomic {
					CHECK(I3, !(tlb_w[0] && tlb[0] == src) && !(tlb_w[1] && tlb[1] == src));
					data[src + 1] = data[src];	/* folio_copy() */
					folio = src + 1;
					REACHED(R_DEFERRED, deferred && tlb[1] == src)
				};
				/* remove_migration_ptes() */
				if
				:: atomic { pte = folio; pte_w = w }
#ifdef MUT_RESTORE
				:: w -> atomic { pte = folio; pte_w = true };
					pte_w = false
#else
				:: w -> pte = folio	/* migrc_restore_pte(): read-only */
#endif
				fi
			fi
		:: else -> unlock(ptl)
		fi;
		isolated = false
	:: else -> break
	od
}

/* shrink_folio_list(): unmaps, flushes its batch later, and puts the folio back. */
active proctype reclaim()
{
	atomic { !isolated -> isolated = true };
	lock(ptl);
	if
	:: PRESENT -> atomic { pte = SWAP; pte_w = false }	/* try_to_unmap_one() */
	:: else
	fi;
	unlock(ptl);
	flush();			/* try_to_unmap_flush() */
	isolated = false
}
