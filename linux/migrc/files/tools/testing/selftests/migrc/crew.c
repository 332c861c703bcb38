// SPDX-License-Identifier: GPL-2.0
/* Readers that never enter the kernel, and writers that count, see migrc.h. */
#include <stdarg.h>

#include "migrc.h"

#define MAX_SPOTS	16
#define MAX_WRITTEN	4
#define MAX_CREW	4

struct spot {
	atomic_uintptr_t word;	/* where; 0: leave it alone */
	atomic_ulong written;	/* this number has been written */
	atomic_ulong odd;	/* odd: read it, but anything may be there */
	uint64_t mark;		/* the upper half of the word */
};

struct mate {
	struct crew *crew;
	int nr, cpu;
	atomic_ulong rounds;
	pthread_t thread;
	uint64_t sums[MAX_WRITTEN];
};

struct crew {
	struct spot spots[MAX_SPOTS];
	struct mate mates[MAX_CREW];
	int nr_mates;
	atomic_int nr_spots, nr_written;
	char *written;
	atomic_bool stop;
	atomic_int found;	/* 0: nothing, 1: it is being written down, 2: it is there */
	char text[256];
};

static void found(struct crew *crew, const char *format, ...)
{
	int none = 0;
	va_list args;

	if (!atomic_compare_exchange_strong(&crew->found, &none, 1))
		return;
	va_start(args, format);
	vsnprintf(crew->text, sizeof(crew->text), format, args);
	va_end(args);
	atomic_store(&crew->found, 2);
}

static void judge(struct mate *mate, int nr)
{
	struct crew *crew = mate->crew;
	struct spot *spot = &crew->spots[nr];
	unsigned long odd, before, after;
	uint64_t got, number;
	uintptr_t word;

	word = atomic_load_explicit(&spot->word, memory_order_acquire);
	if (!word)
		return;
	odd = atomic_load_explicit(&spot->odd, memory_order_acquire);
	before = atomic_load_explicit(&spot->written, memory_order_acquire);
	got = word_read((void *)word);
	atomic_thread_fence(memory_order_acquire);
	after = atomic_load_explicit(&spot->written, memory_order_relaxed);
	if (odd % 2 || odd != atomic_load_explicit(&spot->odd, memory_order_relaxed))
		return;
	/* The next number may be there already. */
	number = got - spot->mark;
	if (number < before)
		found(crew, "stale read: CPU %d read %lu at spot %d though %lu was written",
		      mate->cpu, (unsigned long)number, nr, before);
	else if (number > after + 1)
		found(crew, "foreign page: CPU %d read %#llx at spot %d after %lu numbers",
		      mate->cpu, (unsigned long long)got, nr, after);
}

static uint64_t *own_word(struct mate *mate, int page)
{
	return (uint64_t *)(mate->crew->written + page * PAGE) + 8 * (1 + mate->nr);
}

static void check(struct mate *mate, int page)
{
	uint64_t got = word_read(own_word(mate, page));

	if (got != mate->sums[page])
		found(mate->crew, "lost write: CPU %d wrote %llu to page %d and read %llu later",
		      mate->cpu, (unsigned long long)mate->sums[page], page,
		      (unsigned long long)got);
}

static void *go_on(void *arg)
{
	struct mate *mate = arg;
	struct crew *crew = mate->crew;
	int i, nr;

	pin(mate->cpu);
	while (!atomic_load_explicit(&crew->stop, memory_order_relaxed)) {
		nr = atomic_load_explicit(&crew->nr_spots, memory_order_relaxed);
		for (i = 0; i < nr; i++)
			judge(mate, i);
		nr = atomic_load_explicit(&crew->nr_written, memory_order_acquire);
		for (i = 0; i < nr && crew_clean(crew); i++) {
			check(mate, i);
			mate->sums[i]++;
			word_write(own_word(mate, i), mate->sums[i]);
		}
		atomic_fetch_add(&mate->rounds, 1);
		relax();
	}
	return NULL;
}

struct crew *crew_start(int nr)
{
	struct crew *crew = shared_alloc(sizeof(*crew));
	int i;

	for (i = 0; crew && i < nr && i < MAX_CREW; i++) {
		crew->mates[i].crew = crew;
		crew->mates[i].nr = i;
		crew->mates[i].cpu = nr_cpus() - 1 - i;
		if (pthread_create(&crew->mates[i].thread, NULL, go_on, &crew->mates[i]))
			break;
		crew->nr_mates++;
	}
	return crew;
}

/* What was written last, as this CPU sees it */
static void check_all(struct crew *crew, int nr_pages)
{
	int i, page;

	for (i = 0; i < crew->nr_mates; i++)
		for (page = 0; page < nr_pages; page++)
			check(&crew->mates[i], page);
}

void crew_stop(struct crew *crew)
{
	int i;

	if (!crew || atomic_exchange(&crew->stop, true))
		return;
	for (i = 0; i < crew->nr_mates; i++)
		pthread_join(crew->mates[i].thread, NULL);
	check_all(crew, crew->nr_written);
}

void crew_write(struct crew *crew, char *pages, int nr_pages)
{
	int nr = atomic_exchange(&crew->nr_written, 0), i;

	if (nr) {
		crew_settle(crew);
		check_all(crew, nr);
	}
	for (i = 0; i < crew->nr_mates; i++)
		memset(crew->mates[i].sums, 0, sizeof(crew->mates[i].sums));
	crew->written = pages;
	atomic_store(&crew->nr_written, nr_pages < MAX_WRITTEN ? nr_pages : MAX_WRITTEN);
}

uint64_t spot_next(struct crew *crew, int nr)
{
	return crew->spots[nr].mark + atomic_load(&crew->spots[nr].written) + 1;
}

void spot_has_next(struct crew *crew, int nr)
{
	atomic_fetch_add_explicit(&crew->spots[nr].written, 1, memory_order_release);
}

void spot_write(struct crew *crew, int nr)
{
	word_write((void *)atomic_load(&crew->spots[nr].word), spot_next(crew, nr));
	spot_has_next(crew, nr);
}

void spot_change(struct crew *crew, int nr)
{
	atomic_fetch_add(&crew->spots[nr].odd, 1);
}

void spot_show(struct crew *crew, int nr, void *page)
{
	crew->spots[nr].mark = (uint64_t)(0x51000000 + nr) << 32;
	word_write(page, spot_next(crew, nr));
	spot_has_next(crew, nr);
	spot_show_again(crew, nr, page);
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
	unsigned long start[MAX_CREW];
	int i;

	for (i = 0; i < crew->nr_mates; i++)
		start[i] = atomic_load(&crew->mates[i].rounds);
	for (i = 0; i < crew->nr_mates; i++)
		/* The round that is going on may have begun before. */
		while (atomic_load(&crew->mates[i].rounds) < start[i] + 2)
			usleep(20);
	return crew_clean(crew);
}

const char *crew_says(struct crew *crew)
{
	while (atomic_load(&crew->found) == 1)
		usleep(20);
	return crew->text;
}
