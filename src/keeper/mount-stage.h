/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_MOUNT_STAGE_H
#define CAY_KEEPER_MOUNT_STAGE_H
/*
 * stage - the small mount namespace every worker starts from
 *
 * Made once when the keeper starts: a tmpfs with what a runtime needs of the
 * host (its programs and libraries, read-only, and /proc), the directories of
 * images and sandboxes, and what every sandbox gets to see:
 *
 *	/proc /usr /lib* /etc/ld.so.cache /dev   for the runtime
 *	/sys/fs/cgroup                           a worker binds the sandbox's cgroup here
 *	/see/dev                                 /dev of every sandbox: nodes, links, cay-init
 *	/see/sys                                 /sys of every sandbox: a few honest files
 *	/see/cpus/N                              files of /proc for N CPUs: proc-view.h
 *	/state                                   the runtime's, a directory per sandbox
 *	/bundle                                  config.json, a directory per sandbox
 *	/l/N /u /r                               lowers, upper and root of the worker's sandbox
 *
 * A worker does setns and then unshare (docs/adr/0007): what it mounts is its
 * own and goes when the last process of the sandbox goes.  Nothing of the host
 * beyond the list above is in sight of a runtime.
 */
#include "base/err.h"
#include "base/mem.h"
#include "oci/oci-config.h"

/* Paths inside. */
#define STAGE_STATE "/state"
#define STAGE_BUNDLE "/bundle"
#define STAGE_LOWER "/l" /* and a number, from 0 */
#define STAGE_LOWERS 8
#define STAGE_UPPER "/u"
#define STAGE_ROOT "/r"
#define STAGE_CPUS "/see/cpus"

struct mount_stage {
	int mount_ns;
	int state, bundle; /* STAGE_STATE and STAGE_BUNDLE, usable from outside */
};

/* at: an existing directory to build it on, in a namespace of its own; init_path:
 * the program that becomes PID 1. */
[[nodiscard]] int mount_stage_create(const char *at, const char *init_path, struct mount_stage *ret,
				     struct cay_err *err);
/* Forget what a runtime was told and wrote of one sandbox. */
void mount_stage_remove_bundle(const struct mount_stage *s, const char *name);
/* Enter a copy that nobody shares; not undone: the process is a worker. */
[[nodiscard]] int mount_stage_enter(const struct mount_stage *s, struct cay_err *err);
#endif
