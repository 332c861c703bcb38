/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Somebody who reads a word until told that he may not do so any more, and then once again:
 * that read must not succeed.
 */
#ifndef _MIGRC_PROBE_H
#define _MIGRC_PROBE_H

#include "threads.h"

struct probe;

/* Runs on @worker; returns when it has read. */
struct probe *probe_start(struct worker *worker, void *word);
/* It may not read any more: was the last read refused?  Ends it. */
bool probe_refused(struct probe *probe);

#endif /* _MIGRC_PROBE_H */
