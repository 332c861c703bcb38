// SPDX-License-Identifier: GPL-2.0
/*
 * Other processes must not decide about a process: a reader of /proc, of shared memory or of many
 * copies must not keep its pages from promotion, and its policy calls must not wait for a thread
 * that gets no CPU time.
 *
 * No test here depends on a switch in /sys/kernel/debug/tier/faults/.  Each looks at the opposite,
 * too: it shows that what must not count is there, or that the same counts where it should.
 */
#define _GNU_SOURCE
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "tier_policy.h"

/* More address spaces than a promotion asks in one batch: TIER_ASKED_MAX, and equal hashes */
#define NR_COPIES	1200
/* Pages that are promoted beside those with many copies, at least */
#define MIN_BESIDE	16UL
/* Policy calls on memory that is just promoted: as a rule, and until one has waited */
#define NR_HURRIED	50
#define MAX_HURRIED	1000
#define NICE		19

/* Reads a page of its parent that is never there, so it keeps the address space in use. */
static pid_t start_reader(int uffd, char *watched)
{
	struct pollfd event = { .fd = uffd, .events = POLLIN };
	pid_t parent = getpid(), pid = fork_child();
	char c;

	if (!pid) {
		struct iovec here = { &c, 1 }, there = { watched, 1 };

		_exit(process_vm_readv(parent, &here, 1, &there, 1, 0) != 1);
	}
	if (pid > 0 && poll(&event, 1, 10000) == 1 && event.revents == POLLIN)
		return pid;
	ksft_print_msg("no process waits for a page of this one\n");
	return 0;
}

static int exit_at_once(void *unused)
{
	(void)unused;
	return 0;
}

static bool run_clone(int flags)
{
	static long stack[8192];
	pid_t pid = clone(exit_at_once, stack + ARRAY_SIZE(stack), CLONE_VM | flags | SIGCHLD,
			  NULL);

	return pid > 0 && waitpid(pid, NULL, 0) == pid;
}

