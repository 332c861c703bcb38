// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of a virtual machine moves between nodes, with and without batched migration.
 *
 * How often KVM has to flush, what it forgets of pages that do not move, and that neither guest nor
 * host ever sees something old.
 *
 * Without arguments all tests; -t NAME for some.  Needs two memory nodes and root.
 */
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#include "kselftest.h"
#include "kvm_util.h"
#include "processor.h"
#include "test_util.h"
#include "ucall_common.h"

#include "../tier_parts/tier_parts.h"

#define ENABLED		TIER_PARTS "batch/enabled"
#define NR_PAGES	8192UL
#define GPA		0x100000000UL
#define GVA		0x100000000UL
#define SLOT		1
#define SECONDS		3

enum order {
	FILL,		/* write what only this page has */
	CHECK,		/* and find it again */
	COUNT,		/* add one to each page, round by round, until told to stop */
	LEAVE,
};

static enum order order;
static uint64_t rounds;
static bool stop;

static uint64_t *guest_page(uint64_t i)
{
	return (uint64_t *)(GVA + i * 4096);
}

static void guest_code(void)
{
	uint64_t i;

	for (;;) {
		switch (READ_ONCE(order)) {
		case FILL:
			for (i = 0; i < NR_PAGES; i++)
				WRITE_ONCE(*guest_page(i), i * 0x9e3779b97f4a7c15);
			break;
		case CHECK:
			for (i = 0; i < NR_PAGES; i++)
				GUEST_ASSERT_EQ(READ_ONCE(*guest_page(i)), i * 0x9e3779b97f4a7c15);
			break;
		case COUNT:
			for (i = 0; i < NR_PAGES; i++)
				WRITE_ONCE(*guest_page(i), 0);
			for (rounds = 0; !READ_ONCE(stop); rounds++) {
				for (i = 0; i < NR_PAGES; i += 16) {
					GUEST_ASSERT_EQ(READ_ONCE(*guest_page(i)), rounds);
					WRITE_ONCE(*guest_page(i), rounds + 1);
				}
			}
			for (i = 0; i < NR_PAGES; i += 16)
				GUEST_ASSERT_EQ(READ_ONCE(*guest_page(i)), rounds);
			break;
		case LEAVE:
			GUEST_DONE();
		}
		GUEST_SYNC(order);
	}
}

struct guest {
	struct kvm_vm *vm;
	struct kvm_vcpu *vcpu;
	char *memory;
	bool failed;
	pthread_t thread;
};

static void batch(bool on)
{
	int err = tier_part_turn("batch", on);

	if (err)
		ksft_exit_fail_msg("%s: %s\n", ENABLED, strerror(-err));
}

