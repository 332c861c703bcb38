/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Promotions under way: see flight.c.
 */
#ifndef _MM_TIER_FLIGHT_H
#define _MM_TIER_FLIGHT_H

#include <linux/hash.h>
#include <linux/spinlock.h>
#include <linux/swap.h>
#include <linux/tier_policy.h>
#include <linux/types.h>
#include <linux/wait.h>

/* Calls of tier_promote() at a time; one more does nothing */
#define TIER_FLIGHTS		32
/* Bits for address spaces and objects that were asked, and for isolated folios */
#define TIER_ASKED_BITS		14
#define TIER_FOLIO_BITS		12
/*
 * Address spaces and objects that a batch asks, so that few changes wait for nothing.  Folios with
 * many mappings may use them up: each folio may ask TIER_ASKED_EACH without that.
 */
#define TIER_ASKED_MAX		1024
#define TIER_ASKED_EACH		4
/* Address spaces whose answer is kept */
#define TIER_JUDGED_BITS	6

/* What the tasks of an address space say: their cpusets, their policies */
struct tier_judgement {
	enum tier_answer cpuset;
	enum tier_answer tasks;
};

/**
 * struct tier_flight - a call of tier_promote(), and the batch that it migrates
 * @slot:    of the flight
 * @id:      of the batch, later ones have higher ids; U64_MAX between batches
 * @wait:    waiters for the end of the batch
 * @nid:     target of the batch
 * @refused: base pages of the batch that were refused
 * @nr_asked: bits that the batch has set in @asked
 * @nr_each: of these, set for the folio that is asked now
 * @task:    that migrates the batch
 * @lock:    of @hurried and @nice
 * @hurried: a waiter has changed the nice value of @task
 * @nice:    that it was
 * @asked:   address spaces and objects that the batch has asked, by hash
 * @folios:  folios that the batch has isolated, by hash
 * @judged:  address spaces that were judged in the batch, by hash; mm_count is held
 *
 * @id, @asked and @folios are written by the task of the flight and read by others.
 */
struct tier_flight {
	int slot;
	u64 id;
	wait_queue_head_t wait;
	int nid;
	unsigned long refused;
	unsigned int nr_asked;
	unsigned int nr_each;
	struct task_struct *task;
	spinlock_t lock;	/* of hurried and nice */
	bool hurried;
	int nice;
	DECLARE_BITMAP(asked, 1 << TIER_ASKED_BITS);
	DECLARE_BITMAP(folios, 1 << TIER_FOLIO_BITS);
	struct {
		struct mm_struct *mm;
		struct tier_judgement answer;
	} judged[1 << TIER_JUDGED_BITS];
};

struct tier_flight *tier_flight_get(void);
void tier_flight_put(struct tier_flight *flight);
void tier_flight_begin(struct tier_flight *flight, int nid);
void tier_flight_end(struct tier_flight *flight, const struct folio *next);
void tier_flights_wait_idle(void);

/**
 * tier_flight_asks - an address space or an object is about to be asked
 * @flight: of the running task
 * @key:    struct mm_struct or struct address_space
 *
 * What is read of the key's policies afterwards is either what a change has made visible before
 * it called tier_wait_add(), or the change finds the bit and waits.  If the bit is set already,
 * that was said when it was set.
 *
 * Return: false if the batch has asked too many, and the folio its share.
 */
static inline bool tier_flight_asks(struct tier_flight *flight, const void *key)
{
	unsigned int bit = hash_ptr(key, TIER_ASKED_BITS);

	/* Fork may have set the bit: pairs with its barrier, too. */
	if (test_bit_acquire(bit, flight->asked))
		return true;
	if (flight->nr_each++ >= TIER_ASKED_EACH && flight->nr_asked >= TIER_ASKED_MAX)
		return false;
	flight->nr_asked++;
	set_bit(bit, flight->asked);
	smp_mb__after_atomic();	/* pairs with __tier_wait_add() */
	return true;
}

/**
 * tier_flight_takes - a folio is about to be isolated
 * @flight: of the running task
 * @folio:  a reference is held
 *
 * Who fails to isolate it finds the bit: folio_isolate_lru() is a full barrier on either side.
 */
static inline void tier_flight_takes(struct tier_flight *flight, const struct folio *folio)
{
	set_bit(hash_ptr(folio, TIER_FOLIO_BITS), flight->folios);
}

/**
 * tier_folio_has_users - can a folio be asked?
 * @folio: a reference is held; the answer is final if it is locked
 *
 * Return: false in the swap cache, and where neither an object nor a mapping is known.
 */
static inline bool tier_folio_has_users(struct folio *folio)
{
	return folio->mapping && !folio_test_swapcache(folio) &&
	       (folio_mapped(folio) || !folio_test_anon(folio));
}

#endif /* _MM_TIER_FLIGHT_H */
