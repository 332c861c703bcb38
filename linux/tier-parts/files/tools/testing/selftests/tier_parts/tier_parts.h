/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Parts of memory tiering in /sys/kernel/mm/tier/, for the selftests of all of them.  A part works
 * while tier/enabled and its own "enabled", the wish, are both 1.
 */
#ifndef _TIER_PARTS_H
#define _TIER_PARTS_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIER_PARTS	"/sys/kernel/mm/tier/"
#define TIER_ALL	"."	/* in place of a part: the switch and the state of all */

/* What tier_parts_keep() has found, in which process */
static struct {
	pid_t pid;
	int enabled, nr, wish[16];
	char part[16][32];
} tier_parts_kept;

static inline int tier_part_open(const char *part, const char *file, int flags)
{
	char path[128];

	snprintf(path, sizeof(path), TIER_PARTS "%s/%s", part, file);
	return open(path, flags);
}

/* The first line of a file; false if it cannot be read. */
static inline bool tier_part_read(const char *part, const char *file, char *line, size_t size)
{
	int fd = tier_part_open(part, file, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, line, size - 1);

	close(fd);
	line[n < 0 ? 0 : n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return n >= 0;
}

/* Returns 0 or -errno. */
static inline int tier_part_write(const char *part, const char *file, const char *text)
{
	int fd = tier_part_open(part, file, O_WRONLY), err;

	if (fd < 0)
		return -errno;
	err = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return err;
}

/* The number in a file, or -1 */
static inline long tier_part_number(const char *part, const char *file)
{
	char line[32];

	return tier_part_read(part, file, line, sizeof(line)) && *line ? atol(line) : -1;
}

/* Write the wish.  Returns the old wish, or -errno. */
static inline int tier_part_set(const char *part, bool on)
{
	int old = tier_part_number(part, "enabled");
	int err = tier_part_write(part, "enabled", on ? "1" : "0");

	return err ? err : old;
}

static inline bool tier_part_is(const char *part, const char *state)
{
	char word[32];

	return tier_part_read(part, "state", word, sizeof(word)) && !strcmp(word, state);
}

#define tier_part_on(part)	tier_part_is(part, "on")

/* Does the part come into the state within so many milliseconds? */
static inline bool tier_part_wait(const char *part, const char *state, int ms)
{
	for (; ms > 0 && !tier_part_is(part, state); ms -= 10)
		usleep(10000);
	return tier_part_is(part, state);
}

/* Write the wish.  Returns 0 if the part does it at once, else -errno or -EAGAIN. */
static inline int tier_part_turn(const char *part, bool on)
{
	int old = tier_part_set(part, on);

	return old < 0 ? old : tier_part_is(part, on ? "on" : "off") ? 0 : -EAGAIN;
}

/* Children of the process that has begun do not put anything back. */
static inline void tier_parts_put_back(void)
{
	if (getpid() != tier_parts_kept.pid)
		return;
	tier_part_set(TIER_ALL, false);
	for (int i = 0; i < tier_parts_kept.nr; i++)
		tier_part_set(tier_parts_kept.part[i], tier_parts_kept.wish[i]);
	tier_part_set(TIER_ALL, tier_parts_kept.enabled);
}

/* Remember all wishes, which exit() puts back.  Returns the number of parts, or -ENOENT. */
static inline int tier_parts_keep(void)
{
	DIR *dir = opendir(TIER_PARTS);
	struct dirent *entry;
	int nr = 0;

	while (dir && nr < 16 && (entry = readdir(dir))) {
		snprintf(tier_parts_kept.part[nr], 32, "%.31s", entry->d_name);
		tier_parts_kept.wish[nr] = tier_part_number(tier_parts_kept.part[nr], "enabled");
		nr += *entry->d_name != '.' && tier_parts_kept.wish[nr] >= 0;
	}
	if (dir)
		closedir(dir);
	tier_parts_kept.nr = nr;
	tier_parts_kept.enabled = tier_part_number(TIER_ALL, "enabled");
	tier_parts_kept.pid = getpid();
	return tier_parts_kept.enabled < 0 || atexit(tier_parts_put_back) ? -ENOENT : nr;
}

/*
 * Switch memory tiering on, with no part wished; exit() puts all wishes back.  Nothing changes if
 * it is on already, or cannot be switched on.  Returns 0 or -errno.
 */
static inline int tier_parts_begin(void)
{
	int nr, old;

	if (tier_part_number(TIER_ALL, "enabled") == 1)
		return 0;
	nr = tier_part_is(TIER_ALL, "blocked") ? -EPERM : tier_parts_keep();
	for (int i = 0; i < nr; i++)
		tier_part_set(tier_parts_kept.part[i], false);
	old = nr < 0 ? nr : tier_part_set(TIER_ALL, true);
	return old < 0 ? old : 0;
}

#endif /* _TIER_PARTS_H */
