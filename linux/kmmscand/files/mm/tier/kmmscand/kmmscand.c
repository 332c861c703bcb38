// SPDX-License-Identifier: GPL-2.0
/*
 * kmmscand: find the hot pages of the slow memory tier from kernel threads.
 *
 *   kmmscand<N>    scanners, one per top-tier node with CPUs, for the processes that
 *                  run there: find address spaces (mms.c), read and clear Accessed
 *                  bits (scan.c), where it is needed twice in a short while (close.c)
 *   readers        of unmapped page cache: no threads of ours, read(2) tells (cache.c)
 *   hotness table  two bytes per slow page frame (hotness.c), all that the two kinds
 *                  of threads share
 *   kpromoted<N>   promoters, one per slow node: choose the hottest pages that can be
 *                  afforded (kpromoted.c, policy.c) and hand them to tier_promote()
 *   control        processes that do not want to be scanned, or less often (prctl.c), and
 *                  memory control groups that opt out or have limits (memcg.c, limit.c)
 *
 * The application sees no hint fault, and neither scanning nor migration is done in its
 * context.
 *
 * This file starts and stops the threads, and holds the scanners' main loop and the
 * sysfs files.
 *
 * Finding address spaces: in each round all processes are gone through (procs.c).
 * Nothing is hooked into fork, exec or exit.  An address space that is shared by
 * processes (CLONE_VM without CLONE_THREAD) is visited once per round.
 *
 * Time is counted in epochs of scan_period_ms; while a promoter has found too little
 * and asks for longer windows (close.c), or a part of an address space shows that all of it
 * should be looked at (mms.c), the next one begins at once.  A pass over a
 * large address space can take longer than that, at the scanner's share of a CPU; it is
 * cut into visits, so that others are not kept waiting.  If a pass takes more than
 * KMMSCAND_LONG_PASS periods, then epochs are longer than the period, because a history
 * of eight passes could not be told from their stamps any more.
 *
 * Tiers are looked at when the threads start.  When nodes come, go, or change their
 * tier, the first scanner notices in its next round and has everything started again.
 *
 * CPU hotplug: a scanner is bound to the CPUs of its node.  When the last of them goes
 * offline the scheduler lets it run anywhere, and leaves it so; it goes back in its first
 * round after one has come online.  A fast node that had none when the threads started
 * has no scanner; when it gets one everything is started again, too.  Promoters may run
 * anywhere.
 *
 * Freezer and suspend: all threads are freezable, and freeze where they hold no lock, because
 * frozen processes access nothing, and no page may move while hibernation copies memory.
 *
 * Each thread's CPU time is held at a share of one CPU (scan_cpu_pct,
 * promote_cpu_pct) by sleeping for what it has used; nothing is forgiven.
 */

#define pr_fmt(fmt) "kmmscand: " fmt

#include <linux/atomic.h>
#include <linux/cpuhotplug.h>
#include <linux/cpumask.h>
#include <linux/debugfs.h>
#include <linux/freezer.h>
#include <linux/kmmscand.h>
#include <linux/kobject.h>
#include <linux/kthread.h>
#include <linux/memory-tiers.h>
#include <linux/mm.h>
#include <linux/mmu_age.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched/cputime.h>
#include <linux/sched/isolation.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/sysctl.h>
#include <linux/sched/task.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/tier.h>
#include <linux/topology.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "cache.h"
#include "control.h"
#include "decide.h"
#include "events.h"
#include "fault.h"
#include "hotness.h"
#include "kmmscand.h"
#include "procs.h"
#include "target.h"
#include "victim.h"

#define CREATE_TRACE_POINTS
#include <trace/events/kmmscand.h>

/* Periods that a pass may take until epochs become longer, up to 2^this times */
#define KMMSCAND_LONG_PASS	8
#define KMMSCAND_MAX_STRETCH	6

/* How often at the end of a round to try those whose mmap_lock is taken again */
#define KMMSCAND_TRIES		8

/* Sleep when this much is owed; shorter sleeps would be rounded up to a tick */
#define KMMSCAND_SLEEP_NS	(20 * NSEC_PER_MSEC)

struct kmmscand_tunables kmmscand_tunables = {
	.scan_period_ms		= 500,
	.scan_cpu_pct		= 25,
	.hot_threshold		= 3,
	.promote_rate_mbps	= 2048,
	.promote_cpu_pct	= 80,
};

/* True while the threads run; see kmmscand_folio_accessed() */
DEFINE_STATIC_KEY_FALSE(kmmscand_key);
/* Slow nodes, for those who report accesses.  Changed while the keys are off; some may be late. */
nodemask_t kmmscand_slow_nodes __read_mostly;

