// SPDX-License-Identifier: GPL-2.0
/* Writers that count, see writers.h. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "writers.h"

struct writer {
	struct writers *writers;
	int nr, cpu;
	atomic_ulong rounds;
	pthread_t thread;
	uint64_t sums[MAX_WRITTEN];
};

struct writers {
	struct writer writers[MAX_READERS];
	int nr_writers, nr_pages;
	char *pages[MAX_WRITTEN];
	atomic_bool stop;
	atomic_int found;	/* 0: nothing, 1: somebody writes it down, 2: it is there */
	int lost_cpu, lost_page;
	uint64_t lost_got, lost_want;
	char text[192];
};

static uint64_t *word_of(struct writer *writer, int page)
{
	return (uint64_t *)writer->writers->pages[page] + 8 * (1 + writer->nr);
}

static void check(struct writer *writer, int page)
{
	struct writers *writers = writer->writers;
	uint64_t got = word_read(word_of(writer, page));
	int none = 0;

	if (got == writer->sums[page] ||
	    !atomic_compare_exchange_strong(&writers->found, &none, 1))
		return;
	writers->lost_cpu = writer->cpu;
	writers->lost_page = page;
	writers->lost_got = got;
	writers->lost_want = writer->sums[page];
	atomic_store(&writers->found, 2);
}

static void *write_on(void *arg)
{
	struct writer *writer = arg;
	struct writers *writers = writer->writers;
	int i;

	pin(writer->cpu);
	while (!atomic_load_explicit(&writers->stop, memory_order_relaxed) &&
	       !atomic_load_explicit(&writers->found, memory_order_relaxed)) {
		for (i = 0; i < writers->nr_pages; i++) {
			check(writer, i);
			writer->sums[i]++;
			word_write(word_of(writer, i), writer->sums[i]);
		}
		atomic_fetch_add(&writer->rounds, 1);
	}
	return NULL;
}

struct writers *writers_start(int nr_writers, char * const *pages, int nr_pages)
{
	struct writers *writers = shared_alloc(sizeof(*writers));
	int i, last = nr_cpus() - 1;

	if (!writers)
		return NULL;
	writers->nr_pages = nr_pages < MAX_WRITTEN ? nr_pages : MAX_WRITTEN;
	memcpy(writers->pages, pages, writers->nr_pages * sizeof(*pages));
	for (i = 0; i < nr_writers && i < MAX_READERS; i++) {
		struct writer *writer = &writers->writers[i];
		int page;

		writer->writers = writers;
		writer->nr = i;
		writer->cpu = last - i;
		for (page = 0; page < writers->nr_pages; page++)
			writer->sums[page] = word_read(word_of(writer, page));
		if (pthread_create(&writer->thread, NULL, write_on, writer))
			break;
		writers->nr_writers++;
	}
	return writers;
}

bool writers_clean(struct writers *writers)
{
	return !atomic_load(&writers->found);
}

void writers_settle(struct writers *writers)
{
	unsigned long start[MAX_READERS];
	int i;

	for (i = 0; i < writers->nr_writers; i++)
		start[i] = atomic_load(&writers->writers[i].rounds);
	for (i = 0; i < writers->nr_writers; i++)
		while (atomic_load(&writers->writers[i].rounds) < start[i] + 2 &&
		       writers_clean(writers))
			usleep(20);
}

bool writers_stop(struct writers *writers)
{
	int i, page;

	atomic_store(&writers->stop, true);
	for (i = 0; i < writers->nr_writers; i++)
		pthread_join(writers->writers[i].thread, NULL);
	/* Also what was written last, as this CPU sees it */
	for (i = 0; i < writers->nr_writers; i++)
		for (page = 0; page < writers->nr_pages; page++)
			check(&writers->writers[i], page);
	writers->nr_writers = 0;
	return writers_clean(writers);
}

const char *writers_say(struct writers *writers)
{
	while (atomic_load(&writers->found) == 1)
		usleep(20);
	if (!atomic_load(&writers->found))
		return "no write was lost";
	snprintf(writers->text, sizeof(writers->text),
		 "lost write: CPU %d wrote %llu to page %d and read %llu afterwards",
		 writers->lost_cpu, (unsigned long long)writers->lost_want, writers->lost_page,
		 (unsigned long long)writers->lost_got);
	return writers->text;
}

void writers_free(struct writers *writers)
{
	shared_free(writers, sizeof(*writers));
}
