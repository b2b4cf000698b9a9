/* SPDX-License-Identifier: Apache-2.0 */
#include "file/atomic-write.h"
#include "init/core/users.h"
#include "init/exec/exec-child.h"
#include "init/file/file-read.h"
#include "text/hex.h"

int file_owner_resolve(const char *text, uid_t *ret_uid, gid_t *ret_gid, struct cay_err *err)
{
	auto_buf passwd = BUF_INIT(USERS_FILE_MAX), group = BUF_INIT(USERS_FILE_MAX);
	static struct user user; /* static: the process is its own */
	int r;

	*ret_uid = (uid_t)-1;
	*ret_gid = (gid_t)-1;
	if (!text)
		return 0;
	/* without these files an image has only numeric users */
	(void)!image_file_read("/etc/passwd", &passwd);
	(void)!image_file_read("/etc/group", &group);
	r = user_find(slice_of(text), (struct slice){ passwd.data, passwd.len },
		      (struct slice){ group.data, group.len }, &user, err);
	if (r < 0) {
		*err = (struct cay_err){};
		return cay_fail_field(err, CAY_E_INVALID, "owner", "no such user or group");
	}
	*ret_uid = user.uid;
	if (strchr(text, ':'))
		*ret_gid = user.gid;
	return 0;
}

static int file_write_read_hash(const char *text, const char *field, unsigned char *to,
				const unsigned char **ret, struct cay_err *err)
{
	if (!text)
		return 0;
	if (hex_decode(text, strlen(text), to, FILE_HASH_LEN) < 0)
		return cay_fail_field(err, CAY_E_INVALID, field,
				      "expected 64 lower-case hexadecimal digits");
	*ret = to;
	return 0;
}

static int file_write_read_query(const struct file_write_query *q, struct arena *arena,
				 unsigned char hashes[2][FILE_HASH_LEN],
				 struct atomic_write_conf *ret, struct cay_err *err)
{
	int r = file_path_decode(q->path, q->path_b64, "path", arena, &ret->path, err);

	ret->parents = q->parents;
	ret->create_only = q->create_only;
	ret->append = q->append;
	ret->has_size = q->has_size;
	ret->size = q->size;
	ret->has_mode = q->mode;
	if (r >= 0 && q->mode && file_mode_parse(q->mode, &ret->mode) < 0)
		r = cay_fail_field(err, CAY_E_INVALID, "mode",
				   "expected three or four octal digits");
	if (r >= 0)
		r = file_write_read_hash(q->sha256, "sha256", hashes[0], &ret->new_hash, err);
	if (r >= 0)
		r = file_write_read_hash(q->if_sha256, "if_sha256", hashes[1], &ret->old_hash, err);
	return r < 0 ? r : file_owner_resolve(q->owner, &ret->uid, &ret->gid, err);
}

/* All of the body; the caller replies for its end or its failure. */
static ssize_t file_write_body(struct child_op *w, struct atomic_write *p, struct cay_err *err)
{
	const void *bytes = NULL;
	ssize_t n;

	while ((n = child_op_read_piece(w, &bytes)) > 0)
		if (atomic_write_add(p, bytes, (size_t)n, err) < 0)
			return 0;
	return n;
}

/* Prepare the reply first: without it, nothing is changed. */
static int file_write_commit(struct atomic_write *p, struct arena *arena, struct file_written *ret,
			     struct cay_err *err)
{
	char *hex = arena_alloc(arena, 1, FILE_HASH_HEX + 1);
	int r;

	*ret = (struct file_written){ .sha256 = hex };
	if (!hex || file_path_encode(p->conf.path, arena, &ret->path, &ret->path_b64) < 0)
		return cay_no_memory(err);
	r = atomic_write_commit(p, err);
	if (r < 0)
		return r;
	hex_encode(p->written_hash, sizeof(p->written_hash), hex);
	ret->size = p->size;
	ret->created = p->created;
	return 0;
}

int file_write_content(const struct file_write_query *q, struct slice content, struct arena *arena,
		       struct file_written *ret, struct cay_err *err)
{
	unsigned char hashes[2][FILE_HASH_LEN];
	struct atomic_write_conf conf = {};
	auto_atomic_write p = ATOMIC_WRITE_INIT;
	int r = file_write_read_query(q, arena, hashes, &conf, err);

	if (r >= 0)
		r = atomic_write_begin(&p, &conf, err);
	if (r >= 0 && content.n)
		r = atomic_write_add(&p, content.p, content.n, err);
	return r < 0 ? r : file_write_commit(&p, arena, ret, err);
}

void child_file_write(struct child_op *w, struct request *rq)
{
	unsigned char hashes[2][FILE_HASH_LEN];
	struct atomic_write_conf conf = {};
	auto_atomic_write p = ATOMIC_WRITE_INIT;
	struct file_written reply = {};
	struct cay_err err = {};
	ssize_t n = 0;

	if (file_write_read_query(rq->query, &rq->arena, hashes, &conf, &err) >= 0 &&
	    atomic_write_begin(&p, &conf, &err) >= 0)
		n = file_write_body(w, &p, &err);
	if (n >= 0 && !err.code)
		(void)file_write_commit(&p, &rq->arena, &reply, &err);
	if (n < 0 || err.code) {
		atomic_write_fini(&p); /* after an error reply the old file is there */
		p = ATOMIC_WRITE_INIT;
	}
	if (n < 0)
		child_op_fail_body(w, n);
	else
		child_op_reply_json(w, &file_written_table, &reply, &err);
}
