/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sk-lookup - every destination arrives at one listener, without netfilter
 *
 * Leans on it: egress (src/lib/steer).  The sandbox's network namespace has only lo, one
 * address, a local route for all of IPv4, and a BPF program of type sk_lookup that gives
 * every connection to one listener, which a process outside accepts from.
 *
 * Checked, from an ordinary user inside: TCP to any address and port arrives, with the
 * destination as the accepted socket's own address, and carries bytes both ways; it arrives
 * also when a program inside listens on that port, on all addresses or on that very one;
 * connections to 127.0.0.1 and to the own address stay inside; datagrams to port 53 of any
 * address arrive, and their answers are accepted; other datagrams and IPv6 fail at once.
 * Buffers of accepted sockets are small.  When the link or the listener is closed,
 * connections are refused and established ones go on; a second attach takes over.
 *
 * Traps, asserted: a program inside can send from any address, so the listener a connection
 * came by is its identity and its address is not; an answer to such an address comes back to
 * us, so only questions may be answered; the listener's port cannot be bound on 0.0.0.0
 * inside, so it is one that programs do not use.
 *
 * Measured on Linux 6.18, two cores: 160 to 300 us for an attach.
 *
 * If it failed: nft with a redirect and connection tracking in each namespace, which costs a
 * third more for each connection and sees loopback too.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "platform.h"
#include "steer/steer.h"

#define DEADLINE_MS 20000
#define USER 65534
#define ATTACHES 50
#define DIALS 32

static int outside, inside; /* network namespaces */

static struct sockaddr_in at(const char *text, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };

	NEED(inet_pton(AF_INET, text, &a.sin_addr) == 1, "%s", text);
	return a;
}

static bool same(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
	return a->sin_addr.s_addr == b->sin_addr.s_addr && a->sin_port == b->sin_port;
}

static bool readable(int fd, int ms)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

static void lo_up(void)
{
	auto_close int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq q = { .ifr_name = "lo", .ifr_flags = IFF_UP };

	NEED(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &q) == 0, "lo up");
}

/* As in a sandbox. */
static void allow_low_ports(void)
{
	auto_close int fd =
		open("/proc/sys/net/ipv4/ip_unprivileged_port_start", O_WRONLY | O_CLOEXEC);

	NEED(fd >= 0 && write(fd, "0", 1) == 1, "low ports");
}

static void enter(int ns)
{
	NEED(setns(ns, CLONE_NEWNET) == 0, "setns");
}

static void attach(int fds[static STEER_NUM])
{
	struct cay_err err = {};

	enter(inside);
	NEED(steer_attach(fds, &err) == 0, "attach: %s", err.msg);
	enter(outside);
}

static void detach(int fds[static STEER_NUM])
{
	for (int i = 0; i < STEER_NUM; i++)
		(void)close(fds[i]);
}

/* A child that is an ordinary user inside, without the listeners. */
static pid_t fork_inside(void)
{
	pid_t pid = fork();

	NEED(pid >= 0, "fork");
	if (pid)
		return pid;
	if (setns(inside, CLONE_NEWNET) < 0 || close_range(3, ~0u, 0) < 0 ||
	    setresgid(USER, USER, USER) < 0 || setresuid(USER, USER, USER) < 0)
		platform_die("enter");
	return 0;
}

static int exit_status(pid_t pid)
{
	int status;

	NEED(waitpid(pid, &status, 0) == pid, "wait");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int dial(const char *text, uint16_t port, const struct sockaddr_in *from)
{
	struct sockaddr_in to = at(text, port);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0)
		platform_die("socket");
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if ((from && bind(fd, (const struct sockaddr *)from, sizeof(*from)) < 0) ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0) {
		int e = errno;

		(void)close(fd);
		return -e;
	}
	return fd;
}

/* Says "ask", wants "answer". */
static void talk_and_exit(int fd)
{
	char text[8] = {};

	if (fd < 0)
		_exit(-fd);
	_exit(write(fd, "ask", 3) == 3 && read(fd, text, 6) == 6 && memcmp(text, "answer", 6) == 0
		      ? 0
		      : 200);
}

