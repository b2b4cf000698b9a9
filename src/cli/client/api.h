/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_API_H
#define CAY_CLI_CLIENT_API_H
/*
 * api - operations of ops.def, called over the daemon's socket or a context's url
 *
 * A call names a row of ops.def, whose tables give its method and path, encode the
 * request and query, and check and decode the reply.
 */
#include "cli/client/http-client.h"
#include "ops/op.h"

#define API_HINT_MAX 257

struct api {
	struct dial dial;
	uint64_t timeout_ms; /* of operations that reply at once */
	struct interrupt intr;
	struct arena arena;      /* replies; freed when the command ends */
	char hint[API_HINT_MAX]; /* of the last error object, or "" */
	enum op_id last_op;      /* the last operation called, if has_last_op */
	bool has_last_op;
	bool no_pager;
};

struct api_call {
	enum op_id op;
	struct id ids[OP_PARAMS_MAX]; /* in the order of the path */
	const char *path_name; /* the path's parameter that is not an id; not percent-encoded */
	const void *request, *query;  /* structs of the row's tables, or NULL */
	const char *accept;           /* NULL: JSON */
	const char *idempotency_key;  /* Idempotency-Key, or NULL */
	const char *content_type;     /* of a raw body */
	const char *prefer;           /* Prefer, or NULL */
	const char *upgrade, *ws_key; /* switch to this protocol, or NULL */
	uint64_t body_length;         /* of a raw body: bytes or HTTP_CLIENT_CHUNKED */
};

/* Connect within a->timeout_ms. */
[[nodiscard]] int api_connect(struct api *a, struct http_client *h, struct cay_err *err);
/* Connect and queue the request; the caller sends a raw body. */
[[nodiscard]] int api_call_open(struct api *a, const struct api_call *c, struct http_client *h,
				struct cay_err *err);
/* Send the queued bytes and wait for the reply's head. */
[[nodiscard]] int api_call_receive_head(struct api *a, enum op_id op, struct http_client *h,
					struct cay_err *err);
/* Receive the rest of a reply.  An error object becomes err and a->hint; a success is
 * decoded into *ret (the row's response struct; NULL: skip it). */
[[nodiscard]] int api_call_finish(struct api *a, enum op_id op, struct http_client *h, void *ret,
				  struct cay_err *err);
[[nodiscard]] int api_call(struct api *a, const struct api_call *c, void *ret, struct cay_err *err);
/* Send a call with c->upgrade and wait until h speaks that protocol. */
[[nodiscard]] int api_call_upgrade(struct api *a, const struct api_call *c, struct http_client *h,
				   struct cay_err *err);
/* An error object's JSON into err and a->hint; -errno. */
[[nodiscard]] int api_error_decode(struct api *a, struct slice json, struct cay_err *err);
/* What the user can do about the current failure; shorter than API_HINT_MAX. */
void api_hint_set(struct api *a, const char *hint);
/* When the reply's head is due (boot ns). */
uint64_t api_reply_deadline(const struct api *a, enum op_id op);

/* A struct of table t as one line of JSON. */
[[nodiscard]] int api_json_encode(const struct field_table *t, const void *in, struct buf *out,
				  struct cay_err *err);
typedef int api_find_fn(struct api *a, const char *word, struct id *ret, struct cay_err *err);
/* Find a sandbox or image by id or name.  Names find live sandboxes;
 * api_find_any_sandbox() also finds the one that ended last. */
api_find_fn api_find_sandbox, api_find_any_sandbox, api_find_image;
/* By name or id; a key by its prefix or id. */
api_find_fn api_find_template, api_find_tenant, api_find_key, api_find_snapshot, api_find_volume;
/* A kernel of the sandbox, by name or id. */
[[nodiscard]] int api_find_kernel(struct api *a, const struct id *sandbox, const char *word,
				  struct id *ret, struct cay_err *err);

/* Call each() with the struct of every row of every page, until it returns something
 * other than 0, which is returned.  which: the operation's query, NULL for all rows; its
 * limit and cursor are ignored. */
typedef int api_each(void *to, const void *row);
[[nodiscard]] int api_list_each(struct api *a, enum op_id op, const void *which, api_each *each,
				void *to, struct cay_err *err);
#endif
