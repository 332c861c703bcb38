/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Threads of a node: see thread.c.
 */
#ifndef _MM_TIER_KMMSCAND_THREAD_H
#define _MM_TIER_KMMSCAND_THREAD_H

#include <linux/atomic.h>
#include <linux/types.h>
#include <linux/wait.h>

#include "cpu.h"

struct kmmscand_thread;
struct task_struct;

/**
 * struct thread_kind - what the threads of a node do
 * @name:  of the first thread, with %d for the node
 * @share: that pays for them
 * @bound: to the CPUs of the node
 * @alloc: what kmmscand_thread.data is to be, or NULL
 * @work:  returns false if there is nothing to do
 * @sleep: until there may be something, for the first thread
 */
struct thread_kind {
	const char *name;
	struct kmmscand_share *share;
	bool bound;
	void *(*alloc)(struct kmmscand_thread *t);
	bool (*work)(struct kmmscand_thread *t);
	void (*sleep)(struct kmmscand_thread *t);
};

/**
 * struct kmmscand_thread - a thread of a node
 * @kind: what the thread does
 * @arg:  of thread_start()
 * @nid:  node
 * @nr:   0: the first one
 * @next: that this one wakes
 * @task: kthread
 * @wait: for @wanted, but for the first one
 * @wanted: set by the thread before
 * @cpu:  CPU time
 * @data: of the thread, for kvfree(); allocated when the thread works for the first time
 */
struct kmmscand_thread {
	const struct thread_kind *kind;
	void *arg;
	int nid;
	unsigned int nr;
	struct kmmscand_thread *next;
	struct task_struct *task;
	wait_queue_head_t wait;
	atomic_t wanted;
	struct kmmscand_cpu cpu;
	void *data;
};

struct kmmscand_thread *thread_start(const struct thread_kind *kind, int nid, void *arg);
void thread_stop(struct kmmscand_thread *first);
void thread_help(struct kmmscand_thread *t, unsigned int nodes);
void thread_bind(struct kmmscand_thread *first);

#endif /* _MM_TIER_KMMSCAND_THREAD_H */
