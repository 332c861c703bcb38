// SPDX-License-Identifier: GPL-2.0
/*
 * What it costs to age the memory of a virtual machine: a small one, made with /dev/kvm, whose
 * vCPUs write or read 8 bytes of each of their pages when they are told to.
 *
 *   idle     one aging (MGLRU, by debugfs) of pages that nobody has accessed since the last one
 *   young    one aging of pages that the vCPUs have all accessed since
 *   evict    memory.reclaim of a quarter of the pages, which are idle; needs swap
 *   fault    the vCPUs touch their memory for the first time, while it is aged again and again
 *   hot      the vCPUs touch the first part of their pages for some time; where pages are then
 *
 * The markers are around the one write(2) that ages or evicts (idle, young, evict), or around all
 * that the vCPUs do (fault, hot).  For "hot" the memory is there before READY, and can be placed until GO.
 *
 * All memory is bound to one node (not with --no-bind 1), and only that node is aged while
 * something is measured.  The thread that ages runs on CPU 0, the vCPUs on others, if there are
 * enough.  Guest memory is in pages of 4 KiB, or in huge pages (--thp 1); the guest maps it with
 * huge pages, and its page tables are elsewhere, so it accesses a handful of other pages.
 *
 * Generations are those of the memory control group --cgroup, which needs to be new, as all that
 * belongs to it is aged and counted: "young" are the pages that the last aging found accessed,
 * "old" those that it did not, "youngest" those that came later.
 */
#include "common.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <sys/resource.h>

#include "lab_numa.h"

#define LRU_GEN		"/sys/kernel/debug/lru_gen"
#define LRU_GEN_ON	"/sys/kernel/mm/lru_gen/enabled"
#define MAX_VCPUS	64
#define MAX_CPUID	256
#define GIB		(1UL << 30)
#define MAX_DATA	(64 * GIB)
#define AGINGS		3
/* Before what is timed: others' RCU callbacks are over by then */
#define SETTLE_S	0.5

/* Guest physical addresses, which are the guest's virtual ones too: pages of the small slot */
enum { CODE_PAGE, ROOT_PAGE, TOP_PAGE, LOW_PAGE, SPARE_PAGE, DATA_TABLES };

#define DATA_GPA	(4 * GIB)

#define PTE_TABLE	0x23UL		/* present, writable, accessed */
#define PTE_HUGE	0xe3UL		/* and dirty, a page of 2 MiB */

/* From rdi on until rsi, a step of rdx */
static const unsigned char write_code[] = {
	0x48, 0x89, 0x3f,	/* 1: mov %rdi,(%rdi) */
	0x48, 0x01, 0xd7,	/*    add %rdx,%rdi */
	0x48, 0x39, 0xf7,	/*    cmp %rsi,%rdi */
	0x72, 0xf5,		/*    jb 1b */
	0xe6, 0x10,		/*    out %al,$0x10 */
	0xf4,			/*    hlt */
};

static const unsigned char read_code[] = {
	0x48, 0x8b, 0x07,	/* 1: mov (%rdi),%rax */
	0x48, 0x01, 0xd7,	/*    add %rdx,%rdi */
	0x48, 0x39, 0xf7,	/*    cmp %rsi,%rdi */
	0x72, 0xf5,		/*    jb 1b */
	0xe6, 0x10,		/*    out %al,$0x10 */
	0xf4,			/*    hlt */
};

#define WRITE_AT	(CODE_PAGE * PAGE_SZ)
#define READ_AT		(WRITE_AT + 64)

struct vcpu {
	pthread_t thread;
	unsigned int id;
	int fd;
	struct kvm_run *run;
	uint64_t rounds;	/* of the last order */
	double cpu_ms;
	double wall_ms;
	long faults;
};

/* What the vCPUs are told */
struct order {
	bool leave;
	uint64_t code;		/* WRITE_AT or READ_AT */
	uint64_t pages;		/* of each part, from its beginning */
	double seconds;		/* again and again for so long; 0: once */
};

