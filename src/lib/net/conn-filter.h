/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_CONN_FILTER_H
#define CAY_NET_CONN_FILTER_H
/*
 * What a filter and the connection under it know of each other.
 *
 * A layer is the configuration of one kind of filter (a certificate and its key);
 * attach() puts a filter of that kind on a connection.  So the library with TLS in
 * it is only linked by programs that have a layer to hand in.
 */
#include "net/conn.h"

struct conn_shared {
	uv_loop_t *loop;
	unsigned refs;
	char *wire;        /* CONN_READ bytes: what one read of a socket brings */
	char *plain;       /* the same behind a filter; made by the first one */
	struct buf cipher; /* what a filter is writing just now */
};

struct conn_filter {
	/* Bytes off the wire, in room->wire; n 0 is their end. */
	void (*input)(struct conn *c, struct slice wire);
	/* Bytes of the owner, towards the wire. */
	int (*output)(struct conn *c, const uv_buf_t *v, unsigned n);
	/* c->wanted changed. */
	void (*update_reading)(struct conn *c);
	/* The owner writes no more. */
	void (*shutdown)(struct conn *c);
	/* Close handles, with on_conn_handle_closed() as the callback of each. */
	void (*close)(struct conn *c);
	void (*free)(struct conn *c);
};

struct conn_layer {
	int (*attach)(const struct conn_layer *layer, struct conn *c);
};

struct conn {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_pipe_t pipe;
		uv_tcp_t tcp;
	};
	struct conn_shared *shared;
	const struct conn_events *events;
	void *data;
	const struct conn_filter *filter;
	void *filter_data;
	unsigned open; /* handles that are not closed yet */
	bool closing;
	bool want_read; /* the owner wants to read */
	bool reading;   /* the socket is read */
	bool ended;     /* the owner was told the end */
	bool writing, write_failed, finishing, finished;
	size_t out_max;
	struct buf out, sending;
	uv_write_t write;
	void (*on_free)(void *arg);
	void *on_free_arg;
};

void conn_wire_set_reading(struct conn *c, bool on);
[[nodiscard]] int conn_wire_write(struct conn *c, const uv_buf_t *v, unsigned n);
/* Shut the socket down behind what is queued. */
void conn_wire_shutdown(struct conn *c);
/* Told at most once. */
void conn_notify_end(struct conn *c, const struct cay_err *err);
void on_conn_handle_closed(uv_handle_t *h);
#endif