/* State of a scanner, and used by nothing else while that runs */
struct kmmscand_scanner {
	struct task_struct *task;
	int nid;
	unsigned int round;
	unsigned int done;		/* rounds; the promoters read it, and these: */
	unsigned int done_ms;		/* window with which the last one began */
	struct kmmscand_close close;
	struct kmmscand_procs procs;
	struct list_head again;		/* address spaces whose mmap_lock was taken */
	unsigned int round_ms;		/* window with which this round began */
	bool longer;			/* windows than in the round before */
	bool hurry;			/* a part has shown that all should be looked at */
	unsigned int long_ms;		/* the longest pass lately */
	unsigned int unfinished;	/* passes, in the last round and in this one */
	unsigned int unfinished_now;
	struct kmmscand_cpu cpu;
};

struct kmmscand {
	struct kmmscand_nodes nodes;
	int first;			/* node of the first scanner, which advances the epoch */
	struct kmmscand_scanner *scanner[MAX_NUMNODES];
	struct kpromoted *promoter[MAX_NUMNODES];
};

/*
 * Serialises starting and stopping.  The threads never take it, because stopping waits
 * for them.
 */
static DEFINE_MUTEX(kmmscand_mutex);
static struct kmmscand *kmmscand;	/* NULL: disabled */

/* Nodes of which a CPU has come online since their scanner was bound */
static nodemask_t kmmscand_cpu_came;

/* Warm pages that were not found in this epoch and in the last one, by epoch modulo 2 */
static atomic_long_t kmmscand_unseen[2];

/* For sleeping until kthread_stop(), the end of a round, or longer windows */
static DECLARE_WAIT_QUEUE_HEAD(kmmscand_wait);

static void kmmscand_restart(struct work_struct *work);
static DECLARE_WORK(kmmscand_restart_work, kmmscand_restart);

/* For promoters, which may run before and after the scanners */
static unsigned int epoch_ms;

/**
 * kmmscand_epoch_ms - length of an epoch
 *
 * Context: any.
 */
unsigned int kmmscand_epoch_ms(void)
{
	return max(READ_ONCE(epoch_ms), READ_ONCE(kmmscand_tunables.scan_period_ms));
}

/**
 * kmmscand_rounds - how many rounds has each scanner done?
 *
 * Context: a promoter, which the scanners' state outlives.
 * Return: the least number.
 */
unsigned int kmmscand_rounds(void)
{
	unsigned int rounds = UINT_MAX, done;
	int nid;

	for_each_node_mask(nid, kmmscand->nodes.top) {
		if (!kmmscand->scanner[nid])
			continue;
		/* Pairs with kmmscand_thread(): what is known of the round is seen, too. */
		done = smp_load_acquire(&kmmscand->scanner[nid]->done);
		rounds = min(rounds, done);
	}
	return rounds;
}

/* The window of a round that begins now; 0: no close visits */
static unsigned int kmmscand_window_now(void)
{
	unsigned int window_ms = kpromoted_window_ms(&kmmscand->nodes.slow);

	/* Two looks must fit into an epoch. */
	return 2 * window_ms <= READ_ONCE(kmmscand_tunables.scan_period_ms) ? window_ms : 0;
}

/**
 * kmmscand_window_used - did the last round of each scanner have the window that is asked for?
 *
 * Where rounds take whole epochs, the next one has begun before promoters know what the last
 * one has found, and they would take it for what their new window finds.
 *
 * Context: a promoter, which the scanners' state outlives.
 */
bool kmmscand_window_used(void)
{
	unsigned int window_ms = kmmscand_window_now();
	int nid;

	for_each_node_mask(nid, kmmscand->nodes.top) {
		const struct kmmscand_scanner *s = kmmscand->scanner[nid];

		if (s && READ_ONCE(s->done_ms) != window_ms)
			return false;
	}
	return true;
}

/**
 * kmmscand_missing - how many warm pages have not been found, because parts are looked at?
 *
 * Context: any.
 * Return: an estimate, of the last two epochs.
 */
unsigned long kmmscand_missing(void)
{
	/* What is fresh in the table is of both, so all is there if all has been seen in one. */
	return min(atomic_long_read(&kmmscand_unseen[0]), atomic_long_read(&kmmscand_unseen[1]));
}

