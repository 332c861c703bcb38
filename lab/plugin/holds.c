// SPDX-License-Identifier: GPL-2.0
/*
 * holds.so: for how many instructions are spinlocks held, and how long does the kernel
 * run without a point at which others may?
 *
 * Between START and STOP, per vCPU:
 *
 * - Holds.  A lock is taken by the cmpxchg of a function of "take", and its address is that of
 *   the access.  It is released by the first byte that the vCPU stores there.  Instructions
 *   between the two are summed up by who called the function; the longest hold is kept.  Where
 *   the cmpxchg fails, the vCPU waits in a function of "wait", and the hold begins after it.
 * - Stretches.  Instructions from user code, a context switch or a call of the function at
 *   "yield" by one of "calm" to the next of these.  The longest is kept, and where it ended.
 *
 * Instructions of interrupts are not counted: what they do is not the lock holder's, and when
 * they come is chance.  Each iteration of a string instruction is one instruction here.
 *
 * Arguments, all lists of ranges "FIRST-END:FIRST-END:..." of addresses but out:
 *   out=FILE		the result, one JSON document, at STOP and at exit
 *   take=, wait=, calm=	functions, see above
 *   yield=, switch=, irq=	where "cond_resched", the context switch and interrupts begin
 *
 * What is not exact: a trylock whose cmpxchg fails counts as taken until it is taken again; locks
 * that are none of the kernel's queued spinlocks are not seen.
 */
#define PLUGIN_NAME "holds"
#include <pthread.h>

#include "common.h"

int qemu_plugin_version = LAB_PLUGIN_API;

#define MAX_RANGES	128
#define MAX_HELD	16	/* by one vCPU at a time */
#define NR_SLOTS	1024	/* callers */

/* What a segment is, in its first instruction or as a whole */
#define SEG_USER	0x01
#define SEG_TAKE	0x02
#define SEG_WAIT	0x04
#define SEG_YIELD	0x08
#define SEG_SWITCH	0x10
#define SEG_IRQ		0x20
#define SEG_IRET	0x40	/* its last one */

struct ranges {
	unsigned int nr;
	uint64_t first[MAX_RANGES], end[MAX_RANGES];
};

static struct ranges take, wait, calm, yield, switches, irq;

/* A callback's argument */
union segment {
	struct {
		uint32_t pc;	/* the kernel's code is in the last 4 GiB */
		uint16_t insns;
		uint16_t flags;
	};
	void *udata;
};

_Static_assert(sizeof(union segment) == sizeof(void *), "must fit an argument");

struct slot {
	uint32_t caller;	/* 0: free */
	uint64_t holds, sum, longest;
};

static struct vcpu {
	uint32_t region;
	uint32_t last;		/* where it executes */
	uint32_t caller;	/* of the function that takes a lock */
	bool taking;
	bool in_irq;
	bool pending;		/* an access that is waited for comes */
	uint64_t count;
	uint64_t rested;	/* count at the last point of rest */
	uint64_t longest;
	uint32_t longest_end;
	unsigned int depth;
	struct held {
		uint64_t lock, since;
		uint32_t caller;
	} held[MAX_HELD];
	struct slot slots[NR_SLOTS];
} MEM_ALIGNED vcpus[MAX_VCPUS];

static unsigned int nr_vcpus;
static char *out_path;

/* Zero while stopped, else the number of the current START. */
static uint32_t running MEM_ALIGNED;

static pthread_mutex_t lock MEM_ALIGNED = PTHREAD_MUTEX_INITIALIZER;
static uint32_t region;		/* STARTs so far */

static bool in_ranges(const struct ranges *ranges, uint64_t pc)
{
	unsigned int i;

	for (i = 0; i < ranges->nr; i++)
		if (pc >= ranges->first[i] && pc < ranges->end[i])
			return true;
	return false;
}

