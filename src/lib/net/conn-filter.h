/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_CONN_FILTER_H
#define CAY_NET_CONN_FILTER_H
/*
 * The interface between a connection and its filter.
 *
 * A layer is the configuration of one kind of filter (a certificate and its key); attach()
 * puts such a filter on a connection.  Only programs that pass a layer link the library that
 * implements it, which is how TLS stays out of the others.
 */
#include "net/conn.h"

struct conn_shared {
	uv_loop_t *loop;
	unsigned refs;
	char *wire;        /* CONN_READ bytes: one read of a socket */
	char *plain;       /* the same after a filter; allocated by the first one */
	struct buf cipher; /* output of the filter that is writing now */
};

struct conn_filter {
	/* Bytes from the socket, in shared->wire; n 0 is the end. */
	void (*input)(struct conn *c, struct slice wire);
	/* Bytes from the owner, towards the socket. */
	int (*output)(struct conn *c, const uv_buf_t *v, unsigned n);
	/* c->want_read changed. */
	void (*update_reading)(struct conn *c);
	/* The owner has finished writing. */
	void (*shutdown)(struct conn *c);
	/* Close handles, each with on_conn_handle_closed() as callback. */
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
	conn_preamble *preamble; /* NULL: none, or no more */
	unsigned open;           /* handles not closed yet */
	bool closing;
	bool want_read; /* the owner wants to read */
	bool reading;   /* the socket is being read */
	bool ended;     /* events->end was called */
	bool writing, write_failed, finishing, finished;
	size_t out_max;
	struct buf out, sending;
	union {
		uv_write_t write;
		uv_connect_t connect; /* before there is anything to write */
	};
	void (*on_free)(void *arg);
	void *on_free_arg;
};

void conn_wire_set_reading(struct conn *c, bool on);
[[nodiscard]] int conn_wire_write(struct conn *c, const uv_buf_t *v, unsigned n);
/* Shut the socket down after the queued bytes. */
void conn_wire_shutdown(struct conn *c);
/* Calls events->end, at most once. */
void conn_notify_end(struct conn *c, const struct cay_err *err);
void on_conn_handle_closed(uv_handle_t *h);
#endif
