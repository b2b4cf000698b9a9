/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lo-only-netns - every destination arrives at us, and there is no other way
 *
 * Leans on it: egress (docs/architecture.md, "No network link").  The sandbox's
 * network namespace has only lo, a local route for all addresses and one
 * redirect.  The keeper opens the listeners inside and passes them to
 * cay-egress, which stays in the host's namespace.
 *
 * Checked, IPv4 and IPv6, from an ordinary user inside: a connection to any
 * address arrives at the listener accepted outside, with its original
 * destination, and carries bytes both ways; connections inside (127.0.0.1, ::1)
 * stay inside; a datagram to any address's port 53 arrives with its address and
 * the answer is accepted; other datagrams and, once the listener is closed, all
 * connections are refused at once.  lo is the only interface, and the sandbox's
 * root, all capabilities in its user namespace, can change nothing: the network
 * namespace was made outside of it.
 *
 * Consequences, asserted: such a root cannot bind a port below 1024 by
 * CAP_NET_BIND_SERVICE, the keeper must set ip_unprivileged_port_start to 0
 * inside; dialling the listener's own port shows that port as the original
 * destination, which cay-egress must refuse; the IPv6 DNS socket needs
 * IPV6_FREEBIND to answer from the address asked.
 *
 * "Nothing leaves" holds for what a network namespace bounds.  AF_VSOCK it does
 * not: a socket of that family can be made inside (noted), and would reach the
 * hypervisor.  The seccomp list must name the socket families.
 *
 * Measured on Linux 6.18, two cores: 23 to 37 us per connect.
 *
 * If it failed: a veth pair, a bridge and a firewall per sandbox, whose rules
 * would be the only thing between a sandbox and the network.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "platform.h"

/* SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST, whose headers clash with net/if.h. */
#define ORIGINAL_DST 80
#define EGRESS_PORT 40000
#define DNS_PORT 53
#define DEADLINE_MS 20000
#define CONNECTS 50

/* What the keeper hands out of the namespace, in this order. */
enum { NET_NS, TCP4, TCP6, UDP4, UDP6, NUM_FDS };

union addr {
	struct sockaddr sa;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
};

static union addr addr_of(const char *text, uint16_t port)
{
	union addr a = {};

	if (inet_pton(AF_INET, text, &a.in.sin_addr) == 1) {
		a.in.sin_family = AF_INET;
		a.in.sin_port = htons(port);
	} else if (inet_pton(AF_INET6, text, &a.in6.sin6_addr) == 1) {
		a.in6.sin6_family = AF_INET6;
		a.in6.sin6_port = htons(port);
	}
	return a;
}

static socklen_t addr_len(const union addr *a)
{
	return a->sa.sa_family == AF_INET ? sizeof(a->in) : sizeof(a->in6);
}

static bool addr_eq(const union addr *a, const union addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family)
		return false;
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_port == b->in.sin_port &&
		       a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
	return a->in6.sin6_port == b->in6.sin6_port &&
	       memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr)) == 0;
}

static bool readable(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, DEADLINE_MS) == 1;
}

static int bound(const char *text, uint16_t port, int type)
{
	union addr a = addr_of(text, port);
	int fd = socket(a.sa.sa_family, type | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0)
		platform_die("socket");
	if (a.sa.sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (type == SOCK_DGRAM && a.sa.sa_family == AF_INET)
		(void)setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
	/* freebind: a local route makes an address ours to receive at, not to send
	 * from; IPv4 does not mind */
	if (type == SOCK_DGRAM && a.sa.sa_family == AF_INET6)
		(void)(setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on)) |
		       setsockopt(fd, IPPROTO_IPV6, IPV6_FREEBIND, &on, sizeof(on)));
	if (bind(fd, &a.sa, addr_len(&a)) < 0 || (type == SOCK_STREAM && listen(fd, 128) < 0))
		platform_die("bind %s port %u", text, port);
	return fd;
}

