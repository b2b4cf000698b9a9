/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_TRANSFER_IMAGE_TAR_H
#define CAY_CLI_TRANSFER_IMAGE_TAR_H
/*
 * layout - an OCI image layout on its way to the daemon, as a tar stream
 *
 * A directory is turned into one on the fly, always into the same bytes: its
 * oci-layout, index.json and blobs/, by name, and nothing else.  A symbolic link
 * or anything but a plain file there is refused.  A tar archive is sent as it
 * is; the daemon looks inside, we do not.
 *
 * The length is known before the first byte.  A file that shrinks meanwhile is
 * an error, what one grows by is not sent.
 */
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/err.h"

#define IMAGE_TAR_FILES_MAX 16384

struct image_tar_file {
	const char *name;
	uint64_t size;
};

struct image_tar {
	int fd; /* the directory, or the archive */
	bool directory;
	bool endless;   /* a pipe: total is not known */
	uint64_t total; /* bytes of the stream */
	struct arena arena;
	struct image_tar_file *files; /* by name; NULL for an archive */
	size_t n_files;
	/* where we are */
	size_t next;     /* file whose head comes next */
	int current;     /* fd of the file being sent */
	uint64_t left;   /* bytes of it */
	uint64_t zeroes; /* padding still to come */
	bool finished;
};

#define IMAGE_TAR_INIT \
	((struct image_tar){ .fd = -EBADF, .current = -EBADF, .arena = ARENA_INIT(MIB(8)) })
#define auto_layout CAY_CLEANUP(image_tar_fini) struct image_tar

/* path "-" is standard input. */
[[nodiscard]] int image_tar_open(struct image_tar *l, const char *path, struct cay_err *err);
void image_tar_fini(struct image_tar *l);
/* The next bytes: how many, 0 at the end. */
[[nodiscard]] ssize_t image_tar_read(struct image_tar *l, void *to, size_t n, struct cay_err *err);
#endif
