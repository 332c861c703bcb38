// SPDX-License-Identifier: GPL-2.0
/* Readers that never enter the kernel, see readers.h. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pages.h"
#include "readers.h"

/* Is it slow, or hangs it? */
#define SETTLE_S	30

struct reader {
	struct crew *crew;
	int cpu;
	atomic_ulong rounds;
	pthread_t thread;
};

struct crew {
	struct spot spots[MAX_SPOTS];
	struct reader readers[MAX_READERS];
	int nr_readers;
	atomic_int nr_spots;
	atomic_bool stop;
	atomic_int found;	/* 0: nothing, 1: somebody writes it down, 2: it is there */
	struct finding finding;
	char text[256];
};

bool spot_judge(struct spot *spot, struct finding *finding)
{
	unsigned long odd, before, after;
	uintptr_t word;
	uint64_t got, number;

	word = atomic_load_explicit(&spot->word, memory_order_acquire);
	if (!word)
		return true;
	odd = atomic_load_explicit(&spot->odd, memory_order_acquire);
	before = atomic_load_explicit(&spot->written, memory_order_acquire);
	got = word_read((void *)word);
	atomic_thread_fence(memory_order_acquire);
	after = atomic_load_explicit(&spot->written, memory_order_relaxed);
	if (odd % 2 || odd != atomic_load_explicit(&spot->odd, memory_order_relaxed))
		return true;
	/* The next number may be there already. */
	number = got - spot->mark;
	if (number >= before && number <= after + 1)
		return true;
	finding->got = got;
	finding->mark = spot->mark;
	finding->before = before;
	finding->after = after;
	return false;
}

void crew_report(struct crew *crew, const struct finding *finding)
{
	int none = 0;

	if (!atomic_compare_exchange_strong(&crew->found, &none, 1))
		return;
	crew->finding = *finding;
	atomic_store(&crew->found, 2);
}

static void *read_on(void *arg)
{
	struct reader *reader = arg;
	struct crew *crew = reader->crew;
	struct finding finding;
	int i, nr;

	pin(reader->cpu);
	while (!atomic_load_explicit(&crew->stop, memory_order_relaxed)) {
		nr = atomic_load_explicit(&crew->nr_spots, memory_order_relaxed);
		for (i = 0; i < nr; i++) {
			if (spot_judge(&crew->spots[i], &finding))
				continue;
			finding.spot = i;
			finding.cpu = reader->cpu;
			crew_report(crew, &finding);
		}
		atomic_fetch_add(&reader->rounds, 1);
		relax();
	}
	return NULL;
}

struct crew *crew_start(int nr_readers)
{
	struct crew *crew = shared_alloc(sizeof(*crew));
	int i, last = nr_cpus() - 1;

	for (i = 0; crew && i < nr_readers && i < MAX_READERS; i++) {
		crew->readers[i].crew = crew;
		crew->readers[i].cpu = last - i;
		if (pthread_create(&crew->readers[i].thread, NULL, read_on, &crew->readers[i]))
			break;
		crew->nr_readers++;
	}
	return crew;
}

void crew_stop(struct crew *crew)
{
	int i;

	if (!crew)
		return;
	atomic_store(&crew->stop, true);
	for (i = 0; i < crew->nr_readers; i++)
		pthread_join(crew->readers[i].thread, NULL);
	shared_free(crew, sizeof(*crew));
}

struct spot *crew_spot(struct crew *crew, int nr)
{
	return &crew->spots[nr];
}

uint64_t spot_next(struct spot *spot)
{
	return spot->mark + atomic_load(&spot->written) + 1;
}

void spot_has_next(struct spot *spot)
{
	atomic_fetch_add_explicit(&spot->written, 1, memory_order_release);
}

void spot_write(struct spot *spot)
{
	word_write((void *)atomic_load(&spot->word), spot_next(spot));
	spot_has_next(spot);
}

void spot_begin_change(struct spot *spot)
{
	atomic_fetch_add(&spot->odd, 1);
}

void spot_end_change(struct spot *spot)
{
	atomic_fetch_add_explicit(&spot->odd, 1, memory_order_release);
}

bool spot_intact(struct spot *spot, const void *page)
{
	return word_read(page) == spot->mark + atomic_load(&spot->written);
}

void spot_show(struct crew *crew, int nr, void *page)
{
	struct spot *spot = &crew->spots[nr];

	spot->mark = (uint64_t)(0x51000000 + nr) << 32;
	word_write(page, spot_next(spot));
	spot_has_next(spot);
	atomic_store(&spot->word, (uintptr_t)page);
	if (nr >= atomic_load(&crew->nr_spots))
		atomic_store(&crew->nr_spots, nr + 1);
}

void spot_show_again(struct crew *crew, int nr, void *page)
{
	atomic_store(&crew->spots[nr].word, (uintptr_t)page);
}

void spot_hide(struct crew *crew, int nr)
{
	atomic_store(&crew->spots[nr].word, 0);
	crew_settle(crew);
}

bool crew_clean(struct crew *crew)
{
	return !atomic_load(&crew->found);
}

bool crew_settle(struct crew *crew)
{
	unsigned long start[MAX_READERS];
	double end = now() + SETTLE_S;
	int i;

	for (i = 0; i < crew->nr_readers; i++)
		start[i] = atomic_load(&crew->readers[i].rounds);
	for (i = 0; i < crew->nr_readers; i++) {
		/* The round that is going on may have begun before. */
		while (atomic_load(&crew->readers[i].rounds) < start[i] + 2) {
			if (now() > end) {
				crew_report(crew, &(struct finding){ .spot = -1, .cpu =
					    crew->readers[i].cpu });
				return false;
			}
			usleep(20);
		}
	}
	return crew_clean(crew);
}

const char *crew_says(struct crew *crew)
{
	struct finding *found = &crew->finding;
	uint64_t number = found->got - found->mark;

	while (atomic_load(&crew->found) == 1)
		usleep(20);
	if (!atomic_load(&crew->found))
		return "all that was read was right";
	if (found->spot < 0)
		snprintf(crew->text, sizeof(crew->text), "the reader on CPU %d hangs", found->cpu);
	else if (number < found->before)
		snprintf(crew->text, sizeof(crew->text),
			 "stale read: CPU %d read number %lu of spot %d after it had seen that %lu was written",
			 found->cpu, (unsigned long)number, found->spot, found->before);
	else
		snprintf(crew->text, sizeof(crew->text),
			 "foreign page: CPU %d read %#llx at spot %d, where numbers up to %lu were written",
			 found->cpu, (unsigned long long)found->got, found->spot, found->after);
	return crew->text;
}
