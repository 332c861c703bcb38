// SPDX-License-Identifier: GPL-2.0
/*
 * kmmscand: find the hot pages of the slow memory tier from kernel threads, and promote them.
 *
 *   main.c       starts and stops the threads
 *   sysfs.c, vmstat.c, fault.c  files, counters, rules that a debug kernel can break
 *   sample.c     which address spaces run?  Samples of the CPUs, 16 times a second
 *   worker.c     kmmscand<N>, workers of the fast nodes
 *   visit.c      visits of address spaces that are due: windows, turns, looks for change
 *   walk.c       walks of a visit over an address space
 *   table.c      page tables of a walk: read and clear Accessed bits, push candidates
 *   space.c      address spaces that run, in a queue for each fast node
 *   flush.c      TLB flushes
 *   kpromoted.c  kpromoted<N>, promoters of the slow nodes: hand candidates to tier_promote()
 *   period.c     decisions of each period
 *   cache.c      page cache that is read and not mapped: readers tell
 *   victim.c     idle pages of full fast nodes that make room
 *   ring.c       candidates of each slow node
 *   policy.c     all decisions that depend on nothing but their arguments
 *   target.c     with several fast nodes: which one?
 *   thread.c     threads of a node
 *   cpu.c        shares of CPU time
 *   prctl.c, memcg.c, limit.c  what processes and memory control groups want
 *
 * Scanning and migration happen in these threads, never in the context of the application, which
 * sees no hint fault.
 *
 * Tiers are looked at when the threads start.  When nodes come, go, grow, or change their tier, or
 * a fast node without CPUs gets some, all is stopped and started again (kmmscand_check()).
 *
 * CPU hotplug: a worker prefers the CPUs of its node.  When the last of them goes offline the
 * scheduler lets it run anywhere; the worker is bound again when one comes online.
 *
 * Freezer and suspend: all threads are freezable, and freeze where they hold no lock, because no
 * page may move while hibernation copies memory.
 *
 * Locking: kmmscand_mutex serialises starting and stopping.  No thread takes it, because stopping
 * waits for them.
 */

#define pr_fmt(fmt) "kmmscand: " fmt

#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/kmmscand.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/sched/sysctl.h>
#include <linux/slab.h>
#include <linux/tier.h>
#include <linux/tier_parts.h>
#include <linux/workqueue.h>

#include "cache.h"
#include "cpu.h"
#include "kmmscand.h"
#include "kpromoted.h"
#include "main.h"
#include "period.h"
#include "ring.h"
#include "sample.h"
#include "space.h"
#include "target.h"
#include "thread.h"
#include "victim.h"
#include "worker.h"

#define CREATE_TRACE_POINTS
#include <trace/events/tier_scan.h>

/* What has changed is looked for so often, and address spaces that have exited are dropped */
#define KMMSCAND_CHECK	(2 * HZ)

bool kmmscand_promotes;
unsigned int kmmscand_period_ms;

struct kmmscand_tunables kmmscand_tunables = {
	.scan_period_ms		= 500,
	.promote_rate_mbps	= 2048,
};

struct kmmscand {
	struct kmmscand_nodes nodes;
	struct kmmscand_thread *worker[MAX_NUMNODES], *promoter[MAX_NUMNODES];
};

static DEFINE_MUTEX(kmmscand_mutex);
static struct kmmscand *kmmscand;	/* NULL: disabled */
static struct workqueue_struct *kmmscand_wq;

static void kmmscand_check(struct work_struct *work);
static DECLARE_DELAYED_WORK(kmmscand_check_work, kmmscand_check);

/* Nodes with memory, by tier.  Returns false if there are not both slow and fast ones. */
static bool kmmscand_get_nodes(struct kmmscand_nodes *nodes)
{
	int nid;

	*nodes = (struct kmmscand_nodes) {};
	for_each_node_state(nid, N_MEMORY) {
		if (!node_is_toptier(nid)) {
			node_set(nid, nodes->slow);
			nodes->span += node_start_pfn(nid) + node_spanned_pages(nid);
			continue;
		}
		node_set(nid, nodes->top);
		if (node_state(nid, N_CPU))
			node_set(nid, nodes->home);
	}
	/* Where no fast node has CPUs, one worker does for all. */
	if (nodes_empty(nodes->home) && !nodes_empty(nodes->top))
		node_set(first_node(nodes->top), nodes->home);
	return !nodes_empty(nodes->slow) && !nodes_empty(nodes->top);
}

/* Undoes as much of kmmscand_begin() as has been done. */
static void kmmscand_end(void)
{
	int nid;

	lockdep_assert_held(&kmmscand_mutex);

	if (!kmmscand)
		return;
	cancel_delayed_work(&kmmscand_check_work);
	sample_stop(&kmmscand->nodes.home);
	/* Each waits for the end of a slice or batch.  Workers read what promoters decide. */
	for_each_node(nid)
		thread_stop(kmmscand->worker[nid]);
	for_each_node(nid)
		thread_stop(kmmscand->promoter[nid]);
	kmmscand_cache_run(NULL);
	spaces_clean(true);
	for_each_node(nid) {
		period_stop(nid);
		ring_stop(nid);
	}
	victim_stop();
	tier_promoter_put();
	kfree(kmmscand);
	WRITE_ONCE(kmmscand, NULL);
}

static int kmmscand_start_promoters(const nodemask_t *slow)
{
	struct kmmscand_thread *promoter;
	struct period *period;
	int nid, err;

	for_each_node_mask(nid, *slow) {
		err = ring_start(nid);
		if (err)
			return err;
		period = period_start(nid, &kmmscand->nodes);
		if (IS_ERR(period))
			return PTR_ERR(period);
		promoter = kpromoted_start(period);
		if (IS_ERR(promoter))
			return PTR_ERR(promoter);
		kmmscand->promoter[nid] = promoter;
	}
	return 0;
}

