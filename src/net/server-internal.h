/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_SERVER_INTERNAL_H
#define CAY_NET_SERVER_INTERNAL_H
/*
 * What server.c (sockets in, routing) and reply.c (what goes out) share.
 *
 * A connection is freed in the close callback of its last handle and nowhere
 * else, so every pointer to it stays good for the length of any callback.  gone
 * is told from there too: never from inside a call of the handler.
 */
#include "net/server.h"

struct conn {
	struct server *server;
	struct conn *prev, *next;
	uv_pipe_t pipe;
	uv_timer_t timer;
	unsigned open; /* handles that are not closed yet */
	bool closing, lingering;

	/* in */
	struct http_parser http;
	struct buf in; /* read and not parsed */
	bool reading, pumping, paused, watched;
	bool complete; /* all of the request was read */
	size_t discarded;

	/* the request */
	struct request rq;
	const struct server_route *route;
	bool live;   /* a request is here */
	bool handed; /* and the handler has it */
	bool raw;    /* its body goes to the handler as it comes */
	size_t body_max;
	uint64_t body_taken;
	struct buf body;  /* gathered */
	struct buf extra; /* headers of the reply */

	/* out */
	struct buf out, sending;
	uv_write_t write;
	uv_shutdown_t shutdown;
	bool writing, want_drain;
	bool begun, chunked, finished; /* the reply */
	bool last;                     /* no request after this one */
	bool bodiless;                 /* the reply to a HEAD */
	uint64_t left;                 /* of a streamed reply whose length is known */
};

static inline struct conn *conn_of(struct request *rq)
{
	return (struct conn *)(void *)((char *)rq - offsetof(struct conn, rq));
}

void conn_close(struct conn *c);
/* Go on with input, the next request or the end, as far as possible now. */
void conn_pump(struct conn *c);
void conn_fail(struct conn *c, const struct cay_err *err, unsigned allow);
#endif
