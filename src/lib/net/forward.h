/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_FORWARD_H
#define CAY_NET_FORWARD_H
/*
 * carry - a request on its way to another program, and the answer on its way back
 *
 * What a relay and a proxy have in common: the life of one connection and one timer
 * beside a request of ours, bodies in both directions with back-pressure, and an end
 * that the client hears of.  Until the answer is begun a failure is a reply of ours;
 * after it the client's connection is closed in the middle, which no HTTP client takes
 * for the end.  A client that leaves closes the other connection.
 *
 * The owner's struct begins with one, is malloc()ed, and is given to kind->freed at last.
 * Bounded: one read (64 KiB) plus the request's output mark towards the client,
 * CARRY_MARK plus one piece the other way.
 */
#include "net/server.h"

#define FORWARD_MARK KIB(64)
#define FORWARD_IN_MAX (2 * CONN_READ)

struct forward;
struct tunnel;

/* The end that whoever started it has, zeroed before; good until done. */
struct forward_handle {
	struct forward *forward;
	struct tunnel *tunnel; /* instead, once it is one */
};

struct forward_callbacks {
	void (*head)(struct forward *c, struct slice *in); /* of the answer; in: what follows it */
	void (*complete)(struct forward *c,
			 size_t behind); /* behind it nobody asked for anything */
	void (*malformed)(struct forward *c, const char *why);        /* it is not HTTP */
	void (*closed)(struct forward *c, const struct cay_err *err); /* by the other side */
	void (*timed_out)(struct forward *c);                         /* no head in time */
	void (*freed)(struct forward *c);                             /* free it */
};

struct forward {
	struct request *rq; /* NULL once it is answered or gone */
	struct conn *conn;  /* NULL before it is there and after it is closed */
	const struct forward_callbacks *callbacks;
	uv_timer_t timer;
	uint64_t head_timeout_ms; /* once all is sent; 0 = for ever */
	unsigned open;            /* the connection and the timer, while they are not closed */
	bool closing, answered, body_paused;
	bool ready;     /* the request's head is sent, its body may follow */
	bool sent;      /* and all of the body has */
	bool got_bytes; /* something came back */
	bool chunked;   /* the request's body goes on in chunks */
	struct buf in;  /* of the answer, read and not passed on */
	struct forward_handle *handle;
	void (*done)(void *arg);
	void *arg;
	struct http_parser http; /* last, and not zeroed: it is most of it */
};

/* What forward.c listens to on its connection. */
extern const struct conn_events forward_conn_events;
#define FORWARD_CONN_CONF(c) \
	((struct conn_conf){ .events = &forward_conn_events, \
			     .data = (c), \
			     .out_max = \
				     FORWARD_MARK + KIB(128) }) /* one piece on top of the mark */

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
/* To the other program.  May fail the whole: look at closing. */
void forward_write(struct forward *c, const struct buf *bytes);
/* Its body waits until forward_start_body(). */
void forward_pause_body(struct forward *c);
/* Its head is written: the body follows, and then a head is waited for. */
void forward_start_body(struct forward *c);
/* The answer has begun: what is left of it goes through. */
void forward_start_reply(struct forward *c, int status, const char *type, uint64_t length);
/* It all went through. */
void forward_finish(struct forward *c);
/* Both connections become a tunnel; what the answer's head says is in the request already. */
void forward_become_tunnel(struct forward *c, struct slice from_there);
/* The connection is somebody else's now. */
[[nodiscard]] struct conn *forward_release_conn(struct forward *c);
/* And all the rest is: done and hold will not be told. */
[[nodiscard]] struct request *forward_release_request(struct forward *c);
/* Over: close what is open. */
void forward_close(struct forward *c);
/* Over, and the client must hear of it. */
void forward_fail_with_error(struct forward *c, const struct cay_err *err);
__attribute__((format(printf, 3, 4))) void forward_fail(struct forward *c, enum cay_code code,
							const char *fmt, ...);
/* It must end: who has no answer yet gets this one, who has loses its connection. */
void forward_cancel(struct forward_handle *h, const struct cay_err *why);
#endif
