/* SPDX-License-Identifier: Apache-2.0 */
#include "net/conn.h"

#include "net/conn-filter.h"

struct conn_shared *conn_shared_new(uv_loop_t *loop)
{
	struct conn_shared *room = calloc(1, sizeof(*room));

	if (!room)
		return NULL;
	*room = (struct conn_shared){ .loop = loop, .refs = 1, .wire = malloc(CONN_READ) };
	if (!room->wire) {
		free(room);
		return NULL;
	}
	return room;
}

void conn_shared_unref(struct conn_shared *room)
{
	if (!room || --room->refs)
		return;
	free(room->wire);
	free(room->plain);
	buf_fini(&room->cipher);
	free(room);
}

void conn_notify_end(struct conn *c, const struct cay_err *err)
{
	conn_wire_set_reading(c, false);
	if (c->ended || c->closing)
		return;
	c->ended = true;
	c->events->end(c, err);
}

static void on_conn_alloc(uv_handle_t *h, size_t, uv_buf_t *ret)
{
	const struct conn *c = h->data;

	*ret = uv_buf_init(c->shared->wire, CONN_READ);
}

static void on_conn_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
	struct conn *c = stream->data;
	struct slice wire = { bytes->base, n < 0 ? 0 : (size_t)n };
	struct cay_err err = {};

	if (n > 0 && c->preamble && !c->closing && !c->preamble(c, &wire))
		c->preamble = NULL;
	if (n == 0 || c->closing || (n > 0 && !wire.n))
		return;
	if (n < 0 && n != UV_EOF) {
		(void)cay_fail_sys(&err, CAY_E_UNAVAILABLE, (int)-n, "read");
		conn_notify_end(c, &err);
	} else if (c->filter) {
		c->filter->input(c, wire);
	} else if (n < 0) {
		conn_notify_end(c, NULL);
	} else {
		c->events->read(c, wire);
	}
}

void conn_wire_set_reading(struct conn *c, bool on)
{
	if (c->closing || on == c->reading)
		return;
	c->reading = on;
	/* neither fails on an open stream */
	if (on)
		(void)uv_read_start(&c->stream, on_conn_alloc, on_conn_read);
	else
		(void)uv_read_stop(&c->stream);
}

void conn_set_reading(struct conn *c, bool on)
{
	on = on && !c->ended;
	if (c->closing || on == c->want_read)
		return;
	c->want_read = on;
	if (c->filter)
		c->filter->update_reading(c);
	else
		conn_wire_set_reading(c, on);
}

static void on_conn_written(uv_write_t *w, int status);

static int conn_flush_queue(struct conn *c)
{
	struct buf swap = c->sending;
	uv_buf_t b;
	int r;

	if (c->writing || c->write_failed || !c->out.len)
		return 0;
	c->sending = c->out;
	c->out = swap;
	b = uv_buf_init(c->sending.data, (unsigned)c->sending.len);
	r = uv_write(&c->write, &c->stream, &b, 1, on_conn_written);
	c->writing = r == 0;
	c->write_failed = r < 0;
	return r;
}

static void conn_shutdown_if_flushed(struct conn *c)
{
	int fd;

	if (!c->finishing || c->finished || c->writing || c->out.len)
		return;
	c->finished = true;
	fd = conn_fd(c);
	if (fd >= 0)
		(void)shutdown(fd, SHUT_WR);
}

static void on_conn_written(uv_write_t *w, int status)
{
	struct conn *c = w->data;

	c->writing = false;
	buf_fini(&c->sending);
	c->sending.max = c->out_max;
	if (c->closing)
		return;
	if (status < 0 || conn_flush_queue(c) < 0) {
		c->write_failed = true;
		buf_clear(&c->out);
		if (c->events->stuck)
			c->events->stuck(c);
		return;
	}
	conn_shutdown_if_flushed(c);
	if (c->events->sent)
		c->events->sent(c);
}

int conn_wire_write(struct conn *c, const uv_buf_t *v, unsigned n)
{
	size_t done = 0;
	int r;

	if (c->closing || c->write_failed)
		return -EPIPE;
	if (!c->writing && !c->out.len) {
		r = uv_try_write(&c->stream, v, n);
		if (r < 0 && r != UV_EAGAIN) {
			c->write_failed = true;
			return r;
		}
		done = r < 0 ? 0 : (size_t)r;
	}
	for (unsigned i = 0; i < n; i++) {
		size_t skip = done < v[i].len ? done : v[i].len;

		done -= skip;
		if (skip == v[i].len)
			continue;
		r = buf_append(&c->out, v[i].base + skip, v[i].len - skip);
		if (r < 0) {
			c->write_failed = true; /* part of it may be sent already */
			return r;
		}
	}
	return conn_flush_queue(c);
}

int conn_write(struct conn *c, const uv_buf_t *v, unsigned n)
{
	if (c->finishing)
		return -EPIPE;
	return c->filter ? c->filter->output(c, v, n) : conn_wire_write(c, v, n);
}

size_t conn_unsent_bytes(const struct conn *c)
{
	return uv_stream_get_write_queue_size(&c->stream);
}