/* Sleep until @cond or @msecs have passed, and count it as pay for CPU time. */
#define kmmscand_sleep_unless(cpu, msecs, cond)						\
do {											\
	struct kmmscand_cpu *__cpu = (cpu);						\
	unsigned long __start = jiffies;						\
	u64 __slept;									\
											\
	wait_event_freezable_timeout(kmmscand_wait, kthread_should_stop() || (cond),	\
				     msecs_to_jiffies(msecs));				\
	__slept = jiffies_to_nsecs(jiffies - __start);					\
	__cpu->owed -= min(__cpu->owed, __slept);					\
} while (0)

/**
 * kmmscand_sleep - sleep, and count it as pay for CPU time
 * @cpu:   of this thread
 * @msecs: how long
 *
 * Context: a freezable kthread.  Returns early when the thread is to stop.
 */
void kmmscand_sleep(struct kmmscand_cpu *cpu, unsigned int msecs)
{
	kmmscand_sleep_unless(cpu, msecs, false);
}

/**
 * kmmscand_wait_round - sleep until all scanners have done another round
 * @cpu:   of this thread
 * @round: kmmscand_rounds() before
 * @msecs: how long at most
 *
 * Context: a freezable kthread.  Returns early when the thread is to stop.
 */
void kmmscand_wait_round(struct kmmscand_cpu *cpu, unsigned int round, unsigned int msecs)
{
	kmmscand_sleep_unless(cpu, msecs, kmmscand_rounds() != round);
}

/**
 * kmmscand_wake - those who wait shall look again at what they wait for
 */
void kmmscand_wake(void)
{
	wake_up_all(&kmmscand_wait);
}

/**
 * kmmscand_cpu_start - begin to count the CPU time of this thread
 * @cpu: of this thread
 */
void kmmscand_cpu_start(struct kmmscand_cpu *cpu)
{
	cpu->runtime = task_sched_runtime(current);
	cpu->owed = 0;
}

/**
 * kmmscand_cpu_charge - the CPU time used since the last call is to be slept for
 * @cpu:     of this thread
 * @percent: share of one CPU that it may use
 */
void kmmscand_cpu_charge(struct kmmscand_cpu *cpu, unsigned int percent)
{
	u64 now = task_sched_runtime(current);

	cpu->owed += div_u64((now - cpu->runtime) * (100 - percent), percent);
	cpu->runtime = now;
}

/**
 * kmmscand_cpu_pay - sleep for the CPU time used
 * @cpu:     of this thread
 * @percent: share of one CPU that it may use
 *
 * Context: a freezable kthread, no locks held.
 */
void kmmscand_cpu_pay(struct kmmscand_cpu *cpu, unsigned int percent)
{
	kmmscand_cpu_charge(cpu, percent);
	if (kmmscand_fault(CPU))
		cpu->owed = 0;
	while (cpu->owed >= KMMSCAND_SLEEP_NS && !kthread_should_stop())
		kmmscand_sleep(cpu, DIV_ROUND_UP_ULL(cpu->owed, NSEC_PER_MSEC));
	/* With a share of 100 percent nothing is ever owed. */
	try_to_freeze();
	cond_resched();
}

/**
 * kmmscand_get_nodes - nodes with memory, by tier
 * @nodes: result
 *
 * Return: false if there are not both slow and fast ones.
 */
bool kmmscand_get_nodes(struct kmmscand_nodes *nodes)
{
	int nid;

	nodes_clear(nodes->slow);
	nodes_clear(nodes->top);
	for_each_node_state(nid, N_MEMORY) {
		if (node_is_toptier(nid))
			node_set(nid, nodes->top);
		else
			node_set(nid, nodes->slow);
	}
	return !nodes_empty(nodes->slow) && !nodes_empty(nodes->top);
}

/* The scanner for a process; it may move to another node any time. */
static int kmmscand_home(struct task_struct *task)
{
	int nid = cpu_to_node(task_cpu(task));

	/* Nodes without a scanner of their own are the first one's. */
	return nid >= 0 && kmmscand->scanner[nid] ? nid : kmmscand->first;
}

/* Prepare a pass. */
static void kmmscand_begin(struct kmmscand_mm *state, struct task_struct *task,
			   unsigned int window_ms)
{
	struct kmmscand_pass *pass = &state->pass;
	unsigned int epoch = hotness_epoch(), elapsed = epoch - pass->epoch, spread;

	pass->nodes = &kmmscand->nodes;
	target_vote(state, task);
	/* Close visits ask a secondary MMU too often. */
	pass->close = window_ms && !mmu_age_secondary(pass->mm);
	pass->part = pass->close ? state->part : 0;
	/* 2^spread passes ago every page table has had its turn, unless passes were late. */
	spread = max(state->part_done, pass->part);
	pass->stale = !pass->number || elapsed << spread >= HOTNESS_HORIZON;
	pass->shift = min(ilog2(max(elapsed, 1U)) + spread, HOTNESS_MAX_SHIFT);
	pass->seen = epoch - (spread ? 2 * max(elapsed, 1U) << spread : elapsed);
	pass->since = pass->epoch;
	pass->epoch = epoch;
	pass->held_up = false;
	pass->started = jiffies;
	pass->ptes = 0;
	pass->mapped = 0;
	pass->skipped = 0;
	pass->young = 0;
	pass->touched = 0;
	pass->huge = 0;
	pass->warm = 0;
	pass->hot = 0;
	pass->first = 0;
	pass->both = 0;
}

