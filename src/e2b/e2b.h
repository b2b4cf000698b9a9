/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_E2B_E2B_H
#define CAY_E2B_E2B_H
/*
 * e2b - E2B's API, for programs written with its SDKs
 *
 *	main.c          start
 *	listener.c      a request of an edge: its route, its caller, its body
 *	routes.def      the routes
 *	sandboxes.c     sandboxes: connect, list, pause
 *	create.c        sandboxes: create
 *	snapshots.c     snapshots and forks
 *	volumes.c       volumes
 *	metrics.c       what a sandbox uses
 *	processes.c     envd's process.Process
 *	files.c         envd's filesystem.Filesystem
 *	content.c       envd's /files
 *	watch.c         envd's watchers of directories
 *	code.c          the code interpreter: runs
 *	bash.c          and in bash
 *	contexts.c      its contexts
 *	call.c          calls of Cay's operations
 *	events.c        and those that answer with events
 *	reply.c         replies and errors, as E2B has them
 *	metadata.c      metadata as labels (pure)
 *	multipart.c     multipart/form-data (pure)
 *	envelope.c      messages of Connect's streams (pure)
 *	network.c       network options as an egress policy (pure)
 *	sse.c           streams of events (pure)
 *
 * It translates, and no more: everything it does is a call of an operation of Cay, at the edge the
 * request came from and with the caller's credential (face/face.h).
 */
#include "e2b/sse.h"
#include "face/face.h"
#include "face/operation.h"
#include "face/output.h"
#include "http/e2b-error.h"
#include "http/multipart.h"
#include "net/client-call.h"
#include "text/json.h"

#define E2B_BODY_MAX MIB(3)
#define E2B_ANSWER_MAX MIB(4)
#define E2B_PATH_MAX 4096
#define E2B_ENVD_VERSION "0.6.1"
#define E2B_TOKEN_MS 86400000 /* as long as a token can be valid */

struct e2b_request;
typedef void e2b_step(struct e2b_request *v);

/* What became of an event: taken; so that the client's stream is full; the request has ended. */
enum e2b_event_result { E2B_EVENT_TAKEN, E2B_EVENT_FULL, E2B_EVENT_LAST };
typedef enum e2b_event_result e2b_event(struct e2b_request *v, const json_t *event);

enum e2b_plane {
	E2B_CONTROL, /* the API */
	E2B_ENVD,    /* one sandbox, port 49983 */
	E2B_CODE,    /* one sandbox, port 49999 */
};
enum e2b_body {
	E2B_NO_BODY,
	E2B_JSON,   /* may be absent */
	E2B_UNARY,  /* a call of Connect */
	E2B_STREAM, /* a call of Connect whose reply is a stream */
	E2B_RAW,    /* the handler reads it */
};
/* What a request holds (face_hold()) */
enum e2b_memory {
	E2B_MEM_BODY,
	E2B_MEM_JSON,
	E2B_MEM_SENT, /* to the edge, with what an upload may queue */
	E2B_MEM_RECEIVED,
	E2B_MEM_ANSWER,
	E2B_MEM_KEPT,
	E2B_MEM_LINE,
};

struct e2b_route {
	const char *method, *path; /* "{}" is one segment */
	enum e2b_plane plane;
	enum e2b_body body;
	e2b_step *start;
};

struct e2b {
	struct face face;
	struct e2b_request *requests; /* in progress */
	uv_timer_t tick;              /* runs while a stream is open, or a request waits */
	json_t *keepalive;            /* a line of a stream of the code interpreter */
	unsigned left_behind;         /* commands whose client left */
	uint64_t watchers;            /* that were ever made */
};

struct e2b_request {
	struct e2b *door;
	struct e2b_request *prev, *next;
	struct request *rq; /* NULL: the client left, and its command goes on */
	const struct e2b_route *route;
	struct arena arena;
	struct face_memory memory;
	struct actor actor;
	unsigned edge;
	const char *host, *user, *path, *query; /* user NULL: the default */
	char sandbox[ID_TEXT_LEN + 1];
	const char *segment; /* the second {} of the path */
	struct buf body;
	json_t *json; /* of the body: an object */

	/* the call of an operation in progress, or the last one */
	struct client_call *call;
	enum op_id op;
	e2b_step *then;
	bool accepts_failure; /* `then` gets a failed reply too */
	unsigned status;
	json_t *answer; /* NULL: not JSON */
	struct cay_err failure;

	/* what a handler keeps between its calls */
	e2b_step *later;
	json_t *kept;
	const char *target, *source;          /* absolute paths; of a create, a name */
	const char *home, *workspace, *owner; /* of sandbox.info */
	uint64_t uid, number;
	bool flag;

