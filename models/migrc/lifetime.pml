/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lifetime of the source: publishing, queueing, draining, and folios that are mixed.
 *
 * Two migrators move one folio each (0 and 1).  Folio 0 is mapped read-only by two mms,
 * which run on CPUs 0 and 1; each of its PTEs may be deferred or refused.  Folio 1 is
 * mapped by the mm of CPU 0 only.  Every CPU is assumed to have the old translation in
 * its TLB when the PTE is cleared; tlb[folio] has a bit for each CPU.  Two drains run at
 * any time, a flush that a migrator owes may serve what was deferred, and somebody looks at a
 * source with a reference of his own.
 *
 * I2 a folio is freed when nobody refers to it, and no TLB maps it
 * I7 a folio is queued only when the CPUs that may map it have been published
 *
 * Each of these switches must give a counterexample:
 *	MUT_RELEASE	I2	the source is released at once, not after the flush
 *	MUT_PUT_EARLY	I2	a drain releases its list before its flush has completed
 *	MUT_LAST_REF	I2	a drain takes its reference for the last one and frees
 *	MUT_QUEUE_FIRST	I2 I7	the source is queued before its CPUs are published
 *	MUT_UNMASKED	I2 I7	the CPUs are not published at all
 *	MUT_LIST_LATE	I2	a drain takes the list after the flush, not with the mask
 *	MUT_IN_PLACE	I2	a drain flushes migrc_cpus itself and clears it then
 *	MUT_MIXED	I2	a folio with a refused PTE is not flushed, and not queued
 *	MUT_MIXED_LOOK	I2	its flush is left out if migrc_cpus is empty: a drain
 *				that has detached it may still be under way
 *	MUT_ALONG	I2	an owed flush serves although it leaves out a CPU
 *	MUT_ALONG_LOOK	I2 I7	its CPUs are compared before the list is taken
 */
#include "common.pml"

#define OWNED 0		/* state of a folio: migration has it */
#define QUEUED 1
#define DETACHED 2	/* by a drain */
#define PUT 3		/* migration's reference is gone */

hidden byte R_QUEUED, R_MIXED, R_DRAINED_BEFORE, R_SECOND, R_OTHER_LAST, R_ALONG, R_TOO_FEW;

byte state[2];
byte ref[2] = 1;	/* references; the first is migration's */
bool freed[2];
byte tlb[2];		/* bits of CPUs whose TLB maps the folio */
byte pending;		/* migrc_cpus: bits of CPUs to be flushed */
bool flush_mutex;
byte flushing, list;	/* of the drain that has the mutex: bits of CPUs, of folios */

inline flush_cpu(bits)
{
	d_step {
		tlb[0] = tlb[0] & ~(bits);
		tlb[1] = tlb[1] & ~(bits)
	}
}

/* arch_tlbbatch_flush(): the CPUs answer in any order */
inline flush(cpus)
{
	do
	:: cpus & 1 -> flush_cpu(1); cpus = cpus & ~1
	:: cpus & 2 -> flush_cpu(2); cpus = cpus & ~2
	:: !cpus -> break
	od
}

inline folio_put(f)
{
	atomic {
		CHECK(I2, ref[f] && !freed[f]);
		ref[f]--;
		if
		:: ref[f] == 0 -> CHECK(I2, tlb[f] == 0); freed[f] = true
		:: else
		fi
	}
}

inline put_listed(f)
{
	if
	:: list & (1 << f) ->
		state[f] = PUT;
#ifdef MUT_LAST_REF
		atomic { CHECK(I2, tlb[f] == 0); ref[f] = 0; freed[f] = true };
#else
		folio_put(f);
#endif
	:: else
	fi
}

inline put_list()
{
	put_listed(0);
	put_listed(1);
	list = 0
}

inline take_list()
{
	d_step {
		list = (state[0] == QUEUED) + 2 * (state[1] == QUEUED);
		if
		:: state[0] == QUEUED -> state[0] = DETACHED
		:: else
		fi;
		if
		:: state[1] == QUEUED -> state[1] = DETACHED
		:: else
		fi
	}
}

