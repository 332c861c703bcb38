// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit tests of targets: votes for fast nodes, and the choice among the nodes that are allowed.
 *
 * The nodes are numbers here, so this needs no machine with several fast nodes.  While kmmscand
 * runs the tests skip themselves; when it starts it numbers the nodes again.
 */

#include <kunit/test.h>

#include <linux/nodemask.h>
#include <linux/numa.h>
#include <linux/string.h>
#include <linux/topology.h>

#include "main.h"
#include "target.h"

/* Nodes from @first to @last are fast. */
static nodemask_t begin(struct kunit *test, int first, int last)
{
	nodemask_t top = NODE_MASK_NONE;

	if (kmmscand_enabled())
		kunit_skip(test, "kmmscand is in use");
	for (; first <= last; first++)
		node_set(first, top);
	target_start(&top);
	return top;
}

/* The nearest of some nodes; the first one of several */
static int nearest(int from, int first, int last)
{
	int nid, best = first;

	for (nid = first; nid <= last; nid++) {
		if (node_distance(from, nid) < node_distance(from, best))
			best = nid;
	}
	return best;
}

/* Six votes of ten are clear, and fewer are not. */
static void winner_test(struct kunit *test)
{
	u16 votes[TARGET_NODES] = {};

	begin(test, 1, 2);
	KUNIT_EXPECT_EQ(test, target_winner(votes), NUMA_NO_NODE);
	votes[1] = 1;
	KUNIT_EXPECT_EQ(test, target_winner(votes), 2);
	votes[1] = 40;
	votes[0] = 60;
	KUNIT_EXPECT_EQ(test, target_winner(votes), 1);
	votes[0] = 59;
	votes[1] = 41;
	KUNIT_EXPECT_EQ(test, target_winner(votes), NUMA_NO_NODE);
	votes[0] = 30;
	votes[1] = 45;
	KUNIT_EXPECT_EQ(test, target_winner(votes), 2);
	votes[1] = 40;
	KUNIT_EXPECT_EQ(test, target_winner(votes), NUMA_NO_NODE);
}

/* A CPU votes for its node, or for the fast node nearest to it. */
static void vote_test(struct kunit *test)
{
	u16 votes[TARGET_NODES] = {}, expected[TARGET_NODES] = {};
	int nid;

	begin(test, 1, 2);
	target_vote(votes, 1);
	target_vote(votes, 2);
	target_vote(votes, 2);
	KUNIT_EXPECT_EQ(test, votes[0], 1);
	KUNIT_EXPECT_EQ(test, votes[1], 2);

	memset(votes, 0, sizeof(votes));
	for (nid = 0; nid < 5; nid++) {
		target_vote(votes, nid);
		expected[nearest(nid, 1, 2) - 1]++;
	}
	KUNIT_EXPECT_EQ(test, votes[0], expected[0]);
	KUNIT_EXPECT_EQ(test, votes[1], expected[1]);
}

/* Old votes count less: an address space that moves has a new winner after 4 s. */
static void halving_test(struct kunit *test)
{
	u16 votes[TARGET_NODES] = {};
	int i;

	begin(test, 0, 1);
	votes[1] = 9;
	for (i = 0; i < 63; i++)
		target_vote(votes, 0);
	KUNIT_EXPECT_EQ(test, votes[0], 63);
	KUNIT_EXPECT_EQ(test, votes[1], 9);
	target_vote(votes, 0);
	KUNIT_EXPECT_EQ(test, votes[0], 32);
	KUNIT_EXPECT_EQ(test, votes[1], 4);

	for (i = 0; i < 100000; i++)
		target_vote(votes, 0);
	KUNIT_EXPECT_EQ(test, target_winner(votes), 0);
	for (i = 0; i < 64; i++)
		target_vote(votes, 1);
	KUNIT_EXPECT_EQ(test, target_winner(votes), 1);
}

