/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory order: three litmus tests with a store buffer for each CPU.
 *
 * A CPU's stores become visible to others later, in their order (x86: TSO).  A locked
 * instruction or a full barrier waits until they are visible.  No CPU loads here what it
 * has stored itself, so that no load is served from the buffer.  One of three tests runs:
 *
 * 1. A PTE is cleared, tlb_gen moves, mm_cpumask is read and published; meanwhile a CPU that
 *    has an old entry under its PCID, or none, enters mm_cpumask, reads tlb_gen and walks.
 * 2. A drain sees that the other CPU has flushed, and sets migrc_done; a fault that sees this
 *    lets a write through.  Here TSO needs no barrier: release and acquire are plain stores
 *    and loads, and only a CPU that stores before its earlier loads are done would break it,
 *    or the compiler (MUT_RELEASE, MUT_ACQUIRE).
 * 3. A source is queued, and lru_disable_count is read; meanwhile that is raised, and the
 *    drain looks at the queue.
 *
 * I2 a CPU that keeps an old entry is one that a drain interrupts, and that then finds tlb_gen new
 * I4 who lets a write through by migrc_done does so after the flush
 * I7 (for 3.) a source is queued where one of both sees it and drains
 *
 * Each of these switches must give a counterexample:
 *	MUT_GEN_PLAIN	I2	1: the clearing of the PTE and tlb_gen are no locked instructions
 *	MUT_GEN_FIRST	I2	1: tlb_gen moves before the PTE is cleared
 *	MUT_MASK_PLAIN	I2	1: the CPU enters mm_cpumask by a plain store
 *	MUT_GEN_EARLY	I2	1: it reads tlb_gen before it enters mm_cpumask
 *	MUT_RELEASE	I4	2: migrc_done is visible before the drain's loads are done
 *	MUT_ACQUIRE	I4	2: the write is, before migrc_done is read
 *	MUT_QUEUE_MB	I7	3: no barrier after queueing
 *	MUT_COUNT_MB	I7	3: no barrier after lru_disable_count is raised
 */
#include "common.pml"

#define PTE 0		/* 1: maps the source */
#define GEN 1
#define MASK 2
#define ACK 3
#define DONE 4
#define WRITE 5
#define QUEUE 6
#define COUNT 7

hidden byte R_OLD_ENTRY, R_WALKED_OLD, R_FLUSHED, R_PUBLISHED, R_DONE, R_BOTH, R_BUFFERED;

byte mem[8];
chan buffer[2] = [3] of { byte, byte };
byte test;
bool entry, published, over[2];
byte local_gen;
bool stale;		/* test 2: the TLB of the CPU that answers */
byte sees[2];		/* test 3: what the two have found */

active [2] proctype store_buffer()
{
	byte where, what;

end:
	do
	:: atomic { buffer[_pid]?where,what -> mem[where] = what; where = 0; what = 0 }
	od
}

inline store(cpu, where, what)
{
	buffer[cpu]!where,what
}

inline mb(cpu)
{
	empty(buffer[cpu])
}

inline locked_store(cpu, where, what)
{
	atomic { empty(buffer[cpu]) -> mem[where] = what }
}

/* 1: migrate_unmap_pte(), migrc_publish(): arch_tlbbatch_add_pending() */
inline unmap()
{
	WITH(MUT_GEN_FIRST, locked_store(0, GEN, 1);)
	WITH(MUT_GEN_FIRST, published = mem[MASK];)
	EITHER(MUT_GEN_PLAIN, store(0, PTE, 0), locked_store(0, PTE, 0));	/* xchg */
	/* inc_mm_tlb_gen() */
	WITHOUT(MUT_GEN_FIRST, EITHER(MUT_GEN_PLAIN, store(0, GEN, 1), locked_store(0, GEN, 1)));
	WITHOUT(MUT_GEN_FIRST, published = mem[MASK]);
	atomic { REACHED(R_PUBLISHED, published) }
}

/* 1: switch_mm_irqs_off(), and a walk of the page table; interrupts are off until the end */
inline enter()
{
	atomic {
		if
		:: true -> entry = true		/* from before, under its PCID */
		:: true
		fi
	};
	WITH(MUT_GEN_EARLY, local_gen = mem[GEN]);
	/* cpumask_set_cpu() */
	EITHER(MUT_MASK_PLAIN, store(1, MASK, 1), locked_store(1, MASK, 1));
	WITHOUT(MUT_GEN_EARLY, local_gen = mem[GEN]);
	if
	:: atomic { local_gen -> REACHED(R_FLUSHED, entry); entry = false }
	:: else -> REACHED(R_OLD_ENTRY, entry)
	fi;
	if
	:: atomic { !entry && mem[PTE] -> entry = true; REACHED(R_WALKED_OLD, mem[MASK]) }
	:: entry || !mem[PTE]
	fi
}

/* 2: __migrc_flush_all(): smp_call_function_many_cond() returns, smp_store_release() */
inline drain()
{
	WITH(MUT_RELEASE, store(0, DONE, 1);)
	mem[ACK];
	WITHOUT(MUT_RELEASE, store(0, DONE, 1))
}

/* 2: migrc_mark_pending(), ptep_set_access_flags(): smp_load_acquire() */
inline fault()
{
	WITH(MUT_ACQUIRE, store(1, WRITE, 1);)
	mem[DONE];
	WITHOUT(MUT_ACQUIRE, store(1, WRITE, 1))
}

/* 2: flush_tlb_func(), and a look at what was written */
active proctype other()
{
end:
	test == 2 ->
	do
	:: atomic { stale -> stale = false }
	:: atomic { !stale && !mem[ACK] -> mem[ACK] = 1 }
	:: atomic { mem[WRITE] -> CHECK(I4, !stale); REACHED(R_DONE, mem[DONE]); break }
	od
}

/* 3: migrc_queue(): spin_unlock() is a plain store */
inline queue()
{
	store(0, QUEUE, 1);
	WITHOUT(MUT_QUEUE_MB, mb(0));
	sees[0] = mem[COUNT]
}

/* 3: lru_cache_disable(): synchronize_rcu_expedited(), __lru_add_drain_all(): __migrc_drain() */
inline disable()
{
	store(1, COUNT, 1);
	atomic { REACHED(R_BUFFERED, !mem[COUNT]) };
	WITHOUT(MUT_COUNT_MB, mb(1));
	sees[1] = mem[QUEUE]
}

active proctype first()
{
	if
	:: atomic { mem[PTE] = 1; test = 1 }; unmap()
	:: atomic { stale = true; test = 2 }; drain()
	:: test = 3; queue()
	fi;
	over[0] = true
}

active proctype second()
{
	if
	:: test == 1 -> enter()
	:: test == 2 -> fault()
	:: test == 3 -> disable()
	fi;
	over[1] = true
}

active proctype end_of_test()
{
end:
	atomic { over[0] && over[1] && empty(buffer[0]) && empty(buffer[1]) ->
		if
		:: test == 1 -> CHECK(I2, !entry || (published && !local_gen))
		:: test == 2
		:: test == 3 ->
			CHECK(I7, sees[0] || sees[1]);
			REACHED(R_BOTH, sees[0] && sees[1])
		fi
	}
}
