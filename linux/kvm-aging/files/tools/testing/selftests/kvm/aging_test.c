// SPDX-License-Identifier: GPL-2.0
/*
 * Which pages of a virtual machine are found accessed when its memory is aged, and that nothing
 * else happens to them.
 *
 * MGLRU is asked by its debugfs file, and answers with sizes of generations; memory.reclaim then
 * shows which pages it holds for idle; page_idle asks page by page; kmmscand promotes what it
 * finds.  All tests hold whether the part "age" of memory tiering is on or off, which the caller
 * chooses.
 *
 * Without arguments all tests; -t NAME for some; -s SECONDS for each stress.  Needs root, two
 * memory nodes, swap and MGLRU.
 */
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "aging.h"
#include "kvm_util.h"
#include "processor.h"
#include "svm_util.h"
#include "test_util.h"
#include "ucall_common.h"

#include "../tier_parts/tier_parts.h"

#define NR_PAGES	8192UL
#define GPA		0x100000000UL
#define GVA		0x100000000UL
#define SLOT		1
/* Pages of a memslot of split memory: odd, so that most memslots begin inside a page table */
#define SPLIT_PAGES	509UL
#define KVM_FLUSHES	"/sys/kernel/debug/kvm/remote_tlb_flush_requests"
#define PROMOTE_S	40
#define HOG		(4UL << 30)
#define HOG_STEP	(2UL << 20)
/* Pages of the test itself, and pages that wait in batches */
#define OTHERS		192

/*
 * An order for the guest: touch every @step-th page from @first on, or add one to each
 * round by round until it is told to stop; then say so.
 */
static struct order {
	uint64_t first, step, write, value;
	uint64_t count;
	uint64_t itself;	/* the guest, not the guest's guest */
	uint64_t leave;
} order;
static uint64_t rounds;
static bool stop;

static unsigned int seconds = 3;

static uint64_t *guest_page(uint64_t i)
{
	return (uint64_t *)(GVA + i * PAGE);
}

static void guest_touch(void)
{
	uint64_t i;

	for (i = order.first; i < NR_PAGES; i += order.step) {
		if (order.write)
			WRITE_ONCE(*guest_page(i), order.value ? order.value : i);
		else
			READ_ONCE(*guest_page(i));
	}
}

static void guest_count(void)
{
	uint64_t i;

	for (i = 0; i < NR_PAGES; i++)
		WRITE_ONCE(*guest_page(i), 0);
	for (rounds = 0; !READ_ONCE(stop); rounds++) {
		for (i = 0; i < NR_PAGES; i++) {
			GUEST_ASSERT_EQ(READ_ONCE(*guest_page(i)), rounds);
			WRITE_ONCE(*guest_page(i), rounds + 1);
		}
	}
}

static void guest_code(void)
{
	while (!order.leave) {
		if (order.count)
			guest_count();
		else
			guest_touch();
		GUEST_SYNC(0);
	}
	GUEST_DONE();
}

/* A guest of the guest does it instead. */
static void guests_guest(void)
{
	for (;;) {
		guest_touch();
		__asm__ __volatile__("vmmcall");
	}
}

#define NPT_TABLES	4	/* root, one that has 1 GiB in each entry, two that have 2 MiB */

/* A guest that has a guest; @npt are pages for nested page tables, or 0 for none. */
static void guest_hypervisor(struct svm_test_data *svm, uint64_t *npt, uint64_t npt_gpa)
{
	unsigned long stack[64];
	uint64_t i;

	generic_svm_setup(svm, guests_guest, &stack[64]);
	if (npt) {
		npt[0] = (npt_gpa + PAGE) | 7;
		npt[512 + 0] = (npt_gpa + 2 * PAGE) | 7;
		npt[512 + 4] = (npt_gpa + 3 * PAGE) | 7;
		for (i = 0; i < 512; i++) {
			npt[2 * 512 + i] = (i << 21) | 0x87;
			npt[3 * 512 + i] = (4UL << 30) | (i << 21) | 0x87;
		}
		svm->vmcb->control.nested_ctl |= 1;
		svm->vmcb->control.nested_cr3 = npt_gpa;
	}
	while (!order.leave) {
		if (order.itself) {
			guest_touch();
		} else {
			run_guest(svm->vmcb, svm->vmcb_gpa);
			GUEST_ASSERT_EQ(svm->vmcb->control.exit_code, SVM_EXIT_VMMCALL);
			svm->vmcb->save.rip += 3;
		}
		GUEST_SYNC(0);
	}
	GUEST_DONE();
}

