// SPDX-License-Identifier: GPL-2.0
/*
 * Shares of CPU time.
 *
 * The administrator gives scanning and promotion a share each, per mille of the CPU time of all
 * online CPUs.  All threads of one kind spend from the same account: time fills the account, and
 * CPU time empties it.  The account holds no savings.  A thread that finds a debt sleeps until time
 * has paid it.
 *
 * A node has up to KMMSCAND_THREADS threads.  The first one always works, and n work if the
 * share is n CPUs for each node.
 *
 * Locking: a spinlock for each account, taken a few times for each visit or batch.
 */

#include <linux/cpumask.h>
#include <linux/freezer.h>
#include <linux/jiffies.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/sched.h>
#include <linux/sched/cputime.h>
#include <linux/spinlock.h>

#include "cpu.h"
#include "fault.h"
#include "kmmscand.h"

/* Sleep when this much is owed; shorter sleeps would be rounded up to a tick */
#define CPU_SLEEP_NS		(20 * NSEC_PER_MSEC)
/* A change of the share is noticed in this time */
#define CPU_SLEEP_MOST_NS	NSEC_PER_SEC
/* More would overflow */
#define CPU_EARN_MOST_NS	(600ULL * NSEC_PER_SEC)
/* Defaults: at least so many per mille of one CPU, or so many of all */
#define CPU_SCAN_ONE		250
#define CPU_SCAN_ALL		5
#define CPU_PROMOTE_ONE		800
#define CPU_PROMOTE_ALL		15

struct kmmscand_share {
	const unsigned int *permille;
	spinlock_t lock;		/* for what follows */
	u64 now;			/* ktime_get_ns() of the last change */
	u64 debt;			/* CPU time that is not paid for, in ns */
};

struct kmmscand_share kmmscand_scan_share = {
	.permille = &kmmscand_tunables.scan_cpu_permille,
	.lock = __SPIN_LOCK_UNLOCKED(kmmscand_scan_share.lock),
};

struct kmmscand_share kmmscand_promote_share = {
	.permille = &kmmscand_tunables.promote_cpu_permille,
	.lock = __SPIN_LOCK_UNLOCKED(kmmscand_promote_share.lock),
};

/**
 * kmmscand_share_defaults - set both shares by the size of the machine
 */
void kmmscand_share_defaults(void)
{
	unsigned int cpus = num_online_cpus();

	kmmscand_tunables.scan_cpu_permille = max(CPU_SCAN_ONE / cpus, CPU_SCAN_ALL);
	kmmscand_tunables.promote_cpu_permille = max(CPU_PROMOTE_ONE / cpus, CPU_PROMOTE_ALL);
}

/**
 * kmmscand_share_ns - how much CPU time has a share in some time?
 * @share: account
 * @ns:    time
 *
 * Return: in ns.
 */
u64 kmmscand_share_ns(const struct kmmscand_share *share, u64 ns)
{
	return div_u64(min_t(u64, ns, CPU_EARN_MOST_NS) * READ_ONCE(*share->permille) *
		       num_online_cpus(), 1000);
}

/**
 * kmmscand_share_threads - how many threads of a node may work?
 * @share: account
 * @nodes: nodes with threads
 *
 * Return: 1 to KMMSCAND_THREADS.
 */
unsigned int kmmscand_share_threads(const struct kmmscand_share *share, unsigned int nodes)
{
	u64 cpus = div_u64(kmmscand_share_ns(share, NSEC_PER_SEC), NSEC_PER_SEC);

	return clamp_t(u64, div_u64(cpus, nodes), 1, KMMSCAND_THREADS);
}

/* Time has paid, and a thread has used CPU time.  Returns the debt. */
static u64 cpu_share_use(struct kmmscand_share *share, u64 used)
{
	u64 now, earned, debt;

	spin_lock(&share->lock);
	now = ktime_get_ns();
	earned = kmmscand_share_ns(share, now - share->now);
	share->now = now;
	share->debt -= min(share->debt, earned);
	share->debt += used;
	debt = share->debt;
	spin_unlock(&share->lock);
	return debt;
}

static u64 cpu_time_used(struct kmmscand_cpu *cpu)
{
	u64 now = task_sched_runtime(current), used = now - cpu->runtime;

	cpu->runtime = now;
	return used;
}

/**
 * kmmscand_cpu_start - begin to count the CPU time of this thread
 * @cpu:   of this thread
 * @share: that pays for it
 */
void kmmscand_cpu_start(struct kmmscand_cpu *cpu, struct kmmscand_share *share)
{
	cpu->share = share;
	cpu->runtime = task_sched_runtime(current);
}

/**
 * kmmscand_cpu_charge - charge the CPU time since the last call
 * @cpu: of this thread
 *
 * To be called before the thread sleeps for another reason, which then pays, too.
 */
void kmmscand_cpu_charge(struct kmmscand_cpu *cpu)
{
	cpu_share_use(cpu->share, cpu_time_used(cpu));
}

/**
 * kmmscand_cpu_pay - charge the CPU time since the last call, and sleep as long as there is a debt
 * @cpu: of this thread
 *
 * Context: a freezable kthread, no locks held.
 */
void kmmscand_cpu_pay(struct kmmscand_cpu *cpu)
{
	u64 debt = cpu_share_use(cpu->share, cpu_time_used(cpu)), ns;

	while (!kthread_should_stop() && !kmmscand_fault(CPU)) {
		ns = div64_u64(debt * 1000, max_t(u64, kmmscand_share_ns(cpu->share, 1000), 1));
		if (ns < CPU_SLEEP_NS)
			break;
		schedule_timeout_idle(nsecs_to_jiffies(min_t(u64, ns, CPU_SLEEP_MOST_NS)) + 1);
		try_to_freeze();
		debt = cpu_share_use(cpu->share, cpu_time_used(cpu));
	}
	try_to_freeze();
	cond_resched();
}
