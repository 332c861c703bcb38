/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Those who need what is queued: offlining, contiguous allocation, and a lack of memory.
 *
 * A migration moves page 0 out of a block, deferred.  Somebody wants the whole block: he
 * disables the LRU caches, drains (lru_cache_disable(), __lru_add_drain_all()), moves page 1
 * himself, and tries again until the block is free.  An allocation that finds nothing drains
 * before it gives up.  Each of the others who drain comes once, at any time.  There is no
 * drain by age here, which may be a minute away; a drain at the cap may be under way at any
 * time, or a flush of others that serves as one, and leaves what was queued to a worker, who
 * comes late.
 *
 * I9 what was queued when a drain was asked for is free when it returns, what offlining
 *    moves is free at once, and no allocation fails because of the queue; with -DLIVE:
 *    offlining ends
 *
 * Each of these switches must give a counterexample:
 *	MUT_ISOLATE	I9	no drain in __lru_add_drain_all()
 *	MUT_PRESSURE	I9	no drain before an allocation fails
 *	MUT_REASON	I9	offlining defers the flushes of its own migrations
 *	MUT_DETACHED	I9	what a drain under way has detached is not counted any more
 *	MUT_FLUSHED	I9	a drain leaves to the worker what is flushed already
 *	MUT_FAILURE	I9	no drain in memory_failure()
 *	MUT_SOFT	I9	no drain in soft_offline_page()
 *	MUT_CONTIG	I9	no drain in alloc_contig_range()
 *	MUT_FREEZE	I9	no drain before tasks are frozen: migrc_pm_notify()
 *	MUT_OOM	I9	no drain before somebody is killed: __alloc_pages_may_oom()
 *	MUT_KSWAPD	I9	no drain before kswapd counts a failure: migrc_drain_node()
 *	MUT_ONCE	cycle	a migration in flight does not look again whether the LRU caches
 *				are disabled: its source is queued when the drain is over
 *	MUT_LOOK_FIRST	cycle	it looks again before its source is queued
 */
#include "common.pml"

#define MAPPED 0
#define IN_FLIGHT 1
#define QUEUED 2
#define DETACHED 3
#define FLUSHED 4
#define FREE 5
#define HELD(p) (page[p] >= QUEUED && page[p] <= FLUSHED)

/* What a drain takes */
#ifdef MUT_FLUSHED
#define TAKEN(p) (page[p] == QUEUED)
#else
#define TAKEN(p) (page[p] == QUEUED || page[p] == FLUSHED)
#endif

#ifdef MUT_DETACHED
#define NONE_HELD (page[0] != QUEUED && page[1] != QUEUED)
#else
#define NONE_HELD (!HELD(0) && !HELD(1))	/* migrc_nr_all == 0 */
#endif

hidden byte R_WAITED, R_LATE, R_ALLOCATED, R_BEGUN, R_FAILED, R_WORKER, R_OTHERS;

byte page[2];			/* of the block: state */
bool flush_mutex, cache_disabled, offline;

#ifdef LIVE
ltl I9_live { <> offline }
#endif

inline migrc_flush_all()
{
	lock(flush_mutex);
	d_step {			/* under migrc_lock */
		if
		:: TAKEN(0) -> page[0] = DETACHED
		:: else
		fi;
		if
		:: TAKEN(1) -> page[1] = DETACHED
		:: else
		fi
	};
	skip;				/* arch_tlbbatch_flush() */
	migrc_release();
	unlock(flush_mutex)
}

inline migrc_release()
{
	d_step {
		if
		:: page[0] == DETACHED -> page[0] = FREE
		:: else
		fi;
		if
		:: page[1] == DETACHED -> page[1] = FREE
		:: else
		fi
	}
}

inline migrc_drain()
{
	if
	:: NONE_HELD
	:: else -> migrc_flush_all()
	fi
}

/* Demotion of page 0 */
active proctype migrate()
{
	bool again;

	if
	:: cache_disabled		/* migrc_begin(): lru_cache_disabled() */
	:: else ->
		if
		:: atomic { page[0] == MAPPED -> page[0] = IN_FLIGHT };
#ifdef MUT_LOOK_FIRST
			again = cache_disabled;
#endif
			/* migrc_end(), migrc_queue() */
			atomic { page[0] = QUEUED; REACHED(R_LATE, cache_disabled) };
#if !defined(MUT_ONCE) && !defined(MUT_LOOK_FIRST)
			again = cache_disabled;
#endif
			if
			:: again -> migrc_flush_all()
			:: else
			fi
		:: page[0] == FREE	/* somebody else has moved it */
		fi
	fi
}