/**
 * kmmscand_pass_done - a pass has been completed
 * @state: address space; only its scanner may call this
 */
void kmmscand_pass_done(struct kmmscand_mm *state)
{
	struct kmmscand_pass *pass = &state->pass;
	unsigned int scale = tier_mm_scale(pass->mm), epoch = hotness_epoch();

	atomic_long_add((pass->warm << pass->part) - pass->warm, &kmmscand_unseen[epoch % 2]);
	state->shift = kmmscand_next_shift(state);
	/* A pass may take epochs itself. */
	state->part = kmmscand_next_part(state, max(scale, epoch - pass->epoch + 1));
	state->part_done = pass->part;
	if (pass->close)
		state->warm = pass->warm << pass->part;
	else
		state->touched = pass->touched << pass->part;
	/* The first scanner counts the epochs. */
	if (pass->part && !state->shift && scale <= 1)
		kmmscand->scanner[state->home]->hurry = state->home == kmmscand->first;
	state->due = pass->epoch + kmmscand_interval(state->part ? 0 : state->shift, scale);
	pass->number++;
	count_kmmscand_events(KMMSCAND_MM_SCANNED, 1);
	trace_kmmscand_pass(pass->epoch, hotness_epoch() - pass->epoch, pass->ptes,
			    pass->skipped, pass->young, pass->hot, state->shift,
			    pass->stale, pass->close);
}

/*
 * How many huge pages to find in a close visit?  Those that promoters can afford; with less
 * than half of it they ask for longer windows.  As long as that is not known, only the hottest.
 */
static unsigned long kmmscand_enough(void)
{
	return max(kpromoted_affords(&kmmscand->nodes.slow) / (PMD_SIZE / PAGE_SIZE), 1UL);
}

/* Returns -EBUSY if it was left because its mmap_lock was taken. */
static int kmmscand_visit(struct kmmscand_scanner *s, struct task_struct *task,
			  struct kmmscand_mm *state)
{
	struct kmmscand_pass *pass = &state->pass;
	unsigned long deadline;
	unsigned int msecs;
	int ret;

	/* It may have got a secondary MMU meanwhile. */
	if (mmu_age_secondary(pass->mm))
		pass->close = false;
	if (!pass->next) {
		if ((!s->longer || mmu_age_secondary(pass->mm) || tier_mm_scale(pass->mm) > 1) &&
		    (int)(state->due - hotness_epoch()) > 0)
			return 0;
		kmmscand_begin(state, task, s->close.window_ms);
	}
	kmmscand_task_policy(pass);
	/* Who does not get done shares the epoch with others of that kind. */
	deadline = jiffies + msecs_to_jiffies(kmmscand_epoch_ms() / max(s->unfinished, 1U));
	if (pass->close && s->close.window_ms) {
		do {
			/* A group that begins now may as well have the longer window. */
			if (!s->close.nr) {
				s->close.window_ms = max(s->close.window_ms, kmmscand_window_now());
				s->close.enough = kmmscand_enough();
			}
			ret = kmmscand_close_visit(&s->close, state, &s->cpu);
		} while (!ret && time_before(jiffies, deadline) && !kthread_should_stop());
	} else {
		/* This one sleeps. */
		if (s->close.nr)
			kmmscand_close_look(&s->close, &s->cpu);
		ret = kmmscand_scan(pass, KMMSCAND_SINCE, &pass->next, ULONG_MAX, &s->cpu,
				    deadline);
	}
	pass->held_up |= ret == -EBUSY;
	/* Done, or over and out */
	if (ret == 1 || ret == -ESRCH)
		pass->next = 0;
	if (ret == 1) {
		/* How long does it take to look at all?  In parts, longer than this. */
		msecs = jiffies_to_msecs(jiffies - pass->started) << pass->part;
		if (!pass->held_up)
			WRITE_ONCE(s->long_ms, max(s->long_ms, msecs));
		/* In close visits the last looks are still to come. */
		if (!(pass->close && s->close.window_ms))
			kmmscand_pass_done(state);
	} else if (pass->next) {
		/* Once, however often it is tried in this round */
		s->unfinished_now += !state->task;
	} else {
		/* Nothing was done: the next visit begins again. */
		pass->epoch = pass->since;
	}
	return ret == -EBUSY ? ret : 0;
}

