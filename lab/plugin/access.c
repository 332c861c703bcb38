// SPDX-License-Identifier: GPL-2.0
/*
 * access.so: which memory node serves the loads and stores of user code?
 *
 * Counts, per vCPU and per node, the memory operations of instructions at user
 * addresses. The kernel is not instrumented at all. A line of JSON every
 * period_ms, cumulative since START, so that the host can follow a run.
 *
 * With copies=START:END it counts instead what read(2) loads: the loads from kernel
 * memory by the kernel's instructions at these addresses, those of the routine that
 * copies to user memory. User code is not counted then.
 *
 * Arguments:
 *   nodes=MB:MB:...	sizes of the machine's nodes, in order (0 = no memory)
 *   out=FILE		JSON lines, flushed one by one
 *   period_ms=500	time between lines
 *   lines=0		0: count every operation. N, a power of two: count those
 *			that miss a direct-mapped model cache of N 64-byte lines
 *			per vCPU, to stand for accesses that reach memory
 *   vcpus=MASK		count these vCPUs only (default: all)
 *   copies=START:END	see above; addresses of the kernel, which must not be moved
 *
 * What one count is: one memory operation as QEMU performs it. A 16-byte SSE
 * load is two, an atomic read-modify-write is one, each iteration of a
 * rep-prefixed instruction is its own. Calibration loads are not counted.
 * The model cache is indexed and tagged by virtual address, without regard to
 * the process: that keeps the address lookup, the slow part, off the common
 * path. Two processes that use the same virtual line on one vCPU would see
 * each other's hits; with address space randomisation that is rare. It does
 * not notice that a page has moved either.
 *
 * Where an address is: QEMU's answer for RAM is the offset of the RAM block
 * plus its position in the machine's memory. With one memory backend per node,
 * in node order, both are the sum of the sizes before it, hence a node begins
 * at twice that sum. This is an assumption about QEMU, so it is verified: the
 * guest loads bytes whose node it knows (lab_cal), and unless every node with
 * memory was confirmed, nothing contradicted, and every counted RAM access
 * fell into some node, the output says "valid": false and why.
 *
 * Lines are printed by whichever vCPU finds that the period is over, from
 * counters that the other vCPUs are writing: each counter is exact, the line
 * is not one instant. If nothing is counted, nothing is printed.
 */
#define PLUGIN_NAME "access"
#include <pthread.h>

#include "common.h"

int qemu_plugin_version = LAB_PLUGIN_API;

#define TICKS_PER_CLOCK_READ 4096

struct node {
	uint64_t start, end;	/* in QEMU's terms, see above */
	uint64_t confirmed;	/* calibration loads found here as announced */
};

static struct vcpu {
	uint32_t region;	/* what the counters belong to */
	uint32_t ticks;
	uint64_t *tags;		/* the model cache, line number per slot */
	uint64_t stray;		/* RAM of no node: the map is wrong; never reset */
	uint64_t other;		/* no RAM, or unknown; includes stray */
	uint64_t node[LAB_MAX_NODES];
} MEM_ALIGNED vcpus[MAX_VCPUS];

static struct node nodes[LAB_MAX_NODES];
static unsigned int nr_nodes, nr_vcpus;
static uint64_t period_ms = 500, lines, vcpu_mask = ~0ULL;
static uint64_t copy_start, copy_end;	/* both 0: count user code */
static FILE *out;

/* Zero while stopped, else the number of the current START. Read by all. */
static uint32_t running MEM_ALIGNED;

/* Everything below: under the lock. */
static pthread_mutex_t lock MEM_ALIGNED = PTHREAD_MUTEX_INITIALIZER;
static uint32_t region;		/* STARTs so far */
static unsigned int phase;
static uint64_t start_ms, stop_ms, mismatches;
static char mismatch[160];	/* the first one */
/* Also read without the lock, as a hint. */
static uint64_t next_ms;

static void explain_validity(char *why, size_t size)
{
	uint64_t stray = 0;
	unsigned int i;

	why[0] = 0;
	if (mismatches) {
		snprintf(why, size, "%lu calibration loads on the wrong node, first: %s",
			 mismatches, mismatch);
		return;
	}
	for (i = 0; i < nr_nodes; i++) {
		if (nodes[i].end > nodes[i].start && !nodes[i].confirmed) {
			snprintf(why, size, "node %u was not calibrated", i);
			return;
		}
	}
	for (i = 0; i < nr_vcpus; i++)
		stray += peek(vcpus[i].stray);
	if (stray)
		snprintf(why, size, "%lu accesses to RAM outside all nodes", stray);
	else if (!region)
		snprintf(why, size, "no START marker");
}

