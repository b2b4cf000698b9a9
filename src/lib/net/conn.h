/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_CONN_H
#define CAY_NET_CONN_H
/*
 * conn - bytes both ways over one socket, plain or through a filter
 *
 * A unix or TCP socket on a libuv loop, with at most one filter (TLS) between it and its
 * owner, which need not know.  Bytes the socket takes at once are never copied; the rest is
 * queued, and `sent` reports progress.  Input is passed in memory shared by all connections
 * of a loop and valid only during the call, so an idle connection holds no buffer.
 *
 * A conn is on the heap because it may change owners (an upgraded request).  It is freed in
 * its last close callback, so pointers stay valid during any callback; `closed` is the last
 * event.  After conn_close() there is no other.  No function here calls back into the owner
 * except conn_set_reading(): a filter may then deliver, from the loop, input it kept.
 *
 * Bounded: one read (CONN_READ), out_max queued bytes.  Threading: loop thread.
 */
#include <uv.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define CONN_READ KIB(64) /* at most this much per `read` */

struct conn;
struct conn_layer;
struct conn_shared;

/* All but read and end may be NULL. */
struct conn_events {
	/* A filter has finished its handshake, or conn_connect() has connected. */
	void (*ready)(struct conn *c);
	void (*read)(struct conn *c, struct slice bytes);
	/* No more input: the peer closed cleanly (err NULL) or not. */
	void (*end)(struct conn *c, const struct cay_err *err);
	/* Queued bytes were sent; see conn_queued_bytes(). */
	void (*sent)(struct conn *c);
	/* Queued bytes could not be written; nothing more can be. */
	void (*stuck)(struct conn *c);
	/* The last event; forget the connection. */
	void (*closed)(struct conn *c);
};

/* Shared by the connections of one loop; freed with the last of them. */
[[nodiscard]] struct conn_shared *conn_shared_new(uv_loop_t *loop);
void conn_shared_unref(struct conn_shared *room);

struct conn_conf {
	const struct conn_layer *layer; /* NULL: plain */
	const struct conn_events *events;
	void *data;
	size_t out_max;
};

/* Reading starts with conn_set_reading().  conn_accept() fails only without memory or without a
 * connection; conn_open_fd() takes the connected fd of family AF_*, also on failure. */
[[nodiscard]] int conn_accept(struct conn_shared *room, uv_stream_t *listener,
			      const struct conn_conf *conf, struct conn **ret);
[[nodiscard]] int conn_open_fd(struct conn_shared *room, int fd, int family,
			       const struct conn_conf *conf, struct conn **ret);
/* Connect to an address of TCP, without a layer: `ready` or `end` follows, and until then it can
 * only be closed. */
[[nodiscard]] int conn_connect(struct conn_shared *room, const struct sockaddr *to,
			       const struct conn_conf *conf, struct conn **ret);

/* Called with the first bytes of the socket, before any filter, until it returns false: it takes
 * what is its own from the front, and may close the connection. */
typedef bool conn_preamble(struct conn *c, struct slice *wire);
void conn_set_preamble(struct conn *c, conn_preamble *fn);
/* Put a filter on a plain connection; it gets the bytes that the owner has read so far, and may
 * call the owner from here.  After a failure the connection can only be closed. */
[[nodiscard]] int conn_attach_layer(struct conn *c, const struct conn_layer *layer,
				    struct slice read);
/* Change the owner; queued bytes stay queued. */
void conn_set_owner(struct conn *c, const struct conn_events *events, void *data, size_t out_max);
void *conn_data(const struct conn *c);
/* The socket, or -EBADF.  The connection keeps it. */
int conn_fd(const struct conn *c);
/* Whether a filter changes the bytes on the socket. */
bool conn_is_filtered(const struct conn *c);
/* Called when the memory is freed, after `closed`, for any owner. */
void conn_set_free_callback(struct conn *c, void (*fn)(void *arg), void *arg);

void conn_set_reading(struct conn *c, bool on);
/* Write or queue everything.  -ENOBUFS past out_max, -EPIPE and others once the peer cannot be
 * written to.  Only queued bytes are copied. */
[[nodiscard]] int conn_write(struct conn *c, const uv_buf_t *v, unsigned n);
size_t conn_queued_bytes(const struct conn *c);
/* The part of it that the socket has not taken; it shrinks while the peer reads. */
size_t conn_unsent_bytes(const struct conn *c);
/* No more will be written; the peer sees the end after the queued bytes. */
void conn_shutdown(struct conn *c);
/* Force an end: calls the owner's `stuck`. */
void conn_notify_stuck(struct conn *c);
bool conn_is_closing(const struct conn *c);
/* Close now; queued bytes are lost. */
void conn_close(struct conn *c);
/* Close a connection that has no owner any more. */
void conn_discard(struct conn *c);
#endif
