/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPENSANDBOX_OPENSANDBOX_H
#define CAY_OPENSANDBOX_OPENSANDBOX_H
/*
 * opensandbox - OpenSandbox's API, for programs written with its SDKs
 *
 *	main.c          start
 *	listener.c      a request of an edge: its route, its caller, its body
 *	routes.def      the routes
 *	sandboxes.c     sandboxes: create, list, renew, pause, endpoints
 *	snapshots.c     snapshots
 *	command.c       execd's commands
 *	sessions.c      execd's sessions, which are shells
 *	code.c          execd's code contexts, which are kernels
 *	stream.c        what a command, session or context writes, as events
 *	files.c         execd's files and directories
 *	content.c       upload and download
 *	policy.c        the egress policy
 *	call.c          calls of Cay's operations
 *	reply.c         replies and errors, as OpenSandbox has them
 *	output-lines.c  output in lines (pure)
 *	translate.c     times, metadata, modes and patterns (pure)
 *
 * It translates, and no more: everything it does is a call of an operation of Cay, at the edge the
 * request came from and with the caller's credential (face/face.h, face/operation.h).
 */
#include "face/operation.h"
#include "face/output.h"
#include "http/multipart.h"
#include "http/opensandbox-error.h"
#include "opensandbox/output-lines.h"
#include "opensandbox/translate.h"
#include "text/json.h"

#define OSB_PREFIX "/opensandbox"
#define OSB_BODY_MAX MIB(3)
#define OSB_ANSWER_MAX MIB(8)
#define OSB_PATH_MAX 4096
#define OSB_METADATA_MAX KIB(16)
#define OSB_STATES_MAX 16
#define OSB_EVENT_MAX MIB(6)  /* of a kernel, with its escapes */
#define OSB_REST_MAX KIB(256) /* more than a piece */

struct osb_request;
typedef void osb_step(struct osb_request *v);

enum osb_plane {
	OSB_LIFECYCLE, /* the API */
	OSB_EXECD,     /* one sandbox, port 44772 */
	OSB_EGRESS,    /* one sandbox, port 18080 */
};
enum osb_body {
	OSB_NO_BODY,
	OSB_JSON, /* an object; may be absent */
	OSB_ROWS, /* an array */
	OSB_RAW,  /* the handler reads it */
};

/* What a request holds (face_hold()) */
enum osb_memory {
	OSB_MEM_BODY,
	OSB_MEM_JSON,
	OSB_MEM_SENT, /* to the edge, with what an upload may queue */
	OSB_MEM_RECEIVED,
	OSB_MEM_ANSWER,
	OSB_MEM_KEPT,
	OSB_MEM_LINES,
	OSB_MEM_TEXTS,
};

struct osb_route {
	const char *method, *path; /* "{}" is one segment */
	enum osb_plane plane;
	enum osb_body body;
	osb_step *start;
};

struct osb {
	struct face face;
	struct osb_request *requests; /* in progress */
	uv_timer_t tick;              /* runs while a stream is open or a request waits */
	unsigned left_behind;         /* commands whose client left */
};

struct osb_request {
	struct osb *door;
	struct osb_request *prev, *next;
	struct request *rq; /* NULL: the client left, and its command goes on */
	const struct osb_route *route;
	struct arena arena;
	struct face_memory memory;
	struct actor actor;
	unsigned edge;
	const char *host, *query;
	char sandbox[ID_TEXT_LEN + 1];
	const char *segment; /* the {} of the path after the sandbox's, or the first */
	struct buf body;
	json_t *json; /* of the body */

	/* the call of an operation in progress, or the last one */
	struct client_call *call;
	osb_step *then;
	bool accepts_failure; /* `then` gets a failed reply too */
	unsigned status;
	json_t *answer; /* NULL: not JSON */
	struct cay_err failure;

	/* what a handler keeps between its calls */
	osb_step *later, *wake;
	uint64_t wake_ms; /* when `wake` is to be called; 0: it is not */
	json_t *kept, *rows;
	const char *target;
	const char *home, *workspace, *owner, *group; /* of sandbox.info */
	uint64_t uid, gid, number, first, most;
	const char *states[OSB_STATES_MAX];
	unsigned n_states;
	size_t at;
	bool flag;

	/* a stream of events, or of bytes */
	bool begun, counted, is_stream;
	uint64_t written_ms;
	struct frame_reader frames;
	struct output_lines lines[2];
	struct buf events; /* of a kernel: a line */
	struct buf rest;   /* what came of a piece after the client's stream was full */
	bool line_lost;    /* the rest of the line is skipped */

