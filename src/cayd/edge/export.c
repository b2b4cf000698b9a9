/* SPDX-License-Identifier: Apache-2.0 */
/*
 * export - paths of a sandbox that can be downloaded as long as it lives: create, list, revoke
 *
 * The path is looked at once, by PID 1, and registered by its absolute spelling; nothing is copied.
 * A download reads the path again, by file.read or tree.get, as the sandbox's user.
 */
#include <sys/random.h>

#include "auth/export-token.h"
#include "cayd/core/deferred-reply.h"
#include "cayd/core/handlers.h"
#include "cayd/core/init-call.h"
#include "cayd/core/list.h"
#include "cayd/sandbox/record.h"
#include "cayd/tenant/exports.h"
#include "cayd/tenant/token.h"
#include "file/path-at.h"
#include "text/absolute-path.h"
#include "text/percent.h"

#define URL_MAX KIB(16)
#define STAT_TARGET_MAX (3 * KIB(6) + 256)
/* Exports whose path is looked at: a PID 1 that does not answer takes INIT_CALL_MS. */
#define CALLS_MAX 64
#define CALLS_TENANT 8

struct export_call {
	struct export_call *next;
	struct cayd *cayd;
	struct request *rq; /* NULL: the client left */
	struct id tenant, sandbox;
	struct buf path; /* absolute, as bytes */
};

static void export_call_free(struct export_call *k)
{
	LIST_UNLINK(k->cayd->export_calls, k, next);
	buf_fini(&k->path);
	free(k);
}

static void export_call_fail(struct export_call *k, const struct cay_err *err)
{
	if (k->rq)
		request_fail(k->rq, err);
	export_call_free(k);
}

static int export_path_resolve(const struct sandbox *sb, const struct export_path *q,
			       struct arena *arena, struct buf *ret, struct cay_err *err)
{
	const char *path = NULL;
	int r = file_path_decode(q->path, q->path_b64, "path", arena, &path, err);

	if (r < 0)
		return r;
	r = absolute_path_format(sandbox_workspace(sb), slice_of(path), ret);
	if (r == -EINVAL)
		return cay_fail_field(err, CAY_E_INVALID, "path", "give it without '..'");
	return r < 0 ? cay_fail_field(err, CAY_E_INVALID, "path",
				      "longer than %d bytes with its directory", FILE_PATH_MAX)
		     : 0;
}

static int export_check(const struct sandbox *sb, const struct request *rq, struct cay_err *err)
{
	if (rq->actor.one_sandbox) /* an export outlives the token */
		return cay_fail(err, CAY_E_FORBIDDEN, "a token cannot change exports");
	return life_is_finished(&sb->life) ? sandbox_fail_state(sb, err) : 0;
}

/* Creating */

static void export_reply(struct export_call *k, const struct sandbox *sb,
			 const struct export_record *e)
{
	auto_buf url = BUF_INIT(URL_MAX);
	struct slice origin = link_find_origin(k->cayd, k->rq);
	struct export_info info = e->info;
	struct cay_err err = {};

	if (buf_append(&url, origin.p, origin.n) < 0 ||
	    export_target_format(&sb->info.id, e, &url) < 0)
		(void)cay_fail_field(&err, CAY_E_TOO_LARGE, "path", "too long for a URL");
	info.url = buf_str(&url);
	request_reply_outcome(k->rq, &err, &export_info_table, &info);
}

static const struct export_record *export_call_find(struct export_call *k, const struct sandbox *sb,
						    struct cay_err *err)
{
	const char *path = NULL, *path_b64 = NULL;

	if (file_path_encode(buf_str(&k->path), &k->rq->arena, &path, &path_b64) < 0) {
		(void)cay_no_memory(err);
		return NULL;
	}
	return sandbox_find_export(sb, path, path_b64);
}

static void on_export_saved(void *arg, struct sandbox *sb)
{
	struct export_call *k = arg;
	struct cay_err err = *sandbox_wait_failure(sb, WAIT_SAVED);
	const struct export_record *e = k->rq ? export_call_find(k, sb, &err) : NULL;

	if (k->rq && !err.code && !e)
		(void)cay_fail(&err, CAY_E_CONFLICT, "the export was revoked meanwhile");
	if (err.code) {
		export_call_fail(k, &err);
		return;
	}
	if (k->rq)
		export_reply(k, sb, e);
	export_call_free(k);
}

/* One that is exported again keeps its URL, unless a file became a directory: that is another. */
static int export_token_choose(const struct export_record *old, const struct export_info *info,
			       char ret[static TOKEN_TEXT_LEN + 1], struct cay_err *err)
{
	uint8_t random[EXPORT_TOKEN_RANDOM];

	if (old && old->info.type == info->type) {
		memcpy(ret, old->token, TOKEN_TEXT_LEN + 1);
		return 0;
	}
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return cay_fail(err, CAY_E_INTERNAL, "cannot get random bytes");
	export_token_format(random, ret);
	explicit_bzero(random, sizeof(random));
	return 0;
}

