/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_MEMINFO_H
#define CAY_INIT_EXEC_MEMINFO_H
/*
 * meminfo - the sandbox's /proc/meminfo
 *
 * The keeper mounts a file there that only PID 1 can write.  It does so at most once a second
 * while an exec or service runs, less often while nothing changes, and never while nothing
 * runs.
 */
struct init;

void meminfo_start(struct init *in);
/* An exec is about to start. */
void meminfo_wake(struct init *in);
#endif
