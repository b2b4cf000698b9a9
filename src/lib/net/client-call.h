/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_CLIENT_CALL_H
#define CAY_NET_CLIENT_CALL_H
/*
 * call - one request of our own to another program of ours, and its whole answer
 *
 * Over a kept connection (net/upstream-pool.h).  What is asked stands in memory, and so does
 * the answer, up to a limit; a relay is for what must not.  `done` is told once, from the
 * loop, unless the call was cancelled or could not be begun; when it is told the call is
 * over, and the answer is good for the length of `done`.
 *
 * Bounded: answer_max, and timeout_ms for all of it.  Threading: loop thread.
 */
#include "http/http.h"
#include "net/upstream-pool.h"

struct client_call;

struct client_call_conf {
	struct upstream_pool *upstream;
	struct conn_shared *shared;
	struct slice head, body; /* as they go out; head ends with its empty line */
	bool can_retry;          /* nothing happens twice if it is sent twice */
	size_t answer_max;       /* of its body; more is CAY_E_TOO_LARGE */
	uint64_t timeout_ms;     /* 0: for ever */
	/* head NULL: err says why there is no answer. */
	void (*done)(void *arg, const struct http_head *head, struct slice body,
		     const struct cay_err *err);
	void *arg;
};

/* On failure done is not told.  The slices need not live longer than this. */
[[nodiscard]] int client_call_start(const struct client_call_conf *conf, struct client_call **ret,
				    struct cay_err *err);
/* Nobody wants to know any more: its connection is closed, so the other program hears. */
void client_call_cancel(struct client_call *c);
#endif
