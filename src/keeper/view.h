/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_VIEW_H
#define CAY_KEEPER_VIEW_H
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

enum view_file {
	VIEW_CPUINFO,
	VIEW_STAT,
	VIEW_ONLINE,
	VIEW_POSSIBLE,
	VIEW_PRESENT,
	VIEW_CPUS,
	VIEW_MEMINFO = VIEW_CPUS,
	VIEW_NUM
};

struct view {
	int trees[VIEW_NUM]; /* detached mounts, -EBADF for those that stay as they are */
	int meminfo;         /* for PID 1 to write */
};

#define VIEW_INIT ((struct view){ { -EBADF, -EBADF, -EBADF, -EBADF, -EBADF, -EBADF }, -EBADF })
#define auto_view CAY_CLEANUP(view_fini) struct view

/* On the stage: the files for so many CPUs; with a name also a meminfo, in
 * that bundle.  v is VIEW_INIT
 * before. */
[[nodiscard]] int view_open(uint32_t cpu_milli, const char *name, struct view *v,
			    struct cay_err *err);
/* In the sandbox's mount namespace; those that are there are replaced. */
[[nodiscard]] int view_show(const struct view *v, bool replace, struct cay_err *err);
void view_fini(struct view *v);
#endif
