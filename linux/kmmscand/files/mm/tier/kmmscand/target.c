// SPDX-License-Identifier: GPL-2.0
/*
 * To which fast node should a page go?
 *
 * An Accessed bit does not tell which CPU has set it.  On a machine with several fast nodes these
 * questions are asked, in this order:
 *
 *  1. Where may it go?  Mempolicy and cpuset (walk.c) allow some fast nodes.  If these are not all
 *     of them, the page goes to the one that is chosen among them, or stays (strict).
 *  2. Where does the address space run?  Each sample of a running thread (sample.c) is a vote for
 *     the node of the CPU.  Older votes count less.  With TARGET_CLEAR_PCT of the votes a node is
 *     chosen for the pages of the address space.  A page that other address spaces map, too, goes
 *     to the nearest node.
 *  3. All else goes to the fast node nearest to the slow one.  Whatever the choice, if the node has
 *     no room, the next one that has some is taken (kpromoted.c).
 *
 * What has been promoted stays where it is when its process moves.
 *
 * Locking: the caller's for target_vote().  target_winner() may see votes that change just now.
 * The nodes change only while no thread of kmmscand runs.
 */

#include <linux/minmax.h>
#include <linux/nodemask.h>
#include <linux/numa.h>
#include <linux/tier_policy.h>
#include <linux/topology.h>

#include "fault.h"
#include "target.h"

/* A vote is clear if so many percent agree. */
#define TARGET_CLEAR_PCT	60
/* Votes are halved when there are so many: 4 s of a thread that runs all the time */
#define TARGET_VOTES		64

static int target_nodes[TARGET_NODES];
static int target_nr;
static nodemask_t target_top;

/**
 * target_start - number the fast nodes
 * @top: fast nodes
 *
 * Context: no thread of kmmscand runs.
 */
void target_start(const nodemask_t *top)
{
	int nid;

	target_top = *top;
	target_nr = 0;
	for_each_node_mask(nid, *top) {
		if (target_nr < TARGET_NODES)
			target_nodes[target_nr++] = nid;
	}
}

/* The place of the fast node nearest to a node, or -1 if that node has none */
static int target_place(int nid)
{
	int i, best = 0;

	if (node_isset(nid, target_top) && nid > target_nodes[target_nr - 1])
		return -1;

	for (i = 1; i < target_nr; i++) {
		if (node_distance(nid, target_nodes[i]) < node_distance(nid, target_nodes[best]))
			best = i;
	}
	return best;
}

/**
 * target_vote - a thread of an address space was running
 * @votes: of the address space
 * @nid:   node of the CPU
 */
void target_vote(u16 *votes, int nid)
{
	int i, place = target_place(nid);

	if (place < 0 || ++votes[place] < TARGET_VOTES)
		return;
	for (i = 0; i < target_nr; i++)
		votes[i] /= 2;
}

/**
 * target_winner - have votes a clear winner?
 * @votes: of an address space
 *
 * Return: the fast node, or NUMA_NO_NODE.
 */
int target_winner(const u16 *votes)
{
	unsigned int sum = 0, most = 0;
	int i, best = 0;

	for (i = 0; i < target_nr; i++) {
		unsigned int votes_i = READ_ONCE(votes[i]);

		sum += votes_i;
		if (votes_i > most) {
			most = votes_i;
			best = i;
		}
	}
	if (!sum || most * 100 < sum * TARGET_CLEAR_PCT || kmmscand_fault(VOTE))
		return NUMA_NO_NODE;
	return target_nodes[best];
}

/**
 * target_choose - where pages should go that may not go everywhere
 * @target:  result
 * @vote:    fast node that is preferred, or NUMA_NO_NODE
 * @allowed: nodes that mempolicy and cpuset allow
 *
 * Return: false if they may go nowhere.
 */
bool target_choose(struct target *target, int vote, const nodemask_t *allowed)
{
	nodemask_t nodes;

	nodes_and(nodes, *allowed, target_top);
	*target = (struct target) {
		.nid = vote, .strict = !nodes_equal(nodes, target_top),
	};
	if (target->strict && (vote == NUMA_NO_NODE || !node_isset(vote, nodes))) {
		int nid, from = vote;

		target->nid = first_node(nodes);
		for_each_node_mask(nid, nodes) {
			if (from != NUMA_NO_NODE &&
			    node_distance(from, nid) < node_distance(from, target->nid))
				target->nid = nid;
		}
	}
	return !nodes_empty(nodes);
}

/**
 * target_policy_nodes - nodes that a policy lets pages move to
 * @pol:   NULL for the default; kept by the caller
 * @nodes: result
 *
 * Context: any.
 */
void target_policy_nodes(struct mempolicy *pol, nodemask_t *nodes)
{
	int nid;

	nodes_clear(*nodes);
	for_each_node_state(nid, N_MEMORY)
		if (tier_policy_allows(pol, nid))
			node_set(nid, *nodes);
}
