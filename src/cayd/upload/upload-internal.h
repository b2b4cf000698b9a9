/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_UPLOAD_UPLOAD_INTERNAL_H
#define CAY_CAYD_UPLOAD_UPLOAD_INTERNAL_H
/*
 * What upload.c and upload-disk.c share.  All of upload-disk.c is for workers: it touches
 * the disk, and of cayd nothing but what it is given.
 */
#include <stdatomic.h>

#include "cayd/upload/upload.h"
#include "file/hash.h"

#define UPLOAD_TEMP_LEN 16

struct uploads {
	int root;     /* uploads/, of which cayd keeps the fd */
	int incoming; /* uploads/new: what comes, and what goes */
	uv_mutex_t
		names_lock; /* names below root: one at a time, and none while they are counted */
	struct upload_receive *receives;
	struct upload_task *tasks;
};

struct upload {
	char name[UPLOAD_NAME_MAX + 1];
	char sha256[FILE_HASH_HEX + 1]; /* "" where it was not kept, or cannot be */
	uint64_t size, created_ns;
};

/* One that comes. */
struct upload_file {
	int fd;
	char temp[UPLOAD_TEMP_LEN + 1]; /* its name in `fresh`; "" once it has none there */
	struct file_hash hash;
	char sha256[FILE_HASH_HEX + 1]; /* once it is placed */
	uint64_t size;                  /* so far */
	uint64_t synced;                /* of it, so that the last sync has little to do */
	uint64_t room;                  /* as it was in the beginning */
	atomic_bool group_deleted;      /* its group was deleted since */
};

/* A file for one that will have at least this size, and how much there is room for. */
[[nodiscard]] int upload_file_create(struct upload_file *f, const struct upload_location *at,
				     uint64_t size, uint64_t quota, struct cay_err *err);
[[nodiscard]] int upload_file_append(struct upload_file *f, struct slice bytes,
				     struct cay_err *err);
/* All of it is there: it gets its name, if it is what was promised and there still is room. */
[[nodiscard]] int upload_file_commit(struct upload_file *f, const struct upload_location *at,
				     const struct upload_put_query *want, uint64_t quota,
				     struct upload *ret, struct cay_err *err);
/* What has not got its name goes. */
void upload_file_fini(struct upload_file *f, const struct upload_location *at);

/* By name, at most UPLOADS_GROUP; a group nobody put anything into has none. */
[[nodiscard]] int upload_list_rows(const struct upload_location *at, struct upload *rows,
				   size_t *ret_n, struct cay_err *err);
/* The fd to read it by. */
[[nodiscard]] int upload_file_open(const struct upload_location *at, struct upload *ret,
				   struct cay_err *err);
[[nodiscard]] int upload_file_remove(const struct upload_location *at, struct upload *ret,
				     struct cay_err *err);
/* All of a group; without one, all of the tenant. */
[[nodiscard]] int upload_dir_remove(const struct upload_location *at, struct cay_err *err);
#endif
