/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_SERVER_INTERNAL_H
#define CAY_NET_SERVER_INTERNAL_H
/*
 * What server.c (sockets), server-conn.c (a connection), request.c (routing, decoding) and reply.c
 * (what goes out) share.
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

struct server_conn {
	struct server *server;
	const struct server_conf *conf;
	struct server_conn *prev, *next;
	struct conn *conn;
	struct peer_limit *peer; /* counted there */
	uv_timer_t timer;
	unsigned open; /* the connection, the timer, and a reply that waits */
	bool closing, lingering;

	/* in */
	struct http_parser http;
	struct buf in;         /* read and not parsed */
	struct slice unparsed; /* the same, while it is being parsed */
	bool pumping, paused, watched;
	bool complete; /* all of the request was read */
	size_t discarded;

	/* the request */
	struct request rq;
	const struct server_route *route;
	bool live;       /* a request is here */
	bool in_handler; /* and the handler has it */
	bool raw;        /* its body goes to the handler as it comes */
	bool is_special; /* conf->stray's */
	size_t body_max;
	uint64_t body_received;
	struct buf body;          /* gathered */
	struct buf extra_headers; /* headers of the reply */

	/* out */
	struct buf held;
	struct server_conn *held_prev, *held_next;
	bool on_held, want_drain;
	size_t unsent; /* of a finished reply, when the timer looked last */
	bool reply_begun, chunked, reply_finished; /* the reply */
	bool answer_reported;                      /* conf->answered was */
	bool reply_held;                           /* nothing goes out yet: it gathers in held */
	enum cay_code code;                        /* of a reply that is a failure of ours */
	bool last_request;                         /* no request after this one */
	bool bodiless;                             /* the reply to a HEAD */
	uint64_t left;                             /* of a streamed reply whose length is known */
};

/* A connection that was upgraded: not read by us any more, but ours to end. */
struct upgraded_conn {
	struct server *server;
	struct conn *conn;
	struct peer_limit *peer;
	struct upgraded_conn *prev, *next;
};

struct server {
	const struct server_conf *conf;
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_pipe_t pipe;
		uv_tcp_t tcp;
	} listener;
	uv_prepare_t flush_held; /* of what is held; runs while there is some */
	unsigned open;           /* of those two handles */
	bool draining;
	struct conn_shared *shared;
	struct peer_limits *peers; /* NULL: nobody counts */
	struct server_conn *conns, *held;
	struct upgraded_conn *upgraded;
	unsigned n_conns;
	uint64_t refusing_ns;
	uint32_t id_first, id_next; /* of requests: unlike those of our neighbours, then counted */
};

static inline struct server_conn *server_conn_of_request(struct request *rq)
{
	return (struct server_conn *)(void *)((char *)rq - offsetof(struct server_conn, rq));
}

/* The last of it may have gone: then it goes, too. */
void server_free_when_done(struct server *s);
/* Take the connection that waits; NULL when it cannot be. */
struct server_conn *server_conn_accept(struct server *s);
void server_conn_close(struct server_conn *c);
bool server_is_draining(const struct server *s);
/* Without its connection, which is returned and stays one of the server's. */
struct conn *server_conn_release_conn(struct server_conn *c);
/* Have c->held sent before the loop waits again. */
void server_conn_hold_output(struct server_conn *c);
/* Send what is held. */
void server_conn_flush(struct server_conn *c);
void server_conn_handle_sent(struct server_conn *c);
/* One handle less; the last one frees it. */
void server_conn_unref(struct server_conn *c);
/* Tell the program, once. */
bool server_conn_report_answer(struct server_conn *c, int status, bool whole);
/* Go on with input, the next request or the end, as far as possible now. */
void server_conn_continue(struct server_conn *c);
void server_conn_set_timeout(struct server_conn *c, uint64_t ms);
/* It was refused at its head, which has taken until now. */
void server_conn_add_refusing_time(struct server_conn *c, uint64_t begun_ns);
/* Give the request its id. */
void server_conn_set_request_id(struct server_conn *c);
/* What the parser found: a head, some of a body, its end, or nonsense. */
void server_conn_begin_request(struct server_conn *c);
void server_conn_add_body(struct server_conn *c, struct slice bytes);
void server_conn_finish_body(struct server_conn *c);
void server_conn_fail_last(struct server_conn *c, const struct cay_err *err);
void server_conn_reply_error(struct server_conn *c, const struct cay_err *err, unsigned allow);
#endif
