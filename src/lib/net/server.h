/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_SERVER_H
#define CAY_NET_SERVER_H
/*
 * server - HTTP requests in, replies out, on one loop
 *
 * Owns a listening socket and its connections.  A request is routed by the operation table (or
 * the program's own few routes), its query and JSON body are decoded into structs of the
 * request's arena, and the program's handler is called with them; a raw body is passed on in
 * pieces.  The handler replies when it likes: at once, later, or as a stream.
 *
 *	head -> [body gathered and decoded] -> handler -> reply -> next head
 *	head -> handler -> body events ... -> reply
 *
 * Every request ends in exactly one of: request_reply(), request_fail(), request_end_stream()
 * after request_start_stream(), request_upgrade(), request_abort(), request_detach(), or
 * events->gone, which reports that the peer left first.  After that the struct request must
 * not be touched.  None of these calls back into the handler.
 *
 * Bounded: connections, heads, bodies by the operation's row, output (a producer stops when
 * request_write_stream() returns true and continues at events->drain), the time to send a head
 * or a body.  A client may read a stream as slowly as it likes; it holds one connection and
 * SERVER_OUT_MARK bytes.  Threading: loop thread only.  Nothing blocks, nothing logs.
 */
#include <uv.h>

#include "base/arena.h"
#include "base/jsonw.h"
#include "http/http.h"
#include "net/conn.h"
#include "ops/actor.h"

#define SERVER_OUT_MARK KIB(64) /* more than this queued: stop producing */
#define SERVER_OUT_MAX MIB(8)   /* the largest whole reply */
#define SERVER_POOL_MAX MIB(1)  /* decoded form of a request */
#define SERVER_BODY_SMALL KIB(64)
#define REQUEST_ID_LEN 16
#define REQUEST_LENGTH_UNKNOWN UINT64_MAX

struct request;
struct request_turns;
struct server;
struct sockaddr_storage;

/* Events for a handler that replies later; members may be NULL. */
struct request_events {
	/* Bytes of a raw body; pause with request_pause_body(). */
	void (*body)(struct request *rq, struct slice bytes);
	void (*body_end)(struct request *rq);
	/* Output fell below the mark. */
	void (*drain)(struct request *rq);
	/* The peer left, or broke the protocol; the request has ended, do not reply. */
	void (*gone)(struct request *rq);
};

/* Lives inside its connection. */
struct request {
	const struct http_head *head;
	struct op_match match; /* match.op is NULL for a route of the program */
	struct actor actor;    /* the caller, set by conf->admit */
	void *body;            /* decoded; NULL when the row has no request table */
	void *query;           /* decoded; NULL when the row has none */
	char id[REQUEST_ID_LEN + 1];
	uint64_t begun_ns;  /* uv_hrtime() when its head was complete */
	struct arena arena; /* freed with the request */
	const struct request_events *events;
	void *data; /* the handler's own */
	/* For conf->answered: the id the request created, and two members for the program. */
	struct id target;
	bool mark;
	void *record;
	enum blame blame; /* of the error it was refused with */
	/* The JSON of an error, for a client that expects another form; NULL: Cay's. */
	void (*write_error)(const struct cay_err *err, struct jw *w);
};

typedef void request_fn(struct request *rq, void *arg);

/* A path that is not in the operation table. */
struct server_route {
	enum op_method method;
	const char *path;
	const struct field_table *request; /* JSON body, or NULL */
	size_t body_max;
	request_fn *handler;
};

/* Identify the caller (rq->actor) and decide whether it is allowed.  Called when the head is
 * complete, before anything else; -errno refuses the request. */
typedef int request_admit(struct request *rq, void *arg, struct cay_err *err);

struct server_conf {
	unsigned max_conns;
	unsigned max_peer; /* per address, or IPv6 /64 network; 0: no limit */
	size_t reply_max;  /* largest whole reply; 0: SERVER_OUT_MAX */
	/* Most bytes of all JSON bodies longer than SERVER_BODY_SMALL that are not complete;
	 * further ones are refused.  0: no limit but body_max of each. */
	size_t bodies_max;
	uint64_t head_timeout_ms; /* from accept to the first byte; from there to the head's end */
	uint64_t idle_timeout_ms; /* between requests, and between pieces of a body */
	const struct server_route *routes;
	size_t n_routes;
	/* For requests outside the table, such as those for another host: called first when the
	 * head is complete.  The returned handler gets the request without admit, its body raw and
	 * of any length.  NULL: an ordinary request. */
	request_fn *(*find_special)(struct request *rq, void *arg);
	request_admit *admit; /* NULL: all are admitted */
	request_fn *handler;  /* of operations: see rq->match.op */
	/* For operations inside a sandbox, when the program relays them: called at the head, the
	 * body comes raw.  NULL: they go to handler. */
	request_fn *sandbox_handler;
	/* The program relays every operation: all are passed on at the head and their body comes
	 * raw.  Length, media type and query are still checked. */
	bool raw;
	/* Called once per request, before its reply is sent; code is CAY_OK unless the failure is
	 * ours, status 0 when the peer left first.  True holds a whole reply until
	 * request_release_held_reply(), which must be called from the loop, not from here.  Other
	 * replies cannot be held. */
	bool (*answered)(struct request *rq, int status, enum cay_code code, bool whole, void *arg);
	/* A head is too large: may add headers to the refusal.  Its first bytes are not checked
	 * and cut off anywhere, and rq has no head.  May be NULL. */
	void (*head_refused)(struct request *rq, struct slice head, void *arg);
	/* Called before it for an internal error, which no client receives.  May be NULL. */
	void (*broken)(const struct request *rq, const struct cay_err *err, void *arg);
	/* Whether that peer is a proxy which may begin a connection with a PROXY header
	 * (wire/proxy-header.h).  Its connections are counted by the address in there, or not.
	 * NULL: none is. */
	bool (*trusts)(const struct sockaddr_storage *peer, void *arg);
	void *arg;
	/* Shares of tenants (net/request-turns.h), of all servers of the loop.  NULL: none. */
	struct request_turns *turns;
	/* Layer of every connection (net/tls.h); NULL: plain. */
	const struct conn_layer *layer;
};

