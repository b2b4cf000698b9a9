/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve - the addresses of a name
 *
 * First ask for IPv4 addresses, then for IPv6 ones if there are none.  A question has a random id
 * and a random case of its letters, each attempt a socket and a port of its own.  An answer that is
 * cut short is asked for again over TCP.  Servers take turns.  Addresses are kept for as long as
 * the name server says, at most five minutes (egress/address-cache.h).
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/endian.h"
#include "daemon/daemon.h"
#include "egress/address-cache.h"
#include "egress/dns-message.h"
#include "egress/egress.h"

#define SERVERS_MAX 3
#define TRY_MS 2000
#define TRIES 4
#define TCP_MAX KIB(16)

struct resolver {
	struct sockaddr_storage servers[SERVERS_MAX];
	unsigned n_servers;
	struct address_cache cache;
};

struct resolve_query;

/* One socket to a server; it frees itself after its query has left it. */
struct resolve_try {
	struct resolve_query *query;
	uv_poll_t poll;
	int fd;
	bool tcp, sent;
	struct buf in; /* of TCP */
};

struct resolve_query {
	struct egress *egress;
	struct id tenant;
	unsigned tenant_slot;
	struct host_name name;
	resolve_fn *fn;
	void *arg;
	enum dns_type type;
	struct dns_query bytes;
	struct resolve_try *now;
	uv_timer_t timer;
	unsigned tries;
	struct resolved result;
};

static void on_resolve_try_closed(uv_handle_t *h)
{
	struct resolve_try *t = h->data;

	cay_closep(&t->fd);
	buf_fini(&t->in);
	free(t);
}

static void resolve_leave_try(struct resolve_query *q)
{
	if (q->now)
		uv_close((uv_handle_t *)&q->now->poll, on_resolve_try_closed);
	q->now = NULL;
}

static void on_resolve_timer_closed(uv_handle_t *h)
{
	struct resolve_query *q = h->data;

	q->egress->n_queries--;
	q->egress->tenants[q->tenant_slot].n_queries--;
	q->fn(q->arg, &q->result);
	free(q);
}

static void resolve_finish(struct resolve_query *q, enum resolve_outcome outcome)
{
	resolve_leave_try(q);
	q->result.outcome = outcome;
	uv_close((uv_handle_t *)&q->timer, on_resolve_timer_closed);
}

static void resolve_try_next(struct resolve_query *q, bool tcp);

static void resolve_ask(struct resolve_query *q, enum dns_type type)
{
	uint8_t random[34];
	uint16_t id;

	q->type = type;
	if (getrandom(random, sizeof(random), 0) != sizeof(random)) {
		resolve_finish(q, RESOLVE_FAILED);
		return;
	}
	memcpy(&id, random + 32, sizeof(id));
	dns_query_write(&q->name, type, id, random, &q->bytes);
	resolve_try_next(q, false);
}

static void resolve_take_response(struct resolve_query *q, const struct dns_response *r)
{
	if (r->truncated) {
		resolve_try_next(q, true);
	} else if (r->rcode == DNS_NXDOMAIN) {
		resolve_finish(q, RESOLVE_NO_NAME);
	} else if (r->rcode != DNS_NOERROR) {
		resolve_try_next(q, false);
	} else if (r->n) {
		static_assert(RESOLVE_ADDRESSES_MAX >= DNS_ADDRESSES_MAX);
		q->result.n = r->n;
		memcpy(q->result.addresses, r->addresses, sizeof(r->addresses));
		address_cache_add(&q->egress->resolver->cache, &q->tenant, &q->name, r,
				  clk_boot_ns(q->egress->clk));
		resolve_finish(q, RESOLVED);
	} else if (q->type == DNS_A) {
		q->tries = 0;
		resolve_ask(q, DNS_AAAA);
	} else {
		resolve_finish(q, RESOLVE_NO_ADDRESS);
	}
}

static void resolve_read_udp(struct resolve_query *q)
{
	struct dns_response r;
	uint8_t in[4096];
	ssize_t n = recv(q->now->fd, in, sizeof(in), MSG_DONTWAIT);
	int got;

	if (n < 0 && errno == EAGAIN)
		return;
	got = n < 0 ? -EBADMSG : dns_response_read(&q->bytes, in, (size_t)n, &r);
	if (got == -ENOMSG)
		return; /* not to this question */
	if (got < 0)
		resolve_try_next(q, false);
	else
		resolve_take_response(q, &r);
}

