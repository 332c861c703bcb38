/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Marks: one mark, two mms that hash to it, forced flushes, two drains.
 *
 * mm 1 has pages 0 and 1, each under a page-table lock of its own, so that faults and
 * deferrals of one mm run at the same time; mm 2 has page 2.  Each mm runs on one CPU,
 * which is assumed to have a page in its TLB when the PTE is cleared: stale[page].  A page
 * is read-only until its fault has come.  migrc_flush_mm() reads the mark without a lock,
 * field by field.
 *
 * I4 when a PTE becomes writable, no TLB has an old translation of that page
 * I6 mark and migrc_done promise no more than flushes that are completed: a page with a
 *    stale entry, while nobody holds its page-table lock, has a pending mark of its mm
 *
 * Each of these switches must give a counterexample:
 *	MUT_CLEAR_EARLY	I4 I6	the mark is cleared when the flush starts (migrc v7)
 *	MUT_CLEAR_GEN	I4 I6	deferrals are numbered by drains, not one by one
 *	MUT_CLEAR_ANY	I4 I6	the mark is cleared although a newer deferral has come
 *	MUT_COLLISION	I4 I6	the mark of another mm is taken while it is pending
 *	MUT_TAKE_LATE	I4 I6	who takes it says that its own first deferral is flushed
 *	MUT_TWO_DRAINS	I4 I6	drains are not serialised: the later one is done first
 *	MUT_DONE_EARLY	I4 I6	migrc_done moves before the other CPUs have flushed
 *	MUT_SEQ_LATE	I4 I6	a drain reads migrc_seq after it has taken the CPUs
 *	MUT_SEQ_APART	I4 I6	number and CPUs of a deferral not under one hold of the lock
 *	MUT_MARK_LATE	I4 I6	the mark is set after the page-table lock is released
 */
#include "common.pml"

#define PAGES 3
#define MM(page) (1 + (page == 2))
#define PENDING(seq) (seq > mark_flushed && seq > done)
#define PROMISED(page) (ptl[page] || !stale[page] || (mark_mm == MM(page) && PENDING(mark_seq)))

#ifdef MUT_COLLISION
#define MAY_TAKE(m) true
#else
#define MAY_TAKE(m) (mark_mm == m || !PENDING(mark_seq))
#endif

#ifdef MUT_CLEAR_GEN
#define NUMBER (seq_now + 1)		/* seq_now is that of the latest drain */
#else
#define NUMBER (seq_now)
#endif

hidden byte R_REFUSED, R_FORCED, R_TAKEN, R_NEWER, R_DRAINED, R_BETWEEN, R_TORN;

bool ptl[PAGES], writable[PAGES], stale[PAGES];
bool migrc_lock, flush_mutex;
byte mark_mm, mark_seq, mark_flushed;	/* struct migrc_mark */
byte seq_now, done;			/* migrc_seq, migrc_done */
bool cpus[3];				/* migrc_cpus: the CPU of mm 1, of mm 2 */

inline flush_cpu(m)
{
	d_step {
		if
		:: m == 1 ->
			stale[0] = false;
			stale[1] = false
		:: m == 2 -> stale[2] = false
		fi
	}
}

inline promised()
{
	CHECK(I6, PROMISED(0) && PROMISED(1) && PROMISED(2))
}

/*
 * Taking a lock is one step with what comes next, releasing it one with what came before:
 * nobody could tell the difference.
 */

