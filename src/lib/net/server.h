/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_SERVER_H
#define CAY_NET_SERVER_H
/*
 * server - requests in, replies out, on one loop
 *
 * Owns a listening socket and its connections.  A request is routed by the
 * operation table (or the program's own few routes), its query and JSON body are
 * decoded into structs of the request's pool, and the program's handler is called
 * with them; a raw body is handed over as it comes.  The handler answers when it
 * likes: at once, later, or as a stream.
 *
 *	head -> [body gathered and decoded] -> handler -> reply -> next head
 *	head -> handler -> body events ... -> reply
 *
 * Every request ends in exactly one of: request_reply(), request_fail(),
 * request_end_stream() behind request_start_stream(), request_upgrade(), request_abort(),
 * request_detach(), or events->gone, which says that the peer left first.  After it the
 * struct request must not be touched.  None of those calls back into the handler.
 *
 * Bounded: connections, heads, bodies by the operation's row, output (a producer
 * stops when request_write_stream() says so and goes on at events->drain), time to send
 * a head or a body.  A client that reads a stream slowly may take for ever; it
 * holds one connection and OUT_MARK bytes.
 * Threading: loop thread only.  Nothing blocks, nothing logs.
 */
#include <uv.h>

#include "base/arena.h"
#include "http/http.h"
#include "net/conn.h"
#include "ops/actor.h"

#define SERVER_OUT_MARK KIB(64) /* more than this queued: stop producing */
#define SERVER_OUT_MAX MIB(8)   /* the largest whole reply */
#define SERVER_POOL_MAX MIB(1)  /* decoded form of a request */
#define REQUEST_ID_LEN 16
#define REQUEST_LENGTH_UNKNOWN UINT64_MAX

struct request;
struct server;

/* What a handler that does not answer at once listens to; members may be NULL. */
struct request_events {
	/* Bytes of a raw body; pause with request_pause_body(), what was handed over is yours. */
	void (*body)(struct request *rq, struct slice bytes);
	void (*body_end)(struct request *rq);
	/* Output is below the mark again. */
	void (*drain)(struct request *rq);
	/* The peer left, or broke the rules; the request is over, do not answer. */
	void (*gone)(struct request *rq);
};

/* Lives inside its connection. */
struct request {
	const struct http_head *head;
	struct op_match match; /* match.op is NULL for a route of the program's own */
	struct actor actor;    /* who asks; what conf->admit made of it */
	const void *body;      /* decoded; NULL when the row has no request table */
	const void *query;     /* decoded; NULL when the row has none */
	char id[REQUEST_ID_LEN + 1];
	uint64_t begun_ns;  /* uv_hrtime() when its head was there */
	struct arena arena; /* dies with the request */
	const struct request_events *events;
	void *data; /* the handler's own */
	/* For who is told of the answer: what the request made, and the program's own. */
	struct id target;
	bool mark;
	void *record;
};

typedef void request_fn(struct request *rq, void *arg);

/* A path the operation table does not have. */
struct server_route {
	enum op_method method;
	const char *path;
	const struct field_table *request; /* JSON body, or NULL */
	size_t body_max;
	request_fn *handler;
};

/* Who asks, into rq->actor, and may it: called when the head is there, before anything
 * else of the request is looked at.  -errno refuses it. */
typedef int request_admit(struct request *rq, void *arg, struct cay_err *err);

struct server_conf {
	unsigned max_conns;
	unsigned max_peer;        /* of one address, or IPv6 network; 0: as many as there are */
	uint64_t head_timeout_ms; /* to the first byte of a connection; from that of a head to its
				     last */
	uint64_t idle_timeout_ms; /* between requests, and between pieces of a body */
	const struct server_route *routes;
	size_t n_routes;
	/* A request that is none of the table's, such as one for another host: asked when the
	 * head is there, in front of everything.  What it returns gets the request as it is,
	 * without admit; its body comes raw, of any length.  NULL: an ordinary one. */
	request_fn *(*find_special)(struct request *rq, void *arg);
	request_admit *admit; /* NULL: everybody */
	request_fn *handler;  /* of operations: look at rq->match.op */
	/* Operations that run inside a sandbox, when the program relays them: called
	 * at the head, the body comes raw.  NULL: they go to handler like the rest. */
	request_fn *sandbox_handler;
	/* The program passes every operation on: all are handed over at the head and
	 * their body comes raw.  Length, media type and query are still looked at. */
	bool raw;
	/* Told once of every request, in front of its reply; code is CAY_OK when the
	 * failure, if it is one, is not ours.  Status 0: the peer left before.  True: a
	 * whole reply is held until request_release_held_reply(), which comes from the loop, not
	 * from inside; what is not a whole reply is not held, and not released. */
	bool (*answered)(struct request *rq, int status, enum cay_code code, bool whole, void *arg);
	/* Told in front of that of a failure that is ours, whose words no client is given.
	 * NULL: nobody wants them. */
	void (*broken)(const struct request *rq, const struct cay_err *err, void *arg);
	void *arg;
	/* What every connection goes through (net/tls.h); NULL: plain. */
	const struct conn_layer *layer;
};

