// SPDX-License-Identifier: GPL-2.0
/*
 * Memory policies and cpusets against promotion: a folio is promoted only if every mapping of
 * it allows the target node, by the policy of the object, of the VMA, or of all threads, and by
 * the cpuset.  When a policy has been changed, nothing arrives any more that it forbids.
 *
 * Pages are promoted by hand, through /sys/kernel/debug/tier/promote.  The part "scan" is on, if
 * there is one, and the part "promote" is off: with a promoter the kernel need not patch its code
 * for each request, which costs time, and some emulators cannot do it while other CPUs run that
 * code.
 *
 * What stays must be free to move under another policy, or it would prove nothing.
 *
 * Each test must fail while the switch in /sys/kernel/debug/tier/faults/ is set that breaks its
 * rule:
 *
 *   mbind_race, shm_race, cpuset_race	promote_wait
 *   all others but move_pages_busy	promote_allow
 *
 * POLICY_SECONDS is how long each race goes on (default 6).  One that is lost ends at once.  A
 * change of cpuset.mems takes so long that it seldom comes just in time, so 30 are better to see
 * that cpuset_race fails with promote_wait.
 */
#define _GNU_SOURCE
#include <semaphore.h>

#include "tier_policy.h"

/* Argument of this program when it executes itself */
#define INHERITED	"--inherited"

/* More threads than the kernel asks, and not so many */
#define TOO_MANY	1030
#define SOME		8

/* Pages that move_pages() moves, and how many of a thousand may be busy */
#define NR_BUSY		512UL
#define BUSY_PER_MILLE	5

static void test_vma_bound(void)
{
	char *p = map_slow(NR), *half = p + LEN / 2;
	bool ok = p;

	/* The page without a policy is of the same process, and was of the same VMA. */
	ok = ok && !bind_range(p, LEN / 2, MPOL_BIND, only(slow), 0);
	ok = ok && refused(p) && allowed(half);
	ok = ok && !bind_range(p, PAGE, MPOL_BIND, both(), 0);
	ok = ok && allowed(p) && refused(p + PAGE);
	ok = ok && !bind_range(p, LEN, MPOL_DEFAULT, 0, 0);
	ok = ok && allowed(p + PAGE);
	ksft_test_result(ok, "bound by mbind()\n");
	munmap(p, LEN);
}

static void test_vma_preferred(void)
{
	char *p = map_slow(NR);
	bool ok = p;

	ok = ok && !bind_range(p, LEN, MPOL_PREFERRED, only(slow), 0) && refused(p);
	ok = ok && !bind_range(p, LEN, MPOL_PREFERRED, only(fast), 0) && allowed(p);
	ok = ok && !bind_range(p, LEN, MPOL_PREFERRED_MANY, only(slow), 0) && refused(p + PAGE);
	ok = ok && !bind_range(p, LEN, MPOL_PREFERRED_MANY, both(), 0) && allowed(p + PAGE);
	/* That of the CPU, which is no preference for a slow one */
	ok = ok && !bind_range(p, LEN, MPOL_LOCAL, 0, 0) && allowed(p + 2 * PAGE);
	ksft_test_result(ok, "another node is preferred\n");
	munmap(p, LEN);
}

static void test_interleaved(void)
{
	char *p = map_slow(NR);
	bool ok = p;

	ok = ok && !bind_range(p, LEN, MPOL_INTERLEAVE, both(), 0) && refused(p);
	ok = ok && !bind_range(p, LEN, MPOL_WEIGHTED_INTERLEAVE, both(), 0) && refused(p);
	ok = ok && !bind_range(p, LEN, MPOL_DEFAULT, 0, 0);
	/* The same of a thread */
	ok = ok && !bind_thread(MPOL_INTERLEAVE, both()) && refused(p);
	ok &= !bind_thread(MPOL_DEFAULT, 0);
	ok = ok && allowed(p);
	ksft_test_result(ok, "interleaved\n");
	munmap(p, LEN);
}

static void test_task_bound(void)
{
	char *p = map_slow(NR);
	bool ok = p;

	ok = ok && !bind_thread(MPOL_BIND, only(slow)) && refused(p);
	/* What a VMA says comes first. */
	ok = ok && !bind_range(p, PAGE, MPOL_BIND, both(), 0);
	ok = ok && allowed(p) && refused(p + PAGE);
	ok &= !bind_thread(MPOL_BIND, both());
	ok = ok && allowed(p + PAGE);
	ok &= !bind_thread(MPOL_PREFERRED, only(slow));
	ok = ok && refused(p + 2 * PAGE);
	ok &= !bind_thread(MPOL_DEFAULT, 0);
	ok = ok && allowed(p + 2 * PAGE);
	ksft_test_result(ok, "bound by set_mempolicy()\n");
	munmap(p, LEN);
}