size_t conn_queued_bytes(const struct conn *c)
{
	return c->out.len + (c->writing ? c->sending.len : 0);
}

void conn_wire_shutdown(struct conn *c)
{
	c->finishing = true;
	conn_shutdown_if_flushed(c);
}

void conn_shutdown(struct conn *c)
{
	if (c->closing || c->finishing)
		return;
	if (c->filter)
		c->filter->shutdown(c);
	else
		conn_wire_shutdown(c);
}

static struct conn *conn_new(struct conn_shared *room, int family, const struct conn_conf *conf)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->shared = room;
	room->refs++;
	c->open = 1;
	if (family == AF_UNIX)
		(void)uv_pipe_init(room->loop, &c->pipe, 0);
	else
		(void)uv_tcp_init(room->loop, &c->tcp);
	c->handle.data = c->write.data = c;
	conn_set_owner(c, conf->events, conf->data, conf->out_max);
	return c;
}

void conn_discard(struct conn *c)
{
	static const struct conn_events none = {};

	conn_set_owner(c, &none, NULL, 0);
	conn_close(c);
}

static int conn_finish_open(struct conn *c, const struct conn_conf *conf, int r, struct conn **ret)
{
	if (r >= 0 && conf->layer)
		r = conf->layer->attach(conf->layer, c);
	if (r < 0) {
		conn_discard(c);
		return r;
	}
	*ret = c;
	return 0;
}

int conn_accept(struct conn_shared *room, uv_stream_t *listener, const struct conn_conf *conf,
		struct conn **ret)
{
	int family = listener->type == UV_NAMED_PIPE ? AF_UNIX : AF_INET;
	struct conn *c = conn_new(room, family, conf);
	int r;

	if (!c)
		return -ENOMEM;
	r = uv_accept(listener, &c->stream);
	return conn_finish_open(c, conf, r, ret);
}

int conn_open_fd(struct conn_shared *room, int fd, int family, const struct conn_conf *conf,
		 struct conn **ret)
{
	auto_close int owned = fd;
	struct conn *c = conn_new(room, family, conf);
	int r;

	if (!c)
		return -ENOMEM;
	r = family == AF_UNIX ? uv_pipe_open(&c->pipe, fd) : uv_tcp_open(&c->tcp, fd);
	if (r >= 0)
		(void)cay_take_fd(&owned);
	return conn_finish_open(c, conf, r, ret);
}

static void on_conn_connected(uv_connect_t *req, int status)
{
	struct conn *c = req->data;
	struct cay_err err = {};

	if (c->closing)
		return;
	if (status < 0) {
		(void)cay_fail_sys(&err, CAY_E_UNAVAILABLE, -status, "connect");
		conn_notify_end(c, &err);
	} else {
		c->events->ready(c);
	}
}

int conn_connect(struct conn_shared *room, const struct sockaddr *to, const struct conn_conf *conf,
		 struct conn **ret)
{
	struct conn *c = conn_new(room, to->sa_family, conf);
	int r;

	if (!c)
		return -ENOMEM;
	r = uv_tcp_connect(&c->connect, &c->tcp, to, on_conn_connected);
	return conn_finish_open(c, conf, r, ret);
}

void conn_set_preamble(struct conn *c, conn_preamble *fn)
{
	c->preamble = fn;
}

int conn_attach_layer(struct conn *c, const struct conn_layer *layer, struct slice read)
{
	int r = layer->attach(layer, c);

	if (r >= 0 && read.n)
		c->filter->input(c, read);
	return r;
}

void conn_set_owner(struct conn *c, const struct conn_events *events, void *data, size_t out_max)
{
	c->events = events;
	c->data = data;
	/* room for what a filter adds to every piece */
	c->out_max = out_max + out_max / 64 + KIB(1);
	c->out.max = c->out.len > c->out_max ? c->out.len : c->out_max;
	c->sending.max = c->out_max;
}

void on_conn_handle_closed(uv_handle_t *h)
{
	struct conn *c = h->data;

	if (--c->open)
		return;
	if (c->events->closed)
		c->events->closed(c);
	if (c->filter)
		c->filter->free(c);
	buf_fini(&c->out);
	buf_fini(&c->sending);
	conn_shared_unref(c->shared);
	if (c->on_free)
		c->on_free(c->on_free_arg);
	free(c);
}

void conn_close(struct conn *c)
{
	if (c->closing)
		return;
	c->closing = true;
	if (c->filter)
		c->filter->close(c);
	uv_close(&c->handle, on_conn_handle_closed);
}

void conn_notify_stuck(struct conn *c)
{
	if (!c->closing && c->events->stuck)
		c->events->stuck(c);
}

bool conn_is_closing(const struct conn *c)
{
	return c->closing;
}

void conn_set_free_callback(struct conn *c, void (*fn)(void *arg), void *arg)
{
	c->on_free = fn;
	c->on_free_arg = arg;
}

bool conn_is_filtered(const struct conn *c)
{
	return c->filter;
}

void *conn_data(const struct conn *c)
{
	return c->data;
}

int conn_fd(const struct conn *c)
{
	int fd;

	return uv_fileno(&c->handle, &fd) < 0 ? -EBADF : fd;
}
