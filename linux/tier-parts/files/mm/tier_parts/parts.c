// SPDX-License-Identifier: GPL-2.0
/*
 * Parts of memory tiering: /sys/kernel/mm/tier/.
 *
 * A part (struct tier_part) is a mechanism with a directory, for example tier/scan/.  The file
 * "enabled" of a part holds the administrator's wish.  tier/enabled is the switch for all: a part
 * works while both are 1.  So one write starts every part that is wished, and the default wishes
 * fit most machines.
 *
 * A wish is kept.  A part that waits, for slow memory or for a module, starts when that comes:
 * after memory has come online, when tier_parts_changed() is called, and every RETRY while a part
 * waits.
 * "state" has a word on what became of the wish, and "reason" a line on why a part does not work.
 * poll(2) on "state" returns when the word has changed.
 *
 * The boot parameter tier=on writes 1 to tier/enabled while the kernel boots.  With tier=off no
 * write can switch anything on until the next boot.
 *
 * Locking: tier_parts_lock serializes writes, starts and stops, and changes of wishes and states.
 * Readers of files take no lock: any user can read, and a throttled reader must not keep the
 * administrator from switching.  Parts stay in the list for ever.  A part may take locks of its own
 * below tier_parts_lock, and must hold none that its callbacks take when it adds itself.
 */

#define pr_fmt(fmt) "tier: " fmt

#include <linux/ctype.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/kobject.h>
#include <linux/memory.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/notifier.h>
#include <linux/rculist.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/tier_parts.h>
#include <linux/workqueue.h>

#include "nodes.h"

/* From one try to start what waits to the next one */
#define RETRY		(10 * HZ)

static DEFINE_MUTEX(tier_parts_lock);
static LIST_HEAD(tier_parts);
static struct kobject *tier_kobj;
static bool tier_enabled;
static bool tier_ready;	/* the memory tiers are known */
static bool tier_blocked __ro_after_init;	/* by tier=off */
static const char *tier_state_shown = "off";

static void tier_parts_retry(struct work_struct *work);
static DECLARE_DELAYED_WORK(tier_parts_work, tier_parts_retry);

static const char * const tier_part_states[] = {
	[TIER_PART_OFF]		= "off",
	[TIER_PART_WAITING]	= "waiting",
	[TIER_PART_ON]		= "on",
	[TIER_PART_UNSUPPORTED]	= "unsupported",
};

static int __init tier_setup(char *str)
{
	/* The last one counts. */
	tier_enabled = str && !strcmp(str, "on");
	tier_blocked = str && !strcmp(str, "off");
	if (!tier_enabled && !tier_blocked)
		pr_warn("tier=%s is neither on nor off: off after boot\n", str ?: "");
	return 0;
}
early_param("tier", tier_setup);

static struct tier_part *tier_part_of(const struct kobject *kobj)
{
	struct tier_part *part, *found = NULL;

	rcu_read_lock();
	list_for_each_entry_rcu(part, &tier_parts, list) {
		if (part->kobj == kobj)
			found = part;
	}
	rcu_read_unlock();
	return found;
}

/* The state of the whole, in a word */
static const char *tier_state(void)
{
	bool waiting = false, unsupported = false;
	struct tier_part *part;

	if (tier_blocked)
		return "blocked";
	if (!tier_enabled)
		return "off";
	list_for_each_entry(part, &tier_parts, list) {
		waiting |= part->state == TIER_PART_WAITING && !part->optional;
		unsupported |= part->state == TIER_PART_UNSUPPORTED;
	}
	if (unsupported)
		return "partly";
	return waiting ? "waiting" : "on";
}

static void tier_tell(void)
{
	const char *state = tier_state();

	if (state == tier_state_shown)
		return;
	WRITE_ONCE(tier_state_shown, state);
	sysfs_notify(tier_kobj, NULL, "state");
}

