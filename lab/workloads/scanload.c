// SPDX-License-Identifier: GPL-2.0
/*
 * scanload: memory for kmmscand to scan, and counters around its passes.
 *
 * --procs processes share --size-mb of small pages on --node, faulted in under a
 * policy of the task that is dropped afterwards: kmmscand leaves out what a policy
 * keeps off the fast tier.  For the same reason the program that controls them, this
 * one, keeps such a policy: then none of its page tables is read.  It does what the lines
 * on its standard input say (lab/curves.py writes them):
 *
 *   set PART/FILE VALUE	a setting below /sys/kernel/mm/tier
 *   on			enable the part scan, and pin kmmscand's threads
 *   off		disable it
 *   touch PERCENT PAGES	all the time the processes read PERCENT of their 2 MiB
 *			regions, and the first PAGES pages of each region; 0 0: nothing,
 *			but they run, because kmmscand leaves out what sleeps.
 *			Goes on when each has done so once
 *   wait S		wait for S seconds
 *   measure NAME S	prints "POINT {json}": what the counters grew by in S seconds; for
 *			the plugins it is a phase, the first one 1, and 0 what lies between
 *
 * The counters grow at the end of each walk, so a measurement goes from a moment at which
 * kmmscand sleeps to another one.
 */
#include "common.h"
#include "lab_numa.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#define MPOL_DEFAULT	0
#define REGION_PAGES	512UL
#define SYSFS		"/sys/kernel/mm/tier/"
#define MAX_PROCS	1024
#define POLL_S		0.005
#define RUN_S		0.003
#define PATIENCE_S	180.0

static struct {
	uint64_t size_mb, procs, node, cpu, scan_cpu, system_cpu;
} cfg = { .size_mb = 64, .procs = 1, .node = 1, .cpu = 0, .scan_cpu = 1, .system_cpu = 2 };

static const struct opt opts[] = {
	{ "size-mb", OPT_U64, &cfg.size_mb, "memory of all processes" },
	{ "procs", OPT_U64, &cfg.procs, "processes" },
	{ "node", OPT_U64, &cfg.node, "where the memory is" },
	{ "cpu", OPT_U64, &cfg.cpu, "CPU of the processes" },
	{ "scan-cpu", OPT_U64, &cfg.scan_cpu, "CPU of the scanner" },
	{ "system-cpu", OPT_U64, &cfg.system_cpu, "CPU of the promoters and of this program" },
	{ NULL, OPT_U64, NULL, NULL },
};

/* What the processes are to do, shared with them */
static struct control {
	_Atomic uint32_t gen;
	uint32_t percent, pages;
	_Atomic uint32_t done[MAX_PROCS];	/* gen that was last done once */
	_Atomic uint64_t rounds;
} *ctl;

static size_t npages;		/* of one process */
static int scanner;		/* process id of kmmscand, 0 while it is off */

static void set_policy(int mode, unsigned long nodes)
{
	if (syscall(SYS_set_mempolicy, mode, nodes ? &nodes : NULL, 8 * sizeof(nodes)))
		die("set_mempolicy: %s", strerror(errno));
}

static void pin(pid_t pid, unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(pid, sizeof(set), &set))
		die("cannot pin %d to CPU %u: %s", pid, cpu, strerror(errno));
}

/* the processes */

struct part {
	char *start;
	size_t bytes;
	unsigned int nr;
};

static void *populate(void *p)
{
	struct part *part = p;

	pin_nth(part->nr);
	if (madvise(part->start, part->bytes, MADV_POPULATE_WRITE))
		die("cannot fault in %zu bytes: %s", part->bytes, strerror(errno));
	return NULL;
}

/* One process alone does it with two threads; they inherit the policy. */
static void populate_all(char *base)
{
	unsigned int n = cfg.procs > 1 ? 1 : 2;
	struct part part[2];
	pthread_t th[2];

	for (unsigned int i = 0; i < n; i++) {
		size_t from = npages * i / n, to = npages * (i + 1) / n;

		part[i] = (struct part){ base + from * PAGE_SZ, (to - from) * PAGE_SZ, i };
		if (pthread_create(&th[i], NULL, populate, &part[i]))
			die("cannot start a thread");
	}
	for (unsigned int i = 0; i < n; i++)
		pthread_join(th[i], NULL);
}

