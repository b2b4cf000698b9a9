/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_FORWARD_H
#define CAY_NET_FORWARD_H
/*
 * forward - pass a request to another program, and its reply back
 *
 * The part relay and proxy share: one connection and one timer for a request, bodies in both
 * directions with back-pressure, and an end the client can recognise.  Until the reply has begun a
 * failure becomes an error reply; after that the client's connection is closed in the middle, which
 * no HTTP client mistakes for a complete reply.  A client that leaves closes the other connection.
 *
 * The owner's struct begins with a struct forward, comes from forward_new() and is passed to
 * callbacks->freed at the end.  Bounded: one read (64 KiB) plus the request's output mark towards
 * the client, FORWARD_MARK plus one piece the other way.
 */
#include "net/server.h"

#define FORWARD_MARK KIB(64)
#define FORWARD_IN_MAX (2 * CONN_READ)

struct forward;
struct tunnel;

/* Lets the starter end it; zeroed before, valid until done. */
struct forward_handle {
	struct forward *forward;
	struct tunnel *tunnel; /* instead, once it is a tunnel */
};

struct forward_callbacks {
	void (*head)(struct forward *c, struct slice *in);     /* in: the bytes after the head */
	void (*complete)(struct forward *c, size_t excess);    /* bytes received after the reply */
	void (*malformed)(struct forward *c, const char *why); /* the reply is not HTTP */
	void (*closed)(struct forward *c, const struct cay_err *err); /* the other side closed */
	void (*timed_out)(struct forward *c);                         /* no head in time */
	void (*freed)(struct forward *c);                             /* free it */
};

struct forward {
	struct request *rq; /* NULL once answered or left */
	struct conn *conn;  /* NULL before it is open and after it is closed */
	const struct forward_callbacks *callbacks;
	uv_timer_t timer;
	uint64_t head_timeout_ms; /* after the request is sent; 0 = no limit */
	unsigned open;            /* handles not closed yet: connection and timer */
	bool closing, answered, body_paused;
	bool ready;     /* the head is sent, the body may follow */
	bool sent;      /* the body is sent as well */
	bool got_bytes; /* some of the reply arrived */
	bool chunked;   /* the request's body is sent in chunks */
	struct buf in;  /* of the reply: read, not passed on yet */
	struct forward_handle *handle;
	void (*done)(void *arg);
	void *arg;
	struct http_parser http; /* last, and not zeroed: it is most of the struct */
};

/* Events of the connection, handled in forward.c. */
extern const struct conn_events forward_conn_events;
#define FORWARD_OUT_MAX (FORWARD_MARK + KIB(128)) /* one piece on top of the mark */
#define FORWARD_CONN_CONF(c) \
	((struct conn_conf){ \
		.events = &forward_conn_events, .data = (c), .out_max = FORWARD_OUT_MAX })

/* Allocate an owner of that size, whose members after `forward` are not set.  Takes the
 * request; done is called once, last, also when there is no memory (NULL, and the request is
 * answered); it and hold may be NULL.  No body arrives before the loop runs again: be ready
 * by then, or call forward_pause_body(). */
[[nodiscard]] void *forward_new(size_t size, struct request *rq,
				const struct forward_callbacks *kind, struct forward_handle *hold,
				void (*done)(void *arg), void *arg);
/* Connect to a sandbox's socket, or use a connection that exists. */
[[nodiscard]] int forward_dial(struct forward *c, const char *path);
void forward_set_conn(struct forward *c, struct conn *conn);
/* Write to the other program.  May fail the whole request: check `closing`. */
void forward_write(struct forward *c, const struct buf *bytes);
/* Hold the body back until forward_start_body(). */
void forward_pause_body(struct forward *c);
/* The head is written: pass the body on, then wait for the reply's head. */
void forward_start_body(struct forward *c);
/* Begin the reply; the rest of it is passed through. */
void forward_start_reply(struct forward *c, int status, const char *type, uint64_t length);
/* The reply is complete. */
void forward_finish(struct forward *c);
/* Join both connections as a tunnel; the headers of the 101 are already in the request. */
void forward_become_tunnel(struct forward *c, struct slice from_there);
/* Give the connection away. */
[[nodiscard]] struct conn *forward_release_conn(struct forward *c);
/* Give the request away; done and hold are not used any more. */
[[nodiscard]] struct request *forward_release_request(struct forward *c);
/* Close the connection and the timer. */
void forward_close(struct forward *c);
/* Close, and fail the request. */
void forward_fail_with_error(struct forward *c, const struct cay_err *err);
__attribute__((format(printf, 3, 4))) void forward_fail(struct forward *c, enum cay_code code,
							const char *fmt, ...);
/* End it: a client without a reply gets this error, any other loses its connection. */
void forward_cancel(struct forward_handle *h, const struct cay_err *why);
#endif
