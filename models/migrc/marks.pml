/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marks: a set of two ways, three address spaces, forced flushes, a drain and a merged flush.
 *
 * mm 1 has pages 0 and 1, each under a page-table lock of its own, so that faults and
 * deferrals of one mm run at the same time; mm 2 has page 2, mm 3 page 3.  Each mm runs on
 * one CPU, which is assumed to have a page in its TLB when the PTE is cleared: stale[page].
 * A fault reads the set without a lock, way by way and field by field, while ways are taken
 * by others and by its own mm.
 *
 * I4 when a PTE becomes writable, no TLB has an old translation of that page
 * I6 marks and migrc_done promise no more than flushes that are completed: a page with a
 *    stale entry, while nobody holds its page-table lock, has a pending mark of its mm
 *
 * Each of these switches must give a counterexample:
 *	MUT_CLEAR_EARLY	I4 I6	the mark is flushed when the flush starts (migrc v7)
 *	MUT_CLEAR_ANY	I4 I6	a newer deferral counts as flushed, too
 *	MUT_TAKE	I4 I6	a way is taken although its mark is pending
 *	MUT_TAKE_LATE	I4 I6	who takes a way says that its own first deferral is flushed
 *	MUT_NO_FIND	I4	an mm takes another way although it has one
 *	MUT_TWO_DRAINS	I4 I6	drains are not serialised: the later one is done first
 *	MUT_DONE_EARLY	I4 I6	migrc_done moves before the CPUs have flushed
 *	MUT_OWED	I4 I6	a merged flush leaves out CPUs of deferrals that it takes for done
 *	MUT_SEQ_LATE	I4 I6	a drain reads migrc_seq after it has taken the CPUs
 *	MUT_MARK_LATE	I4 I6	the mark is set after the page-table lock is released
 */
#include "common.pml"

#define PAGES 4
#define WAYS 2
#define MM(page) (page < 2 -> 1 : page)
#define PENDING(way) (mark_seq[way] > mark_flushed[way] && mark_seq[way] > done)
#define MARKED(m) ((way_mm[0] == m && PENDING(0)) || (way_mm[1] == m && PENDING(1)))
#define PROMISED(page) (ptl[page] || !stale[page] || MARKED(MM(page)))

#define MAY_TAKE(way) EITHER(MUT_TAKE, true, (!PENDING(way)))
#define MAY_DRAIN EITHER(MUT_TWO_DRAINS, (!migrc_lock), (!migrc_lock && !migrc_mutex))

hidden byte R_REFUSED, R_FORCED, R_TAKEN, R_NEWER, R_DRAINED, R_BETWEEN, R_LOST, R_OTHERS, R_MOVED;
hidden byte R_MERGED;

bool ptl[PAGES], stale[PAGES];
bool migrc_lock, migrc_mutex;
byte way_mm[WAYS], mark_seq[WAYS], mark_flushed[WAYS];
byte migrc_seq, done;			/* done: migrc_done */
byte cpus;				/* migrc_cpus: a bit for each mm's CPU */

inline flush_cpu(m)
{
	d_step {
		if
		:: m == 1 ->
			stale[0] = false;
			stale[1] = false
		:: m != 1 -> stale[m] = false
		fi
	}
}

inline promised()
{
	CHECK(I6, PROMISED(0) && PROMISED(1) && PROMISED(2) && PROMISED(3))
}

/* migrc_mark_take(): readers see each store */
inline migrc_mark_take(i, m)
{
	atomic { MAY_TAKE(i) -> way = i; REACHED(R_TAKEN, way_mm[i]); way_mm[i] = m };
	mark_seq[way] = 0;
	mark_flushed[way] = EITHER(MUT_TAKE_LATE, migrc_seq + 1, migrc_seq)
}

/* migrc_mark_flushed() */
inline flushed_of(i)
{
	WHEN(way_mm[i] == m WITHOUT(MUT_CLEAR_ANY, && mark_flushed[i] < seq),
	     mark_flushed[i] = EITHER(MUT_CLEAR_ANY, mark_seq[i], seq))
}