/* More fast nodes than there are votes: what runs on one of the others has none. */
static void many_test(struct kunit *test)
{
	u16 votes[TARGET_NODES + 1] = {};
	unsigned int i, sum = 0;

	begin(test, 0, TARGET_NODES);
	target_vote(votes, TARGET_NODES);
	KUNIT_EXPECT_EQ(test, target_winner(votes), NUMA_NO_NODE);
	for (i = 0; i <= TARGET_NODES; i++)
		sum += votes[i];
	KUNIT_EXPECT_EQ(test, sum, 0);

	/* The last one that has a vote, and a slow node */
	target_vote(votes, TARGET_NODES - 1);
	KUNIT_EXPECT_EQ(test, target_winner(votes), TARGET_NODES - 1);
	memset(votes, 0, sizeof(votes));
	target_vote(votes, TARGET_NODES + 1);
	KUNIT_EXPECT_EQ(test, target_winner(votes),
			nearest(TARGET_NODES + 1, 0, TARGET_NODES - 1));
}

/* If all fast nodes are allowed, the vote is a wish. */
static void free_test(struct kunit *test)
{
	struct target target;
	nodemask_t allowed = begin(test, 0, 2);

	/* Slow nodes make no difference. */
	node_set(4, allowed);
	KUNIT_EXPECT_TRUE(test, target_choose(&target, 1, &allowed));
	KUNIT_EXPECT_EQ(test, target.nid, 1);
	KUNIT_EXPECT_FALSE(test, target.strict);
	KUNIT_EXPECT_TRUE(test, target_choose(&target, NUMA_NO_NODE, &allowed));
	KUNIT_EXPECT_EQ(test, target.nid, NUMA_NO_NODE);
	KUNIT_EXPECT_FALSE(test, target.strict);
}

/* If a policy forbids a fast node, the choice is among the others, and strict. */
static void strict_test(struct kunit *test)
{
	nodemask_t allowed = NODE_MASK_NONE;
	struct target target;

	begin(test, 0, 2);
	node_set(1, allowed);
	node_set(2, allowed);
	node_set(4, allowed);
	KUNIT_EXPECT_TRUE(test, target_choose(&target, 2, &allowed));
	KUNIT_EXPECT_EQ(test, target.nid, 2);
	KUNIT_EXPECT_TRUE(test, target.strict);
	/* Not where the threads run, but near it */
	KUNIT_EXPECT_TRUE(test, target_choose(&target, 0, &allowed));
	KUNIT_EXPECT_EQ(test, target.nid, nearest(0, 1, 2));
	KUNIT_EXPECT_TRUE(test, target.strict);
	KUNIT_EXPECT_TRUE(test, target_choose(&target, NUMA_NO_NODE, &allowed));
	KUNIT_EXPECT_EQ(test, target.nid, 1);
	KUNIT_EXPECT_TRUE(test, target.strict);
}

/* What is bound to slow nodes stays. */
static void nowhere_test(struct kunit *test)
{
	nodemask_t allowed = NODE_MASK_NONE;
	struct target target;

	begin(test, 0, 2);
	KUNIT_EXPECT_FALSE(test, target_choose(&target, 0, &allowed));
	node_set(4, allowed);
	KUNIT_EXPECT_FALSE(test, target_choose(&target, 0, &allowed));
	KUNIT_EXPECT_FALSE(test, target_choose(&target, NUMA_NO_NODE, &allowed));
}

static struct kunit_case target_test_cases[] = {
	KUNIT_CASE(winner_test),
	KUNIT_CASE(vote_test),
	KUNIT_CASE(halving_test),
	KUNIT_CASE(many_test),
	KUNIT_CASE(free_test),
	KUNIT_CASE(strict_test),
	KUNIT_CASE(nowhere_test),
	{}
};

static struct kunit_suite target_test_suite = {
	.name = "kmmscand_target",
	.test_cases = target_test_cases,
};

kunit_test_suites(&target_test_suite);