inline migrc_flush_all()
{
	lock(flush_mutex);
	atomic {			/* under migrc_lock */
		REACHED(R_DRAINED_BEFORE, state[0] == QUEUED && !pending);
		flushing = pending;
#ifndef MUT_IN_PLACE
		pending = 0;
#endif
#ifndef MUT_LIST_LATE
		take_list()
#endif
	};
#ifdef MUT_PUT_EARLY
	put_list();
#endif
	flush(flushing);
#ifdef MUT_IN_PLACE
	pending = 0;
#endif
#ifdef MUT_LIST_LATE
	take_list();
#endif
	put_list();
	unlock(flush_mutex)
}

/* One PTE in try_to_migrate_one() */
inline unmap(f, cpu)
{
	tlb[f] = tlb[f] | cpu;			/* ptep_get_and_clear() */
	if
	:: true ->
		/* migrc_defer_pte(): migrc_publish() under migrc_lock */
		deferred = deferred | cpu;
#if !defined(MUT_QUEUE_FIRST) && !defined(MUT_UNMASKED)
		pending = pending | cpu
#endif
	:: true -> batch = batch | cpu	/* refused: set_tlb_ubc_flush_pending() */
	fi
}

/* migrc_flush_along(), if the mutex is free */
inline flush_along()
{
	atomic { !flush_mutex -> flush_mutex = true };
#ifdef MUT_ALONG_LOOK
	along = !(pending & ~batch);
#endif
	atomic {			/* under migrc_lock */
#if defined(MUT_ALONG)
		along = true;
#elif !defined(MUT_ALONG_LOOK)
		along = !(pending & ~batch);
#endif
		REACHED(R_TOO_FEW, !along);
		if
		:: along -> flushing = batch; pending = 0; take_list()
		:: else
		fi;
		REACHED(R_ALONG, along && list)
	};
	if
	:: along -> flush(flushing); put_list(); batch = 0
	:: else
	fi;
	unlock(flush_mutex)
}

inline move(f)
{
	mixed = deferred && batch;
	/* try_to_unmap_flush() */
	if
	:: batch -> flush_along()
	:: true
	fi;
	flush(batch);
	if
	:: mixed ->
		/* migrc_settle() */
		REACHED(R_MIXED, true);
#ifdef MUT_MIXED_LOOK
		if
		:: pending -> migrc_flush_all()
		:: else
		fi;
#elif !defined(MUT_MIXED)
		migrc_flush_all();
#endif
		deferred = 0
	:: else
	fi;
	/* copy, remove_migration_ptes(); then migrate_folio_done() */
#ifdef MUT_RELEASE
	deferred = 0;
#endif
	if
	:: deferred ->
		/* migrc_queue() */
		atomic {
			CHECK(I7, !(tlb[f] & ~(pending | flushing)));
			REACHED(R_QUEUED, tlb[0] == 3);
			REACHED(R_SECOND, state[1 - f] == DETACHED);
			state[f] = QUEUED
		};
#ifdef MUT_QUEUE_FIRST
		pending = pending | deferred;
#endif
		deferred = 0
	:: else -> atomic { state[f] = PUT; folio_put(f) }
	fi
}

active proctype migrate0()
{
	byte deferred, batch;
	bool mixed, along;

	unmap(0, 1);
	unmap(0, 2);
	move(0)
}

active proctype migrate1()
{
	byte deferred, batch;
	bool mixed, along;

	unmap(1, 1);
	move(1)
}

/* by cap, age, pressure, ... */
active [2] proctype drain()
{
	migrc_flush_all()
}

/* Somebody who finds folio 0 by its frame number: folio_try_get() */
active proctype look()
{
	if
	:: atomic { ref[0] -> ref[0]++ };
		atomic {
			CHECK(I2, !freed[0]);
			REACHED(R_OTHER_LAST, state[0] == PUT && ref[0] == 1)
		};
		folio_put(0)
	:: ref[0] == 0
	fi
}