static int kmmscand_cpu_online(unsigned int cpu)
{
	int nid = cpu_to_node(cpu);

	/* Not under the mutex: who holds it may wait for CPU hotplug (static keys). */
	if (nid >= 0)
		node_set(nid, kmmscand_cpu_came);
	return 0;
}

/*
 * A preference, for the memory that it walks; user space may change it, until a CPU of the
 * node comes online.
 */
static void kmmscand_bind(struct task_struct *task, int nid)
{
	cpumask_var_t cpus;

	if (!alloc_cpumask_var(&cpus, GFP_KERNEL))
		return;
	if (cpumask_and(cpus, cpumask_of_node(nid), housekeeping_cpumask(HK_TYPE_KTHREAD)))
		set_cpus_allowed_ptr(task, cpus);
	free_cpumask_var(cpus);
}

/* Is there something else than there was when the threads started? */
static bool kmmscand_nodes_changed(void)
{
	struct kmmscand_nodes nodes;
	int nid;

	kmmscand_get_nodes(&nodes);
	for_each_node_mask(nid, nodes.top) {
		if (node_state(nid, N_CPU) && !kmmscand->scanner[nid])
			return true;
	}
	return !nodes_equal(nodes.slow, kmmscand->nodes.slow) ||
	       !nodes_equal(nodes.top, kmmscand->nodes.top);
}

/* The first scanner looks after what all of them share. */
static void kmmscand_lead(struct kmmscand_scanner *s)
{
	unsigned int period_ms = READ_ONCE(kmmscand_tunables.scan_period_ms);
	unsigned int long_ms = 0, stretch;
	int nid;

	/* It may wait for memory that goes offline. */
	if (kmmscand_nodes_changed())
		queue_work(system_unbound_wq, &kmmscand_restart_work);

	for_each_node_mask(nid, kmmscand->nodes.top) {
		struct kmmscand_scanner *other = kmmscand->scanner[nid];

		if (other)
			long_ms = max(long_ms, READ_ONCE(other->long_ms));
	}
	stretch = fls(long_ms / (KMMSCAND_LONG_PASS * period_ms));
	WRITE_ONCE(epoch_ms, period_ms << min(stretch, KMMSCAND_MAX_STRETCH));

	hotness_next_epoch();
	atomic_long_set(&kmmscand_unseen[hotness_epoch() % 2], 0);
	victim_period();
	kmmscand_cache_epoch(s->close.window_ms);
	/* What could not be allocated when memory came online */
	if (!(s->round % HOTNESS_SWEEP_EPOCHS) &&
	    hotness_populate(&kmmscand->nodes.slow) == -ENOMEM)
		pr_warn_once("no memory for parts of the hotness table\n");
}

/* Visit the address space of a process, if it is ours, due, and wants it. */
static void kmmscand_meet(struct kmmscand_scanner *s, struct task_struct *task,
			  struct mm_struct *mm)
{
	struct kmmscand_mm *state;

	/* What is not met is forgotten. */
	if (!kmmscand_wants(mm)) {
		count_kmmscand_events(KMMSCAND_MM_OFF, 1);
		return;
	}
	state = kmmscand_mm_get(mm, s->nid, kmmscand_home(task), s->round);
	if (!state) {
		cond_resched();
		return;
	}
	if (kmmscand_visit(s, task, state) == -EBUSY) {
		state->task = get_task_struct(task);
		list_add_tail(&state->again, &s->again);
	}
	/* Nobody sleeps while a group waits to be looked at: close.c. */
	if (!s->close.nr)
		kmmscand_cpu_pay(&s->cpu, READ_ONCE(kmmscand_tunables.scan_cpu_pct));
	else if (kmmscand_close_due(&s->close))
		kmmscand_close_look(&s->close, &s->cpu);
	else
		cond_resched();
}

/*
 * Once more those whose mmap_lock was taken, at the end of the round, and some times more if it
 * still is.  They are in mms.c still.
 */