static void set_up_routes(void)
{
	static const char *const commands[][12] = {
		{ "ip", "link", "set", "lo", "up" },
		{ "ip", "route", "add", "local", "0.0.0.0/0", "dev", "lo" },
		{ "ip", "-6", "route", "add", "local", "::/0", "dev", "lo" },
		{ "nft", "add table inet cay" },
		{ "nft", "add chain inet cay out { type nat hook output priority -100 ; }" },
		{ "nft", "add rule inet cay out meta l4proto tcp "
			 "ip daddr != 127.0.0.0/8 redirect to :40000" },
		{ "nft", "add rule inet cay out meta l4proto tcp ip6 daddr != ::1 "
			 "redirect to :40000" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (platform_run(commands[i], NULL) != 0)
			platform_die("%s %s", commands[i][0], commands[i][1]);
}

/* The keeper's part: in the namespace, then out with the fds. */
static int open_inside(void *arg)
{
	const int *wire = arg;
	int fds[NUM_FDS];
	alignas(struct cmsghdr) char space[CMSG_SPACE(sizeof(fds))] = {};
	struct iovec iov = { .iov_base = (char[]){ 'f' }, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = space,
			      .msg_controllen = sizeof(space) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	if (unshare(CLONE_NEWNET) < 0)
		platform_die("unshare network");
	set_up_routes();
	fds[NET_NS] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	fds[TCP4] = bound("127.0.0.1", EGRESS_PORT, SOCK_STREAM);
	fds[TCP6] = bound("::1", EGRESS_PORT, SOCK_STREAM);
	fds[UDP4] = bound("0.0.0.0", DNS_PORT, SOCK_DGRAM);
	fds[UDP6] = bound("::", DNS_PORT, SOCK_DGRAM);
	*c = (struct cmsghdr){ .cmsg_level = SOL_SOCKET,
			       .cmsg_type = SCM_RIGHTS,
			       .cmsg_len = CMSG_LEN(sizeof(fds)) };
	memcpy(CMSG_DATA(c), fds, sizeof(fds));
	return sendmsg(wire[1], &msg, 0) == 1 ? 0 : 1;
}

static void receive_fds(int wire, int fds[static NUM_FDS])
{
	alignas(struct cmsghdr) char space[CMSG_SPACE(sizeof(int[NUM_FDS]))] = {};
	char byte;
	struct iovec iov = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = space,
			      .msg_controllen = sizeof(space) };
	struct cmsghdr *c;

	NEED(recvmsg(wire, &msg, MSG_CMSG_CLOEXEC) == 1, "receive fds");
	c = CMSG_FIRSTHDR(&msg);
	NEED(c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int[NUM_FDS])),
	     "%d fds", NUM_FDS);
	memcpy(fds, CMSG_DATA(c), sizeof(int[NUM_FDS]));
}

struct client {
	int net_ns, userns;
	uint32_t uid;
	const char *to;
	uint16_t port;
};

static void enter(const struct client *c)
{
	if (setns(c->net_ns, CLONE_NEWNET) < 0 || setns(c->userns, CLONE_NEWUSER) < 0 ||
	    setresgid(c->uid, c->uid, c->uid) < 0 || setresuid(0, 0, 0) < 0 ||
	    setresuid(c->uid, c->uid, c->uid) < 0)
		platform_die("enter");
}

/* 0 when "ping" was answered with "pong", else the errno. */
static int exchange(const struct client *c, int type)
{
	union addr to = addr_of(c->to, c->port);
	auto_close int fd = socket(to.sa.sa_family, type | SOCK_CLOEXEC, 0);
	struct timeval limit = { .tv_sec = DEADLINE_MS / 1000 };
	char answer[4];

	if (fd < 0)
		return errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (connect(fd, &to.sa, addr_len(&to)) < 0 || send(fd, "ping", 4, MSG_NOSIGNAL) != 4)
		return errno;
	if (recv(fd, answer, sizeof(answer), 0) != 4)
		return errno;
	return memcmp(answer, "pong", 4) == 0 ? 0 : EPROTO;
}

static int talk_tcp(void *arg)
{
	enter(arg);
	return exchange(arg, SOCK_STREAM);
}

static int talk_udp(void *arg)
{
	enter(arg);
	return exchange(arg, SOCK_DGRAM);
}

static bool original_dst(int fd, sa_family_t family, union addr *ret)
{
	socklen_t len = sizeof(*ret);

	return family == AF_INET ? getsockopt(fd, SOL_IP, ORIGINAL_DST, ret, &len) == 0
				 : getsockopt(fd, SOL_IPV6, ORIGINAL_DST, ret, &len) == 0;
}

/* cay-egress's part, in the host's namespace. */
static bool answer_tcp(int listener, sa_family_t family, union addr *ret_dst)
{
	auto_close int fd = readable(listener) ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
	char question[4];

	return fd >= 0 && original_dst(fd, family, ret_dst) && readable(fd) &&
	       recv(fd, question, sizeof(question), 0) == 4 && memcmp(question, "ping", 4) == 0 &&
	       send(fd, "pong", 4, MSG_NOSIGNAL) == 4;
}

