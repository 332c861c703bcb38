// SPDX-License-Identifier: GPL-2.0
/*
 * Engines for tests of the copy phase (migrate_copy.c), in /sys/kernel/debug/migrate_copy/:
 *
 *   engine		none, cpu or async
 *   delay_us		async: wait so long before each copy, 10 ms at most
 *   fail		async: each n-th job fails; 0 for none
 *   refuse		async: each n-th job is not taken
 *   stall		async: each n-th batch does not end until it is cancelled
 *   pin		async: after each n-th copy, take a reference to the source, write to it,
 *			and drop the reference, as somebody might who found it by its number
 *   counts		what has happened so far
 *   fault_freeze	freeze references after the copy only: what was written is lost
 *
 * All of them are for the whole machine.  The engine cpu copies at once.  It is what an engine
 * looks like that needs nothing.  The engine async copies on a worker, last job first.
 *
 * Locking: the lock of a batch keeps what is submitted, and what the worker has left to do.
 */

#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/highmem.h>
#include <linux/migrate_copy.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/workqueue.h>

#include "migrate_copy.h"

/* How long the engine waits for its batch, if it is meant to end and if not */
#define ASYNC_TIMEOUT	(60 * HZ)
#define ASYNC_STALLED	(HZ / 50)

#define ASYNC_MAX_DELAY_US	10000U

static bool migrate_copy_late;

static u32 async_delay_us;
static u32 async_fail;
static u32 async_refuse;
static u32 async_stall;
static u32 async_pin;

enum copy_count {
	COPY_SUBMITTED,
	COPY_GOOD,
	COPY_FAILED,
	COPY_REFUSED,
	COPY_CANCELLED,
	COPY_NOT_PINNED,
	COPY_PINNED,
	NR_COPY_COUNTS
};

static const char * const copy_count_names[NR_COPY_COUNTS] = {
	"submitted", "good", "failed", "refused", "cancelled", "not_pinned", "pinned",
};

static atomic_long_t copy_counts[NR_COPY_COUNTS];

static void copy_count(enum copy_count what)
{
	atomic_long_inc(&copy_counts[what]);
}

/**
 * migrate_copy_test_late - does a test want references to be frozen too late?
 *
 * Context: any.
 * Return: whether.
 */
bool migrate_copy_test_late(void)
{
	return READ_ONCE(migrate_copy_late);
}

/**
 * migrate_copy_test_count - count what an engine has done
 * @nr:		jobs that it took
 * @good:	of these, how many were copied
 *
 * Context: any.
 */
void migrate_copy_test_count(int nr, int good)
{
	atomic_long_add(nr, &copy_counts[COPY_SUBMITTED]);
	atomic_long_add(good, &copy_counts[COPY_GOOD]);
}

/* Is this each n-th time? */
static bool copy_nth(u32 *every, atomic_t *times)
{
	u32 n = READ_ONCE(*every);

	return n && !(atomic_inc_return(times) % n);
}

static int cpu_begin(struct migrate_copy *copy)
{
	return 0;
}

static int cpu_submit(struct migrate_copy *copy, struct migrate_copy_job *job)
{
	job->err = folio_mc_copy(job->dst, job->src);
	return 0;
}

static int cpu_complete(struct migrate_copy *copy)
{
	return 0;
}

static void cpu_cancel(struct migrate_copy *copy)
{
}

static const struct migrate_copy_engine cpu_engine = {
	.name = "cpu",
	.begin = cpu_begin,
	.submit = cpu_submit,
	.complete = cpu_complete,
	.cancel = cpu_cancel,
};

static struct workqueue_struct *async_queue;

/**
 * struct async_batch - what the worker has to copy
 * @work:	that does it
 * @lock:	keeps the rest
 * @last:	job that was submitted last, and was not begun; leads to others by its private
 * @left:	how many jobs were submitted and have not ended
 * @all:	no more will be submitted
 * @stalled:	do not end
 * @cancelled:	do not begin any more
 * @done:	all have ended
 */
struct async_batch {
	struct work_struct work;
	spinlock_t lock;	/* of all that follows */
	struct migrate_copy_job *last;
	int left;
	bool all;
	bool stalled;
	bool cancelled;
	struct completion done;
};

static struct migrate_copy_job *async_next(struct async_batch *batch)
{
	struct migrate_copy_job *job = NULL;

	spin_lock(&batch->lock);
	if (!batch->cancelled && !(batch->stalled && batch->left == 1)) {
		job = batch->last;
		if (job)
			batch->last = job->private;
	}
	spin_unlock(&batch->lock);
	return job;
}

static void async_ended(struct async_batch *batch, struct migrate_copy_job *job, int err)
{
	spin_lock(&batch->lock);
	job->err = err;
	batch->left--;
	if (batch->all && !batch->left)
		complete(&batch->done);
	spin_unlock(&batch->lock);
}

/* Do what must not be possible while a folio is copied. */
static void async_try_pin(struct folio *src)
{
	unsigned long *word;

	if (!folio_try_get(src)) {
		copy_count(COPY_NOT_PINNED);
		return;
	}
	word = kmap_local_folio(src, PAGE_SIZE - sizeof(*word));
	(*word)++;
	kunmap_local(word);
	copy_count(COPY_PINNED);
	folio_put(src);
}

