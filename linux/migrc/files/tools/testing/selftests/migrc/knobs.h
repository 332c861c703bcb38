/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files that hold one value: settings, which are put back at the end, and the counters of
 * /proc/vmstat.
 */
#ifndef _MIGRC_KNOBS_H
#define _MIGRC_KNOBS_H

#include <stdbool.h>
#include <stddef.h>

#define MIGRC		"/sys/kernel/mm/migrc/"
#define MIGRC_DEBUG	"/sys/kernel/debug/migrc/"

/* 0 or -errno of the write */
int write_file(const char *path, const char *text);
/* The first line */
bool read_file(const char *path, char *buf, size_t size);
/* -1 if it cannot be read */
long read_number(const char *path);
bool exists(const char *path);

/*
 * Call it first in main(): what is changed by set() from then on, in any process, is put back
 * when the program ends.
 */
void keep_settings(void);
int set(const char *path, const char *value);

/* A row of /proc/vmstat, or -1 */
long counter(const char *name);

/* The rows of MIGRC at one time, to be compared with later ones */
struct counters {
	int nr;
	struct {
		char name[28];
		long value;
	} rows[48];
};

void counters_read(struct counters *counters);
/* By how much has it risen since?  -1 if there is no such row. */
long counter_since(const struct counters *before, const char *name);

#endif /* _MIGRC_KNOBS_H */