static void try_tcp(const struct client *c, int listener, const char *what)
{
	union addr want = addr_of(c->to, c->port), got = {};
	auto_child client = CHILD_INIT;

	if (platform_fork(&client) == 0)
		_exit(talk_tcp((void *)(uintptr_t)c));
	CHECK(answer_tcp(listener, want.sa.sa_family, &got) && platform_reap(&client) == 0,
	      "%s: to %s port %u, accepted and answered from outside", what, c->to, c->port);
	CHECK(addr_eq(&got, &want), "%s: the original destination is known", what);
}

/* From the port's address to the client, by way of the address it wrote to. */
static bool answer_udp(int fd, sa_family_t family, union addr *ret_dst)
{
	alignas(struct cmsghdr) char space[256] = {};
	union addr from = {};
	char question[16];
	struct iovec iov = { .iov_base = question, .iov_len = sizeof(question) };
	struct msghdr msg = { .msg_name = &from,
			      .msg_namelen = sizeof(from),
			      .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = space,
			      .msg_controllen = sizeof(space) };
	struct cmsghdr *c;

	if (!readable(fd) || recvmsg(fd, &msg, 0) != 4)
		return false;
	c = CMSG_FIRSTHDR(&msg);
	if (!c)
		return false;
	*ret_dst = (union addr){ .sa.sa_family = family };
	if (family == AF_INET) {
		struct in_pktinfo info;

		memcpy(&info, CMSG_DATA(c), sizeof(info));
		ret_dst->in.sin_addr = info.ipi_addr;
		ret_dst->in.sin_port = htons(DNS_PORT);
	} else {
		struct in6_pktinfo info;

		memcpy(&info, CMSG_DATA(c), sizeof(info));
		ret_dst->in6.sin6_addr = info.ipi6_addr;
		ret_dst->in6.sin6_port = htons(DNS_PORT);
	}
	iov = (struct iovec){ .iov_base = (char[]){ "pong" }, .iov_len = 4 };
	return sendmsg(fd, &msg, 0) == 4;
}

static void try_udp(const struct client *c, int fd)
{
	union addr want = addr_of(c->to, DNS_PORT), got = {};
	auto_child client = CHILD_INIT;

	if (platform_fork(&client) == 0)
		_exit(talk_udp((void *)(uintptr_t)c));
	CHECK(answer_udp(fd, want.sa.sa_family, &got) && addr_eq(&got, &want),
	      "UDP: a datagram to %s port 53 arrives with its address", c->to);
	CHECK(platform_reap(&client) == 0, "UDP: the answer is taken as coming from %s", c->to);
}

/* A server inside on ::1 or 127.0.0.1 and its client. */
static int talk_inside(void *arg)
{
	const struct client *c = arg;
	auto_child client = CHILD_INIT;
	union addr dst;
	int listener;

	enter(c);
	listener = bound(c->to, c->port, SOCK_STREAM);
	if (platform_fork(&client) == 0)
		_exit(exchange(c, SOCK_STREAM));
	return answer_tcp(listener, addr_of(c->to, c->port).sa.sa_family, &dst) &&
			       platform_reap(&client) == 0
		       ? 0
		       : 1;
}

static int only_lo(void *arg)
{
	struct if_nameindex *list;
	bool ok;

	enter(arg);
	list = if_nameindex();
	ok = list && list[0].if_index && strcmp(list[0].if_name, "lo") == 0 && !list[1].if_index;
	if_freenameindex(list);
	return ok ? 0 : 1;
}

static int change_nothing(void *arg)
{
	static const char *const add[] = { "ip", "link", "add", "dummy0", "type", "dummy", NULL };
	static const char *const route[] = { "ip",        "route", "del", "local",
					     "0.0.0.0/0", "dev",   "lo",  NULL };
	static const char *const flush[] = { "nft", "flush ruleset", NULL };
	auto_close int fd = -EBADF, raw = -EBADF;
	struct ifreq ifr = { .ifr_name = "lo" };

	enter(arg);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	raw = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
	return ioctl(fd, SIOCSIFFLAGS, &ifr) < 0 && errno == EPERM && raw < 0 &&
			       platform_run(add, NULL) != 0 && platform_run(route, NULL) != 0 &&
			       platform_run(flush, NULL) != 0
		       ? 0
		       : 1;
}

