/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NUMA balancing: the scanner leaves it to the hint fault to flush what is deferred.
 *
 * One exclusive anonymous page of one mm; user code writes it on CPU 0 and reads it on
 * CPU 1, through whatever their TLBs hold; each store is the next version.  It moves
 * A -> B -> C (frames 1, 2, 3), deferred if its PTE is read-only.  The scanner makes the
 * PTE PROT_NONE without a look at the mark, and flushes the address when it is through;
 * a hint fault makes it accessible again, read-only or writable; a migration may be first.
 * Another thread of the mm has a fault of another page under another page-table lock, and
 * clears the mark that both share.  Drains free what was deferred.
 *
 * I1 a load reads what was stored last, and no store is lost
 * I2 when a frame is freed, no TLB maps it
 * I3 when the copy starts, no TLB holds the source writable
 * I4 when a PTE becomes writable, no TLB maps another frame
 *
 * Each of these switches must give a counterexample:
 *	MUT_HINT_WRITE	I1 I4	a hint fault that makes the PTE writable does not flush
 *	MUT_HINT_LATE	I1 I4	it flushes after the PTE is writable
 *	MUT_UNLOCKED	I1 I4	it flushes before it takes the page-table lock
 *	MUT_CLEAR_EARLY	I1 I4	the mark is cleared before the forced flush is completed
 *	MUT_LOWER_EARLY	I1 I2 I3 I4	the scanner lowers tlb_flush_pending before it has flushed
 *	MUT_RAISE_LATE	I1 I2 I3 I4	the scanner raises tlb_flush_pending after the first PTE
 *	MUT_NO_RANGE	I1 I2 I3 I4	the scanner does not flush
 *	MUT_NONE_SKIP	I1 I2 I3 I4	a PROT_NONE PTE is never flushed, pending or not
 *	MUT_NONE_DEFER	I1 I3	a PROT_NONE PTE is deferred while a flush is pending
 *	MUT_PENDING	I1 I3	so is one that a hint fault has made read-only meanwhile
 */
#include "common.pml"

#define STORES 1
#define MOVES 2
#define LAST 3			/* the last frame */
#define MIGRATION 4
#define MAPPED (pte <= LAST)
#define ACCESSIBLE (MAPPED && !none)
#define IN_TLB(f) (tlb[0] == f || tlb[1] == f)
#define ONE_FRAME(f) ((!tlb[0] || tlb[0] == f) && (!tlb[1] || tlb[1] == f))

hidden byte R_STALE, R_CHAIN, R_HINT_READ, R_HINT_WRITE, R_WP, R_OTHER, R_DRAINED, R_TWO;
hidden byte R_OWED, R_SKIPPED, R_RESTORED, R_LOWERED, R_UNDONE, R_FREED;

byte pte = 1, folio = 1;	/* folio: the newest frame, whatever the PTE is */
bool pte_w, none, ptl;		/* none: PROT_NONE */
bool entry_w;			/* is_writable_migration_entry() */
byte pending;			/* mm->tlb_flush_pending */
byte tlb[2];
bool tlb_w;			/* CPU 0: may it write? */
byte data[4], newest;
byte migrc_seq, migrc_done;
byte flushed;			/* of the mark, whose seq is migrc_seq: no other mm has it */
bool queued[4];

/* Returns when both CPUs have flushed: one step, of which the end is what counts. */
inline flush()
{
	d_step { tlb[0] = 0; tlb_w = false; tlb[1] = 0 }
}

/*
 * Taking a lock is one step with what comes next, releasing it one with what came before:
 * nobody could tell the difference.
 */

active proctype writer()
{
end:
	do
	:: atomic { ACCESSIBLE && (!tlb[0] || (!tlb_w && pte_w)) -> tlb[0] = pte; tlb_w = pte_w }
	:: atomic {
		tlb_w && newest < STORES ->
		newest++;
		data[tlb[0]] = newest;
		/* in the frame that counts, and so in the copy that may be made of it */
		CHECK(I1, tlb[0] == folio)
	}
	od
}

/* CPU 1 does not write: whether its entry is writable makes no difference. */
active proctype reader()
{
end:
	do
	:: atomic { ACCESSIBLE && !tlb[1] -> tlb[1] = pte }
	:: atomic {
		tlb[1] ->
		CHECK(I1, data[tlb[1]] == newest);
		REACHED(R_STALE, MAPPED && none && tlb[1] != pte);
		REACHED(R_CHAIN, pte == 3 && none && tlb[1] == 1)
	}
	od
}

#define PENDING (migrc_seq > flushed && migrc_seq > migrc_done)

/* With a page-table lock of the mm.  Field by field, with other mms: marks.pml */
inline migrc_flush_mm(reached)
{
	if
	:: atomic { PENDING -> seq = migrc_seq };
#ifdef MUT_CLEAR_EARLY
		flushed = seq;
#endif
		atomic {
			REACHED(reached, IN_TLB(1) && folio == 2);
			flush()			/* flush_tlb_mm() */
		};
		atomic {
			if
			:: flushed < seq -> flushed = seq
			:: else -> REACHED(R_TWO, true)
			fi;
			seq = 0
		}
	:: atomic { !PENDING -> REACHED(R_DRAINED, migrc_seq > flushed) }
	fi
}

inline make_writable()
{
	CHECK(I4, ONE_FRAME(pte));
	none = false;
	pte_w = true
}