/* Serve a listening unix or TCP socket; takes the fd, also on failure.  conf must
 * live as long as the server. */
[[nodiscard]] int server_start(uv_loop_t *loop, int fd, const struct server_conf *conf,
			       struct server **ret, struct cay_err *err);
/* Stop listening and close every connection (handlers hear gone).  The server
 * frees itself when the loop has run its close callbacks. */
void server_stop(struct server *s);
/* Stop listening; each connection ends with the request it is at, or one that comes within
 * a moment. */
void server_drain(struct server *s);
unsigned server_count_connections(const struct server *s);
/* How long it was busy with requests that conf->admit refused, since the start. */
uint64_t server_refusing_ns(const struct server *s);

uv_loop_t *request_loop(struct request *rq);
/* What the connections of its server share, for one of the handler's own. */
struct conn_shared *request_conn_shared(struct request *rq);
/* Whether the peer has closed its connection, looked up now: gone may be on its way. */
bool request_peer_has_left(struct request *rq);
/* Let a reply go that was held; the peer may have left. */
void request_release_held_reply(struct request *rq);
/* Who is at the other end. */
struct ucred;
[[nodiscard]] int request_peer_credentials(struct request *rq, struct ucred *ret);
struct sockaddr_storage;
[[nodiscard]] int request_peer_address(struct request *rq, struct sockaddr_storage *ret);
/* Stop and go on with body events. */
void request_pause_body(struct request *rq);
void request_resume_body(struct request *rq);

/* Add a header to the reply to come; both must be printable ASCII (ours are). */
[[nodiscard]] int request_add_reply_header(struct request *rq, const char *name, const char *value);
/* The same of a stranger's words: what is in them is neither CR nor LF. */
[[nodiscard]] int request_add_reply_header_slice(struct request *rq, struct slice name,
						 struct slice value);
/* The whole reply; body is emptied.  NULL media: no body. */
void request_reply(struct request *rq, int status, const char *media, struct buf *body);
/* The whole reply from one table, with the status of the operation's row. */
void request_reply_json(struct request *rq, const struct field_table *t, const void *value);
void request_fail(struct request *rq, const struct cay_err *err);
void request_refuse(struct request *rq, enum cay_code code, const char *what);
__attribute__((format(printf, 3, 4))) void request_failf(struct request *rq, enum cay_code code,
							 const char *fmt, ...);
void request_no_memory(struct request *rq);
/* Begin a reply whose body follows; length when it is known. */
void request_start_stream(struct request *rq, int status, const char *media, uint64_t length);
/* True: enough for now, go on at drain.  Whatever happens to the connection is
 * told by gone, later. */
bool request_write_stream(struct request *rq, const void *p, size_t n);
size_t request_queued_bytes(const struct request *rq);
void request_end_stream(struct request *rq);
/* Close the connection in the middle: the reply cannot be finished honestly. */
void request_abort(struct request *rq);
/* Follow rq->head->upgrade: 101 with the headers added before, and the connection
 * is the caller's, to be given an owner at once (conn_set_owner(), with `stuck`: that is
 * how server_stop() ends it).  It is not read until then; early gets what the peer
 * sent already.  It still counts as one of the server's.  NULL when it is lost;
 * either way this ends the request. */
[[nodiscard]] struct conn *request_upgrade(struct request *rq, struct buf *early);

/* What a forked child needs to go on with a request by itself: it reads the rest of a raw
 * body and writes the whole answer, and no other request follows. */
struct request_wire {
	int fd;
	struct http_parser *http; /* behind the head, or behind the body */
	struct slice rest;        /* was read and is not parsed yet */
	size_t body_max;
};

/* Look at it before the fork; all pointers are good until the request ends, in the child
 * for ever.  -ENOTSUP behind a filter, -EBUSY while something is still on its way out. */
[[nodiscard]] int request_get_wire(struct request *rq, struct request_wire *ret);
/* In the parent: a child has it.  The connection is closed here, and goes on there. */
void request_detach(struct request *rq);
#endif
