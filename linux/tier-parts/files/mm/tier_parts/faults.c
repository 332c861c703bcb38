// SPDX-License-Identifier: GPL-2.0
/*
 * Faults: rules of memory tiering that a debug kernel can break on purpose.
 *
 * A test that has never failed proves little.  So each rule that keeps tiering from doing harm has
 * a file in /sys/kernel/debug/tier/faults/ that breaks the rule, and a test that must fail while
 * the file is set.  The boot parameter tier_faults=NAME,NAME sets files before they exist, for
 * tests that run while the kernel boots.
 *
 * Some faults corrupt data.  Never set one on a machine that matters.
 */

#define pr_fmt(fmt) "tier: " fmt

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/tier_parts.h>

#define TIER_FAULT_NAME_LEN	48

static char tier_faults_wanted[256];	/* of the boot parameter */

static int __init tier_faults_setup(char *str)
{
	if (str)
		strscpy(tier_faults_wanted, str);
	return 0;
}
early_param("tier_faults", tier_faults_setup);

static bool tier_fault_wanted(const char *name)
{
	const char *at = tier_faults_wanted;
	size_t len = strlen(name);

	for (;;) {
		if (!strncmp(at, name, len) && (!at[len] || at[len] == ','))
			return true;
		at = strchr(at, ',');
		if (!at++)
			return false;
	}
}

/**
 * tier_faults_add - create the files of faults
 * @part:   prefix of the names
 * @names:  of the rules
 * @faults: are set by the files
 * @nr:     of rules
 *
 * Context: init calls; may sleep.
 */
void tier_faults_add(const char *part, const char * const *names, bool *faults, unsigned int nr)
{
	struct dentry *dir = tier_debug_dir("faults");
	char name[TIER_FAULT_NAME_LEN];
	unsigned int i;

	for (i = 0; i < nr; i++) {
		snprintf(name, sizeof(name), "%s_%s", part, names[i]);
		debugfs_create_bool(name, 0600, dir, &faults[i]);
		if (tier_fault_wanted(name)) {
			pr_warn("fault %s is set\n", name);
			WRITE_ONCE(faults[i], true);
		}
	}
}
