/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Switching on and off (/sys/kernel/mm/migrc/enabled) with migrations in flight.
 *
 * One page of one mm, two migrators, write faults, a drain by age, and somebody who
 * switches on, off and on again.  A CPU is assumed to have the page in its TLB whenever
 * its PTE is cleared (stale).  The hooks are behind a static key, which the faulting CPU
 * sees change at some time between the begin and the end of the switching of the key.
 *
 * mark is 1 for a deferral since the last detach of a drain (gen > migrc_done), 2 for one
 * that a drain has detached and not yet flushed, 0 for done.
 *
 * I4 when a PTE becomes writable, no TLB has an old translation
 * I9 when switching off has returned, nothing is queued, pending or marked
 *
 * Each of these switches must give a counterexample:
 *	MUT_NO_WAIT	I4 I9	off does not wait for migrations in flight
 *	MUT_SAMPLE	I4 I9	a migration looks at defer before it is a reader of SRCU
 *	MUT_NO_FLUSH	I4 I9	off does not flush
 *	MUT_STARTED	I4 I9	off does not wait for the flush to be completed
 *	MUT_LOOK	I4 I9	off does not flush if it finds nothing pending or queued
 *	MUT_KEY_FIRST	I4	off switches the hooks off before it flushes
 *	MUT_ON_FIRST	I4	on allows deferrals before the hooks are on
 *	MUT_HOOK_EARLY	I4	a hook runs before the page-table lock is taken
 *	MUT_MUTEX	deadlock	off has migrc_flush_mutex while it waits for SRCU
 */
#include "common.pml"

hidden byte R_IN_FLIGHT, R_OLD_HOOK, R_FORCED, R_AGAIN, R_DRAINING, R_OFF;

bool key, defer;
bool reader[2], awaited[2];		/* SRCU: inside, and waited for */
bool ptl, writable, stale;
byte mark;
bool pending, queued, detached, flush_mutex;
byte round;

inline flush_tlb_mm()
{
	stale = false
}

/* the second half of migrc_flush_all() */
inline flush_detached()
{
	if
	:: detached -> flush_tlb_mm()	/* arch_tlbbatch_flush() */
	:: else
	fi;
	atomic {
		detached = false;
		if
		:: mark == 2 -> mark = 0	/* migrc_done */
		:: else
		fi
	}
}

inline detach()
{
	atomic {				/* under migrc_lock */
		detached = pending;
		pending = false;
		queued = false;
		if
		:: mark == 1 -> mark = 2
		:: else
		fi
	}
}

inline migrc_flush_all()
{
	lock(flush_mutex);
	detach();
	flush_detached();
	unlock(flush_mutex)
}

/* migrate_pages_batch() */
proctype migrate(bit me)
{
	bool w, defers;

	/* migrc_begin() */
#ifdef MUT_SAMPLE
	defers = defer;
	reader[me] = true;		/* srcu_read_lock() */
#else
	reader[me] = true;
	defers = defer;
#endif
	/* try_to_migrate_one() */
	lock(ptl);
	stale = true;			/* ptep_get_and_clear() */
	w = writable;
	if
	:: !w && defers ->
		/* migrc_defer_pte() */
		atomic { pending = true; mark = 1; REACHED(R_IN_FLIGHT, !defer) }
	:: else ->
		flush_tlb_mm();
		defers = false
	fi;
	/* remove_migration_ptes() */
	atomic { unlock(ptl); w = false };
	/* migrate_folio_done() */
	if
	:: defers ->
		atomic { queued = true; defers = false };	/* migrc_queue() */
		if
		:: true
		:: true -> migrc_flush_all()		/* by cap */
		fi
	:: else
	fi;
	/* migrc_end(): srcu_read_unlock() */
	atomic { reader[me] = false; awaited[me] = false }
}

inline hook()
{
	on = key;
	if
	:: on && mark ->
		/* migrc_flush_mm() */
		flush_tlb_mm();
		atomic { mark = 0; REACHED(R_FORCED, true) }
	:: else
	fi
}

/* wp_page_reuse(), twice; fork, say, makes it read-only again in between, and flushes */
active proctype fault()
{
	bool on;
	bit again;

	do
	:: true ->
#ifdef MUT_HOOK_EARLY
		hook();
		lock(ptl);
#else
		lock(ptl);
		hook();
#endif
		atomic {
			CHECK(I4, !stale);
			REACHED(R_OLD_HOOK, !on && defer);
			writable = true;
			on = false;
			unlock(ptl)
		};
		if
		:: again -> break
		:: else -> atomic { !ptl -> writable = false; again = true }
		fi
	od
}

active proctype age()
{
end:	pending || queued -> migrc_flush_all()
}

inline key_off()
{
	key = false
}

/* the writer of enabled */
active proctype admin()
{
	do
	:: round == 0 || round == 2 ->
		/* migrc_start() */
#ifdef MUT_ON_FIRST
		defer = true;
		key = true;
#else
		key = true;			/* static_branch_enable(): on all CPUs */
		defer = true;
#endif
		atomic { round++; REACHED(R_AGAIN, round == 3) }
	:: round == 1 || round == 3 ->
		/* migrc_stop() */
		defer = false;
#ifdef MUT_MUTEX
		lock(flush_mutex);
#endif
#ifndef MUT_NO_WAIT
		/* synchronize_srcu() */
		atomic { awaited[0] = reader[0]; awaited[1] = reader[1] };
		!awaited[0] && !awaited[1];
#endif
#ifdef MUT_KEY_FIRST
		key_off();
#endif
#if defined(MUT_NO_FLUSH)
		skip;
#elif defined(MUT_STARTED)
		lock(flush_mutex);
		detach();
		key_off();
		atomic { CHECK(I9, !mark && !pending && !queued) };
		flush_detached();
		unlock(flush_mutex);
#elif defined(MUT_LOOK)
		if
		:: pending || queued -> migrc_flush_all()
		:: else
		fi;
#elif defined(MUT_MUTEX)
		detach();
		flush_detached();
		unlock(flush_mutex);
#else
		atomic { REACHED(R_DRAINING, flush_mutex) };
		migrc_flush_all();
#endif
		key_off();
		atomic {
			CHECK(I9, !mark && !pending && !queued);
			REACHED(R_OFF, true);
			round++
		}
	:: round == 4 -> break
	od
}

init
{
	atomic { run migrate(0); run migrate(1) }
}