/* try_to_migrate_one() and remove_migration_ptes() of a page: A is unmapped, B is mapped */
inline migrate(page, m)
{
	atomic { !ptl[page] ->
		stale[page] = true;	/* ptep_get_and_clear() */
		WITHOUT(MUT_MARK_LATE, ptl[page] = true)
	};
	/* __migrc_defer_pte(), migrc_publish() */
	atomic { !migrc_lock ->
		migrc_lock = true;
		way = WAYS;
		/* migrc_mark_set(): migrc_mark_find() */
		if
		WITHOUT(MUT_NO_FIND, :: way_mm[0] == m -> way = 0)
		WITHOUT(MUT_NO_FIND, :: way_mm[1] == m -> way = 1)
		:: else
		fi
	};
	if
	:: way < WAYS
	:: way == WAYS ->
		if
		:: migrc_mark_take(0, m)
		:: migrc_mark_take(1, m)
		:: !MAY_TAKE(0) && !MAY_TAKE(1)
		fi
	fi;
	atomic {
		if
		:: way < WAYS ->
			cpus = cpus | (1 << m);
			migrc_seq++;
			mark_seq[way] = migrc_seq
		:: else ->
			REACHED(R_REFUSED, true);
			flush_cpu(m)	/* refused: flushed before the copy, as ever */
		fi;
		way = 0;
		unlock(migrc_lock);
		unlock(ptl[page]);
		promised()
	}
}

active proctype migrate1()
{
	byte way;

	migrate(0, 1);
	migrate(1, 1)
}

active proctype migrate2()
{
	byte way;

	migrate(2, 2);
	migrate(3, 3)
}

/* migrc_mark_find(), migrc_mark_pending(): each read is a step */
inline migrc_mark_pending(m)
{
	way = 0;
	do
	:: way < WAYS && way_mm[way] != m -> way++
	:: way < WAYS && way_mm[way] == m -> break
	:: way == WAYS -> break
	od;
	if
	:: way < WAYS ->
		atomic { seq = mark_seq[way]; REACHED(R_LOST, way_mm[way] != m) };
		WHEN(seq <= mark_flushed[way], seq = 0);
		if
		:: seq > done
		:: atomic { seq <= done -> REACHED(R_DRAINED, seq); seq = 0 }
		fi
	:: else
	fi
}

/* A write fault: wp_page_reuse() */
proctype fault(byte page)
{
	byte m = MM(page), seq, way;

end:
	atomic { !ptl[page] && stale[page] -> ptl[page] = true };
	/* __migrc_flush_mm() */
	migrc_mark_pending(m);
	if
	:: seq ->
		WITH(MUT_CLEAR_EARLY, atomic { flushed_of(0); flushed_of(1) });
		/* flush_tlb_mm_range(), when the CPU answers */
		atomic {
			REACHED(R_FORCED, stale[page]);
			REACHED(R_OTHERS, way_mm[way] == 2 && way_mm[1 - way] == 1 && stale[1]);
			flush_cpu(m)
		};
		atomic { !migrc_lock ->
			REACHED(R_NEWER, stale[1] && mark_seq[way] > seq);
			REACHED(R_MOVED, way_mm[way] == 2 && way_mm[1 - way] == 1);
			flushed_of(0);
			flushed_of(1);
			promised()
		}
	:: else
	fi;
	atomic {
		seq = 0;
		way = 0;
		CHECK(I4, !stale[page]);	/* ptep_set_access_flags() */
		unlock(ptl[page])
	}
}

/* migrc_flush_all(), and migrc_flush_owed() of a batch that owes a flush for mm 2 */
proctype drain(bool owed)
{
	byte seq, flushing;

	/* __migrc_flush_all(): under migrc_lock */
	atomic { MAY_DRAIN && migrc_seq ->
		migrc_mutex = true;
		flushing = cpus;
		cpus = 0;
		seq = migrc_seq;
		REACHED(R_MERGED, owed && flushing & 2);
		flushing = (owed -> EITHER(MUT_OWED, 4, flushing | 4) : flushing)
	};
	WITH(MUT_SEQ_LATE, seq = migrc_seq);
	WITH(MUT_DONE_EARLY, atomic { done = seq; promised() });
	/* arch_tlbbatch_flush(): one CPU answers after the others */
	WHEN(flushing & 2, flush_cpu(1));
	d_step {
		WHEN(flushing & 4, stale[2] = false);
		WHEN(flushing & 8, stale[3] = false);
		flushing = 0
	};
	atomic {
		done = seq;
		REACHED(R_BETWEEN, PENDING(0) && PENDING(1));
		promised();
		seq = 0;
		unlock(migrc_mutex)
	}
}

/* No faults of pages 2 and 3: they are like those of mm 1. */
init
{
	atomic {
		run fault(0);
		run fault(1);
		run drain(false);
		run drain(true)
	}
}