active proctype cap()
{
	migrc_flush_all()
}

/* __migrc_flush_along(), of a flush that goes to all CPUs that matter; only page 0 is deferred */
active proctype along()
{
	bool some;

	if
	:: atomic { !flush_mutex -> flush_mutex = true };
		d_step {		/* under migrc_lock */
			some = page[0] == QUEUED;
			page[0] = (some -> DETACHED : page[0])
		};
		skip;			/* arch_tlbbatch_flush() */
		page[0] = (some -> FLUSHED : page[0]);
		some = false;
		unlock(flush_mutex)
	:: flush_mutex
	fi;

	/* migrc_release_fn() */
	if
	:: true				/* not before the others have ended */
	:: atomic {
		page[0] == FLUSHED && !flush_mutex ->
		REACHED(R_WORKER, true);
		flush_mutex = true;
		page[0] = DETACHED
	};
		migrc_release();
		unlock(flush_mutex)
	fi
}

/*
 * offline_pages(); alloc_contig_range(), which has isolated the block by then, and gives up
 * if it is not free after one round
 */
active proctype isolate()
{
	bool queued;

	cache_disabled = true;
	/* __lru_add_drain_all() */
	atomic { queued = HELD(0); REACHED(R_WAITED, page[0] == DETACHED || page[0] == FLUSHED) };
#ifndef MUT_ISOLATE
	migrc_drain();
#endif
	atomic {
		CHECK(I9, !queued || page[0] == FREE);
		REACHED(R_BEGUN, page[0] == IN_FLIGHT);
		queued = false
	};
	/* do_migrate_range() */
	do
	:: atomic { page[0] == MAPPED -> page[0] = FREE }
	:: atomic {
		page[1] == MAPPED ->
#ifdef MUT_REASON
		page[1] = QUEUED;
#else
		page[1] = FREE;
#endif
		CHECK(I9, !HELD(1))
	}
	:: page[0] == FREE && page[1] == FREE -> break
	od;
	offline = true
}

/*
 * Who comes from a place of its own, and relies on the same: for a page frame that has failed
 * or is to be taken out of use, for some in a row, when tasks are to be frozen, and for memory
 * before somebody is killed or kswapd counts a failure
 */
active proctype others()
{
	bool queued;

	atomic { queued = HELD(0) };
	if
#ifndef MUT_FAILURE
	:: true -> migrc_drain()	/* memory_failure() */
#else
	:: true
#endif
#ifndef MUT_SOFT
	:: true -> migrc_drain()	/* soft_offline_page() */
#else
	:: true
#endif
#ifndef MUT_CONTIG
	:: true -> migrc_drain()	/* alloc_contig_range(), once its migrations are done */
#else
	:: true
#endif
#ifndef MUT_FREEZE
	:: true -> migrc_drain()	/* migrc_pm_notify() */
#else
	:: true
#endif
#ifndef MUT_OOM
	:: true -> migrc_drain()	/* __alloc_pages_slowpath(), before __alloc_pages_may_oom() */
#else
	:: true
#endif
#ifndef MUT_KSWAPD
	:: true -> migrc_drain()	/* balance_pgdat(): migrc_drain_node() */
#else
	:: true
#endif
	fi;
	atomic {
		CHECK(I9, !queued || page[0] == FREE);
		REACHED(R_OTHERS, queued);
		queued = false
	}
}

/* __alloc_pages_slowpath(): what is FREE can be had */
active proctype allocate()
{
	bool queued;

	atomic { queued = HELD(0) };
	if
	:: page[0] == FREE || page[1] == FREE -> goto got
	:: else
	fi;
#ifndef MUT_PRESSURE
	migrc_drain();
#endif
	atomic {
		if
		:: page[0] == FREE || page[1] == FREE -> REACHED(R_ALLOCATED, queued)
		:: else -> CHECK(I9, !queued); REACHED(R_FAILED, true)
		fi
	};
got:
	skip
}