/* The accepted connection, after an exchange of bytes. */
static int accept_and_answer(int listener, struct sockaddr_in *to, struct sockaddr_in *from)
{
	socklen_t n = sizeof(*to), m = sizeof(*from);
	char text[4] = {};
	int fd;

	if (!readable(listener, DEADLINE_MS))
		return -ETIMEDOUT;
	fd = accept4(listener, (struct sockaddr *)from, &m, SOCK_CLOEXEC);
	if (fd < 0 || getsockname(fd, (struct sockaddr *)to, &n) < 0 || read(fd, text, 3) != 3 ||
	    memcmp(text, "ask", 3) != 0 || write(fd, "answer", 6) != 6)
		return -EIO;
	return fd;
}

static void tcp_arrives(const int fds[static STEER_NUM])
{
	static const struct {
		const char *to;
		uint16_t port;
	} rows[] = { { "8.8.8.8", 443 },
		     { "198.51.100.7", 1 },
		     { "25.192.0.9", 65535 },
		     { "169.254.169.254", 80 },
		     { "10.0.0.1", 22 } };
	const struct sockaddr_in own = { .sin_addr.s_addr = htonl(STEER_OWN) };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct sockaddr_in to = {}, from = {}, want = at(rows[i].to, rows[i].port);
		pid_t pid = fork_inside();
		int fd, room = 0;
		socklen_t n = sizeof(room);

		if (!pid)
			talk_and_exit(dial(rows[i].to, rows[i].port, NULL));
		fd = accept_and_answer(fds[STEER_TCP], &to, &from);
		CHECK(fd >= 0 && same(&to, &want) && exit_status(pid) == 0,
		      "TCP to %s port %u arrives with its destination", rows[i].to, rows[i].port);
		CHECK(from.sin_addr.s_addr == own.sin_addr.s_addr, "from the own address");
		NEED(getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, &n) == 0, "its buffer");
		CHECK(room == 2 * STEER_SOCKET_BYTES, "its receive buffer has %d bytes", room);
		(void)close(fd);
	}
}

/* A server inside; the child dials and exits with 1 if that server got it. */
static void not_hijacked(const int fds[static STEER_NUM], const char *on)
{
	struct sockaddr_in to = {}, from = {};
	pid_t pid = fork_inside();
	int fd;

	if (!pid) {
		struct sockaddr_in a = at(on, 8443);
		int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (bind(server, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(server, 8) < 0)
			platform_die("listen on %s", on);
		fd = dial("198.51.100.7", 8443, NULL);
		if (readable(server, 0))
			_exit(1);
		talk_and_exit(fd);
	}
	fd = accept_and_answer(fds[STEER_TCP], &to, &from);
	CHECK(fd >= 0 && exit_status(pid) == 0, "a server inside on %s does not get it", on);
	(void)close(fd);
}

static void stays_inside(const char *on)
{
	pid_t pid = fork_inside();

	if (!pid) {
		struct sockaddr_in a = at(on, 8080);
		int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on_ = 1;

		(void)setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &on_, sizeof(on_));
		if (bind(server, (struct sockaddr *)&a, sizeof(a)) < 0 || listen(server, 8) < 0)
			platform_die("listen on %s", on);
		_exit(dial(on, 8080, NULL) >= 0 && readable(server, DEADLINE_MS) ? 0 : 1);
	}
	CHECK(exit_status(pid) == 0, "a connection to %s stays inside", on);
}

/* Receives a datagram at our socket, with the address it was sent to. */
static ssize_t receive_question(int fd, char text[static 16], struct sockaddr_in *from,
				struct in_pktinfo *info)
{
	char control[CMSG_SPACE(sizeof(*info))];
	struct iovec v = { text, 16 };
	struct msghdr m = { .msg_name = from,
			    .msg_namelen = sizeof(*from),
			    .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = readable(fd, DEADLINE_MS) ? recvmsg(fd, &m, 0) : -1;
	struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&m);

	if (!c || c->cmsg_type != IP_PKTINFO)
		return -1;
	memcpy(info, CMSG_DATA(c), sizeof(*info));
	return n;
}