/* Returns whether the guest has found what it expected. */
static bool obey(struct guest *guest, enum order what)
{
	struct kvm_vm *vm = guest->vm;
	struct ucall uc;

	order = what;
	sync_global_to_guest(vm, order);
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

static void begin(struct guest *guest, enum vm_mem_backing_src_type source)
{
	struct userspace_mem_region *region;

	memset(guest, 0, sizeof(*guest));
	stop = false;
	guest->vm = vm_create_with_one_vcpu(&guest->vcpu, guest_code);
	vm_userspace_mem_region_add(guest->vm, source, GPA, SLOT, NR_PAGES, 0);
	virt_map(guest->vm, GVA, GPA, NR_PAGES);
	sync_global_to_guest(guest->vm, stop);
	guest->memory = addr_gpa2hva(guest->vm, GPA);
	/* The tests' library maps shared memory a second time. */
	region = memslot2region(guest->vm, SLOT);
	if (region->host_alias)
		munmap(region->host_alias, region->mmap_size);
	/* Not mbind(): a policy would be asked wherever pages go. */
	memset(guest->memory, 1, NR_PAGES * 4096);
}

static void end(struct guest *guest)
{
	if (!guest->failed)
		obey(guest, LEAVE);
	kvm_vm_free(guest->vm);
}

/* Move every @stride-th page.  Returns how many are where they should be. */
static unsigned long move_pages_to(struct guest *guest, int node, int stride)
{
	unsigned long n = NR_PAGES / stride, i, moved = 0;
	void **pages = calloc(n, sizeof(*pages));
	int *nodes = calloc(n, sizeof(*nodes));
	int *status = calloc(n, sizeof(*status));

	for (i = 0; i < n; i++) {
		pages[i] = guest->memory + i * stride * 4096;
		nodes[i] = node;
		status[i] = -1;
	}
	if (syscall(SYS_move_pages, 0, n, pages, nodes, status, MPOL_MF_MOVE) < 0)
		ksft_exit_fail_msg("move_pages: %s\n", strerror(errno));
	syscall(SYS_move_pages, 0, n, pages, NULL, status, 0);
	for (i = 0; i < n; i++)
		moved += status[i] == node;
	free(pages);
	free(nodes);
	free(status);
	return moved;
}

struct cost {
	unsigned long moved;
	uint64_t requests;	/* flushes that KVM asked its vCPUs for */
	int64_t forgotten;	/* pages that have not moved, and that KVM has to map again */
};

static struct cost measure(enum vm_mem_backing_src_type source, bool batched, int stride, bool *ok)
{
	struct guest guest;
	struct cost cost;
	uint64_t mapped;

	batch(batched);
	begin(&guest, source);
	move_pages_to(&guest, 0, 1);
	*ok = obey(&guest, FILL) && obey(&guest, CHECK);
	mapped = vm_get_stat(guest.vm, "pages_4k");
	cost.requests = vm_get_stat(guest.vm, "remote_tlb_flush_requests");
	cost.moved = move_pages_to(&guest, 1, stride);
	cost.requests = vm_get_stat(guest.vm, "remote_tlb_flush_requests") - cost.requests;
	cost.forgotten = mapped - vm_get_stat(guest.vm, "pages_4k") - cost.moved;
	/* A guest that still had the old pages could spoil what they are by now. */
	if (cost.forgotten < 0) {
		guest.failed = true;
		*ok = false;
	}
	*ok = *ok && obey(&guest, CHECK);
	end(&guest);
	ksft_print_msg("RES batched=%d stride=%d moved=%lu requests=%lu forgotten=%ld\n", batched,
		       stride, cost.moved, (unsigned long)cost.requests, (long)cost.forgotten);
	return cost;
}

/* One request for a run of 256 pages instead of one for each; runs may end early. */
static bool test_dense(enum vm_mem_backing_src_type source)
{
	bool ok[2];
	struct cost off = measure(source, false, 1, &ok[0]);
	struct cost on = measure(source, true, 1, &ok[1]);

	return ok[0] && ok[1] && on.moved == NR_PAGES && off.moved == NR_PAGES &&
	       off.requests >= NR_PAGES && on.requests <= NR_PAGES / 128 && !on.forgotten;
}

static bool test_anonymous(void)
{
	return test_dense(VM_MEM_SRC_ANONYMOUS);
}

static bool test_shared(void)
{
	return test_dense(VM_MEM_SRC_SHMEM);
}

/* Half of the range moves: that is dense enough, and the other half is forgotten. */
static bool test_every_second(void)
{
	bool ok;
	struct cost on = measure(VM_MEM_SRC_ANONYMOUS, true, 2, &ok);

	return ok && on.moved == NR_PAGES / 2 && on.requests <= NR_PAGES / 2 / 128 &&
	       on.forgotten <= (int64_t)NR_PAGES / 2;
}

/* An eighth is not: nothing is forgotten that does not move. */
static bool test_every_eighth(void)
{
	bool ok;
	struct cost on = measure(VM_MEM_SRC_ANONYMOUS, true, 8, &ok);

	return ok && on.moved == NR_PAGES / 8 && !on.forgotten;
}

static void *run_guest(void *arg)
{
	struct guest *guest = arg;

	obey(guest, COUNT);
	return NULL;
}

/* The guest counts while its pages move to and fro; the host must find the same counts. */
static bool stress(enum vm_mem_backing_src_type source)
{
	struct guest guest;
	time_t until;
	int node = 0;
	long i, moves = 0, wrong = 0;

	batch(true);
	begin(&guest, source);
	sync_global_to_guest(guest.vm, stop);
	pthread_create(&guest.thread, NULL, run_guest, &guest);
	until = time(NULL) + SECONDS;
	/* Longer, if the guest has no turn on a slow machine */
	while (!guest.failed && time(NULL) < until + (rounds < 2 ? 20 * SECONDS : 0)) {
		node = !node;
		moves += move_pages_to(&guest, node, 1 + moves % 2);
		sync_global_from_guest(guest.vm, rounds);
	}
	stop = true;
	sync_global_to_guest(guest.vm, stop);
	pthread_join(guest.thread, NULL);
	sync_global_from_guest(guest.vm, rounds);
	for (i = 0; i < (long)NR_PAGES && !guest.failed; i += 16)
		wrong += *(uint64_t *)(guest.memory + i * 4096) != rounds;
	ksft_print_msg("%lu rounds, %ld moves, %ld pages wrong\n", (unsigned long)rounds, moves,
		       wrong);
	end(&guest);
	return !guest.failed && rounds > 1 && moves > 0 && !wrong;
}

static bool test_stress_anonymous(void)
{
	return stress(VM_MEM_SRC_ANONYMOUS);
}

static bool test_stress_shared(void)
{
	return stress(VM_MEM_SRC_SHMEM);
}

static const struct {
	const char *name;
	bool (*run)(void);
} tests[] = {
	{ "anonymous", test_anonymous },
	{ "shared", test_shared },
	{ "every_second", test_every_second },
	{ "every_eighth", test_every_eighth },
	{ "stress_anonymous", test_stress_anonymous },
	{ "stress_shared", test_stress_shared },
};

int main(int argc, char **argv)
{
	bool wanted[ARRAY_SIZE(tests)] = {}, some = false;
	unsigned int i, n = 0;
	int opt;

	while ((opt = getopt(argc, argv, "t:")) != -1) {
		for (i = 0; opt == 't' && i < ARRAY_SIZE(tests); i++)
			if (!strcmp(tests[i].name, optarg))
				break;
		if (opt != 't' || i == ARRAY_SIZE(tests)) {
			fprintf(stderr, "usage: %s [-t TEST]...; tests:", argv[0]);
			for (i = 0; i < ARRAY_SIZE(tests); i++)
				fprintf(stderr, " %s", tests[i].name);
			fprintf(stderr, "\n");
			return KSFT_FAIL;
		}
		wanted[i] = true;
		some = true;
	}
	ksft_print_header();
	if (access(ENABLED, W_OK))
		ksft_exit_skip("%s: %s\n", ENABLED, strerror(errno));
	if (access("/sys/devices/system/node/node1", F_OK))
		ksft_exit_skip("there is one node only\n");
	if (tier_parts_begin())
		ksft_exit_skip("memory tiering cannot be switched on\n");
	for (i = 0; i < ARRAY_SIZE(tests); i++)
		n += !some || wanted[i];
	ksft_set_plan(n);
	for (i = 0; i < ARRAY_SIZE(tests); i++)
		if (!some || wanted[i])
			ksft_test_result(tests[i].run(), "%s\n", tests[i].name);
	batch(false);
	ksft_finished();
}
