/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_CARRY_H
#define CAY_NET_CARRY_H
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

#define CARRY_MARK KIB(64)
#define CARRY_IN_MAX (2 * CONN_READ)

struct carry;
struct tunnel;

/* The end that whoever started it has, zeroed before; good until done. */
struct carry_hold {
	struct carry *carry;
	struct tunnel *tunnel; /* instead, once it is one */
};

struct carry_kind {
	void (*head)(struct carry *c, struct slice *in);  /* of the answer; in: what follows it */
	void (*whole)(struct carry *c, size_t behind);    /* behind it nobody asked for anything */
	void (*broken)(struct carry *c, const char *why); /* it is not HTTP */
	void (*closed)(struct carry *c, const struct cay_err *err); /* by the other side */
	void (*late)(struct carry *c);                              /* no head in time */
	void (*freed)(struct carry *c);                             /* free it */
};

struct carry {
	struct request *rq; /* NULL once it is answered or gone */
	struct conn *conn;  /* NULL before it is there and after it is closed */
	const struct carry_kind *kind;
	uv_timer_t timer;
	uint64_t head_timeout_ms; /* once all is sent; 0 = for ever */
	unsigned open;            /* the connection and the timer, while they are not closed */
	bool closing, answered, body_paused;
	bool ready;    /* the request's head is sent, its body may follow */
	bool sent;     /* and all of the body has */
	bool heard;    /* something came back */
	bool chunked;  /* the request's body goes on in chunks */
	struct buf in; /* of the answer, read and not passed on */
	struct carry_hold *hold;
	void (*done)(void *arg);
	void *arg;
	struct http_parser http; /* last, and not zeroed: it is most of it */
};

/* What carry.c listens to on its connection. */
extern const struct conn_events carry_events;
#define CARRY_CONN(c) \
	((struct conn_conf){ .events = &carry_events, \
			     .data = (c), \
			     .out_max = \
				     CARRY_MARK + KIB(128) }) /* one piece on top of the mark */

/* Takes the request; done is told once, last; it and hold may be NULL.  Nothing of a body
 * comes before the loop goes on: be ready by then, or pause it by carry_hold_body(). */
void carry_init(struct carry *c, struct request *rq, const struct carry_kind *kind,
		struct carry_hold *hold, void (*done)(void *arg), void *arg);
/* A connection is there. */
void carry_on(struct carry *c, struct conn *conn);
/* To the other program.  May fail the whole: look at closing. */
void carry_write(struct carry *c, const struct buf *bytes);
/* Its body waits until carry_ready(). */
void carry_hold_body(struct carry *c);
/* Its head is written: the body follows, and then a head is waited for. */
void carry_ready(struct carry *c);
/* The answer has begun: what is left of it goes through. */
void carry_answer(struct carry *c, int status, const char *type, uint64_t length);
/* It all went through. */
void carry_finish(struct carry *c);
/* Both connections become a tunnel; what the answer's head says is in the request already. */
void carry_tunnel(struct carry *c, struct slice from_there);
/* The connection is somebody else's now. */
[[nodiscard]] struct conn *carry_take_conn(struct carry *c);
/* And all the rest is: done and hold will not be told. */
[[nodiscard]] struct request *carry_take_request(struct carry *c);
/* Over: close what is open. */
void carry_shut(struct carry *c);
/* Over, and the client must hear of it. */
void carry_end(struct carry *c, const struct cay_err *err);
__attribute__((format(printf, 3, 4))) void carry_fail(struct carry *c, enum cay_code code,
						      const char *fmt, ...);
/* It must end: who has no answer yet gets this one, who has loses its connection. */
void carry_cut(struct carry_hold *h, const struct cay_err *why);
#endif
