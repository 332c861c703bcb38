// SPDX-License-Identifier: GPL-2.0
/*
 * To which fast node should a page go?
 *
 * An Accessed bit does not tell which CPU has set it.  On a machine with several fast
 * nodes this is what is asked, in this order:
 *
 *  1. Where may it go?  Mempolicy and cpuset (kmmscand_test_walk()) allow some fast nodes.
 *     If these are not all of them, the page goes to the one that is chosen among them, or
 *     stays (TARGET_STRICT).
 *  2. Where does the address space run?  When a pass begins, each of its threads votes for
 *     the node of its CPU with its share of the CPU time used since the last vote; older
 *     votes count three quarters each time.  Before the first vote nothing of the address
 *     space is counted as hot.  With TARGET_CLEAR_PCT of the votes a node is chosen for
 *     all pages of the address space.
 *  3. What is left goes to the fast node nearest to the slow one.  Whatever the choice, if
 *     the node has no room, the next one that has some is taken (kpromoted.c).
 *
 * The answers are kept in one byte for each slow frame beside the hotness table, because
 * nothing else lives as long as the record.  The alternative is to look up the users by
 * rmap when a page is promoted: for each page a lock and a walk, and then it is known who
 * maps it, not who has touched it.  The scanner knows whose bit it has read.  Users that
 * disagree are noticed in the byte, too (target_merge()); what they share goes to the
 * nearest node.  So none of them decides for the others.
 *
 * When an address space moves to another socket, what is still to be promoted follows
 * its vote.  What has been promoted stays where it is.
 *
 * Machines with one fast node pay for none of this: no byte, no votes, and a branch that is
 * patched out (target_key).
 *
 * Locking: struct target_vote belongs to its address space, which belongs to one scanner
 * at a time (mms.c).  The slots change only while no thread of kmmscand runs; who has just read
 * page cache may still see some that are wrong by then.
 */

#define pr_fmt(fmt) "kmmscand: " fmt

#include <linux/hash.h>
#include <linux/memory-tiers.h>
#include <linux/math64.h>
#include <linux/mm.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/rcupdate.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/topology.h>
#include <linux/tier.h>

#include "events.h"
#include "fault.h"
#include "kmmscand.h"
#include "target.h"

#include <trace/events/kmmscand.h>

/* Threads that vote, and that are looked at for it */
#define TARGET_THREADS		32
#define TARGET_THREADS_SEEN	1024
/* CPU time is counted in units of 2^16 ns; with less than so many it is no vote. */
#define TARGET_TIME_SHIFT	16
#define TARGET_LEAST_TIME	8
/* Time for the first vote */
#define TARGET_FIRST_MS		100U
/* A node is not full if it has so many base pages above its watermark. */
#define TARGET_LEAST_ROOM	1024
/* All that is given in one vote, however much CPU time it stands for */
#define TARGET_VOTES		65536U

DEFINE_STATIC_KEY_FALSE(target_key);

/* Fast nodes by slot, from 1 on, and how many there are */
static int target_nodes[TARGET_SLOTS + 1];
static unsigned int target_nr;
static nodemask_t target_top;

struct target_thread {
	pid_t tid;
	u32 time;			/* used until the last vote; wraps */
};

/* What an address space remembers of its votes */
struct target_vote {
	u32 votes[TARGET_SLOTS + 1];	/* by slot */
	u8 last;			/* result */
	bool valid;			/* there has been one */
	u64 when;			/* of the last vote, by ktime_get_ns() */
	unsigned int nr;		/* threads that voted then */
	struct target_thread thread[TARGET_THREADS];
};

/**
 * target_start - number the fast nodes
 * @nodes: tiers
 *
 * Context: may sleep; no thread of kmmscand runs.
 */
void target_start(const struct kmmscand_nodes *nodes)
{
	int nid;

	target_nr = 0;
	target_top = nodes->top;
	for_each_node_mask(nid, nodes->top) {
		if (target_nr < TARGET_SLOTS)
			target_nodes[++target_nr] = nid;
	}
	if (target_nr > 1)
		static_branch_enable(&target_key);
}

/**
 * target_stop - undo target_start()
 *
 * Context: may sleep; no thread of kmmscand runs.
 */
void target_stop(void)
{
	static_branch_disable(&target_key);
}

/**
 * target_node - the fast node of a slot
 * @slot: any
 *
 * Context: any.
 * Return: NUMA_NO_NODE for TARGET_ANY and for what is no slot.
 */
int target_node(unsigned int slot)
{
	return slot && slot <= target_nr ? target_nodes[slot] : NUMA_NO_NODE;
}

/**
 * target_slot - the slot of a fast node, or of the one nearest to a node
 * @nid: online node, or NUMA_NO_NODE
 *
 * Context: any.
 * Return: the slot.
 */
unsigned int target_slot(int nid)
{
	unsigned int slot, best = 1;

	/* A CPU may have none. */
	for (slot = 1; slot <= target_nr && nid != NUMA_NO_NODE; slot++) {
		if (target_nodes[slot] == nid)
			return slot;
		if (node_distance(nid, target_nodes[slot]) <
		    node_distance(nid, target_nodes[best]))
			best = slot;
	}
	return best;
}

/**
 * target_aim - where pages should go that may not go everywhere
 * @vote:    slot that is preferred, or TARGET_ANY or TARGET_WAIT
 * @allowed: nodes that mempolicy and cpuset allow
 *
 * Context: any.
 * Return: slot and TARGET_STRICT, or 0 if they may go nowhere.
 */
