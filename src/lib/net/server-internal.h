/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_SERVER_INTERNAL_H
#define CAY_NET_SERVER_INTERNAL_H
/*
 * Shared by server.c (sockets), server-conn.c, request.c (routing, decoding) and reply.c (output).
 *
 * A server_conn is freed in the close callback of its last handle and nowhere else, so every
 * pointer to it stays valid during any callback.  `gone` is called from there as well: never
 * from inside a call of the handler.
 *
 * A reply's head and small pieces are held for a moment, so that what follows at once goes out
 * in the same system call.  They are sent before the loop waits again.
 */
#include "net/conn.h"
#include "net/request-turns.h"
#include "net/server.h"
#include "net/tenant-share.h"
#include "wire/proxy-header.h"

#define UNREAD_SMALL KIB(64) /* a reply that is never replaced by a refusal */
#define TURN_LEAST_NS 1000
#define REQUEST_IDS_DRAWN 32

struct server_conn {
	struct server *server;
	const struct server_conf *conf;
	struct server_conn *prev, *next;
	struct conn *conn;
	struct peer_limit *peer;      /* its count of connections */
	struct proxy_header *proxied; /* of a trusted proxy; else NULL */
	uv_timer_t timer;
	unsigned open; /* the connection, the timer, and a held reply */
	bool closing, lingering;

	/* in */
	struct http_parser http;
	struct buf in;         /* read, not parsed */
	struct slice unparsed; /* the same, while parsing */
	bool pumping, paused, watched;
	bool complete; /* the whole request was read */
	size_t discarded;

	/* the request */
	struct request rq;
	const struct server_route *route;
	bool live;       /* a request is in progress */
	bool in_handler; /* the handler was called */
	bool raw;        /* its body is passed to the handler in pieces */
	bool is_special; /* of conf->find_special */
	size_t body_max;
	uint64_t body_received;
	struct buf body;          /* gathered */
	size_t body_counted;      /* of it, in server->bodies */
	struct buf extra_headers; /* of the reply */

	/* the tenant's share of the daemon; NULL: not counted */
	struct tenant_share *share;
	struct tenant_turn turn;
	struct cay_err *refusal; /* sent when it is due */
	size_t unread_counted;
	size_t held_by_handler; /* request_count_held() */

	/* out */
	struct buf held;
	struct server_conn *held_prev, *held_next;
	bool on_held, want_drain;
	size_t unsent; /* of a finished reply, at the last timeout */
	bool reply_begun, chunked, reply_finished;
	bool answer_reported; /* conf->answered was called */
	bool reply_held;      /* output is gathered in held */
	enum cay_code code;   /* of an error reply of ours */
	bool last_request;    /* close after this request */
	bool bodiless;        /* it is a reply to HEAD */
	uint64_t left;        /* bytes left of a stream of known length */
};

/* An upgraded connection: another owner reads it, but server_stop() ends it. */
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
	uv_prepare_t flush_held; /* flushes the held list; runs while it is not empty */
	unsigned open;           /* of these two handles */
	bool draining;
	struct conn_shared *shared;
	struct peer_limits *peers; /* NULL: not counted */
	struct server_conn *conns, *held;
	struct upgraded_conn *upgraded;
	unsigned n_conns;
	size_t bodies;                   /* see conf->bodies_max */
	uint64_t refusing_ns;            /* time spent on requests that conf->admit refused */
	uint64_t ids[REQUEST_IDS_DRAWN]; /* of the next requests; random, so that they tell nothing
					  */
	unsigned n_ids;
};

static inline struct server_conn *server_conn_of_request(struct request *rq)
{
	return (struct server_conn *)(void *)((char *)rq - offsetof(struct server_conn, rq));
}

static inline size_t server_reply_max(const struct server_conf *conf)
{
	return conf->reply_max ? conf->reply_max : SERVER_OUT_MAX;
}

/* Free the server once nothing of it is open. */
void server_free_when_done(struct server *s);
/* Accept a connection; NULL on failure. */
struct server_conn *server_conn_accept(struct server *s);
void server_conn_close(struct server_conn *c);
/* The address in its PROXY header; false when it had none. */
bool server_conn_proxied_address(const struct server_conn *c, struct sockaddr_storage *ret);
/* Free the server_conn but not its connection, which still counts as the server's. */
struct conn *server_conn_release_conn(struct server_conn *c);
/* Send c->held before the loop waits again. */
void server_conn_hold_output(struct server_conn *c);
/* Send c->held now. */
void server_conn_flush(struct server_conn *c);
void on_server_conn_sent(struct conn *conn);
/* The last reference frees it. */
void server_conn_unref(struct server_conn *c);
/* Call conf->answered, once. */
bool server_conn_report_answer(struct server_conn *c, int status, bool whole);
/* Continue with input, the next request or the end, as far as possible now. */
void server_conn_continue(struct server_conn *c);
void server_conn_set_timeout(struct server_conn *c, uint64_t ms);
void server_conn_set_request_id(struct server_conn *c);
/* Events of the parser: a head, part of a body, its end, or an error. */
void server_conn_begin_request(struct server_conn *c);
/* Free what was gathered of a body. */
void server_conn_free_body(struct server_conn *c);
void server_conn_add_body(struct server_conn *c, struct slice bytes);
void server_conn_finish_body(struct server_conn *c);
void server_conn_fail_last(struct server_conn *c, const struct cay_err *err);
void server_conn_reply_error(struct server_conn *c, const struct cay_err *err, unsigned allow);
void server_conn_call_handler(struct server_conn *c);
/* request-turns.c: call the handler when it is the tenant's turn. */
void server_conn_take_turn(struct server_conn *c);
/* Refuse the request, later if its tenant gets many refusals. */
void server_conn_refuse(struct server_conn *c, const struct cay_err *err);
void server_conn_leave_share(struct server_conn *c);
/* Output was queued or sent.  It may close the connection. */
void server_conn_count_unread(struct server_conn *c);
/* Whether a whole reply of n bytes may be queued. */
bool server_conn_can_buffer(const struct server_conn *c, size_t n);
#endif