enum kind {
	PLAIN,
	SPLIT,		/* its memory is in memslots that begin inside page tables of the host */
	NESTED,		/* the guest of the guest touches: another root of the same page tables */
	NESTED_NPT,	/* and has nested page tables, which KVM shadows */
};

struct guest {
	struct kvm_vm *vm;
	struct kvm_vcpu *vcpu;
	char *memory;
	bool failed;
	pthread_t thread;
};

/* Returns false if the guest has found something wrong. */
static bool run(struct guest *guest)
{
	struct ucall uc;

	vcpu_run(guest->vcpu);
	switch (get_ucall(guest->vcpu, &uc)) {
	case UCALL_SYNC:
	case UCALL_DONE:
		return true;
	case UCALL_ABORT:
		ksft_print_msg("guest: %s\n", uc.buffer);
		guest->failed = true;
		return false;
	default:
		ksft_exit_fail_msg("the guest left for a reason that it has not\n");
	}
}

static bool tell(struct guest *guest, struct order what)
{
	struct kvm_vm *vm = guest->vm;

	order = what;
	sync_global_to_guest(vm, order);
	return run(guest);
}

static bool touch(struct guest *guest, unsigned long first, unsigned long step)
{
	return tell(guest, (struct order){ .first = first, .step = step, .write = 1 });
}

/* Replace the memslot of the guest's memory by many. */
static void split(struct guest *guest)
{
	unsigned long first, n;
	unsigned int slot = SLOT;

	vm_set_user_memory_region(guest->vm, SLOT, 0, GPA, 0, guest->memory);
	for (first = 0; first < NR_PAGES; first += n) {
		n = NR_PAGES - first < SPLIT_PAGES ? NR_PAGES - first : SPLIT_PAGES;
		vm_set_user_memory_region(guest->vm, slot++, 0, GPA + first * PAGE, n * PAGE,
					  guest->memory + first * PAGE);
	}
}

static void begin(struct guest *guest, enum kind kind, bool huge)
{
	const bool nested = kind == NESTED || kind == NESTED_NPT;
	vm_vaddr_t svm = 0, npt = 0;
	struct kvm_vm *vm;

	memset(guest, 0, sizeof(*guest));
	order = (struct order){ .step = NR_PAGES };
	stop = false;
	prctl(PR_SET_THP_DISABLE, !huge, 0, 0, 0);
	vm = vm_create_with_one_vcpu(&guest->vcpu, nested ? (void *)guest_hypervisor :
							    (void *)guest_code);
	guest->vm = vm;
	if (nested) {
		vcpu_alloc_svm(vm, &svm);
		if (kind == NESTED_NPT)
			npt = vm_vaddr_alloc_pages(vm, NPT_TABLES);
		vcpu_args_set(guest->vcpu, 3, svm, npt, npt ? addr_gva2gpa(vm, npt) : 0);
	}
	vm_userspace_mem_region_add(vm, huge ? VM_MEM_SRC_ANONYMOUS_THP : VM_MEM_SRC_ANONYMOUS,
				    GPA, SLOT, NR_PAGES, 0);
	virt_map(vm, GVA, GPA, NR_PAGES);
	sync_global_to_guest(vm, stop);
	guest->memory = addr_gpa2hva(vm, GPA);
	memset(guest->memory, 1, NR_PAGES * PAGE);
	if (kind == SPLIT)
		split(guest);
}

static void end(struct guest *guest)
{
	if (!guest->failed)
		tell(guest, (struct order){ .step = NR_PAGES, .leave = 1 });
	kvm_vm_free(guest->vm);
}

static bool about(unsigned long found, unsigned long expected)
{
	return found + OTHERS >= expected && found <= expected + OTHERS;
}

/*
 * Touch some, age, and count the pages that went into the generation that was the youngest: the
 * aging found them accessed.
 */
