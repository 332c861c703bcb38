/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Eligibility: no deferral while a TLB may hold the page writable.
 *
 * One page that is written by user code on CPU 0, through whatever its TLB holds; each
 * store is the next version.  Meanwhile the page is made read-only by mprotect(), by
 * fork, or by reclaim that unmaps it and a fault that finds it in the swap cache again;
 * each of them flushes later than it changes the PTE.  For a migration entry mprotect()
 * flushes nothing: that is left to migration.  Migration copies frame A (1) to frame B (2).
 *
 * I1 no store is lost: the newest version is in the frame that is mapped, or will be
 * I3 when the copy starts, no TLB holds the source writable
 *
 * Each of these switches must give a counterexample:
 *	MUT_WRITE	I1 I3	a writable PTE is deferred
 *	MUT_E1		I1 I3	E1: mm_tlb_flush_pending() is ignored
 *	MUT_E2		I1 I3	E2: dup_mmap() has no inc and dec_tlb_flush_pending()
 *	MUT_E2_SHORT	I1 I3	E2: dec_tlb_flush_pending() before the flush
 *	MUT_E3		I1 I3	E3: a folio is migrated though reclaim has isolated it
 *	MUT_E3_SHORT	I1 I3	E3: reclaim puts it back before the flush of its batch
 *	MUT_E3_UNDO	I1 I3	E3: a migration that fails puts it back before its flush
 */
#include "common.pml"

#define STORES 2
#define MIGRATION 3
#define SWAP 4
#define PRESENT (pte <= 2)

hidden byte R_DEFERRED, R_PENDING, R_FORK, R_SWAP, R_WRITABLE, R_FAILED, R_ENTRY;

byte pte = 1, folio = 1;
bool pte_w = true, ptl, isolated;
bool entry_w;			/* is_writable_migration_entry() */
byte pending;			/* mm->tlb_flush_pending */
byte tlb;
bool tlb_w;
byte data[3], newest;

inline flush()
{
	d_step { tlb = 0; tlb_w = false }
}

active proctype user()
{
end:
	do
	:: atomic { tlb == 0 && PRESENT -> tlb = pte; tlb_w = pte_w }
	:: atomic { tlb_w && newest < STORES ->
		newest++;
		data[tlb] = newest;
		/* in the frame that counts, and so in the copy that may be made of it */
		CHECK(I1, tlb == folio)
	}
	:: tlb && !tlb_w -> flush()	/* replaced by another translation */
	od
}

/* In the PTE, or in a migration entry; a swap entry has no permission */
inline wrprotect()
{
	if
	:: PRESENT -> pte_w = false
	:: pte == MIGRATION -> entry_w = false
	:: else
	fi
}

/* change_pte_range() between tlb_gather_mmu() and tlb_finish_mmu() */
active proctype mprotect()
{
	bool changed;

	pending++;			/* inc_tlb_flush_pending() */
	lock(ptl);
	atomic { changed = PRESENT; REACHED(R_ENTRY, pte == MIGRATION && entry_w && tlb_w) };
	wrprotect();
	unlock(ptl);
	WHEN(changed, flush());
	pending--			/* dec_tlb_flush_pending() */
}

/* dup_mmap(): migrc_fork_begin(), __copy_present_ptes(), flush, migrc_fork_end() */
active proctype fork()
{
	WITHOUT(MUT_E2, pending++;)
	lock(ptl);
	wrprotect();			/* copy_pte_range() */
	unlock(ptl);
	atomic { REACHED(R_FORK, tlb_w && PRESENT && !pte_w) };
	WITH(MUT_E2_SHORT, pending--);
	flush();			/* flush_tlb_mm(oldmm) */
	WITHOUT(MUT_E2, WITHOUT(MUT_E2_SHORT, pending--))
}

/* shrink_folio_list() */
active proctype reclaim()
{
	atomic { !isolated -> isolated = true };
	lock(ptl);
	WHEN(PRESENT, pte = SWAP; pte_w = false);	/* try_to_unmap_one() */
	unlock(ptl);
	WITH(MUT_E3_SHORT, isolated = false);
	flush();			/* try_to_unmap_flush() */
	WITHOUT(MUT_E3_SHORT, isolated = false)
}

/* do_swap_page(): read-only, as for a read fault of a page that is not exclusive */
active proctype fault()
{
end:
	pte == SWAP ->
	lock(ptl);
	atomic { pte = folio; REACHED(R_SWAP, tlb_w) };
	unlock(ptl)
}

/*
 * Migration, twice.  One that fails, as after -ENOMEM, maps the page again before it flushes
 * what it owes; one that defers owes nothing.
 */
active proctype migrate()
{
	byte n;
	bool w, eligible;

	do
	:: n < 2 && folio == 1 ->
		n++;
		WITHOUT(MUT_E3, atomic { !isolated -> isolated = true });
		/* try_to_migrate_one() */
		lock(ptl);
		if
		:: atomic { PRESENT -> w = pte_w; entry_w = pte_w; pte = MIGRATION; pte_w = false };
			/* __migrc_defer_pte() */
			eligible = EITHER(MUT_E1, true, !pending);
			atomic {
				REACHED(R_WRITABLE, w && eligible);
				REACHED(R_PENDING, !w && !eligible);
				WITHOUT(MUT_WRITE, eligible = (eligible && !w));
				unlock(ptl)
			};
			if
			:: true ->
				WHEN(!eligible, flush());	/* try_to_unmap_flush() */
				atomic {
					CHECK(I3, !(tlb == 1 && tlb_w));
					REACHED(R_DEFERRED, eligible && tlb == 1 && newest == STORES);
					data[2] = data[1];
					folio = 2
				};
				/* remove_migration_ptes() */
				atomic { !ptl -> pte = 2; pte_w = entry_w }
			:: true ->
				/* migrate_folio_undo_src() */
				atomic { !ptl ->
					pte = 1;
					pte_w = entry_w;
					REACHED(R_FAILED, tlb_w && !pte_w)
				};
				WITH(MUT_E3_UNDO, isolated = false);
				WHEN(!eligible, flush())
			fi
		:: else -> unlock(ptl)
		fi;
		isolated = false		/* putback_movable_pages() */
	:: else -> break
	od
}