static void report(const char *event)
{
	uint64_t now = running ? now_ms() : stop_ms;
	char why[256];
	unsigned int i, n;

	explain_validity(why, sizeof(why));
	fprintf(out, "{\"t_ms\":%lu,\"event\":\"%s\",\"region\":%u,\"phase\":%u,",
		region ? now - start_ms : 0, event, region, phase);
	if (!strcmp(event, "final"))
		fputs("\"final\":true,", out);
	fprintf(out, "\"valid\":%s,\"why\":\"%s\",\"vcpu\":[", why[0] ? "false" : "true",
		why);
	for (i = 0; i < nr_vcpus; i++) {
		struct vcpu *v = &vcpus[i];
		/* Not there yet: it has counted nothing since START. */
		bool stale = peek(v->region) != region;

		fputs(i ? ",{" : "{", out);
		for (n = 0; n < nr_nodes; n++)
			fprintf(out, "\"node%u\":%lu,", n, stale ? 0 : peek(v->node[n]));
		fprintf(out, "\"other\":%lu}", stale ? 0 : peek(v->other));
	}
	fputs("]}\n", out);
	fflush(out);
	next_ms = now + period_ms;
}

static void report_if_due(void)
{
	if (now_ms() < peek(next_ms) || pthread_mutex_trylock(&lock))
		return;
	if (running && now_ms() >= next_ms)
		report("period");
	pthread_mutex_unlock(&lock);
}

/* Only by the vCPU itself: START may be on another one, while this one counts. */
static void vcpu_begin(struct vcpu *v, uint32_t number)
{
	unsigned int n;

	for (n = 0; n < nr_nodes; n++)
		poke(v->node[n], 0);
	poke(v->other, 0);
	if (v->tags)
		memset(v->tags, 0, lines * sizeof(*v->tags));
	poke(v->region, number);
}

static int node_of(uint64_t phys)
{
	unsigned int n;

	for (n = 0; n < nr_nodes; n++)
		if (phys >= nodes[n].start && phys < nodes[n].end)
			return n;
	return -1;
}

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
		      void *udata)
{
	uint32_t number = peek(running);
	struct qemu_plugin_hwaddr *hwaddr;
	struct vcpu *v = &vcpus[cpu];
	int node;

	(void)udata;
	if (!number || !(vcpu_mask >> cpu & 1))
		return;
	if (v->region != number)
		vcpu_begin(v, number);
	if (!(++v->ticks % TICKS_PER_CLOCK_READ))
		report_if_due();

	if (lines) {
		uint64_t line = vaddr / CACHE_LINE;
		uint64_t *tag = &v->tags[line & (lines - 1)];

		if (*tag == line)
			return;
		*tag = line;
	}

	hwaddr = qemu_plugin_get_hwaddr(info, vaddr);
	if (!hwaddr || qemu_plugin_hwaddr_is_io(hwaddr)) {
		bump(v->other, 1);
		return;
	}
	node = node_of(qemu_plugin_hwaddr_phys_addr(hwaddr));
	if (node >= 0) {
		bump(v->node[node], 1);
	} else {
		bump(v->other, 1);
		bump(v->stray, 1);
	}
}

/* What the copying routine loads from the kernel's memory is what is read. */
static void on_copy(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *udata)
{
	if (!qemu_plugin_mem_is_store(info) && !is_user(vaddr))
		on_access(cpu, info, vaddr, udata);
}

/* A load of a byte that the guest says is on node @udata. */
static void on_calibrate(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
			 void *udata)
{
	struct qemu_plugin_hwaddr *hwaddr = qemu_plugin_get_hwaddr(info, vaddr);
	unsigned int want = (uintptr_t)udata;
	uint64_t phys = 0;
	int node = -1;

	(void)cpu;
	if (hwaddr && !qemu_plugin_hwaddr_is_io(hwaddr)) {
		phys = qemu_plugin_hwaddr_phys_addr(hwaddr);
		node = node_of(phys);
	}
	pthread_mutex_lock(&lock);
	if (node == (int)want) {
		nodes[node].confirmed++;
	} else if (!mismatches++) {
		snprintf(mismatch, sizeof(mismatch),
			 "guest says node %u, address 0x%lx is node %d here", want, phys,
			 node);
	}
	pthread_mutex_unlock(&lock);
}