/* try_to_migrate_one() and remove_migration_ptes() of a page: A is unmapped, B is mapped */
inline migrate(page, m)
{
	atomic { !ptl[page] && !writable[page] ->	/* writable: eligible.pml */
		stale[page] = true;	/* ptep_get_and_clear() */
#ifndef MUT_MARK_LATE
		ptl[page] = true
#endif
	};
	/* migrc_defer_pte() */
#ifdef MUT_SEQ_APART
	atomic { seq_now++; number = NUMBER };
#endif
	atomic { !migrc_lock -> migrc_lock = true };
	/* migrc_set_mark(), migrc_publish() */
	if
	:: MAY_TAKE(m) ->
		if
		:: mark_mm != m ->
			atomic { REACHED(R_TAKEN, mark_mm); mark_mm = m };
#ifdef MUT_SEQ_APART
			mark_flushed = number - 1	/* this is not its mistake */
#elif defined(MUT_TAKE_LATE)
			mark_flushed = seq_now + 1
#else
			mark_flushed = seq_now
#endif
		:: else
		fi;
		atomic {
			cpus[m] = true;
#if !defined(MUT_SEQ_APART) && !defined(MUT_CLEAR_GEN)
			seq_now++;
#endif
#ifndef MUT_SEQ_APART
			number = NUMBER;
#endif
			mark_seq = number;
			number = 0;
			unlock(migrc_lock)
		}
	:: else ->
		atomic {
			REACHED(R_REFUSED, true);
			number = 0;
			unlock(migrc_lock);
			flush_cpu(m)	/* refused: flushed before the copy, as ever */
		}
	fi;
	atomic { unlock(ptl[page]); promised() }
}

active proctype migrate1()
{
	byte number;

	if
	:: migrate(0, 1)
	:: writable[0]
	fi;
	if
	:: migrate(1, 1)
	:: writable[1]
	fi
}

active proctype migrate2()
{
	byte number;

	migrate(2, 2)
}

/* A write fault: wp_page_reuse() */
proctype fault(byte page)
{
	byte m = MM(page), seq;
	bool mine;

	atomic { !ptl[page] ->
		ptl[page] = true;
		/* migrc_flush_mm() */
		mine = (mark_mm == m)
	};
	if
	:: mine ->
		atomic { seq = mark_seq; REACHED(R_TORN, mark_mm != m) };
		mine = (seq > mark_flushed);
		if
		:: mine -> mine = (seq > done)
		:: else
		fi
	:: else
	fi;
	if
	:: mine ->
#ifdef MUT_CLEAR_EARLY
		mark_flushed = seq;
#endif
		atomic { REACHED(R_FORCED, stale[page]) };	/* flush_tlb_mm() has begun */
		flush_cpu(m);					/* the CPU answers */
		atomic {
			!migrc_lock ->
			REACHED(R_NEWER, mark_mm == m && mark_seq > seq && (stale[0] || stale[1]));
			if
#ifdef MUT_CLEAR_ANY
			:: mark_mm == m -> mark_flushed = mark_seq
#else
			:: mark_mm == m && mark_flushed < seq -> mark_flushed = seq
#endif
			:: else
			fi;
			promised()
		}
	:: else -> REACHED(R_DRAINED, mark_mm == m && mark_seq && mark_seq <= done)
	fi;
	atomic {
		mine = false;
		seq = 0;
		CHECK(I4, !stale[page]);
		writable[page] = true;	/* ptep_set_access_flags() */
		unlock(ptl[page])
	}
}

/* migrc_flush_all() */
active [2] proctype drain()
{
	byte seq;
	bool flushing[3];

#ifndef MUT_TWO_DRAINS
#define MAY_DRAIN (!flush_mutex && !migrc_lock)
#else
#define MAY_DRAIN (!migrc_lock)
#endif
	atomic { MAY_DRAIN ->		/* under migrc_lock */
		flush_mutex = true;
		flushing[1] = cpus[1];
		flushing[2] = cpus[2];
		cpus[1] = false;
		cpus[2] = false;
#ifdef MUT_CLEAR_GEN
		seq_now++;
#endif
		seq = seq_now
	};
#ifdef MUT_SEQ_LATE
	seq = seq_now;
#endif
#ifdef MUT_DONE_EARLY
	atomic { done = seq; promised() };
#endif
	/* arch_tlbbatch_flush() */
	if
	:: atomic { flushing[1] -> flush_cpu(1); flushing[1] = false }
	:: else
	fi;
	if
	:: atomic { flushing[2] -> flush_cpu(2); flushing[2] = false }
	:: else
	fi;
	atomic {
		done = seq;
		REACHED(R_BETWEEN, PENDING(mark_seq));
		promised();
		seq = 0;
		unlock(flush_mutex)
	}
}

/* None of page 2: either mm may have the mark first. */
init
{
	atomic {
		run fault(0);
		run fault(1)
	}
}