/* The process has a policy, which allows both nodes, so its threads are asked. */
static void test_vfork_reader(void)
{
	int uffd = syscall(__NR_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct uffdio_api api = { .api = UFFD_API };
	char *p = map_slow(NR), *watched = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
						MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register reg = {
		.range = { (unsigned long)watched, PAGE }, .mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	pid_t pid = 0;
	bool ok = p && !ioctl(uffd, UFFDIO_API, &api) && !ioctl(uffd, UFFDIO_REGISTER, &reg);

	ok = ok && !bind_thread(MPOL_PREFERRED_MANY, both()) && run_clone(CLONE_VFORK);
	if (ok)
		pid = start_reader(uffd, watched);
	ok = ok && pid && allowed(p);
	/* Another that shares the memory might have a policy: the reader could be that. */
	ok = ok && run_clone(0) && refused(p + PAGE);
	if (pid) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	ok = ok && allowed(p + PAGE);
	bind_thread(MPOL_DEFAULT, 0);
	ksft_test_result(ok, "a reader of /proc does not count as one that shares the memory\n");
	close(uffd);
	munmap(watched, PAGE);
	munmap(p, LEN);
}

/*
 * A child of vfork(2), which has a policy of its own or not, and perhaps a child of vfork(2) in
 * turn.  The last one waits to be killed.
 */
static struct vforked {
	bool bind_parent, bind_child, again;
	pthread_t thread;
	atomic_int child, last;
} vforked;

static int run_vforked(void *again)
{
	static long stack[8192];

	if (again) {
		vforked.child = getpid();
		clone(run_vforked, stack + ARRAY_SIZE(stack), CLONE_VM | CLONE_VFORK, NULL);
		return 0;
	}
	if (vforked.bind_child && bind_thread(MPOL_BIND, only(slow)))
		return 1;
	vforked.last = getpid();
	for (;;)
		pause();
}

static void *vfork_once(void *unused)
{
	static long stack[8192];
	pid_t pid;

	(void)unused;
	if (vforked.bind_parent && bind_thread(MPOL_BIND, only(slow)))
		return NULL;
	pid = clone(run_vforked, stack + ARRAY_SIZE(stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
		    (void *)(long)vforked.again);
	waitpid(pid, NULL, 0);
	bind_thread(MPOL_DEFAULT, 0);
	return NULL;
}

static bool start_vforked(void)
{
	int i;

	vforked.child = 0;
	vforked.last = 0;
	if (pthread_create(&vforked.thread, NULL, vfork_once, NULL))
		return false;
	for (i = 0; i < 5000 && !vforked.last; i++)
		usleep(1000);
	return vforked.last;
}

/* What is known of the address space of this process stays, so both are run in a new one. */
static bool obeys_child(char *unused)
{
	char *p = map_slow(NR);
	bool ok = p;

	(void)unused;
	vforked = (struct vforked){ .bind_child = true };
	ok = ok && start_vforked() && refused(p);
	if (vforked.last)
		kill(vforked.last, SIGKILL);
	pthread_join(vforked.thread, NULL);
	return ok && allowed(p);
}

static void test_vfork_policy(void)
{
	ksft_test_result(in_child(obeys_child, NULL), "a child of vfork() is bound\n");
}

/* The parent has lost its policy, the child is gone, and the child's child has the policy still. */
static bool obeys_grandchild(char *unused)
{
	char *p = map_slow(NR);
	bool ok = p;

	(void)unused;
	vforked = (struct vforked){ .bind_parent = true, .again = true };
	ok = ok && start_vforked() && refused(p);
	if (vforked.child)
		kill(vforked.child, SIGKILL);
	pthread_join(vforked.thread, NULL);
	ok = ok && refused(p);
	if (vforked.last)
		kill(vforked.last, SIGKILL);
	return ok && allowed(p);
}

static void test_vfork_clone(void)
{
	ksft_test_result(in_child(obeys_grandchild, NULL),
			 "a child of a child of vfork() has a policy that it inherited\n");
}

/* A process of a group that maps shared memory, which is charged to the group.  0 if it fails */
static pid_t start_group_user(int fd)
{
	int ready[2];
	pid_t pid;
	char c, *p;

	if (pipe(ready))
		return 0;
	pid = fork_child();
	if (!pid) {
		p = map_shared(fd, LEN);
		if (!p || write_file(CGROUPS "/group/cgroup.procs", "0"))
			_exit(1);
		fill_pages(p, NR);
		if (count_on(p, LEN, slow) == NR && write(ready[1], "", 1) == 1)
			for (;;)
				pause();
		_exit(1);
	}
	close(ready[1]);
	if (pid > 0 && read(ready[0], &c, 1) != 1) {
		waitpid(pid, NULL, 0);
		pid = 0;
	}
	close(ready[0]);
	return pid > 0 ? pid : 0;
}

static char *map_bound_reader(char *fd)
{
	char *p = map_shared((long)fd, LEN);

	if (!p || !intact(p, PAGE) || !intact(p + PAGE, PAGE))
		return NULL;
	return bind_thread(MPOL_BIND, only(slow)) ? NULL : p;
}

static bool reader_has_no_say(char *fd)
{
	char *p = map_bound_reader(fd);

	return p && allowed(p);
}

static bool reader_of_group_refuses(char *fd)
{
	char *p = map_bound_reader(fd);

	return p && !write_file(CGROUPS "/group/cgroup.procs", "0") && refused(p + PAGE);
}

static bool only_user_refuses(char *fd)
{
	char *p = map_bound_reader(fd);

	return p && refused(p + PAGE);
}

static void test_shm_reader(void)
{
	long fd = make_memfd(LEN);
	bool ok = fd >= 0;
	pid_t pid = 0;

	if (!mount_group(CGROUPS, "group")) {
		ksft_test_result_skip("no control groups: %s\n", strerror(errno));
		return;
	}
	ok = ok && !write_file(CGROUPS "/cgroup.subtree_control", "+cpuset +memory") &&
	     set_mems(only(slow));
	if (ok)
		pid = start_group_user(fd);
	ok = ok && pid && set_mems(both());
	ok = ok && in_child(reader_has_no_say, (char *)fd);
	ok = ok && in_child(reader_of_group_refuses, (char *)fd);
	if (pid) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	ok = ok && in_child(only_user_refuses, (char *)fd);
	ksft_test_result(ok, "a reader of another group's shared memory has no veto\n");
	close(fd);
	umount_group(CGROUPS, "group");
}

/* Processes that map one page each, in turn of two, and nothing else of the memory */
static bool start_copies(char *p, char *const page[2], pid_t *pids)
{
	int i, ready[2];
	char c, *q;

	if (pipe(ready))
		return false;
	for (i = 0; i < NR_COPIES; i++) {
		pids[i] = fork_child();
		if (pids[i] < 0)
			break;
		if (pids[i])
			continue;
		q = page[i & 1];
		if (q > p)
			munmap(p, q - p);
		if (q + PAGE < p + RACE_LEN)
			munmap(q + PAGE, p + RACE_LEN - q - PAGE);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	while (i > 0 && read(ready[0], &c, 1) == 1)
		i--;
	close(ready[0]);
	return !i && pids[NR_COPIES - 1] > 0;
}

/*
 * The first two pages that a batch asks have so many copies that the second is refused.  The
 * others, of another address space, move.  (A page with 1,024 references counts as pinned.)
 */
static void test_many_copies(void)
{
	static struct race r;
	static pid_t pids[NR_COPIES];
	unsigned long i, beside = 0, moved = 0;
	long refused = event_count("tier_promote_fail_policy");
	char *p = map_slow(NR_RACE), *page[2] = { NULL };
	uint64_t first = 0, second = UINT64_MAX, pfn;
	bool ok = p;

	r.p = p;
	if (ok)
		beside = find_window(&r, &first) - 2;
	for (i = 0; ok && i < NR_RACE; i++) {
		pfn = pagemap_value(r.entries[i]);
		if (pfn == first)
			page[0] = p + i * PAGE;
		if (pfn <= first || pfn >= second)
			continue;
		second = pfn;
		page[1] = p + i * PAGE;
	}
	ok = ok && page[0] && page[1] && start_copies(p, page, pids);
	ok = ok && !munmap(page[0], PAGE) && !munmap(page[1], PAGE);
	if (ok) {
		promote_frames(first, WINDOW);
		moved = count_on(p, RACE_LEN, fast);
		refused = event_count("tier_promote_fail_policy") - refused;
	}
	ksft_print_msg("%lu pages of %lu moved, %ld refused\n", moved, beside, refused);
	for (i = 0; i < NR_COPIES; i++)
		if (pids[i] > 0)
			kill(pids[i], SIGKILL);
	for (i = 0; i < NR_COPIES; i++)
		if (pids[i] > 0)
			waitpid(pids[i], NULL, 0);
	ksft_test_result(ok && beside >= MIN_BESIDE && moved >= beside * 9 / 10 && refused,
			 "pages beside those with many copies are promoted\n");
	munmap(p, RACE_LEN);
}

static struct hurried {
	atomic_int tid, raised, stop, nice_at_end;
} *hurried;

/* Takes all of a CPU, and looks how nice the thread is that promotes. */
static void watch_thread(void)
{
	while (!hurried->stop)
		if (hurried->tid && getpriority(PRIO_PROCESS, hurried->tid) < NICE)
			hurried->raised++;
	_exit(0);
}

static void *promote_nicely(void *arg)
{
	setpriority(PRIO_PROCESS, 0, NICE);
	hurried->tid = syscall(__NR_gettid);
	promote_all(arg);
	hurried->nice_at_end = getpriority(PRIO_PROCESS, 0);
	return NULL;
}

static bool bind_and_release(char *p)
{
	return !bind_range(p, RACE_LEN, MPOL_BIND, only(slow), MPOL_MF_MOVE) &&
	       !bind_range(p, RACE_LEN, MPOL_DEFAULT, 0, 0);
}

static void test_hurried(void)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), calls, i;
	struct race *r = calloc(1, sizeof(*r));
	char *p = map_race(MAP_PRIVATE);
	double start, took, slowest = 0;
	long waits;
	bool ok;

	hurried = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	r->p = p;
	waits = event_count("tier_promote_policy_wait");
	ok = p && !pthread_create(&r->thread, NULL, promote_nicely, r);
	while (ok && !hurried->tid)
		usleep(1000);
	for (i = 0; i < cpus; i++)
		if (!fork_child())
			watch_thread();
	for (i = 0; ok && i < (hurried->raised ? NR_HURRIED : MAX_HURRIED); i++) {
		move_to(p, NR_RACE, slow);
		usleep(rand() % 20000);
		start = now();
		ok = bind_and_release(p);
		took = now() - start;
		slowest = took > slowest ? took : slowest;
	}
	calls = i;
	/* The thread is there as long as they look. */
	hurried->stop = 1;
	for (i = 0; i < cpus; i++)
		wait(NULL);
	r->stop = true;
	waits = event_count("tier_promote_policy_wait") - waits;
	if (hurried->tid)
		pthread_join(r->thread, NULL);
	ksft_print_msg("%ld waits in %d calls, slowest %.1f ms; nice: %d times lower, %d then\n",
		       waits, calls, slowest * 1e3, hurried->raised,
		       hurried->nice_at_end);
	ksft_test_result(ok && waits && hurried->raised && hurried->nice_at_end == NICE,
			 "a nice thread is raised while a policy call waits for it\n");
	munmap(p, RACE_LEN);
}

static const struct tier_test tests[] = {
	{ "vfork_reader", test_vfork_reader },
	{ "vfork_policy", test_vfork_policy },
	{ "vfork_clone", test_vfork_clone },
	{ "shm_reader", test_shm_reader },
	{ "many_copies", test_many_copies },
	{ "hurried", test_hurried },
};

int main(int argc, char **argv)
{
	begin_tests();
	run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	ksft_finished();
}