static void tier_part_set(struct tier_part *part, enum tier_part_state state, const char *reason)
{
	bool changed = state != part->state;

	WRITE_ONCE(part->state, state);
	WRITE_ONCE(part->reason, reason);
	if (changed)
		sysfs_notify(part->kobj, NULL, "state");
}

static void tier_part_start(struct tier_part *part)
{
	const char *reason = NULL;
	int err = part->start(&reason);

	if (!err)
		tier_part_set(part, TIER_PART_ON, NULL);
	else if (err == -EOPNOTSUPP)
		tier_part_set(part, TIER_PART_UNSUPPORTED, reason);
	else if (err == -ENOMEM)
		tier_part_set(part, TIER_PART_WAITING, "no memory was free to start this part");
	else
		tier_part_set(part, TIER_PART_WAITING,
			      reason ?: "the threads of this part could not be created");
}

/* Start or stop a part, as is wished. */
static void tier_part_apply(struct tier_part *part)
{
	bool on = part->state == TIER_PART_ON;
	bool wished = tier_enabled && !tier_blocked && part->wish;

	if (on && (!wished || (part->runs && !part->runs()))) {
		part->stop();
		on = false;
	}
	if (!wished)
		tier_part_set(part, TIER_PART_OFF, NULL);
	else if (!on)
		tier_part_start(part);
}

static void tier_parts_apply(void)
{
	struct tier_part *part;
	bool again = false;

	lockdep_assert_held(&tier_parts_lock);
	list_for_each_entry(part, &tier_parts, list) {
		tier_part_apply(part);
		/* What an optional part waits for calls tier_parts_changed(). */
		again |= part->state == TIER_PART_WAITING && !part->optional;
	}
	tier_tell();
	if (again)
		queue_delayed_work(system_unbound_wq, &tier_parts_work, RETRY);
}

static void tier_parts_retry(struct work_struct *work)
{
	mutex_lock(&tier_parts_lock);
	if (!tier_nodes_update(tier_kobj))
		queue_delayed_work(system_unbound_wq, &tier_parts_work, RETRY);
	tier_parts_apply();
	mutex_unlock(&tier_parts_lock);
}

/**
 * tier_parts_changed - a part that waits may be able to start, or a part that works has ended
 *
 * Context: any.
 */
void tier_parts_changed(void)
{
	/* tier_parts_late() looks at all that came before. */
	if (READ_ONCE(tier_ready))
		mod_delayed_work(system_unbound_wq, &tier_parts_work, 0);
}

static int tier_memory_changed(struct notifier_block *nb, unsigned long action, void *arg)
{
	if (action == MEM_ONLINE || action == MEM_OFFLINE)
		tier_parts_changed();
	return NOTIFY_OK;
}

static int tier_parse(const char *buf, bool *on)
{
	/* kstrtobool() would take "yes", "offer" and more. */
	*on = sysfs_streq(buf, "1");
	return *on || sysfs_streq(buf, "0") ? 0 : -EINVAL;
}

static ssize_t enabled_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct tier_part *part = tier_part_of(kobj);

	return sysfs_emit(buf, "%d\n", part ? READ_ONCE(part->wish) : READ_ONCE(tier_enabled));
}

static ssize_t enabled_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
			     size_t count)
{
	struct tier_part *part = tier_part_of(kobj);
	bool on;

	if (tier_parse(buf, &on))
		return -EINVAL;
	if (on && tier_blocked)
		return -EPERM;
	if (mutex_lock_interruptible(&tier_parts_lock))
		return -ERESTARTSYS;
	if (part)
		WRITE_ONCE(part->wish, on);
	else if (kobj == tier_kobj)
		WRITE_ONCE(tier_enabled, on);
	tier_parts_apply();
	mutex_unlock(&tier_parts_lock);
	return count;
}

static ssize_t state_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct tier_part *part = tier_part_of(kobj);

	return sysfs_emit(buf, "%s\n", part ? tier_part_states[READ_ONCE(part->state)] :
			  READ_ONCE(tier_state_shown));
}

