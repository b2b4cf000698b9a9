/* SPDX-License-Identifier: Apache-2.0 */
/*
 * egress-peer - both ends of a connection, for tests/bench/egress.py
 *
 *	egress-peer serve ADDRESS PORT             send a byte, read to the end; echo datagrams
 *	egress-peer relay PORT ADDRESS PORT        copy by read and write, 64 KiB at a time
 *	egress-peer connect ADDRESS PORT N         connect, read a byte, close; N times
 *	egress-peer knock ADDRESS PORT N           connect and close
 *	egress-peer bulk ADDRESS PORT BYTES        connect, read a byte, send BYTES
 *	egress-peer hold ADDRESS PORT N            N connections; say so, and end with the last of
 *them egress-peer ask ADDRESS PORT NAME N        a question of DNS for NAME as a datagram, N times
 *
 * ADDRESS may be a name, of which 192.0.0.1 is asked.  Clients print a line: the median, 95 % and
 *99 % in ns, and the CPU time of the client in ns for one.  Static.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PIECE (64 << 10)
#define N_MAX 100000
#define HOLD_MAX 1024

static char piece[PIECE];
static uint64_t times[N_MAX];

static uint64_t now_ns(clockid_t id)
{
	struct timespec t;

	(void)clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "egress-peer: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int socket_open(int type)
{
	int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		fail("socket");
	return fd;
}

/* The end of a name, type A, class IN. */
static const uint8_t a_in[] = { 0, 0, 1, 0, 1 };

static size_t question_write(const char *name, uint8_t *p)
{
	size_t at = 12;

	memset(p, 0, 12);
	p[1] = 7;
	p[2] = p[5] = 1;
	while (*name && at < 200) {
		size_t n = strcspn(name, ".");

		p[at++] = (uint8_t)n;
		memcpy(p + at, name, n);
		at += n;
		name += n + (name[n] == '.');
	}
	memcpy(p + at, a_in, sizeof(a_in));
	return at + sizeof(a_in);
}

static ssize_t ask(const struct sockaddr_in *server, const char *name, uint8_t *in, size_t max)
{
	int fd = socket_open(SOCK_DGRAM);
	struct timeval patience = { .tv_sec = 5 };
	uint8_t out[300];
	size_t n = question_write(name, out);
	ssize_t got = -1;

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (sendto(fd, out, n, 0, (const struct sockaddr *)server, sizeof(*server)) > 0)
		got = recv(fd, in, max, 0);
	(void)close(fd);
	return got < (ssize_t)n ? -1 : (ssize_t)n;
}

static struct sockaddr_in address(const char *host, const char *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
	struct sockaddr_in server = { .sin_family = AF_INET, .sin_port = htons(53) };
	uint8_t in[512] = {};
	ssize_t n;

	if (inet_pton(AF_INET, host, &at.sin_addr) == 1)
		return at;
	(void)inet_pton(AF_INET, "192.0.0.1", &server.sin_addr);
	n = ask(&server, host, in, sizeof(in));
	if (n < 0 || in[7] != 1)
		fail(host);
	memcpy(&at.sin_addr, in + n + 12, sizeof(at.sin_addr));
	return at;
}

static int dial(const struct sockaddr_in *to)
{
	int fd = socket_open(SOCK_STREAM);
	char c;

	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0 || recv(fd, &c, 1, 0) != 1)
		fail("connect");
	return fd;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static int print_times(uint64_t *v, size_t n, uint64_t cpu)
{
	qsort(v, n, sizeof(*v), compare);
	printf("%llu %llu %llu %llu\n", (unsigned long long)v[n / 2],
	       (unsigned long long)v[n * 95 / 100], (unsigned long long)v[n * 99 / 100],
	       (unsigned long long)(cpu / n));
	return 0;
}

static int listen_on(const struct sockaddr_in *at)
{
	int fd = socket_open(SOCK_STREAM), on = 1;

	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(fd, (const struct sockaddr *)at, sizeof(*at)) < 0 || listen(fd, 1024) < 0)
		fail("listen");
	return fd;
}

static void serve_read(int fd)
{
	ssize_t n = recv(fd, piece, sizeof(piece), MSG_DONTWAIT);

	if (n > 0 || (n < 0 && errno == EAGAIN))
		return;
	(void)close(fd);
}

static int serve(const struct sockaddr_in *at)
{
	int listener = listen_on(at), ep = epoll_create1(EPOLL_CLOEXEC);
	int udp = socket_open(SOCK_DGRAM);
	struct epoll_event e = { .events = EPOLLIN, .data.fd = listener }, got[64];

	if (bind(udp, (const struct sockaddr *)at, sizeof(*at)) < 0)
		fail("bind");
	(void)epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e);
	e.data.fd = udp;
	(void)epoll_ctl(ep, EPOLL_CTL_ADD, udp, &e);
	printf("up\n");
	(void)fflush(stdout);
	for (;;) {
		int n = epoll_wait(ep, got, 64, -1);

		for (int i = 0; i < n; i++) {
			struct sockaddr_in from;
			socklen_t len = sizeof(from);
			ssize_t size;

			if (got[i].data.fd == udp) {
				size = recvfrom(udp, piece, sizeof(piece), 0,
						(struct sockaddr *)&from, &len);
				if (size > 0)
					(void)sendto(udp, piece, (size_t)size, 0,
						     (const struct sockaddr *)&from, len);
			} else if (got[i].data.fd == listener) {
				e.data.fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
				if (e.data.fd >= 0 && send(e.data.fd, "x", 1, MSG_NOSIGNAL) == 1)
					(void)epoll_ctl(ep, EPOLL_CTL_ADD, e.data.fd, &e);
			} else {
				serve_read(got[i].data.fd);
			}
		}
	}
}

