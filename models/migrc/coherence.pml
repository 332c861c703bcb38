/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Coherence: one exclusive anonymous page, its writer on CPU 0, a reader on CPU 1.
 *
 * The page moves A -> B -> C (frames 1, 2, 3) with its flush deferred whenever its PTE
 * is read-only.  Nothing is ever drained here, so a stale entry lives until the mm is
 * flushed.  The writer stores version v and then sets a flag; it writes by a store (write
 * fault, wp_page_reuse()), by a store to a page that reclaim has just unmapped
 * (do_swap_page()), or by FOLL_FORCE through a read-only PTE.  A page that is swapped out is
 * mapped writable only if nothing is pending.
 *
 * I1 who saw the flag reads no older version, even two moves behind
 * I3 when the copy starts, no TLB holds the source writable
 * I4 when a PTE becomes writable, or FOLL_FORCE writes, no TLB maps another frame
 * I6 at that time no mark is pending: its flush has completed
 * I8 who writes does so by a writable entry, or has passed the hook of FOLL_FORCE
 *
 * Each of these switches must give a counterexample:
 *	MUT_NO_WP	I1 I4 I6	wp_page_reuse() does not flush
 *	MUT_NO_SWAP	I1 I4 I6	do_swap_page() maps the page writable whatever is pending
 *	MUT_NO_GUP	I1 I4 I6	the FOLL_FORCE path of follow_page_pte() does not flush
 *	MUT_LATE	I1 I4 I6	wp_page_reuse() flushes after the PTE is writable
 *	MUT_CHAIN	I1 I4	a page that has been moved before is not marked again
 *	MUT_WRITABLE	I3	a writable PTE is deferred (more of this: eligible.pml)
 *	MUT_FILE	I1 I8	a page of a file is deferred: write(2) needs no PTE, and flushes nothing
 */
#include "common.pml"

#define WRITES 2
#define LAST 3		/* the last frame */
#define MIGRATION 4	/* pte: a migration entry */
#define SWAP 5		/* pte: a swap entry; the folio is in the swap cache */
#define PRESENT (pte <= LAST)

hidden byte R_DEFERRED, R_CHAIN, R_FORCED_WP, R_SWAP_READ, R_FORCED_GUP, R_REF, R_LATEST;

byte pte = 1, folio = 1;	/* folio: the newest frame, whatever the PTE is */
bool pte_w, ptl, mark, isolated, ref, storing;
byte tlb[2];
bool tlb_w[2];
byte data[4], flag;

#define ONE_FRAME(f) ((tlb[0] == 0 || tlb[0] == f) && (tlb[1] == 0 || tlb[1] == f))

/* The hardware's page walk. */
inline fill(cpu)
{
	tlb[cpu] = pte;
	tlb_w[cpu] = pte_w
}

/* flush_tlb_mm(), arch_tlbbatch_flush(): returns when both CPUs have flushed. */
inline flush()
{
	d_step { tlb[0] = 0; tlb_w[0] = false };
	d_step { tlb[1] = 0; tlb_w[1] = false }
}

/* Under the page-table lock. */
inline migrc_flush_mm(reached)
{
	WHEN(mark, flush(); atomic { mark = false; REACHED(reached, true) })
}

inline wp_page_reuse()
{
	lock(ptl);
	if
	:: PRESENT && !pte_w ->
		WITHOUT(MUT_NO_WP, WITHOUT(MUT_LATE, migrc_flush_mm(R_FORCED_WP)));
		atomic {
			CHECK(I6, !mark);
			CHECK(I4, ONE_FRAME(pte));
			pte_w = true		/* ptep_set_access_flags() */
		};
		WITH(MUT_LATE, migrc_flush_mm(R_FORCED_WP))
	:: else
	fi;
	unlock(ptl)
}

/* The folio is still in the swap cache, and exclusive: __migrc_swap_writable(). */
inline do_swap_page()
{
	lock(ptl);
	if
	:: pte == SWAP ->
		writable = EITHER(MUT_NO_SWAP, true, !mark);
		atomic {
			CHECK(I6, !writable || !mark);
			CHECK(I4, !writable || ONE_FRAME(folio));
			REACHED(R_SWAP_READ, !writable && tlb[1] && tlb[1] != folio);
			pte = folio;
			pte_w = writable;
			writable = false
		}
	:: else
	fi;
	unlock(ptl)
}

/* I8: by an entry that may write, or with the reference of FOLL_FORCE */
inline store(frame)
{
	CHECK(I8, tlb_w[0] || ref);
	data[frame] = v
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
			:: atomic { tlb_w[0] -> store(tlb[0]); storing = false; break }
			:: atomic { !tlb_w[0] && PRESENT && pte_w -> fill(0) }
			od
		:: true ->	/* FOLL_FORCE: follow_page_pte(), can_follow_write_pte() */
			do
			:: PRESENT && !pte_w ->
				lock(ptl);
				if
				:: PRESENT && !pte_w ->
					WITHOUT(MUT_NO_GUP, migrc_flush_mm(R_FORCED_GUP));
					atomic {
						CHECK(I6, !mark);
						CHECK(I4, ONE_FRAME(pte));
						ref = true
					};
					unlock(ptl);
					atomic { store(folio); ref = false };
					break
				:: else -> unlock(ptl)
				fi
			:: PRESENT && pte_w -> v--; break
			od
		/* __migrc_may_defer(): with the folio locked */
		WITH(MUT_FILE, :: atomic { !isolated -> store(folio) })
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
	bool writable;

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
	:: atomic { tlb[1] == 0 && PRESENT -> fill(1) }
	:: atomic { tlb[1] ->
		CHECK(I1, data[tlb[1]] >= seen);
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
			deferred = EITHER(MUT_WRITABLE, true, !w);
			/* __migrc_defer_pte() */
			WHEN(deferred, mark = EITHER(MUT_CHAIN, mark || src == 1, true));
			unlock(ptl);
			WHEN(!deferred, flush());	/* try_to_unmap_flush() */
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
				atomic { pte = folio; pte_w = w }
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
	WHEN(PRESENT, atomic { pte = SWAP; pte_w = false });	/* try_to_unmap_one() */
	unlock(ptl);
	flush();			/* try_to_unmap_flush() */
	isolated = false
}