/* Only by the vCPU itself, as START may be on another one. */
static inline struct vcpu *vcpu_counts(unsigned int cpu)
{
	struct vcpu *v = &vcpus[cpu];
	uint32_t now = peek(running);

	if (!now)
		return NULL;
	if (v->region != now) {
		memset(v, 0, sizeof(*v));
		__atomic_store_n(&v->region, now, __ATOMIC_RELEASE);
	}
	return v;
}

static void rest(struct vcpu *v)
{
	if (v->count - v->rested > v->longest) {
		poke(v->longest, v->count - v->rested);
		poke(v->longest_end, v->last);
	}
	v->rested = v->count;
}

static void on_segment(unsigned int cpu, void *udata)
{
	union segment seg = { .udata = udata };
	struct vcpu *v = vcpu_counts(cpu);

	if (!v)
		return;
	if (seg.flags & (SEG_USER | SEG_SWITCH))
		v->in_irq = false;
	if (seg.flags & SEG_IRQ)
		v->in_irq = true;
	if (!v->in_irq) {
		if (seg.flags & (SEG_USER | SEG_SWITCH) ||
		    (seg.flags & SEG_YIELD && in_ranges(&calm, ~0xffffffffULL | v->last)))
			rest(v);
		if (seg.flags & SEG_TAKE && !v->taking)
			v->caller = v->last;
		v->taking = seg.flags & SEG_TAKE;
		if (!(seg.flags & SEG_USER)) {
			v->count += seg.insns;
			v->last = seg.pc;
		}
		if (seg.flags & SEG_WAIT && v->depth)
			v->held[v->depth - 1].since = v->count;
	}
	if (seg.flags & SEG_IRET)
		v->in_irq = false;
}

/* The instruction that takes or releases a lock begins; its access comes. */
static void on_lock(unsigned int cpu, void *udata)
{
	(void)udata;
	vcpus[cpu].pending = true;
}

static void drop(struct vcpu *v, unsigned int i)
{
	memmove(&v->held[i], &v->held[i + 1], (--v->depth - i) * sizeof(*v->held));
}

static int find(const struct vcpu *v, uint64_t address)
{
	int i;

	for (i = v->depth - 1; i >= 0; i--)
		if (v->held[i].lock == address)
			break;
	return i;
}

static struct vcpu *awaited(unsigned int cpu)
{
	struct vcpu *v = vcpu_counts(cpu);

	if (!v || !v->pending)
		return NULL;
	v->pending = false;
	return v->in_irq ? NULL : v;
}

static void on_take(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *udata)
{
	struct vcpu *v = awaited(cpu);
	int old;

	(void)info;
	(void)udata;
	if (!v)
		return;
	old = find(v, vaddr);
	if (old >= 0)
		drop(v, old);
	else if (v->depth == MAX_HELD)
		drop(v, 0);
	v->held[v->depth++] = (struct held){ vaddr, v->count, v->caller };
}

static void on_release(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *udata)
{
	struct vcpu *v = awaited(cpu);
	struct held held;
	struct slot *slot;
	unsigned int at;
	int i = v ? find(v, vaddr) : -1;

	(void)info;
	(void)udata;
	if (i < 0)
		return;
	held = v->held[i];
	drop(v, i);
	for (at = held.caller; ; at++) {
		slot = &v->slots[at % NR_SLOTS];
		if (slot->caller == held.caller || !slot->caller)
			break;
	}
	poke(slot->caller, held.caller);
	bump(slot->holds, 1);
	bump(slot->sum, v->count - held.since);
	if (v->count - held.since > slot->longest)
		poke(slot->longest, v->count - held.since);
}