static bool histogram(enum kind kind, bool huge)
{
	static const struct {
		unsigned long first, step, expected;
	} some[] = {
		{ 0, 1, NR_PAGES },
		{ 0, 2, NR_PAGES / 2 },
		{ 1, 8, NR_PAGES / 8 },
		{ NR_PAGES, 1, 0 },
	};
	struct guest guest;
	unsigned int i;
	bool ok = true;

	begin(&guest, kind, huge);
	ok = touch(&guest, 0, 1);
	age_all();
	age_all();
	for (i = 0; i < 2 * ARRAY_SIZE(some) && ok; i++) {
		const struct order what = {
			.first = some[i / 2].first, .step = some[i / 2].step, .write = 1,
			.itself = i % 2,
		};
		unsigned long expected = some[i / 2].expected, found;

		/* Of a huge page one half is as good as all. */
		if (huge && expected)
			expected = NR_PAGES;
		ok = tell(&guest, what);
		age_all();
		found = young();
		ksft_print_msg("accessed %lu, found %lu\n", expected, found);
		ok = ok && about(found, expected);
	}
	end(&guest);
	return ok;
}

static bool test_histogram(void)
{
	return histogram(PLAIN, false);
}

static bool test_split(void)
{
	return histogram(SPLIT, false);
}

static bool test_huge(void)
{
	return histogram(PLAIN, true);
}

static bool test_nested(void)
{
	return histogram(NESTED, false);
}

static bool test_nested_npt(void)
{
	return histogram(NESTED_NPT, false);
}

/* One process has two guests, and each in turn accesses its memory. */
static bool test_two_guests(void)
{
	struct guest guest[2];
	unsigned long found;
	unsigned int i;
	bool ok = true;

	for (i = 0; i < 2; i++)
		begin(&guest[i], PLAIN, false);
	for (i = 0; i < 2; i++)
		ok = ok && touch(&guest[i], 0, 1);
	age_all();
	age_all();
	for (i = 0; i < 2 && ok; i++) {
		ok = touch(&guest[i], 0, 1);
		age_all();
		found = young();
		ksft_print_msg("guest %u accessed %lu, found %lu\n", i, NR_PAGES, found);
		ok = ok && about(found, NR_PAGES);
	}
	for (i = 0; i < 2; i++)
		end(&guest[i]);
	return ok;
}

static unsigned long move_pages_to(struct guest *guest, int node, unsigned long first,
				   unsigned long step)
{
	unsigned long n = (NR_PAGES - first + step - 1) / step, i, moved = 0;
	void **pages = calloc(n, sizeof(*pages));
	int *nodes = calloc(n, sizeof(*nodes));
	int *status = calloc(n, sizeof(*status));

	for (i = 0; i < n; i++) {
		pages[i] = guest->memory + (first + i * step) * PAGE;
		nodes[i] = node;
	}
	if (syscall(SYS_move_pages, 0, n, pages, nodes, status, MPOL_MF_MOVE) < 0)
		ksft_exit_fail_msg("move_pages: %s\n", strerror(errno));
	for (i = 0; i < n; i++)
		moved += status[i] == node;
	free(pages);
	free(nodes);
	free(status);
	return moved;
}

/* An aging of one node keeps the Accessed bits of pages on another. */
static bool test_other_node(void)
{
	struct generations g;
	struct guest guest;
	bool ok;

	begin(&guest, PLAIN, false);
	ok = touch(&guest, 0, 1);
	move_pages_to(&guest, 0, 0, 2);
	move_pages_to(&guest, 1, 1, 2);
	ok = ok && touch(&guest, 0, 1);
	age_all();
	age_all();
	ok = ok && touch(&guest, 0, 1);
	age(0);
	age(1);
	g = generations();
	ksft_print_msg("found on node 0 %lu, on node 1 %lu\n", g.before[0], g.before[1]);
	end(&guest);
	return ok && about(g.before[0], NR_PAGES / 2) && about(g.before[1], NR_PAGES / 2);
}

