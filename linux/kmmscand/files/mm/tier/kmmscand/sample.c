// SPDX-License-Identifier: GPL-2.0
/*
 * Which address spaces run?
 *
 * SAMPLES times a second, with jitter, a work item for each fast node looks at the running task of
 * each CPU of the node, and of those of nodes nearest to it that have no fast memory.  A thread
 * that uses a share u of a CPU is seen after 1 / (SAMPLES * u) seconds on average: after 6 s at 1
 * %.
 *
 * The work item itself takes a CPU from a thread.  A timer starts the work item, and looks at the
 * task that the timer has interrupted.  The work item starts the timer again.  So the timer is on
 * the CPU of the last work item unless that CPU was idle, and an unbound worker that always comes
 * to one CPU hides no thread there.  With threaded softirqs (threadirqs, PREEMPT_RT), and on a
 * nohz_full CPU that unbound work items may use, the thread stays hidden.
 *
 * Cost: the lock of each run queue, and a look up in the hash of address spaces: SAMPLES * CPUs *
 * 0.3 us a second.  The work item interrupts no other CPU, and looks at CPUs without a tick
 * (nohz_full) like at others.
 *
 * A kernel thread that has borrowed an address space (vhost, io_uring workers are user threads)
 * does not count, but by PF_USER_WORKER.
 *
 * Locking: RCU keeps the task; its mm is read under task_lock().  The timer reads the mm of
 * current, which holds mm_users as long as the pointer is there.
 */

#include <linux/cpumask.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/smp.h>
#include <linux/timer.h>
#include <linux/topology.h>
#include <linux/workqueue.h>

#include "control.h"
#include "events.h"
#include "fault.h"
#include "sample.h"
#include "space.h"

#define SAMPLES		16

/*
 * @timer: starts @work
 * @home:  fast node
 * @cpu:   at which @timer has looked
 * @mm:    that was in use there, or NULL; with mm_count held, for @work
 */
struct sampler {
	struct timer_list timer;
	struct work_struct work;
	int home;
	int cpu;
	struct mm_struct *mm;
};

static struct workqueue_struct *sample_wq;
static struct sampler samplers[MAX_NUMNODES];
static int sample_homes[MAX_NUMNODES];	/* fast node with workers, of each node */

static struct mm_struct *sample_cpu(int cpu)
{
	struct mm_struct *mm = NULL;
	struct task_struct *task;

	rcu_read_lock();
	task = cpu_curr_snapshot(cpu);
	if (!(READ_ONCE(task->flags) & PF_KTHREAD)) {
		task_lock(task);
		mm = task->mm;
		if (mm)
			mmgrab(mm);
		task_unlock(task);
	}
	rcu_read_unlock();
	return mm;
}

static void sample_drop(struct sampler *sampler)
{
	if (sampler->mm)
		mmdrop(sampler->mm);
	sampler->mm = NULL;
}

static void sample_timer(struct timer_list *timer)
{
	struct sampler *sampler = from_timer(sampler, timer, timer);
	struct task_struct *task = current;

	sampler->cpu = smp_processor_id();
	sampler->mm = NULL;
	if (!(task->flags & PF_KTHREAD) && task->mm && !kmmscand_fault(OWN_CPU)) {
		sampler->mm = task->mm;
		mmgrab(sampler->mm);
	}
	queue_work(sample_wq, &sampler->work);
}

static void sample_work(struct work_struct *work)
{
	struct sampler *sampler = container_of(work, struct sampler, work);
	unsigned int period = HZ / SAMPLES;
	struct mm_struct *mm;
	int cpu;

	for_each_online_cpu(cpu) {
		int nid = cpu_to_node(cpu);
		/* Where this work item runs now, current is a worker. */
		bool own = cpu == sampler->cpu && cpu == raw_smp_processor_id();

		if (sample_homes[nid] != sampler->home)
			continue;
		mm = own ? sampler->mm : sample_cpu(cpu);
		if (!mm)
			continue;
		if (kmmscand_wants(mm))
			space_seen(mm, nid, sampler->home);
		else
			count_kmmscand_events(KMMSCAND_MM_OFF, 1);
		if (!own)
			mmdrop(mm);
		cond_resched();
	}
	sample_drop(sampler);
	spaces_wake(sampler->home);
	/* So that no thread escapes by its rhythm */
	mod_timer(&sampler->timer,
		  jiffies + period - period / 4 + get_random_u32_below(period / 2 + 1));
}

/**
 * sample_init - prepare the work items
 * @wq: for them
 *
 * Context: once, at boot.
 */
void sample_init(struct workqueue_struct *wq)
{
	int nid;

	sample_wq = wq;
	for_each_node(nid) {
		/* sample_stop() may come before sample_start(). */
		timer_setup(&samplers[nid].timer, sample_timer, 0);
		INIT_WORK(&samplers[nid].work, sample_work);
	}
}

/**
 * sample_start - begin to look at the CPUs of fast nodes
 * @homes: fast nodes with workers
 *
 * Context: may sleep.
 */
void sample_start(const nodemask_t *homes)
{
	int nid, home;

	for_each_node(nid) {
		sample_homes[nid] = first_node(*homes);
		for_each_node_mask(home, *homes) {
			if (node_distance(nid, home) < node_distance(nid, sample_homes[nid]))
				sample_homes[nid] = home;
		}
	}
	for_each_node_mask(home, *homes) {
		samplers[home].home = home;
		timer_setup(&samplers[home].timer, sample_timer, 0);
		samplers[home].cpu = -1;
		/* The timer begins on a CPU that unbound work items may use. */
		queue_work(sample_wq, &samplers[home].work);
	}
}

/**
 * sample_stop - look no more
 * @homes: as in sample_start()
 *
 * Context: may sleep.
 */
void sample_stop(const nodemask_t *homes)
{
	int home;

	for_each_node_mask(home, *homes) {
		/* A timer that was shut down is not started again by its work item. */
		timer_shutdown_sync(&samplers[home].timer);
		cancel_work_sync(&samplers[home].work);
		sample_drop(&samplers[home]);
	}
}
