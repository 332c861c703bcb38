/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lifetime of the source: publishing, the merge rule, queueing, draining, freeing.
 *
 * One migrator moves folio 0, and then folio 1 after one more migrc_settle(), as the kernel
 * does not today: what it keeps is queued at the end.  Another one moves folio 2.  Each folio
 * has a PTE in two mms, which run on CPUs 0 and 1; each PTE may be deferred or refused.  Every
 * CPU is assumed to have the old translation in its TLB when the PTE is cleared; tlb[folio] has
 * a bit for each CPU.  A batch that owes a flush flushes with it what is deferred, under
 * migrc_mutex, or keeps its sources if a drain is under way; a drain runs at any time.  Both free
 * with the mutex what they have taken.
 * Another task looks at a source with a reference of its own.
 *
 * I2 a folio is freed when nobody refers to it, and no TLB maps it
 * I7 a folio is queued only when the CPUs that may map it have been published
 *
 * Each of these switches must give a counterexample:
 *	MUT_RELEASE	I2	the source is released at once, not after the flush
 *	MUT_PUT_EARLY	I2	a drain releases its list before its flush has completed
 *	MUT_UNMASKED	I2 I7	the CPUs are not published at all
 *	MUT_LIST_LATE	I2	a drain takes the list after the flush, not with the CPUs
 *	MUT_MERGE	I2	a batch that owes a flush does not flush what it has deferred
 *	MUT_MERGE_LOOSE	I2	it does so without the mutex: a drain may have the CPUs
 *	MUT_MERGE_OWED	I2	it takes the list and flushes only what it owes
 *	MUT_KEEP_LAST	I2	what was kept before is freed if the last batch keeps nothing
 */
#include "common.pml"

#define OWNED 0		/* state of a folio: migration has it */
#define KEPT 1		/* migrc_batch.sources */
#define QUEUED 2
#define DETACHED 3	/* by a drain */
#define PUT 4		/* migration's reference is gone */

hidden byte R_QUEUED, R_MERGED, R_DRAINED_BEFORE, R_OTHER_LAST, R_EARLIER, R_OTHERS;
hidden byte R_BUSY;

byte state[3];
byte ref[3] = 1;	/* references; the first is migration's */
bool freed[3];
byte tlb[3];		/* bits of CPUs whose TLB maps the folio */
byte cpus;		/* migrc_cpus: bits */
byte flushing;		/* migrc_flushing */
bool migrc_mutex;

/* arch_tlbbatch_flush(): the CPUs answer one after the other */
inline flush_cpu(bits)
{
	d_step { tlb[0] = tlb[0] & ~(bits); tlb[1] = tlb[1] & ~(bits); tlb[2] = tlb[2] & ~(bits) }
}

inline flush(bits)
{
	flush_cpu((bits) & 1);
	flush_cpu((bits) & 2)
}

inline folio_put(f)
{
	atomic {
		CHECK(I2, ref[f] && !freed[f]);
		ref[f]--;
		WHEN(ref[f] == 0, CHECK(I2, tlb[f] == 0); freed[f] = true)
	}
}

inline put_listed(f)
{
	WHEN(list & (1 << f), state[f] = PUT; folio_put(f))
}

/* migrc_free() */
inline migrc_free()
{
	put_listed(0);
	put_listed(1);
	put_listed(2);
	list = 0
}

inline take(f)
{
	WHEN(state[f] == QUEUED, state[f] = DETACHED; list = list | (1 << f))
}

inline take_list()
{
	d_step { take(0); take(1); take(2) }
}

/* owed: bits of CPUs that the caller has to flush for pages that are not deferred */
inline __migrc_flush_all(owed)
{
	atomic {			/* under migrc_lock */
		REACHED(R_DRAINED_BEFORE, state[0] == QUEUED && !cpus);
		flushing = cpus;
		cpus = 0;
		WITHOUT(MUT_LIST_LATE, take_list())
	};
	WITH(MUT_PUT_EARLY, migrc_free());
	WITH(MUT_MERGE_OWED, flushing = (owed -> owed : flushing));
	flush(flushing | owed);
	WITH(MUT_LIST_LATE, take_list());
	flushing = 0;
	migrc_free();
	unlock(migrc_mutex)
}

/* migrate_unmap_pte() of one PTE of the folio */
inline unmap(f, cpu)
{
	tlb[f] = tlb[f] | cpu;			/* ptep_get_and_clear() */
	if
	:: !owed ->
		/* __migrc_defer_pte(): migrc_publish() under migrc_lock */
		deferred = deferred | cpu;
		WITHOUT(MUT_UNMASKED, cpus = cpus | cpu)
	:: true -> owed = owed | cpu		/* set_tlb_ubc_flush_pending() */
	fi
}

/* migrate_batch_flush() and migrate_batch_move() */
inline move(f)
{
	/* __migrc_settle() */
	keep = (deferred && !owed);
	if
	:: deferred && owed ->
#if defined(MUT_MERGE) || defined(MUT_MERGE_LOOSE)
		flush(EITHER(MUT_MERGE, owed, cpus | owed));
#else
		if
		:: atomic {		/* migrc_flush_owed() */
				!migrc_mutex -> migrc_mutex = true;
				REACHED(R_MERGED, true);
				REACHED(R_EARLIER, f == 1 && state[0] == KEPT);
				REACHED(R_OTHERS, f == 2 && state[0] == QUEUED)
			};
			__migrc_flush_all(owed)
		:: atomic { migrc_mutex -> REACHED(R_BUSY, flushing); keep = true };
			flush(owed)
		fi;
#endif
	:: !deferred && owed -> flush(owed)	/* try_to_unmap_flush() */
	:: else
	fi;
	/* copy, remove_migration_ptes(); migrate_folio_finish(): migrc_keep() */
	WITH(MUT_RELEASE, keep = false);
	if
	:: keep -> state[f] = KEPT
	:: else -> atomic { state[f] = PUT; folio_put(f) }
	fi;
	atomic { deferred = 0; owed = 0 }
}

/* __migrc_end(): migrc_queue() */
inline queue(f)
{
	if
	:: state[f] == KEPT ->
		atomic {
			CHECK(I7, !(tlb[f] & ~(cpus | flushing)));
			REACHED(R_QUEUED, tlb[f] == 3);
			state[f] = QUEUED
		}
	:: else
	fi
}

active proctype migrate0()
{
	byte deferred, owed, list;
	bool keep;

	unmap(0, 1);
	unmap(0, 2);
	move(0);
	unmap(1, 1);
	if
	:: unmap(1, 2)
	:: true			/* it has only one PTE */
	fi;
	move(1);
	WITH(MUT_KEEP_LAST, WHEN(!keep && state[0] == KEPT, state[0] = PUT; folio_put(0)));
	queue(0);
	queue(1)
}

active proctype migrate2()
{
	byte deferred, owed, list;
	bool keep;

	unmap(2, 1);
	unmap(2, 2);
	move(2);
	queue(2)
}

/* by age, by need, ... */
active proctype drain()
{
	byte list;

end:
	do
	:: cpus || state[0] == QUEUED || state[1] == QUEUED || state[2] == QUEUED ->
		lock(migrc_mutex);
		__migrc_flush_all(0)
	od
}

/* Another task finds folio 0 by its frame number: folio_try_get() */
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