static struct {
	int kvm, fd;
	char *data;
	size_t part;		/* of each vCPU, in bytes */
	unsigned int nr;
	int first_cpu;		/* of the vCPUs; -1: not pinned */
	struct vcpu vcpu[MAX_VCPUS];
	struct order order;
	pthread_barrier_t step;
	_Atomic unsigned int running;
	_Atomic uint64_t ops;
} vm;

/* the virtual machine */

static int kvm_call(int fd, unsigned long request, unsigned long arg, const char *what)
{
	int ret = ioctl(fd, request, arg);

	if (ret < 0)
		die("%s: %s; does KVM work here?  See the kernel's log", what, strerror(errno));
	return ret;
}

#define KVM_CALL(fd, request, arg) kvm_call(fd, request, (unsigned long)(arg), #request)

static void add_slot(unsigned int slot, uint64_t gpa, char *p, size_t bytes)
{
	struct kvm_userspace_memory_region region = {
		.slot = slot, .guest_phys_addr = gpa, .memory_size = bytes,
		.userspace_addr = (uintptr_t)p,
	};

	KVM_CALL(vm.fd, KVM_SET_USER_MEMORY_REGION, &region);
}

static void map_huge(uint64_t *table, uint64_t gpa, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += 2UL << 20)
		table[at >> 21] = (gpa + at) | PTE_HUGE;
}

/* Code and page tables.  All Accessed and Dirty bits are set, so that a walk writes nothing. */
static void fill_small_slot(char *p, size_t bytes)
{
	uint64_t *root = (uint64_t *)(p + ROOT_PAGE * PAGE_SZ);
	uint64_t *top = (uint64_t *)(p + TOP_PAGE * PAGE_SZ);

	memcpy(p + WRITE_AT, write_code, sizeof(write_code));
	memcpy(p + READ_AT, read_code, sizeof(read_code));
	root[0] = (TOP_PAGE * PAGE_SZ) | PTE_TABLE;
	top[0] = (LOW_PAGE * PAGE_SZ) | PTE_TABLE;
	map_huge((uint64_t *)(p + LOW_PAGE * PAGE_SZ), 0, 2UL << 20);
	for (size_t at = 0; at < bytes; at += GIB) {
		uint64_t table = (DATA_TABLES + at / GIB) * PAGE_SZ;

		top[(DATA_GPA + at) / GIB] = table | PTE_TABLE;
		map_huge((uint64_t *)(p + table), DATA_GPA + at,
			 bytes - at < GIB ? bytes - at : GIB);
	}
}

static void make_vm(bool thp)
{
	size_t bytes = vm.part * vm.nr, small = (DATA_TABLES + (bytes + GIB - 1) / GIB) * PAGE_SZ;
	char *p = region_map(small, false);

	vm.data = region_map(bytes, thp);
	vm.kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (vm.kvm < 0)
		die("/dev/kvm: %s; needs a CPU with SVM or VMX, and KVM in the kernel",
		    strerror(errno));
	vm.fd = KVM_CALL(vm.kvm, KVM_CREATE_VM, 0);
	fill_small_slot(p, bytes);
	add_slot(0, 0, p, small);
	add_slot(1, DATA_GPA, vm.data, bytes);
}

static void use_64_bit_mode(int fd)
{
	struct kvm_segment data = {
		.limit = UINT32_MAX, .selector = 16, .type = 3, .present = 1, .db = 1, .s = 1,
		.g = 1,
	};
	struct kvm_segment code = data;
	struct kvm_sregs sregs;

	code.selector = 8;
	code.type = 11;
	code.db = 0;
	code.l = 1;
	KVM_CALL(fd, KVM_GET_SREGS, &sregs);
	sregs.cs = code;
	sregs.ds = sregs.es = sregs.fs = sregs.gs = sregs.ss = data;
	sregs.cr0 = 0x80010011;		/* PG, WP, ET, PE */
	sregs.cr3 = ROOT_PAGE * PAGE_SZ;
	sregs.cr4 = 0x20;		/* PAE */
	sregs.efer = 0x500;		/* LMA, LME */
	KVM_CALL(fd, KVM_SET_SREGS, &sregs);
}