/* A thread that does nothing but to have a policy, or none */
struct thread {
	pthread_t id;
	uint64_t nodes;
	int err;
};

static sem_t bound, leave;

static void *bind_and_wait(void *arg)
{
	struct thread *t = arg;

	t->err = t->nodes ? bind_thread(MPOL_BIND, t->nodes) : 0;
	sem_post(&bound);
	while (sem_wait(&leave))
		;
	return NULL;
}

/* Returns how many were started. */
static int start_threads(struct thread *threads, int nr, uint64_t nodes)
{
	int i;

	sem_init(&bound, 0, 0);
	sem_init(&leave, 0, 0);
	for (i = 0; i < nr; i++) {
		threads[i].nodes = nodes;
		if (pthread_create(&threads[i].id, NULL, bind_and_wait, &threads[i]))
			break;
		while (sem_wait(&bound))
			;
	}
	return i;
}

/* Returns 0 if all of them have had the policy. */
static int stop_threads(struct thread *threads, int nr)
{
	int i, err = 0;

	for (i = 0; i < nr; i++)
		sem_post(&leave);
	for (i = 0; i < nr; i++) {
		pthread_join(threads[i].id, NULL);
		err = err ?: threads[i].err;
	}
	return err;
}

static void test_thread_bound(void)
{
	char *p = map_slow(NR);
	struct thread thread;
	bool ok = p;
	int nr;

	/* The address space has its policy although no thread has one that asks. */
	nr = start_threads(&thread, 1, only(slow));
	ok = ok && nr == 1 && refused(p);
	ok &= !stop_threads(&thread, nr);
	ok = ok && allowed(p);
	ksft_test_result(ok, "another thread is bound, while it lives\n");
	munmap(p, LEN);
}

static struct thread threads[TOO_MANY];

/* Of a process that has never had a policy, but whose parent has */
static bool many_are_allowed(char *unused)
{
	char *p = map_slow(1);
	int nr = start_threads(threads, TOO_MANY, 0);
	bool ok = p && nr == TOO_MANY && allowed(p);

	(void)unused;
	return !stop_threads(threads, nr) && ok;
}

static void test_many_threads(void)
{
	char *p = map_slow(NR);
	bool ok = p;
	int nr;

	nr = start_threads(threads, SOME, both());
	ok = ok && nr == SOME && allowed(p);
	ok &= !stop_threads(threads, nr);
	/* Each of them is bound, so each has to be asked. */
	nr = start_threads(threads, TOO_MANY, both());
	ok = ok && nr == TOO_MANY && refused(p + PAGE);
	ok &= !stop_threads(threads, nr);
	ok = ok && allowed(p + PAGE) && in_child(many_are_allowed, NULL);
	ksft_test_result(ok, "more threads than can be asked\n");
	munmap(p, LEN);
}

/* Of a process that has not set a policy itself, but has one */
static bool has_inherited(char *unused)
{
	char *p = map_slow(1);
	bool ok = p && refused(p) && !bind_thread(MPOL_DEFAULT, 0) && allowed(p);

	(void)unused;
	munmap(p, PAGE);
	return ok;
}

static bool execute_self(char *unused)
{
	(void)unused;
	execl("/proc/self/exe", "policy_test", INHERITED, NULL);
	return false;
}

static void test_inherited(void)
{
	bool ok = !bind_thread(MPOL_BIND, only(slow));

	ok = ok && in_child(has_inherited, NULL);
	ok = ok && in_child(execute_self, NULL);
	bind_thread(MPOL_DEFAULT, 0);
	ksft_test_result(ok, "bound through fork() and execve()\n");
}

static bool is_refused(char *p)
{
	return refused(p);
}

static bool unbound_is_allowed(char *p)
{
	return !bind_range(p, LEN, MPOL_DEFAULT, 0, 0) && allowed(p);
}

