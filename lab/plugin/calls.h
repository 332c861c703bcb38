/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which task runs on a vCPU, is it a kernel thread, and what kind of work is it
 * in? Registers and stacks cannot be read by a plugin, but addresses of memory
 * accesses can, and three kinds of them tell everything:
 *
 * - The load of the stack pointer in __switch_to_asm: every context switch
 *   passes it, and its address is that of the next task plus a constant. The
 *   store before it gives the task that leaves, in the same way.
 * - The store of each call: where the return address lies.
 * - The load of each return: the same place, so this call is over.
 *
 * So every task has a list of its open calls. A call into a function that begins
 * a kind of work changes the task's kind, its return restores it; the innermost
 * such function counts. As a tail call leaves the return address where it is,
 * its kind ends with the function that was called first.
 *
 * QEMU 7.2 also makes an instruction's memory callback for what the processor does
 * between it and the next one (the frame of an interrupt), and mixes up callbacks for
 * loads and for stores. So we ask for all, and take the first one of the right sort.
 *
 * The assembler functions that save all registers of a trap move their return
 * address. These calls are left out: nothing of interest is inside of them.
 *
 * Followed from boot on. A return whose call is not the last open one is counted
 * as unmatched: a result in which this is not rare is worth nothing. Every new
 * task has one, into ret_from_fork_asm.
 */
#ifndef LAB_PLUGIN_CALLS_H
#define LAB_PLUGIN_CALLS_H

#include <pthread.h>

#include "common.h"

#define MAX_DEPTH	512	/* of calls; a kernel stack is 16 KiB */
#define TASK_BUCKETS	1024

/* What entering a function means. */
enum { ENTER_NOTHING, ENTER_NEW_TASK, ENTER_THREAD, ENTER_MOVED, ENTER_KIND };

struct task {
	uint64_t id;		/* where its stack pointer is saved; 0: not known yet */
	struct task *next;
	bool thread;		/* of the kernel; idling is, too */
	unsigned int kind;
	unsigned int depth;
	struct call {
		uint64_t place;
		unsigned int kind;	/* of work before it */
	} calls[MAX_DEPTH];
};

static struct runner {
	struct task *task;
	bool pending;		/* a call or return has begun, its access comes */
	uint64_t returns, unmatched;
} MEM_ALIGNED runners[MAX_VCPUS];

static struct task *task_buckets[TASK_BUCKETS];
static pthread_mutex_t task_lock = PTHREAD_MUTEX_INITIALIZER;

static struct task *task_alloc(void)
{
	struct task *task = calloc(1, sizeof(*task));

	if (!task) {
		complain("no memory for a task");
		abort();
	}
	return task;
}

static void task_add(struct task *task, uint64_t id)
{
	struct task **bucket = &task_buckets[(id >> 6) % TASK_BUCKETS];

	task->id = id;
	task->next = *bucket;
	*bucket = task;
}

static void calls_init(unsigned int nr_vcpus)
{
	while (nr_vcpus--)
		runners[nr_vcpus].task = task_alloc();
}

static void on_call_or_return(unsigned int cpu, void *udata)
{
	(void)udata;
	runners[cpu].pending = true;
}

/* Is this the access of the call (a store) or return (a load) itself? */
static bool is_awaited(unsigned int cpu, qemu_plugin_meminfo_t info, bool store)
{
	bool awaited = runners[cpu].pending && qemu_plugin_mem_is_store(info) == store;

	if (awaited)
		runners[cpu].pending = false;
	return awaited;
}

/* The task that leaves. Only the first of a vCPU is not known already. */
static void on_switch_from(unsigned int cpu, qemu_plugin_meminfo_t info,
			   uint64_t vaddr, void *udata)
{
	struct task *task = runners[cpu].task;

	(void)info;
	(void)udata;
	if (task->id)
		return;
	pthread_mutex_lock(&task_lock);
	task_add(task, vaddr);
	pthread_mutex_unlock(&task_lock);
}

/* The lock also hands a task over from the vCPU that it ran on before. */
static void on_switch_to(unsigned int cpu, qemu_plugin_meminfo_t info,
			 uint64_t vaddr, void *udata)
{
	struct task *task;

	(void)info;
	(void)udata;
	pthread_mutex_lock(&task_lock);
	task = task_buckets[(vaddr >> 6) % TASK_BUCKETS];
	while (task && task->id != vaddr)
		task = task->next;
	if (!task) {
		task = task_alloc();
		task_add(task, vaddr);
	}
	runners[cpu].task = task;
	pthread_mutex_unlock(&task_lock);
}

static void on_call(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
		    void *udata)
{
	struct task *task = runners[cpu].task;

	(void)udata;
	if (!is_awaited(cpu, info, true))
		return;
	if (task->depth == MAX_DEPTH) {		/* cannot be: begin anew */
		task->depth = 0;
		runners[cpu].unmatched++;
	}
	task->calls[task->depth++] = (struct call){ .place = vaddr, .kind = task->kind };
}

static void on_return(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
		      void *udata)
{
	struct task *task = runners[cpu].task;
	unsigned int n = task->depth;

	(void)udata;
	if (!is_awaited(cpu, info, false))
		return;
	runners[cpu].returns++;
	while (n && task->calls[n - 1].place != vaddr)
		n--;
	if (!n || n != task->depth)
		runners[cpu].unmatched++;
	if (n) {
		task->depth = n - 1;
		task->kind = task->calls[n - 1].kind;
	}
}

static void on_enter(unsigned int cpu, void *udata)
{
	unsigned int what = (uintptr_t)udata;
	struct task *task = runners[cpu].task;

	switch (what) {
	case ENTER_NEW_TASK:	/* maybe where another one was before */
		task->thread = false;
		task->depth = 0;
		task->kind = 0;
		break;
	case ENTER_THREAD:
		task->thread = true;
		break;
	case ENTER_MOVED:	/* it will return from elsewhere, unseen */
		if (task->depth)
			task->depth--;
		break;
	default:
		task->kind = what - ENTER_KIND;
	}
}

/* In user code no call of the kernel is open. */
static inline void task_in_user_code(struct task *task)
{
	if (task->depth) {
		task->depth = 0;
		task->kind = 0;
	}
}

#endif
