/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_TRANSFER_IMAGE_TAR_H
#define CAY_CLI_TRANSFER_IMAGE_TAR_H
/*
 * image-tar - an OCI image layout as the tar stream that image.import takes
 *
 * A directory is packed on the fly, and equal directories give equal bytes: oci-layout,
 * index.json and blobs/, sorted by name, and nothing else.  A symbolic link or anything but
 * a regular file is refused.  A tar archive is sent unread; the daemon checks it.
 *
 * The length is known before the first byte.  A file that shrinks meanwhile is an error;
 * bytes added to one are not sent.
 */
#include <stdint.h>
#include <sys/types.h>

#include "archive/tar.h"
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
	size_t next;              /* file to begin next */
	int current;              /* fd of the file being sent */
	uint64_t left;            /* bytes of it, or of the archive */
	struct tar_writer writer; /* its output is pending */
	struct buf pending;
	bool finished;
};

#define IMAGE_TAR_INIT \
	((struct image_tar){ .fd = -EBADF, \
			     .current = -EBADF, \
			     .arena = ARENA_INIT(MIB(8)), \
			     .pending = BUF_INIT(KIB(128)) })
#define auto_layout CAY_CLEANUP(image_tar_fini) struct image_tar

/* path "-" is standard input. */
[[nodiscard]] int image_tar_open(struct image_tar *l, const char *path, struct cay_err *err);
void image_tar_fini(struct image_tar *l);
/* The next bytes: how many, 0 at the end. */
[[nodiscard]] ssize_t image_tar_read(struct image_tar *l, void *to, size_t n, struct cay_err *err);
#endif
