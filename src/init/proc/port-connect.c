/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port-connect - a request that becomes a connection to a port inside
 *
 * Connects to loopback, IPv4 and then IPv6; then the reply is 101 and the bytes are passed on
 * unread, both ways.
 */

#include <arpa/inet.h>
#include <sys/socket.h>

#include "init/core/handlers.h"
#include "init/core/init.h"
#include "net/tunnel.h"
#include "wire/hello.h"

/* At once, so that previews leave connections for commands. */
#define PORT_CONNECTIONS_MAX 128
#define PORT_CONNECT_MS 5000
#define EARLY_MAX (2 * CONN_READ)

struct port_dial {
	struct init *init;
	struct request *rq; /* NULL: the client left */
	uv_timer_t timer;
	uv_poll_t poll;
	unsigned handles; /* not closed yet */
	int fd;
	uint16_t port;
	bool v6, finished;
};

static void on_port_dial_closed(uv_handle_t *h)
{
	struct port_dial *d = h->data;

	if (--d->handles == 0)
		free(d);
}

/* The handle before its fd: see output.c. */
static int port_dial_release_fd(struct port_dial *d)
{
	if (d->fd >= 0)
		uv_close((uv_handle_t *)&d->poll, on_port_dial_closed);
	return cay_take_fd(&d->fd);
}

static void port_dial_finish(struct port_dial *d)
{
	d->finished = true;
	d->init->n_port_connections--;
	uv_close((uv_handle_t *)&d->timer, on_port_dial_closed);
}

__attribute__((format(printf, 3, 4))) static void port_dial_refuse(struct port_dial *d,
								   enum cay_code code,
								   const char *fmt, ...)
{
	struct request *rq = cay_take(d->rq);
	struct cay_err err = { .code = code };
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(err.msg, sizeof(err.msg), fmt, ap) < 0)
		err.msg[0] = 0;
	va_end(ap);
	(void)close(port_dial_release_fd(d));
	port_dial_finish(d);
	rq->events = NULL;
	request_fail(rq, &err);
}

static void on_port_tunnel_done(void *arg)
{
	struct init *in = arg;

	in->n_port_connections--;
}

static void port_dial_start_tunnel(struct port_dial *d)
{
	static const struct conn_events no_events = {};
	struct conn_conf conf = { .events = &no_events };
	auto_buf early = BUF_INIT(EARLY_MAX);
	struct request *rq = d->rq;
	struct init *in = d->init;
	struct tunnel *t = tunnel_new(&in->loop, on_port_tunnel_done, in);
	struct conn *client, *there = NULL;

	if (!t || conn_open_fd(request_conn_shared(rq), port_dial_release_fd(d),
			       d->v6 ? AF_INET6 : AF_INET, &conf, &there) < 0) {
		if (t)
			tunnel_free(t);
		port_dial_refuse(d, CAY_E_NO_MEMORY, "no memory for a connection");
		return;
	}
	in->n_port_connections++; /* of the tunnel; the dial gives up its own */
	port_dial_finish(d);
	rq->events = NULL;
	client = request_upgrade(rq, &early);
	if (client) {
		tunnel_start(t, client, (struct slice){ early.data, early.len }, there,
			     (struct slice){});
		return;
	}
	in->n_port_connections--;
	conn_close(there);
	tunnel_free(t);
}

static void port_dial_start(struct port_dial *d);

static void on_port_dial_writable(uv_poll_t *p, int status, int)
{
	struct port_dial *d = p->data;
	int e = 0;
	socklen_t n = sizeof(e);

	if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &e, &n) < 0)
		e = errno;
	if (status >= 0 && !e)
		port_dial_start_tunnel(d);
	else if (d->v6)
		port_dial_refuse(d, CAY_E_PORT, "nothing listens on port %u", d->port);
	else { /* it may listen on IPv6 only; a handle is used once */
		struct port_dial *next = calloc(1, sizeof(*next));

		if (!next) {
			port_dial_refuse(d, CAY_E_NO_MEMORY, "no memory for a connection");
			return;
		}
		*next = (struct port_dial){ .init = d->init,
					    .rq = cay_take(d->rq),
					    .fd = -EBADF,
					    .port = d->port,
					    .v6 = true };
		d->init->n_port_connections++;
		(void)close(port_dial_release_fd(d));
		port_dial_finish(d);
		port_dial_start(next);
	}
}

