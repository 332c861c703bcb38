/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A bounded queue that is drained at last.
 *
 * Two migrators with BATCHES batches each.  All PAGES pages of a batch are unmapped and
 * marked; those that can be moved are queued at its end, where the cap is looked at.  Age is
 * delayed work that has been armed or not; with -DLIVE it runs at some time if it is armed
 * (weak fairness).  A drain disarms it, and arms it again if there is anything left.  Up to
 * ALONGS flushes of others serve as drains, and leave what was queued to a worker, who comes
 * at some time, or to the next drain.
 *
 * marked is 1 for a deferral since the last detach (later than migrc_done), 2 for one that
 * is detached and not yet flushed.
 *
 * I9 never more than MAX pages are queued or left to the worker, and HELD with those that a
 *    drain is giving back; with -DLIVE: what is queued is released at last, and a mark can be
 *    taken by another mm at last
 *
 * Each of these switches must give a counterexample:
 *	MUT_NO_CAP	I9	no drain at the cap
 *	MUT_CAP_TRY	I9	no drain at the cap while another drain is under way
 *	MUT_LATE	I9	what is left to the worker does not count
 *	MUT_SECOND_LOT	cycle	a second flush of others serves before the worker has come
 *	MUT_NO_AGE	cycle	no drain by age
 *	MUT_ARM_UNMAP	cycle	armed at unmap only: a drain may come before the queueing
 *	MUT_ARM_QUEUE	cycle	armed only for sources: the mark of a batch that fails stays
 *	MUT_ARM_FIRST	cycle	whether there is anything to flush is looked at before queueing
 *	MUT_DISARM	cycle	the work forgets what was armed while it ran
 *	MUT_NOT_EMPTY	cycle	the work does nothing if nothing is queued
 *	MUT_NO_REARM	cycle	a drain disarms the work, and does not arm it again
 *	MUT_REARM_LOOK	cycle	whether it has to is looked at before it is disarmed
 */
#include "common.pml"

#define BATCHES 2
#define PAGES 2
#define CAP 2
#define MAX (CAP - 1 + 2 * PAGES)
#define HELD (2 * (CAP - 1 + PAGES))
#define ALONGS 2

hidden byte R_FULL, R_FAILED, R_BEFORE, R_MARKED, R_LEFT, R_LATE, R_TAKEN, R_HELD, R_SECOND;

byte queued, flushed, marked;
byte held;				/* these, or detached by a drain (migrc_nr_all) */
bool flush_mutex, armed, work;

#ifdef LIVE
#define QUEUED (held > 0)
#define MARKED (marked != 0)
ltl I9_live { ([] (QUEUED -> <> !QUEUED)) && ([] (MARKED -> <> !MARKED)) }
#endif

inline migrc_flush_all()
{
	lock(flush_mutex);
	atomic {			/* under migrc_lock */
		REACHED(R_TAKEN, flushed && queued);
		detached = queued + flushed;
		queued = 0;
		flushed = 0;
		if
		:: marked -> marked = 2
		:: else
		fi
	};
	/* arch_tlbbatch_flush() */
	if
	:: marked == 2 -> marked = 0	/* migrc_done */
	:: else
	fi;
	migrc_release();
	unlock(flush_mutex)
}

inline migrc_release()
{
	atomic { held = held - detached; detached = 0 };
	migrc_restart_age()
}

inline migrc_restart_age()
{
#ifdef MUT_REARM_LOOK
	left = marked || held;
#endif
	armed = false;			/* cancel_delayed_work() */
#if !defined(MUT_REARM_LOOK) && !defined(MUT_NO_REARM)
	left = marked || held;
#endif
	/* migrc_arm() */
	if
	:: left -> REACHED(R_LEFT, true); armed = true
	:: else
	fi;
	left = false
}

inline migrc_release_flushed()
{
	lock(flush_mutex);
	atomic { detached = flushed; flushed = 0 };	/* under migrc_lock */
	if
	:: detached -> migrc_release()
	:: else
	fi;
	unlock(flush_mutex)
}

active [2] proctype migrate()
{
	byte pages, batch, detached;
	bool any, left, over, late;

	do
	:: batch < BATCHES ->
		batch++;
		/* migrc_defer_pte() of the whole batch */
		atomic {
			marked = 1;
#ifdef MUT_ARM_UNMAP
			armed = true
#endif
		};
		select(pages : 0 .. PAGES);
#ifdef MUT_ARM_FIRST
		any = marked || held;
#endif
		/* migrc_end(), migrc_queue() */
		atomic {
			REACHED(R_BEFORE, pages && !marked);
			REACHED(R_FAILED, !pages);
			queued = queued + pages;
			held = held + pages;
			over = pages && queued >= CAP;
#ifndef MUT_LATE
			late = pages && !over && queued + flushed >= CAP;
#endif
			pages = 0;
			CHECK(I9, queued + flushed <= MAX && held <= HELD);
			REACHED(R_FULL, queued == MAX);
			REACHED(R_HELD, held == HELD)
		};
		if
#if defined(MUT_NO_CAP)
		:: false
#elif defined(MUT_CAP_TRY)
		:: over && !flush_mutex -> migrc_flush_all()
#else
		:: over -> migrc_flush_all()
#endif
#ifndef MUT_LATE
		:: late -> REACHED(R_LATE, true); migrc_release_flushed()
#endif
		:: else
		fi;
		over = false;
		late = false;
#if defined(MUT_ARM_QUEUE)
		any = held;
#elif !defined(MUT_ARM_FIRST)
		any = marked || held;
#endif
#ifndef MUT_ARM_UNMAP
		/* migrc_arm() */
		if
		:: any -> armed = true
		:: else
		fi;
#endif
		any = false
	:: else -> break
	od
}

#ifndef MUT_NO_AGE
active proctype age()
{
	byte detached;
	bool left;

end:
	do
	:: armed ->
#ifndef MUT_DISARM
		armed = false;
#endif
		atomic { REACHED(R_MARKED, marked && !queued) };
#ifdef MUT_NOT_EMPTY
		if
		:: queued -> migrc_flush_all()
		:: else
		fi;
#else
		migrc_flush_all();
#endif
#ifdef MUT_DISARM
		armed = false
#endif
	od
}
#endif

/* __migrc_flush_along(), of a flush that goes to all CPUs that matter */
active proctype along()
{
	byte nr, detached;
	bool left;

	do
	:: nr < ALONGS ->
		nr++;
		if
		:: atomic { !flush_mutex -> flush_mutex = true };
			atomic {	/* under migrc_lock */
				if
#ifdef MUT_SECOND_LOT
				/*
				 * The number is set, not added to.  Here it stands for the
				 * list as well, so what it forgets is lost; in the kernel
				 * the limit would not count it.
				 */
				:: marked ->
#else
				:: marked && !flushed ->
#endif
					REACHED(R_SECOND, nr == ALONGS);
					marked = 2;
					/* migrc_nr_flushed; the list follows before the mutex is free */
					flushed = queued;
					queued = 0;
					detached = 1
				:: else
				fi
			};
			if
			:: detached && marked == 2 -> marked = 0	/* migrc_done */
			:: else
			fi;
			if
			:: detached && flushed -> work = true
			:: detached && !flushed -> migrc_restart_age()
			:: else
			fi;
			detached = 0;
			unlock(flush_mutex)
		:: flush_mutex
		fi
	:: else -> break
	od
}

/* migrc_release_fn() */
active proctype worker()
{
	byte detached;
	bool left;

end:
	do
	:: work ->
		work = false;
		migrc_release_flushed()
	od
}
