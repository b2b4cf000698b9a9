/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/client-dial.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "cli/client/port-owner.h"

/* A peer that vanished is noticed after about half a minute. */
#define IDLE_S 15
#define PROBE_S 5
#define PROBES 3

static const char no_daemon[] =
	"is cayd running, and may you use its socket? check with 'cay doctor'; "
	"a daemon on another machine needs a context";
static const char no_name[] = "is the name right, and is the network up? 'cay context "
			      "show' prints the url";
static const char no_port[] = "is cay-edge running there, and is this its port? the default is "
			      "7070";
static const char no_answer[] = "is that machine up, and does a firewall let you through?";

static const char *const tls_hints[CLIENT_TLS_NUM_FAILURES] = {
	[CLIENT_TLS_OTHER] = "is this the address of a cay-edge?",
	[CLIENT_TLS_PLAIN] =
		"cay-edge speaks TLS when it has edge.cert and edge.key; nothing was sent",
	[CLIENT_TLS_UNKNOWN_CA] =
		"if you run the CA, add its certificate: 'cay context add --replace "
		"--ca FILE NAME'; nothing was sent",
	[CLIENT_TLS_EXPIRED] =
		"the operator must renew edge.cert, unless this machine's clock is wrong; "
		"nothing was sent",
	[CLIENT_TLS_NOT_YET_VALID] = "is this machine's clock right? nothing was sent",
	[CLIENT_TLS_WRONG_HOST] =
		"use one of these hosts in --url, or give the server a certificate for this "
		"one; nothing was sent",
};

void dial_fini(struct dial *d)
{
	context_wipe(&d->context);
	client_tls_trust_free(d->trust);
	d->trust = NULL;
}

static int dial_connect_unix(struct dial *d, uint64_t deadline, int *ret_fd, struct cay_err *err)
{
	struct sockaddr_un sun = { .sun_family = AF_UNIX };
	int ms = deadline_to_poll_ms(deadline);
	struct timeval wait = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 + 1 };
	auto_close int fd = -EBADF;

	d->hint = no_daemon;
	static_assert(sizeof(sun.sun_path) == sizeof(d->socket));
	memcpy(sun.sun_path, d->socket, sizeof(sun.sun_path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a socket");
	/* bounds connect() when the listener's queue is full */
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "set a timeout");
	if (connect(fd, (const struct sockaddr *)&sun, sizeof(sun)) < 0) {
		if (errno == EAGAIN)
			return cay_fail(err, CAY_E_TIMEOUT, "%s does not accept connections",
					d->socket);
		return cay_fail_sys(err, errno == EACCES ? CAY_E_FORBIDDEN : CAY_E_UNAVAILABLE,
				    errno, "connect to %s", d->socket);
	}
	*ret_fd = cay_take_fd(&fd);
	return 0;
}

static void dial_set_sockopt(int fd, int level, int name, int value)
{
	/* the connection works without it */
	(void)setsockopt(fd, level, name, &value, sizeof(value));
}

static bool dial_address_is_loopback(const struct sockaddr *a)
{
	if (a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >>
			       24 ==
		       IN_LOOPBACKNET;
	return a->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

static int dial_fail_connect(struct dial *d, int errnum, struct cay_err *err)
{
	char at[URL_MAX];

	url_format_authority(&d->context.url, at);
	d->hint = errnum == ECONNREFUSED ? no_port : no_answer;
	if (errnum == ETIMEDOUT)
		return cay_fail(err, CAY_E_TIMEOUT, "%s: no answer", at);
	if (errnum == EINTR)
		return cay_fail(err, CAY_E_UNAVAILABLE, "interrupted");
	return cay_fail_sys(err, CAY_E_UNAVAILABLE, errnum, "connect to %s", at);
}

static int dial_connect_address(struct dial *d, const struct addrinfo *a, uint64_t deadline,
				struct interrupt *intr, int *ret_fd, struct cay_err *err)
{
	auto_close int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r, failed = 0;

	if (fd < 0)
		return dial_fail_connect(d, errno, err);
	dial_set_sockopt(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	dial_set_sockopt(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	dial_set_sockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_S);
	dial_set_sockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_S);
	dial_set_sockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
	dial_set_sockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, (IDLE_S + PROBE_S * PROBES) * 1000);
	if (connect(fd, a->ai_addr, a->ai_addrlen) < 0) {
		socklen_t n = sizeof(failed);

		if (errno != EINPROGRESS)
			return dial_fail_connect(d, errno, err);
		r = interrupt_wait(intr, fd, POLLOUT, deadline);
		if (r >= 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &n) < 0)
			r = -errno;
		if (r < 0 || failed)
			return dial_fail_connect(d, r < 0 ? -r : failed, err);
	}
	*ret_fd = cay_take_fd(&fd);
	return 0;
}

