// SPDX-License-Identifier: GPL-2.0
/* Files that hold one value, see knobs.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../kselftest.h"

#include "knobs.h"

#define MAX_CHANGED	64

/* Shared with the processes that run the tests */
struct changed {
	int nr;
	struct {
		char path[112];
		char value[80];
	} files[MAX_CHANGED];
};

static struct changed *changed;
static pid_t keeper;

int write_file(const char *path, const char *text)
{
	ssize_t len = strlen(text), n;
	int fd = open(path, O_WRONLY);
	int err = 0;

	if (fd < 0)
		return -errno;
	n = write(fd, text, len);
	if (n != len)
		err = n < 0 ? -errno : -EIO;
	close(fd);
	return err;
}

bool read_file(const char *path, char *buf, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t n;

	if (fd < 0)
		return false;
	n = read(fd, buf, size - 1);
	close(fd);
	if (n < 0)
		return false;
	buf[n] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return true;
}

long read_number(const char *path)
{
	char buf[32];

	return read_file(path, buf, sizeof(buf)) ? strtol(buf, NULL, 0) : -1;
}

bool exists(const char *path)
{
	return !access(path, F_OK);
}

static void put_back(void)
{
	if (getpid() != keeper)
		return;
	while (changed->nr) {
		changed->nr--;
		write_file(changed->files[changed->nr].path, changed->files[changed->nr].value);
	}
}

void keep_settings(void)
{
	changed = mmap(NULL, sizeof(*changed), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (changed == MAP_FAILED) {
		changed = NULL;
		return;
	}
	keeper = getpid();
	atexit(put_back);
}

int set(const char *path, const char *value)
{
	char old[128], *word = old;
	int i;

	for (i = 0; changed && i < changed->nr; i++)
		if (!strcmp(changed->files[i].path, path))
			return write_file(path, value);
	if (!changed || i == MAX_CHANGED || !read_file(path, old, sizeof(old)))
		return -ENOENT;
	/* "always [madvise] never" -> what is in brackets */
	if (strchr(old, '[')) {
		word = strchr(old, '[') + 1;
		word[strcspn(word, "]")] = '\0';
	}
	snprintf(changed->files[i].path, sizeof(changed->files[i].path), "%s", path);
	snprintf(changed->files[i].value, sizeof(changed->files[i].value), "%.79s", word);
	changed->nr++;
	return write_file(path, value);
}

/* Calls @row for each row; ends when it returns false. */
static void each_row(bool (*row)(void *arg, const char *name, long value), void *arg)
{
	char line[128], name[64];
	FILE *f = fopen("/proc/vmstat", "r");
	long value;

	if (!f)
		return;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%63s %ld", name, &value) == 2 && !row(arg, name, value))
			break;
	fclose(f);
}

struct wanted {
	const char *name;
	long value;
};

static bool is_wanted(void *arg, const char *name, long value)
{
	struct wanted *wanted = arg;

	if (strcmp(name, wanted->name))
		return true;
	wanted->value = value;
	return false;
}

long counter(const char *name)
{
	struct wanted wanted = { name, -1 };

	each_row(is_wanted, &wanted);
	return wanted.value;
}

static bool add_row(void *arg, const char *name, long value)
{
	struct counters *counters = arg;

	if (strncmp(name, "migrc_", 6))
		return true;
	if (counters->nr == ARRAY_SIZE(counters->rows))
		return false;
	snprintf(counters->rows[counters->nr].name, sizeof(counters->rows[0].name), "%.27s", name);
	counters->rows[counters->nr++].value = value;
	return true;
}

void counters_read(struct counters *counters)
{
	memset(counters, 0, sizeof(*counters));
	each_row(add_row, counters);
}

long counter_since(const struct counters *before, const char *name)
{
	long now = counter(name);
	int i;

	for (i = 0; i < before->nr; i++)
		if (!strcmp(before->rows[i].name, name))
			return now - before->rows[i].value;
	return -1;
}