static void make_vcpu(struct vcpu *v)
{
	size_t size = KVM_CALL(vm.kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	struct kvm_cpuid2 *cpuid;

	cpuid = calloc(1, sizeof(*cpuid) + MAX_CPUID * sizeof(cpuid->entries[0]));
	if (!cpuid)
		die("no memory for %d CPUID entries", MAX_CPUID);
	v->fd = KVM_CALL(vm.fd, KVM_CREATE_VCPU, v->id);
	v->run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, v->fd, 0);
	if (v->run == MAP_FAILED)
		die("mmap of vCPU %u: %s", v->id, strerror(errno));
	cpuid->nent = MAX_CPUID;
	KVM_CALL(vm.kvm, KVM_GET_SUPPORTED_CPUID, cpuid);
	KVM_CALL(v->fd, KVM_SET_CPUID2, cpuid);
	free(cpuid);
	use_64_bit_mode(v->fd);
}

/* Touch the pages from @first on until @end. */
static void run_guest(struct vcpu *v, uint64_t code, uint64_t first, uint64_t end)
{
	struct kvm_regs regs = {
		.rip = code, .rflags = 2, .rdi = first, .rsi = end, .rdx = PAGE_SZ,
	};

	KVM_CALL(v->fd, KVM_SET_REGS, &regs);
	while (ioctl(v->fd, KVM_RUN, 0))
		if (errno != EINTR && errno != EAGAIN)
			die("KVM_RUN of vCPU %u: %s; see the kernel's log", v->id, strerror(errno));
	if (v->run->exit_reason != KVM_EXIT_IO)
		die("vCPU %u left for reason %u of linux/kvm.h, not %u (I/O); see the kernel's log",
		    v->id, v->run->exit_reason, KVM_EXIT_IO);
}

static void obey(struct vcpu *v)
{
	uint64_t first = DATA_GPA + v->id * vm.part, end = first + vm.order.pages * PAGE_SZ;
	struct rusage before, after;
	double began;

	getrusage(RUSAGE_THREAD, &before);
	began = now_s();
	v->rounds = 0;
	do {
		run_guest(v, vm.order.code, first, end);
		v->rounds++;
		atomic_fetch_add(&vm.ops, vm.order.pages);
	} while (now_s() < began + vm.order.seconds);
	v->wall_ms = (now_s() - began) * 1e3;
	getrusage(RUSAGE_THREAD, &after);
	v->cpu_ms = (after.ru_utime.tv_sec - before.ru_utime.tv_sec +
		     after.ru_stime.tv_sec - before.ru_stime.tv_sec) * 1e3 +
		    (after.ru_utime.tv_usec - before.ru_utime.tv_usec +
		     after.ru_stime.tv_usec - before.ru_stime.tv_usec) / 1e3;
	v->faults = after.ru_minflt - before.ru_minflt;
}

static void pin_to(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die("sched_setaffinity to CPU %d: %s", cpu, strerror(errno));
}

static void *vcpu_thread(void *arg)
{
	uint64_t spare = SPARE_PAGE * PAGE_SZ;
	struct vcpu *v = arg;

	if (vm.first_cpu >= 0)
		pin_to(vm.first_cpu + (int)v->id);
	make_vcpu(v);
	/* What the first run sets up is not measured. */
	run_guest(v, WRITE_AT, spare, spare + PAGE_SZ);
	run_guest(v, READ_AT, spare, spare + PAGE_SZ);
	pthread_barrier_wait(&vm.step);
	for (;;) {
		pthread_barrier_wait(&vm.step);
		if (vm.order.leave)
			return NULL;
		obey(v);
		atomic_fetch_sub(&vm.running, 1);
		pthread_barrier_wait(&vm.step);
	}
}

static void start_vcpus(void)
{
	pthread_barrier_init(&vm.step, NULL, vm.nr + 1);
	for (unsigned int i = 0; i < vm.nr; i++) {
		vm.vcpu[i].id = i;
		if (pthread_create(&vm.vcpu[i].thread, NULL, vcpu_thread, &vm.vcpu[i]))
			die("cannot start the thread of vCPU %u", i);
	}
	pthread_barrier_wait(&vm.step);
}