static void kmmscand_try_again(struct kmmscand_scanner *s)
{
	struct kmmscand_mm *state, *tmp;
	int tries;
	bool busy;

	for (tries = 0; tries < KMMSCAND_TRIES; tries++) {
		list_for_each_entry_safe(state, tmp, &s->again, again) {
			busy = !kthread_should_stop() &&
			       kmmscand_visit(s, state->task, state) == -EBUSY;
			if (s->close.nr && kmmscand_close_due(&s->close))
				kmmscand_close_look(&s->close, &s->cpu);
			if (busy && tries < KMMSCAND_TRIES - 1)
				continue;
			list_del(&state->again);
			put_task_struct(state->task);
			state->task = NULL;
		}
		if (list_empty(&s->again))
			return;
		if (!s->close.nr)
			kmmscand_cpu_pay(&s->cpu, READ_ONCE(kmmscand_tunables.scan_cpu_pct));
		else
			cond_resched();
	}
}

static void kmmscand_round(struct kmmscand_scanner *s)
{
	unsigned int window_ms = kmmscand_window_now();
	struct task_struct *task;
	struct mm_struct *mm;
	bool met_all;

	if (test_and_clear_bit(s->nid, kmmscand_cpu_came.bits))
		kmmscand_bind(current, s->nid);
	s->longer = s->round_ms && window_ms > s->round_ms;
	s->round_ms = window_ms;
	s->close.window_ms = window_ms;
	s->close.enough = kmmscand_enough();
	s->round++;
	s->hurry = false;
	s->unfinished = s->unfinished_now;
	s->unfinished_now = 0;
	/* Forgotten slowly: passes over large address spaces do not end in each round. */
	WRITE_ONCE(s->long_ms, s->long_ms - s->long_ms / 32);
	if (s->nid == kmmscand->first)
		kmmscand_lead(s);

	kmmscand_procs_begin(&s->procs);
	while (!kthread_should_stop() && (task = kmmscand_procs_next(&s->procs, &mm))) {
		kmmscand_meet(s, task, mm);
		put_task_struct(task);
		mmdrop(mm);
	}
	met_all = kmmscand_procs_end(&s->procs);
	kmmscand_try_again(s);
	kmmscand_close_look(&s->close, &s->cpu);
	kmmscand_mms_drop(s->nid, s->round, met_all && !kthread_should_stop());
	kmmscand_cpu_pay(&s->cpu, READ_ONCE(kmmscand_tunables.scan_cpu_pct));
}

static int kmmscand_thread(void *data)
{
	struct kmmscand_scanner *s = data;
	bool hurried = false;

	set_freezable();
	kmmscand_cpu_start(&s->cpu);

	while (!kthread_should_stop()) {
		unsigned long start = jiffies, period, spent;
		unsigned int period_ms;

		kmmscand_round(s);
		WRITE_ONCE(s->done_ms, s->round_ms);
		/* Pairs with kmmscand_rounds(). */
		smp_store_release(&s->done, s->round);
		kmmscand_wake();

		period_ms = kmmscand_epoch_ms();
		period = msecs_to_jiffies(period_ms);
		spent = jiffies - start;
		/* Once at a time, or processes that take turns would keep epochs short for good. */
		hurried = s->hurry && !hurried;
		if (spent >= period || hurried)
			continue;
		/* Have the promoters found too little?  Then they shall have more soon. */
		kmmscand_sleep_unless(&s->cpu, jiffies_to_msecs(period - spent),
				      (s->round_ms && kmmscand_window_now() > s->round_ms) ||
				      kmmscand_epoch_ms() != period_ms);
	}
	return 0;
}

/* Undoes as much of kmmscand_start() as has been done. */
static void kmmscand_stop(void)
{
	int nid;

	lockdep_assert_held(&kmmscand_mutex);

	if (!kmmscand)
		return;
	kmmscand_cache_run(NULL);
	static_branch_disable(&kmmscand_key);
	/* Each waits for the end of the slice or batch. */
	for_each_node(nid) {
		struct kmmscand_scanner *s = kmmscand->scanner[nid];

		if (s && s->task)
			kthread_stop(s->task);
	}
	for_each_node(nid) {
		if (kmmscand->promoter[nid])
			kpromoted_stop(kmmscand->promoter[nid]);
	}
	for_each_node(nid)
		kvfree(kmmscand->scanner[nid]);
	kmmscand_mms_drop_all();
	tier_promoter_put();
	hotness_disable();
	target_stop();
	kfree(kmmscand);
	kmmscand = NULL;
}

static int kmmscand_add_scanner(int nid)
{
	struct kmmscand_scanner *s;

	s = kvzalloc(sizeof(*s), GFP_KERNEL);
	if (!s)
		return -ENOMEM;
	s->nid = nid;
	INIT_LIST_HEAD(&s->again);
	if (kmmscand->first == NUMA_NO_NODE)
		kmmscand->first = nid;
	kmmscand->scanner[nid] = s;
	return 0;
}