u8 target_aim(unsigned int vote, const nodemask_t *allowed)
{
	int from = target_node(vote), nid;
	unsigned int slot, best = 0;

	if (nodes_subset(target_top, *allowed))
		return vote;
	if (from != NUMA_NO_NODE && node_isset(from, *allowed))
		return vote | TARGET_STRICT;
	/*
	 * The nearest; without a vote the first one that is not full.  It has to be the same
	 * one in each pass, or the user would disagree with itself.
	 */
	for (slot = 1; slot <= target_nr; slot++) {
		nid = target_nodes[slot];
		if (!node_isset(nid, *allowed))
			continue;
		if (!best || (from == NUMA_NO_NODE ?
			      tier_target_headroom(target_nodes[best]) < TARGET_LEAST_ROOM :
			      node_distance(from, nid) <
			      node_distance(from, target_nodes[best])))
			best = slot;
	}
	return best ? best | TARGET_STRICT : 0;
}

/*
 * CPU time that a thread has used since the last vote.  Threads are met in the order of
 * the list in which they were met before; new ones come last.
 */
static u32 target_used(struct target_vote *vote, unsigned int *next, struct task_struct *t,
		       u32 time)
{
	unsigned int i;

	for (i = *next; i < vote->nr; i++) {
		if (vote->thread[i].tid == t->pid) {
			*next = i + 1;
			return time - vote->thread[i].time;
		}
	}
	/* It is new, or has not been among those that vote. */
	return t->start_time >= vote->when ? time : 0;
}

/*
 * Ask the threads.  If there are many, some are asked, chosen by their ids, so that it is
 * the same ones the next time.
 */
static void target_ask(struct target_vote *vote, struct task_struct *task)
{
	struct target_thread *seen = NULL;
	unsigned int slot, mask, nr = 0, looked = 0, next = 0;
	u64 when = ktime_get_ns();
	struct task_struct *t;
	u64 used[TARGET_SLOTS + 1] = {}, sum = 0;
	u32 time;

	seen = kmalloc_array(TARGET_THREADS, sizeof(*seen), GFP_KERNEL | __GFP_NOWARN);
	if (!seen)
		return;
	rcu_read_lock();
	mask = get_nr_threads(task);
	mask = mask > TARGET_THREADS ? roundup_pow_of_two(mask) * 2 / TARGET_THREADS - 1 : 0;
	for_each_thread(task, t) {
		if (nr == TARGET_THREADS || ++looked > TARGET_THREADS_SEEN)
			break;
		if (hash_32(t->pid, 16) & mask)
			continue;
		seen[nr].tid = t->pid;
		/* A snapshot, which is some ticks old at most */
		seen[nr].time = READ_ONCE(t->se.sum_exec_runtime) >> TARGET_TIME_SHIFT;
		time = target_used(vote, &next, t, seen[nr].time);
		/* It may move any time. */
		used[target_slot(cpu_to_node(task_cpu(t)))] += time;
		sum += time;
		nr++;
	}
	rcu_read_unlock();

	/* Too little is added to the next vote. */
	if (sum < TARGET_LEAST_TIME && vote->when)
		goto out;
	/*
	 * How much CPU time a thread has ever used says little, it may have done nothing but
	 * set up the others.  So the first time nothing is learned but this.
	 */
	for (slot = 1; slot <= target_nr && vote->when; slot++) {
		vote->votes[slot] -= vote->votes[slot] / 4;
		vote->votes[slot] += div64_u64(used[slot] * TARGET_VOTES, sum);
	}
	vote->valid = vote->when;
	memcpy(vote->thread, seen, nr * sizeof(*seen));
	vote->nr = nr;
	vote->when = when;
out:
	kfree(seen);
}

/**
 * target_free - forget the votes of an address space
 * @state: that is about to be freed
 */
void target_free(struct kmmscand_mm *state)
{
	kfree(state->vote);
	state->vote = NULL;
}

/**
 * target_vote - ask the threads of a process where its pages should go
 * @state: its address space
 * @task:  one of its threads
 *
 * The result is in @state->pass.
 *
 * Context: its scanner; may sleep.
 */
void target_vote(struct kmmscand_mm *state, struct task_struct *task)
{
	struct kmmscand_pass *pass = &state->pass;
	struct target_vote *vote = state->vote;
	unsigned int pause;

	pass->vote = TARGET_ANY;
	if (!target_matters() || kmmscand_fault(VOTE)) {
		target_free(state);
		return;
	}
	if (!vote) {
		vote = kzalloc(sizeof(*vote), GFP_KERNEL | __GFP_NOWARN);
		state->vote = vote;
		if (!vote)
			return;
	}
	/* Time that has to be between votes.  Until the first one, pages are not even counted. */
	pause = READ_ONCE(kmmscand_tunables.scan_period_ms) / 2;
	if (!vote->valid)
		pause = min(pause, TARGET_FIRST_MS);
	if (ktime_get_ns() - vote->when > (u64)pause * NSEC_PER_MSEC)
		target_ask(vote, task);
	pass->vote = vote->valid ? target_winner(vote->votes) : TARGET_WAIT;
	if (pass->vote == TARGET_ANY)
		count_kmmscand_events(KMMSCAND_TARGET_SPLIT, 1);
	if (pass->vote != vote->last)
		trace_kmmscand_target_vote(task->tgid, target_node(pass->vote), vote->nr);
	vote->last = pass->vote;
}
