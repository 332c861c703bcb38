/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Starting and stopping kmmscand, and its files: see main.c and sysfs.c.
 */
#ifndef _MM_TIER_KMMSCAND_MAIN_H
#define _MM_TIER_KMMSCAND_MAIN_H

#include <linux/types.h>

bool kmmscand_enabled(void);
int kmmscand_start(const char **reason);
void kmmscand_stop(void);

#endif /* _MM_TIER_KMMSCAND_MAIN_H */