static int kmmscand_run_scanner(int nid)
{
	struct kmmscand_scanner *s = kmmscand->scanner[nid];
	struct task_struct *task;

	task = kthread_create_on_node(kmmscand_thread, s, nid, "kmmscand%d", nid);
	if (IS_ERR(task))
		return PTR_ERR(task);
	set_user_nice(task, 10);
	kmmscand_bind(task, nid);
	s->task = task;
	wake_up_process(task);
	return 0;
}

static int kmmscand_start_threads(void)
{
	struct kmmscand_nodes *nodes = &kmmscand->nodes;
	struct kpromoted *promoter;
	int nid, err;

	kmmscand->first = NUMA_NO_NODE;
	atomic_long_set(&kmmscand_unseen[0], 0);
	atomic_long_set(&kmmscand_unseen[1], 0);
	/* All of them first: they look each other up; see kmmscand_home(). */
	for_each_node_mask(nid, nodes->top) {
		if (!node_state(nid, N_CPU))
			continue;
		err = kmmscand_add_scanner(nid);
		if (err)
			return err;
	}
	/* Where no fast node has CPUs, one scanner does for all. */
	if (kmmscand->first == NUMA_NO_NODE) {
		err = kmmscand_add_scanner(first_node(nodes->top));
		if (err)
			return err;
	}
	for_each_node_mask(nid, nodes->slow) {
		promoter = kpromoted_start(nid, nodes);
		if (IS_ERR(promoter))
			return PTR_ERR(promoter);
		kmmscand->promoter[nid] = promoter;
	}
	for_each_node_mask(nid, nodes->top) {
		if (!kmmscand->scanner[nid])
			continue;
		err = kmmscand_run_scanner(nid);
		if (err)
			return err;
	}
	return 0;
}

/* Its hint faults go on, and whoever enables us may think that there are none any more. */
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

static int kmmscand_start(void)
{
	int err;

	lockdep_assert_held(&kmmscand_mutex);

	if (kmmscand)
		return 0;

	/* Where software sets the bit, each one that we clear costs a fault. */
	if (!arch_has_hw_pte_young()) {
		pr_warn("the processor does not set Accessed bits by itself, scanning would cost page faults\n");
		return -EOPNOTSUPP;
	}

	kmmscand = kzalloc(sizeof(*kmmscand), GFP_KERNEL);
	if (!kmmscand)
		return -ENOMEM;

	if (!kmmscand_get_nodes(&kmmscand->nodes)) {
		pr_warn("no slow memory node, nothing to promote: check /sys/devices/virtual/memory_tiering/, and that firmware (HMAT) or a driver (kmem) tells how fast the nodes are\n");
		err = -ENODEV;
		goto free;
	}
	target_start(&kmmscand->nodes);
	victim_start();
	err = hotness_enable(&kmmscand->nodes.slow);
	if (err)
		goto stop;

	WRITE_ONCE(epoch_ms, 0);
	err = tier_promoter_get();
	if (err) {
		pr_warn("no memory for the history of demotions: not enabled\n");
		goto disable;
	}
	kmmscand_slow_nodes = kmmscand->nodes.slow;
	static_branch_enable(&kmmscand_key);
	kmmscand_cache_run(&kmmscand->nodes);
	err = kmmscand_start_threads();
	if (err)
		kmmscand_stop();
	else
		kmmscand_warn_numa_balancing();
	return err;

disable:
	hotness_disable();
stop:
	target_stop();
free:
	kfree(kmmscand);
	kmmscand = NULL;
	return err;
}

static void kmmscand_restart(struct work_struct *work)
{
	mutex_lock(&kmmscand_mutex);
	/* It may have been done meanwhile. */
	if (kmmscand && kmmscand_nodes_changed()) {
		kmmscand_stop();
		if (kmmscand_start())
			pr_warn("the memory tiers have changed: disabled\n");
	}
	mutex_unlock(&kmmscand_mutex);
}

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	return sysfs_emit(buf, "%d\n", !!READ_ONCE(kmmscand));
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr,
			     const char *buf, size_t count)
{
	bool enable = sysfs_streq(buf, "1");
	int err = 0;

	/* kstrtobool() would take "yes", "offer" and more. */
	if (!enable && !sysfs_streq(buf, "0"))
		return -EINVAL;

	if (mutex_lock_interruptible(&kmmscand_mutex))
		return -ERESTARTSYS;
	if (enable)
		err = kmmscand_start();
	else
		kmmscand_stop();
	mutex_unlock(&kmmscand_mutex);
	return err ?: count;
}