	/* an upload */
	struct multipart parts;
	bool uploading, body_done, paused, full, reads_metadata;
	bool file_ended; /* all bytes of the file were sent */
	struct buf metadata;

	size_t n_auth;
	char auth[]; /* the credential, unchanged; a C string */
};

/* listener.c */
request_fn *osb_find_handler(struct request *rq, void *arg);
void osb_request_free(struct osb_request *v);
/* It holds so much of that kind now.  False: too much, and *err says so. */
[[nodiscard]] bool osb_hold(struct osb_request *v, enum osb_memory kind, size_t n,
			    struct cay_err *err);
/* A decoded parameter of the query, in the arena, the n-th of its name; NULL: there is none. */
const char *osb_query_nth(struct osb_request *v, const char *name, size_t n);
const char *osb_query(struct osb_request *v, const char *name);
void osb_wait(struct osb_request *v, uint64_t ms, osb_step *then);
void osb_start_tick(struct osb *d);

/* call.c: begin the next call; members are of its path, query and body, {sandbox} is the request's.
 * A failure is the request's too, so nothing follows either way. */
void osb_call(struct osb_request *v, enum op_id op, osb_step *then, const char *fmt, ...);
void osb_call_with(struct osb_request *v, enum op_id op, osb_step *then, json_t *members);
/* The same with the other members of face_operation: sets op, members, answer_max, arg, and done
 * where it is NULL. */
[[nodiscard]] int osb_transfer(struct osb_request *v, enum op_id op, json_t *members,
			       struct face_operation how, struct cay_err *err);
/* The reply of a call: its error, or continue.  For the done of a transfer. */
void osb_take_answer(void *arg, const struct http_head *head, struct slice body,
		     const struct cay_err *err);
const char *osb_text(const json_t *j, const char *name); /* "": there is none */
const char *osb_answer_text(const struct osb_request *v, const char *name);

/* reply.c: each ends the request. */
void osb_reply(struct osb_request *v, int status, json_t *body); /* takes body */
void osb_reply_status(struct osb_request *v, int status);
void osb_fail(struct osb_request *v, const struct cay_err *err);
void osb_refuse(struct osb_request *v, enum cay_code code, const char *why);
void osb_not_served(struct osb_request *v, const char *what);
void osb_execd_error_write(const struct cay_err *err, struct jw *w);

/* stream.c: events of one request.  osb_stream_run() calls an operation that replies with frames,
 * and sends what they have; the first event names v->target unless the reply names an exec. */
void osb_stream_run(struct osb_request *v, enum op_id op, json_t *members, unsigned unplaced);
bool osb_stream_send(struct osb_request *v, json_t *event); /* takes event; true: full */
bool osb_stream_init(struct osb_request *v, const char *id);
void osb_stream_complete(struct osb_request *v);
void osb_stream_ping(struct osb_request *v, uint64_t now);

/* sandboxes.c: lists in pages that have numbers: v->first of v->most rows, in v->rows. */
[[nodiscard]] int osb_read_page(struct osb_request *v, struct cay_err *err);
bool osb_page_has(const struct osb_request *v, uint64_t row);
json_t *osb_page(struct osb_request *v, uint64_t total);
/* The parameters `state` of the query, and whether a row of that state is asked for. */
[[nodiscard]] int osb_read_states(struct osb_request *v, struct cay_err *err);
bool osb_wants_state(const struct osb_request *v, const char *state);
/* Add to v->rows; takes row.  Negative: the request has ended, since no list lacks a row. */
[[nodiscard]] int osb_add_row(struct osb_request *v, json_t *row);

/* policy.c: a networkPolicy as the member `egress` of a create. */
[[nodiscard]] int osb_policy_read(const json_t *policy, json_t *to, struct cay_err *err);

/* files.c: what sandbox.info says, then go on. */
void osb_with_info(struct osb_request *v, osb_step *later);
/* An absolute path; NULL: it is absent or too long. */
const char *osb_absolute(struct osb_request *v, const char *path);
/* "USER:GROUP" of an entry, in the arena; NULL: neither is there. */
const char *osb_owner(struct osb_request *v, const json_t *entry);
/* Its mode as text; "": there is none.  Negative: it is none. */
int osb_mode(const json_t *entry, char ret[static TRANSLATE_MODE_TEXT], struct cay_err *err);

/* The handlers of routes.def */
#define OSB_ROUTE(method, path, plane, body, fn) osb_step fn;
#include "opensandbox/routes.def"
#undef OSB_ROUTE
#endif
