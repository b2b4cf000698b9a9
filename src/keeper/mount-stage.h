/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_MOUNT_STAGE_H
#define CAY_KEEPER_MOUNT_STAGE_H
/*
 * mount-stage - the small mount namespace every worker starts from
 *
 * Created once when the keeper starts: a tmpfs with the parts of the host a runtime needs (its
 * programs and libraries, read-only, and /proc), and the files every sandbox sees:
 *
 *	/proc /usr /lib* /etc/ld.so.cache /dev   for the runtime
 *	/sys/fs/cgroup                           a worker binds the sandbox's cgroup here
 *	/see/dev                                 /dev of a sandbox: nodes, links, cay-init
 *	/see/sys                                 /sys of a sandbox: a few files
 *	/see/cpus/N                              files of /proc for N CPUs (proc-view.h)
 *	/see/empty                               where a runtime hides a directory
 *	/state                                   of the runtime, a directory per sandbox
 *	/bundle                                  config.json, a directory per sandbox
 *	/l/N /u /r                               lowers, upper and root of the worker's sandbox
 *	/v/N                                     its volumes
 *
 * A worker calls setns and then unshare (docs/adr/0007): its mounts are private and vanish
 * with the last process of the sandbox.  A runtime sees nothing else of the host.
 *
 * No sandbox sees an inode of /see itself: it would show watches and locks of others.  A worker
 * covers it with an overlay of it (docs/adr/0063).
 */
#include "base/err.h"
#include "base/mem.h"
#include "oci/oci-config.h"

#define STAGE_STATE "/state"
#define STAGE_BUNDLE "/bundle"
#define STAGE_EMPTY "/state/.empty-directory"
#define STAGE_LOWER "/l" /* with a number from 0, in hexadecimal */
#define STAGE_LOWERS 16
#define STAGE_UPPER "/u"
#define STAGE_VOLUME "/v" /* with a number from 0 */
#define STAGE_ROOT "/r"
#define STAGE_CPUS "/see/cpus"

struct mount_stage {
	int mount_ns;
	int state, bundle; /* STAGE_STATE and STAGE_BUNDLE, usable outside the namespace */
};

/* at: an existing directory to mount it on, in a new namespace; init_path: the program of PID 1. */
[[nodiscard]] int mount_stage_create(const char *at, const char *init_path, struct mount_stage *ret,
				     struct cay_err *err);
/* Remove a runtime's bundle and state of one sandbox. */
void mount_stage_remove_bundle(const struct mount_stage *s, const char *name);
/* Call on the stage, once, before anything of /see is shown to a sandbox. */
[[nodiscard]] int mount_stage_make_own(struct cay_err *err);
/* Enter a private copy; irreversible, for workers. */
[[nodiscard]] int mount_stage_enter(const struct mount_stage *s, struct cay_err *err);
#endif
