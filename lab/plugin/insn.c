// SPDX-License-Identifier: GPL-2.0
/*
 * insn.so: how many instructions does each kernel function cost, on which vCPU?
 *
 * Counts instructions and locked operations (LOCK prefix, and xchg with
 * memory) between START and STOP, per kernel symbol, vCPU and phase. User code
 * is one symbol, and so is kernel code that the symbol file does not know
 * (modules, BPF). One JSON document, written at STOP and again at exit.
 *
 * Kernel instructions are also told apart by the kind of work: which of some
 * functions they are inside of, directly or through calls, and whether a kernel
 * thread executes them or a process (calls.h says how). An interrupt belongs to
 * the task that it interrupts.
 *
 * Arguments:
 *   symbols=FILE	System.map (or nm output) of the kernel that is booted; the
 *			kernel must run where it was linked: nokaslr
 *   out=FILE		the result
 *   kind=NAME:SYMBOL:...	a kind of work, and the functions that begin it; the
 *			first kind is what is inside of none, its functions end others
 *   apart=SYMBOL:...	functions whose own instructions are of no kind
 *
 * How: when QEMU translates a block, its instructions are cut into segments of
 * one symbol each, and the first instruction of a segment gets a callback that
 * adds the length of the segment. What is added is packed into the callback's
 * argument, so that translation allocates nothing, however often QEMU
 * translates a block anew.
 *
 * What is not exact:
 * - A segment that is left in its middle by an exception (a page fault) was
 *   counted in full, and the rest is counted again on return.
 * - An instruction with a rep prefix executes as many iterations as QEMU makes
 *   of it. They are counted apart, as "rep", never as instructions; a rep
 *   instruction with nothing to do can count as one iteration.
 * - START and STOP are exact on the vCPU that runs them. Another vCPU may be
 *   inside of a segment.
 * The result is marked invalid if entry_SYSCALL_64 was not found where the
 * symbol file says: another kernel, or KASLR.
 */
#define PLUGIN_NAME "insn"
#include <ctype.h>
#include <pthread.h>

#include "calls.h"
#include "common.h"

int qemu_plugin_version = LAB_PLUGIN_API;

/* Pseudo symbols, in front of those of the file. */
enum { SYM_USER, SYM_OTHER_KERNEL, NR_PSEUDO };

struct symbol {
	uint64_t addr;
	uint32_t order;		/* in the file, to choose among aliases */
	bool text;
	bool global;
	bool apart;
	bool moved;		/* its returns are not those of its calls */
	unsigned char enter;	/* ENTER_... */
	char *name;
};

#define MAX_KINDS	16

struct cell {
	uint64_t insn, locked, rep;
};

static struct vcpu {
	uint32_t state;		/* the value of 'state' that 'cells' is for */
	struct cell *cells;	/* this phase's row of 'phases' */
	struct cell *phases[LAB_MAX_PHASES];
	/* Kernel instructions since START by kind: of processes, of threads. */
	uint64_t kinds[2][MAX_KINDS];
	uint64_t apart;
} MEM_ALIGNED vcpus[MAX_VCPUS];

static struct symbol *symbols;
static size_t nr_symbols;
static unsigned int nr_vcpus;
static uint64_t entry_addr;	/* of entry_SYSCALL_64 */
static uint32_t switch_symbol;	/* __switch_to_asm */
static bool entry_seen;
static char *out_path;
static char *kind_names[MAX_KINDS];
static unsigned int nr_kinds;

/* What the arguments say of functions, and what is known of any kernel. */
static struct role {
	const char *name;
	unsigned char enter;
	bool moved;
	bool apart;
} roles[256] = {
	{ .name = "ret_from_fork_asm", .enter = ENTER_NEW_TASK },
	{ .name = "kthread", .enter = ENTER_THREAD },
	{ .name = "kthreadd", .enter = ENTER_THREAD },
	{ .name = "cpu_startup_entry", .enter = ENTER_THREAD },
	{ .name = "error_entry", .enter = ENTER_MOVED, .moved = true },
	{ .name = "paranoid_entry", .enter = ENTER_MOVED, .moved = true },
	{ .name = "sync_regs", .moved = true },		/* where error_entry ends */
};
static unsigned int nr_roles = 7;

/*
 * Zero while stopped, else (number of the current START << 4 | phase): one
 * comparison tells a vCPU that something has changed.
 */
static uint32_t state MEM_ALIGNED;

