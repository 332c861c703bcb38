/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NUMA balancing: flushes that are deferred while scans are under way.
 *
 * One exclusive anonymous page of one mm; user code writes it on CPU 0 and reads it on
 * CPU 1, through whatever their TLBs hold; each store is the next version.  It is promoted
 * and then demoted: frame 1 of the slow node, 2 of the fast one, 3 of the slow one.  Two
 * scanners, in round after round, make the PTE PROT_NONE; in tiering mode they leave it
 * alone while it maps the fast node.  userfaultfd takes away write permission under the
 * same mmap lock; faults give back access, and write permission.  All but faults have
 * raised tlb_flush_pending until they have flushed.  While it is raised a migration is
 * deferred only if counted scans are all that is pending, and none of them has touched a
 * page of that node.  Drains free what was deferred.
 *
 * In which order a fault or a drain does what it does: numa.pml, drainers.pml.
 *
 * I1 a load reads what was stored last, and no store is lost
 * I2 when a frame is freed, no TLB maps it
 * I3 when the copy starts, no TLB holds the source writable
 * I4 when a PTE becomes writable, no TLB maps another frame
 *
 * Each of these switches must give a counterexample:
 *	MUT_TOUCH	I1 I3	what the scans have touched is ignored
 *	MUT_OTHERS	I1 I3	it does not matter who else is pending
 *	MUT_UNLOCKED	I1 I3	tlb_flush_pending is read before migrc_scans_lock is taken
 *	MUT_COUNT_EARLY	I1 I3	a scan is counted before it raises tlb_flush_pending
 *	MUT_UNCOUNT_LATE	I1 I3	it is counted until it has lowered tlb_flush_pending
 *	MUT_TOUCH_LATE	I1 I3	what it touches is noted after the page-table lock
 *	MUT_TOUCH_NEVER	I1 I3	what it touches is not noted
 *	MUT_LOWER_EARLY	I1 I2 I3 I4	a scan lowers tlb_flush_pending before it has flushed
 *	MUT_CLEAR_TOUCHED	I1 I3	it forgets what scans before it have touched
 */
#include "common.pml"

#define STORES 1
#define LAST 3			/* the last frame */
#define MIGRATION 4
#define MAPPED (pte <= LAST)
#define ACCESSIBLE (MAPPED && !none)
#define NODE(f) (f == 2)	/* 1: the fast one */
#define IN_TLB(f) (tlb[0] == f || tlb[1] == f)
#define ONE_FRAME(f) ((!tlb[0] || tlb[0] == f) && (!tlb[1] || tlb[1] == f))
#define WRITES(f) (tlb_w && tlb[0] == f)

hidden byte R_PROMOTED, R_DEMOTED, R_NONE, R_TOUCH, R_OTHERS, R_UNCOUNTED, R_BOTH, R_GONE;
hidden byte R_STALE, R_CHAIN, R_HINT, R_WP, R_OWED, R_UNDONE, R_FREED, R_KEPT;

byte pte = 1, folio = 1;	/* folio: the newest frame, whatever the PTE is */
bool pte_w, none, ptl;		/* none: PROT_NONE */
bool entry_w;			/* is_writable_migration_entry() */
byte pending;			/* mm->tlb_flush_pending */
byte nr;			/* of struct migrc_scans, which no other mm uses */
bool touched[2];		/* by node */
byte tlb[2];
bool tlb_w;			/* CPU 0: may it write? */
byte data[4], newest;
bool marked;			/* something deferred has not been flushed */
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
		REACHED(R_STALE, MAPPED && none && nr && tlb[1] != pte);
		REACHED(R_CHAIN, pte == 3 && nr && tlb[1] == 1)
	}
	od
}

/* With the page-table lock, in one step: numa.pml has the order of things */
inline migrc_flush_mm(reached)
{
	REACHED(reached, marked && nr && IN_TLB(1));
	if
	:: marked -> flush(); marked = false
	:: else
	fi
}

inline make_writable()
{
	CHECK(I4, ONE_FRAME(pte));
	none = false;
	pte_w = true
}

/* do_numa_page() when none of them has migrated the page, and wp_page_reuse() */
active proctype fault()
{
end:
	do
	:: atomic { MAPPED && none && !ptl -> none = false }
	:: atomic { MAPPED && none && !ptl -> migrc_flush_mm(R_HINT); make_writable() }
	:: atomic {
		ACCESSIBLE && !pte_w && newest < STORES && !ptl ->
		migrc_flush_mm(R_WP);
		make_writable()
	}
	od
}

/* With migrc_scans_lock, so in one step */
inline migrc_scans_spare(p)
{
#if defined(MUT_TOUCH)
	deferred = (nr && p == nr);
#elif defined(MUT_OTHERS)
	deferred = (nr && !touched[NODE(src)]);
#else
	deferred = (nr && p == nr && !touched[NODE(src)]);
#endif
	REACHED(R_PROMOTED, deferred && src == 1 && tlb[0] == 1 && tlb[1] == 1);
	REACHED(R_DEMOTED, deferred && src == 2 && touched[0] && tlb[0] == 2 && tlb[1] == 2);
	REACHED(R_NONE, deferred && was_none && nr == 2);
	REACHED(R_TOUCH, !deferred && nr && pending == nr && WRITES(src));
	REACHED(R_OTHERS, !deferred && !touched[NODE(src)] && nr == 2 && WRITES(src));
	REACHED(R_GONE, !deferred && !pending);
	/* a scan before those that are counted, in its flush */
	REACHED(R_UNCOUNTED, !deferred && !touched[0] && nr == 1 && was_none && WRITES(1))
}

