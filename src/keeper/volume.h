/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_VOLUME_H
#define CAY_KEEPER_VOLUME_H
/*
 * volume - directories that outlive sandboxes (docs/adr/0121)
 *
 *	volumes/<id>/         locked by workers: those of readers share the lock
 *	volumes/<id>/volume   struct volume_record, written last: without it only `remove` can
 *	                      use the volume
 *	volumes/<id>/disk     upper: its files; lower: always empty; work: of overlayfs.  All in
 *	                      the foreign id range
 *	ranges/v<n>           a link to the id: n is what a project quota counts its files by
 *
 * A sandbox sees an overlay of the empty lower and the upper.  It is mounted with index=on, so
 * that the kernel refuses a second one that could write to the same files
 * (tests/platform/overlay-index.c).  A reader has both directories as lowers.
 */
#include "keeper/keeper-sandbox.h"

/* On the disk */

#define VOLUME_DISK "disk"
#define VOLUME_UPPER "disk/upper"
#define VOLUME_WORK "disk/work"

struct volume_record {
	uint32_t magic;  /* 0: it is not whole */
	uint32_t number; /* as disk_create() takes it; no sandbox has it */
};

struct volume {
	char name[ID_TEXT_LEN + 1];
	int dir; /* holds the lock */
	struct volume_record record;
};

#define auto_volume CAY_CLEANUP(volume_fini) struct volume
#define VOLUME_INIT ((struct volume){ .dir = -EBADF })

/* Lock and open, with LOCK_SH or LOCK_EX.  CAY_E_NOT_FOUND also for one whose creation was cut off.
 * Finish v also after a failure. */
[[nodiscard]] int volume_open(const struct keeper *k, const struct id *id, int lock,
			      struct volume *v, struct cay_err *err);
void volume_fini(struct volume *v);
/* It is one that nothing can ever be written to. */
bool volume_is_frozen(const struct volume *v);
/* Before its first mount, or when the kernel finds its lower gone. */
[[nodiscard]] int volume_forget_origin(int dir);
/* The overlay of upper, lower and work below `at`: a detached mount, or -errno; -EBUSY when another
 * mount may write to these files. */
[[nodiscard]] int volume_overlay_create(const char *at, bool read_only);

/* Mounts of a sandbox */

struct volume_mounts {
	struct {
		int dir;  /* volumes/<id>: holds the lock; not of a directory of the host */
		int disk; /* the same; detached, idmapped */
		int tree; /* the overlay, or the directory of the host; detached */
	} v[VERB_MOUNTS_MAX];
	unsigned n;
	const struct verb_mount *rows; /* the caller's */
};

/* Whether the kernel refuses a second writer on this file system; and forget numbers of volumes
 * that are gone.  At the start, before there are workers. */
void volumes_prepare(struct keeper *k);
/* Refuse writers where the kernel does not refuse a second one: files may have been brought from
 * another file system. */
[[nodiscard]] int volumes_check_writers(const struct keeper *k, const struct verb_mount *rows,
					struct cay_err *err);
/* In the host's mount namespace: lock and clone those in rows, which end with the first zero row.
 * Finish ret also after a failure. */
[[nodiscard]] int volume_mounts_open(const struct keeper *k, const struct sandbox *sb,
				     const struct verb_mount *rows, int userns,
				     struct volume_mounts *ret, struct cay_err *err);
/* On the stage: put the clones into their places. */
[[nodiscard]] int volume_mounts_attach_disks(const struct volume_mounts *m, struct cay_err *err);
/* With the ids of the sandbox's root: create the missing directories of their paths below root, and
 * the overlays. */
[[nodiscard]] int volume_mounts_create(struct volume_mounts *m, int root, struct cay_err *err);
/* Mount them below root. */
[[nodiscard]] int volume_mounts_attach(const struct volume_mounts *m, int root,
				       struct cay_err *err);
void volume_mounts_fini(struct volume_mounts *m);
#endif
