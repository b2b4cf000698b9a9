/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_OP_H
#define CAY_OPS_OP_H
/* op - the operation table, and finding a row in it.  Scope, body limit and fields are applied from
 * the row before any handler runs.  A path that names nothing and an id that cannot be one are the
 * same 404.  The router decodes nothing but the name of a sandbox, once, and a name has no slash:
 * any other encoded slash or letter never matches. */
#include "ops/types.h"
#include "text/sandbox-name.h"

/* 0 is nothing, so that a row cannot forget its scope. */
enum op_scope { SCOPE_NONE, SCOPE_PUBLIC, SCOPE_READ, SCOPE_WRITE, SCOPE_OPERATOR, SCOPE_NUM };
enum op_method { METHOD_NONE, METHOD_GET, METHOD_POST, METHOD_PUT, METHOD_DELETE, METHOD_NUM };
enum op_where { WHERE_CONTROL, WHERE_INSIDE, WHERE_NUM };
enum op_body { BODY_NONE, BODY_JSON, BODY_RAW, BODY_NUM };
/* SOON: JSON; with 202 when it is accepted and is yet to be done.  FRAMES: JSON when waited for,
 * frames or SSE when the client accepts them.  EVENTS: JSON, or SSE when the client accepts it.
 * STREAM: SSE, each event with one response as its data.
 * RAW: bytes, or those when the client accepts them.  BYTES: bytes and nothing else; with 206 those
 * a Range asked for.  TREE: a tar, or a tar.gz.  TAR: a tar.  DOC: a JSON document without a schema
 * of its own.  TEXT: plain text.  PAGE: HTML.  SOCKET: a WebSocket, or another protocol that was
 * asked for. */
enum op_reply {
	REPLY_JSON,
	REPLY_SOON,
	REPLY_RAW,
	REPLY_FRAMES,
	REPLY_EVENTS,
	REPLY_STREAM,
	REPLY_DOC,
	REPLY_TEXT,
	REPLY_SOCKET,
	REPLY_BYTES,
	REPLY_TREE,
	REPLY_TAR,
	REPLY_PAGE,
	REPLY_NUM
};

enum op_id {
#define CAY_OP(sym, ...) OP_##sym,
#include "ops/ops.def"
#undef CAY_OP
	OP_NUM
};

#define OP_PAGE 1u     /* public documentation, which edge.pages can switch off */
#define OP_DOWNLOAD 2u /* bytes of a sandbox, which a browser must save and not show */

#define OP_GROUPS 4u /* for a caller with a group as well, although the path names no sandbox */
#define OP_KEYED 8u  /* takes an Idempotency-Key: sent again, it has no second effect */

#define OP_DEADLINE_S 30
#define OP_LONG_S 660             /* PID 1 ends such work after 10 minutes at the latest */
#define OP_NO_DEADLINE UINT32_MAX /* the command, or the amount of work, bounds it */

struct op {
	const char *name, *summary;
	enum op_method method;
	const char *path, *alias; /* alias: a second path, or NULL */
	enum op_scope scope;
	enum op_where where;
	int status; /* of success */
	enum op_body body;
	size_t body_max;
	enum op_reply reply;
	const struct field_table *request, *query, *response; /* or NULL */
	uint32_t deadline_s; /* until the reply begins; 0: OP_DEADLINE_S */
	const char *audit;   /* members of the query or the body that an audit record has */
	unsigned flags;
};

extern const struct op ops[OP_NUM];
/* Which rows an example of it has, or NULL; see examples.def. */
extern const char *const op_examples[OP_NUM];

#define OP_PARAMS_MAX 3
#define OP_NAME_MAX 63

struct op_match {
	const struct op *op;
	struct id params[OP_PARAMS_MAX]; /* in the order of the path */
	unsigned n_params;
	struct slice name; /* where the path has a name and not an id */
	/* Where the path has a sandbox's name in place of its id: as it is spelled there, and
	 * decoded.  params[0] is an id that no sandbox has, until op_match_resolve(). */
	struct slice sandbox_segment;
	char sandbox_name[SANDBOX_NAME_MAX + 1];
	struct slice query; /* behind '?', not decoded */
};

/* What {name} in a path stands for. */
struct op_param {
	const char *name;
	enum id_noun noun; /* ID_NONE: a name, see op_name_is_valid() */
	const char *help;
};
extern const struct op_param op_params[];
extern const size_t op_n_params;

/* Find the operation for a request's method and target.  CAY_E_NOT_FOUND, or CAY_E_METHOD with the
 * methods that would do in ret_allow (a bit each, 1u << method). */
[[nodiscard]] int op_find(struct slice method, struct slice target, struct op_match *ret,
			  unsigned *ret_allow, struct cay_err *err);

/* The sandbox that the name in the path stands for, among those of the caller's tenant. */
void op_match_resolve(struct op_match *m, const struct id *sandbox);
/* The id of the sandbox or other object that the path names; NULL when it names none, or by a name
 * that was not found. */
const struct id *op_match_target(const struct op_match *m);
/* Whether the path names its sandbox by a name that is found. */
bool op_match_is_resolved(const struct op_match *m);

/* Whether a path without parameters is the operation's, or its alias. */
bool op_has_path(const struct op *op, struct slice path);

/* How long the reply may take to begin, in milliseconds; 0: no limit.  A reply that is
 * streamed begins at once, so only OP_DEADLINE_S counts for it.  Every program that waits
 * for a reply waits this long. */
uint64_t op_deadline_ms(const struct op *op, bool streamed);

/* What somebody called a thing inside a sandbox: up to OP_NAME_MAX letters, digits, '.',
 * '_' and '-', the first a letter or digit. */
bool op_name_is_valid(struct slice name);

/* What operations are about, in the order they are told; the first part of their names. */
struct op_tag {
	const char *name, *title, *help;
};
extern const struct op_tag op_tags[];
extern const size_t op_n_tags;

const char *op_method_name(enum op_method m);
const char *op_scope_name(enum op_scope s);

/* The body of a failed request.  node is where the sandbox moved to, or NULL.  What an internal
 * failure says, and why a credential was refused, is for the log and not for the client. */
struct error_object error_object_from(const struct cay_err *err, const char *request_id);
void error_body_write(const struct cay_err *err, const char *request_id, const char *node,
		      struct jw *w);
/* What has happened when a code is told, for people; see causes.def. */
const char *error_code_cause(enum cay_code code);
/* The whole interface as OpenAPI 3.1. */
void openapi_write(struct jw *w);
#endif
