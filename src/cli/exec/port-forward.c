/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/port-forward.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "cli/print/print.h"
#include "wire/hello.h"

#define LISTENERS 2
#define REST_MS 500   /* when there is nothing left to accept with */
#define PORT_TRIES 16 /* for one that is free on both */

/* One side of a connection that is carried. */
struct port_forward_side {
	int fd;
	struct client_tls *tls; /* of the far one, where the way is not plain */
	char *bytes;            /* read here, not written to the other one yet */
	size_t at, n;
	bool ended, shutdown_sent; /* it sends no more; the other one has heard so */
	short tls_events;          /* what TLS waits for */
};

struct port_forward_pair {
	struct port_forward_side side[2];
	struct port_forward_pair *next;
};

struct port_forward {
	struct api *api;
	struct id sandbox;
	uint16_t port;
	int listeners[LISTENERS];
	struct port_forward_pair *pairs;
	unsigned n;
	uint64_t accept_after_ns; /* nobody comes in before */
};

static ssize_t port_forward_side_read(struct port_forward_side *s, void *to, size_t n)
{
	ssize_t r = s->tls ? client_tls_read(s->tls, to, n) : recv(s->fd, to, n, MSG_DONTWAIT);

	if (r < 0 && !s->tls)
		r = -errno;
	s->tls_events = s->tls && r == -EAGAIN ? client_tls_poll_events(s->tls) : 0;
	return r;
}

