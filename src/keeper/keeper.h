/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_KEEPER_H
#define CAY_KEEPER_KEEPER_H
/*
 * keeper - the one program that runs as root, and its state
 *
 *	main.c            start: directories, cgroups, stage, probes; then serve
 *	server.c          one client, its messages, a worker process for each
 *	keeper-sandbox.c  a sandbox on this machine; every verb but start
 *	start.c           the start verb
 *	trash.c           files of removed sandboxes
 *	written.c         what a sandbox has written to disks
 *	proc-view.c       files of /proc and /sys that show the limits
 *	overlay.c         a sandbox's file system
 *	volume*.c         directories that outlive sandboxes
 *	host-dir.c        directories of the host that an operator has named
 *	mount-stage.c     the mount namespace workers start from
 *	memory-guard.c    ceilings of tenants, when memory becomes short
 *	sandbox-cgroup.c  processes and limits of a sandbox
 *	runtime.c         run a runtime
 *	runtime-probe.c   whether a runtime may be used
 *	image*.c          images: the verbs, and the steps before and after unpacking
 *
 * A worker is a fork that carries out one verb, replies and exits; one that only wrote a few
 * files of a cgroup waits for the next.  It shares nothing with the keeper but struct keeper,
 * which never changes after the start.  `remove` cleans up, by name, whatever a worker leaves
 * half done.
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
	int argc; /* to reload the settings */
	char **argv;
	uid_t pull_uid; /* 0: there is no such user */
	gid_t pull_gid;
	uid_t egress_uid, broker_uid; /* 0: there is no such user */
	gid_t egress_gid;
	uid_t control_uid;
	gid_t control_gid;
	int images, sandboxes, ranges, trash, volumes; /* below paths.state */
	int sockets;                                   /* paths.run/box: ours and those of PID 1 */
	struct disk disk;                              /* the file system of boxes/ */
	struct cgroups cgroups;
	struct cgroup workers;      /* WORKERS_CGROUP: all processes that act for a client */
	struct cgroup trash_cgroup; /* the process that empties the trash */
	struct mount_stage stage;
	struct buf filter;          /* for runtimes that take it */
	uint32_t runtimes;          /* a bit for each usable row of runtimes[] */
	bool volumes_are_exclusive; /* the kernel refuses a second writer */
	bool volumes_are_shared;    /* it does not; both are false where that is not known */
	struct keeper_host_dirs *host_dirs;
};

[[nodiscard]] int keeper_make_dirs(struct keeper *k, struct cay_err *err);
/* Serve until SIGTERM or SIGINT. */
[[nodiscard]] int keeper_serve(struct keeper *k, struct cay_err *err);

struct verb_result {
	union {
		struct verb_start_reply start;
		struct verb_image_add_reply image;
		struct verb_image_commit_reply commit;
		struct verb_list_reply list;
		struct verb_usage_reply usage;
		struct verb_remove_reply removed;
		struct verb_snapshot_reply snapshot;
		struct verb_volume_list_reply volumes;
	};
	int fd;               /* sent along, -EBADF for none */
	bool worker_reusable; /* the worker is unchanged: another verb may follow */
	bool trash_left;      /* files were left for the process that empties the trash */
};

/* Verbs, in keeper-sandbox.c, start.c, stop.c, reclaim.c, snapshot.c, pack.c, volume.c and
 * image-verbs.c.  The comment of each names what an attacker who owns cayd could make it do. */
typedef int verb_fn(const struct keeper *k, const void *request, int fd, struct verb_result *result,
		    struct cay_err *err);
verb_fn verb_prepare, verb_start, verb_kill, verb_freeze, verb_thaw, verb_reclaim, verb_limits,
	verb_remove, verb_stop, verb_restore, verb_list, verb_image_add, verb_image_remove,
	verb_usage, verb_image_commit, verb_snapshot, verb_net, verb_pack, verb_image_pack,
	verb_volume_make, verb_volume_copy, verb_volume_limit, verb_volume_remove, verb_volume_list;
#endif
