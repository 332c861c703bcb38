/* SPDX-License-Identifier: GPL-2.0 */
/*
 * So much of the kernel as ring.c, target.c and limit.h of mm/tier/kmmscand need to be compiled in
 * user space, and of KUnit as their suites need; see tests/unit/test_kunit.py.
 *
 * The compiler includes this file before each source file.
 */
#ifndef _TIERSHIFT_KUNIT_TEST_H
#define _TIERSHIFT_KUNIT_TEST_H

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef int16_t s16;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define HZ		250
/* The lower 32 bits have wrapped lately, as in the kernel five minutes after boot. */
static const volatile unsigned long jiffies __attribute__((unused)) = (1UL << 32) + HZ / 16;
#define PAGE_COUNTER_MAX	(LONG_MAX / 4096)
#define READ_ONCE(x)	(x)
#define WRITE_ONCE(x, val)	((x) = (val))
#define kmmscand_fault(name)	false

#define min(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a < _b ? _a : _b; })
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

typedef struct { int unused; } spinlock_t;

#define spin_lock_init(lock)	((void)(lock))
#define spin_lock(lock)		((void)(lock))
#define spin_unlock(lock)	((void)(lock))

typedef struct { int unused; } wait_queue_head_t;

#define init_waitqueue_head(wait)	((void)(wait))
#define wq_has_sleeper(wait)		((void)(wait), false)
#define wake_up(wait)			((void)(wait))

#define TIER_GROUPS	64
#define count_kmmscand_events(item, nr)	((void)(nr))

#define kvzalloc_node(size, flags, nid)	calloc(1, size)
#define kvfree			free

/* Nodes: a mask of 64 bits */
#define MAX_NUMNODES	64
#define NUMA_NO_NODE	(-1)
#define NODE_MASK_NONE	((nodemask_t) { 0 })

typedef struct { u64 bits; } nodemask_t;

#define nodes_clear(mask)		((mask).bits = 0)
#define node_set(nid, mask)		((mask).bits |= 1ULL << (nid))
#define node_isset(nid, mask)		((mask).bits >> (nid) & 1)
#define nodes_and(to, a, b)		((to).bits = (a).bits & (b).bits)
#define nodes_equal(a, b)		((a).bits == (b).bits)
#define nodes_empty(mask)		(!(mask).bits)
#define first_node(mask)		((mask).bits ? __builtin_ctzll((mask).bits) : MAX_NUMNODES)
#define for_each_node_mask(nid, mask)						\
	for ((nid) = 0; (nid) < MAX_NUMNODES; (nid)++)				\
		if (node_isset(nid, mask))

/* No suite asks for policies. */
#define for_each_node_state(nid, state)	for ((nid) = 0; (nid) < 0; (nid)++)
#define tier_policy_allows(pol, nid)	((void)(pol), false)

/* Node 0 is nearest to node 2, node 3 to node 1, and node 9 to node 5. */
static inline int node_distance(int from, int to)
{
	static const u8 near[][2] = { { 0, 2 }, { 1, 3 }, { 5, 9 } };
	unsigned int i;

	if (from == to)
		return 10;
	for (i = 0; i < ARRAY_SIZE(near); i++) {
		if ((from == near[i][0] && to == near[i][1]) ||
		    (to == near[i][0] && from == near[i][1]))
			return 15;
	}
	return 20 + abs(from - to);
}

/* kmmscand is off: main.c is not compiled here. */
__attribute__((weak)) bool kmmscand_enabled(void)
{
	return false;
}

struct kunit {
	int failures;
};

struct kunit_case {
	void (*run_case)(struct kunit *test);
	const char *name;
};

struct kunit_suite {
	const char *name;
	struct kunit_case *test_cases;
};

#define KUNIT_CASE(function)	{ .run_case = function, .name = #function }

/* The program runs the suite.  It prints each check that fails. */
#define kunit_test_suites(suite)						\
int main(void)									\
{										\
	struct kunit test = {};							\
	struct kunit_case *one;							\
										\
	for (one = (suite)->test_cases; one->run_case; one++)			\
		one->run_case(&test);						\
	return test.failures != 0;						\
}

#define kunit_skip(test, reason)	((void)(test), abort())

#define KUNIT_CHECK(test, a, op, b)						\
	do {									\
		if (!((a) op (b))) {						\
			(test)->failures++;					\
			printf("%s, line %d: %s " #op " %s\n", __func__, __LINE__, #a, #b); \
		}								\
	} while (0)

#define KUNIT_ASSERT_EQ(test, a, b)		KUNIT_CHECK(test, a, ==, b)
#define KUNIT_EXPECT_EQ(test, a, b)		KUNIT_CHECK(test, a, ==, b)
#define KUNIT_EXPECT_LE(test, a, b)		KUNIT_CHECK(test, a, <=, b)
#define KUNIT_EXPECT_GE(test, a, b)		KUNIT_CHECK(test, a, >=, b)
#define KUNIT_EXPECT_TRUE(test, a)		KUNIT_CHECK(test, !!(a), ==, true)
#define KUNIT_EXPECT_FALSE(test, a)		KUNIT_CHECK(test, !!(a), ==, false)

#endif /* _TIERSHIFT_KUNIT_TEST_H */
