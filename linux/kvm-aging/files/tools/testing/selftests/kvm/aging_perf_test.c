// SPDX-License-Identifier: GPL-2.0
/*
 * How long MGLRU takes to age the memory of a virtual machine, and how long the vCPUs take with and
 * without it.
 *
 * Without -p: vCPUs write all their memory once, then it is aged when all was accessed, and when
 * nothing was.  With -p it is aged again and again while the vCPUs write it for the first time.
 * Times are of the machine that this runs on; it checks only that memory was found as old as it is.
 * Needs root and MGLRU; runs on kernels that have no other way to age either.
 */
#include <limits.h>
#include <time.h>

#include "aging.h"
#include "guest_modes.h"
#include "memstress.h"

static uint64_t bytes = 64UL << 20;
static bool while_populating;
static int nr_vcpus = 1;
static int turn, done[KVM_MAX_VCPUS];
static struct timespec took[KVM_MAX_VCPUS];

static double seconds_of(struct timespec t)
{
	return t.tv_sec + t.tv_nsec / 1e9;
}

/* Write all of its memory each time it is told to. */
static void vcpu_thread(struct memstress_vcpu_args *args)
{
	struct timespec start;
	int last = 0;

	while (!READ_ONCE(memstress_args.stop_vcpus)) {
		if (READ_ONCE(turn) == last) {
			usleep(100);
			continue;
		}
		last++;
		clock_gettime(CLOCK_MONOTONIC, &start);
		vcpu_run(args->vcpu);
		took[args->vcpu_idx] = timespec_elapsed(start);
		WRITE_ONCE(done[args->vcpu_idx], last);
	}
}

static bool all_done(void)
{
	int i;

	for (i = 0; i < nr_vcpus; i++)
		if (READ_ONCE(done[i]) != turn)
			return false;
	return true;
}

static void begin_writing(void)
{
	WRITE_ONCE(turn, turn + 1);
}

static void end_writing(const char *what)
{
	double sum = 0;
	int i;

	while (!all_done())
		usleep(100);
	for (i = 0; i < nr_vcpus; i++)
		sum += seconds_of(took[i]);
	ksft_print_msg("%s: %.6f s by each of %d vCPUs\n", what, sum / nr_vcpus, nr_vcpus);
}

static void timed_aging(const char *what)
{
	struct timespec start;

	clock_gettime(CLOCK_MONOTONIC, &start);
	age_all();
	ksft_print_msg("%s: %.6f s\n", what, seconds_of(timespec_elapsed(start)));
}

static bool within_tenth(unsigned long found, unsigned long expected)
{
	return found >= expected - expected / 10 && found <= expected + expected / 10;
}

/* One aging of memory that was all accessed since the last one, and one of idle memory. */
static bool age_once(unsigned long pages)
{
	unsigned long accessed, idle;

	begin_writing();
	end_writing("populating");
	age_all();
	begin_writing();
	end_writing("writing");
	timed_aging("aging of accessed memory");
	accessed = young();
	timed_aging("aging of idle memory");
	idle = young();
	ksft_print_msg("found %lu and %lu of %lu pages\n", accessed, idle, pages);
	return within_tenth(accessed, pages) && idle < pages / 10;
}

static bool age_while_populating(void)
{
	double sum = 0, longest = 0;
	unsigned int passes = 0;

	begin_writing();
	while (!all_done()) {
		struct timespec start;
		double now;

		clock_gettime(CLOCK_MONOTONIC, &start);
		age_all();
		now = seconds_of(timespec_elapsed(start));
		sum += now;
		longest = now > longest ? now : longest;
		passes++;
	}
	end_writing("populating");
	ksft_print_msg("%u agings, mean %.6f s, longest %.6f s\n", passes,
		       passes ? sum / passes : 0, longest);
	return passes;
}

static void run(enum vm_guest_mode mode, void *arg)
{
	struct kvm_vm *vm = memstress_create_vm(mode, nr_vcpus, bytes, 1, VM_MEM_SRC_ANONYMOUS,
						true);
	bool *ok = arg;

	memstress_set_write_percent(vm, 100);
	memstress_start_vcpu_threads(nr_vcpus, vcpu_thread);
	*ok = while_populating ? age_while_populating() : age_once(nr_vcpus * bytes / PAGE);
	memstress_join_vcpu_threads(nr_vcpus);
	memstress_destroy_vm(vm);
}

static void help(const char *name)
{
	fprintf(stderr, "usage: %s [-p] [-v VCPUS] [-b BYTES_OF_EACH]\n", name);
	exit(KSFT_FAIL);
}

int main(int argc, char **argv)
{
	bool ok = false;
	int opt;

	guest_modes_append_default();
	while ((opt = getopt(argc, argv, "pv:b:")) != -1) {
		switch (opt) {
		case 'p':
			while_populating = true;
			break;
		case 'v':
			nr_vcpus = atoi_positive("number of vCPUs", optarg);
			if (nr_vcpus > KVM_MAX_VCPUS)
				help(argv[0]);
			break;
		case 'b':
			bytes = parse_size(optarg);
			break;
		default:
			help(argv[0]);
		}
	}
	ksft_print_header();
	join_group();
	ksft_set_plan(1);
	for_each_guest_mode(run, &ok);
	ksft_test_result(ok, "%s, %d vCPUs\n", while_populating ? "populating" : "once", nr_vcpus);
	leave_group();
	ksft_finished();
}