static void resolve_send_tcp(struct resolve_query *q)
{
	uint8_t out[2 + DNS_QUERY_MAX];

	out[0] = (uint8_t)(q->bytes.n >> 8);
	out[1] = (uint8_t)q->bytes.n;
	memcpy(out + 2, q->bytes.bytes, q->bytes.n);
	q->now->sent = true;
	if (send(q->now->fd, out, 2u + q->bytes.n, MSG_NOSIGNAL) != 2 + q->bytes.n)
		resolve_try_next(q, false);
}

static void resolve_read_tcp(struct resolve_query *q)
{
	struct resolve_try *t = q->now;
	struct dns_response r;
	char in[KIB(4)];
	ssize_t n = recv(t->fd, in, sizeof(in), MSG_DONTWAIT);
	size_t want;

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0 || buf_append(&t->in, in, (size_t)n) < 0) {
		resolve_try_next(q, false);
		return;
	}
	want = t->in.len < 2 ? SIZE_MAX
			     : ((size_t)(uint8_t)t->in.data[0] << 8 | (uint8_t)t->in.data[1]);
	if (t->in.len < 2 || t->in.len - 2 < want)
		return;
	if (dns_response_read(&q->bytes, (const uint8_t *)t->in.data + 2, want, &r) < 0 ||
	    r.truncated)
		resolve_try_next(q, false);
	else
		resolve_take_response(q, &r);
}

static void on_resolve_ready(uv_poll_t *p, int, int)
{
	struct resolve_try *t = p->data;
	struct resolve_query *q = t->query;

	if (q->now != t)
		return;
	if (t->tcp && !t->sent) {
		resolve_send_tcp(q);
		if (q->now == t)
			(void)uv_poll_start(&t->poll, UV_READABLE, on_resolve_ready);
	} else if (t->tcp) {
		resolve_read_tcp(q);
	} else {
		resolve_read_udp(q);
	}
}