static int kmmscand_start_threads(void)
{
	struct kmmscand_nodes *nodes = &kmmscand->nodes;
	struct kmmscand_thread *worker;
	int nid, err;

	target_start(&nodes->top);
	err = victim_start(&nodes->top);
	if (!err)
		err = kmmscand_start_promoters(&nodes->slow);
	if (err)
		return err;
	for_each_node_mask(nid, nodes->home) {
		worker = worker_start(nid, nodes);
		if (IS_ERR(worker))
			return PTR_ERR(worker);
		kmmscand->worker[nid] = worker;
	}
	sample_start(&nodes->home);
	return kmmscand_cache_run(nodes);
}

/* Its hint faults go on, and the administrator may think that there are none any more. */
static void kmmscand_warn_numa_balancing(void)
{
#ifdef CONFIG_NUMA_BALANCING
	int mode = sysctl_numa_balancing_mode;

	if (!mode)
		return;
	pr_notice("NUMA balancing is on (kernel.numa_balancing = %d) and goes on to take hint faults in applications\n",
		  mode);
	if (nodes_weight(kmmscand->nodes.top) == 1)
		pr_notice("to promote, NUMA balancing is not needed: sysctl kernel.numa_balancing=0\n");
#endif
}

static int kmmscand_begin(const char **reason)
{
	int err;

	lockdep_assert_held(&kmmscand_mutex);

	if (kmmscand)
		return 0;

	/* Where software sets the bit, each one that is cleared costs a fault. */
	if (!arch_has_hw_pte_young()) {
		*reason = "the processor does not set Accessed bits, so scanning would cost faults";
		return -EOPNOTSUPP;
	}

	kmmscand = kmmscand_wq ? kzalloc(sizeof(*kmmscand), GFP_KERNEL) : NULL;
	if (!kmmscand)
		return -ENOMEM;

	if (!kmmscand_get_nodes(&kmmscand->nodes)) {
		*reason = "no slow memory node: see node*/distance and node*/source";
		err = -ENODEV;
		goto free;
	}
	err = tier_promoter_get();
	if (err)
		goto free;
	kmmscand_period_ms = READ_ONCE(kmmscand_tunables.scan_period_ms);
	err = kmmscand_start_threads();
	if (err) {
		kmmscand_end();
		return err;
	}
	kmmscand_warn_numa_balancing();
	queue_delayed_work(kmmscand_wq, &kmmscand_check_work, KMMSCAND_CHECK);
	return 0;

free:
	kfree(kmmscand);
	WRITE_ONCE(kmmscand, NULL);
	return err;
}

/*
 * Look after what changes: nodes, tiers, CPUs, the length of a period; and drop address spaces that
 * have exited.  Visits and ends of periods are due by the old length, so the threads start again.
 */
static void kmmscand_check(struct work_struct *work)
{
	struct kmmscand_nodes nodes;
	const char *reason;

	mutex_lock(&kmmscand_mutex);
	if (!kmmscand)
		goto unlock;
	spaces_clean(false);
	kmmscand_get_nodes(&nodes);
	if (memcmp(&nodes, &kmmscand->nodes, sizeof(nodes)) ||
	    kmmscand_period_ms != READ_ONCE(kmmscand_tunables.scan_period_ms)) {
		kmmscand_end();
		/* If this fails, the part "scan" does not run any more, and waits. */
		if (kmmscand_begin(&reason))
			tier_parts_changed();
	}
	if (kmmscand)
		queue_delayed_work(kmmscand_wq, &kmmscand_check_work, KMMSCAND_CHECK);
unlock:
	mutex_unlock(&kmmscand_mutex);
}

/**
 * kmmscand_enabled - do the threads run?
 *
 * Context: may sleep: waits while the threads start again after a change of the memory tiers.
 */
bool kmmscand_enabled(void)
{
	bool enabled;

	mutex_lock(&kmmscand_mutex);
	enabled = kmmscand;
	mutex_unlock(&kmmscand_mutex);
	return enabled;
}

/**
 * kmmscand_start - start the threads
 * @reason: why they cannot start
 *
 * Context: may sleep.
 * Return: 0; -ENODEV without a slow node, -EOPNOTSUPP, or -ENOMEM.
 */
int kmmscand_start(const char **reason)
{
	int err;

	mutex_lock(&kmmscand_mutex);
	err = kmmscand_begin(reason);
	mutex_unlock(&kmmscand_mutex);
	return err;
}

/**
 * kmmscand_stop - stop the threads
 *
 * Context: may sleep; waits for the end of a slice and of a batch.
 */
void kmmscand_stop(void)
{
	mutex_lock(&kmmscand_mutex);
	kmmscand_end();
	mutex_unlock(&kmmscand_mutex);
}

/* Workers whose node has got a CPU go back. */
static int kmmscand_cpu_online(unsigned int cpu)
{
	int nid = cpu_to_node(cpu);

	/* Not under the mutex: its holder may wait for CPU hotplug (static keys). */
	if (nid >= 0)
		worker_cpu_came(nid);
	return 0;
}

static int __init kmmscand_init(void)
{
	int err;

	kmmscand_share_defaults();
	spaces_init();
	/* No CPU of an application, and not while the system is frozen */
	kmmscand_wq = alloc_workqueue("kmmscand", WQ_UNBOUND | WQ_FREEZABLE, 0);
	if (!kmmscand_wq)
		return -ENOMEM;
	sample_init(kmmscand_wq);
	err = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "mm/kmmscand:online",
					kmmscand_cpu_online, NULL);
	return min(err, 0);
}
late_initcall(kmmscand_init);
