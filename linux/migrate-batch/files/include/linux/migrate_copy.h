/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Engines that copy folios for migrate_pages(): what they are asked for, and what they owe.
 */
#ifndef _LINUX_MIGRATE_COPY_H
#define _LINUX_MIGRATE_COPY_H

struct folio;

/**
 * struct migrate_copy_job - one folio to be copied
 * @src:	from where.  Nobody else has a reference, and no TLB of a CPU or a secondary MMU has
 *		a writable entry; both last until the engine is done with the batch.
 * @dst:	to where; of the same size
 * @err:	-EINPROGRESS until the engine sets it: 0 if all of @dst is as @src, or why it is
 *		not, as when an engine has read poison.  Then the CPU copies.
 * @private:	the engine's
 */
struct migrate_copy_job {
	struct folio *src;
	struct folio *dst;
	int err;
	void *private;
};

/**
 * struct migrate_copy - jobs of one batch of migrate_pages()
 * @engine:	that copies
 * @jobs:	that were submitted
 * @nr:		how many
 * @nr_folios:	that the batch has, so that an engine may leave a small one to the CPU
 * @private:	the engine's
 */
struct migrate_copy {
	const struct migrate_copy_engine *engine;
	struct migrate_copy_job *jobs;
	int nr;
	int nr_folios;
	void *private;
};

/**
 * struct migrate_copy_engine - who copies
 * @name:	for messages
 * @begin:	Up to 512 jobs are about to be submitted.  An error means that the engine cannot
 *		take them; it is not asked for the rest of the batch then.
 * @submit:	Copy one folio, now or later.  It does not wait for a copy to end.  An error means
 *		that the engine will not touch the folio.
 * @complete:	Wait until all that was submitted has an @err.  An error means that it took too
 *		long; the engine says how long that is, and is not asked for the rest of the
 *		batch.  What the engine has written to @dst and @err is visible to the caller
 *		when it returns.
 * @cancel:	After @complete has failed: when it returns, the engine touches no folio of the
 *		batch any more.  A job may have ended well nonetheless.
 *
 * After @begin has returned 0, the last call for these jobs is @complete if that returns 0, else
 * @cancel.  Several tasks may have jobs at the same time.
 *
 * Context: Process; compaction and reclaim, too.  All folios of the batch are locked and unmapped
 * meanwhile, and tasks wait for them.  So the engine takes no lock of a folio, and waits for no
 * memory: allocations are GFP_NOWAIT.  Who waits in @complete depends on the engine alone.
 */
struct migrate_copy_engine {
	const char *name;
	int (*begin)(struct migrate_copy *copy);
	int (*submit)(struct migrate_copy *copy, struct migrate_copy_job *job);
	int (*complete)(struct migrate_copy *copy);
	void (*cancel)(struct migrate_copy *copy);
};

int migrate_copy_register(const struct migrate_copy_engine *engine);
void migrate_copy_unregister(const struct migrate_copy_engine *engine);

#endif /* _LINUX_MIGRATE_COPY_H */
