/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_PROC_MEMINFO_H
#define CAY_INIT_PROC_MEMINFO_H
/*
 * view - what programs inside find out about memory and CPUs
 *
 * /proc/meminfo is a file of the keeper's that only PID 1 can write: as often as once a
 * second while somebody runs something, less often while nothing changes, and not at all
 * while nobody does.  Whatever PID 1 starts begins on as many CPUs as
 * /sys/devices/system/cpu/online says; it may ask for others, its quota stays.
 */
#include <uv.h>

struct init;

struct meminfo {
	int fd; /* -EBADF: there is none */
	uv_timer_t timer;
	uint64_t interval_ms, written_ms, last_used;
};

/* Write it for the first time. */
void meminfo_start(struct init *in);
/* Somebody is about to run something. */
void meminfo_wake(struct init *in);
/* In a child: keep to as many CPUs as there are to be, from the one it is on. */
void child_limit_cpus(void);
#endif
