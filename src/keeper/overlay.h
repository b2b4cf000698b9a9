/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_OVERLAY_H
#define CAY_KEEPER_OVERLAY_H
/*
 * overlay - a sandbox's root: an overlay of the image and the sandbox's changes
 *
 * On disk everything belongs to the foreign id range; detached clones of the trees (an image may
 * have several layers) are idmapped to the sandbox's live range and mounted in the worker's
 * namespace under neutral names (tests/platform/foreign-range.c).  Changes may be in memory.
 *
 * A read-only root is the same overlay with a read-only mount; writable paths are writable
 * mounts of that overlay on top of it (docs/adr/0032).
 */
#include "keeper/image-store.h"
#include "keeper/keeper-sandbox.h"
#include "keeper/volume.h"

struct overlay {
	int lower[IMAGE_LAYERS_MAX]; /* detached, idmapped; topmost first */
	unsigned n_lower;
	int upper; /* the same; -EBADF when in memory */
	struct volume_mounts volumes;
};

struct overlay_options {
	struct disk_size memory; /* size of an upper in memory; zeros: on disk */
	bool read_only;
	uint32_t writable;               /* rows of writable.def that stay writable */
	const struct verb_mount *mounts; /* VERB_MOUNTS_MAX volumes; NULL: none */
};

/* What a mount shows of the ids on disk: n users from uid and n groups from gid on, as ids from
 * live on. */
struct id_map {
	uint32_t uid, gid, live, n;
};

/* A user namespace with this map, for mount_clone(): an fd, or -errno.  Creating it takes a
 * process. */
[[nodiscard]] int userns_create(const struct id_map *map);

#define auto_overlay CAY_CLEANUP(overlay_fini) struct overlay
#define OVERLAY_INIT ((struct overlay){ .upper = -EBADF })

/* Call in the host's mount namespace. */
[[nodiscard]] int overlay_open(const struct keeper *k, const struct sandbox *sb,
			       const struct overlay_options *how, struct overlay *ret,
			       struct cay_err *err);
/* The files of an image and its parents as one read-only tree with the ids on disk: an fd, or
 * -errno. */
[[nodiscard]] int overlay_open_image(const struct keeper *k, const uint8_t digest[static 32]);
/* Call on the stage: mount it on STAGE_ROOT; refuse one with mount targets that are no directories.
 */
[[nodiscard]] int overlay_mount(struct overlay *r, uint32_t live, const struct overlay_options *how,
				struct cay_err *err);
/* Only that check. */
[[nodiscard]] int overlay_check_mount_targets(int root, struct cay_err *err);
/* Open a directory by its path below root, each part of it created if absent: the last one
 * world-writable.  Links are refused. */
[[nodiscard]] int overlay_make_path(int root, const char *path);
void overlay_fini(struct overlay *r);
#endif