static void begin_order(struct order what)
{
	vm.order = what;
	atomic_store(&vm.ops, 0);
	atomic_store(&vm.running, vm.nr);
	pthread_barrier_wait(&vm.step);
}

static void await_order(void)
{
	pthread_barrier_wait(&vm.step);
}

static void guest_touch(uint64_t code)
{
	begin_order((struct order){ .code = code, .pages = vm.part / PAGE_SZ });
	await_order();
}

/* The guest writes to each page its address. */
static void check_pages(void)
{
	for (size_t at = 0; at < vm.part * vm.nr; at += PAGE_SZ)
		if (*(volatile uint64_t *)(vm.data + at) != DATA_GPA + at)
			die("CORRUPTION: page %zu is not what the guest wrote", at / PAGE_SZ);
}

static void end_vm(void)
{
	check_pages();
	vm.order.leave = true;
	pthread_barrier_wait(&vm.step);
	for (unsigned int i = 0; i < vm.nr; i++)
		pthread_join(vm.vcpu[i].thread, NULL);
}

/* generations */

struct generations {
	unsigned int id;			/* of the group */
	unsigned int nodes;			/* that it has, a bit each */
	unsigned long max[MAX_NODES];		/* number of the youngest generation */
	unsigned long youngest[MAX_NODES];	/* pages, anonymous */
	unsigned long before[MAX_NODES];	/* in the one before that */
	unsigned long older[MAX_NODES];
};

static char group[4096];	/* as the kernel calls ours */
static int lru_gen = -1;

static struct generations generations(void)
{
	struct generations g = {};
	bool ours = false;
	unsigned int node = MAX_NODES;
	char line[4200];
	FILE *f = fopen(LRU_GEN, "r");

	if (!f)
		die("%s: %s; mount debugfs", LRU_GEN, strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		unsigned long gen, age, anon;
		unsigned int id;
		int at = 0;

		if (sscanf(line, "memcg %u %n", &id, &at) == 1 && at) {
			line[strcspn(line, "\n")] = 0;
			ours = !strcmp(line + at, group);
			if (ours)
				g.id = id;
		} else if (sscanf(line, " node %u", &node) == 1) {
			continue;
		} else if (ours && node < MAX_NODES &&
			   sscanf(line, "%lu %lu %lu", &gen, &age, &anon) == 3) {
			/* They come from the oldest to the youngest. */
			g.older[node] += g.before[node];
			g.before[node] = g.youngest[node];
			g.youngest[node] = anon;
			g.max[node] = gen;
			g.nodes |= 1U << node;
		}
	}
	fclose(f);
	if (!g.nodes)
		die("%s does not have the group '%s'; is memory controlled there?", LRU_GEN, group);
	return g;
}

struct aging {
	char text[96];
	size_t len;
};

static struct aging aging_of(const struct generations *g, unsigned int node)
{
	struct aging a;

	a.len = (size_t)snprintf(a.text, sizeof(a.text), "+ %u %u %lu 1 1", g->id, node,
				 g->max[node]);
	return a;
}

static void age(const struct aging *a)
{
	if (write(lru_gen, a->text, a->len) != (ssize_t)a->len)
		die("'%s' to %s: %s; is the node there?", a->text, LRU_GEN, strerror(errno));
}

static void age_all_nodes(void)
{
	struct generations g = generations();

	for (unsigned int node = 0; node < MAX_NODES; node++) {
		struct aging a = aging_of(&g, node);

		if (g.nodes & 1U << node)
			age(&a);
	}
}

/* Go into the group; its name is the last part of the line for cgroup2. */
static void join_group(const char *dir)
{
	char path[4096], line[4200];
	FILE *f;
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, "0", 1) != 1)
		die("%s: %s; --cgroup is a directory of cgroup2, made by mkdir", path,
		    strerror(errno));
	close(fd);
	f = fopen("/proc/self/cgroup", "r");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "0::%4095[^\n]", group) == 1)
			break;
	if (!f || !*group)
		die("/proc/self/cgroup does not name a group of cgroup2; mount cgroup2");
	fclose(f);
}

