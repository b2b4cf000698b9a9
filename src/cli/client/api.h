/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_API_H
#define CAY_CLI_CLIENT_API_H
/*
 * api - operations of ops.def, called over the daemon's socket or a context's url
 *
 * A call names a row; its method, path, request, query and response tables do
 * the rest.  What comes back is counted, parsed and decoded by the same tables
 * before a command sees it.  How long each operation may take is a table too.
 */
#include "cli/client/http-client.h"
#include "ops/op.h"

#define API_HINT_MAX 257

struct api {
	struct dial dial;
	uint64_t timeout_ms; /* of operations that answer at once */
	struct interrupt intr;
	struct arena arena;      /* replies; dies with the command */
	char hint[API_HINT_MAX]; /* of the last error object, or "" */
	enum op_id last_op;      /* the last one that was asked for */
	bool has_last_op;        /* one was */
	bool no_pager;
};

struct api_call {
	enum op_id op;
	struct id ids[OP_PARAMS_MAX]; /* in the order of the path */
	const char *path_name;        /* where the path has one, not percent-encoded */
	const void *request, *query;  /* structs of the row's tables, or NULL */
	const char *accept;           /* NULL: JSON */
	const char *idempotency_key;  /* Idempotency-Key, or NULL */
	const char *content_type;     /* of a raw body */
	const char *upgrade, *ws_key; /* to go on in another protocol, or NULL */
	uint64_t body_length;         /* of a raw body: bytes or HTTP_CLIENT_CHUNKED */
};

/* Connect and queue the request; a raw body is the caller's to send. */
[[nodiscard]] int api_call_open(struct api *a, const struct api_call *c, struct http_client *h,
				struct cay_err *err);
/* Send what is queued and wait for the reply's head. */
[[nodiscard]] int api_call_receive_head(struct api *a, enum op_id op, struct http_client *h,
					struct cay_err *err);
/* Gather the rest of a reply; a failure it tells of becomes err and a->hint, a
 * success is decoded into *ret (the row's response struct; NULL: not wanted). */
[[nodiscard]] int api_call_finish(struct api *a, enum op_id op, struct http_client *h, void *ret,
				  struct cay_err *err);
/* All of it. */
[[nodiscard]] int api_call(struct api *a, const struct api_call *c, void *ret, struct cay_err *err);
/* Send a call with c->upgrade and wait until h speaks that protocol. */
[[nodiscard]] int api_call_upgrade(struct api *a, const struct api_call *c, struct http_client *h,
				   struct cay_err *err);
/* An error object's JSON into err and a->hint; -errno. */
[[nodiscard]] int api_error_decode(struct api *a, struct slice json, struct cay_err *err);
/* What to do about the failure that is being told; shorter than API_HINT_MAX. */
void api_hint_set(struct api *a, const char *hint);
/* When the reply's head has to be here (boot ns). */
uint64_t api_reply_deadline(const struct api *a, enum op_id op);

/* A struct of table t as one line of JSON. */
[[nodiscard]] int api_json_encode(const struct field_table *t, const void *in, struct buf *out,
				  struct cay_err *err);
/* A sandbox or image by id or by name.  A name is that of the sandbox that lives;
 * of api_find_any_sandbox() also of the one that ended last. */
[[nodiscard]] int api_find_sandbox(struct api *a, const char *word, struct id *ret,
				   struct cay_err *err);
[[nodiscard]] int api_find_any_sandbox(struct api *a, const char *word, struct id *ret,
				       struct cay_err *err);
[[nodiscard]] int api_find_image(struct api *a, const char *word, struct id *ret,
				 struct cay_err *err);
/* By name or id; a key by its prefix or id. */
[[nodiscard]] int api_find_template(struct api *a, const char *word, struct id *ret,
				    struct cay_err *err);
[[nodiscard]] int api_find_tenant(struct api *a, const char *word, struct id *ret,
				  struct cay_err *err);
[[nodiscard]] int api_find_key(struct api *a, const char *word, struct id *ret,
			       struct cay_err *err);

/* Rows of every page of a list: each() gets the row's struct; it ends the walk
 * with a number other than 0, which is returned.  which: of the sandboxes, NULL for
 * all; its page is not looked at. */
typedef int api_each(void *to, const void *row);
[[nodiscard]] int api_list_each(struct api *a, enum op_id op, const struct sandbox_query *which,
				api_each *each, void *to, struct cay_err *err);
#endif