static void write_result(void)
{
	const char *why = region ? "" : "no START marker", *sep = "";
	unsigned int i, s;
	char tmp[4096];
	FILE *f;

	/* By renaming: a reader on the host never sees half of it. */
	snprintf(tmp, sizeof(tmp), "%s.tmp", out_path);
	f = fopen(tmp, "w");
	if (!f) {
		complain("cannot write %s: %s", tmp, strerror(errno));
		return;
	}
	fprintf(f, "{\"valid\":%s,\"why\":\"%s\",\"region\":%u,\n\"stretches\":[",
		*why ? "false" : "true", why, region);
	for (i = 0; i < nr_vcpus; i++) {
		struct vcpu *v = &vcpus[i];

		if (__atomic_load_n(&v->region, __ATOMIC_ACQUIRE) != region)
			continue;
		fprintf(f, "%s\n{\"vcpu\":%u,\"longest\":%lu,\"end\":%lu}", sep, i,
			peek(v->longest), ~0xffffffffUL | peek(v->longest_end));
		sep = ",";
	}
	fputs("],\n\"holds\":[", f);
	sep = "";
	for (i = 0; i < nr_vcpus * NR_SLOTS; i++) {
		struct vcpu *v = &vcpus[i / NR_SLOTS];

		s = i % NR_SLOTS;
		if (__atomic_load_n(&v->region, __ATOMIC_ACQUIRE) != region ||
		    !peek(v->slots[s].caller))
			continue;
		fprintf(f, "%s\n{\"vcpu\":%u,\"caller\":%lu,\"holds\":%lu,\"sum\":%lu,"
			"\"longest\":%lu}", sep, i / NR_SLOTS,
			~0xffffffffUL | peek(v->slots[s].caller), peek(v->slots[s].holds),
			peek(v->slots[s].sum), peek(v->slots[s].longest));
		sep = ",";
	}
	fputs("]}\n", f);
	if (fclose(f) || rename(tmp, out_path))
		complain("cannot write %s: %s", out_path, strerror(errno));
}

static void on_marker(unsigned int cpu, void *udata)
{
	unsigned int code = (uintptr_t)udata;

	(void)cpu;
	pthread_mutex_lock(&lock);
	switch (code & LAB_CODE_KIND) {
	case LAB_CODE_START:
		poke(running, ++region);
		break;
	case LAB_CODE_STOP:
		if (!running)
			break;
		poke(running, 0);
		write_result();
		break;
	}
	pthread_mutex_unlock(&lock);
}

/* The opcode of a valid instruction in 64-bit mode begins here. */
static size_t skip_prefixes(const uint8_t *byte, size_t size)
{
	size_t i = 0;

	while (i < size && (byte[i] == 0xf0 || byte[i] == 0xf2 || byte[i] == 0xf3 ||
			    byte[i] == 0x66 || byte[i] == 0x67 || (byte[i] & 0xe7) == 0x26 ||
			    byte[i] == 0x64 || byte[i] == 0x65))
		i++;
	if (i < size && (byte[i] & 0xf0) == 0x40)
		i++;
	return i;
}

static bool is_cmpxchg(const uint8_t *byte, size_t size)
{
	size_t i = skip_prefixes(byte, size);

	return i + 2 < size && byte[i] == 0x0f && byte[i + 1] == 0xb1;
}

/* A byte that is stored: the constant 0, or a register */
static bool may_release(const uint8_t *byte, size_t size)
{
	size_t i = skip_prefixes(byte, size);

	if (i + 1 >= size || byte[i + 1] >> 6 == 3)
		return false;
	return byte[i] == 0x88 || (byte[i] == 0xc6 && !byte[size - 1]);
}

static bool is_string(const uint8_t *byte, size_t size)
{
	size_t i = skip_prefixes(byte, size);

	return i && i < size && ((byte[i] >= 0xa4 && byte[i] <= 0xa7) ||
				 (byte[i] >= 0xaa && byte[i] <= 0xaf));
}

static unsigned int flags_of(uint64_t pc)
{
	if (is_user(pc))
		return SEG_USER;
	return (in_ranges(&take, pc) ? SEG_TAKE : 0) | (in_ranges(&wait, pc) ? SEG_WAIT : 0) |
	       (in_ranges(&yield, pc) ? SEG_YIELD : 0) | (in_ranges(&irq, pc) ? SEG_IRQ : 0) |
	       (in_ranges(&switches, pc) ? SEG_SWITCH : 0);
}

