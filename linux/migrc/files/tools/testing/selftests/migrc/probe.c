// SPDX-License-Identifier: GPL-2.0
/* Reads until it must not, see probe.h. */
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "probe.h"

struct probe {
	struct worker *worker;
	void *word;
	atomic_bool forbidden;
	atomic_ulong reads;
	bool refused;
};

static __thread sigjmp_buf refused_at;
static __thread atomic_bool probing;

static void on_fault(int sig)
{
	(void)sig;
	/* Others: MADV_HWPOISON tells its caller, too. */
	if (atomic_load(&probing))
		siglongjmp(refused_at, 1);
}

static void read_until(void *arg)
{
	struct probe *probe = arg;
	bool last;

	/* Without the signal mask, which would be a system call */
	if (sigsetjmp(refused_at, 0)) {
		probe->refused = true;
		atomic_store(&probing, false);
		return;
	}
	atomic_store(&probing, true);
	do {
		last = atomic_load_explicit(&probe->forbidden, memory_order_acquire);
		word_read(probe->word);
		atomic_fetch_add(&probe->reads, 1);
	} while (!last);
	atomic_store(&probing, false);
}

struct probe *probe_start(struct worker *worker, void *word)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	struct probe *probe = shared_alloc(sizeof(*probe));

	if (!probe)
		return NULL;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	probe->worker = worker;
	probe->word = word;
	worker_run(worker, read_until, probe);
	while (atomic_load(&probe->reads) < 2 && worker_busy(worker))
		usleep(20);
	return probe;
}

bool probe_refused(struct probe *probe)
{
	bool refused;

	atomic_store_explicit(&probe->forbidden, true, memory_order_release);
	worker_wait(probe->worker);
	refused = probe->refused;
	shared_free(probe, sizeof(*probe));
	return refused;
}