static ssize_t port_forward_side_write(struct port_forward_side *s, const void *from, size_t n)
{
	ssize_t r = s->tls ? client_tls_write(s->tls, from, n)
			   : send(s->fd, from, n, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (r < 0 && !s->tls)
		r = -errno;
	s->tls_events = s->tls && r == -EAGAIN ? client_tls_poll_events(s->tls) : 0;
	return r;
}

static void port_forward_side_fini(struct port_forward_side *s)
{
	client_tls_free(s->tls);
	if (s->fd >= 0)
		(void)close(s->fd);
	free(s->bytes);
}

static void port_forward_pair_free(struct port_forward_pair *p)
{
	port_forward_side_fini(&p->side[0]);
	port_forward_side_fini(&p->side[1]);
	free(p);
}

/* The far side */

static int port_forward_format_request(const struct port_forward *f, struct buf *out)
{
	const struct dial *to = &f->api->dial;
	char id[ID_TEXT_LEN + 1], host[URL_MAX];
	int r;

	id_format(&f->sandbox, id);
	r = buf_printf(out, "GET /v1/sandboxes/%s/tunnel/%u HTTP/1.1\r\n", id, f->port);
	if (dial_is_remote(to))
		url_format_authority(&to->context.url, host);
	if (r >= 0)
		r = buf_printf(out, "Host: %s\r\n", dial_is_remote(to) ? host : "localhost");
	if (r >= 0 && dial_is_remote(to))
		r = buf_printf(out, "Authorization: Bearer %s\r\n", to->context.token);
	return r < 0 ? r
		     : buf_puts(out,
				"Connection: upgrade\r\nUpgrade: " HELLO_PORT_PROTOCOL "\r\n\r\n");
}

static int port_forward_side_wait(struct port_forward *f, struct port_forward_side *s, short events,
				  uint64_t deadline, struct cay_err *err)
{
	int r;

	if (s->tls && client_tls_has_buffered(s->tls))
		return 0;
	r = interrupt_wait(&f->api->intr, s->fd, s->tls_events ? s->tls_events : events, deadline);
	return r < 0 ? cay_fail_sys(err, r == -ETIMEDOUT ? CAY_E_TIMEOUT : CAY_E_UNAVAILABLE, -r,
				    "port.connect")
		     : 0;
}

static int port_forward_send_request(struct port_forward *f, struct port_forward_side *s,
				     const struct buf *ask, uint64_t deadline, struct cay_err *err)
{
	for (size_t at = 0; at < ask->len;) {
		ssize_t n = port_forward_side_write(s, ask->data + at, ask->len - at);

		if (n > 0)
			at += (size_t)n;
		else if (n != -EAGAIN)
			return cay_fail(err, CAY_E_UNAVAILABLE, "the daemon hung up");
		else if (port_forward_side_wait(f, s, POLLOUT, deadline, err) < 0)
			return -EIO;
	}
	return 0;
}

static int port_forward_fail_status(int status, uint16_t port, struct cay_err *err)
{
	for (unsigned c = 1; c < CAY_NUM_CODES; c++)
		if (status != 502 && cay_error_row((enum cay_code)c)->http == status)
			return cay_fail(err, (enum cay_code)c, "port %u: %s", port,
					cay_error_row((enum cay_code)c)->name);
	return cay_fail(err, status == 502 ? CAY_E_PORT : CAY_E_MISBEHAVED,
			"port %u: nobody listens there in the sandbox", port);
}

/* One byte at a time: what stands behind the head is the port's. */
static int port_forward_read_reply(struct port_forward *f, struct port_forward_side *s,
				   uint64_t deadline, struct cay_err *err)
{
	auto_buf head = BUF_INIT(HTTP_HEAD_MAX);
	uint64_t status;

	while (head.len < 4 || memcmp(head.data + head.len - 4, "\r\n\r\n", 4) != 0) {
		char c;
		ssize_t n = port_forward_side_read(s, &c, 1);

		if (n == -EAGAIN && port_forward_side_wait(f, s, POLLIN, deadline, err) < 0)
			return -EIO;
		if (n == -EAGAIN)
			continue;
		if (n <= 0 || buf_putc(&head, c) < 0)
			return cay_fail(err, CAY_E_MISBEHAVED, "the daemon's answer is no HTTP");
	}
	if (head.len < 13 || memcmp(head.data, "HTTP/1.1 ", 9) != 0 ||
	    str_parse_u64((struct slice){ head.data + 9, 3 }, 100, 599, &status) < 0)
		return cay_fail(err, CAY_E_MISBEHAVED, "the daemon's answer is no HTTP");
	return status == 101 ? 0 : port_forward_fail_status((int)status, f->port, err);
}

static int port_forward_connect(struct port_forward *f, struct port_forward_side *ret,
				struct cay_err *err)
{
	uint64_t ms = f->api->timeout_ms < FORWARD_REACH_MS ? f->api->timeout_ms : FORWARD_REACH_MS;
	uint64_t deadline = clk_boot_ns(&clk_system) + ms * NS_PER_MS;
	auto_buf ask = BUF_INIT(KIB(8));
	int r;

	*ret = (struct port_forward_side){ .fd = -EBADF };
	r = dial_connect(&f->api->dial, deadline, &f->api->intr, &ret->fd, &ret->tls, err);
	if (r >= 0 && port_forward_format_request(f, &ask) < 0)
		r = cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	if (r >= 0)
		r = port_forward_send_request(f, ret, &ask, deadline, err);
	if (r >= 0)
		r = port_forward_read_reply(f, ret, deadline, err);
	if (ask.data)
		explicit_bzero(ask.data, ask.len);
	return r;
}

/* Carrying */

/* False: it is over. */
static bool port_forward_side_copy(struct port_forward_side *from, struct port_forward_side *to)
{
	ssize_t n;

	if (!from->n && !from->ended) {
		n = port_forward_side_read(from, from->bytes, FORWARD_BUF);
		if (n < 0 && n != -EAGAIN && n != -EINTR)
			return false;
		from->ended = n == 0;
		from->at = 0;
		from->n = n > 0 ? (size_t)n : 0;
	}
	if (from->n) {
		n = port_forward_side_write(to, from->bytes + from->at, from->n);
		if (n < 0 && n != -EAGAIN && n != -EINTR)
			return false;
		from->at += n > 0 ? (size_t)n : 0;
		from->n -= n > 0 ? (size_t)n : 0;
	}
	if (from->ended && !from->n && !from->shutdown_sent) {
		if (to->tls || from->tls)
			return false;
		(void)shutdown(to->fd, SHUT_WR);
		from->shutdown_sent = true;
	}
	return true;
}

static bool port_forward_pair_copy(struct port_forward_pair *p)
{
	return port_forward_side_copy(&p->side[0], &p->side[1]) &&
	       port_forward_side_copy(&p->side[1], &p->side[0]) &&
	       !(p->side[0].shutdown_sent && p->side[1].shutdown_sent);
}

static short port_forward_side_poll_events(const struct port_forward_side *s,
					   const struct port_forward_side *other)
{
	short events = (short)((!s->n && !s->ended ? POLLIN : 0) | (other->n ? POLLOUT : 0));

	return (short)(events | s->tls_events);
}

static void port_forward_accept(struct port_forward *f, int listener)
{
	auto_close int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct port_forward_pair *p = fd < 0 ? NULL : calloc(1, sizeof(*p));
	struct cay_err err = {};

	/* who waits is ready still: asked at once again, it would be asked for ever */
	if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
		f->accept_after_ns = clk_boot_ns(&clk_system) + REST_MS * NS_PER_MS;
	if (!p)
		return;
	p->side[1].fd = -EBADF;
	p->side[0].fd = cay_take_fd(&fd);
	if (port_forward_connect(f, &p->side[1], &err) < 0) {
		print_note("%s", err.msg);
		port_forward_pair_free(p);
		return;
	}
	p->side[0].bytes = malloc(FORWARD_BUF);
	p->side[1].bytes = malloc(FORWARD_BUF);
	if (!p->side[0].bytes || !p->side[1].bytes) {
		port_forward_pair_free(p);
		return;
	}
	p->next = f->pairs;
	f->pairs = p;
	f->n++;
}

static void port_forward_copy_all(struct port_forward *f)
{
	for (struct port_forward_pair **at = &f->pairs, *p; (p = *at);) {
		if (port_forward_pair_copy(p)) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		f->n--;
		port_forward_pair_free(p);
	}
}

/* One turn; -EINTR when the user means it. */
static int port_forward_poll_once(struct port_forward *f)
{
	struct pollfd polls[1 + LISTENERS + 2 * FORWARD_MAX];
	struct interrupt *i = &f->api->intr;
	bool rests = clk_boot_ns(&clk_system) < f->accept_after_ns, full = f->n >= FORWARD_MAX;
	int wait = rests ? REST_MS : -1;
	nfds_t n = 0;

	polls[n++] = (struct pollfd){ .fd = i->fd, .events = POLLIN };
	for (size_t k = 0; k < LISTENERS; k++)
		polls[n++] = (struct pollfd){ .fd = rests || full ? -1 : f->listeners[k],
					      .events = POLLIN };
	for (const struct port_forward_pair *p = f->pairs; p; p = p->next)
		for (size_t k = 0; k < 2; k++) {
			const struct port_forward_side *s = &p->side[k];

			polls[n++] = (struct pollfd){ .fd = s->fd,
						      .events = port_forward_side_poll_events(
							      s, &p->side[!k]) };
			if (s->tls && client_tls_has_buffered(s->tls) && !s->n && !s->ended)
				wait = 0;
		}
	if (poll(polls, n, wait) < 0 && errno != EINTR)
		return -errno;
	interrupt_read_signals(i);
	if (interrupt_take_signal(i))
		return -EINTR;
	for (size_t k = 0; k < LISTENERS; k++)
		if (polls[1 + k].revents && f->n < FORWARD_MAX)
			port_forward_accept(f, f->listeners[k]);
	port_forward_copy_all(f);
	return 0;
}

/* Listening */

static int port_forward_listen_loopback(int family, uint16_t *port)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6,
				    .sin6_port = htons(*port),
				    .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in four = { .sin_family = AF_INET,
				    .sin_port = htons(*port),
				    .sin_addr = { htonl(INADDR_LOOPBACK) } };
	const void *at = family == AF_INET ? (const void *)&four : (const void *)&six;
	socklen_t len = family == AF_INET ? sizeof(four) : sizeof(six);
	auto_close int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int on = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(fd, at, len) < 0 || listen(fd, 64) < 0)
		return -errno;
	len = sizeof(four);
	if (family == AF_INET && getsockname(fd, (struct sockaddr *)&four, &len) < 0)
		return -errno;
	if (family == AF_INET)
		*port = ntohs(four.sin_port);
	return cay_take_fd(&fd);
}