static void touch_region(const char *base, size_t region, size_t pages)
{
	size_t first = region * REGION_PAGES;

	for (size_t i = first; i < first + pages && i < npages; i++)
		(void)*(volatile const char *)(base + i * PAGE_SZ);
}

static void touch(const char *base, uint32_t percent, uint32_t pages)
{
	size_t regions = (npages + REGION_PAGES - 1) / REGION_PAGES;
	size_t n = percent ? (regions * percent + 50) / 100 ?: 1 : 0;

	/* Evenly spread over the memory */
	for (size_t i = 0; i < n; i++)
		touch_region(base, i * regions / n, REGION_PAGES);
	for (size_t i = 0; pages && i < regions; i++)
		touch_region(base, i, pages);
}

static void run_for(double seconds)
{
	double end = now_s() + seconds;

	while (now_s() < end)
		;
}

__attribute__((noreturn))
static void process(unsigned int nr)
{
	char *base = region_map(npages * PAGE_SZ, false);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	set_policy(LAB_MPOL_BIND, 1UL << cfg.node);
	populate_all(base);
	set_policy(MPOL_DEFAULT, 0);
	pin(0, (unsigned int)cfg.cpu);
	for (;;) {
		uint32_t gen = atomic_load(&ctl->gen);
		uint32_t percent = ctl->percent, pages = ctl->pages;

		touch(base, percent, pages);
		atomic_fetch_add(&ctl->rounds, 1);
		atomic_store(&ctl->done[nr], gen);
		if (!percent && !pages)
			run_for(RUN_S);
		sleep_s(0.001);
	}
}

static void touch_all(uint32_t percent, uint32_t pages)
{
	double limit = now_s() + PATIENCE_S;
	uint32_t gen = atomic_load(&ctl->gen) + 1;

	ctl->percent = percent;
	ctl->pages = pages;
	atomic_store(&ctl->gen, gen);
	for (unsigned int i = 0; i < cfg.procs; i++) {
		while (atomic_load(&ctl->done[i]) != gen) {
			if (waitpid(-1, NULL, WNOHANG) || now_s() > limit)
				die("process %u does not touch its memory", i);
			sleep_s(POLL_S);
		}
	}
}

/* kmmscand's threads and counters */

static bool read_text(const char *path, char *buf, size_t size)
{
	FILE *f = fopen(path, "r");
	size_t n;

	if (!f)
		return false;
	n = fread(buf, 1, size - 1, f);
	fclose(f);
	buf[n] = '\0';
	return n > 0;
}

static void write_setting(const char *file, const char *value)
{
	char path[128];
	FILE *f;

	snprintf(path, sizeof(path), SYSFS "%s", file);
	f = fopen(path, "w");
	if (!f || fputs(value, f) < 0 || fclose(f))
		die("cannot write %s to %s: %s", value, path, strerror(errno));
}

/* The share of one CPU is spent by the first scanner of the node alone: kmmscand0. */
static void pin_threads(void)
{
	char path[300], comm[64];
	struct dirent *entry;
	DIR *proc = opendir("/proc");

	scanner = 0;
	while (proc && (entry = readdir(proc))) {
		int pid = atoi(entry->d_name);

		snprintf(path, sizeof(path), "/proc/%s/comm", entry->d_name);
		if (pid < 2 || !read_text(path, comm, sizeof(comm)))
			continue;
		if (!strncmp(comm, "kpromoted", 9))
			pin(pid, (unsigned int)cfg.system_cpu);
		if (strncmp(comm, "kmmscand", 8))
			continue;
		pin(pid, (unsigned int)cfg.scan_cpu);
		if (!strchr(comm, ':'))
			scanner = pid;
	}
	if (!scanner)
		die("no thread kmmscand: is it in this kernel?");
	closedir(proc);
}

static bool scanner_sleeps(void)
{
	char path[64], buf[512], *state;

	snprintf(path, sizeof(path), "/proc/%d/stat", scanner);
	if (!read_text(path, buf, sizeof(buf)))
		die("kmmscand has gone");
	state = strrchr(buf, ')');
	return state && (state[2] == 'S' || state[2] == 'I');
}

/* CPU time of the scanner; the kernel has no schedstat, but this is the same figure. */
static double scanner_cpu_s(void)
{
	char path[64], buf[4096], *at;

	if (!scanner)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/sched", scanner);
	at = read_text(path, buf, sizeof(buf)) ? strstr(buf, "se.sum_exec_runtime") : NULL;
	at = at ? strchr(at, ':') : NULL;
	if (!at)
		die("no CPU time in %s", path);
	return strtod(at + 1, NULL) / 1000;
}