/* Each address but the last gets half of the time that is left. */
static uint64_t dial_split_deadline(uint64_t deadline, bool last)
{
	uint64_t now = clk_boot_ns(&clk_system);

	return last || deadline == UINT64_MAX || deadline < now ? deadline
								: now + (deadline - now) / 2;
}

static int dial_connect_any(struct dial *d, const struct addrinfo *list, uint64_t deadline,
			    struct interrupt *intr, int *ret_fd, struct cay_err *err)
{
	int r = -EADDRNOTAVAIL;

	for (const struct addrinfo *a = list; a && r < 0 && r != -EINTR; a = a->ai_next) {
		/* even if "localhost" resolves elsewhere, a token never leaves unencrypted */
		if (!d->context.url.tls && !dial_address_is_loopback(a->ai_addr))
			continue;
		*err = (struct cay_err){}; /* report the last failure */
		r = dial_connect_address(d, a, dial_split_deadline(deadline, !a->ai_next), intr,
					 ret_fd, err);
	}
	return r < 0 && !err->code ? dial_fail_connect(d, -r, err) : r;
}

static int dial_connect_tcp(struct dial *d, uint64_t deadline, struct interrupt *intr, int *ret_fd,
			    struct cay_err *err)
{
	const struct url *u = &d->context.url;
	struct addrinfo how = { .ai_socktype = SOCK_STREAM,
				.ai_flags = AI_NUMERICSERV | (u->address ? AI_NUMERICHOST : 0) };
	struct addrinfo *list = NULL;
	char port[8];
	int r = snprintf(port, sizeof(port), "%u", u->port);

	r = r < 0 ? EAI_SERVICE : getaddrinfo(u->host, port, &how, &list);
	if (r) {
		d->hint = no_name;
		return cay_fail(err, CAY_E_UNAVAILABLE, "resolve %.150s: %s", u->host,
				r == EAI_NONAME || r == EAI_NODATA ? "no such host name"
								   : gai_strerror(r));
	}
	r = dial_connect_any(d, list, deadline, intr, ret_fd, err);
	freeaddrinfo(list);
	return r;
}

static int dial_tls_handshake(struct dial *d, int fd, struct client_tls *s, uint64_t deadline,
			      struct interrupt *intr, struct cay_err *err)
{
	enum client_tls_failure why = CLIENT_TLS_OTHER;
	int r;

	while ((r = client_tls_handshake(s, &why, err)) == -EAGAIN) {
		r = interrupt_wait(intr, fd, client_tls_poll_events(s), deadline);
		if (r < 0)
			return dial_fail_connect(d, -r, err);
	}
	if (r < 0)
		d->hint = tls_hints[why];
	return r;
}

static int dial_connect_tls(struct dial *d, int fd, uint64_t deadline, struct interrupt *intr,
			    struct client_tls **ret, struct cay_err *err)
{
	struct client_tls *s = NULL;
	int r = d->trust ? 0 : client_tls_trust_create(d->context.ca, &d->trust, err);

	if (r >= 0)
		r = client_tls_create(d->trust, fd, &d->context.url, &s, err);
	if (r >= 0)
		r = dial_tls_handshake(d, fd, s, deadline, intr, err);
	if (r < 0) {
		client_tls_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

int dial_connect(struct dial *d, uint64_t deadline, struct interrupt *intr, int *ret_fd,
		 struct client_tls **ret_tls, struct cay_err *err)
{
	auto_close int fd = -EBADF;
	struct client_tls *tls = NULL;
	int r;

	d->hint = NULL;
	r = dial_is_remote(d) ? dial_connect_tcp(d, deadline, intr, &fd, err)
			      : dial_connect_unix(d, deadline, &fd, err);
	if (r >= 0) /* drop the hint of an address that failed */
		d->hint = NULL;
	if (r >= 0 && d->checks_port_owner) /* before anything is sent */
		r = port_owner_check_trusted(d->context.url.port, err);
	if (r >= 0 && dial_is_remote(d) && d->context.url.tls)
		r = dial_connect_tls(d, fd, deadline, intr, &tls, err);
	if (r < 0)
		return r;
	*ret_fd = cay_take_fd(&fd);
	*ret_tls = tls;
	return 0;
}

ssize_t dial_read(int fd, struct client_tls *tls, void *to, size_t n)
{
	ssize_t got = tls ? client_tls_read(tls, to, n) : recv(fd, to, n, MSG_DONTWAIT);

	if (tls || got >= 0)
		return got;
	return errno == EINTR ? -EAGAIN : -errno;
}

ssize_t dial_write(int fd, struct client_tls *tls, const void *from, size_t n)
{
	ssize_t done;

	if (tls)
		return client_tls_write(tls, from, n);
	do
		done = send(fd, from, n, MSG_DONTWAIT | MSG_NOSIGNAL);
	while (done < 0 && errno == EINTR);
	return done < 0 ? -errno : done;
}