/* Entries of /proc/self/pagemap for the guest's pages */
static void read_pagemap(struct guest *guest, uint64_t entries[NR_PAGES])
{
	unsigned long first = (unsigned long)guest->memory / PAGE;
	int fd = open("/proc/self/pagemap", O_RDONLY);

	if (pread(fd, entries, NR_PAGES * 8, first * 8) != NR_PAGES * 8)
		ksft_exit_fail_msg("/proc/self/pagemap: %s\n", strerror(errno));
	close(fd);
}

/* Pages that are swapped out, of the half that the guest touches and of the other */
static void swapped_out(struct guest *guest, unsigned long *hot, unsigned long *cold)
{
	static uint64_t entries[NR_PAGES];
	unsigned long i;

	read_pagemap(guest, entries);
	*hot = 0;
	*cold = 0;
	for (i = 0; i < NR_PAGES; i++) {
		if (!(entries[i] & (1ULL << 62)))
			continue;
		if (i % 2)
			++*hot;
		else
			++*cold;
	}
}

/* Proactive reclaim of a guest takes the half that it does not touch. */
static bool test_reclaim(void)
{
	unsigned long i, hot, cold;
	struct guest guest;
	char text[64];
	bool ok;

	begin(&guest, PLAIN, false);
	ok = touch(&guest, 0, 1);
	for (i = 0; i < 3; i++) {
		age_all();
		ok = ok && touch(&guest, 1, 2);
	}
	age_all();
	sprintf(text, "%lu swappiness=200", (NR_PAGES / 2 - OTHERS) * PAGE);
	write_file(GROUP "/memory.reclaim", text);
	swapped_out(&guest, &hot, &cold);
	ksft_print_msg("swapped out: %lu hot, %lu cold pages\n", hot, cold);
	end(&guest);
	/* 1 % of the hot ones */
	return ok && hot <= NR_PAGES / 2 / 100 && cold >= NR_PAGES / 2 - 2 * OTHERS;
}

static unsigned long vm_event(const char *name)
{
	unsigned long value, found = 0;
	FILE *f = fopen("/proc/vmstat", "r");
	char word[64];

	while (f && fscanf(f, "%63s %lu", word, &value) == 2)
		if (!strcmp(word, name))
			found = value;
	if (f)
		fclose(f);
	return found;
}

/* A guest that uses a half of its memory all the time */
struct user {
	struct guest *guest;
	pthread_t thread;
	bool stop, ok;
};

static void *use_half(void *arg)
{
	struct user *user = arg;

	while (user->ok && !READ_ONCE(user->stop))
		user->ok = touch(user->guest, 1, 2);
	return NULL;
}

/* Another group uses up the memory of the machine: kswapd takes the half that is not touched. */
static bool test_kswapd(void)
{
	unsigned long stolen = vm_event("pgsteal_kswapd"), hot, cold, taken = 0, i;
	struct guest guest;
	struct user user = { .guest = &guest };
	char *hog;

	begin(&guest, PLAIN, false);
	user.ok = touch(&guest, 0, 1);
	pthread_create(&user.thread, NULL, use_half, &user);
	write_file(GROUPS "/cgroup.procs", "0");
	hog = mmap(NULL, HOG, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0);
	for (i = 0, cold = 0; i < HOG && cold < NR_PAGES / 4; i += HOG_STEP) {
		/* kswapd cannot take it. */
		if (mlock(hog + i, HOG_STEP))
			break;
		swapped_out(&guest, &hot, &cold);
		taken += hot;
	}
	munmap(hog, HOG);
	WRITE_ONCE(user.stop, true);
	pthread_join(user.thread, NULL);
	write_file(GROUP "/cgroup.procs", "0");
	stolen = vm_event("pgsteal_kswapd") - stolen;
	ksft_print_msg("%lu MiB used, %lu pages taken by kswapd; swapped out: %lu hot, %lu cold\n",
		       i >> 20, stolen, taken, cold);
	end(&guest);
	return user.ok && stolen && cold >= NR_PAGES / 4 && taken <= cold / 4;
}