static int bind_low(void *arg)
{
	union addr a = addr_of("127.0.0.1", 80);
	auto_close int fd = -EBADF;

	enter(arg);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd < 0 || bind(fd, &a.sa, addr_len(&a)) < 0 ? errno : 0;
}

static int allow_low(void *arg)
{
	const struct client *c = arg;

	if (setns(c->net_ns, CLONE_NEWNET) < 0)
		platform_die("enter");
	/* the file shows the namespace of who opens it */
	return platform_put(AT_FDCWD, "/proc/sys/net/ipv4/ip_unprivileged_port_start", "0") == 0
		       ? 0
		       : 1;
}

static int vsock_errno(void *arg)
{
	auto_close int fd = -EBADF;

	enter(arg);
	fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return fd < 0 ? errno : 0;
}

static int time_connects(void *arg)
{
	const struct client *c = arg;

	enter(c);
	for (int i = 0; i < CONNECTS; i++) {
		union addr to = addr_of(c->to, c->port);
		auto_close int fd = socket(to.sa.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0 || connect(fd, &to.sa, addr_len(&to)) < 0)
			return errno;
	}
	return 0;
}

static void try_root(struct client c)
{
	c.uid = 0;
	CHECK(platform_in_child(only_lo, &c) == 0, "lo is the only interface");
	CHECK(platform_in_child(change_nothing, &c) == 0,
	      "the sandbox's root cannot change links, routes or rules, nor open a packet socket");
	CHECK(platform_in_child(bind_low, &c) == EACCES,
	      "the sandbox's root cannot bind port 80 by its capability");
	NEED(platform_in_child(allow_low, &c) == 0, "set ip_unprivileged_port_start");
	CHECK(platform_in_child(bind_low, &c) == 0, "it can after ip_unprivileged_port_start is 0");
	platform_note("socket(AF_VSOCK) inside: %s", strerror(platform_in_child(vsock_errno, &c)));
}

static void try_refusals(struct client c, int fds[static NUM_FDS])
{
	uint64_t start;

	c.to = "198.51.100.7";
	c.port = 123;
	CHECK(platform_in_child(talk_udp, &c) == ECONNREFUSED,
	      "UDP: any other port is refused, not lost");
	c.port = 443;
	start = platform_now_ns();
	NEED(platform_in_child(time_connects, &c) == 0, "connect");
	platform_note("%.0f us per connect, %d of them, with fork and exit",
		      (double)(platform_now_ns() - start) / 1e3 / CONNECTS, CONNECTS);
	(void)close(fds[TCP4]);
	(void)close(fds[TCP6]);
	CHECK(platform_in_child(talk_tcp, &c) == ECONNREFUSED,
	      "IPv4: listener closed, connection refused");
	c.to = "2001:db8::7";
	CHECK(platform_in_child(talk_tcp, &c) == ECONNREFUSED,
	      "IPv6: listener closed, connection refused");
}

static void body(const struct plat *p)
{
	int wire[2], fds[NUM_FDS];
	struct client c;

	(void)p;
	platform_require((const char *const[]){ "ip", "nft", NULL });
	NEED(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, wire) == 0, "socketpair");
	NEED(platform_in_child(open_inside, wire) == 0, "the namespace and its listeners");
	receive_fds(wire[0], fds);
	c = (struct client){ .net_ns = fds[NET_NS],
			     .userns = platform_userns(0, LIVE_A),
			     .uid = 1000,
			     .port = 443 };
	c.to = "198.51.100.7";
	try_tcp(&c, fds[TCP4], "IPv4");
	c.to = "2001:db8::7";
	try_tcp(&c, fds[TCP6], "IPv6");
	c.to = "127.0.0.1";
	c.port = EGRESS_PORT;
	try_tcp(&c, fds[TCP4], "the listener's own port");
	c.port = 8080;
	CHECK(platform_in_child(talk_inside, &c) == 0, "127.0.0.1 port 8080 stays inside");
	c.to = "::1";
	CHECK(platform_in_child(talk_inside, &c) == 0, "::1 port 8080 stays inside");
	c.port = DNS_PORT;
	c.to = "192.0.2.53";
	try_udp(&c, fds[UDP4]);
	c.to = "127.0.0.53";
	try_udp(&c, fds[UDP4]);
	c.to = "2001:db8::53";
	try_udp(&c, fds[UDP6]);
	try_root(c);
	try_refusals(c, fds);
	(void)close(c.userns);
}

int main(int argc, char **argv)
{
	return platform_main(argc, argv, body);
}
