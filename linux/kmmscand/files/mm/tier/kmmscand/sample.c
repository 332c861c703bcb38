// SPDX-License-Identifier: GPL-2.0
/*
 * Which address spaces run?
 *
 * SAMPLES times a second, with jitter, a work item for each fast node looks at the running task of
 * each CPU of the node, and of those of nodes nearest to it that have no fast memory.  A thread
 * that uses a share u of a CPU is seen after 1 / (SAMPLES * u) seconds on average: after 6 s at 1
 * %.
 *
 * Cost: the lock of each run queue, and a look up in the hash of address spaces: SAMPLES * CPUs *
 * 0.3 us a second.  No CPU is interrupted, and CPUs without a tick (nohz_full) are looked at like
 * others.
 *
 * A kernel thread that has borrowed an address space (vhost, io_uring workers are user threads)
 * does not count, but by PF_USER_WORKER.
 *
 * Locking: RCU keeps the task; its mm is read under task_lock().
 */

#include <linux/cpumask.h>
#include <linux/random.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/topology.h>
#include <linux/workqueue.h>

#include "control.h"
#include "events.h"
#include "sample.h"
#include "space.h"

#define SAMPLES		16

struct sampler {
	struct delayed_work work;
	int home;
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
	if (!(task->flags & PF_KTHREAD)) {
		task_lock(task);
		mm = task->mm;
		if (mm)
			mmgrab(mm);
		task_unlock(task);
	}
	rcu_read_unlock();
	return mm;
}

static void sample_work(struct work_struct *work)
{
	struct sampler *sampler = container_of(to_delayed_work(work), struct sampler, work);
	unsigned int period = HZ / SAMPLES;
	struct mm_struct *mm;
	int cpu;

	for_each_online_cpu(cpu) {
		int nid = cpu_to_node(cpu);

		if (sample_homes[nid] != sampler->home)
			continue;
		mm = sample_cpu(cpu);
		if (!mm)
			continue;
		if (kmmscand_wants(mm))
			space_seen(mm, nid, sampler->home);
		else
			count_kmmscand_events(KMMSCAND_MM_OFF, 1);
		mmdrop(mm);
		cond_resched();
	}
	spaces_wake(sampler->home);
	/* So that no thread escapes by its rhythm */
	queue_delayed_work(sample_wq, &sampler->work,
			   period - period / 4 + get_random_u32_below(period / 2 + 1));
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
	for_each_node(nid)
		INIT_DELAYED_WORK(&samplers[nid].work, sample_work);
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
		queue_delayed_work(sample_wq, &samplers[home].work, 1);
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

	for_each_node_mask(home, *homes)
		cancel_delayed_work_sync(&samplers[home].work);
}
