/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Switching on and off (/sys/kernel/mm/tier/defer/enabled) with migrations in flight.
 *
 * One page of one mm, two migrators, write faults, a drain by age, and somebody who
 * switches on, off and on again.  A CPU is assumed to have the page in its TLB whenever
 * its PTE is cleared (stale).  The hooks are behind a static key, which the faulting CPU
 * sees change at some time between the begin and the end of the switching of the key.
 *
 * mark is 1 for a deferral since the last detach of a drain (seq > migrc_done), 2 for one
 * that a drain has detached and not yet flushed, 0 for done.
 *
 * I4 when a PTE becomes writable, no TLB has an old translation
 * I6 switching off promises as much: then nothing is queued, pending or marked
 *
 * Each of these switches must give a counterexample:
 *	MUT_NO_WAIT	I4 I6	off does not wait for migrations in flight
 *	MUT_SAMPLE	I4 I6	a migration looks at migrc_deferring before it is a reader of SRCU
 *	MUT_NO_FLUSH	I4 I6	off does not flush
 *	MUT_KEY_FIRST	I4	off switches the hooks off before it flushes
 *	MUT_ON_FIRST	I4	on allows deferrals before the hooks are on
 *	MUT_HOOK_EARLY	I4	a hook runs before the page-table lock is taken
 */
#include "common.pml"

hidden byte R_IN_FLIGHT, R_OLD_HOOK, R_FORCED, R_AGAIN, R_DRAINING, R_OFF;

bool key, defer;
bool reader[2], awaited[2];		/* SRCU: inside, and waited for */
bool ptl, writable, stale;
byte mark;
bool pending, queued, detached, migrc_mutex;
byte round;

/* __migrc_flush_all(); what it has taken is freed later: lifetime.pml */
inline migrc_flush_all()
{
	lock(migrc_mutex);
	atomic {				/* under migrc_lock */
		detached = pending;
		pending = false;
		queued = false;
		WHEN(mark == 1, mark = 2)
	};
	WHEN(detached, stale = false);		/* arch_tlbbatch_flush() */
	atomic {
		detached = false;
		WHEN(mark == 2, mark = 0);	/* migrc_done */
		unlock(migrc_mutex)
	}
}

/* migrate_pages_batch() */
proctype migrate(bit me)
{
	bool w, defers;

	/* __migrc_begin() */
	WITH(MUT_SAMPLE, defers = defer);
	reader[me] = true;		/* srcu_read_lock() */
	WITHOUT(MUT_SAMPLE, defers = defer);
	/* try_to_migrate_one() */
	lock(ptl);
	stale = true;			/* ptep_get_and_clear() */
	w = writable;
	if
	:: !w && defers ->
		/* __migrc_defer_pte() */
		atomic { pending = true; mark = 1; REACHED(R_IN_FLIGHT, !defer) }
	:: else ->
		stale = false;
		defers = false
	fi;
	/* remove_migration_ptes() */
	atomic { unlock(ptl); w = false };
	/* migrc_keep(), __migrc_end() */
	if
	:: defers ->
		atomic { queued = true; defers = false };	/* migrc_queue() */
		if
		:: true
		:: true -> migrc_flush_all()		/* lru_cache_disabled() */
		fi
	:: else
	fi;
	/* __migrc_end(): srcu_read_unlock() */
	atomic { reader[me] = false; awaited[me] = false }
}

inline hook()
{
	on = key;
	if
	:: on && mark ->
		/* __migrc_flush_mm() */
		stale = false;
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
		WITH(MUT_HOOK_EARLY, hook());
		lock(ptl);
		WITHOUT(MUT_HOOK_EARLY, hook());
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

/* the writer of enabled */
active proctype admin()
{
	do
	:: round == 0 || round == 2 ->
		/* migrc_start() */
		WITH(MUT_ON_FIRST, defer = true);
		key = true;			/* static_branch_enable(): on all CPUs */
		WITHOUT(MUT_ON_FIRST, defer = true);
		atomic { round++; REACHED(R_AGAIN, round == 3) }
	:: round == 1 || round == 3 ->
		/* migrc_stop() */
		defer = false;
		/* synchronize_srcu() */
		WITHOUT(MUT_NO_WAIT, atomic { awaited[0] = reader[0]; awaited[1] = reader[1] });
		WITHOUT(MUT_NO_WAIT, !awaited[0] && !awaited[1]);
		WITH(MUT_KEY_FIRST, key = false);
		atomic { REACHED(R_DRAINING, migrc_mutex) };
		WITHOUT(MUT_NO_FLUSH, migrc_flush_all());
		key = false;
		atomic { CHECK(I6, !mark && !pending && !queued); REACHED(R_OFF, true); round++ }
	:: round == 4 -> break
	od
}

init
{
	atomic { run migrate(0); run migrate(1) }
}
