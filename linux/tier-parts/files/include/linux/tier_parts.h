/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Home of memory tiering: /sys/kernel/mm/tier/, rows of /proc/vmstat, and faults in debugfs.  See
 * mm/tier_parts/.
 */
#ifndef _LINUX_TIER_PARTS_H
#define _LINUX_TIER_PARTS_H

#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/nodemask.h>
#include <linux/percpu.h>
#include <linux/sysfs.h>
#include <linux/types.h>

struct dentry;
struct seq_file;

/**
 * enum tier_part_state - does a part do what the administrator wishes?
 * @TIER_PART_OFF:		not wished
 * @TIER_PART_WAITING:		wished; starts as soon as the part can
 * @TIER_PART_ON:		works
 * @TIER_PART_UNSUPPORTED:	wished; this machine cannot do it
 */
enum tier_part_state {
	TIER_PART_OFF,
	TIER_PART_WAITING,
	TIER_PART_ON,
	TIER_PART_UNSUPPORTED,
};

/**
 * struct tier_part - a part of memory tiering
 * @name:	of the part's directory
 * @wish:	does the part work while memory tiering is on?  The default at first
 * @optional:	memory tiering counts as on while the part waits
 * @knobs:	the part's own files, or NULL
 * @start:	begin to work; 0, -EOPNOTSUPP (this machine cannot do it), or another error (wait,
 *		and try again).  *@reason becomes a line that says why
 * @stop:	end what @start has begun
 * @runs:	does the part still work?  NULL if it does not end by itself
 * @kobj:	the directory
 * @state:	see enum tier_part_state
 * @reason:	of the state, or NULL
 * @list:	of all parts
 *
 * tier_parts_lock is held while @start, @stop and @runs are called; they may sleep.
 */
struct tier_part {
	const char *name;
	bool wish;
	bool optional;
	const struct attribute_group *knobs;
	int (*start)(const char **reason);
	void (*stop)(void);
	bool (*runs)(void);

	/* of mm/tier_parts/parts.c */
	struct kobject *kobj;
	enum tier_part_state state;
	const char *reason;
	struct list_head list;
};

/**
 * struct tier_knob - a number in a file of a part
 * @attr:	the file
 * @value:	of the number
 * @min:	the lowest
 * @max:	the highest
 */
struct tier_knob {
	struct kobj_attribute attr;
	unsigned int *value;
	unsigned int min;
	unsigned int max;
};

ssize_t tier_knob_show(struct kobject *kobj, struct kobj_attribute *attr, char *buf);
ssize_t tier_knob_store(struct kobject *kobj, struct kobj_attribute *attr, const char *buf,
			size_t count);

/* The initializer of a struct tier_knob */
#define TIER_KNOB(_name, _value, _min, _max) {						\
	.attr = __ATTR(_name, 0644, tier_knob_show, tier_knob_store),			\
	.value = (_value), .min = (_min), .max = (_max),				\
}

int tier_part_add(struct tier_part *part);
void tier_parts_changed(void);

/**
 * struct tier_counters - rows of /proc/vmstat
 * @names:	of the rows, each with a space at its end
 * @nr:		of rows
 * @counts:	an array of @nr unsigned long for each CPU; a row is their sum
 * @gauge:	the last row is this instead, or NULL
 * @list:	of all counters
 */
struct tier_counters {
	const char * const *names;
	unsigned int nr;
	unsigned long __percpu *counts;
	unsigned long (*gauge)(void);
	struct list_head list;
};

void tier_counters_add(struct tier_counters *counters);

#ifdef CONFIG_TIER_PARTS
void tier_counters_show(struct seq_file *m);
#else
static inline void tier_counters_show(struct seq_file *m) { }
#endif

void tier_nodes_hot(unsigned long (*hot)(int nid));

/* mm/memory-tiers.c */
int memory_tier_describe(int nid, nodemask_t *targets);

/* With CONFIG_DEBUG_FS */
struct dentry *tier_debug_dir(const char *part);

/* With CONFIG_TIER_FAULTS */
void tier_faults_add(const char *part, const char * const *names, bool *faults, unsigned int nr);

#endif /* _LINUX_TIER_PARTS_H */