static ssize_t reason_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct tier_part *part = tier_part_of(kobj);
	const char *reason = part ? READ_ONCE(part->reason) : NULL;

	return sysfs_emit(buf, "%s\n", reason ?: "");
}

static struct kobj_attribute enabled_attr = __ATTR_RW(enabled);
static struct kobj_attribute state_attr = __ATTR_RO(state);
static struct kobj_attribute reason_attr = __ATTR_RO(reason);

static const struct attribute *tier_attrs[] = {
	&enabled_attr.attr,
	&state_attr.attr,
	NULL
};

static const struct attribute *tier_part_attrs[] = {
	&enabled_attr.attr,
	&state_attr.attr,
	&reason_attr.attr,
	NULL
};

/**
 * tier_knob_show - print the number of a knob
 * @kobj: directory
 * @attr: of the knob
 * @buf:  for the text
 *
 * Context: reads of sysfs.
 * Return: length of the text.
 */
ssize_t tier_knob_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf)
{
	const struct tier_knob *knob = container_of(attr, struct tier_knob, attr);

	return sysfs_emit(buf, "%u\n", READ_ONCE(*knob->value));
}

/**
 * tier_knob_store - set the number of a knob
 * @kobj:  directory
 * @attr:  of the knob
 * @buf:   a decimal number
 * @count: length of the text
 *
 * Context: writes to sysfs.
 * Return: @count, or -EINVAL: not a decimal number, or not from the lowest to the highest value;
 * nothing has changed then.
 */
ssize_t tier_knob_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
			size_t count)
{
	const struct tier_knob *knob = container_of(attr, struct tier_knob, attr);
	unsigned int val;

	/* kstrtouint() would take a sign. */
	if (!isdigit(buf[0]) || kstrtouint(buf, 10, &val) || val < knob->min || val > knob->max)
		return -EINVAL;
	WRITE_ONCE(*knob->value, val);
	return count;
}

/**
 * tier_part_add - add a part, and start the part if that is wished
 * @part: stays for ever
 *
 * Context: init calls after subsys_initcall(), once for each part; may sleep.
 * Return: 0, or -ENOMEM: there is no directory, so the part stays off.
 */
int tier_part_add(struct tier_part *part)
{
	int err;

	if (!tier_kobj)
		return -ENOMEM;
	part->kobj = kobject_create_and_add(part->name, tier_kobj);
	if (!part->kobj)
		return -ENOMEM;
	/* Without the lock: a writer to a file may wait for it, and removal for the writer. */
	err = sysfs_create_files(part->kobj, tier_part_attrs);
	if (!err && part->knobs)
		err = sysfs_create_group(part->kobj, part->knobs);
	if (err) {
		kobject_put(part->kobj);
		return err;
	}
	mutex_lock(&tier_parts_lock);
	list_add_tail_rcu(&part->list, &tier_parts);
	tier_parts_apply();
	mutex_unlock(&tier_parts_lock);
	return 0;
}

/* After memory-tiers' own, which has a higher priority */
static struct notifier_block tier_memory_nb = {
	.notifier_call	= tier_memory_changed,
};

static int __init tier_parts_init(void)
{
	int err;

	tier_kobj = kobject_create_and_add("tier", mm_kobj);
	if (!tier_kobj)
		return -ENOMEM;
	err = sysfs_create_files(tier_kobj, tier_attrs);
	if (err) {
		kobject_put(tier_kobj);
		tier_kobj = NULL;
		return err;
	}
	return 0;
}
subsys_initcall(tier_parts_init);

/* The memory tiers of boot memory come with late_initcall(). */
static int __init tier_parts_late(void)
{
	int err;

	if (!tier_kobj)
		return -ENOMEM;
	WRITE_ONCE(tier_ready, true);
	/* Before the look at what is there: memory that comes in between is not missed. */
	err = register_memory_notifier(&tier_memory_nb);
	tier_parts_retry(NULL);
	return err;
}
late_initcall_sync(tier_parts_late);
