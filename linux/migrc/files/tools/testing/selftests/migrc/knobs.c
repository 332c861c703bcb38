// SPDX-License-Identifier: GPL-2.0
/* Files that hold one value, see migrc.h. */
#include "../kselftest.h"

#include "migrc.h"

/* Shared with the processes that run the tests */
struct changed {
	int nr;
	struct {
		char path[112];
		char value[80];
	} files[32];
};

static struct changed *changed;
static pid_t keeper;

static const char * const names[] = {
	"tier_defer_success", "tier_defer_flush", "tier_defer_forced", "tier_defer_merged",
	"tier_defer_backoff",
	"met_wp", "met_swap", "met_gup", "met_unmap", "met_write", "met_pending", "met_fork",
	"met_file", "met_release", "met_unmasked", "met_early", "met_merge", "met_marks",
	"met_reason", "met_isolate", "met_failure", "met_oom", "met_off", "met_cap", "met_age",
	"met_backoff",
};

static long begun[ARRAY_SIZE(names)];

int write_file(const char *path, const char *text)
{
	ssize_t len = strlen(text), n;
	int fd = open(path, O_WRONLY);
	int err;

	if (fd < 0)
		return -errno;
	n = write(fd, text, len);
	err = n == len ? 0 : n < 0 ? -errno : -EIO;
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

static void put_back(void)
{
	if (getpid() != keeper)
		return;
	while (changed->nr) {
		changed->nr--;
		write_file(changed->files[changed->nr].path, changed->files[changed->nr].value);
	}
}

/* What set() changes from now on, in any process, is put back when the program ends. */
static void __attribute__((constructor)) keep_settings(void)
{
	changed = shared_alloc(sizeof(*changed));
	if (!changed)
		exit(KSFT_FAIL);
	keeper = getpid();
	/* exit() puts the wishes back last. */
	tier_parts_begin();
	atexit(put_back);
}

static int find_changed(const char *path)
{
	int i;

	for (i = 0; i < changed->nr && strcmp(changed->files[i].path, path); i++)
		;
	return i;
}

int set(const char *path, const char *value)
{
	int i = find_changed(path);
	char old[128], *word = old;

	if (i < changed->nr)
		return write_file(path, value);
	if (i == ARRAY_SIZE(changed->files) || !read_file(path, old, sizeof(old)))
		return -ENOENT;
	/* "always [madvise] never" -> the word in brackets */
	if (strchr(old, '[')) {
		word = strchr(old, '[') + 1;
		word[strcspn(word, "]")] = '\0';
	}
	snprintf(changed->files[i].path, sizeof(changed->files[i].path), "%s", path);
	snprintf(changed->files[i].value, sizeof(changed->files[i].value), "%.79s", word);
	changed->nr++;
	return write_file(path, value);
}

bool unset(const char *path)
{
	int i = find_changed(path);

	return i < changed->nr && !write_file(path, changed->files[i].value);
}

long counter(const char *name)
{
	char line[128], row[64];
	long value = -1, found;
	FILE *f;

	if (!strncmp(name, "met_", 4)) {
		snprintf(row, sizeof(row), MIGRC_DEBUG "%s", name);
		return read_file(row, line, sizeof(line)) ? strtol(line, NULL, 0) : -1;
	}
	f = fopen("/proc/vmstat", "r");
	while (f && value < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "%63s %ld", row, &found) == 2 && !strcmp(row, name))
			value = found;
	if (f)
		fclose(f);
	return value;
}

void counters_begin(void)
{
	unsigned long i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		begun[i] = counter(names[i]);
}

long risen(const char *name)
{
	unsigned long i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(names[i], name) && begun[i] >= 0)
			return counter(name) - begun[i];
	return -1;
}