static int export_register(struct sandbox *sb, const struct export_info *info, struct cay_err *err)
{
	const struct export_record *old = sandbox_find_export(sb, info->path, info->path_b64);
	char token[TOKEN_TEXT_LEN + 1];
	struct export_record e = { *info, token };
	bool is_new = !old;
	int r = export_token_choose(old, info, token, err);

	if (r < 0)
		return r;
	r = sandbox_put_export(sb, &e);
	if (r == -ENOSPC)
		return cay_fail(err, CAY_E_LIMIT,
				"a sandbox has at most %d exports; export a directory, or revoke "
				"one",
				EXPORTS_MAX);
	if (r < 0)
		return cay_no_memory(err);
	if (!is_new || sandbox_record_check_size(sb) >= 0)
		return 0;
	if (sandbox_remove_export(sb, &sb->exports->v[sb->exports->n - 1]) < 0)
		return cay_no_memory(err);
	return cay_fail(err, CAY_E_LIMIT,
			"the paths of its exports are more than the journal keeps of one sandbox");
}

/* What PID 1 says is untrusted, and concerns only its own sandbox. */
static int export_describe(struct export_call *k, struct slice body, struct export_info *ret,
			   struct cay_err *err)
{
	struct file_stat st = {};

	if (field_decode_text(&file_stat_table, body, &json_control_limits, &k->rq->arena, &st,
			      NULL) < 0)
		return cay_fail(err, CAY_E_MISBEHAVED,
				"cay-init of the sandbox sent an invalid reply");
	if (st.type != FILE_REGULAR && st.type != FILE_DIR)
		return cay_fail_field(err, CAY_E_INVALID, "path",
				      "neither a regular file nor a directory");
	*ret = (struct export_info){ .type = st.type == FILE_DIR ? EXPORT_DIR : EXPORT_FILE,
				     .has_size = st.type != FILE_DIR,
				     .size = st.size,
				     .created_ns = clk_wall_ns(k->cayd->clk) };
	return file_path_encode(buf_str(&k->path), &k->rq->arena, &ret->path, &ret->path_b64) < 0
		       ? cay_no_memory(err)
		       : 0;
}

static void on_export_stat(void *arg, unsigned status, struct slice body, const struct cay_err *why)
{
	struct export_call *k = arg;
	struct sandbox *sb = sandbox_find(k->cayd->sandboxes, &k->sandbox);
	struct export_info info = {};
	struct sandbox_waiter *waiter;
	struct cay_err err = {};
	int r;

	if (!k->rq) {
		export_call_free(k);
		return;
	}
	if (status >= 400) { /* there is no such file, or too much is under way there */
		auto_buf copy = BUF_INIT(INIT_CALL_BODY_MAX);

		r = buf_append(&copy, body.p, body.n);
		request_reply(k->rq, (int)status, "application/json", r < 0 ? NULL : &copy);
		export_call_free(k);
		return;
	}
	if (!status)
		err = *why;
	else if (status != 200)
		(void)cay_fail(&err, CAY_E_MISBEHAVED, "cay-init of the sandbox answered %u",
			       status);
	else if (!sb || life_is_finished(&sb->life))
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such sandbox");
	else if (export_describe(k, body, &info, &err) >= 0)
		(void)export_register(sb, &info, &err);
	if (err.code) {
		export_call_fail(k, &err);
		return;
	}
	sandbox_notify_observers(sb, SANDBOX_EXPORTED);
	sandbox_save(sb, true);
	r = sandbox_wait(sb, WAIT_SAVED, on_export_saved, k, &waiter);
	if (r > 0) {
		on_export_saved(k, sb);
	} else if (r < 0) {
		(void)cay_no_memory(&err);
		export_call_fail(k, &err);
	}
}

static bool export_call_has_slot(const struct cayd *c, const struct id *tenant)
{
	unsigned all = 0, of_it = 0;

	for (const struct export_call *k = c->export_calls; k; k = k->next) {
		all++;
		of_it += id_eq(&k->tenant, tenant);
	}
	return all < CALLS_MAX && of_it < CALLS_TENANT;
}

static int export_stat_target_format(const struct id *sandbox, const struct buf *path,
				     struct buf *ret)
{
	auto_arena arena = ARENA_INIT(KIB(16));
	const char *text = NULL, *text_b64 = NULL;
	char id[ID_TEXT_LEN + 1];
	int r = file_path_encode(buf_str(path), &arena, &text, &text_b64);

	id_format(sandbox, id);
	if (r >= 0)
		r = buf_printf(ret, "/v1/sandboxes/%s/files/stat?follow=true&%s=", id,
			       text ? "path" : "path_b64");
	if (r >= 0 && !text)
		text = text_b64;
	if (r >= 0)
		r = buf_reserve(ret, 3 * strlen(text));
	if (r < 0)
		return r;
	ret->len += percent_encode(text, strlen(text), ret->data + ret->len);
	ret->data[ret->len] = 0;
	return 0;
}

