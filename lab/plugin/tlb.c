// SPDX-License-Identifier: GPL-2.0
/*
 * tlb.so: which instructions of the kernel flush the TLB, and how many translations would
 * a TLB have had to find for the loads and stores of user code?
 *
 * QEMU tells a plugin nothing about its own TLB, nor of walks of page tables.  What can be
 * seen is the instructions that flush: "mov" to CR3 or CR4, invlpg and invpcid.  They
 * are counted between START and STOP, by their place and vCPU, without exception.  TCG has
 * no PCIDs, so each switch of address spaces is such a "mov" as well; which places are those
 * is for the reader to tell by their symbols.
 *
 * From the flushes comes the second figure: each vCPU has a model TLB of "entries"
 * translations of 4 KiB pages, four ways, the least recently used one replaced.  A memory
 * operation of user code whose page is not in it is a fill.  A "mov" to CR3 or CR4 and
 * invpcid empty it.
 *
 * What the fills are not: those of a processor.  Code is left out, and the kernel's own
 * accesses, which compete for entries.  The page of invlpg cannot be seen, so it leaves the
 * model as it is; hence up to one fill for each is missing.  Huge pages count as many small
 * ones.  Entries are found by the virtual page, whoever uses it; that two address spaces
 * share none is ensured by the flush between them.
 *
 * Arguments:
 *   out=FILE		the result, one JSON document, at STOP and at exit
 *   entries=N		of the model, a power of two from 8 on; 0: only flushes
 */
#define PLUGIN_NAME "tlb"
#include <pthread.h>

#include "common.h"

int qemu_plugin_version = LAB_PLUGIN_API;

#define WAYS		4
#define MAX_SITES	64
#define PAGE_BITS	12

enum what { CR3, CR4, INVLPG, INVPCID, NR_WHAT };

static const char * const what_names[NR_WHAT] = { "cr3", "cr4", "invlpg", "invpcid" };

struct entry {
	uint64_t page;
	uint64_t flushes;	/* the vCPU's when it was filled; older: not there */
};

static struct vcpu {
	uint32_t region;	/* what the counters belong to */
	uint64_t flushes;	/* of the model, since boot */
	uint64_t accesses, fills;
	uint64_t count[MAX_SITES];
	struct entry *entries;	/* WAYS of a set side by side, the latest first */
} MEM_ALIGNED vcpus[MAX_VCPUS];

/* Under the lock; what is there does not change any more. */
static struct site {
	uint64_t pc;
	enum what what;
} sites[MAX_SITES];
static unsigned int nr_sites;
static bool too_many_sites;

static unsigned int nr_vcpus;
static uint64_t nr_entries;
static char *out_path;

/* Zero while stopped, else the number of the current START. */
static uint32_t running MEM_ALIGNED;

static pthread_mutex_t lock MEM_ALIGNED = PTHREAD_MUTEX_INITIALIZER;
static uint32_t region;		/* STARTs so far */

/* Only by the vCPU itself, as START may be on another one. */
static inline bool vcpu_counts(struct vcpu *v)
{
	uint32_t now = peek(running);

	if (!now)
		return false;
	if (v->region != now) {
		poke(v->accesses, 0);
		poke(v->fills, 0);
		memset(v->count, 0, sizeof(v->count));
		__atomic_store_n(&v->region, now, __ATOMIC_RELEASE);
	}
	return true;
}

static void on_flush(unsigned int cpu, void *udata)
{
	unsigned int site = (uintptr_t)udata;
	struct vcpu *v = &vcpus[cpu];

	/* The model is emptied also while nothing is counted. */
	if (sites[site].what != INVLPG)
		v->flushes++;
	if (vcpu_counts(v))
		bump(v->count[site], 1);
}

static void on_access(unsigned int cpu, qemu_plugin_meminfo_t info, uint64_t vaddr,
		      void *udata)
{
	struct vcpu *v = &vcpus[cpu];
	uint64_t page = vaddr >> PAGE_BITS;
	struct entry *set, found = { page, v->flushes };
	unsigned int way;

	(void)info;
	(void)udata;
	if (!vcpu_counts(v))
		return;
	bump(v->accesses, 1);
	set = &v->entries[(page & (nr_entries / WAYS - 1)) * WAYS];
	for (way = 0; way < WAYS - 1; way++)
		if (set[way].page == page)
			break;
	if (set[way].page != page || set[way].flushes != v->flushes)
		bump(v->fills, 1);
	for (; way; way--)
		set[way] = set[way - 1];
	*set = found;
}

static void write_vcpus(FILE *f, const char *key, size_t offset)
{
	unsigned int i;

	fprintf(f, "\"%s\":[", key);
	for (i = 0; i < nr_vcpus; i++) {
		const struct vcpu *v = &vcpus[i];
		bool stale = __atomic_load_n(&v->region, __ATOMIC_ACQUIRE) != region;

		fprintf(f, "%s%lu", i ? "," : "", stale ? 0UL :
			peek(*(const uint64_t *)((const char *)v + offset)));
	}
	fputc(']', f);
}

