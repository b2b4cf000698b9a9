/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_PROC_VIEW_H
#define CAY_KEEPER_PROC_VIEW_H
/*
 * proc-view - files of /proc and /sys that show a sandbox's limits instead of the machine's
 *
 * Small files, mounted read-only over the kernel's (docs/adr/0033).  Those about CPUs are created
 * for the first sandbox with as many, and others show them by inodes of their own; each has its own
 * meminfo, which PID 1 writes.
 */
#include <stdint.h>

#include "base/err.h"
#include "base/mem.h"

enum proc_view_file {
	PROC_VIEW_CPUINFO,
	PROC_VIEW_STAT,
	PROC_VIEW_ONLINE,
	PROC_VIEW_POSSIBLE,
	PROC_VIEW_PRESENT,
	PROC_VIEW_CPUS,
	PROC_VIEW_MEMINFO = PROC_VIEW_CPUS,
	PROC_VIEW_NUM
};

struct proc_view {
	int trees[PROC_VIEW_NUM]; /* detached mounts, -EBADF: keep the kernel's */
	int meminfo;              /* written by PID 1 */
};

#define PROC_VIEW_INIT \
	((struct proc_view){ { -EBADF, -EBADF, -EBADF, -EBADF, -EBADF, -EBADF }, -EBADF })
#define auto_proc_view CAY_CLEANUP(proc_view_fini) struct proc_view

/* Call on the stage, whose /see becomes the sandbox's own.  With a name, also create a meminfo in
 * that bundle.  v is PROC_VIEW_INIT before. */
[[nodiscard]] int proc_view_open(uint32_t cpu_milli, const char *name, struct proc_view *v,
				 struct cay_err *err);
/* Call in the sandbox's mount namespace; replace: unmount the old ones first. */
[[nodiscard]] int proc_view_mount(const struct proc_view *v, bool replace, struct cay_err *err);
void proc_view_fini(struct proc_view *v);
#endif
