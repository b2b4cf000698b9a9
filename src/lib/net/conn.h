/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_CONN_H
#define CAY_NET_CONN_H
/*
 * conn - bytes both ways over one socket, plain or through a filter
 *
 * A unix or TCP socket on a libuv loop, with at most one filter (TLS) between it
 * and its owner, who need not know.  What the socket takes at once is never
 * copied; the rest is queued and `sent` tells when it went.  What is read is handed
 * over in memory all connections of a room share, good for the length of the call:
 * a connection that is idle holds no buffer at all.
 *
 * A conn is on the heap because it may change hands (an upgraded request).  It is
 * freed in its last close callback, so pointers to it stay good for the length of
 * any callback; `closed` says so.  After conn_close() nothing but `closed` is told.
 * None of the calls here calls the owner back, but conn_set_reading(), which a filter may
 * use to tell from the loop what it had kept.
 *
 * Bounded: one read (CONN_READ), out_max queued bytes.  Threading: loop thread.
 */
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define CONN_READ KIB(64) /* the most that one `read` brings */

struct conn;
struct conn_layer;
struct conn_shared;

/* Members may be NULL, but read and end. */
struct conn_events {
	/* A filter is through with its handshake; not told of a plain connection. */
	void (*ready)(struct conn *c);
	void (*read)(struct conn *c, struct slice bytes);
	/* No more will be read: the peer ended in good order (err NULL) or did not. */
	void (*end)(struct conn *c, const struct cay_err *err);
	/* Something queued is out: look at conn_queued_bytes(). */
	void (*sent)(struct conn *c);
	/* What was queued could not be written, nor can anything else. */
	void (*stuck)(struct conn *c);
	/* Over: forget it. */
	void (*closed)(struct conn *c);
};

/* What the connections of one loop share; lives until the last of them is gone. */
[[nodiscard]] struct conn_shared *conn_shared_new(uv_loop_t *loop);
void conn_shared_unref(struct conn_shared *room);

struct conn_conf {
	const struct conn_layer *layer; /* NULL: plain */
	const struct conn_events *events;
	void *data;
	size_t out_max;
};

/* Neither reads before conn_set_reading().  Accept fails only when there is no memory or
 * no connection; take has the connected fd of that AF_*, also on failure. */
[[nodiscard]] int conn_accept(struct conn_shared *room, uv_stream_t *listener,
			      const struct conn_conf *conf, struct conn **ret);
[[nodiscard]] int conn_open_fd(struct conn_shared *room, int fd, int family,
			       const struct conn_conf *conf, struct conn **ret);

/* Another owner; what is queued goes on. */
void conn_set_owner(struct conn *c, const struct conn_events *events, void *data, size_t out_max);
void *conn_data(const struct conn *c);
struct conn_shared *conn_get_shared(const struct conn *c);
uv_loop_t *conn_loop(const struct conn *c);
/* The socket, to look at; or -EBADF. */
int conn_fd(const struct conn *c);
/* Whether its bytes are not those of the socket. */
bool conn_is_filtered(const struct conn *c);
/* Told when the memory goes, behind `closed`, whoever owns it then. */
void conn_set_free_callback(struct conn *c, void (*fn)(void *arg), void *arg);

void conn_set_reading(struct conn *c, bool on);
/* All of it, now or queued; -ENOBUFS past out_max, -EPIPE and others when the peer
 * cannot be written to any more.  Nothing is copied that the socket takes now. */
[[nodiscard]] int conn_write(struct conn *c, const uv_buf_t *v, unsigned n);
size_t conn_queued_bytes(const struct conn *c);
/* Of that, what the socket has not taken: smaller as time goes by, if the peer reads. */
size_t conn_unsent_bytes(const struct conn *c);
/* No more will be written; the peer hears of it behind what is queued. */
void conn_shutdown(struct conn *c);
/* It must end: its owner is told that it is stuck. */
void conn_notify_stuck(struct conn *c);
bool conn_is_closing(const struct conn *c);
/* Close now, in the middle if need be. */
void conn_close(struct conn *c);
/* Close a connection that has no owner any more. */
void conn_discard(struct conn *c);
#endif