static void open_lru_gen(void)
{
	unsigned int on = 0;
	FILE *f = fopen(LRU_GEN_ON, "r");

	if (!f || fscanf(f, "%x", &on) != 1 || (on & 3) != 3)
		die("MGLRU is off, or walks no page tables; write y to %s", LRU_GEN_ON);
	fclose(f);
	lru_gen = open(LRU_GEN, O_WRONLY);
	if (lru_gen < 0)
		die("%s: %s; mount debugfs", LRU_GEN, strerror(errno));
}

/* the cases */

struct args {
	const char *name;
	uint64_t passes, hot_pct;
	double seconds;
	unsigned int node;
	bool place;
	uint64_t touch_code;
};

static void begin_result(const struct args *args)
{
	printf("RESULT {\"case\": \"%s\", \"vcpus\": %u, \"size_mb\": %zu, \"pages\": %zu, "
	       "\"pinned\": %s", args->name, vm.nr, vm.part >> 20, vm.part * vm.nr / PAGE_SZ,
	       vm.first_cpu < 0 ? "false" : "true");
}

static void populate(void)
{
	region_stamp(vm.data, vm.part * vm.nr);
	guest_touch(WRITE_AT);
}

static void one_aging(const struct args *args, bool young)
{
	struct generations g;
	struct aging a;
	double began;

	populate();
	for (int i = 0; i < AGINGS; i++)
		age_all_nodes();
	if (young)
		guest_touch(args->touch_code);
	sleep_s(SETTLE_S);
	g = generations();
	a = aging_of(&g, args->node);
	began = now_s();
	lab_start();
	age(&a);
	lab_stop();
	began = now_s() - began;
	g = generations();
	begin_result(args);
	printf(", \"ms\": %.3f, \"young\": %lu, \"old\": %lu, \"youngest\": %lu}\n", began * 1e3,
	       g.before[args->node], g.older[args->node], g.youngest[args->node]);
}

/* How many pages of the guest are in memory? */
static unsigned long resident(void)
{
	size_t n = vm.part * vm.nr / PAGE_SZ;
	unsigned char *in = malloc(n);
	unsigned long found = 0;

	if (!in || mincore(vm.data, n * PAGE_SZ, in))
		die("mincore of %zu pages: %s", n, strerror(errno));
	for (size_t i = 0; i < n; i++)
		found += in[i] & 1;
	free(in);
	return found;
}

static void evict(const struct args *args, const char *cgroup)
{
	unsigned long before;
	char path[4200], text[64];
	int fd;

	populate();
	for (int i = 0; i < AGINGS; i++)
		age_all_nodes();
	sleep_s(SETTLE_S);
	before = resident();
	snprintf(text, sizeof(text), "%zu swappiness=200", vm.part * vm.nr / 4);
	snprintf(path, sizeof(path), "%s/memory.reclaim", cgroup);
	fd = open(path, O_WRONLY);
	lab_start();
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		die("'%s' to %s: %s; is there swap?", text, path, strerror(errno));
	lab_stop();
	close(fd);
	begin_result(args);
	printf(", \"evicted\": %lu}\n", before - resident());
}

