/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_IMAGE_STORE_H
#define CAY_KEEPER_IMAGE_STORE_H
/*
 * image-store - images on disk: add, commit, remove
 *
 *	images/sha256/HEX/rootfs/  HEX is the digest of the manifest
 *	images/sha256/HEX/disk/    or, for a layer: the disk of a sandbox, with its upper
 *	images/sha256/HEX/parent   for a layer: a link to the HEX of its parent
 *	images/tmp/                work in progress; cleared when the keeper starts
 *
 * Everything in a rootfs belongs to the foreign range: host id = 0x7FFE0000 + id in the image.
 * HEX/ appears whole: it is unpacked in tmp/, synced, renamed.
 *
 * Root parses nothing.  A confined child does (unpack-confine.h, unpack.h); root reads one
 * struct of fixed size from it, whose every member is checked, and two memfds of checked size:
 * the config, and the manifest, whose digest root computes.  A compromised child can lie about
 * the image it was given, also by the manifest of another image.  So a digest that exists already
 * is the same image only if root finds the same tree there (tree-compare.h); else it is refused.
 */
#include <stdint.h>

#include "base/err.h"
#include "disk/disk.h"

#define IMAGE_LAYERS_MAX 16
#define IMAGE_ROOTFS "rootfs"
#define IMAGE_DISK "disk"
#define IMAGE_UPPER "disk/upper"

struct image_store_added {
	uint8_t digest[32];
	uint64_t bytes; /* of its files, including those a later layer replaced */
	int config_fd;  /* sealed memfd, image_config as JSON; the caller closes it */
};

/* images_fd: images/, open for reading, owned by root; tar_fd: from a client.  Succeeds when the
 * same image exists already; CAY_E_STATE when other files have its digest.  Blocks while unpacking,
 * at most ten minutes.  Leaves nothing on failure. */
[[nodiscard]] int image_store_add(int images_fd, int tar_fd, uint64_t max_bytes, uint64_t which,
				  struct image_store_added *ret, struct cay_err *err);
/* An image and its parents, topmost first.  Returns their number; -ENOENT when one does not exist,
 * -ELOOP when there are more than IMAGE_LAYERS_MAX. */
[[nodiscard]] int image_store_read_chain(int images_fd, const uint8_t digest[static 32],
					 uint8_t ret[static IMAGE_LAYERS_MAX][32]);
struct image_copy {
	/* Called before the files are read: no process may use the disk from now on. */
	int (*begin)(void *arg, struct cay_err *err);
	/* Called when the files are copied or cannot be: processes may use the disk again. */
	int (*copied)(void *arg, struct cay_err *err);
	void *arg;
	uint8_t parent[32]; /* returned: of the new image */
	uint64_t bytes; /* returned: of its files, if they are those of several layers; else 0 */
};
/* Turn the disk in box_fd into an image over its parent.  No process may use it.  Succeeds when the
 * image exists already; on failure the disk may be gone.  copy: leave the disk as it is, and where
 * its parent has no room for another layer, make one of all layers instead (docs/adr/0145); or
 * NULL.
 */
[[nodiscard]] int image_store_commit(int images_fd, const struct disk *disk, int sandbox_fd,
				     const uint8_t parent[static 32],
				     const uint8_t digest[static 32], struct image_copy *copy,
				     struct cay_err *err);
/* Succeeds when absent, and removes what a copy that was not finished left; CAY_E_STATE when it is
 * the parent of another image. */
[[nodiscard]] int image_store_remove(int images_fd, const struct disk *disk,
				     const uint8_t digest[static 32], struct cay_err *err);
/* Remove disks a crashed commit or removal left in tmp/; rmtree_at() can do the rest. */
void image_store_sweep_tmp(int images_fd, const struct disk *disk);
#endif
