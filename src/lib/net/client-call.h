/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_CLIENT_CALL_H
#define CAY_NET_CLIENT_CALL_H
/*
 * client-call - one request to another program of ours, and its whole reply
 *
 * It uses a pooled connection (net/upstream-pool.h).  Request and reply are held in memory,
 * the reply up to a limit; use a relay for anything larger.  `done` is called once, from the
 * loop, unless the call was cancelled or failed to start.  The call has ended by then, and the
 * reply is valid only during `done`.
 *
 * Bodies of any length, too: with `piece` that of a successful reply is passed on as it comes, and
 * after a start with `more` the caller writes that of the request.  Both have back-pressure.
 *
 * Bounded: answer_max, and timeout_ms for the whole call.  Threading: loop thread.
 */
#include "http/http.h"
#include "net/upstream-pool.h"

struct client_call;

struct client_call_conf {
	struct upstream_pool *upstream;
	struct conn_shared *shared;
	struct slice head, body; /* sent unchanged; head ends with its empty line */
	bool can_retry;          /* sending it twice is harmless */
	size_t answer_max;       /* bytes of the reply's body; more is CAY_E_TOO_LARGE */
	uint64_t timeout_ms;     /* 0: no limit */
	/* So much of the reply's body is held; false: no more may be.  May be NULL. */
	bool (*received)(void *arg, size_t held);
	/* Bytes of the body of a reply below 400, which are not held; none when the head has come.
	 * True stops the connection until client_call_resume().  May be NULL, and may cancel the
	 * call. */
	bool (*piece)(void *arg, const struct http_head *head, struct slice bytes);
	bool more;                /* the head announces chunks: client_call_write() sends them */
	void (*drain)(void *arg); /* write again */
	/* head NULL: no reply, err says why. */
	void (*done)(void *arg, const struct http_head *head, struct slice body,
		     const struct cay_err *err);
	void *arg;
};

/* On failure done is not called.  The slices need not outlive this call. */
[[nodiscard]] int client_call_start(const struct client_call_conf *conf, struct client_call **ret,
				    struct cay_err *err);
/* Continue after a piece that stopped. */
void client_call_resume(struct client_call *c);
/* Send bytes of the request's body as a chunk, none for the end.  True: stop until drain. */
bool client_call_write(struct client_call *c, struct slice bytes);
/* Close the connection, so that the other program stops too; done is not called. */
void client_call_cancel(struct client_call *c);
#endif