static pthread_mutex_t lock MEM_ALIGNED = PTHREAD_MUTEX_INITIALIZER;
static uint32_t region;		/* STARTs so far */

/*
 * A segment in 64 bits: the callback's argument. QEMU's blocks have at most 512
 * instructions.
 */
union segment {
	struct {
		uint32_t symbol;
		uint16_t insns;
		uint16_t locked;
	};
	void *udata;
};

_Static_assert(sizeof(union segment) == sizeof(void *), "must fit an argument");

/* Only by the vCPU itself, as START and PHASE may be on another one. */
static struct cell *vcpu_follow(struct vcpu *v, uint32_t now)
{
	struct cell **row = &v->phases[now & LAB_CODE_ARG];
	size_t size = nr_symbols * sizeof(struct cell);
	unsigned int p;

	if (now >> 4 != v->state >> 4) {
		for (p = 0; p < LAB_MAX_PHASES; p++)
			if (v->phases[p])
				memset(v->phases[p], 0, size);
		memset(v->kinds, 0, sizeof(v->kinds));
		v->apart = 0;
		runners[v - vcpus].returns = 0;
		runners[v - vcpus].unmatched = 0;
	}
	if (!*row) {
		struct cell *cells = calloc(1, size);

		if (!cells) {
			complain("no memory for counters");
			abort();
		}
		__atomic_store_n(row, cells, __ATOMIC_RELEASE);
	}
	v->cells = *row;
	__atomic_store_n(&v->state, now, __ATOMIC_RELEASE);
	return v->cells;
}

/* The counters to add to, or NULL while stopped. */
static inline struct cell *vcpu_cells(unsigned int cpu)
{
	struct vcpu *v = &vcpus[cpu];
	uint32_t now = peek(state);

	if (!now)
		return NULL;
	return v->state == now ? v->cells : vcpu_follow(v, now);
}

static inline void count_kind(unsigned int cpu, union segment seg)
{
	struct task *task = runners[cpu].task;
	struct vcpu *v = &vcpus[cpu];

	if (seg.symbol == SYM_USER)
		task_in_user_code(task);
	else if (symbols[seg.symbol].apart)
		bump(v->apart, seg.insns);
	else
		bump(v->kinds[task->thread][task->kind], seg.insns);
}

static void on_segment(unsigned int cpu, void *udata)
{
	union segment seg = { .udata = udata };
	struct cell *cells = vcpu_cells(cpu);

	if (!cells)
		return;
	bump(cells[seg.symbol].insn, seg.insns);
	if (seg.locked)
		bump(cells[seg.symbol].locked, seg.locked);
	count_kind(cpu, seg);
}

static void on_rep(unsigned int cpu, void *udata)
{
	union segment seg = { .udata = udata };
	struct cell *cells = vcpu_cells(cpu);

	if (cells)
		bump(cells[seg.symbol].rep, 1);
}

static void write_cells(FILE *f, const char *key, size_t offset, size_t sym,
			const struct cell *sum)
{
	unsigned int i;

	fprintf(f, ",\"%s\":[", key);
	for (i = 0; i < nr_vcpus; i++)
		fprintf(f, "%s%lu", i ? "," : "",
			*(const uint64_t *)((const char *)&sum[i * nr_symbols + sym] + offset));
	fputc(']', f);
}

/* Since the last START; if not, its numbers are old. */
static bool vcpu_has_counted(unsigned int cpu)
{
	return __atomic_load_n(&vcpus[cpu].state, __ATOMIC_ACQUIRE) >> 4 == region;
}

/* "vcpus" and "symbols" of the table @sum, one row of symbols per vCPU. */
static void write_table(FILE *f, const struct cell *sum)
{
	const char *sep = "";
	unsigned int i;
	size_t s;

	fputs("\"vcpus\":[", f);
	for (i = 0; i < nr_vcpus; i++) {
		const struct cell *row = &sum[i * nr_symbols];
		struct cell kernel = { 0 };

		for (s = SYM_USER + 1; s < nr_symbols; s++) {
			kernel.insn += row[s].insn;
			kernel.locked += row[s].locked;
			kernel.rep += row[s].rep;
		}
		fprintf(f, "%s{\"user\":%lu,\"user_locked\":%lu,\"user_rep\":%lu,"
			"\"kernel\":%lu,\"locked\":%lu,\"rep\":%lu}", i ? "," : "",
			row[SYM_USER].insn, row[SYM_USER].locked, row[SYM_USER].rep,
			kernel.insn, kernel.locked, kernel.rep);
	}
	fputs("],\n\"symbols\":[", f);
	for (s = SYM_USER + 1; s < nr_symbols; s++) {
		bool any = false;

		for (i = 0; i < nr_vcpus; i++)
			any |= sum[i * nr_symbols + s].insn || sum[i * nr_symbols + s].rep;
		if (!any)
			continue;
		fprintf(f, "%s\n{\"name\":\"%s\"", sep, symbols[s].name);
		write_cells(f, "insn", offsetof(struct cell, insn), s, sum);
		write_cells(f, "locked", offsetof(struct cell, locked), s, sum);
		write_cells(f, "rep", offsetof(struct cell, rep), s, sum);
		fputc('}', f);
		sep = ",";
	}
	fputc(']', f);
}