/* page_idle, with the right answer for each page */
static bool test_page_idle(void)
{
	unsigned long i, wrong = 0, missing = 0;
	int bitmap = open("/sys/kernel/mm/page_idle/bitmap", O_RDWR);
	static uint64_t entries[NR_PAGES];
	uint64_t pfn, bits;
	struct guest guest;
	bool ok;

	if (bitmap < 0) {
		ksft_print_msg("no page_idle\n");
		return false;
	}
	begin(&guest, PLAIN, false);
	ok = touch(&guest, 0, 1);
	/* A page that waits in a batch does not count as being on an LRU list. */
	age_all();
	read_pagemap(&guest, entries);
	for (i = 0; i < NR_PAGES; i++) {
		pfn = entries[i] & ((1ULL << 55) - 1);
		bits = 1ULL << pfn % 64;
		if (pwrite(bitmap, &bits, 8, pfn / 64 * 8) != 8)
			ksft_exit_fail_msg("page_idle: %s\n", strerror(errno));
	}
	ok = ok && touch(&guest, 0, 3);
	read_pagemap(&guest, entries);
	for (i = 0; i < NR_PAGES; i++) {
		pfn = entries[i] & ((1ULL << 55) - 1);
		if (pread(bitmap, &bits, 8, pfn / 64 * 8) != 8)
			ksft_exit_fail_msg("page_idle: %s\n", strerror(errno));
		if (bits >> pfn % 64 & 1)
			missing += i % 3 == 0;
		else
			wrong += i % 3 != 0;
	}
	close(bitmap);
	ksft_print_msg("accessed and not found %lu, found and not accessed %lu\n", missing, wrong);
	end(&guest);
	return ok && !missing && wrong <= OTHERS;
}

struct ager {
	pthread_t thread;
	unsigned long passes;
	time_t until;
};

static void *age_for_ever(void *arg)
{
	struct ager *ager = arg;

	while (!READ_ONCE(stop)) {
		age_all();
		WRITE_ONCE(ager->passes, ager->passes + 1);
	}
	return NULL;
}

static void begin_aging(struct ager *ager)
{
	ager->passes = 0;
	ager->until = time(NULL) + seconds;
	pthread_create(&ager->thread, NULL, age_for_ever, ager);
}

/* For so long, and through one pass at least */
static bool still_aging(const struct ager *ager)
{
	return time(NULL) < ager->until || !READ_ONCE(ager->passes);
}

static void end_aging(struct ager *ager)
{
	WRITE_ONCE(stop, true);
	pthread_join(ager->thread, NULL);
}

/*
 * While memory is aged, it is discarded, and the guest must find it empty.  If the mapping of a
 * page came back, the guest would find its old content, or that of the page's new owner.
 */
static bool discard(enum kind kind)
{
	unsigned long i, chunk, old = 0, n = 0;
	struct ager ager;
	struct guest guest;
	bool ok = true;

	begin(&guest, kind, false);
	begin_aging(&ager);
	while (still_aging(&ager) && ok && !old) {
		ok = tell(&guest, (struct order){ .step = 1, .write = 1, .value = n + 2 });
		/* All at once hits the page that is being looked at; pieces may always miss it. */
		chunk = n % 2 ? 64 : NR_PAGES;
		for (i = 0; i < NR_PAGES; i += chunk) {
			madvise(guest.memory + i * PAGE, chunk * PAGE, MADV_DONTNEED);
			/* Give away pages that the guest may still have. */
			memset(guest.memory + i * PAGE, 0, chunk * PAGE);
		}
		/* The guest adds a one, which the host must find. */
		ok = ok && tell(&guest, (struct order){ .step = 1, .write = 1, .value = 1 });
		for (i = 0; i < NR_PAGES; i++)
			old += READ_ONCE(*(uint64_t *)(guest.memory + i * PAGE)) != 1;
		n++;
	}
	end_aging(&ager);
	ksft_print_msg("%lu times discarded, %lu passes, %lu pages were not the guest's\n", n,
		       ager.passes, old);
	end(&guest);
	return ok && n && ager.passes && !old;
}

static bool test_discard(void)
{
	return discard(PLAIN);
}

static bool test_nested_discard(void)
{
	return discard(NESTED_NPT);
}

static void *count(void *arg)
{
	tell(arg, (struct order){ .count = 1 });
	return NULL;
}

