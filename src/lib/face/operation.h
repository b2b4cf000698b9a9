/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FACE_OPERATION_H
#define CAY_FACE_OPERATION_H
/*
 * operation - call an operation of Cay for a client of a face
 *
 * Members of the call go where the table of operations has them: path, query or JSON body.  The
 * request is sent to the edge that the client's came from, with the client's credential and limited
 * to the client's group.
 */
#include <jansson.h>

#include "face/face.h"
#include "net/client-call.h"
#include "ops/op.h"

struct face_caller {
	struct face *face;
	struct conn_shared *shared;
	unsigned edge;
	const char *host, *auth, *sandbox; /* sandbox: the member of that name */
	const char *group;                 /* NULL or "": none (face_write_group()) */
};

struct face_operation {
	enum op_id op;
	json_t *members;            /* taken; NULL is CAY_E_NO_MEMORY */
	const char *accept, *range; /* NULL: JSON, all of it */
	struct slice body;          /* of BODY_RAW */
	bool upload;                /* client_call_write() sends the body */
	bool ends_with_caller;      /* an exec that ends when the connection does */
	size_t answer_max;          /* of a failure, at most 64 KiB where success comes in pieces */
	/* So much memory the request takes, and so much of its reply is held (face_hold()); false:
	 * it may not.  May be NULL. */
	bool (*sent)(void *arg, size_t held);
	bool (*received)(void *arg, size_t held);
	bool (*piece)(void *arg, const struct http_head *head, struct slice bytes);
	void (*drain)(void *arg);
	void (*done)(void *arg, const struct http_head *head, struct slice body,
		     const struct cay_err *err);
	void *arg;
};

[[nodiscard]] int face_operation_start(const struct face_caller *who,
				       const struct face_operation *what, struct client_call **ret,
				       struct cay_err *err);
/* What a row of file.list has as its path.  A name that is not UTF-8 gets U+FFFD for each byte that
 * may be none.  -EINVAL: it has none. */
[[nodiscard]] int face_append_entry_path(const json_t *row, struct buf *path);
/* The code that an error of Cay names; CAY_E_INTERNAL: none. */
enum cay_code face_code_named(const char *name);
#endif
