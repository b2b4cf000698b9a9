/* SPDX-License-Identifier: Apache-2.0 */
/* Edits of a text file, with a diff */
#include "file/diff.h"
#include "file/edit.h"
#include "file/hash.h"
#include "file/path-at.h"
#include "init/file/file-read.h"
#include "text/hex.h"

#define DIFF_MAX MIB(1)

static_assert(EDIT_HASH_LEN == FILE_HASH_LEN);

static int file_edit_hash(const void *p, size_t n, uint8_t ret[static EDIT_HASH_LEN])
{
	struct file_hash h;

	file_hash_begin(&h);
	file_hash_add(&h, p, n);
	file_hash_end(&h, ret);
	return 0;
}

static int file_edit_read_list(const struct file_edit *q, struct arena *arena, struct edit **ret,
			       struct cay_err *err)
{
	const struct file_change *changes = q->edits.v;
	struct edit *v = arena_alloc(arena, q->edits.n + 1, sizeof(*v));

	if (!v)
		return cay_no_memory(err);
	for (size_t i = 0; i < q->edits.n; i++)
		v[i] = (struct edit){ .kind = (enum edit_kind)changes[i].kind,
				      .old = slice_of(changes[i].old ? changes[i].old : ""),
				      .text = slice_of(changes[i].text ? changes[i].text : ""),
				      .line = changes[i].line };
	*ret = v;
	return 0;
}

/* A diff that is too long is left out and marked as such: the edit is already made. */
static int file_edit_describe(const struct edit_result *d, const char *path,
			      struct file_edited *ret)
{
	auto_buf diff = BUF_INIT(DIFF_MAX);
	static char hex[2 * EDIT_HASH_LEN + 1];
	int r;

	while (*path == '/')
		path++;
	*ret = (struct file_edited){ .changes = d->count, .size = d->after.len, .sha256 = hex };
	hex_encode(d->hash, sizeof(d->hash), hex);
	r = diff_unified((struct slice){ buf_str(&d->before), d->before.len },
			 (struct slice){ buf_str(&d->after), d->after.len }, slice_of(path), &diff);
	ret->diff_left_out = r < 0;
	return r < 0 ? 0
		     : file_bytes_to_text((struct slice){ buf_str(&diff), diff.len }, &ret->diff,
					  &ret->diff_b64);
}

void child_file_edit(struct child_op *w, struct request *rq)
{
	const struct file_edit *q = rq->body;
	auto_edit_result done = EDIT_RESULT_INIT;
	uint8_t want[EDIT_HASH_LEN];
	struct edit *edits = NULL;
	struct edit_request ask = { .n = q->edits.n,
				    .hash = file_edit_hash,
				    .dry_run = q->dry_run };
	struct file_edited reply = {};
	struct cay_err err = {};

	if (q->if_sha256) {
		ask.if_hash = want;
		if (hex_decode(q->if_sha256, strlen(q->if_sha256), want, sizeof(want)) < 0)
			(void)cay_fail_field(&err, CAY_E_INVALID, "if_sha256",
					     "expected 64 hexadecimal digits");
	}
	if (!err.code &&
	    file_path_decode(q->path, q->path_b64, "path", &rq->arena, &ask.path, &err) >= 0 &&
	    file_edit_read_list(q, &rq->arena, &edits, &err) >= 0) {
		ask.edits = edits;
		(void)edit_file(&ask, &done, &err);
	}
	if (!err.code && file_edit_describe(&done, ask.path, &reply) < 0)
		(void)cay_no_memory(&err);
	child_op_reply_json(w, &file_edited_table, &reply, &err);
}
