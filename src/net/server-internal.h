/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_SERVER_INTERNAL_H
#define CAY_NET_SERVER_INTERNAL_H
/*
 * What server.c (sockets), client.c (a connection), request.c (routing, decoding) and reply.c (what
 * goes out) share.
 *
 * A client is freed in the close callback of its last handle and nowhere else, so
 * every pointer to it stays good for the length of any callback.  gone is told
 * from there too: never from inside a call of the handler.
 *
 * A reply's head and small pieces are held for a moment, so that what follows at
 * once goes out in the same system call.  The server lets go of them before its
 * loop waits again.
 */
#include "net/conn.h"
#include "net/server.h"

struct client {
	struct server *server;
	const struct server_conf *conf;
	struct client *prev, *next;
	struct conn *conn;
	struct peer *peer; /* counted there */
	uv_timer_t timer;
	unsigned open; /* the connection, the timer, and a reply that waits */
	bool closing, lingering;

	/* in */
	struct http_parser http;
	struct buf in;     /* read and not parsed */
	struct slice rest; /* the same, while it is being parsed */
	bool pumping, paused, watched;
	bool complete; /* all of the request was read */
	size_t discarded;

	/* the request */
	struct request rq;
	const struct server_route *route;
	bool live;   /* a request is here */
	bool handed; /* and the handler has it */
	bool raw;    /* its body goes to the handler as it comes */
	bool stray;  /* conf->stray's */
	size_t body_max;
	uint64_t body_taken;
	struct buf body;  /* gathered */
	struct buf extra; /* headers of the reply */

	/* out */
	struct buf held;
	struct client *held_prev, *held_next;
	bool on_held, want_drain;
	size_t unsent;                 /* of a finished reply, when the timer looked last */
	bool begun, chunked, finished; /* the reply */
	bool told;                     /* conf->answered was */
	bool waits;                    /* nothing goes out yet: it gathers in held */
	enum cay_code code;            /* of a reply that is a failure of ours */
	bool last;                     /* no request after this one */
	bool bodiless;                 /* the reply to a HEAD */
	uint64_t left;                 /* of a streamed reply whose length is known */
};

/* A connection that was upgraded: not read by us any more, but ours to end. */
struct taken {
	struct server *server;
	struct conn *conn;
	struct peer *peer;
	struct taken *prev, *next;
};

struct server {
	const struct server_conf *conf;
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_pipe_t pipe;
		uv_tcp_t tcp;
	} listener;
	uv_prepare_t let_go; /* of what is held; runs while there is some */
	unsigned open;       /* of those two handles */
	bool draining;
	struct conn_room *room;
	struct peers *peers; /* NULL: nobody counts */
	struct client *clients, *held;
	struct taken *taken;
	unsigned n_conns;
	uint64_t refusing_ns;
	uint32_t id_first, id_next; /* of requests: unlike those of our neighbours, then counted */
};

static inline struct client *client_of(struct request *rq)
{
	return (struct client *)(void *)((char *)rq - offsetof(struct client, rq));
}

/* The last of it may have gone: then it goes, too. */
void server_free_when_done(struct server *s);
/* Take the connection that waits; NULL when it cannot be. */
struct client *client_accept(struct server *s);
void client_close(struct client *c);
bool server_draining(const struct server *s);
/* Without its connection, which is returned and stays one of the server's. */
struct conn *client_part(struct client *c);
/* Have c->held sent before the loop waits again. */
void client_hold(struct client *c);
/* Send what is held. */
void client_flush(struct client *c);
void client_sent(struct client *c);
/* One handle less; the last one frees it. */
void client_unref(struct client *c);
/* Tell the program, once. */
bool client_answered(struct client *c, int status, bool whole);
/* Go on with input, the next request or the end, as far as possible now. */
void client_pump(struct client *c);
void client_arm(struct client *c, uint64_t ms);
/* It was refused at its head, which has taken until now. */
void client_refused(struct client *c, uint64_t begun_ns);
/* Give the request its id. */
void client_name(struct client *c);
/* What the parser found: a head, some of a body, its end, or nonsense. */
void client_begin(struct client *c);
void client_body(struct client *c, struct slice bytes);
void client_body_end(struct client *c);
void client_broken(struct client *c, const struct cay_err *err);
void client_fail(struct client *c, const struct cay_err *err, unsigned allow);
#endif
