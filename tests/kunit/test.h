/* SPDX-License-Identifier: GPL-2.0 */
/*
 * So much of the kernel as the decisions of mm/tier need to be compiled in user space,
 * and of KUnit as their cases need; see tests/unit/test_decisions.py.
 */
#ifndef _TIERSHIFT_KUNIT_TEST_H
#define _TIERSHIFT_KUNIT_TEST_H

#include <assert.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef struct { int unused; } nodemask_t;
typedef struct { int unused; } pte_t;

#define HZ		250
#define PAGE_COUNTER_MAX	(LONG_MAX / 4096)
#define USEC_PER_MSEC	1000L
#define U64_MAX		UINT64_MAX
#define U32_MAX		UINT32_MAX
#define U16_MAX		UINT16_MAX
#define TIER_GROUPS	64
#define kmmscand_fault(name)	false
#define DECLARE_STATIC_KEY_FALSE(name)	extern bool name
#define static_branch_unlikely(key)	(*(key))

#define min(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a < _b ? _a : _b; })
#define max(a, b) ({ __typeof__(a) _a = (a); __typeof__(b) _b = (b); _a > _b ? _a : _b; })
#define min_t(type, a, b)	min((type)(a), (type)(b))
#define max_t(type, a, b)	max((type)(a), (type)(b))
#define clamp(val, lo, hi)	min_t(__typeof__(val), max_t(__typeof__(val), val, lo), hi)
#define mult_frac(x, n, d)	((unsigned long)((unsigned __int128)(x) * (n) / (d)))
#define hweight8(w)		__builtin_popcount((u8)(w))
#define PTRS_PER_PTE		512
#define DECLARE_BITMAP(name, bits) unsigned long name[(bits) / 64]
#define ARRAY_SIZE(a)		(sizeof(a) / sizeof((a)[0]))

static inline void bitmap_zero(unsigned long *map, unsigned int bits)
{
	memset(map, 0, bits / 8);
}

static inline bool bitmap_empty(const unsigned long *map, unsigned int bits)
{
	unsigned int i;

	for (i = 0; i < bits / 64; i++) {
		if (map[i])
			return false;
	}
	return true;
}

struct list_head {
	struct list_head *next, *prev;
};

#define LIST_HEAD(name)		struct list_head name = { &(name), &(name) }
#define list_entry(ptr, type, member) ((type *)((char *)(ptr) - offsetof(type, member)))
#define list_for_each_entry(pos, head, member)					\
	for (pos = list_entry((head)->next, __typeof__(*pos), member);		\
	     &pos->member != (head);						\
	     pos = list_entry(pos->member.next, __typeof__(*pos), member))

static inline void list_add_tail(struct list_head *entry, struct list_head *head)
{
	entry->next = head;
	entry->prev = head->prev;
	head->prev->next = entry;
	head->prev = entry;
}

struct kunit {
	int failures;
};

#define KUNIT_CHECK(test, a, op, b)						\
	do {									\
		if (!((a) op (b))) {						\
			(test)->failures++;					\
			printf("%s, line %d: %s " #op " %s\n", __func__, __LINE__, #a, #b); \
		}								\
	} while (0)

#define KUNIT_EXPECT_EQ(test, a, b)		KUNIT_CHECK(test, a, ==, b)
#define KUNIT_EXPECT_NE(test, a, b)		KUNIT_CHECK(test, a, !=, b)
#define KUNIT_EXPECT_LE(test, a, b)		KUNIT_CHECK(test, a, <=, b)
#define KUNIT_EXPECT_GE(test, a, b)		KUNIT_CHECK(test, a, >=, b)
#define KUNIT_EXPECT_TRUE(test, a)		KUNIT_CHECK(test, !!(a), ==, true)
#define KUNIT_EXPECT_FALSE(test, a)		KUNIT_CHECK(test, !!(a), ==, false)
#define KUNIT_EXPECT_EQ_MSG(test, a, b, ...)	KUNIT_EXPECT_EQ(test, a, b)
#define KUNIT_EXPECT_LE_MSG(test, a, b, ...)	KUNIT_EXPECT_LE(test, a, b)
#define KUNIT_EXPECT_FALSE_MSG(test, a, ...)	KUNIT_EXPECT_FALSE(test, a)

#endif /* _TIERSHIFT_KUNIT_TEST_H */