static void merge(struct guest *guest, bool on)
{
	if (access("/sys/kernel/mm/ksm/run", W_OK))
		return;
	write_file("/sys/kernel/mm/ksm/pages_to_scan", "2000");
	write_file("/sys/kernel/mm/ksm/run", on ? "1" : "2");
	madvise(guest->memory, NR_PAGES * PAGE, on ? MADV_MERGEABLE : MADV_UNMERGEABLE);
}

/*
 * A guest counts while its memory is aged, moved, merged, swapped out and logged.  It must find
 * its counts, and so must the host, and each page that was written must be in the dirty log.
 */
static bool test_stress(void)
{
	unsigned long *log = calloc(NR_PAGES / 64, sizeof(*log));
	unsigned long i, n = 0, wrong = 0;
	struct ager ager;
	struct guest guest;

	begin(&guest, PLAIN, false);
	sync_global_to_guest(guest.vm, stop);
	rounds = 0;
	begin_aging(&ager);
	pthread_create(&guest.thread, NULL, count, &guest);
	for (; (still_aging(&ager) || rounds < 2) && !guest.failed; n++) {
		sync_global_from_guest(guest.vm, rounds);
		vm_mem_region_set_flags(guest.vm, SLOT, n % 2 ? 0 : KVM_MEM_LOG_DIRTY_PAGES);
		if (n % 2 == 0)
			kvm_vm_get_dirty_log(guest.vm, SLOT, log);
		merge(&guest, n % 4 < 2);
		move_pages_to(&guest, n % 2, n % 3, 3);
		if (n % 4 == 3)
			madvise(guest.memory, NR_PAGES * PAGE / 2, MADV_PAGEOUT);
	}
	WRITE_ONCE(stop, true);
	sync_global_to_guest(guest.vm, stop);
	pthread_join(guest.thread, NULL);
	end_aging(&ager);
	merge(&guest, false);
	sync_global_from_guest(guest.vm, rounds);
	for (i = 0; i < NR_PAGES && !guest.failed; i++)
		wrong += *(uint64_t *)(guest.memory + i * PAGE) != rounds;
	ksft_print_msg("%lu rounds, %lu times all that, %lu passes, %lu pages wrong\n",
		       (unsigned long)rounds, n, ager.passes, wrong);
	end(&guest);
	free(log);
	return !guest.failed && rounds > 1 && n && ager.passes && !wrong;
}

/* A page that a guest writes while its memory is aged must be in the dirty log. */
static bool test_dirty_log(void)
{
	unsigned long *log = calloc(NR_PAGES / 64, sizeof(*log));
	unsigned long i, n = 0, missing = 0;
	struct ager ager;
	struct guest guest;
	bool ok = true;

	begin(&guest, PLAIN, false);
	ok = touch(&guest, 0, 1);
	begin_aging(&ager);
	for (; still_aging(&ager) && ok; n++) {
		vm_mem_region_set_flags(guest.vm, SLOT, KVM_MEM_LOG_DIRTY_PAGES);
		kvm_vm_get_dirty_log(guest.vm, SLOT, log);
		ok = touch(&guest, 1, 2);
		kvm_vm_get_dirty_log(guest.vm, SLOT, log);
		for (i = 1; i < NR_PAGES; i += 2)
			missing += !(log[i / 64] >> i % 64 & 1);
		vm_mem_region_set_flags(guest.vm, SLOT, 0);
		ok = ok && touch(&guest, 0, 1);
	}
	end_aging(&ager);
	ksft_print_msg("%lu logs, %lu passes, %lu pages missing\n", n, ager.passes, missing);
	end(&guest);
	free(log);
	return ok && n && ager.passes && !missing;
}

/* Memslots go, come and move while memory is aged. */
static bool memslot(enum kind kind)
{
	const uint64_t elsewhere = GPA + 2 * NR_PAGES * PAGE, size = NR_PAGES * PAGE;
	unsigned long i, n = 0, wrong = 0;
	struct ager ager;
	struct guest guest;
	bool ok = true;

	begin(&guest, kind, false);
	begin_aging(&ager);
	for (; still_aging(&ager) && ok; n++) {
		struct order what = { .step = 1, .write = 1, .value = n + 1 };

		ok = tell(&guest, what);
		if (n % 2) {
			vm_set_user_memory_region(guest.vm, SLOT, 0, elsewhere, size, guest.memory);
			vm_set_user_memory_region(guest.vm, SLOT, 0, GPA, size, guest.memory);
		} else {
			vm_set_user_memory_region(guest.vm, SLOT, 0, GPA, 0, guest.memory);
			vm_set_user_memory_region(guest.vm, SLOT, 0, GPA, size, guest.memory);
		}
		for (i = 0; i < NR_PAGES; i++)
			wrong += READ_ONCE(*(uint64_t *)(guest.memory + i * PAGE)) != n + 1;
	}
	end_aging(&ager);
	ksft_print_msg("%lu times, %lu passes, %lu pages wrong\n", n, ager.passes, wrong);
	end(&guest);
	return ok && n && ager.passes && !wrong;
}