static void on_marker(unsigned int cpu, void *udata)
{
	unsigned int code = (uintptr_t)udata;

	(void)cpu;
	pthread_mutex_lock(&lock);
	switch (code & LAB_CODE_KIND) {
	case LAB_CODE_START:
		phase = 0;
		start_ms = now_ms();
		poke(running, ++region);
		report("start");
		break;
	case LAB_CODE_STOP:
		if (!running)
			break;
		stop_ms = now_ms();
		poke(running, 0);
		report("stop");
		break;
	case LAB_CODE_PHASE:
		/* The line belongs to the phase that ends here. */
		if (running)
			report("phase");
		phase = code & LAB_CODE_ARG;
		break;
	}
	pthread_mutex_unlock(&lock);
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i, n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		unsigned int code;

		if (!is_user(qemu_plugin_insn_vaddr(insn))) {
			uint64_t pc = qemu_plugin_insn_vaddr(insn);

			if (pc >= copy_start && pc < copy_end)
				qemu_plugin_register_vcpu_mem_cb(insn, on_copy,
								 QEMU_PLUGIN_CB_NO_REGS,
								 QEMU_PLUGIN_MEM_RW, NULL);
			continue;
		}
		code = marker_code(insn);
		if (!code && copy_end)
			continue;
		if (!code)
			qemu_plugin_register_vcpu_mem_cb(insn, on_access,
							 QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_RW, NULL);
		else if ((code & LAB_CODE_KIND) == LAB_CODE_CAL)
			/* 7.2 never calls back a load if asked for loads only. */
			qemu_plugin_register_vcpu_mem_cb(insn, on_calibrate,
							 QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_RW,
							 (void *)(uintptr_t)(code & LAB_CODE_ARG));
		else
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_marker,
							       QEMU_PLUGIN_CB_NO_REGS,
							       (void *)(uintptr_t)code);
	}
}

static void on_exit_qemu(qemu_plugin_id_t id, void *udata)
{
	(void)id;
	(void)udata;
	pthread_mutex_lock(&lock);
	report("final");
	/* A vCPU that still runs must not print after the final line. */
	poke(running, 0);
	pthread_mutex_unlock(&lock);
}

static bool parse_nodes(const char *text)
{
	uint64_t before = 0;

	for (;;) {
		char *end;
		uint64_t size = strtoull(text, &end, 10) << 20;

		if (end == text || nr_nodes == LAB_MAX_NODES)
			return false;
		nodes[nr_nodes].start = 2 * before;
		nodes[nr_nodes++].end = 2 * before + size;
		before += size;
		if (!*end)
			return true;
		if (*end != ':')
			return false;
		text = end + 1;
	}
}

static bool parse_copies(const char *text)
{
	char *end;

	copy_start = strtoull(text, &end, 16);
	if (end == text || *end != ':' || is_user(copy_start))
		return false;
	text = end + 1;
	copy_end = strtoull(text, &end, 16);
	return end != text && !*end && copy_end > copy_start;
}

static bool parse_arg(const char *arg)
{
	const char *value;

	if ((value = arg_value(arg, "nodes")))
		return !nr_nodes && parse_nodes(value);
	if ((value = arg_value(arg, "out"))) {
		out = fopen(value, "w");
		return out;
	}
	if ((value = arg_value(arg, "period_ms")))
		return arg_number(value, &period_ms) && period_ms;
	if ((value = arg_value(arg, "lines")))
		return arg_number(value, &lines) && !(lines & (lines - 1));
	if ((value = arg_value(arg, "vcpus")))
		return arg_number(value, &vcpu_mask) && vcpu_mask;
	if ((value = arg_value(arg, "copies")))
		return parse_copies(value);
	return false;
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
			char **argv)
{
	unsigned int i;
	int a;

	nr_vcpus = plugin_check_qemu(info);
	if (!nr_vcpus)
		return -1;
	for (a = 0; a < argc; a++) {
		errno = 0;
		if (!parse_arg(argv[a])) {
			complain("bad argument \"%s\"%s%s", argv[a], errno ? ": " : "",
				 errno ? strerror(errno) : "");
			return -1;
		}
	}
	if (!nr_nodes || !out) {
		complain("needs nodes=MB:MB:... and out=FILE");
		return -1;
	}
	for (i = 0; lines && i < nr_vcpus; i++) {
		vcpus[i].tags = calloc(lines, sizeof(*vcpus[i].tags));
		if (!vcpus[i].tags) {
			complain("no memory for a model cache of %lu lines", lines);
			return -1;
		}
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_atexit_cb(id, on_exit_qemu, NULL);
	return 0;
}