static bool send_answer(int fd, const struct sockaddr_in *to, const struct in_pktinfo *asked)
{
	struct in_pktinfo info = { .ipi_spec_dst = asked->ipi_addr };
	char control[CMSG_SPACE(sizeof(info))] = {};
	struct iovec v = { (char[]){ "answer" }, 6 };
	struct msghdr m = { .msg_name = (void *)(uintptr_t)to,
			    .msg_namelen = sizeof(*to),
			    .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = IPPROTO_IP;
	c->cmsg_type = IP_PKTINFO;
	c->cmsg_len = CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(c), &info, sizeof(info));
	return sendmsg(fd, &m, 0) == 6;
}

static int udp_to(const char *text, uint16_t port, const struct sockaddr_in *from)
{
	struct sockaddr_in to = at(text, port);
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || (from && bind(fd, (const struct sockaddr *)from, sizeof(*from)) < 0) ||
	    connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 || send(fd, "ask", 3, 0) != 3)
		platform_die("ask %s", text);
	return fd;
}

static void questions_arrive(int fd)
{
	static const char *const asked[] = { "192.0.0.1", "8.8.8.8", "25.192.0.9" };

	for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
		struct sockaddr_in from = {}, want = at(asked[i], 53);
		struct in_pktinfo info = {};
		char text[16];
		pid_t pid = fork_inside();
		bool arrived;

		if (!pid) {
			int ask = udp_to(asked[i], 53, NULL);

			_exit(readable(ask, DEADLINE_MS) && recv(ask, text, 16, 0) == 6 ? 0 : 1);
		}
		arrived = receive_question(fd, text, &from, &info) == 3 &&
			  info.ipi_addr.s_addr == want.sin_addr.s_addr &&
			  send_answer(fd, &from, &info);
		CHECK(arrived && exit_status(pid) == 0,
		      "a question to port 53 of %s arrives, and its answer is accepted", asked[i]);
	}
}

/* What a program inside can do with addresses that are all local. */
static void addresses_lie(const int fds[static STEER_NUM])
{
	struct sockaddr_in to = {}, from = {}, lie = at("8.8.8.8", 53), again = {};
	struct in_pktinfo info = {};
	char text[16];
	pid_t pid = fork_inside();
	int fd;

	if (!pid)
		talk_and_exit(dial(
			"198.51.100.7", 443,
			&(struct sockaddr_in){ .sin_family = AF_INET, .sin_addr = lie.sin_addr }));
	fd = accept_and_answer(fds[STEER_TCP], &to, &from);
	CHECK(fd >= 0 && from.sin_addr.s_addr == lie.sin_addr.s_addr && exit_status(pid) == 0,
	      "trap: a connection can come from any address");
	(void)close(fd);
	pid = fork_inside();
	if (!pid) {
		int one = 1, lying = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
		struct sockaddr_in us = at("192.0.0.1", 53);

		(void)setsockopt(lying, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		(void)setsockopt(lying, IPPROTO_IP, IP_FREEBIND, &one, sizeof(one));
		_exit(bind(lying, (struct sockaddr *)&lie, sizeof(lie)) == 0 &&
				      sendto(lying, "ask", 3, 0, (struct sockaddr *)&us,
					     sizeof(us)) == 3
			      ? 0
			      : 1);
	}
	CHECK(exit_status(pid) == 0 && receive_question(fds[STEER_UDP], text, &from, &info) == 3 &&
		      same(&from, &lie),
	      "trap: so can a question");
	CHECK(send_answer(fds[STEER_UDP], &from, &info) &&
		      receive_question(fds[STEER_UDP], text, &again, &info) == 6,
	      "trap: the answer to it comes back to us");
}

static void fails_at_once(void)
{
	pid_t pid = fork_inside();

	if (!pid) {
		int fd = udp_to("8.8.8.8", 443, NULL);
		char text[4];

		_exit(readable(fd, DEADLINE_MS) && recv(fd, text, 4, 0) < 0 && errno == ECONNREFUSED
			      ? 0
			      : 1);
	}
	CHECK(exit_status(pid) == 0, "a datagram to another port is refused at once");
	pid = fork_inside();
	if (!pid) {
		struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(443) };
		int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

		(void)inet_pton(AF_INET6, "2001:db8::1", &a.sin6_addr);
		_exit(connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0 && errno == ENETUNREACH
			      ? 0
			      : 1);
	}
	CHECK(exit_status(pid) == 0, "IPv6 is unreachable");
	pid = fork_inside();
	if (!pid) {
		struct sockaddr_in a = at("0.0.0.0", STEER_PORT);
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		_exit(bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 && errno == EADDRINUSE ? 0
											    : 1);
	}
	CHECK(exit_status(pid) == 0, "trap: the listener's port cannot be bound inside");
}

