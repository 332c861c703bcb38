/* SPDX-License-Identifier: GPL-2.0 */
/*
 * NUMA balancing's scans while MIGRC is switched off and on again.
 *
 * One page of one mm, written by user code through whatever its TLB holds.  A scanner, in
 * round after round, takes away write permission and flushes later; it notes that it has
 * touched the page only while the hooks are on.  A scan that began while they were off is
 * never counted.  A migration that finds something pending may defer its flush if counted
 * scans are all that is, and none of them has touched the page.  With several scans, nodes
 * and faults, but without the switch: scan.pml.
 *
 * I3 when the copy starts, no TLB holds the source writable
 *
 * Each of these switches must give a counterexample:
 *	MUT_FORGET	I3	on counts on what scans have noted that were under way
 *	MUT_FORGET_LATE	I3	they are forgotten after deferrals are allowed
 */
#include "common.pml"

hidden byte R_SPARED, R_TOUCHED, R_UNCOUNTED, R_UNNOTED;

bool key = true, defer = true;	/* migrc_key, migrc_deferring */
bool inside;			/* SRCU: a batch that may defer */
bool pte_w = true, ptl;
bool tlb_w;			/* what the CPU may do, whatever the PTE says */
byte pending;			/* mm->tlb_flush_pending */
byte nr;			/* of struct migrc_scans */
bool touched;

inline flush()
{
	tlb_w = false
}

/* A store, and a fault that lets it through after the scan */
active proctype writer()
{
end:
	do
	:: atomic { pte_w && !tlb_w -> tlb_w = true }
	:: atomic { !pte_w && !ptl -> flush(); pte_w = true }
	od
}

/* change_prot_numa() */
active proctype scanner()
{
	bool counted;

end:
	do
	:: true ->
		pending++;			/* tlb_gather_mmu() */
		atomic {			/* migrc_scan_begin() */
			if
			:: key ->
				if
				:: !nr -> touched = false
				:: else
				fi;
				nr++;
				counted = true
			:: else
			fi
		};
		lock(ptl);
		if
		:: key -> touched = true	/* migrc_scan_touch() */
		:: atomic { !key -> REACHED(R_UNNOTED, counted && tlb_w) }
		fi;
		pte_w = false;
		unlock(ptl);
		atomic { flush() };		/* migrc_scan_flush() */
		atomic {
			if
			:: counted -> nr--
			:: else
			fi;
			counted = false;
			pending--		/* tlb_finish_mmu() */
		}
	od
}

/* migrc_stop(), migrc_start() */
active proctype operator()
{
	defer = false;
	!inside;			/* synchronize_srcu(); more of this: switch.pml */
	key = false;
	key = true;
#ifdef MUT_FORGET_LATE
	defer = true;
#endif
#ifndef MUT_FORGET
	atomic { touched = (touched || nr) };	/* migrc_scans_forget() */
#endif
#ifndef MUT_FORGET_LATE
	defer = true
#else
	skip
#endif
}

/* try_to_migrate_one() of the page, and its copy; that it is mapped again changes nothing */
active proctype migrate()
{
	bool spared;

end:
	do
	:: atomic { defer -> inside = true };	/* migrc_begin() */
		lock(ptl);
		if
		:: !pte_w ->
			atomic {
				/* migrc_defer_pte(), migrc_scans_spare() */
				spared = (!pending || (nr && pending == nr && !touched));
				REACHED(R_SPARED, spared && pending);
				REACHED(R_TOUCHED, !spared && pending == nr && tlb_w);
				REACHED(R_UNCOUNTED, !spared && nr < pending && tlb_w)
			};
			if
			:: spared -> atomic { CHECK(I3, !tlb_w); spared = false }
			:: else
			fi
		:: else
		fi;
		unlock(ptl);
		inside = false		/* migrc_end() */
	od
}