/* Children that got a policy with the VMA, and are the only ones to map it */
static void test_vma_inherited(void)
{
	char *p = map_slow(NR);
	bool ok = p && !bind_range(p, LEN, MPOL_BIND, only(slow), 0);
	int go[2], status = -1;
	bool (*check)(char *p);
	pid_t pid;
	int i;

	for (i = 0; i < 2; i++) {
		char c;

		if (!ok || pipe(go)) {
			ok = false;
			break;
		}
		check = i ? unbound_is_allowed : is_refused;
		fflush(stdout);
		pid = fork_child();
		if (!pid) {
			close(go[1]);
			/* Until the parent has unmapped it, and closes the pipe */
			ok = read(go[0], &c, 1) == 0 && check(p);
			fflush(stdout);
			_exit(!ok);
		}
		munmap(p, LEN);
		close(go[0]);
		close(go[1]);
		ok = pid > 0 && waitpid(pid, &status, 0) == pid && !status;
		/* Once more for the next child */
		p = map_slow(NR);
		ok = ok && p && !bind_range(p, LEN, MPOL_BIND, only(slow), 0);
	}
	ksft_test_result(ok, "bound by a VMA that was copied by fork()\n");
	munmap(p, LEN);
}

/*
 * Remove the policies of an object.  Where the VMA has none of its own, MPOL_DEFAULT changes
 * nothing.
 */
static bool unbind_object(char *p, size_t len)
{
	return !bind_range(p, len, MPOL_BIND, both(), 0) &&
	       !bind_range(p, len, MPOL_DEFAULT, 0, 0);
}

/* What the child of a test has to work on */
static int shared_fd;

/* Have the object on the slow node, and its second half bound there. */
static bool bind_half(char *unused)
{
	char *p = map_shared(shared_fd, LEN);

	(void)unused;
	if (!p)
		return false;
	fill_pages(p, NR);
	return !move_to(p, NR, slow) &&
	       !bind_range(p + LEN / 2, LEN / 2, MPOL_BIND, only(slow), 0);
}

static void test_shm_index(void)
{
	char *p = NULL;
	bool ok;

	shared_fd = make_memfd(LEN);
	/* It exits.  The policy stays, and we have never set one. */
	ok = shared_fd >= 0 && in_child(bind_half, NULL);
	if (ok)
		p = map_shared(shared_fd, LEN);
	ok = ok && p && intact(p, PAGE) && intact(p + LEN / 2, PAGE);
	ok = ok && allowed(p) && refused(p + LEN / 2);
	/* Nor does it matter what a thread wants, where the object says something. */
	ok = ok && !bind_range(p + LEN / 2, PAGE, MPOL_BIND, both(), 0);
	ok = ok && !bind_thread(MPOL_BIND, only(slow));
	ok = ok && allowed(p + LEN / 2) && refused(p + PAGE);
	ok &= !bind_thread(MPOL_DEFAULT, 0);
	ok = ok && allowed(p + PAGE) && refused(p + LEN - PAGE);
	ok = ok && unbind_object(p, LEN) && allowed(p + LEN - PAGE);
	ksft_test_result(ok, "parts of a shared object are bound by somebody else\n");
	if (p)
		munmap(p, LEN);
	close(shared_fd);
}

/* The same for a huge page: only one page of it is bound */
static bool bind_one(char *unused)
{
	char *p = map_shared(shared_fd, HUGE);

	(void)unused;
	if (!p || bind_thread(MPOL_BIND, only(slow)))
		return false;
	fill_pages(p, PER_HUGE);
	return !bind_range(p + HUGE / 2 + PAGE, PAGE, MPOL_BIND, only(slow), 0);
}

static void test_shm_huge(void)
{
	char *p = NULL;
	uint64_t flags;
	bool ok;

	mkdir(DIR_HUGE, 0700);
	if (mount("none", DIR_HUGE, "tmpfs", 0, "huge=always")) {
		ksft_test_result_skip("no huge pages in tmpfs: %s\n", strerror(errno));
		goto out;
	}
	shared_fd = open(DIR_HUGE "/file", O_RDWR | O_CREAT, 0600);
	ok = shared_fd >= 0 && !ftruncate(shared_fd, HUGE) && in_child(bind_one, NULL);
	if (ok)
		p = map_shared(shared_fd, HUGE);
	ok = ok && p && intact(p, PAGE) && intact(p + HUGE - PAGE, PAGE);
	if (ok && (!read_kpageflags(pfn_of(p), 1, &flags) ||
		   !(flags & 1ULL << KPF_COMPOUND_HEAD) || !(flags & 1ULL << KPF_THP))) {
		ksft_test_result_skip("no huge page in tmpfs\n");
		goto unmap;
	}
	ok = ok && refused_folio(p, PER_HUGE) && count_on(p, HUGE, slow) == PER_HUGE;
	ok = ok && unbind_object(p, HUGE);
	ok = ok && allowed_folio(p, PER_HUGE) && count_on(p, HUGE, fast) == PER_HUGE;
	ok = ok && intact(p + HUGE - PAGE, PAGE);
	ksft_test_result(ok, "one page of a huge page of tmpfs is bound\n");
unmap:
	if (p)
		munmap(p, HUGE);
	close(shared_fd);
	umount(DIR_HUGE);
out:
	rmdir(DIR_HUGE);
}