static int dial_status(void)
{
	pid_t pid = fork_inside();

	if (!pid) {
		int fd = dial("8.8.8.8", 443, NULL);

		_exit(fd < 0 ? -fd : 0);
	}
	return exit_status(pid);
}

static void a_second_attach_takes_over(int first[static STEER_NUM])
{
	int second[STEER_NUM];
	struct sockaddr_in to, from;
	pid_t pid = fork_inside();
	char text[8];
	int fd;

	if (!pid) { /* established before, and used after */
		fd = dial("8.8.8.8", 443, NULL);
		_exit(write(fd, "ask", 3) == 3 && read(fd, text, 6) == 6 && read(fd, text, 1) == 1
			      ? 0
			      : 1);
	}
	fd = accept_and_answer(first[STEER_TCP], &to, &from);
	attach(second);
	for (int i = 0; i < DIALS; i++) /* which of two bound alike gets one is by a hash */
		NEED(dial_status() == 0, "dial");
	CHECK(readable(second[STEER_TCP], DEADLINE_MS) && !readable(first[STEER_TCP], 0),
	      "a second attach takes over");
	(void)close(first[STEER_LINK]);
	(void)close(first[STEER_TCP]);
	(void)close(first[STEER_UDP]);
	CHECK(dial_status() == 0, "also when the first is closed");
	(void)close(second[STEER_LINK]);
	CHECK(dial_status() == ECONNREFUSED, "without a link, connections are refused");
	CHECK(fd >= 0 && write(fd, "x", 1) == 1 && exit_status(pid) == 0,
	      "one that was established goes on");
	(void)close(second[STEER_TCP]);
	(void)close(second[STEER_UDP]);
	attach(second);
	(void)close(second[STEER_TCP]);
	CHECK(dial_status() == ECONNREFUSED, "without a listener, too");
	(void)close(second[STEER_UDP]);
	(void)close(second[STEER_LINK]);
}

static int compare(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static void measure(void)
{
	int us[ATTACHES];

	for (int i = 0; i < ATTACHES; i++) {
		struct timespec begin, end;
		int fds[STEER_NUM];

		(void)clock_gettime(CLOCK_MONOTONIC, &begin);
		attach(fds);
		(void)clock_gettime(CLOCK_MONOTONIC, &end);
		us[i] = (int)((end.tv_sec - begin.tv_sec) * 1000000 +
			      (end.tv_nsec - begin.tv_nsec) / 1000);
		detach(fds);
	}
	qsort(us, ATTACHES, sizeof(us[0]), compare);
	platform_note("attach: median %d us, least %d, most %d", us[ATTACHES / 2], us[0],
		      us[ATTACHES - 1]);
}

static void body(const struct plat *p)
{
	int fds[STEER_NUM];

	(void)p;
	outside = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	NEED(outside >= 0 && unshare(CLONE_NEWNET) == 0, "a network namespace");
	inside = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	NEED(inside >= 0, "the namespace");
	lo_up();
	allow_low_ports();
	attach(fds);
	tcp_arrives(fds);
	not_hijacked(fds, "0.0.0.0");
	not_hijacked(fds, "198.51.100.7");
	stays_inside("127.0.0.1");
	stays_inside("192.0.0.2");
	questions_arrive(fds[STEER_UDP]);
	addresses_lie(fds);
	fails_at_once();
	a_second_attach_takes_over(fds);
	measure();
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