/* migrate_pages_batch() of the one page; a source that is not deferred is freed at once */
active proctype migrate()
{
	byte src;
	bool was_none, accessible, deferred, owed;
#ifdef MUT_UNLOCKED
	byte p;
#endif

	do
	:: folio < LAST ->
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
			accessible = (!was_none || pending)
		};
		if
		:: atomic { accessible && !entry_w && !pending -> deferred = true }
#ifdef MUT_UNLOCKED
		:: atomic { accessible && !entry_w && pending -> p = pending };
			atomic { migrc_scans_spare(p); p = 0 }
#else
		:: accessible && !entry_w && pending ->
			atomic { migrc_scans_spare(pending) }
#endif
		:: !accessible || entry_w
		fi;
		atomic {
			if
			:: deferred -> marked = true
			/* set_tlb_ubc_flush_pending(): pte_accessible() once more */
			:: !deferred -> owed = (!was_none || pending)
			fi;
			accessible = false;
			ptl = false
		};
		atomic { !ptl ->
			if
			:: owed ->
				REACHED(R_OWED, was_none && WRITES(src));
				flush()		/* try_to_unmap_flush() */
			:: else
			fi;
			if
			:: true ->
				CHECK(I3, !WRITES(src));
				folio++;
				data[folio] = data[src]
			:: true -> REACHED(R_UNDONE, deferred && nr && IN_TLB(src))
			fi;
			/* remove_migration_ptes(), or migrate_folio_undo_src() */
			CHECK(I4, !entry_w || ONE_FRAME(folio));
			pte = folio;
			pte_w = entry_w;
			entry_w = false;
			was_none = false;
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

/* migrc_flush_all(), in one step: drainers.pml has the order of things */
active proctype drain()
{
end:
	do
	:: atomic {
		marked || queued[1] || queued[2] ->
		REACHED(R_FREED, nr && queued[1] && queued[2] && IN_TLB(1));
		flush();
		marked = false;
		CHECK(I2, !(queued[1] && IN_TLB(1)) && !(queued[2] && IN_TLB(2)));
		queued[1] = false;
		queued[2] = false
	}
	od
}

inline raise()
{
	pending++		/* tlb_gather_mmu() */
}

inline flush_changed()
{
	if
	:: changed -> flush(); changed = false
	:: else
	fi
}

/* tlb_finish_mmu() in one step: to be pending after the flush only forbids to defer */
inline flush_and_lower()
{
	atomic { flush_changed(); pending-- }
}

/* uffd_wp_range(): what was PROT_NONE is accessible again */
active proctype protect()
{
	bool changed;

end:
	do
	:: true ->
		raise();
		atomic { !ptl ->
			if
			:: MAPPED ->
				migrc_flush_mm(R_KEPT);
				changed = (!none && pte_w);	/* pte_needs_flush() */
				none = false;
				pte_w = false
			:: else -> entry_w = false
			fi
		};
		flush_and_lower()
	od
}

inline migrc_scan_begin()
{
#ifdef MUT_CLEAR_TOUCHED
	atomic { touched[0] = false; touched[1] = false; nr++ }
#else
	atomic {
		if
		:: !nr -> touched[0] = false; touched[1] = false
		:: else -> REACHED(R_BOTH, touched[0] && !touched[1] && WRITES(1) && !pte_w)
		fi;
		nr++
	}
#endif
}

/* change_prot_numa() */
active [2] proctype scanner()
{
	bool changed;
#ifdef MUT_TOUCH_LATE
	bool node;
#endif

end:
	do
	:: true ->
#ifdef MUT_COUNT_EARLY
		migrc_scan_begin();
		raise();
#else
		raise();
		migrc_scan_begin();
#endif
		/* change_pte_range(): a migration entry is made readable, whatever it is of */
		if
		:: atomic { !ptl && ACCESSIBLE ->
			ptl = true;
#if defined(MUT_TOUCH_LATE)
			node = NODE(pte)
#elif defined(MUT_TOUCH_NEVER)
			skip
#else
			touched[NODE(pte)] = true
#endif
		};
			atomic { none = true; pte_w = false; changed = true; ptl = false }
#ifdef MUT_TOUCH_LATE
			; touched[node] = true
#endif
		:: atomic { !ptl && pte == MIGRATION -> entry_w = false }
		:: !ptl && MAPPED && (none || NODE(pte))
		fi;
#if defined(MUT_UNCOUNT_LATE)
		flush_and_lower();
		nr--
#elif defined(MUT_LOWER_EARLY)
		nr--;
		pending--;
		atomic { flush_changed() }
#else
		/* migrc_scan_flush() leaves the flush to tlb_finish_mmu() if others are pending. */
		if
		:: pending == 1 ->
			atomic { flush_changed() };
			nr--;
			pending--
		:: pending > 1 ->
			nr--;
			flush_and_lower()
		fi
#endif
	od
}