static int resolve_open_try(struct resolve_query *q, bool tcp)
{
	const struct resolver *all = q->egress->resolver;
	const struct sockaddr_storage *to = &all->servers[q->tries % all->n_servers];
	struct resolve_try *t = calloc(1, sizeof(*t));
	int r;

	if (!t)
		return -ENOMEM;
	*t = (struct resolve_try){ .query = q, .tcp = tcp, .in = BUF_INIT(TCP_MAX) };
	t->fd = socket(to->ss_family,
		       (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	r = t->fd < 0 ? -errno
	    : connect(t->fd, (const struct sockaddr *)to,
		      to->ss_family == AF_INET ? sizeof(struct sockaddr_in)
					       : sizeof(struct sockaddr_in6)) < 0 &&
			    errno != EINPROGRESS
		    ? -errno
		    : 0;
	if (r >= 0)
		r = uv_poll_init(&q->egress->loop, &t->poll, t->fd);
	if (r < 0) {
		cay_closep(&t->fd);
		free(t);
		return r;
	}
	t->poll.data = t;
	q->now = t;
	if (!tcp)
		(void)send(t->fd, q->bytes.bytes, q->bytes.n, MSG_NOSIGNAL);
	return uv_poll_start(&t->poll, tcp ? UV_WRITABLE : UV_READABLE, on_resolve_ready);
}

static void on_resolve_timeout(uv_timer_t *t)
{
	resolve_try_next(t->data, false);
}

/* Over TCP: the same server again. */
static void resolve_try_next(struct resolve_query *q, bool tcp)
{
	resolve_leave_try(q);
	q->tries += !tcp;
	if (q->tries > TRIES) {
		resolve_finish(q, RESOLVE_FAILED);
		return;
	}
	/* an attempt that cannot begin ends like one without an answer, and costs no loop */
	if (resolve_open_try(q, tcp) < 0)
		(void)uv_timer_start(&q->timer, on_resolve_timeout, TRY_MS / 20, 0);
	else
		(void)uv_timer_start(&q->timer, on_resolve_timeout, TRY_MS, 0);
}

static bool resolve_from_cache(const struct egress *e, const struct id *tenant,
			       const struct host_name *name, resolve_fn *fn, void *arg)
{
	const struct address_cache_entry *found =
		address_cache_find(&e->resolver->cache, tenant, name, clk_boot_ns(e->clk));
	struct resolved what = { .outcome = RESOLVED };

	if (!found)
		return false;
	what.n = found->n;
	memcpy(what.addresses, found->addresses, sizeof(found->addresses));
	fn(arg, &what);
	return true;
}

/* A name server that is slow to answer holds up its own tenant only. */
static int resolve_start_of(struct egress *e, const struct id *tenant, unsigned slot,
			    const struct host_name *name, resolve_fn *fn, void *arg)
{
	struct resolve_query *q;

	if (resolve_from_cache(e, tenant, name, fn, arg))
		return 0;
	if (!e->resolver->n_servers || e->n_queries >= QUERIES_MAX ||
	    e->tenants[slot].n_queries >= QUERIES_OF_TENANT_MAX)
		return -ENOBUFS;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	*q = (struct resolve_query){ .egress = e,
				     .tenant = *tenant,
				     .tenant_slot = slot,
				     .name = *name,
				     .fn = fn,
				     .arg = arg };
	e->n_queries++;
	e->tenants[slot].n_queries++;
	(void)uv_timer_init(&e->loop, &q->timer);
	q->timer.data = q;
	resolve_ask(q, DNS_A);
	return 0;
}

int resolve_start(struct egress_sandbox *sb, const struct host_name *name, resolve_fn *fn,
		  void *arg)
{
	const struct name_mirror *mirror = name_map_find(&sb->egress->map, name);

	return resolve_start_of(sb->egress, &sb->tenant, egress_sandbox_tenant_slot(sb),
				mirror ? &mirror->to : name, fn, arg);
}

int resolve_start_of_node(struct egress *e, const struct host_name *name, resolve_fn *fn, void *arg)
{
	static const struct id node;

	return resolve_start_of(e, &node, 0, name, fn, arg);
}

/* "192.0.2.1", "192.0.2.1:53", "2001:db8::1" or "[2001:db8::1]:53". */
static int resolver_add_server(struct resolver *all, struct slice word)
{
	struct sockaddr_in v4 = { .sin_family = AF_INET };
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
	bool brackets = word.n && word.p[0] == '[';
	const char *colon = memrchr(word.p, ':', word.n);
	struct slice host = word;
	uint64_t port = 53;
	char text[64];

	if (brackets || (colon && memchr(word.p, ':', word.n) == colon)) {
		const char *end = brackets ? memchr(word.p, ']', word.n) : colon;

		if (!end)
			return -EINVAL;
		host = (struct slice){ word.p + brackets, (size_t)(end - word.p) - brackets };
		if (colon && colon >= end &&
		    str_parse_u64(
			    (struct slice){ colon + 1, (size_t)(word.p + word.n - colon - 1) }, 1,
			    65535, &port) < 0)
			return -EINVAL;
	}
	if (!host.n || host.n >= sizeof(text) || all->n_servers == SERVERS_MAX)
		return -EINVAL;
	memcpy(text, host.p, host.n);
	text[host.n] = 0;
	v4.sin_port = v6.sin6_port = htons((uint16_t)port);
	if (inet_pton(AF_INET, text, &v4.sin_addr) == 1)
		memcpy(&all->servers[all->n_servers++], &v4, sizeof(v4));
	else if (inet_pton(AF_INET6, text, &v6.sin6_addr) == 1)
		memcpy(&all->servers[all->n_servers++], &v6, sizeof(v6));
	else
		return -EINVAL;
	return 0;
}

/* Lines "nameserver ADDRESS"; others are not ours. */
static void resolver_read_conf(struct resolver *all)
{
	auto_buf text = BUF_INIT(KIB(64));
	struct slice left;

	if (daemon_read_file("/etc/resolv.conf", &text) < 0)
		return;
	left = (struct slice){ text.data, text.len };
	while (left.n && all->n_servers < SERVERS_MAX) {
		struct slice line = slice_cut(&left, '\n');
		struct slice key = slice_cut(&line, ' ');

		if (slice_eq(key, SLICE("nameserver")))
			(void)resolver_add_server(all, slice_cut(&line, ' '));
	}
}

int resolver_open(struct egress *e, struct cay_err *err)
{
	static struct resolver all;
	struct slice left = slice_of(e->settings.egress_dns);

	while (left.n) {
		struct slice word = slice_cut(&left, ' ');

		if (word.n && resolver_add_server(&all, word) < 0)
			return cay_fail(err, CAY_E_INVALID,
					"egress.dns: '%.*s' is not ADDRESS[:PORT], or is more than "
					"the %dth",
					(int)word.n, word.p, SERVERS_MAX);
	}
	if (!all.n_servers)
		resolver_read_conf(&all);
	if (!all.n_servers && !e->settings.egress_proxy_resolves)
		log_warn(&e->log, "no name can be resolved: set egress.dns, or add a nameserver "
				  "to /etc/resolv.conf, and restart cay-egress");
	if (getrandom(all.cache.key, sizeof(all.cache.key), 0) != sizeof(all.cache.key))
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "get a random key");
	e->resolver = &all;
	return 0;
}