static int export_create_check(struct cayd *c, const struct sandbox *sb, struct request *rq,
			       struct buf *path, struct buf *target, struct cay_err *err)
{
	int r = export_check(sb, rq, err);

	if (r >= 0 && !sandbox_takes_requests(sb))
		r = sandbox_fail_state(sb, err);
	if (r >= 0)
		r = export_path_resolve(sb, rq->body, &rq->arena, path, err);
	if (r >= 0 && !export_call_has_slot(c, &rq->actor.tenant)) {
		(void)request_add_reply_header(rq, "Retry-After", "1");
		r = cay_fail(err, CAY_E_RATE, "too many exports are under way");
	}
	if (r >= 0 && export_stat_target_format(&sb->info.id, path, target) < 0)
		r = cay_no_memory(err);
	return r;
}

void op_export_create(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	auto_buf path = BUF_INIT(FILE_PATH_MAX), target = BUF_INIT(STAT_TARGET_MAX);
	struct export_call *k;
	struct cay_err err = {};

	if (!sb)
		return;
	if (export_create_check(c, sb, rq, &path, &target, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	k = calloc(1, sizeof(*k));
	if (!k) {
		request_no_memory(rq);
		return;
	}
	*k = (struct export_call){ .next = c->export_calls,
				   .cayd = c,
				   .rq = rq,
				   .tenant = rq->actor.tenant,
				   .sandbox = sb->info.id,
				   .path = path };
	path = (struct buf){};
	c->export_calls = k;
	request_watch_client(&k->rq);
	sandbox_touch(sb);
	init_call(c, &k->sandbox, "GET", buf_str(&target), (struct slice){}, on_export_stat, k);
}

/* Listing and revoking */

void op_export_list(struct cayd *c, struct request *rq)
{
	const struct sandbox *sb = sandbox_find_of_request(c, rq);
	struct export_info rows[EXPORTS_MAX];
	struct export_list list = { .exports = { rows, 0 } };
	const struct export_record *from;

	if (!sb)
		return;
	list.exports.n = sandbox_list_exports(sb).n;
	from = sandbox_list_exports(sb).v;
	for (size_t i = 0; i < list.exports.n; i++)
		rows[i] = from[i].info;
	request_reply_json(rq, &export_list_table, &list);
}

struct export_removal {
	struct request *rq; /* NULL: the client left */
	struct arena arena;
	struct field_list gone; /* one struct export_info */
};

static void on_export_removed(void *arg, struct sandbox *sb)
{
	struct export_removal *d = arg;

	request_reply_outcome(d->rq, sandbox_wait_failure(sb, WAIT_SAVED), &export_info_table,
			      d->gone.v);
	arena_fini(&d->arena);
	free(d);
}

static int export_removal_prepare(struct sandbox *sb, struct request *rq, struct export_removal *d,
				  struct cay_err *err)
{
	auto_buf path = BUF_INIT(FILE_PATH_MAX);
	const char *text = NULL, *text_b64 = NULL;
	const struct export_record *e;
	int r = export_path_resolve(sb, rq->query, &rq->arena, &path, err);

	if (r < 0)
		return r;
	if (file_path_encode(buf_str(&path), &rq->arena, &text, &text_b64) < 0)
		return cay_no_memory(err);
	e = sandbox_find_export(sb, text, text_b64);
	if (!e) /* also to a token, which may list them */
		return cay_fail(err, CAY_E_NOT_FOUND, "this path is not exported");
	r = export_check(sb, rq, err);
	if (r < 0)
		return r;
	if (field_list_copy(&export_info_table,
			    &(struct field_list){ (void *)(uintptr_t)&e->info, 1 }, &d->arena,
			    &d->gone) < 0 ||
	    sandbox_remove_export(sb, e) < 0)
		return cay_no_memory(err);
	return 0;
}

void op_export_delete(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	struct export_removal *d = sb ? calloc(1, sizeof(*d)) : NULL;
	struct sandbox_waiter *waiter;
	struct cay_err err = {};
	int r = 0;

	if (!sb)
		return;
	if (!d) {
		request_no_memory(rq);
		return;
	}
	*d = (struct export_removal){ .rq = rq, .arena = ARENA_INIT_SMALL(KIB(32)) };
	if (export_removal_prepare(sb, rq, d, &err) >= 0) {
		sandbox_notify_observers(sb, SANDBOX_EXPORTED);
		sandbox_save(sb, true);
		request_watch_client(&d->rq);
		r = sandbox_wait(sb, WAIT_SAVED, on_export_removed, d, &waiter);
		if (r < 0)
			(void)cay_no_memory(&err);
	}
	if (r > 0) {
		on_export_removed(d, sb);
	} else if (err.code) {
		request_fail(rq, &err);
		arena_fini(&d->arena);
		free(d);
	}
}