static void on_port_dial_timeout(uv_timer_t *t)
{
	struct port_dial *d = t->data;

	port_dial_refuse(d, CAY_E_PORT, "port %u does not accept the connection", d->port);
}

static void on_port_dial_client_gone(struct request *rq)
{
	struct port_dial *d = rq->data;

	d->rq = NULL;
	(void)close(port_dial_release_fd(d));
	port_dial_finish(d);
}

static int port_dial_connect(struct port_dial *d)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6,
				    .sin6_port = htons(d->port),
				    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in four = { .sin_family = AF_INET,
				    .sin_port = htons(d->port),
				    .sin_addr = { htonl(INADDR_LOOPBACK) } };
	auto_close int fd =
		socket(d->v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return -errno;
	if (d->v6)
		r = connect(fd, (const struct sockaddr *)&six, sizeof(six));
	else
		r = connect(fd, (const struct sockaddr *)&four, sizeof(four));
	if (r < 0 && errno == ECONNREFUSED && !d->v6) {
		d->v6 = true;
		return port_dial_connect(d);
	}
	if (r < 0 && errno != EINPROGRESS)
		return -errno;
	r = uv_poll_init(&d->init->loop, &d->poll, fd);
	if (r < 0)
		return r;
	d->poll.data = d;
	d->handles++;
	d->fd = cay_take_fd(&fd);
	return uv_poll_start(&d->poll, UV_WRITABLE, on_port_dial_writable);
}

/* Takes d, which has no handle yet. */
static void port_dial_start(struct port_dial *d)
{
	static const struct request_events events = { .gone = on_port_dial_client_gone };
	int r;

	(void)uv_timer_init(&d->init->loop, &d->timer);
	d->timer.data = d;
	d->handles = 1;
	d->rq->data = d;
	d->rq->events = &events;
	(void)uv_timer_start(&d->timer, on_port_dial_timeout, PORT_CONNECT_MS, 0);
	r = port_dial_connect(d);
	if (r < 0)
		port_dial_refuse(d, CAY_E_PORT, "port %u: %s", d->port, uv_strerror(r));
}

void op_port_connect(struct request *rq, void *arg)
{
	struct init *in = arg;
	struct port_dial *d;
	uint64_t port;

	if (str_parse_u64(rq->match.name, 1, UINT16_MAX, &port) < 0) {
		request_refuse(rq, CAY_E_NOT_FOUND, "a port is a number from 1 to 65535");
		return;
	}
	if (!http_equals_nocase(rq->head->upgrade, HELLO_PORT_PROTOCOL)) {
		(void)request_add_reply_header(rq, "Upgrade", HELLO_PORT_PROTOCOL);
		request_refuse(rq, CAY_E_UPGRADE,
			       "this endpoint needs 'Upgrade: " HELLO_PORT_PROTOCOL "'");
		return;
	}
	if (in->n_port_connections >= PORT_CONNECTIONS_MAX) {
		request_refuse(rq, CAY_E_LIMIT, "too many connections to ports are open");
		return;
	}
	d = calloc(1, sizeof(*d));
	if (!d) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory for a connection");
		return;
	}
	*d = (struct port_dial){ .init = in, .rq = rq, .fd = -EBADF, .port = (uint16_t)port };
	in->n_port_connections++;
	port_dial_start(d);
}

/* Requests to an app arrive as op_port_connect(): the host speaks HTTP to it. */
static void port_refuse_http(struct request *rq)
{
	request_refuse(rq, CAY_E_NOT_FOUND, "no such endpoint in a sandbox");
}

void op_port_proxy(struct request *rq, void *)
{
	port_refuse_http(rq);
}

void op_port_app(struct request *rq, void *)
{
	port_refuse_http(rq);
}