/* A number of every vCPU, at @offset from @base, 0 of those that hold old ones. */
static void write_vcpus(FILE *f, const char *key, const void *base, size_t size,
			size_t offset)
{
	unsigned int i;

	fprintf(f, "\"%s\":[", key);
	for (i = 0; i < nr_vcpus; i++) {
		const char *at = (const char *)base + i * size + offset;

		fprintf(f, "%s%lu", i ? "," : "",
			vcpu_has_counted(i) ? peek(*(const uint64_t *)at) : 0UL);
	}
	fputc(']', f);
}

/* "kinds" and what goes with them. */
static void write_kinds(FILE *f)
{
	unsigned int k;

	fputs("\"kinds\":[", f);
	for (k = 0; k < nr_kinds; k++) {
		fprintf(f, "%s\n{\"kind\":\"%s\",", k ? "," : "", kind_names[k]);
		write_vcpus(f, "process", vcpus, sizeof(*vcpus),
			    offsetof(struct vcpu, kinds[0][k]));
		fputc(',', f);
		write_vcpus(f, "thread", vcpus, sizeof(*vcpus),
			    offsetof(struct vcpu, kinds[1][k]));
		fputc('}', f);
	}
	fputs("],\n", f);
	write_vcpus(f, "apart", vcpus, sizeof(*vcpus), offsetof(struct vcpu, apart));
	fputs(",\n", f);
	write_vcpus(f, "returns", runners, sizeof(*runners), offsetof(struct runner, returns));
	fputs(",\n", f);
	write_vcpus(f, "unmatched", runners, sizeof(*runners),
		    offsetof(struct runner, unmatched));
}

/* Adds what @phase counted to @sum. False if nothing was. */
static bool add_phase(struct cell *sum, unsigned int phase)
{
	bool any = false;
	unsigned int i;
	size_t s;

	for (i = 0; i < nr_vcpus; i++) {
		struct cell *row = __atomic_load_n(&vcpus[i].phases[phase],
						   __ATOMIC_ACQUIRE);
		struct cell *to = &sum[i * nr_symbols];

		if (!row || !vcpu_has_counted(i))
			continue;
		for (s = 0; s < nr_symbols; s++) {
			to[s].insn += peek(row[s].insn);
			to[s].locked += peek(row[s].locked);
			to[s].rep += peek(row[s].rep);
			any |= to[s].insn || to[s].rep;
		}
	}
	return any;
}

static void write_result(void)
{
	size_t cells = nr_vcpus * nr_symbols;
	struct cell *sum = calloc(cells, sizeof(*sum));
	struct cell *one = calloc(cells, sizeof(*one));
	const char *why = "", *sep = "";
	char tmp[4096];
	unsigned int p;
	FILE *f;

	/* By renaming: a reader on the host never sees half of it. */
	snprintf(tmp, sizeof(tmp), "%s.tmp", out_path);
	f = fopen(tmp, "w");
	if (!f || !sum || !one) {
		complain("cannot write %s: %s", tmp, strerror(errno));
		if (f)
			fclose(f);
		goto free;
	}
	if (!region)
		why = "no START marker";
	else if (!peek(entry_seen))
		why = "entry_SYSCALL_64 is not where the symbol file says: another kernel, or no nokaslr";
	fprintf(f, "{\"valid\":%s,\"why\":\"%s\",\"region\":%u,\n\"phases\":[",
		*why ? "false" : "true", why, region);
	for (p = 0; region && p < LAB_MAX_PHASES; p++) {
		memset(one, 0, cells * sizeof(*one));
		if (!add_phase(one, p))
			continue;
		add_phase(sum, p);
		fprintf(f, "%s\n{\"phase\":%u,", sep, p);
		write_table(f, one);
		fputc('}', f);
		sep = ",";
	}
	fputs("],\n", f);
	write_kinds(f);
	fputs(",\n", f);
	write_table(f, sum);
	fputs("}\n", f);
	if (fclose(f) || rename(tmp, out_path))
		complain("cannot write %s: %s", out_path, strerror(errno));
free:
	free(sum);
	free(one);
}