static const char * const rows[] = {
	"tier_scan_mm", "tier_scan_pte", "tier_scan_young", "tier_scan_skip_pmd",
	"pgpromote_success",
};

enum { MM_SCANNED, PTE_SCANNED, PTE_YOUNG, PMD_SKIPPED, PROMOTED, NR_ROWS };

struct counts {
	double t;
	uint64_t row[NR_ROWS];
};

static struct counts counts_now(void)
{
	static char buf[65536];
	struct counts c = { .t = now_s() };

	if (!read_text("/proc/vmstat", buf, sizeof(buf)))
		die("cannot read /proc/vmstat");
	for (int i = 0; i < NR_ROWS; i++) {
		char *at = strstr(buf, rows[i]);

		if (!at)
			die("no %s in /proc/vmstat", rows[i]);
		c.row[i] = strtoull(at + strlen(rows[i]), NULL, 10);
	}
	return c;
}

/* The counters, as soon as the scanner sleeps, so that they have all of its walks */
static struct counts boundary(void)
{
	double limit = now_s() + PATIENCE_S;

	while (scanner && !scanner_sleeps()) {
		if (now_s() > limit)
			die("kmmscand never sleeps");
		sleep_s(POLL_S);
	}
	return counts_now();
}

static void measure(const char *name, unsigned int phase, double seconds)
{
	struct counts from = boundary(), to;
	double cpu = scanner_cpu_s();
	uint64_t rounds = atomic_load(&ctl->rounds);

	lab_phase(phase);
	sleep_s(seconds);
	to = boundary();
	lab_phase(0);
	printf("POINT {\"name\":\"%s\",\"phase\":%u,\"seconds\":%.4f,\"cpu_s\":%.6f,"
	       "\"touch_rounds\":%.2f", name, phase, to.t - from.t, scanner_cpu_s() - cpu,
	       (double)(atomic_load(&ctl->rounds) - rounds) / (double)cfg.procs);
	for (int i = 0; i < NR_ROWS; i++)
		printf(",\"%s\":%llu", rows[i],
		       (unsigned long long)(to.row[i] - from.row[i]));
	printf("}\n");
}

static void command(const char *line)
{
	static unsigned int phase;
	char a[64], b[64];
	unsigned int percent, pages;
	double n;

	printf("DO %s", line);
	if (sscanf(line, "set %63s %63s", a, b) == 2) {
		write_setting(a, b);
	} else if (!strcmp(line, "on\n")) {
		write_setting("scan/enabled", "1");
		pin_threads();
	} else if (!strcmp(line, "off\n")) {
		write_setting("scan/enabled", "0");
		scanner = 0;
	} else if (sscanf(line, "touch %u %u", &percent, &pages) == 2) {
		touch_all(percent, pages);
	} else if (sscanf(line, "wait %lf", &n) == 1) {
		sleep_s(n);
	} else if (sscanf(line, "measure %63s %lf", a, &n) == 2 && phase + 1 < LAB_MAX_PHASES) {
		measure(a, ++phase, n);
	} else {
		die("cannot do: %s", line);
	}
}

int main(int argc, char **argv)
{
	pid_t child[MAX_PROCS];
	char line[256];

	opt_parse(argc - 1, argv + 1, opts);
	if (!cfg.procs || cfg.procs > MAX_PROCS)
		die("--procs must be 1..%d", MAX_PROCS);
	setvbuf(stdout, NULL, _IOLBF, 0);
	npages = (cfg.size_mb << 20) / PAGE_SZ / cfg.procs;
	ctl = mmap(NULL, sizeof(*ctl), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ctl == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	atomic_store(&ctl->gen, 1);
	for (unsigned int i = 0; i < cfg.procs; i++) {
		child[i] = fork();
		if (child[i] < 0)
			die("fork: %s", strerror(errno));
		if (!child[i])
			process(i);
	}
	set_policy(LAB_MPOL_BIND, 1UL << cfg.node);
	pin(0, (unsigned int)cfg.system_cpu);
	touch_all(0, 0);
	printf("READY\n");
	lab_start();
	while (fgets(line, sizeof(line), stdin))
		command(line);
	lab_stop();
	for (unsigned int i = 0; i < cfg.procs; i++)
		kill(child[i], SIGKILL);
	printf("DONE\n");
	return 0;
}
