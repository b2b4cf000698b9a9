/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/port-forward.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "cli/print/print.h"
#include "wire/hello.h"

#define LISTENERS 2
#define REST_MS 500   /* pause after accept() failed for lack of descriptors or memory */
#define PORT_TRIES 16 /* to find a port free on both loopback addresses */

/* One end of a forwarded connection. */
struct port_side {
	int fd;
	struct client_tls *tls; /* of the daemon's side, over HTTPS */
	char *bytes;            /* read here, not yet written to the other side */
	size_t at, n;
	bool ended, shutdown_sent; /* end of file was read; and was passed on */
	short tls_events;          /* what TLS waits for */
};

struct port_pair {
	struct port_side side[2];
	struct port_pair *next;
};

struct port_forward {
	struct api *api;
	struct id sandbox;
	uint16_t port;
	int listeners[LISTENERS];
	struct port_pair *pairs;
	unsigned n;
	uint64_t accept_after_ns; /* no connection is accepted before */
};

/* Check the result of reading or writing; keep what TLS waits for. */
static bool port_side_has_failed(struct port_side *s, ssize_t r)
{
	s->tls_events = s->tls && r == -EAGAIN ? client_tls_poll_events(s->tls) : 0;
	return r < 0 && r != -EAGAIN;
}

static void port_side_fini(struct port_side *s)
{
	client_tls_free(s->tls);
	if (s->fd >= 0)
		(void)close(s->fd);
	free(s->bytes);
}

static void port_pair_free(struct port_pair *p)
{
	port_side_fini(&p->side[0]);
	port_side_fini(&p->side[1]);
	free(p);
}

static int port_forward_open_tunnel(struct port_forward *f, struct http_client *h,
				    struct cay_err *err)
{
	char port[8] = "";
	struct api_call c = { .op = OP_PORT_CONNECT,
			      .ids = { f->sandbox },
			      .path_name = port,
			      .upgrade = HELLO_PORT_PROTOCOL };
	uint64_t before = f->api->timeout_ms;
	int r = snprintf(port, sizeof(port), "%u", f->port);

	if (before > FORWARD_REACH_MS)
		f->api->timeout_ms = FORWARD_REACH_MS;
	if (r >= 0)
		r = api_call_upgrade(f->api, &c, h, err);
	f->api->timeout_ms = before;
	return r;
}

static int port_forward_connect(struct port_forward *f, struct port_side *ret, struct cay_err *err)
{
	auto_http h = HTTP_INIT;
	int r = port_forward_open_tunnel(f, &h, err);

	if (r < 0)
		return r;
	ret->bytes = malloc(FORWARD_BUF);
	if (!ret->bytes)
		return cay_no_memory(err);
	/* the port may have sent bytes together with the reply's head */
	static_assert(HTTP_PIECE <= FORWARD_BUF);
	ret->n = h.body.len;
	if (ret->n)
		memcpy(ret->bytes, h.body.data, ret->n);
	ret->fd = cay_take_fd(&h.fd);
	ret->tls = h.tls;
	h.tls = NULL;
	return 0;
}

/* False: close the pair. */
static bool port_side_copy(struct port_side *from, struct port_side *to)
{
	ssize_t n;

	if (!from->n && !from->ended) {
		n = dial_read(from->fd, from->tls, from->bytes, FORWARD_BUF);
		if (port_side_has_failed(from, n))
			return false;
		from->ended = n == 0;
		from->at = 0;
		from->n = n > 0 ? (size_t)n : 0;
	}
	if (from->n) {
		n = dial_write(to->fd, to->tls, from->bytes + from->at, from->n);
		if (port_side_has_failed(to, n))
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

static bool port_pair_copy(struct port_pair *p)
{
	return port_side_copy(&p->side[0], &p->side[1]) &&
	       port_side_copy(&p->side[1], &p->side[0]) &&
	       !(p->side[0].shutdown_sent && p->side[1].shutdown_sent);
}

static void port_forward_accept(struct port_forward *f, int listener)
{
	auto_close int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct port_pair *p = fd < 0 ? NULL : calloc(1, sizeof(*p));
	struct cay_err err = {};

	/* poll() would report the waiting connection again at once: pause instead of spinning */
	if (fd < 0 && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
		f->accept_after_ns = clk_boot_ns(&clk_system) + REST_MS * NS_PER_MS;
	if (!p)
		return;
	p->side[1].fd = -EBADF;
	p->side[0].fd = cay_take_fd(&fd);
	p->side[0].bytes = malloc(FORWARD_BUF);
	if (!p->side[0].bytes || port_forward_connect(f, &p->side[1], &err) < 0) {
		print_note("%s", err.code ? err.msg : "no memory");
		port_pair_free(p);
		return;
	}
	p->next = f->pairs;
	f->pairs = p;
	f->n++;
}

static void port_forward_copy_all(struct port_forward *f)
{
	for (struct port_pair **at = &f->pairs, *p; (p = *at);) {
		if (port_pair_copy(p)) {
			at = &p->next;
			continue;
		}
		*at = p->next;
		f->n--;
		port_pair_free(p);
	}
}

/* -EINTR after a signal. */
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
	for (const struct port_pair *p = f->pairs; p; p = p->next)
		for (size_t k = 0; k < 2; k++) {
			const struct port_side *s = &p->side[k];
			short in = !s->n && !s->ended ? POLLIN : 0;
			short out = p->side[!k].n ? POLLOUT : 0;

			polls[n++] = (struct pollfd){ s->fd, (short)(in | out | s->tls_events), 0 };
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

/* Listen on IPv4 and IPv6 or fail: another process on one of them would get connections
 * meant for us. */
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
			r = 0; /* a machine without IPv6 */
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
		struct port_pair *p = f.pairs;

		f.pairs = p->next;
		port_pair_free(p);
	}
	for (size_t i = 0; i < LISTENERS; i++)
		if (f.listeners[i] >= 0)
			(void)close(f.listeners[i]);
	return r == -EINTR ? 0 : cay_fail_sys(err, CAY_E_INTERNAL, -r, "poll");
}
