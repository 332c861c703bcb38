/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Swap-out in two passes (room migrate-batch): unmap a list, flush once, write it.
 *
 * Reclaim has isolated two dirty pages of one mm, which are in the swap cache.  The first pass
 * unmaps each and puts it off, unlocked; one flush; the second pass locks each page, looks
 * again from the top, and writes.  User code writes the pages through what its TLB holds; a
 * store is the next version.  do_swap_page() may map a page again at any time, read-only or
 * writable: it is the same frame.  Writing to swap is a copy, as that of migration.
 *
 * I1 a page that is freed has its newest version in swap
 * I2 what reclaim frees is not mapped, and nobody writes it through a TLB
 * I3 when the I/O of a page begins, no TLB holds it writable: a flush that began after its PTE
 *    was cleared has ended
 *
 * Each of these switches must give a counterexample:
 *	MUT_EARLY	I1 I2 I3	the second pass begins before the flush
 *	MUT_STARTED	I1 I2 I3	it begins when the flush has only started
 *	MUT_FLUSH_EACH	I1 I2 I3	the flush is sent when the first page is unmapped
 *	MUT_MAPPED	I3	the second pass does not look whether the page is mapped again
 *	MUT_UNLOCKED	I3	it looks before it has locked the page
 *	MUT_FREE	I1 I2	a page that is mapped again while it is written is freed
 *	MUT_FOREVER	cycle	what is put off once is put off again
 */
#include "common.pml"

#define PAGES 2
#define STORES 2

hidden byte R_STALE_STORE, R_REMAPPED, R_READ_ONLY, R_FREED, R_KEPT, R_LOCKED;

bool mapped[PAGES] = true, pte_w[PAGES] = true;		/* else a swap entry */
bool locked[PAGES], freed[PAGES], tlb[PAGES];		/* a writable entry */
byte newest[PAGES], swap[PAGES];		/* versions: in the page, in swap */
bool ipi, ended;

#ifdef LIVE
ltl ends { <> ended }
#endif

/* One step; of the time that it takes the end is what counts. */
inline flush()
{
	EITHER(MUT_STARTED, ipi = true, d_step { tlb[0] = false; tlb[1] = false })
}

/* CPU i writes page i only. */
active [2] proctype user()
{
end:
	do
	:: atomic { mapped[_pid] && pte_w[_pid] && !tlb[_pid] -> tlb[_pid] = true }
	:: atomic { tlb[_pid] && newest[_pid] < STORES ->
		newest[_pid]++;
		CHECK(I2, !freed[_pid]);
		REACHED(R_STALE_STORE, !mapped[_pid])
	}
	WITH(MUT_STARTED, :: atomic { ipi && _pid -> ipi = false; tlb[0] = false; tlb[1] = false })
	od
}

/* do_swap_page(): under the folio lock; a page that was freed is read into another frame */
inline map()
{
	atomic {
		mapped[p] = true;
		REACHED(R_READ_ONLY, tlb[p]);
		if
		:: true -> pte_w[p] = true
		:: true -> pte_w[p] = false
		fi;
		unlock(locked[p])
	}
}

active proctype fault()
{
	byte p;

end:
	do
	:: atomic { !mapped[0] && !locked[0] && !freed[0] -> locked[0] = true; p = 0 };
		map()
	:: atomic { !mapped[1] && !locked[1] && !freed[1] -> locked[1] = true; p = 1 };
		map()
	:: atomic { !locked[0] -> locked[0] = true };	/* for another reason */
		unlock(locked[0])
	od
}

/* pageout(), and __remove_mapping() when a fast device has written */
inline pageout()
{
	atomic { CHECK(I3, !tlb[p]); swap[p] = newest[p]; unlock(locked[p]) };
	atomic {
		if
		:: !locked[p] ->
			if
			:: EITHER(MUT_FREE, true, !mapped[p]) ->
				CHECK(I1, swap[p] == newest[p]);
				freed[p] = true;
				CHECK(I2, !mapped[p] && !tlb[p]);
				REACHED(R_FREED, newest[p] == STORES)
			WITHOUT(MUT_FREE, :: else -> REACHED(R_KEPT, true))
			fi
		:: else
		fi
	}
}

/* shrink_folio_list() */
active proctype reclaim()
{
	byte p;
	bool again, looked, put_off[PAGES];

	do
	:: p < PAGES && again && !put_off[p] -> p++
	:: p < PAGES && (!again || put_off[p]) ->
		put_off[p] = false;
		looked = mapped[p];
		if
		:: atomic { locked[p] -> REACHED(R_LOCKED, true); p++ }		/* keep */
		:: atomic { !locked[p] ->
			locked[p] = true;
			WITHOUT(MUT_UNLOCKED, looked = mapped[p])
		};
			if
#ifndef MUT_MAPPED
			:: atomic { again && looked ->	/* activate */
				REACHED(R_REMAPPED, newest[p] == STORES);
				unlock(locked[p])
			}
			:: !again || !looked ->
#else
			:: true ->
#endif
				/* try_to_unmap() */
				WHEN(atomic { !again, mapped[p] = false; pte_w[p] = false });
				WITH(MUT_FLUSH_EACH, WHEN(!again && p == 0, flush()));
				if
				/* reclaim_batch_put_off() */
				:: atomic { EITHER(MUT_FOREVER, true, !again) ->
					put_off[p] = true;
					unlock(locked[p])
				}
				WITHOUT(MUT_FOREVER, :: again -> pageout())
				fi
			fi;
			p++
		fi
	:: p == PAGES && (put_off[0] || put_off[1]) ->
		/* reclaim_batch_flush() */
		WITHOUT(MUT_EARLY, WITHOUT(MUT_FLUSH_EACH, flush()));
		again = true;
		p = 0
	:: p == PAGES && !put_off[0] && !put_off[1] -> break
	od;
	ended = true
}
