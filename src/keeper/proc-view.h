/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_PROC_VIEW_H
#define CAY_KEEPER_PROC_VIEW_H
/*
 * view - what of /proc and /sys says what a sandbox may use, not what the machine has
 *
 * Small files, mounted read-only over the kernel's own (docs/adr/0033).  Those about CPUs
 * are the same for all sandboxes with as many and are made when the first one needs
 * them; meminfo is each one's own and PID 1 writes it.
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
	int trees[PROC_VIEW_NUM]; /* detached mounts, -EBADF for those that stay as they are */
	int meminfo;              /* for PID 1 to write */
};

#define PROC_VIEW_INIT \
	((struct proc_view){ { -EBADF, -EBADF, -EBADF, -EBADF, -EBADF, -EBADF }, -EBADF })
#define auto_proc_view CAY_CLEANUP(proc_view_fini) struct proc_view

/* On the stage: the files for so many CPUs; with a name also a meminfo, in
 * that bundle.  v is VIEW_INIT
 * before. */
[[nodiscard]] int proc_view_open(uint32_t cpu_milli, const char *name, struct proc_view *v,
				 struct cay_err *err);
/* In the sandbox's mount namespace; those that are there are replaced. */
[[nodiscard]] int proc_view_mount(const struct proc_view *v, bool replace, struct cay_err *err);
void proc_view_fini(struct proc_view *v);
#endif