/* One connection after the other: the byte of the host first, then what the client sends. */
static int relay(const char *port, const struct sockaddr_in *to)
{
	struct sockaddr_in at = address("127.0.0.1", port);
	int listener = listen_on(&at);

	printf("up\n");
	(void)fflush(stdout);
	for (;;) {
		int in = accept4(listener, NULL, NULL, SOCK_CLOEXEC), out = dial(to);
		ssize_t n = send(in, "x", 1, MSG_NOSIGNAL);

		while (n > 0 && (n = recv(in, piece, sizeof(piece), 0)) > 0)
			for (ssize_t done = 0, m; done < n; done += m) {
				m = send(out, piece + done, (size_t)(n - done), MSG_NOSIGNAL);
				if (m < 0)
					fail("relay");
			}
		(void)shutdown(out, SHUT_WR);
		(void)recv(out, piece, 1, 0);
		(void)close(in);
		(void)close(out);
	}
}

static void knock(const struct sockaddr_in *to)
{
	int fd = socket_open(SOCK_STREAM);

	if (connect(fd, (const struct sockaddr *)to, sizeof(*to)) < 0)
		fail("connect");
	(void)close(fd);
}

static int client_connect(const struct sockaddr_in *to, size_t n, bool waits)
{
	uint64_t *v = times, cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);

	for (size_t i = 0; i < n; i++) {
		uint64_t at = now_ns(CLOCK_MONOTONIC);

		if (waits)
			(void)close(dial(to));
		else
			knock(to);
		v[i] = now_ns(CLOCK_MONOTONIC) - at;
	}
	return print_times(v, n, now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu);
}

static int client_bulk(const struct sockaddr_in *to, size_t left)
{
	uint64_t begun, cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	int fd = dial(to);

	begun = now_ns(CLOCK_MONOTONIC);
	while (left) {
		ssize_t n = send(fd, piece, left < PIECE ? left : PIECE, MSG_NOSIGNAL);

		if (n <= 0)
			fail("send");
		left -= (size_t)n;
	}
	(void)shutdown(fd, SHUT_WR);
	(void)recv(fd, piece, 1, 0); /* the host has closed: all has arrived */
	begun = now_ns(CLOCK_MONOTONIC) - begun;
	return print_times(&begun, 1, now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu);
}

static int client_hold(const struct sockaddr_in *to, size_t n)
{
	static struct pollfd v[HOLD_MAX];

	if (n > HOLD_MAX)
		fail("too many");
	for (size_t i = 0; i < n; i++)
		v[i] = (struct pollfd){ .fd = dial(to), .events = POLLIN };
	printf("holds\n");
	(void)fflush(stdout);
	for (size_t i = 0; i < n; i++)
		(void)poll(&v[i], 1, -1);
	printf("over\n");
	return 0;
}

static int client_ask(const struct sockaddr_in *to, const char *name, size_t n)
{
	uint64_t *v = times, cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	uint8_t in[512] = {};

	for (size_t i = 0; i < n; i++) {
		uint64_t at = now_ns(CLOCK_MONOTONIC);

		if (ask(to, name, in, sizeof(in)) < 0)
			fail("ask");
		v[i] = now_ns(CLOCK_MONOTONIC) - at;
	}
	return print_times(v, n, now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 3 ? argv[1] : "";
	const size_t n = argc > 4 ? strtoull(argv[argc - 1], NULL, 10) : 0;
	struct sockaddr_in to;

	if (strcmp(mode, "relay") == 0 && argc == 5) {
		to = address(argv[3], argv[4]);
		return relay(argv[2], &to);
	}
	if (argc > 3)
		to = address(argv[2], argv[3]);
	if (strcmp(mode, "serve") == 0)
		return serve(&to);
	if (strcmp(mode, "bulk") == 0 && n)
		return client_bulk(&to, n);
	if (n && n <= N_MAX) {
		if (strcmp(mode, "connect") == 0)
			return client_connect(&to, n, true);
		if (strcmp(mode, "knock") == 0)
			return client_connect(&to, n, false);
		if (strcmp(mode, "hold") == 0)
			return client_hold(&to, n);
		if (strcmp(mode, "ask") == 0 && argc == 6)
			return client_ask(&to, argv[4], n);
	}
	fprintf(stderr, "egress-peer: see the source for its arguments\n");
	return 1;
}