static bool test_memslot(void)
{
	return memslot(PLAIN);
}

static bool test_nested_memslot(void)
{
	return memslot(NESTED_NPT);
}

/* How many pages of every second one, from @first on, are on a node? */
static unsigned long on_node(struct guest *guest, int node, unsigned long first)
{
	unsigned long i, n = NR_PAGES / 2, found = 0;
	void **pages = calloc(n, sizeof(*pages));
	int *status = calloc(n, sizeof(*status));

	for (i = 0; i < n; i++)
		pages[i] = guest->memory + (first + 2 * i) * PAGE;
	if (syscall(SYS_move_pages, 0, n, pages, NULL, status, 0) < 0)
		ksft_exit_fail_msg("move_pages: %s\n", strerror(errno));
	for (i = 0; i < n; i++)
		found += status[i] == node;
	free(pages);
	free(status);
	return found;
}

/* Have kmmscand look at slow memory, and promote what is hot. */
static void switch_kmmscand(bool scan, bool promote)
{
	int err = tier_part_turn("scan", scan);

	if (!err)
		err = tier_part_turn("promote", promote);
	if (err)
		ksft_exit_fail_msg(TIER_PARTS "scan, promote: %s\n", strerror(-err));
}

/* kmmscand promotes the half that the guest uses, and leaves the other. */
static bool test_promote(void)
{
	unsigned long hot = 0, cold = 0;
	struct guest guest;
	time_t until;
	bool ok;

	begin(&guest, PLAIN, false);
	ok = touch(&guest, 0, 1);
	move_pages_to(&guest, 1, 0, 1);
	switch_kmmscand(true, true);
	until = time(NULL) + PROMOTE_S;
	while (ok && time(NULL) < until && hot < NR_PAGES / 2 * 9 / 10) {
		ok = touch(&guest, 0, 2);
		hot = on_node(&guest, 0, 0);
	}
	switch_kmmscand(false, false);
	cold = on_node(&guest, 0, 1);
	ksft_print_msg("promoted: %lu hot, %lu cold pages\n", hot, cold);
	end(&guest);
	return ok && hot >= NR_PAGES / 2 * 9 / 10 && cold <= NR_PAGES / 2 / 20;
}

static unsigned long kvm_flushes(void)
{
	unsigned long value = 0;
	FILE *f = fopen(KVM_FLUSHES, "r");

	if (!f || fscanf(f, "%lu", &value) != 1)
		ksft_exit_fail_msg("%s: %s\n", KVM_FLUSHES, strerror(errno));
	fclose(f);
	return value;
}

/*
 * The guest or the host accesses the guest's memory until kmmscand has found it @looks times.
 * It never sleeps, because kmmscand looks only at what runs.
 */
static bool found_by_kmmscand(struct guest *guest, bool by_guest, unsigned int looks)
{
	const unsigned long before = vm_event("tier_scan_young");
	const time_t until = time(NULL) + PROMOTE_S;
	unsigned long i;

	while (vm_event("tier_scan_young") - before < looks * NR_PAGES) {
		if (time(NULL) >= until || (by_guest && !touch(guest, 0, 1)))
			return false;
		for (i = 0; i < NR_PAGES && !by_guest; i++)
			READ_ONCE(*(uint64_t *)(guest->memory + i * PAGE));
	}
	return true;
}

/*
 * kmmscand flushes the TLBs of KVM's vCPUs once after a look that has found accesses of the guest,
 * and the host's TLB after a look that has found accesses of the host.  Nothing is promoted,
 * because a promotion would flush, too.
 */