static void first_touch(const struct args *args)
{
	double sum = 0, longest = 0;
	struct generations g = {};
	unsigned long first = 0;
	uint64_t passes = 0;

	if (args->passes) {
		g = generations();
		first = g.max[args->node];
	}
	sleep_s(SETTLE_S);
	lab_start();
	begin_order((struct order){ .code = WRITE_AT, .pages = vm.part / PAGE_SZ });
	while (passes < args->passes && atomic_load(&vm.running)) {
		struct aging a = aging_of(&g, args->node);
		double took = now_s();

		age(&a);
		took = now_s() - took;
		sum += took;
		if (took > longest)
			longest = took;
		passes++;
		g = generations();
	}
	await_order();
	lab_stop();
	begin_result(args);
	printf(", \"passes\": %llu, \"generations\": %lu, \"pass_ms_mean\": %.3f, "
	       "\"pass_ms_max\": %.3f, \"vcpu\": [", (unsigned long long)passes,
	       g.max[args->node] - first, passes ? sum * 1e3 / (double)passes : 0, longest * 1e3);
	for (unsigned int i = 0; i < vm.nr; i++)
		printf("%s{\"cpu_ms\": %.3f, \"wall_ms\": %.3f, \"faults\": %ld}", i ? ", " : "",
		       vm.vcpu[i].cpu_ms, vm.vcpu[i].wall_ms, vm.vcpu[i].faults);
	printf("]}\n");
}

/* Where the pages of the hot parts are, or the others. */
static void print_nodes(const char *name, const int *node, bool hot, size_t hot_pages)
{
	size_t all = vm.part * vm.nr / PAGE_SZ, n = 0;
	int *some = malloc(all * sizeof(*some));
	struct residency r;

	if (!some)
		die("no memory for %zu page states", all);
	for (size_t i = 0; i < all; i++)
		if ((i % (vm.part / PAGE_SZ) < hot_pages) == hot)
			some[n++] = node[i];
	r = residency_count(some, n);
	printf(", \"%s\": %s, \"%s_absent\": %llu", name, residency_json(&r), name,
	       (unsigned long long)r.absent);
	free(some);
}

static void place(unsigned int node)
{
	size_t pages = vm.part * vm.nr / PAGE_SZ;
	struct residency r;

	region_place(vm.data, pages, (int)node);
	r = region_residency(vm.data, pages);
	if (r.on[node] != pages)
		die("only %llu of %zu pages are on node %u; is there room?",
		    (unsigned long long)r.on[node], pages, node);
}

static void hot(const struct args *args)
{
	size_t all = vm.part * vm.nr / PAGE_SZ;
	size_t pages = vm.part / PAGE_SZ * args->hot_pct / 100;
	int *node = malloc(all * sizeof(*node));
	double began, next = 1;
	uint64_t rounds = 0;

	if (!node)
		die("no memory for %zu page states", all);
	populate();
	if (args->place)
		place(args->node);
	ready_and_wait();
	began = now_s();
	lab_start();
	if (pages && args->seconds > 0) {
		begin_order((struct order){ .code = args->touch_code, .pages = pages,
					    .seconds = args->seconds });
		while (atomic_load(&vm.running)) {
			sleep_s(0.02);
			if (now_s() >= began + next) {
				progress(now_s() - began, atomic_load(&vm.ops));
				next++;
			}
		}
		await_order();
		for (unsigned int i = 0; i < vm.nr; i++)
			rounds += vm.vcpu[i].rounds;
	}
	lab_stop();
	began = now_s() - began;
	printf("DONE\n");
	page_nodes(vm.data, all, node);
	begin_result(args);
	printf(", \"seconds\": %.3f, \"rounds\": %llu", began, (unsigned long long)rounds);
	print_nodes("hot", node, true, pages);
	print_nodes("cold", node, false, pages);
	printf("}\n");
	free(node);
}

/* All or none: the thread that ages to CPU 0, vCPU i to CPU first + i. */
static void pin(uint64_t first)
{
	cpu_set_t may;

	vm.first_cpu = -1;
	if (sched_getaffinity(0, sizeof(may), &may))
		die("sched_getaffinity: %s", strerror(errno));
	if (!CPU_ISSET(0, &may) || first > CPU_SETSIZE - MAX_VCPUS)
		return;
	for (unsigned int i = 0; i < vm.nr; i++)
		if (!CPU_ISSET(first + i, &may))
			return;
	vm.first_cpu = (int)first;
	pin_to(0);
}

static void bind_to(unsigned int node)
{
	unsigned long mask = 1UL << node;

	if (syscall(SYS_set_mempolicy, LAB_MPOL_BIND, &mask, 64UL))
		die("set_mempolicy to node %u: %s; does it have memory?", node, strerror(errno));
}