static void write_result(void)
{
	const char *why = "";
	char tmp[4096];
	unsigned int s;
	FILE *f;

	/* By renaming: a reader on the host never sees half of it. */
	snprintf(tmp, sizeof(tmp), "%s.tmp", out_path);
	f = fopen(tmp, "w");
	if (!f) {
		complain("cannot write %s: %s", tmp, strerror(errno));
		return;
	}
	if (!region)
		why = "no START marker";
	else if (too_many_sites)
		why = "more instructions that flush than there is room for";
	fprintf(f, "{\"valid\":%s,\"why\":\"%s\",\"region\":%u,\"entries\":%lu,\n",
		*why ? "false" : "true", why, region, nr_entries);
	write_vcpus(f, "accesses", offsetof(struct vcpu, accesses));
	fputs(",\n", f);
	write_vcpus(f, "fills", offsetof(struct vcpu, fills));
	fputs(",\n\"flushes\":[", f);
	for (s = 0; s < nr_sites; s++) {
		fprintf(f, "%s\n{\"pc\":%lu,\"what\":\"%s\",", s ? "," : "", sites[s].pc,
			what_names[sites[s].what]);
		write_vcpus(f, "count", offsetof(struct vcpu, count[s]));
		fputc('}', f);
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

/* What the bytes of one valid instruction in 64-bit mode flush; NR_WHAT: nothing. */
static enum what decode(const uint8_t *byte, size_t size)
{
	size_t i = 0;

	/* Operand size (of invpcid), segments, and a REX prefix at last. */
	while (i < size && (byte[i] == 0x66 || byte[i] == 0x67 || (byte[i] & 0xe7) == 0x26 ||
			    byte[i] == 0x64 || byte[i] == 0x65))
		i++;
	if (i < size && (byte[i] & 0xf0) == 0x40)
		i++;
	if (i + 2 >= size || byte[i] != 0x0f)
		return NR_WHAT;
	/* REX.R would make it CR8 and above. */
	if (byte[i + 1] == 0x22 && !(i && (byte[i - 1] & 0xf4) == 0x44)) {
		if ((byte[i + 2] >> 3 & 7) == 3)
			return CR3;
		if ((byte[i + 2] >> 3 & 7) == 4)
			return CR4;
	}
	if (byte[i + 1] == 0x01 && (byte[i + 2] >> 3 & 7) == 7 && byte[i + 2] >> 6 != 3)
		return INVLPG;
	if (i && byte[0] == 0x66 && byte[i + 1] == 0x38 && byte[i + 2] == 0x82)
		return INVPCID;
	return NR_WHAT;
}

/* The number of the place @pc, which QEMU can translate any number of times. */
static int site_of(uint64_t pc, enum what what)
{
	unsigned int s;

	pthread_mutex_lock(&lock);
	for (s = 0; s < nr_sites; s++)
		if (sites[s].pc == pc && sites[s].what == what)
			break;
	if (s == MAX_SITES)
		too_many_sites = true;
	else if (s == nr_sites)
		sites[nr_sites++] = (struct site){ pc, what };
	pthread_mutex_unlock(&lock);
	return s == MAX_SITES ? -1 : (int)s;
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t i, n = qemu_plugin_tb_n_insns(tb);

	(void)id;
	for (i = 0; i < n; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint64_t pc = qemu_plugin_insn_vaddr(insn);
		unsigned int code;
		int site = -1;

		if (!is_user(pc)) {
			enum what what = decode(qemu_plugin_insn_data(insn),
						qemu_plugin_insn_size(insn));

			if (what != NR_WHAT)
				site = site_of(pc, what);
			if (site >= 0)
				qemu_plugin_register_vcpu_insn_exec_cb(insn, on_flush,
								       QEMU_PLUGIN_CB_NO_REGS,
								       (void *)(uintptr_t)site);
			continue;
		}
		code = marker_code(insn);
		if (code && (code & LAB_CODE_KIND) != LAB_CODE_CAL)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_marker,
							       QEMU_PLUGIN_CB_NO_REGS,
							       (void *)(uintptr_t)code);
		else if (nr_entries)
			qemu_plugin_register_vcpu_mem_cb(insn, on_access,
							 QEMU_PLUGIN_CB_NO_REGS,
							 QEMU_PLUGIN_MEM_RW, NULL);
	}
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

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
			char **argv)
{
	const char *value;
	unsigned int i;
	int a;

	nr_vcpus = plugin_check_qemu(info);
	if (!nr_vcpus)
		return -1;
	for (a = 0; a < argc; a++) {
		if ((value = arg_value(argv[a], "out")) && !out_path) {
			out_path = strdup(value);
		} else if ((value = arg_value(argv[a], "entries")) &&
			   arg_number(value, &nr_entries) &&
			   !(nr_entries & (nr_entries - 1)) &&
			   (!nr_entries || nr_entries >= 2 * WAYS)) {
			continue;
		} else {
			complain("bad argument \"%s\"", argv[a]);
			return -1;
		}
	}
	if (!out_path) {
		complain("needs out=FILE");
		return -1;
	}
	for (i = 0; nr_entries && i < nr_vcpus; i++) {
		vcpus[i].entries = calloc(nr_entries, sizeof(*vcpus[i].entries));
		vcpus[i].flushes = 1;	/* all entries are older */
		if (!vcpus[i].entries) {
			complain("no memory for a model TLB of %lu entries", nr_entries);
			return -1;
		}
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_atexit_cb(id, on_exit_qemu, NULL);
	return 0;
}
