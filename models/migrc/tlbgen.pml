/* SPDX-License-Identifier: GPL-2.0 */
/*
 * tlb_gen: a CPU that leaves the mm, is lazy, or comes back under the same PCID.
 *
 * One CPU, as arch/x86/mm/tlb.c sees it: it runs user code of the mm, or a kernel thread
 * with the mm still loaded (lazy, not interrupted for a drain), or another mm; its TLB
 * keeps the entry then (PCID).  The page moves from frame A (1) to B (2) once, deferred.
 * A drain and a forced flush come later, and a flush of something else of the mm at any
 * time.  Interrupts are off during a switch, so the CPU answers no IPI then.
 *
 * I2 no frame that is free is used through a TLB
 * I4 no old translation is used once the page has been written
 * I8 who switches in with an old translation is among the CPUs that a drain will flush
 *
 * Each of these switches must give a counterexample:
 *	MUT_NO_GEN	I2 I8	the deferral does not move tlb_gen
 *	MUT_GEN_LATE	I2 I8	tlb_gen moves when the drain begins, not at unmap
 *	MUT_GEN_FIRST	I2	tlb_gen moves before the PTE is cleared
 *	MUT_MASK_FIRST	I2 I8	mm_cpumask is read before tlb_gen moves
 *	MUT_NO_IPI	I2 I4	drain and forced flush leave all to the next switch
 */
#include "common.pml"

#define A 1
#define B 2
#define NOT_PRESENT 3

#define RUNNING 0
#define LAZY 1
#define AWAY 2
#define SWITCHING 3

#define DRAIN 0		/* who sends an IPI */
#define FORCED 1
#define OTHER 2

hidden byte R_PCID, R_LAZY, R_IPI, R_LAZY_SKIPPED, R_USED, R_WRITTEN;

byte pte = A, tlb, cpu = RUNNING;
bool irqs_off, in_mask = true;		/* the CPU is in mm_cpumask */
byte tlb_gen = 1, local_gen = 1;	/* of the mm, and what the CPU has caught up with */
bool pending, detached, published, freed, written;	/* pending, detached: the CPU's bit */
bool ipi[3];
byte ipi_gen[3];
bool queued;

/* flush_tlb_func() */
inline answer(who)
{
	d_step {
		if
		:: cpu == AWAY -> skip
		:: cpu == LAZY -> cpu = AWAY; in_mask = false	/* switch to init_mm */
		:: cpu == RUNNING && ipi_gen[who] && ipi_gen[who] <= local_gen -> skip
		:: cpu == RUNNING && !(ipi_gen[who] && ipi_gen[who] <= local_gen) ->
			if
			:: local_gen != tlb_gen -> tlb = 0; local_gen = tlb_gen
			:: else
			fi
		fi;
		ipi[who] = false
	}
}

/* The end of switch_mm_irqs_off(): g has been read before */
inline catch_up()
{
	atomic {
		if
		:: local_gen != g -> tlb = 0; local_gen = g
		:: else
		fi;
		g = 0;
		cpu = RUNNING;
		CHECK(I8, !(tlb == A && published && !pending && !detached));
		irqs_off = false
	}
}

active proctype processor()
{
	byte g;

end:
	do
	:: atomic { cpu == RUNNING && tlb == 0 && pte != NOT_PRESENT -> tlb = pte }
	:: atomic {
		cpu == RUNNING && tlb ->
		CHECK(I2, !(tlb == A && freed));
		CHECK(I4, !(tlb == A && written));
		REACHED(R_USED, tlb == A && queued);
		REACHED(R_WRITTEN, tlb == B && written)
	}
	:: atomic { cpu == RUNNING -> cpu = LAZY }	/* enter_lazy_tlb() */
	:: atomic { cpu == LAZY -> irqs_off = true };
		cpu = SWITCHING;			/* is_lazy = false; smp_mb() */
		g = tlb_gen;
		atomic { REACHED(R_LAZY, tlb == A && local_gen != g) };
		catch_up()
	:: atomic { cpu == RUNNING || cpu == LAZY -> irqs_off = true };
		atomic { cpu = SWITCHING; in_mask = false };
		atomic { cpu = AWAY; irqs_off = false }
	:: atomic { cpu == AWAY -> irqs_off = true };
		atomic { cpu = SWITCHING; in_mask = true };
		g = tlb_gen;
		atomic { REACHED(R_PCID, tlb == A && local_gen != g) };
		catch_up()
	:: atomic { ipi[DRAIN] && !irqs_off -> REACHED(R_IPI, tlb == A); answer(DRAIN) }
	:: atomic { ipi[FORCED] && !irqs_off -> answer(FORCED) }
	:: atomic { ipi[OTHER] && !irqs_off -> answer(OTHER) }
	od
}

/* flush_tlb_mm(): also to lazy CPUs, since it may have freed page tables */
inline flush_tlb_mm(who)
{
	atomic { tlb_gen++; ipi_gen[who] = tlb_gen };
	if
	:: in_mask -> ipi[who] = true
	:: else
	fi;
	!ipi[who]
}

active proctype migrate()
{
	/* try_to_migrate_one(): ptep_get_and_clear(), then migrc_defer_pte() */
#ifdef MUT_GEN_FIRST
	tlb_gen++;
#endif
	pte = NOT_PRESENT;
#ifdef MUT_MASK_FIRST
	pending = in_mask;
#endif
#if !defined(MUT_NO_GEN) && !defined(MUT_GEN_LATE) && !defined(MUT_GEN_FIRST)
	tlb_gen++;			/* inc_mm_tlb_gen() */
#endif
#ifndef MUT_MASK_FIRST
	atomic {
		pending = in_mask;
		published = true
	};
#else
	published = true;
#endif
	pte = B;			/* remove_migration_ptes() */
	queued = true			/* migrc_queue() */
}

/* migrc_flush_all() */
active proctype drain()
{
	queued ->
	atomic { detached = pending; pending = false };
#ifdef MUT_GEN_LATE
	tlb_gen++;
#endif
	/* arch_tlbbatch_flush(): should_flush_tlb() leaves lazy CPUs out */
#ifndef MUT_NO_IPI
	atomic {
		if
		:: detached && cpu != LAZY -> ipi[DRAIN] = true
		:: else -> REACHED(R_LAZY_SKIPPED, detached && tlb == A)
		fi
	};
#endif
	!ipi[DRAIN];
	atomic { detached = false; freed = true }
}

/* wp_page_reuse(): migrc_flush_mm(), then the PTE is writable, then the page is written */
active proctype fault()
{
	queued ->
#ifndef MUT_NO_IPI
	flush_tlb_mm(FORCED);
#endif
	written = true
}

/* munmap() of something else, say */
active proctype other()
{
	flush_tlb_mm(OTHER)
}
