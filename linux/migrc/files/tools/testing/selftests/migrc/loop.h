/* SPDX-License-Identifier: GPL-2.0 */
/* Block devices in memory: loop devices on memfds, one to swap to, one to write to directly. */
#ifndef _MIGRC_LOOP_H
#define _MIGRC_LOOP_H

#include <stdbool.h>
#include <stddef.h>

struct loop {
	char path[32];
	int fd;		/* O_DIRECT; the device goes away when it is closed */
};

/* @swap: make it ready for swapon(2) */
bool loop_create(struct loop *loop, size_t size, bool swap);
void loop_destroy(struct loop *loop);

#endif /* _MIGRC_LOOP_H */
