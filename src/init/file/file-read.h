/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_FILE_FILE_READ_H
#define CAY_INIT_FILE_FILE_READ_H
/*
 * file-read - file operations: requests and replies around src/lib/file, in a child (child-op.h)
 */
#include "base/str.h"
#include "init/file/child-op.h"
#include "ops/types.h"

struct stat;

/* Of a DT_* constant. */
enum file_type file_type_from_dirent(unsigned char type);
/* dirfd and name are for reading a link's target. */
[[nodiscard]] int file_stat_describe(const char *path, const struct stat *st, int dirfd,
				     const char *name, struct arena *arena, struct file_stat *ret);

/* UTF-8 text, or base64 of other bytes.  Both are allocated; a child that replies once need
 * not free them. */
[[nodiscard]] int file_bytes_to_text(struct slice s, const char **ret, const char **ret_b64);
void file_bytes_free(const char *text, const char *text_b64);
/* A missing path means the workspace. */
[[nodiscard]] int file_path_or_workspace(const char *path, const char *path_b64,
					 struct arena *arena, const char **ret,
					 struct cay_err *err);

/* Also used by file.batch. */
[[nodiscard]] int file_stat_path(const struct file_stat_query *q, struct arena *arena,
				 struct file_stat *ret, struct cay_err *err);
[[nodiscard]] int file_write_content(const struct file_write_query *q, struct slice content,
				     struct arena *arena, struct file_written *ret,
				     struct cay_err *err);

/* "user" or "user:group" of the sandbox; NULL: unchanged. */
[[nodiscard]] int file_owner_resolve(const char *text, uid_t *ret_uid, gid_t *ret_gid,
				     struct cay_err *err);

child_op_fn child_file_read, child_file_stat, child_file_list, child_file_write;
child_op_fn child_file_change, child_file_batch, child_file_edit;
child_op_fn child_file_view, child_file_glob, child_file_grep, child_file_watch;
child_op_fn child_tree_get, child_tree_put;
#endif