/* Bind the first page of an object that nobody maps, or remove all of its policies. */
static bool bind_unmapped(int fd, bool bind)
{
	char *p = map_shared(fd, LEN);
	bool ok = p;

	if (bind)
		ok = ok && !bind_range(p, PAGE, MPOL_BIND, only(slow), 0);
	else
		ok = ok && unbind_object(p, LEN);
	if (p)
		munmap(p, LEN);
	return ok;
}

/* No mapping can be asked, only the object. */
static void test_shm_unmapped(void)
{
	int node, err = -1;
	uint64_t pfn = 0;
	bool ok;

	shared_fd = make_memfd(LEN);
	ok = shared_fd >= 0 && in_child(bind_half, NULL);
	ok = ok && bind_unmapped(shared_fd, true);
	if (ok)
		pfn = look_at(shared_fd, &node);
	ok = ok && pfn && node == slow;
	if (ok)
		err = promote(pfn, 1, fast);
	ok = ok && err && look_at(shared_fd, &node) == pfn && node == slow;
	ok = ok && bind_unmapped(shared_fd, false);
	ok = ok && !promote(pfn, 1, fast) && look_at(shared_fd, &node) && node == fast;
	ksft_print_msg("while bound: %s\n", err ? strerror(-err) : "promoted");
	ksft_test_result(ok, "a page of a bound object that nobody maps\n");
	close(shared_fd);
}

