/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_KEEPER_IMAGE_STORE_H
#define CAY_KEEPER_IMAGE_STORE_H
/*
 * image - images on disk: add one, remove one
 *
 *	images/sha256/HEX/rootfs/    HEX is the digest of the manifest
 *	images/sha256/HEX/disk/      or, of a layer: the disk of the sandbox it was, whose
 *	                             upper goes over
 *	images/sha256/HEX/parent     a link that says the HEX of this image
 *	images/tmp/                  what is being added or removed; swept with
 *	                             rmtree_contents() when the keeper starts
 *
 * Everything in a rootfs belongs to the foreign range: host id = 0x7FFE0000 + id
 * in the image.  HEX/ is made whole: unpacked in tmp/, synced, renamed.
 *
 * Root's process parses nothing.  A confined child does (confine.h, unpack.h);
 * of it root takes one struct of fixed size, whose every member is checked, and a
 * memfd whose size is.  What a child that was taken over can do is lie about the
 * image it was given.
 */
#include <stdint.h>

#include "base/err.h"
#include "disk/disk.h"

#define IMAGE_LAYERS_MAX 8
#define IMAGE_ROOTFS "rootfs"
#define IMAGE_DISK "disk"
#define IMAGE_UPPER "disk/upper"

#define IMAGE_LAYERS_MAX 8
#define IMAGE_ROOTFS "rootfs"
#define IMAGE_DISK "disk"
#define IMAGE_UPPER "disk/upper"

struct image_store_added {
	uint8_t digest[32];
	uint64_t bytes; /* of its files; those a later layer replaced count too */
	int config_fd;  /* memfd, sealed, image_config as JSON; the caller closes it */
};

/* images_fd: directory images/, open for reading, root's; tar_fd: from a client.
 * Being there already is success.  It blocks as long as unpacking takes, ten
 * minutes at the most.  On failure nothing is left behind. */
[[nodiscard]] int image_store_add(int images_fd, int tar_fd, uint64_t max_bytes,
				  struct image_store_added *ret, struct cay_err *err);
/* An image and those it is over, the topmost first.  Returns how many; -ENOENT when
 * one is gone, -ELOOP when there are more than IMAGE_LAYERS_MAX. */
[[nodiscard]] int image_store_read_chain(int images_fd, const uint8_t digest[static 32],
					 uint8_t ret[static IMAGE_LAYERS_MAX][32]);
/* The disk in box_fd becomes an image over its parent.  No process may use it.  Being
 * there already is success; on failure the disk may be gone. */
[[nodiscard]] int image_store_commit(int images_fd, const struct disk *disk, int box_fd,
				     const uint8_t parent[static 32],
				     const uint8_t digest[static 32], struct cay_err *err);
/* Being absent is success; CAY_E_STATE when another image is over it. */
[[nodiscard]] int image_store_remove(int images_fd, const struct disk *disk,
				     const uint8_t digest[static 32], struct cay_err *err);
/* Disks that a commit or a removal which died left in tmp/: rmtree_at() can do the rest. */
void image_store_sweep_tmp(int images_fd, const struct disk *disk);
#endif
