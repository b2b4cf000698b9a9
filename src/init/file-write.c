/* SPDX-License-Identifier: Apache-2.0 */
#include "file/put.h"
#include "init/child.h"
#include "init/file.h"
#include "init/users.h"
#include "text/hex.h"

int file_owner(const char *text, uid_t *ret_uid, gid_t *ret_gid, struct cay_err *err)
{
	auto_buf passwd = BUF_INIT(USERS_FILE_MAX), group = BUF_INIT(USERS_FILE_MAX);
	static struct user user; /* of a process of our own */
	int r;

	*ret_uid = (uid_t)-1;
	*ret_gid = (gid_t)-1;
	if (!text)
		return 0;
	/* an image without these files has numbers for users */
	(void)!child_read_file("/etc/passwd", &passwd);
	(void)!child_read_file("/etc/group", &group);
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

static int read_hash(const char *text, const char *field, unsigned char *to,
		     const unsigned char **ret, struct cay_err *err)
{
	if (!text)
		return 0;
	if (hex_read(text, strlen(text), to, FILE_HASH_LEN) < 0)
		return cay_fail_field(err, CAY_E_INVALID, field, "not 64 lower-case hex digits");
	*ret = to;
	return 0;
}

static int plan(const struct file_write_query *q, struct pool *pool,
		unsigned char hashes[2][FILE_HASH_LEN], struct put_conf *ret, struct cay_err *err)
{
	int r = file_name(q->path, q->path_b64, "path", pool, &ret->path, err);

	ret->parents = q->parents;
	ret->create_only = q->create_only;
	ret->append = q->append;
	ret->has_size = q->has_size;
	ret->size = q->size;
	ret->has_mode = q->mode;
	if (r >= 0 && q->mode && file_mode(q->mode, &ret->mode) < 0)
		r = cay_fail_field(err, CAY_E_INVALID, "mode", "not three or four octal digits");
	if (r >= 0)
		r = read_hash(q->sha256, "sha256", hashes[0], &ret->new_hash, err);
	if (r >= 0)
		r = read_hash(q->if_sha256, "if_sha256", hashes[1], &ret->old_hash, err);
	return r < 0 ? r : file_owner(q->owner, &ret->uid, &ret->gid, err);
}

/* All of the body; how its end, or its lack, is answered is the caller's. */
static ssize_t take_body(struct work *w, struct put *p, struct cay_err *err)
{
	const void *bytes = NULL;
	ssize_t n;

	while ((n = work_read_piece(w, &bytes)) > 0)
		if (put_add(p, bytes, (size_t)n, err) < 0)
			return 0;
	return n;
}

/* What cannot be told is not done. */
static int commit(struct put *p, struct pool *pool, struct file_written *ret, struct cay_err *err)
{
	char *hex = pool_take(pool, 1, FILE_HASH_HEX + 1);
	int r;

	*ret = (struct file_written){ .sha256 = hex };
	if (!hex || file_tell_name(p->conf.path, pool, &ret->path, &ret->path_b64) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for an answer");
	r = put_commit(p, err);
	if (r < 0)
		return r;
	hex_write(p->got, sizeof(p->got), hex);
	ret->size = p->size;
	ret->created = p->created;
	return 0;
}

int file_put(const struct file_write_query *q, struct slice content, struct pool *pool,
	     struct file_written *ret, struct cay_err *err)
{
	unsigned char hashes[2][FILE_HASH_LEN];
	struct put_conf conf = {};
	auto_put p = PUT_INIT;
	int r = plan(q, pool, hashes, &conf, err);

	if (r >= 0)
		r = put_begin(&p, &conf, err);
	if (r >= 0 && content.n)
		r = put_add(&p, content.p, content.n, err);
	return r < 0 ? r : commit(&p, pool, ret, err);
}

void file_write_work(struct work *w)
{
	unsigned char hashes[2][FILE_HASH_LEN];
	struct put_conf conf = {};
	auto_put p = PUT_INIT;
	struct file_written told = {};
	struct cay_err err = {};
	ssize_t n = 0;

	if (plan(work_query(w), work_pool(w), hashes, &conf, &err) >= 0 &&
	    put_begin(&p, &conf, &err) >= 0)
		n = take_body(w, &p, &err);
	if (n < 0) {
		put_fini(&p);
		p = PUT_INIT;
		work_fail_body(w, n);
		return;
	}
	if (err.code || commit(&p, work_pool(w), &told, &err) < 0) {
		put_fini(&p); /* who is told that it failed finds what was */
		p = PUT_INIT;
		work_fail(w, &err);
		return;
	}
	work_reply_json(w, &file_written_table, &told);
}