/* Our threads have the policy anyway; this is for a fault that somebody else handles for them. */
static void bind_data(unsigned int node)
{
	unsigned long mask = 1UL << node;

	if (syscall(SYS_mbind, vm.data, vm.part * vm.nr, LAB_MPOL_BIND, &mask, 64UL, 0UL))
		die("mbind to node %u: %s", node, strerror(errno));
}

int main(int argc, char **argv)
{
	uint64_t vcpus = 1, size_mb = 32, cpus_from = 1, node = UINT64_MAX, no_bind = 0, reads = 0;
	uint64_t thp = 0;
	struct args args = { .name = "idle", .passes = UINT64_MAX, .hot_pct = 50, .seconds = 5 };
	const char *cgroup = NULL;
	const struct opt opts[] = {
		{ "case", OPT_STR, &args.name, "idle, young, evict, fault or hot" },
		{ "vcpus", OPT_U64, &vcpus, "1 to 64" },
		{ "size-mb", OPT_U64, &size_mb, "memory of each vCPU" },
		{ "cgroup", OPT_STR, &cgroup, "directory of a new control group of memory" },
		{ "cpus-from", OPT_U64, &cpus_from, "CPU of the first vCPU" },
		{ "node", OPT_U64, &node, "that has the memory, 0 to 7" },
		{ "no-bind", OPT_U64, &no_bind, "1: no policy keeps it there" },
		{ "read", OPT_U64, &reads, "1: once written, pages are read (young, hot)" },
		{ "thp", OPT_U64, &thp, "1: memory of the guest is in huge pages" },
		{ "passes", OPT_U64, &args.passes, "of fault: agings at most; 0: none" },
		{ "hot-pct", OPT_U64, &args.hot_pct, "of hot: percent of the pages" },
		{ "seconds", OPT_F64, &args.seconds, "of hot: how long; 0: not at all" },
		{ NULL, OPT_U64, NULL, NULL },
	};
	bool is_hot, is_fault, is_evict, ages;

	opt_parse(argc - 1, argv + 1, opts);
	is_hot = !strcmp(args.name, "hot");
	is_fault = !strcmp(args.name, "fault");
	is_evict = !strcmp(args.name, "evict");
	if (!is_hot && !is_fault && !is_evict && strcmp(args.name, "idle") &&
	    strcmp(args.name, "young"))
		die("--case %s: unknown; use idle, young, evict, fault or hot", args.name);
	if (!vcpus || vcpus > MAX_VCPUS)
		die("--vcpus must be 1 to %d", MAX_VCPUS);
	if (!size_mb || size_mb > (MAX_DATA >> 20) / vcpus)
		die("--size-mb must be 1 to %lu, for all vCPUs together", MAX_DATA >> 20);
	if (args.hot_pct > 100)
		die("--hot-pct must be 0 to 100");
	if (node != UINT64_MAX && node >= MAX_NODES)
		die("--node must be 0 to %d", MAX_NODES - 1);
	ages = !is_hot && (!is_fault || args.passes);
	if (ages && !cgroup)
		die("--cgroup is missing; make a group of cgroup2, and name its directory");
	args.node = node == UINT64_MAX ? 0 : (unsigned int)node;
	args.place = no_bind && node != UINT64_MAX;
	args.touch_code = reads ? READ_AT : WRITE_AT;
	vm.nr = (unsigned int)vcpus;
	vm.part = size_mb << 20;

	pin(cpus_from);
	if (!no_bind)
		bind_to(args.node);
	if (cgroup)
		join_group(cgroup);
	if (ages)
		open_lru_gen();
	make_vm(thp);
	if (!no_bind)
		bind_data(args.node);
	start_vcpus();
	if (is_hot)
		hot(&args);
	else if (is_fault)
		first_touch(&args);
	else if (is_evict)
		evict(&args, cgroup);
	else
		one_aging(&args, !strcmp(args.name, "young"));
	end_vm();
	return 0;
}