static void test_one_of_two(void)
{
	char *p = map_slow(NR), c = 0;
	int ready[2];
	bool ok = p;
	pid_t pid;

	if (!p || pipe(ready)) {
		ksft_test_result_fail("cannot prepare it\n");
		return;
	}
	pid = fork_child();
	if (!pid) {
		if (bind_range(p, LEN / 2, MPOL_BIND, only(slow), 0) || write(ready[1], &c, 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	ok = pid > 0 && read(ready[0], &c, 1) == 1;
	/* Of what both map, only the child has bound a part. */
	ok = ok && refused(p) && allowed(p + LEN / 2);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	ok = ok && allowed(p);
	close(ready[0]);
	ksft_test_result(ok, "bound by one of two who map it\n");
	munmap(p, LEN);
}

static void test_file_mapping(void)
{
	char buf[LEN], *p = NULL;
	bool ok;
	int fd;

	if (!make_disk(DIR_DISK)) {
		ksft_test_result_skip("no ext2 on " DISK "\n");
		return;
	}
	fd = open(DIR_DISK "/file", O_RDWR | O_CREAT | O_TRUNC, 0600);
	fill_pages(buf, NR);
	/* Dirty pages of files are not promoted. */
	ok = fd >= 0 && write(fd, buf, LEN) == (ssize_t)LEN && !fsync(fd);
	if (ok)
		p = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
	ok = ok && p != MAP_FAILED && intact(p, PAGE) && intact(p + LEN / 2, PAGE) &&
	     !move_to(p, 1, slow) && !move_to(p + LEN / 2, 1, slow);
	ok = ok && !bind_range(p, LEN / 2, MPOL_BIND, only(slow), 0);
	ok = ok && refused(p) && allowed(p + LEN / 2);
	ok = ok && !bind_range(p, LEN, MPOL_DEFAULT, 0, 0) && allowed(p);
	ksft_test_result(ok, "page cache that is mapped by a bound VMA\n");
	if (p && p != MAP_FAILED)
		munmap(p, LEN);
	close(fd);
	remove_disk(DIR_DISK);
}

static bool obeys_cpuset(char *unused)
{
	bool ok = start_servant();
	char *p = map_slow(NR);

	(void)unused;
	ok = ok && p && enter_group();
	ok = ok && allowed(p + PAGE) && set_mems(only(slow));
	ok = ok && refused(p);
	/* Policies cannot allow more. */
	ok = ok && !bind_range(p, LEN / 2, MPOL_LOCAL, 0, 0) && refused(p);
	ok = ok && !bind_thread(MPOL_LOCAL, 0);
	ok = ok && refused(p) && refused(p + LEN / 2);
	ok = ok && !bind_thread(MPOL_DEFAULT, 0) && set_mems(both()) && allowed(p);
	/* It is the group that matters. */
	ok = ok && set_mems(only(slow)) && refused(p + LEN / 2);
	ok = ok && !write_file(CGROUPS "/cgroup.procs", "0") && allowed(p + LEN / 2);
	return ok;
}

static void test_cpuset(void)
{
	if (!mount_group(CGROUPS, "group")) {
		ksft_test_result_skip("no control groups: %s\n", strerror(errno));
		return;
	}
	ksft_test_result(in_child(obeys_cpuset, NULL), "in a cpuset of the slow node\n");
	umount_group(CGROUPS, "group");
}

static void test_thp(void)
{
	char *p = map_on(HUGE, slow, true);
	bool ok;

	if (!p || huge_kb(p) != (long)(HUGE / 1024) || count_on(p, HUGE, slow) != PER_HUGE) {
		ksft_test_result_skip("no huge pages on the slow node\n");
		return;
	}
	fill_pages(p, PER_HUGE);
	ok = !bind_range(p, HUGE, MPOL_BIND, only(slow), 0);
	ok = ok && refused_folio(p, PER_HUGE) && count_on(p, HUGE, slow) == PER_HUGE;
	ok = ok && huge_kb(p) == (long)(HUGE / 1024);
	ok = ok && !bind_range(p, HUGE, MPOL_DEFAULT, 0, 0);
	ok = ok && !bind_thread(MPOL_BIND, only(slow)) && refused_folio(p, PER_HUGE);
	ok &= !bind_thread(MPOL_DEFAULT, 0);
	ok = ok && allowed_folio(p, PER_HUGE) && count_on(p, HUGE, fast) == PER_HUGE;
	ok = ok && huge_kb(p) == (long)(HUGE / 1024) && intact(p + HUGE - PAGE, PAGE);
	ksft_test_result(ok, "huge pages stay or move whole\n");
	unmap_on(p, HUGE);
}

static void test_vma_split(void)
{
	char *p = map_slow(NR), *q = MAP_FAILED, *room;
	bool ok;

	room = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ok = p && room != MAP_FAILED;
	ok = ok && !bind_range(p, LEN, MPOL_BIND, only(slow), 0);
	/* Now there are three of them. */
	ok = ok && !mprotect(p + PAGE, PAGE, PROT_READ);
	ok = ok && refused(p) && refused(p + PAGE) && refused(p + 2 * PAGE);
	if (ok)
		q = mremap(p + 2 * PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, room);
	ok = ok && q == room && refused(q) && refused(p + LEN - PAGE);
	ok = ok && !bind_range(q, PAGE, MPOL_DEFAULT, 0, 0) && allowed(q);
	ok = ok && refused(p) && refused(p + LEN - PAGE);
	ok = ok && !bind_range(p, PAGE, MPOL_DEFAULT, 0, 0) && allowed(p);
	ksft_test_result(ok, "a bound VMA is split and moved\n");
	munmap(p, LEN);
	munmap(room, PAGE);
}

/*
 * Forbid the fast node and allow it again, many times.  While it is forbidden no page must be
 * there, and none arrive.
 */
static bool never_arrives(char *p, bool (*forbid)(char *p), bool (*allow)(char *p))
{
	unsigned long times = 0, promoted = 0, bad = 0, before, after;
	double begun = now(), seconds = race_seconds();
	struct race *r = start_race(p);
	bool ok = r;

	while (ok && !bad && (now() < begun + seconds ||
			      (times < TIMES && now() < begun + PATIENCE * seconds))) {
		wait_for_promotion(r);
		ok &= forbid(p);
		before = count_on(p, RACE_LEN, fast);
		usleep(STAY_US);
		after = count_on(p, RACE_LEN, fast);
		bad = before > after ? before : after;
		if (bad)
			ksft_print_msg("%lu pages are on the fast node, a bit later %lu\n", before,
				       after);
		ok &= allow(p);
		times++;
	}
	if (!ok)
		ksft_print_msg("the policy cannot be changed: %s\n", strerror(errno));
	if (r)
		promoted = stop_race(r);
	ksft_print_msg("forbidden %lu times\n", times);
	return ok && times >= TIMES && promoted >= times * BROUGHT_BACK && !bad &&
	       intact(p, RACE_LEN);
}

static bool bind_slow(char *p)
{
	return !bind_range(p, RACE_LEN, MPOL_BIND, only(slow), MPOL_MF_MOVE);
}

static bool unbind(char *p)
{
	return !bind_range(p, RACE_LEN, MPOL_DEFAULT, 0, 0);
}

static void test_mbind_race(void)
{
	char *p = map_race(MAP_PRIVATE);

	ksft_test_result(never_arrives(p, bind_slow, unbind),
			 "nothing arrives after mbind() has forbidden it\n");
	munmap(p, RACE_LEN);
}

/* The policy is one of the object. */
static void test_shm_race(void)
{
	char *p = map_race(MAP_SHARED);

	ksft_test_result(never_arrives(p, bind_slow, unbind),
			 "nothing arrives after mbind() of shared memory has forbidden it\n");
	munmap(p, RACE_LEN);
}

static bool narrow_cpuset(char *unused)
{
	(void)unused;
	return set_mems(only(slow));
}

static bool widen_cpuset(char *unused)
{
	(void)unused;
	return set_mems(both());
}

static bool race_in_cpuset(char *unused)
{
	bool ok = start_servant();
	char *p = map_race(MAP_PRIVATE);

	(void)unused;
	return ok && p && enter_group() && never_arrives(p, narrow_cpuset, widen_cpuset);
}

static void test_cpuset_race(void)
{
	if (!mount_group(CGROUPS, "group")) {
		ksft_test_result_skip("no control groups: %s\n", strerror(errno));
		return;
	}
	ksft_test_result(in_child(race_in_cpuset, NULL),
			 "nothing arrives after cpuset.mems has forbidden it\n");
	umount_group(CGROUPS, "group");
}

static void test_move_pages_busy(void)
{
	unsigned long calls = 0, alone = 0, failed = 0;
	char *p = map_race(MAP_PRIVATE);
	double end;
	struct race *r;
	bool ok = p;
	int i;

	for (i = 0; ok && i < 10; i++)
		alone += move_to(p, NR_BUSY, i % 2 ? slow : fast);
	r = start_race(p);
	ok = ok && r;
	end = now() + race_seconds();
	for (; ok && (now() < end || calls < TIMES / 2); calls++) {
		wait_for_promotion(r);
		failed += move_to(p, NR_BUSY, calls % 2 ? fast : slow);
	}
	if (r)
		stop_race(r);
	ksft_print_msg("%lu of %lu pages were busy, without promoter %lu of %lu\n", failed,
		       calls * NR_BUSY, alone, i * NR_BUSY);
	ok = ok && calls >= TIMES / 2 && failed * 1000 <= calls * NR_BUSY * BUSY_PER_MILLE;
	ok = ok && intact(p, RACE_LEN);
	ksft_test_result(ok, "move_pages() is not refused what is just promoted\n");
	munmap(p, RACE_LEN);
}

static const struct tier_test tests[] = {
	{ "vma_bound", test_vma_bound },
	{ "vma_preferred", test_vma_preferred },
	{ "interleaved", test_interleaved },
	{ "task_bound", test_task_bound },
	{ "thread_bound", test_thread_bound },
	{ "many_threads", test_many_threads },
	{ "inherited", test_inherited },
	{ "vma_inherited", test_vma_inherited },
	{ "shm_index", test_shm_index },
	{ "shm_huge", test_shm_huge },
	{ "shm_unmapped", test_shm_unmapped },
	{ "one_of_two", test_one_of_two },
	{ "file_mapping", test_file_mapping },
	{ "cpuset", test_cpuset },
	{ "thp", test_thp },
	{ "vma_split", test_vma_split },
	{ "mbind_race", test_mbind_race },
	{ "shm_race", test_shm_race },
	{ "cpuset_race", test_cpuset_race },
	{ "move_pages_busy", test_move_pages_busy },
};

int main(int argc, char **argv)
{
	bool again = argc == 2 && !strcmp(argv[1], INHERITED);
	bool tiers = find_tiers(&fast, &slow);

	if (again)
		return !has_inherited(NULL);
	ksft_print_header();
	if (geteuid())
		ksft_exit_skip("needs root\n");
	if (access(PROMOTE, W_OK))
		ksft_exit_skip("no " PROMOTE " (CONFIG_TIER_DEBUG, mounted debugfs)\n");
	if (!tiers)
		ksft_exit_skip("no slow memory tier\n");

	ksft_print_msg("fast node %d, slow node %d\n", fast, slow);
	promote_by_hand_only();
	run_tests(tests, ARRAY_SIZE(tests), argc, argv);
	ksft_finished();
}
