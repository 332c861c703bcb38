// SPDX-License-Identifier: GPL-2.0
/* Pages that take long to migrate, see sharers.h. */
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pages.h"
#include "sharers.h"

bool sharers_start(struct sharers *sharers)
{
	int i;

	memset(sharers, 0, sizeof(*sharers));
	sharers->pages = map_area(NR_SHARED * PAGE);
	if (!sharers->pages || !place(sharers->pages, NR_SHARED * PAGE, slow))
		return false;
	for (i = 0; i < NR_SHARERS; i++) {
		sharers->pids[i] = fork();
		if (!sharers->pids[i]) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			for (;;)
				pause();
		}
		if (sharers->pids[i] < 0)
			return false;
	}
	return true;
}

void sharers_stop(struct sharers *sharers)
{
	int i;

	for (i = 0; i < NR_SHARERS && sharers->pids[i] > 0; i++) {
		kill(sharers->pids[i], SIGKILL);
		waitpid(sharers->pids[i], NULL, 0);
	}
}
