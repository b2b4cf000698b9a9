/* SPDX-License-Identifier: Apache-2.0 */
#include "init/proc/port-dial.h"

#include <arpa/inet.h>
#include <sys/socket.h>

struct port_dial {
	struct init *init;
	struct request *rq; /* NULL: the client left */
	port_dial_fn *done;
	uv_timer_t timer;
	uv_poll_t poll[2]; /* IPv4, IPv6: a handle is used once */
	unsigned handles;  /* not closed yet */
	int fd;
	uint16_t port;
	bool v6, late;
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
		uv_close((uv_handle_t *)&d->poll[d->v6], on_port_dial_closed);
	return cay_take_fd(&d->fd);
}

static void port_dial_finish(struct port_dial *d, int fd, const struct cay_err *err)
{
	uv_close((uv_handle_t *)&d->timer, on_port_dial_closed);
	if (d->rq)
		d->rq->events = NULL;
	d->done(d->init, cay_take(d->rq), d->port, fd, err);
}

static void port_dial_fail(struct port_dial *d, const char *why)
{
	struct cay_err err = {};

	(void)cay_fail(&err, CAY_E_PORT, "port %u: %s", d->port, why);
	(void)close(port_dial_release_fd(d));
	port_dial_finish(d, -EBADF, &err);
}

static void on_port_dial_client_gone(struct request *rq)
{
	struct port_dial *d = rq->data;

	d->rq = NULL;
	(void)close(port_dial_release_fd(d));
	port_dial_finish(d, -EBADF, NULL);
}

/* If the loop itself was late, the connection's result is already there and handled first. */
static void on_port_dial_timeout(uv_timer_t *t)
{
	struct port_dial *d = t->data;

	if (d->late) {
		port_dial_fail(d, "no connection in time");
		return;
	}
	d->late = true;
	(void)uv_timer_start(t, on_port_dial_timeout, 1, 0);
}

static void port_dial_connect(struct port_dial *d);

/* It may listen on IPv6 only. */
static void port_dial_next(struct port_dial *d, const char *why)
{
	if (d->v6) {
		port_dial_fail(d, why);
		return;
	}
	(void)close(port_dial_release_fd(d));
	d->v6 = true;
	port_dial_connect(d);
}

static void on_port_dial_writable(uv_poll_t *p, int status, int)
{
	struct port_dial *d = p->data;
	int e = 0;
	socklen_t n = sizeof(e);

	if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &e, &n) < 0)
		e = errno;
	if (status < 0 || e)
		port_dial_next(d, "nothing listens there");
	else
		port_dial_finish(d, port_dial_release_fd(d), NULL);
}

static int port_dial_open(struct port_dial *d)
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
	if (r < 0 && errno != EINPROGRESS)
		return -errno;
	r = uv_poll_init(&d->init->loop, &d->poll[d->v6], fd);
	if (r < 0)
		return r;
	d->poll[d->v6].data = d;
	d->handles++;
	d->fd = cay_take_fd(&fd);
	return uv_poll_start(&d->poll[d->v6], UV_WRITABLE, on_port_dial_writable);
}

static void port_dial_connect(struct port_dial *d)
{
	int r = port_dial_open(d);

	/* without IPv6 in the sandbox its errors say nothing about the port */
	if (r == -ECONNREFUSED || (r < 0 && d->v6))
		port_dial_next(d, "nothing listens there");
	else if (r < 0)
		port_dial_fail(d, uv_strerror(r));
}

void port_dial_start(struct init *in, struct request *rq, uint16_t port, uint64_t timeout_ms,
		     port_dial_fn *done)
{
	static const struct request_events events = { .gone = on_port_dial_client_gone };
	struct port_dial *d = calloc(1, sizeof(*d));
	struct cay_err err = {};

	if (!d) {
		(void)cay_no_memory(&err);
		done(in, rq, port, -EBADF, &err);
		return;
	}
	*d = (struct port_dial){ .init = in, .rq = rq, .done = done, .fd = -EBADF, .port = port };
	(void)uv_timer_init(&in->loop, &d->timer);
	d->timer.data = d;
	d->handles = 1;
	rq->data = d;
	rq->events = &events;
	(void)uv_timer_start(&d->timer, on_port_dial_timeout, timeout_ms, 0);
	port_dial_connect(d);
}