static void on_marker(unsigned int cpu, void *udata)
{
	unsigned int code = (uintptr_t)udata;

	(void)cpu;
	pthread_mutex_lock(&lock);
	switch (code & LAB_CODE_KIND) {
	case LAB_CODE_START:
		poke(state, ++region << 4);
		break;
	case LAB_CODE_STOP:
		if (!state)
			break;
		poke(state, 0);
		write_result();
		break;
	case LAB_CODE_PHASE:
		if (state)
			poke(state, region << 4 | (code & LAB_CODE_ARG));
		break;
	}
	pthread_mutex_unlock(&lock);
}

/* Index of the symbol that @pc belongs to; @next: where another one begins. */
static uint32_t symbol_of(uint64_t pc, uint64_t *next)
{
	size_t low = NR_PSEUDO, high = nr_symbols;

	/* The first symbol beyond @pc. */
	while (low < high) {
		size_t mid = (low + high) / 2;

		if (symbols[mid].addr <= pc)
			low = mid + 1;
		else
			high = mid;
	}
	*next = low < nr_symbols ? symbols[low].addr : UINT64_MAX;
	low--;
	/* Also not text: generated code, outside of the kernel image. */
	return low >= NR_PSEUDO && symbols[low].text ? low : SYM_OTHER_KERNEL;
}

struct decoded {
	bool locked;
	bool rep_string;
	bool call;
	bool ret;
	bool loads_sp;		/* mov from memory */
	bool stores_sp;
};

/* Has the ModRM byte @modrm the register rsp and a place in memory? */
static bool is_sp_and_memory(uint8_t modrm)
{
	return (modrm >> 3 & 7) == 4 && modrm >> 6 != 3;
}

/* Only what we count. @size bytes are one valid instruction in 64-bit mode. */
static struct decoded decode(const uint8_t *byte, size_t size)
{
	bool lock_prefix = false, rep_prefix = false;
	struct decoded d = { 0 };
	size_t i;

	for (i = 0; i < size; i++) {
		switch (byte[i]) {
		case 0xf0:
			lock_prefix = true;
			continue;
		case 0xf2:
		case 0xf3:
			rep_prefix = true;
			continue;
		case 0x66:	/* operand and address size, segments */
		case 0x67:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x26:
		case 0x64:
		case 0x65:
			continue;
		}
		break;
	}
	if (i < size && (byte[i] & 0xf0) == 0x40)	/* REX: the last prefix */
		i++;
	if (i >= size)
		return d;

	d.locked = lock_prefix;
	switch (byte[i]) {
	case 0x86:	/* xchg r/m locks by itself, unless r/m is a register */
	case 0x87:
		if (i + 1 < size && byte[i + 1] >> 6 != 3)
			d.locked = true;
		break;
	case 0x89:
		d.stores_sp = i + 1 < size && is_sp_and_memory(byte[i + 1]);
		break;
	case 0x8b:
		d.loads_sp = i + 1 < size && is_sp_and_memory(byte[i + 1]);
		break;
	case 0xc2:
	case 0xc3:
		d.ret = true;
		break;
	case 0xe8:
		d.call = true;
		break;
	case 0xff:
		d.call = i + 1 < size && (byte[i + 1] >> 3 & 7) == 2;
		break;
	case 0x6c ... 0x6f:	/* ins, outs */
	case 0xa4 ... 0xa7:	/* movs, cmps */
	case 0xaa ... 0xaf:	/* stos, lods, scas */
		d.rep_string = rep_prefix;
		break;
	}
	return d;
}

/* Where the kernel was linked to run, this address begins with swapgs. */
static void check_entry(const uint8_t *byte, size_t size)
{
	static const uint8_t swapgs[] = { 0x0f, 0x01, 0xf8 };
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };

	if ((size == sizeof(swapgs) && !memcmp(byte, swapgs, size)) ||
	    (size == sizeof(endbr64) && !memcmp(byte, endbr64, size)))
		poke(entry_seen, true);
}