	/* a stream */
	bool begun, counted;
	uint64_t written_ms, keepalive_ms;
	struct sse events; /* of a call */
	e2b_event *event;
	uint64_t watcher; /* its number; then it stays without a client, and line is its events */
	struct frame_reader frames;
	struct buf line, held[2]; /* of events; of output, the begin of a line */
	struct e2b_follow *follows;
	unsigned n_follows;
	struct multipart parts;
	bool uploading, body_done, paused, full;
	bool file_ended;      /* all bytes of the file of an upload were sent */
	bool line_lost;       /* the rest of the line is skipped */
	bool waits_for_shell; /* that another request creates */

	size_t n_auth;
	char auth[]; /* the credential, unchanged; a C string */
};

/* listener.c */
request_fn *e2b_find_handler(struct request *rq, void *arg);
void e2b_request_free(struct e2b_request *v);
/* It holds so much of that kind now.  False: too much, and *err says so. */
[[nodiscard]] bool e2b_hold(struct e2b_request *v, enum e2b_memory kind, size_t n,
			    struct cay_err *err);
/* A decoded parameter of the query, in the arena; NULL: there is none, or it is malformed. */
const char *e2b_query(struct e2b_request *v, const char *name);

/* call.c: begin the next call; members, packed as by json_pack(), are of its path, query and body.
 * {sandbox} is the request's.  A failure is the request's too, so nothing follows either way. */
void e2b_call(struct e2b_request *v, enum op_id op, e2b_step *then, const char *fmt, ...);
/* The same with a body of bytes, and with this media type accepted and the reply passed on. */
struct e2b_transfer {
	const char *accept, *range;
	struct slice body;
	bool ends_with_caller; /* what was started ends when the call is cancelled */
	bool upload;           /* client_call_write() sends the body; then `ready` is called */
	bool (*piece)(void *arg, const struct http_head *head, struct slice bytes);
	void (*drain)(void *arg);
	void (*done)(void *arg, const struct http_head *head, struct slice body,
		     const struct cay_err *err);
	void *arg;                 /* NULL: the request */
	struct client_call **call; /* NULL: the request's */
};
int e2b_transfer(struct e2b_request *v, enum op_id op, json_t *members,
		 const struct e2b_transfer *how, struct cay_err *err);
/* The reply of a call: its error, or continue.  For a transfer's done. */
void e2b_take_answer(void *arg, const struct http_head *head, struct slice body,
		     const struct cay_err *err);
/* events.c: the same for an operation that replies with events; `end` when there are no more.
 * Takes members. */
void e2b_call_events(struct e2b_request *v, enum op_id op, json_t *members, e2b_event *event,
		     e2b_step *end);
const char *e2b_answer_text(const struct e2b_request *v, const char *name);

/* reply.c: each ends the request. */
void e2b_reply(struct e2b_request *v, int status, json_t *body); /* takes body; NULL: none */
void e2b_reply_status(struct e2b_request *v, int status);
void e2b_fail(struct e2b_request *v, const struct cay_err *err);
void e2b_refuse(struct e2b_request *v, enum cay_code code, const char *why);
/* The reply of a call breaks its format: end the call, which PID 1 may never do. */
void e2b_break_stream(struct e2b_request *v, const char *why);
/* envd's answer for a sandbox that is not there, or does not run */
void e2b_fail_gone(struct e2b_request *v);
/* A message of a stream, which begins with the first: true when it is full.  Takes message. */
bool e2b_stream_send(struct e2b_request *v, json_t *message);
void e2b_stream_end(struct e2b_request *v, const char *code, const char *why);
/* Look after streams and requests that wait, each second. */
void e2b_start_ticks(struct e2b *d);

/* sandboxes.c: how E2B describes it, and whether it has ended. */
json_t *e2b_describe_session(const struct e2b *d, const char *id, const json_t *sandbox,
			     const char *token);
bool e2b_answer_has_ended(const struct e2b_request *v);
bool e2b_answer_is_running(const struct e2b_request *v);
/* The sandbox of the answer is v->kept; reply with its session and a token. */
void e2b_make_token(struct e2b_request *v);
[[nodiscard]] int e2b_read_timeout(const struct e2b_request *v, uint64_t fallback, uint64_t *ret_ms,
				   struct cay_err *err);

/* code.c: send the output that waits for the end of its line. */
bool e2b_code_flush(struct e2b_request *v);
/* Run code, and pass on its output, results and end.  Takes members. */
void e2b_code_run(struct e2b_request *v, enum op_id op, json_t *members);
/* As Cay names it. */
const char *e2b_code_language(const json_t *body);

/* bash.c: in a shell that is a context, or in the one of code without a context. */
void e2b_bash_run(struct e2b_request *v, const char *shell);
void e2b_bash_execute(struct e2b_request *v);
/* contexts.c */
bool e2b_context_is_bash(const char *context);

/* files.c: v->target, and with source v->source, as absolute paths; then go on. */
void e2b_resolve_paths(struct e2b_request *v, const char *target, const char *source,
		       e2b_step *then);

/* The handlers of routes.def */
#define E2B_ROUTE(method, path, plane, body, fn) e2b_step fn;
#include "e2b/routes.def"
#undef E2B_ROUTE
#endif
