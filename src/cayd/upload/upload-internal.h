/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_UPLOAD_UPLOAD_INTERNAL_H
#define CAY_CAYD_UPLOAD_UPLOAD_INTERNAL_H
/*
 * Shared by upload.c and upload-disk.c.  Everything in upload-disk.c runs in workers: it touches
 * the disk and uses only its arguments, nothing else of cayd.
 */
#include <stdatomic.h>

#include "cayd/upload/upload.h"
#include "file/hash.h"

#define UPLOAD_TEMP_LEN 16

struct uploads {
	int root;              /* uploads/; cayd owns the fd */
	int incoming;          /* uploads/new: incomplete uploads, and trees being removed */
	uv_mutex_t names_lock; /* held while a name below root changes, and while uploads are
				  counted */
	struct upload_receive *receives;
	struct upload_task *tasks;
};

struct upload {
	char name[UPLOAD_NAME_MAX + 1];
	char sha256[FILE_HASH_HEX + 1]; /* "": not stored, or the disk has no attributes */
	uint64_t size, created_ns;
};

struct upload_file {
	int fd;
	char temp[UPLOAD_TEMP_LEN + 1]; /* its name in `incoming`; "" once it has moved */
	struct file_hash hash;
	char sha256[FILE_HASH_HEX + 1]; /* set by upload_file_commit() */
	uint64_t size;                  /* so far */
	uint64_t synced;                /* synced part, which shortens the last sync */
	uint64_t room;                  /* free quota when it was counted */
	atomic_bool group_deleted;
};

/* Create the file of an upload of at least this size; sets room. */
[[nodiscard]] int upload_file_create(struct upload_file *f, const struct upload_location *at,
				     uint64_t size, uint64_t quota, struct cay_err *err);
/* Set room again; fails if not even what came so far fits. */
[[nodiscard]] int upload_file_recount(struct upload_file *f, const struct upload_location *at,
				      uint64_t quota, struct cay_err *err);
[[nodiscard]] int upload_file_append(struct upload_file *f, struct slice bytes,
				     struct cay_err *err);
/* Verify it against the request, check the quota again, and give it its name. */
[[nodiscard]] int upload_file_commit(struct upload_file *f, const struct upload_location *at,
				     const struct upload_put_query *want, uint64_t quota,
				     struct upload *ret, struct cay_err *err);
/* Remove it unless it has its name. */
void upload_file_fini(struct upload_file *f, const struct upload_location *at);

/* Sorted by name, at most UPLOADS_GROUP; a group without uploads has no directory. */
[[nodiscard]] int upload_list_rows(const struct upload_location *at, struct upload *rows,
				   size_t *ret_n, struct cay_err *err);
/* Returns an fd for reading. */
[[nodiscard]] int upload_file_open(const struct upload_location *at, struct upload *ret,
				   struct cay_err *err);
[[nodiscard]] int upload_file_remove(const struct upload_location *at, struct upload *ret,
				     struct cay_err *err);
/* All uploads of a group; without a group, all of the tenant. */
[[nodiscard]] int upload_dir_remove(const struct upload_location *at, struct cay_err *err);
#endif
