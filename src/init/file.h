/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_FILE_H
#define CAY_INIT_FILE_H
/*
 * file - operations on files: requests and replies around src/file, in children (work.h)
 */
#include "base/str.h"
#include "init/work.h"
#include "ops/types.h"

struct stat;

/* Was it one of these?  Then it is taken. */
bool file_api(struct init *in, struct request *rq);

/* Of the work calls: each takes the request's path and answers when it is none. */
[[nodiscard]] int file_told(const char *path, const struct stat *st, int dirfd, const char *name,
			    struct pool *pool, struct file_stat *ret);

/* Bytes as a reply has them: text, or base64 of what is none.  Both are allocated, and
 * the child's, which ends with its answer; who tells many forgets them. */
[[nodiscard]] int file_tell_bytes(struct slice s, const char **ret, const char **ret_b64);
void file_forget_bytes(const char *told, const char *told_b64);
/* A path that may be left out: then it is the workspace. */
[[nodiscard]] int file_place(const char *path, const char *path_b64, struct pool *pool,
			     const char **ret, struct cay_err *err);

/* What the operations of that name do, for a batch too. */
[[nodiscard]] int file_look(const struct file_stat_query *q, struct pool *pool,
			    struct file_stat *ret, struct cay_err *err);
[[nodiscard]] int file_put(const struct file_write_query *q, struct slice content,
			   struct pool *pool, struct file_written *ret, struct cay_err *err);

/* "user" or "user:group" of the sandbox; NULL: neither. */
[[nodiscard]] int file_owner(const char *text, uid_t *ret_uid, gid_t *ret_gid, struct cay_err *err);

work_fn file_read_work, file_stat_work, file_list_work, file_write_work;
work_fn file_change_work, file_batch_work;
work_fn file_view_work, file_glob_work;
work_fn tree_get_work, tree_put_work;
work_fn file_view_work, file_glob_work, file_grep_work;
work_fn file_view_work, file_glob_work, file_grep_work, file_watch_work, file_edit_work;
#endif