static void async_work(struct work_struct *work)
{
	static atomic_t nr_done = ATOMIC_INIT(0), nr_pinned = ATOMIC_INIT(0);
	struct async_batch *batch = container_of(work, struct async_batch, work);
	struct migrate_copy_job *job;
	int err;

	while ((job = async_next(batch))) {
		u32 delay = min(READ_ONCE(async_delay_us), ASYNC_MAX_DELAY_US);

		if (delay)
			fsleep(delay);
		if (copy_nth(&async_fail, &nr_done)) {
			copy_count(COPY_FAILED);
			/* As an engine that gave up half-way */
			copy_highpage(folio_page(job->dst, 0), folio_page(job->src, 0));
			err = -EIO;
		} else {
			err = folio_mc_copy(job->dst, job->src);
		}
		if (!err && copy_nth(&async_pin, &nr_pinned))
			async_try_pin(job->src);
		async_ended(batch, job, err);
	}
}

static int async_begin(struct migrate_copy *copy)
{
	static atomic_t nr_batches = ATOMIC_INIT(0);
	struct async_batch *batch;

	batch = kzalloc(sizeof(*batch), GFP_NOWAIT | __GFP_NOWARN | __GFP_NOMEMALLOC);
	if (!batch)
		return -ENOMEM;
	INIT_WORK(&batch->work, async_work);
	spin_lock_init(&batch->lock);
	init_completion(&batch->done);
	batch->stalled = copy_nth(&async_stall, &nr_batches);
	copy->private = batch;
	return 0;
}

static int async_submit(struct migrate_copy *copy, struct migrate_copy_job *job)
{
	static atomic_t nr_submitted = ATOMIC_INIT(0);
	struct async_batch *batch = copy->private;

	if (copy_nth(&async_refuse, &nr_submitted)) {
		copy_count(COPY_REFUSED);
		return -EAGAIN;
	}
	spin_lock(&batch->lock);
	job->private = batch->last;
	batch->last = job;
	batch->left++;
	spin_unlock(&batch->lock);
	queue_work(async_queue, &batch->work);
	return 0;
}

static int async_complete(struct migrate_copy *copy)
{
	struct async_batch *batch = copy->private;
	bool done;

	spin_lock(&batch->lock);
	batch->all = true;
	done = !batch->left;
	spin_unlock(&batch->lock);
	if (!done && !wait_for_completion_timeout(&batch->done, batch->stalled ? ASYNC_STALLED :
						  ASYNC_TIMEOUT))
		return -ETIMEDOUT;
	/* The worker looks at the batch once more after the last job. */
	cancel_work_sync(&batch->work);
	kfree(batch);
	return 0;
}

static void async_cancel(struct migrate_copy *copy)
{
	struct async_batch *batch = copy->private;

	copy_count(COPY_CANCELLED);
	spin_lock(&batch->lock);
	batch->cancelled = true;
	spin_unlock(&batch->lock);
	cancel_work_sync(&batch->work);
	kfree(batch);
}

static const struct migrate_copy_engine async_engine = {
	.name = "async",
	.begin = async_begin,
	.submit = async_submit,
	.complete = async_complete,
	.cancel = async_cancel,
};

static const struct migrate_copy_engine * const engines[] = { &cpu_engine, &async_engine };
static const struct migrate_copy_engine *engine_now;
static DEFINE_MUTEX(engine_mutex);	/* for engine_now */

static ssize_t engine_read(struct file *file, char __user *buf, size_t count, loff_t *pos)
{
	char text[16];
	int len;

	mutex_lock(&engine_mutex);
	len = scnprintf(text, sizeof(text), "%s\n", engine_now ? engine_now->name : "none");
	mutex_unlock(&engine_mutex);
	return simple_read_from_buffer(buf, count, pos, text, len);
}

static ssize_t engine_write(struct file *file, const char __user *buf, size_t count, loff_t *pos)
{
	const struct migrate_copy_engine *engine = NULL;
	char text[16] = "";
	int i, err = 0;

	if (count >= sizeof(text))
		return -EINVAL;
	if (copy_from_user(text, buf, count))
		return -EFAULT;
	for (i = 0; i < ARRAY_SIZE(engines); i++)
		if (sysfs_streq(text, engines[i]->name))
			engine = engines[i];
	if (!engine && !sysfs_streq(text, "none"))
		return -EINVAL;

	mutex_lock(&engine_mutex);
	if (engine_now)
		migrate_copy_unregister(engine_now);
	if (engine)
		err = migrate_copy_register(engine);
	engine_now = err ? NULL : engine;
	mutex_unlock(&engine_mutex);
	return err ? : count;
}

static const struct file_operations engine_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = engine_read,
	.write = engine_write,
	.llseek = default_llseek,
};

static int counts_show(struct seq_file *m, void *unused)
{
	int i;

	for (i = 0; i < NR_COPY_COUNTS; i++)
		seq_printf(m, "%s %ld\n", copy_count_names[i],
			   atomic_long_read(&copy_counts[i]));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(counts);

static int __init migrate_copy_test_init(void)
{
	struct dentry *dir;

	async_queue = alloc_workqueue("migrate_copy", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	if (!async_queue)
		return -ENOMEM;
	dir = debugfs_create_dir("migrate_copy", NULL);
	debugfs_create_file("engine", 0600, dir, NULL, &engine_fops);
	debugfs_create_u32("delay_us", 0600, dir, &async_delay_us);
	debugfs_create_u32("fail", 0600, dir, &async_fail);
	debugfs_create_u32("refuse", 0600, dir, &async_refuse);
	debugfs_create_u32("stall", 0600, dir, &async_stall);
	debugfs_create_u32("pin", 0600, dir, &async_pin);
	debugfs_create_bool("fault_freeze", 0600, dir, &migrate_copy_late);
	debugfs_create_file("counts", 0400, dir, NULL, &counts_fops);
	return 0;
}
late_initcall(migrate_copy_test_init);