static bool test_flush(void)
{
	unsigned long kvm[2], host[2];
	struct guest guest;
	unsigned int i;
	bool ok;

	begin(&guest, PLAIN, false);
	ok = touch(&guest, 0, 1);
	move_pages_to(&guest, 1, 0, 1);
	switch_kmmscand(true, false);
	for (i = 0; i < 2 && ok; i++) {
		/* The first looks find older accesses, and a visit sends the flush that is owed. */
		ok = found_by_kmmscand(&guest, i == 0, 4);
		kvm[i] = kvm_flushes();
		host[i] = vm_event("nr_tlb_remote_flush");
		ok = ok && found_by_kmmscand(&guest, i == 0, 2);
		kvm[i] = kvm_flushes() - kvm[i];
		host[i] = vm_event("nr_tlb_remote_flush") - host[i];
		ksft_print_msg("accessed by the %s: flushes of KVM %lu, of the host %lu\n",
			       i ? "host" : "guest", kvm[i], host[i]);
	}
	switch_kmmscand(false, false);
	end(&guest);
	return ok && kvm[0] && kvm[0] <= 4 && !host[0] && !kvm[1] && host[1];
}

static bool has_kmmscand(void)
{
	return !access(TIER_PARTS "scan/enabled", W_OK) && tier_part_number(TIER_ALL, "enabled");
}

static bool has_svm(void)
{
	return kvm_cpu_has(X86_FEATURE_SVM);
}

static bool has_npt(void)
{
	return has_svm() && kvm_cpu_has(X86_FEATURE_NPT);
}

static const struct {
	const char *name;
	bool (*run)(void);
	bool (*possible)(void);
} tests[] = {
	{ "histogram", test_histogram },
	{ "split", test_split },
	{ "two_guests", test_two_guests },
	{ "huge", test_huge },
	{ "nested", test_nested, has_svm },
	{ "nested_npt", test_nested_npt, has_npt },
	{ "other_node", test_other_node },
	{ "reclaim", test_reclaim },
	{ "kswapd", test_kswapd },
	{ "page_idle", test_page_idle },
	{ "promote", test_promote, has_kmmscand },
	{ "flush", test_flush, has_kmmscand },
	{ "discard", test_discard },
	{ "dirty_log", test_dirty_log },
	{ "memslot", test_memslot },
	{ "nested_discard", test_nested_discard, has_npt },
	{ "nested_memslot", test_nested_memslot, has_npt },
	{ "stress", test_stress },
};

int main(int argc, char **argv)
{
	bool wanted[ARRAY_SIZE(tests)] = {}, some = false;
	unsigned int i, n = 0;
	int opt;

	while ((opt = getopt(argc, argv, "t:s:")) != -1) {
		for (i = 0; opt == 't' && i < ARRAY_SIZE(tests); i++)
			if (!strcmp(tests[i].name, optarg))
				break;
		if (opt == '?' || i == ARRAY_SIZE(tests)) {
			fprintf(stderr, "usage: %s [-s SECONDS] [-t TEST]...; tests:", argv[0]);
			for (i = 0; i < ARRAY_SIZE(tests); i++)
				fprintf(stderr, " %s", tests[i].name);
			fprintf(stderr, "\n");
			return KSFT_FAIL;
		}
		if (opt == 's') {
			seconds = atoi(optarg);
			continue;
		}
		wanted[i] = true;
		some = true;
	}
	ksft_print_header();
	if (access("/sys/devices/system/node/node1", F_OK))
		ksft_exit_skip("there is one node only\n");
	/* The part "age" stays as it is: while memory tiering is off, "age" is off. */
	tier_parts_begin();
	join_group();
	for (i = 0; i < ARRAY_SIZE(tests); i++)
		n += !some || wanted[i];
	ksft_set_plan(n);
	for (i = 0; i < ARRAY_SIZE(tests); i++) {
		if (some && !wanted[i])
			continue;
		if (tests[i].possible && !tests[i].possible())
			ksft_test_result_skip("%s\n", tests[i].name);
		else
			ksft_test_result(tests[i].run(), "%s\n", tests[i].name);
	}
	leave_group();
	ksft_finished();
}