/* Serve a listening unix or TCP socket; takes the fd, also on failure.  conf must outlive it. */
[[nodiscard]] int server_start(uv_loop_t *loop, int fd, const struct server_conf *conf,
			       struct server **ret, struct cay_err *err);
/* Stop listening and close every connection (handlers get `gone`).  The server frees itself when
 * the loop has run its close callbacks. */
void server_stop(struct server *s);
/* Stop listening; connections end after their current request, or one within a second. */
void server_drain(struct server *s);
unsigned server_count_connections(const struct server *s);
/* Time spent on requests that conf->admit refused, since the start. */
uint64_t server_refusing_ns(const struct server *s);

/* For a request of conf->find_special, whose tenant the server does not know: count what it takes.
 * Refuses a tenant with more than `most` requests in progress (0: any number), each until the last
 * byte of its reply is sent, or with too many unread bytes. */
[[nodiscard]] int request_charge_tenant(struct request *rq, const struct id *tenant, unsigned most,
					struct cay_err *err);
/* Call the handler again when it is the tenant's turn: for a reply that waited and is costly. */
void request_take_turn_again(struct request *rq);
/* Count memory that the handler holds for its reply, until the reply.  False: it is too much. */
[[nodiscard]] bool request_count_held(struct request *rq, size_t n);
/* Free the decoded query and body, before a reply that may come much later. */
void request_free_body(struct request *rq);
uv_loop_t *request_loop(struct request *rq);
/* Shared state of the server's connections, for one the handler opens itself. */
struct conn_shared *request_conn_shared(struct request *rq);
/* Whether the peer has closed its connection, polled now: `gone` may follow. */
bool request_peer_has_left(struct request *rq);
/* Send a held reply; the peer may have left. */
void request_release_held_reply(struct request *rq);
struct ucred;
[[nodiscard]] int request_peer_credentials(struct request *rq, struct ucred *ret);
/* Of the socket, or from its PROXY header. */
[[nodiscard]] int request_peer_address(struct request *rq, struct sockaddr_storage *ret);
void request_pause_body(struct request *rq);
void request_resume_body(struct request *rq);

/* Add a header to the reply; both must be printable ASCII. */
[[nodiscard]] int request_add_reply_header(struct request *rq, const char *name, const char *value);
/* The same for untrusted text, which must contain neither CR nor LF. */
[[nodiscard]] int request_add_reply_header_slice(struct request *rq, struct slice name,
						 struct slice value);
/* The whole reply; body is emptied.  NULL media: no body. */
void request_reply(struct request *rq, int status, const char *media, struct buf *body);
/* Whether the client accepts a stream: frames or server-sent events. */
bool request_is_streamed(const struct request *rq);
/* The whole reply as JSON, with the status of the operation's row. */
void request_reply_json(struct request *rq, const struct field_table *t, const void *value);
void request_fail(struct request *rq, const struct cay_err *err);
void request_refuse(struct request *rq, enum cay_code code, const char *what);
/* The same with a hint for this cause (cay_err_hint()). */
void request_refuse_hinted(struct request *rq, enum cay_code code, const char *what,
			   const char *hint);
__attribute__((format(printf, 3, 4))) void request_failf(struct request *rq, enum cay_code code,
							 const char *fmt, ...);
void request_no_memory(struct request *rq);
/* Begin a reply whose body follows; length may be REQUEST_LENGTH_UNKNOWN. */
void request_start_stream(struct request *rq, int status, const char *media, uint64_t length);
/* True: stop, and continue at drain.  A lost connection is reported later, by gone. */
bool request_write_stream(struct request *rq, const void *p, size_t n);
/* The same for a server-sent event that has this as JSON; *ret_full as above. */
[[nodiscard]] int request_write_event(struct request *rq, const struct field_table *t,
				      const void *value, bool *ret_full);
size_t request_queued_bytes(const struct request *rq);
void request_end_stream(struct request *rq);
/* Close the connection: the reply cannot be completed. */
void request_abort(struct request *rq);
/* Accept rq->head->upgrade: send 101 with the headers added before and return the connection, which
 * needs an owner at once (conn_set_owner(), with `stuck`: server_stop() ends it that way).  It is
 * not read until then; early gets bytes the peer sent already.  It still counts as a connection of
 * the server.  NULL when it is lost; either way the request has ended. */
[[nodiscard]] struct conn *request_upgrade(struct request *rq, struct buf *early);

/* What a forked child needs to finish a request itself: it reads the rest of a raw body, writes the
 * whole reply, and handles no other request. */
struct request_wire {
	int fd;
	struct http_parser *http; /* after the head, or after the body */
	struct slice rest;        /* read, not parsed yet */
	size_t body_max;
};

/* Call before the fork; all pointers are valid until the request ends, in the child for ever.
 * -ENOTSUP with a filter, -EBUSY while output is queued. */
[[nodiscard]] int request_get_wire(struct request *rq, struct request_wire *ret);
/* In the parent: close the connection here; the child continues it. */
void request_detach(struct request *rq);
#endif