static void watch_memory(struct qemu_plugin_insn *insn, plugin_mem_cb callback)
{
	qemu_plugin_register_vcpu_mem_cb(insn, callback, QEMU_PLUGIN_CB_NO_REGS,
					 QEMU_PLUGIN_MEM_RW, NULL);
}

/* What the calls' side (calls.h) must see of a kernel instruction. */
static void follow_calls(struct qemu_plugin_insn *insn, uint64_t pc,
			 uint32_t symbol, struct decoded d)
{
	unsigned int enter = symbols[symbol].enter;

	if (enter && pc == symbols[symbol].addr)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_enter, QEMU_PLUGIN_CB_NO_REGS,
						       (void *)(uintptr_t)enter);
	d.ret &= !symbols[symbol].moved;
	if (d.call || d.ret)
		qemu_plugin_register_vcpu_insn_exec_cb(insn, on_call_or_return,
						       QEMU_PLUGIN_CB_NO_REGS, NULL);
	if (d.call)
		watch_memory(insn, on_call);
	else if (d.ret)
		watch_memory(insn, on_return);
	else if (d.stores_sp && symbol == switch_symbol)
		watch_memory(insn, on_switch_from);
	else if (d.loads_sp && symbol == switch_symbol)
		watch_memory(insn, on_switch_to);
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i, n = qemu_plugin_tb_n_insns(tb);
	struct qemu_plugin_insn *first = NULL;
	union segment seg = { 0 };
	uint64_t next = 0;
	uint32_t symbol = SYM_USER;

	(void)id;
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		const uint8_t *byte = qemu_plugin_insn_data(insn);
		size_t size = qemu_plugin_insn_size(insn);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);
		struct decoded d = decode(byte, size);
		unsigned int code = 0;

		if (is_user(pc)) {
			symbol = SYM_USER;
			code = marker_code(insn);
			if ((code & LAB_CODE_KIND) == LAB_CODE_CAL)
				code = 0;	/* a load like any other */
		} else if (pc >= next) {
			/* The instructions of a block are in ascending order. */
			symbol = symbol_of(pc, &next);
			if (pc == entry_addr)
				check_entry(byte, size);
		}
		/* Before the segment's callback: a function belongs to the kind it begins. */
		if (!is_user(pc))
			follow_calls(insn, pc, symbol, d);
		if (first && (symbol != seg.symbol || code || d.rep_string)) {
			qemu_plugin_register_vcpu_insn_exec_cb(first, on_segment,
							       QEMU_PLUGIN_CB_NO_REGS,
							       seg.udata);
			first = NULL;
		}
		if (code) {
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_marker,
							       QEMU_PLUGIN_CB_NO_REGS,
							       (void *)(uintptr_t)code);
			continue;
		}
		if (!first)
			seg = (union segment){ .symbol = symbol };
		if (d.rep_string) {
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_rep,
							       QEMU_PLUGIN_CB_NO_REGS,
							       seg.udata);
			continue;
		}
		if (!first)
			first = insn;
		seg.insns++;
		seg.locked += d.locked;
	}
	if (first)
		qemu_plugin_register_vcpu_insn_exec_cb(first, on_segment,
						       QEMU_PLUGIN_CB_NO_REGS, seg.udata);
}

static void on_exit_qemu(qemu_plugin_id_t id, void *udata)
{
	(void)id;
	(void)udata;
	pthread_mutex_lock(&lock);
	/* After a STOP it is written already. */
	if (state || !region) {
		poke(state, 0);
		write_result();
	}
	pthread_mutex_unlock(&lock);
}

/* Padding before a function, or the boundary of a section: no name of code. */
static bool is_boundary(const char *name)
{
	size_t len = strlen(name);

	return !strncmp(name, "__pfx_", 6) || !strcmp(name, "_text") ||
	       !strcmp(name, "_stext") ||
	       (*name == '_' && len > 6 && (!strcmp(name + len - 6, "_start") ||
					    !strcmp(name + len - 4, "_end")));
}