static void end_segment(struct qemu_plugin_insn **first, union segment seg)
{
	if (*first)
		qemu_plugin_register_vcpu_insn_exec_cb(*first, on_segment, QEMU_PLUGIN_CB_NO_REGS,
						       seg.udata);
	*first = NULL;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i, n = qemu_plugin_tb_n_insns(tb);
	struct qemu_plugin_insn *first = NULL;
	union segment seg = { 0 };

	(void)id;
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *byte = qemu_plugin_insn_data(insn);
		size_t size = qemu_plugin_insn_size(insn);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);
		unsigned int flags = flags_of(pc);
		unsigned int code = flags & SEG_USER ? marker_code(insn) : 0;
		bool takes = flags & SEG_TAKE && is_cmpxchg(byte, size);
		bool releases = !(flags & SEG_USER) && may_release(byte, size);
		bool apart = takes || releases || is_string(byte, size);

		if (code && (code & LAB_CODE_KIND) != LAB_CODE_CAL)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_marker,
							       QEMU_PLUGIN_CB_NO_REGS,
							       (void *)(uintptr_t)code);
		if (first && (apart || flags != seg.flags))
			end_segment(&first, seg);
		if (!first)
			seg = (union segment){ .pc = pc, .flags = flags };
		first = first ?: insn;
		seg.insns++;
		if (size == 2 && byte[0] == 0x48 && byte[1] == 0xcf) {	/* iretq */
			seg.flags |= SEG_IRET;
			apart = true;
		}
		if (apart)
			end_segment(&first, seg);
		if (!takes && !releases)
			continue;
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_lock, QEMU_PLUGIN_CB_NO_REGS, NULL);
		qemu_plugin_register_vcpu_mem_cb(insn, takes ? on_take : on_release,
						 QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW, NULL);
	}
	end_segment(&first, seg);
}

static void on_exit_qemu(qemu_plugin_id_t id, void *udata)
{
	(void)id;
	(void)udata;
	pthread_mutex_lock(&lock);
	/* After a STOP it is written already. */
	if (running || !region) {
		poke(running, 0);
		write_result();
	}
	pthread_mutex_unlock(&lock);
}

/* "FIRST-END:FIRST-END:..." */
static bool parse_ranges(const char *text, struct ranges *ranges)
{
	char *end;

	if (ranges->nr)
		return false;
	while (ranges->nr < MAX_RANGES) {
		ranges->first[ranges->nr] = strtoull(text, &end, 0);
		if (*end != '-')
			return false;
		ranges->end[ranges->nr] = strtoull(end + 1, &end, 0);
		if (ranges->end[ranges->nr] <= ranges->first[ranges->nr])
			return false;
		ranges->nr++;
		if (!*end)
			return true;
		if (*end != ':')
			return false;
		text = end + 1;
	}
	return false;
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
			char **argv)
{
	static const struct {
		const char *key;
		struct ranges *ranges;
	} lists[] = {
		{ "take", &take }, { "wait", &wait }, { "calm", &calm },
		{ "yield", &yield }, { "switch", &switches }, { "irq", &irq },
	};
	const size_t nr = sizeof(lists) / sizeof(*lists);
	const char *value;
	size_t k;
	int a;

	nr_vcpus = plugin_check_qemu(info);
	if (!nr_vcpus)
		return -1;
	for (a = 0; a < argc; a++) {
		if ((value = arg_value(argv[a], "out")) && !out_path) {
			out_path = strdup(value);
			continue;
		}
		for (k = 0; k < nr; k++)
			if ((value = arg_value(argv[a], lists[k].key)) &&
			    parse_ranges(value, lists[k].ranges))
				break;
		if (k == nr) {
			complain("bad argument \"%s\"", argv[a]);
			return -1;
		}
	}
	for (k = 0; out_path && k < nr && lists[k].ranges->nr; k++)
		;
	if (k < nr) {
		complain("needs out= and all lists");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_atexit_cb(id, on_exit_qemu, NULL);
	return 0;
}
