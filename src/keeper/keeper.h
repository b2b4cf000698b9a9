/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_KEEPER_H
#define CAY_KEEPER_KEEPER_H
/*
 * keeper - the one program that is root, and all it holds
 *
 *	main.c      start: directories, cgroups, stage, probes; then serve
 *	server.c    one client, its messages, a worker process for each
 *	keeper-sandbox.c       what a sandbox is on this machine; every verb but start
 *	start.c     the start verb
 *	proc-view.c      what of /proc and /sys says the limits
 *	overlay.c   a sandbox's file system
 *	mount-stage.c     the mount namespace workers start from
 *	sandbox-cgroup.c    who belongs to it, what it may use
 *	runtime.c   running a runtime
 *	runtime-probe.c     whether a runtime may be used
 *	image*.c    images: the verbs, and what happens before and after unpacking
 *
 * A worker is a fork that carries out one verb, answers and ends; one that has only
 * written a few files of a cgroup waits for the next.  Nothing is shared with the
 * keeper but what struct keeper holds, which never changes after the start.  Whatever
 * a worker leaves half done, `remove` takes away by name.
 */
#include "base/log.h"
#include "disk/disk.h"
#include "keeper/mount-stage.h"
#include "keeper/sandbox-cgroup.h"
#include "ops/settings.h"
#include "wire/verb.h"

#define WORKERS_CGROUP "workers"

struct keeper {
	struct settings settings;
	struct log log;
	int argc; /* to read the settings again */
	char **argv;
	uid_t control_uid;
	gid_t control_gid;
	int images, sandboxes, ranges; /* directories below paths.state */
	int sockets;                   /* paths.run/box: ours and those of PID 1s */
	struct disk disk;              /* what boxes/ is on */
	struct cgroups cgroups;
	struct cgroup workers; /* WORKERS_CGROUP: all that acts for a client */
	struct mount_stage stage;
	uint32_t runtimes; /* a bit for each row of runtimes[] that passed its probes */
};

/* Make and open the directories.  One function, so that what is where and whose
 * is said once. */
[[nodiscard]] int keeper_make_dirs(struct keeper *k, struct cay_err *err);
/* Serve until SIGTERM or SIGINT. */
[[nodiscard]] int keeper_serve(struct keeper *k, struct cay_err *err);

/* What a worker has to say beside its outcome. */
struct verb_result {
	union {
		struct verb_start_reply start;
		struct verb_image_add_reply image;
		struct verb_image_commit_reply commit;
		struct verb_list_reply list;
		struct verb_usage_reply usage;
	};
	int fd;               /* to send along, -EBADF for none */
	bool worker_reusable; /* the worker is as it was before: another verb may follow */
};

/* Verbs; keeper-sandbox.c, start.c and image-verbs.c.  Each says at its head what an attacker
 * who owns cayd could make it do. */
typedef int verb_fn(const struct keeper *k, const void *request, int fd, struct verb_result *result,
		    struct cay_err *err);
verb_fn verb_prepare, verb_start, verb_kill, verb_freeze, verb_thaw, verb_limits, verb_remove,
	verb_list, verb_image_add, verb_image_remove, verb_usage, verb_image_commit;
#endif
