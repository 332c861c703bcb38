/* SPDX-License-Identifier: GPL-2.0 */
/* Scans of NUMA balancing, by itself or on demand */
#ifndef _MIGRC_SCAN_H
#define _MIGRC_SCAN_H

#include <stdbool.h>

/* From now on pages of the slow node are scanned, often.  NULL, or what is missing */
const char *scans_begin(void);

/* One that waits before it flushes what it has changed */
struct scanner;

struct scanner *scanner_start(int cpu, unsigned int window_ms);
void scanner_stop(struct scanner *scanner);
/*
 * Scan the area that begins with @p.  Returns when its pages of the slow node are inaccessible
 * and nothing is flushed; false if there are none.
 */
bool scan_begin(struct scanner *scanner, char *p);
/* It has flushed. */
void scan_end(struct scanner *scanner);

#endif /* _MIGRC_SCAN_H */