/* By address; among aliases the best one first: text, a function, global. */
static int compare_symbols(const void *one, const void *two)
{
	const struct symbol *a = one, *b = two;
	bool boundary_a = is_boundary(a->name), boundary_b = is_boundary(b->name);

	if (a->addr != b->addr)
		return a->addr < b->addr ? -1 : 1;
	if (a->text != b->text)
		return a->text ? -1 : 1;
	if (boundary_a != boundary_b)
		return boundary_a ? 1 : -1;
	if (a->global != b->global)
		return a->global ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

static void add_symbol(uint64_t addr, char type, const char *name)
{
	static size_t room;
	struct symbol *sym;

	if (nr_symbols == room) {
		room = room ? 2 * room : 1 << 16;
		symbols = realloc(symbols, room * sizeof(*symbols));
	}
	sym = symbols ? &symbols[nr_symbols] : NULL;
	if (sym)
		*sym = (struct symbol){
			.addr = addr,
			.order = nr_symbols++,
			.text = toupper(type) == 'T' || toupper(type) == 'W',
			.global = isupper(type),
			.name = strdup(name),
		};
	if (!sym || !sym->name) {
		complain("no memory for symbols");
		abort();
	}
}

/* @sym gets the roles of @name, which may be an alias of it. */
static void apply_roles(struct symbol *sym, const char *name)
{
	const struct role *role;

	for (role = roles; role < &roles[nr_roles]; role++) {
		if (strcmp(role->name, name))
			continue;
		if (role->enter)
			sym->enter = role->enter;
		sym->moved |= role->moved;
		sym->apart |= role->apart;
	}
}

/* The functions of a list "SYMBOL:SYMBOL" have a role. False if it is too long. */
static bool add_roles(char *list, struct role role)
{
	char *rest = list;

	while ((role.name = strsep(&rest, ":"))) {
		if (nr_roles == sizeof(roles) / sizeof(*roles))
			return false;
		roles[nr_roles++] = role;
	}
	return true;
}

/* "NAME" or "NAME:SYMBOL:..." */
static bool add_kind(const char *value)
{
	char *list = strdup(value);

	if (!list || !*list || nr_kinds == MAX_KINDS)
		return false;
	kind_names[nr_kinds++] = strsep(&list, ":");
	return !list || add_roles(list, (struct role){ .enter = ENTER_KIND + nr_kinds - 1 });
}

static bool add_apart(const char *value)
{
	char *list = strdup(value);

	return list && add_roles(list, (struct role){ .apart = true });
}

/* Lines of "address type name". False with a message if it is no such file. */
static bool read_symbols(const char *path)
{
	FILE *f = fopen(path, "r");
	size_t i, kept = NR_PSEUDO;
	unsigned long addr;
	char line[512], name[256], type;

	if (!f) {
		complain("%s: %s", path, strerror(errno));
		return false;
	}
	add_symbol(0, 't', "user");
	add_symbol(0, 't', "other-kernel");
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx %c %255s", &addr, &type, name) != 3)
			continue;
		/* Absolute and per-CPU symbols are not addresses of code. */
		if (!is_user(addr))
			add_symbol(addr, type, name);
	}
	fclose(f);
	qsort(symbols + NR_PSEUDO, nr_symbols - NR_PSEUDO, sizeof(*symbols),
	      compare_symbols);
	for (i = NR_PSEUDO; i < nr_symbols; i++) {
		if (!strcmp(symbols[i].name, "entry_SYSCALL_64"))
			entry_addr = symbols[i].addr;
		/* One symbol per address: the first of its aliases. */
		if (kept == NR_PSEUDO || symbols[kept - 1].addr != symbols[i].addr)
			symbols[kept++] = symbols[i];
		if (!strcmp(symbols[i].name, "__switch_to_asm"))
			switch_symbol = kept - 1;
		apply_roles(&symbols[kept - 1], symbols[i].name);
	}
	nr_symbols = kept;
	if (!entry_addr) {
		complain("%s has no entry_SYSCALL_64: is it the System.map of an x86-64 kernel?",
			 path);
		return false;
	}
	return true;
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
			char **argv)
{
	const char *value, *map = NULL;
	int a;

	nr_vcpus = plugin_check_qemu(info);
	if (!nr_vcpus)
		return -1;
	for (a = 0; a < argc; a++) {
		if ((value = arg_value(argv[a], "symbols")) && !map) {
			map = value;
		} else if ((value = arg_value(argv[a], "kind")) && add_kind(value)) {
			continue;
		} else if ((value = arg_value(argv[a], "apart")) && add_apart(value)) {
			continue;
		} else if ((value = arg_value(argv[a], "out")) && !out_path) {
			out_path = strdup(value);
		} else {
			complain("bad argument \"%s\"", argv[a]);
			return -1;
		}
	}
	if (!map || !out_path) {
		complain("needs symbols=FILE and out=FILE");
		return -1;
	}
	if (!read_symbols(map))
		return -1;
	calls_init(nr_vcpus);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_atexit_cb(id, on_exit_qemu, NULL);
	return 0;
}