/* do_numa_page() when none of them has migrated the page */
inline do_numa_page()
{
	if
	:: true ->		/* writable */
#if !defined(MUT_HINT_WRITE) && !defined(MUT_HINT_LATE) && !defined(MUT_UNLOCKED)
		migrc_flush_mm(R_HINT_WRITE);
#endif
		/* numa_rebuild_single_mapping() */
#ifdef MUT_HINT_LATE
		atomic { make_writable() };
		migrc_flush_mm(R_HINT_WRITE);
		ptl = false
#else
		atomic { make_writable(); ptl = false }
#endif
	:: true -> atomic { none = false; REACHED(R_HINT_READ, !ONE_FRAME(pte)); ptl = false }
	fi
}

/* The faults of this page */
active proctype fault()
{
	byte seq;

end:
	do
#ifdef MUT_UNLOCKED
	:: MAPPED && none ->
		migrc_flush_mm(R_HINT_WRITE);
		if
		:: atomic { MAPPED && none && !ptl -> ptl = true }; do_numa_page()
		:: !(MAPPED && none)
		fi
#else
	:: atomic { MAPPED && none && !ptl -> ptl = true }; do_numa_page()
#endif
	:: atomic { ACCESSIBLE && !pte_w && newest < STORES && !ptl -> ptl = true };
		/* wp_page_reuse() */
		migrc_flush_mm(R_WP);
		atomic { make_writable(); ptl = false }
	od
}

/* A write fault of another page, whose flush may have been deferred as well */
active proctype other()
{
	byte seq;

	migrc_flush_mm(R_OTHER)
}

/* change_prot_numa() */
active proctype scanner()
{
	bool changed;

end:
	do
	:: true ->
#ifndef MUT_RAISE_LATE
		pending++;		/* tlb_gather_mmu() */
#endif
		/* change_pte_range(): flush_tlb_reclaim_pending() knows nothing of deferrals */
		atomic { !ptl ->
			if
			:: ACCESSIBLE ->
				none = true;
				pte_w = false;
				changed = true
			:: MAPPED && none
			:: pte == MIGRATION -> entry_w = false
			fi
		};
#ifdef MUT_RAISE_LATE
		pending++;
#endif
#ifdef MUT_LOWER_EARLY
		pending--;
#endif
		/* tlb_finish_mmu() */
		if
#ifndef MUT_NO_RANGE
		:: atomic { changed -> flush(); changed = false }
#endif
		:: else
		fi;
#ifndef MUT_LOWER_EARLY
		pending--
#else
		skip
#endif
	od
}

/* migrate_pages_batch() of the one page; a source that is not deferred is freed at once */
active proctype migrate()
{
	byte n, src;
	bool was_none, accessible, deferred, owed;

	do
	:: n < MOVES && folio < LAST ->
		n++;
		/* try_to_migrate_one() */
		atomic { !ptl ->
			ptl = true;
			src = pte;
			was_none = none;
			entry_w = pte_w;
			pte = MIGRATION;	/* ptep_get_and_clear() */
			none = false;
			pte_w = false;
			/* migrc_defer_pte(): pte_accessible() */
#ifdef MUT_NONE_SKIP
			accessible = !was_none
#else
			accessible = (!was_none || pending)
#endif
		};
		if
		:: atomic { accessible && !entry_w ->
			/* mm_tlb_flush_pending() */
#if defined(MUT_NONE_DEFER)
			deferred = (!pending || was_none);
#elif defined(MUT_PENDING)
			deferred = (!pending || !was_none);
#else
			deferred = !pending;
#endif
			accessible = false;
			REACHED(R_RESTORED, !deferred && !was_none && tlb_w && tlb[0] == src);
			REACHED(R_LOWERED, deferred && was_none)
		}
		:: else
		fi;
		if
		:: atomic { deferred ->
			/* migrc_set_mark(), migrc_publish() */
			migrc_seq++;
			ptl = false
		}
		:: atomic { else ->
			/* set_tlb_ubc_flush_pending(): pte_accessible() once more */
#ifdef MUT_NONE_SKIP
			owed = !was_none;
#else
			owed = (!was_none || pending);
#endif
			ptl = false
		}
		fi;
		atomic { !ptl ->
			if
			:: owed ->
				REACHED(R_OWED, was_none && tlb_w && tlb[0] == src);
				flush()		/* try_to_unmap_flush() */
			:: else -> REACHED(R_SKIPPED, !deferred && newest == STORES)
			fi;
			if
			:: true ->
				CHECK(I3, !(tlb_w && tlb[0] == src));
				folio++;
				data[folio] = data[src]
			:: true -> REACHED(R_UNDONE, deferred && IN_TLB(src))
			fi;
			/* remove_migration_ptes(), or migrate_folio_undo_src() */
			CHECK(I4, !entry_w || ONE_FRAME(folio));
			pte = folio;
			pte_w = entry_w;
			entry_w = false;
			was_none = false;
			accessible = false;
			owed = false
		};
		atomic {
			if
			:: folio == src
			:: folio != src && deferred -> queued[src] = true	/* migrc_queue() */
			:: folio != src && !deferred -> CHECK(I2, !IN_TLB(src))	/* folio_put() */
			fi;
			src = 0;
			deferred = false
		}
	:: else -> break
	od
}

/* migrc_flush_all() */
active proctype drain()
{
	byte seq;
	bool free[4];

end:
	do
	:: atomic { migrc_done < migrc_seq || queued[1] || queued[2] ->
		seq = migrc_seq;
		free[1] = queued[1];
		free[2] = queued[2];
		queued[1] = false;
		queued[2] = false
	};
		atomic {
			flush();
			migrc_done = seq;
			CHECK(I2, !(free[1] && IN_TLB(1)) && !(free[2] && IN_TLB(2)));
			REACHED(R_FREED, free[1] && none);
			seq = 0;
			free[1] = false;
			free[2] = false
		}
	od
}