static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);

/* The file of a tunable, and what it may be */
struct kmmscand_attr {
	struct kobj_attribute attr;
	unsigned int *value;
	unsigned int min;
	unsigned int max;
};

static ssize_t kmmscand_attr_show(struct kobject *kobj, struct kobj_attribute *kattr,
				  char *buf)
{
	struct kmmscand_attr *attr = container_of(kattr, struct kmmscand_attr, attr);

	return sysfs_emit(buf, "%u\n", READ_ONCE(*attr->value));
}

static ssize_t kmmscand_attr_store(struct kobject *kobj, struct kobj_attribute *kattr,
				   const char *buf, size_t count)
{
	struct kmmscand_attr *attr = container_of(kattr, struct kmmscand_attr, attr);
	unsigned int val;

	if (kstrtouint(buf, 10, &val) || val < attr->min || val > attr->max)
		return -EINVAL;
	WRITE_ONCE(*attr->value, val);
	/* Who sleeps for the old period shall not do so to its end. */
	if (attr->value == &kmmscand_tunables.scan_period_ms) {
		WRITE_ONCE(epoch_ms, 0);
		kmmscand_wake();
	}
	return count;
}

static struct kmmscand_attr scan_period_ms_attr = {
	__ATTR(scan_period_ms, 0644, kmmscand_attr_show, kmmscand_attr_store),
	&kmmscand_tunables.scan_period_ms, 100, 60000
};

static struct kmmscand_attr scan_cpu_pct_attr = {
	__ATTR(scan_cpu_pct, 0644, kmmscand_attr_show, kmmscand_attr_store),
	&kmmscand_tunables.scan_cpu_pct, 1, 100
};

static struct kmmscand_attr hot_threshold_attr = {
	__ATTR(hot_threshold, 0644, kmmscand_attr_show, kmmscand_attr_store),
	&kmmscand_tunables.hot_threshold, 1, HOTNESS_MAX_SCORE
};

static struct kmmscand_attr promote_rate_mbps_attr = {
	__ATTR(promote_rate_mbps, 0644, kmmscand_attr_show, kmmscand_attr_store),
	&kmmscand_tunables.promote_rate_mbps, 0, 65536
};

static struct kmmscand_attr promote_cpu_pct_attr = {
	__ATTR(promote_cpu_pct, 0644, kmmscand_attr_show, kmmscand_attr_store),
	&kmmscand_tunables.promote_cpu_pct, 1, 100
};

static struct attribute *kmmscand_attrs[] = {
	&enabled_attr.attr,
	&scan_period_ms_attr.attr.attr,
	&scan_cpu_pct_attr.attr.attr,
	&hot_threshold_attr.attr.attr,
	&promote_rate_mbps_attr.attr.attr,
	&promote_cpu_pct_attr.attr.attr,
	&kmmscand_cache_attr.attr,
	NULL
};

static const struct attribute_group kmmscand_attr_group = {
	.name	= "kmmscand",
	.attrs	= kmmscand_attrs,
};

/* Base pages by slow node and score, of those touched in this or the last epoch */
static int histogram_show(struct seq_file *m, void *unused)
{
	struct hotness_histogram histogram;
	int nid, score, err = 0;

	if (mutex_lock_interruptible(&kmmscand_mutex))
		return -ERESTARTSYS;
	if (!kmmscand)
		goto out;
	for_each_node_mask(nid, kmmscand->nodes.slow) {
		if (!hotness_count(nid, &histogram, NULL, NULL)) {
			err = -EAGAIN;	/* memory goes offline just now */
			break;
		}
		seq_printf(m, "node %d threshold %u:", nid, kpromoted_threshold(nid));
		for (score = 1; score <= HOTNESS_MAX_SCORE; score++)
			seq_printf(m, " %lu", histogram.pages[score]);
		seq_putc(m, '\n');
	}
out:
	mutex_unlock(&kmmscand_mutex);
	return err;
}
DEFINE_SHOW_ATTRIBUTE(histogram);

static int __init kmmscand_init(void)
{
	struct dentry *dir;
	int err;

	err = cpuhp_setup_state_nocalls(CPUHP_AP_ONLINE_DYN, "mm/kmmscand:online",
					kmmscand_cpu_online, NULL);
	if (err < 0)
		return err;
	dir = debugfs_create_dir("kmmscand", NULL);
	debugfs_create_file("histogram", 0400, dir, NULL, &histogram_fops);
	return sysfs_create_group(mm_kobj, &kmmscand_attr_group);
}
late_initcall(kmmscand_init);