/* Both or none where there are both: whoever has the other one would get what is ours. */
static int port_forward_listen_both(struct port_forward *f, uint16_t *local, struct cay_err *err)
{
	uint16_t wanted = *local;
	int r = -EADDRINUSE;

	for (unsigned i = 0; i < PORT_TRIES && r == -EADDRINUSE; i++) {
		auto_close int four = -EBADF;

		*local = wanted;
		four = r = port_forward_listen_loopback(AF_INET, local);
		if (r < 0)
			return cay_fail_sys(err, CAY_E_INVALID, -r, "listen on 127.0.0.1:%u",
					    wanted);
		r = f->listeners[1] = port_forward_listen_loopback(AF_INET6, local);
		if (r == -EAFNOSUPPORT || r == -EADDRNOTAVAIL)
			r = 0; /* where there is none there is none */
		if (r >= 0)
			f->listeners[0] = cay_take_fd(&four);
		if (wanted)
			break;
	}
	return r < 0 ? cay_fail_sys(err, CAY_E_INVALID, -r, "listen on [::1]:%u", *local) : 0;
}

int port_forward_run(struct api *a, const struct id *sandbox, uint16_t local, uint16_t port,
		     forward_ready_fn *ready, struct cay_err *err)
{
	struct port_forward f = { .api = a, .sandbox = *sandbox, .port = port };
	int r = interrupt_open(&a->intr, err);

	if (r < 0)
		return r;
	r = port_forward_listen_both(&f, &local, err);
	if (r < 0)
		return r;
	r = ready(local, port, err);
	while (r >= 0)
		r = port_forward_poll_once(&f);
	while (f.pairs) {
		struct port_forward_pair *p = f.pairs;

		f.pairs = p->next;
		port_forward_pair_free(p);
	}
	for (size_t i = 0; i < LISTENERS; i++)
		if (f.listeners[i] >= 0)
			(void)close(f.listeners[i]);
	return r == -EINTR ? 0 : cay_fail_sys(err, CAY_E_INTERNAL, -r, "poll");
}
