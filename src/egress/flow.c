/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow - a connection of a sandbox
 *
 *	accepted -> judged -> (port 443: the name in its TLS hello is the name it dialled)
 *	                      (port 80: so is the Host of each request, host-guard.h)
 *	         -> resolved -> each address may be dialled -> logged -> dialled -> copied
 *
 * It is judged by the name whose address it dialled, and connected to that name: nothing that it
 * sends has an influence.  A refused connection is reset, so that a program inside fails at once.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "egress/client-hello.h"
#include "egress/egress.h"
#include "egress/host-guard.h"
#include "net/tunnel.h"

#define ACCEPT_BATCH 32 /* before others get their turn */
#define HELLO_MS 10000
#define DIAL_MS 5000
#define DIALS_MAX 3
#define IDLE_MS 900000 /* without a byte */
#define HTTPS_PORT 443
#define HTTP_PORT 80

struct flow_dial;

struct flow {
	struct egress_sandbox *sandbox;
	struct flow *prev, *next; /* of the sandbox */
	unsigned holds;           /* handles and callbacks that refer to it */
	bool ended, cut;
	enum egress_flow_state state;
	uint64_t since_ns;     /* wall time */
	struct host_name name; /* n is 0 for a connection to an address */
	uint32_t address;      /* that it dialled */
	uint16_t port;
	struct egress_verdict verdict;
	struct conn *inside; /* until the tunnel has it */
	struct buf hello;
	uv_timer_t timer;
	struct resolved to;
	unsigned n_dials;
	struct flow_dial *dial;
	struct tunnel *tunnel;
	uint64_t moved; /* bytes when its silence began */
};

/* A connection being opened; frees itself after its flow has left it. */
struct flow_dial {
	struct flow *flow;
	uv_poll_t poll;
	int fd;
};

struct flow *flow_next(const struct flow *f)
{
	return f->next;
}

void flow_get_moved(const struct flow *f, uint64_t *ret_up, uint64_t *ret_down)
{
	*ret_up = *ret_down = 0;
	if (f->tunnel)
		tunnel_get_moved(f->tunnel, ret_up, ret_down);
}

bool flow_describe(const struct flow *f, struct egress_flow_row *ret)
{
	if (f->cut)
		return false;
	*ret = (struct egress_flow_row){ .since_ns = f->since_ns,
					 .port = f->port,
					 .state = (uint16_t)f->state };
	static_assert(sizeof(f->name.text) <= sizeof(ret->name));
	memcpy(ret->name, f->name.text, f->name.n);
	if (f->n_dials)
		memcpy(ret->address, f->to.addresses[f->n_dials - 1], sizeof(ret->address));
	else if (!f->name.n)
		address_from_v4(f->address, ret->address);
	flow_get_moved(f, &ret->up, &ret->down);
	return true;
}

static void flow_release(struct flow *f)
{
	struct egress_sandbox *sb = f->sandbox;

	if (--f->holds)
		return;
	buf_fini(&f->hello);
	free(f);
	egress_sandbox_release(sb);
}

static const char *flow_target(const struct flow *f, char room[static ADDRESS_TEXT_MAX])
{
	uint8_t address[EGRESS_ADDRESS_LEN];

	if (f->name.n)
		return f->name.text;
	address_from_v4(f->address, address);
	address_format(address, room);
	return room;
}

/* NULL: it is connected to the name it dialled. */
static const struct name_mirror *flow_mirror(const struct flow *f)
{
	return f->name.n ? name_map_find(&f->sandbox->egress->map, &f->name) : NULL;
}

static uint16_t flow_dial_port(const struct flow *f)
{
	const struct name_mirror *mirror = flow_mirror(f);

	return mirror && mirror->port ? mirror->port : f->port;
}

static struct decision flow_decision(const struct flow *f, const char *op, const char *outcome,
				     char room[static ADDRESS_TEXT_MAX])
{
	struct decision d = { .sandbox = f->sandbox,
			      .op = op,
			      .outcome = outcome,
			      .name = flow_target(f, room),
			      .port = f->port,
			      .mirror = flow_mirror(f),
			      .verdict = f->verdict };

	if (f->n_dials)
		d.dialled = f->to.addresses[f->n_dials - 1];
	flow_get_moved(f, &d.up, &d.down);
	return d;
}

static bool flow_log(const struct flow *f, const char *op, const char *outcome)
{
	char room[ADDRESS_TEXT_MAX];
	struct decision d = flow_decision(f, op, outcome, room);

	return decision_log_add(f->sandbox->egress, &d);
}

static void flow_log_denial(const struct flow *f, const char *why)
{
	char room[ADDRESS_TEXT_MAX];
	struct decision d = flow_decision(f, "cut", why, room);

	decision_log_add_denial(f->sandbox, &d);
}

/* Whether a close of this socket becomes a reset. */
static void socket_reset_on_close(int fd, bool on)
{
	struct linger l = { .l_onoff = on };

	if (fd >= 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
}

static void on_flow_dial_closed(uv_handle_t *h)
{
	struct flow_dial *d = h->data;
	struct flow *f = d->flow;

	cay_closep(&d->fd);
	free(d);
	flow_release(f);
}

static void flow_leave_dial(struct flow *f)
{
	if (f->dial)
		uv_close((uv_handle_t *)&f->dial->poll, on_flow_dial_closed);
	f->dial = NULL;
}

static void on_flow_timer_closed(uv_handle_t *h)
{
	flow_release(h->data);
}

/* It is no longer one of its sandbox's; what refers to it may still call. */
static void flow_end(struct flow *f)
{
	struct egress_sandbox *sb = f->sandbox;

	f->ended = true;
	*(f->prev ? &f->prev->next : &sb->flows) = f->next;
	if (f->next)
		f->next->prev = f->prev;
	sb->n_flows--;
	sb->egress->n_flows--;
	sb->egress->tenants[egress_sandbox_tenant_slot(sb)].n_flows--;
	flow_leave_dial(f);
	uv_close((uv_handle_t *)&f->timer, on_flow_timer_closed);
}

void flow_cut(struct flow *f, const char *why)
{
	if (f->ended || f->cut)
		return;
	f->cut = true;
	flow_log_denial(f, why);
	if (!f->tunnel)
		egress_sandbox_count_refusal(f->sandbox, why);
	if (f->tunnel) {
		tunnel_reset(f->tunnel); /* its done() ends the flow */
		return;
	}
	if (f->inside)
		conn_close(f->inside);
	flow_end(f);
}

static struct slice egress_sandbox_policy(const struct egress_sandbox *sb)
{
	return (struct slice){ sb->policy.data, sb->policy.len };
}

static struct egress_verdict flow_judge(const struct flow *f)
{
	return f->name.n ? egress_judge_name(egress_sandbox_policy(f->sandbox), &f->name, f->port)
			 : egress_judge_address(egress_sandbox_policy(f->sandbox), f->address,
						f->port);
}

void flow_judge_again(struct flow *f)
{
	f->verdict = flow_judge(f);
	if (f->verdict.action != EGRESS_ALLOW)
		flow_cut(f, "deny");
}

static void on_flow_idle_timer(uv_timer_t *t)
{
	struct flow *f = t->data;
	uint64_t up, down;

	tunnel_get_moved(f->tunnel, &up, &down);
	if (up + down == f->moved)
		flow_cut(f, "idle");
	f->moved = up + down;
}

static void on_flow_tunnel_done(void *arg)
{
	struct flow *f = arg;
	uint64_t up, down;

	flow_get_moved(f, &up, &down);
	f->sandbox->count.ended.up += up;
	f->sandbox->count.ended.down += down;
	(void)flow_log(f, "closed", "closed");
	f->tunnel = NULL;
	flow_end(f);
	flow_release(f);
}

static void flow_copy(struct flow *f, int fd, int family)
{
	struct egress *e = f->sandbox->egress;
	static const struct conn_events none = {};
	struct conn_conf conf = { .events = &none, .data = f, .out_max = 2 * CONN_READ };
	struct conn *outside, *inside = f->inside;
	struct tunnel *t = tunnel_new(&e->loop, on_flow_tunnel_done, f);

	if (!t || conn_open_fd(e->room, fd, family, &conf, &outside) < 0) {
		if (t)
			tunnel_free(t);
		else
			cay_closep(&fd);
		flow_cut(f, "no_memory");
		return;
	}
	f->tunnel = t;
	f->state = EGRESS_FLOW_OPEN;
	f->sandbox->count.ended.connected++;
	if (e->may_splice && !conn_is_filtered(inside))
		tunnel_allow_splice(t);
	socket_reset_on_close(conn_fd(inside), false);
	f->inside = NULL; /* the tunnel's, with the hold of the connection */
	(void)uv_timer_start(&f->timer, on_flow_idle_timer, IDLE_MS, IDLE_MS);
	tunnel_start(t, inside, (struct slice){ f->hello.data, f->hello.len }, outside,
		     (struct slice){});
	buf_fini(&f->hello);
	f->hello = BUF_INIT(0);
}

static void flow_dial_next(struct flow *f);

static void on_flow_dialled(uv_poll_t *p, int, int)
{
	struct flow_dial *d = p->data;
	struct flow *f = d->flow;
	int failed = 0, family = 0, fd;
	socklen_t n = sizeof(failed);

	if (f->dial != d)
		return;
	if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &failed, &n) < 0 || failed) {
		flow_leave_dial(f);
		flow_dial_next(f);
		return;
	}
	n = sizeof(family);
	(void)getsockopt(d->fd, SOL_SOCKET, SO_DOMAIN, &family, &n);
	fd = fcntl(d->fd, F_DUPFD_CLOEXEC, 3); /* the poll still refers to the first */
	flow_leave_dial(f);
	if (fd < 0)
		flow_cut(f, "no_memory");
	else
		flow_copy(f, fd, family);
}

static int flow_dial_open(struct flow *f, const uint8_t *address)
{
	bool v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)address);
	uint16_t port = htons(flow_dial_port(f));
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = port };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = port };
	auto_close int fd =
		socket(v4 ? AF_INET : AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct flow_dial *d;

	if (fd < 0)
		return -errno;
	memcpy(&in.sin_addr, address + 12, 4);
	memcpy(&in6.sin6_addr, address, sizeof(in6.sin6_addr));
	if ((v4 ? connect(fd, (const struct sockaddr *)&in, sizeof(in))
		: connect(fd, (const struct sockaddr *)&in6, sizeof(in6))) < 0 &&
	    errno != EINPROGRESS)
		return -errno;
	d = calloc(1, sizeof(*d));
	if (!d || uv_poll_init(&f->sandbox->egress->loop, &d->poll, fd) < 0) {
		free(d);
		return -ENOMEM;
	}
	d->flow = f;
	d->fd = cay_take_fd(&fd);
	d->poll.data = d;
	f->dial = d;
	f->holds++;
	return uv_poll_start(&d->poll, UV_WRITABLE, on_flow_dialled);
}

static void on_flow_dial_timeout(uv_timer_t *t)
{
	struct flow *f = t->data;

	flow_leave_dial(f);
	flow_dial_next(f);
}

static void flow_dial_next(struct flow *f)
{
	f->state = EGRESS_FLOW_CONNECTING;
	while (f->n_dials < f->to.n && f->n_dials < DIALS_MAX) {
		if (flow_dial_open(f, f->to.addresses[f->n_dials++]) >= 0) {
			(void)uv_timer_start(&f->timer, on_flow_dial_timeout, DIAL_MS, 0);
			return;
		}
	}
	flow_cut(f, "connect_failed");
}

/* All addresses, or none: a name that also has an address that is not public is an attack, or a
 * mistake that would otherwise show now and then. */
static void flow_connect(struct flow *f)
{
	uint16_t port = flow_dial_port(f);

	for (unsigned i = 0; i < f->to.n; i++) {
		const char *why = address_refusal(f->sandbox->egress, f->to.addresses[i], port);

		if (why) {
			flow_cut(f, why);
			return;
		}
	}
	if (!flow_log(f, "connect", "allow"))
		flow_cut(f, "log_unavailable");
	else
		flow_dial_next(f);
}

static void on_flow_resolved(void *arg, const struct resolved *what)
{
	struct flow *f = arg;

	if (!f->ended) {
		f->to = *what;
		if (what->outcome == RESOLVED)
			flow_connect(f);
		else
			flow_cut(f,
				 what->outcome == RESOLVE_FAILED ? "resolve_failed" : "no_address");
	}
	flow_release(f);
}

static void flow_resolve(struct flow *f)
{
	if (!f->name.n) {
		f->to.n = 1;
		address_from_v4(f->address, f->to.addresses[0]);
		flow_connect(f);
		return;
	}
	f->holds++;
	f->state = EGRESS_FLOW_RESOLVING;
	(void)uv_timer_stop(&f->timer); /* the resolver has deadlines */
	if (resolve_start(f->sandbox, &f->name, on_flow_resolved, f) < 0) {
		f->holds--;
		flow_cut(f, "resolver_busy");
	}
}

/* The name a TLS client asks for must be the one it dialled.  A hello that hides its name (ECH)
 * cannot be compared, so it is refused. */
static void on_flow_hello_read(struct conn *c, struct slice bytes)
{
	struct flow *f = conn_data(c);
	struct client_hello hello;
	enum client_hello_result r;

	if (buf_append(&f->hello, bytes.p, bytes.n) < 0) {
		flow_cut(f, "hello_too_long");
		return;
	}
	r = client_hello_read((const uint8_t *)f->hello.data, f->hello.len, &hello);
	if (r == CLIENT_HELLO_MORE)
		return;
	conn_set_reading(c, false);
	if (r != CLIENT_HELLO_DONE)
		flow_cut(f, r == CLIENT_HELLO_NOT_TLS ? "not_tls" : "hello_malformed");
	else if (hello.has_ech)
		flow_cut(f, "name_is_hidden");
	else if (hello.sni != CLIENT_HELLO_SNI_PRESENT)
		flow_cut(f, "no_name");
	else if (!host_name_eq(&f->name, (struct slice){ hello.name.text, hello.name.n }))
		flow_cut(f, "other_name");
	else
		flow_resolve(f);
}

static void on_flow_inside_end(struct conn *c, const struct cay_err *)
{
	flow_cut(conn_data(c), "client_left");
}

static void on_flow_inside_closed(struct conn *c)
{
	struct flow *f = conn_data(c);

	f->inside = NULL;
	flow_release(f);
}

static void on_flow_hello_timeout(uv_timer_t *t)
{
	flow_cut(t->data, "hello_timeout");
}

static const struct conn_events flow_inside_events = { .read = on_flow_hello_read,
						       .end = on_flow_inside_end,
						       .closed = on_flow_inside_closed };

/* Which name it dialled; false: it dialled an address that no name has. */
static bool flow_find_name(struct flow *f)
{
	const struct egress *e = f->sandbox->egress;

	if ((f->address ^ e->synthetic_net) >> (32 - e->synthetic_prefix))
		return true;
	return name_table_find_address(&f->sandbox->names, f->address, &f->name);
}

static void on_flow_refused(void *arg, const char *why)
{
	flow_cut(arg, why);
}

static void flow_begin(struct flow *f, int fd)
{
	struct egress *e = f->sandbox->egress;
	const bool has_target = f->address != STEER_SERVICE && flow_find_name(f);
	struct host_guard_layer guard = { { host_guard_attach }, &f->name, on_flow_refused, f };
	struct conn_conf conf = { .events = &flow_inside_events,
				  .data = f,
				  .out_max = 2 * CONN_READ };

	if (f->name.n && f->port == HTTP_PORT)
		conf.layer = &guard.layer;
	socket_reset_on_close(fd, true); /* until it is copied */
	if (conn_open_fd(e->room, fd, AF_INET, &conf, &f->inside) < 0) {
		f->inside = NULL;
		flow_cut(f, "no_memory");
		return;
	}
	f->holds++;
	f->verdict = (struct egress_verdict){ .action = EGRESS_DENY, .rule = -1 };
	if (!has_target) {
		flow_cut(f, "no_such_host");
		return;
	}
	f->verdict = flow_judge(f);
	if (f->verdict.action != EGRESS_ALLOW) {
		flow_cut(f, "deny");
	} else if (f->name.n && f->port == HTTPS_PORT) {
		(void)uv_timer_start(&f->timer, on_flow_hello_timeout, HELLO_MS, 0);
		conn_set_reading(f->inside, true);
	} else {
		flow_resolve(f);
	}
}

static struct flow *flow_new(struct egress_sandbox *sb, const struct sockaddr_in *dialled)
{
	struct flow *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	*f = (struct flow){ .sandbox = sb,
			    .next = sb->flows,
			    .holds = 1, /* the timer */
			    .since_ns = clk_wall_ns(sb->egress->clk),
			    .address = ntohl(dialled->sin_addr.s_addr),
			    .port = ntohs(dialled->sin_port),
			    .hello = BUF_INIT(2 * CONN_READ) };
	if (f->next)
		f->next->prev = f;
	sb->flows = f;
	sb->n_flows++;
	sb->egress->n_flows++;
	sb->egress->tenants[egress_sandbox_tenant_slot(sb)].n_flows++;
	egress_sandbox_hold(sb);
	egress_sandbox_counts_changed(sb);
	(void)uv_timer_init(&sb->egress->loop, &f->timer);
	f->timer.data = f;
	return f;
}

/* There is always a descriptor left to accept and refuse with: a listener that cannot be read would
 * keep the loop busy. */
static bool egress_sandbox_may_begin_flow(struct egress_sandbox *sb)
{
	const struct egress *e = sb->egress;

	return sb->n_flows < SANDBOX_FLOWS_MAX && e->n_flows < e->flows_max &&
	       e->tenants[egress_sandbox_tenant_slot(sb)].n_flows <= e->flows_max / 4 &&
	       pace_take(&sb->flow_pace, clk_boot_ns(e->clk), SANDBOX_FLOWS_PER_S,
			 SANDBOX_FLOWS_BURST);
}

void egress_sandbox_accept_flows(struct egress_sandbox *sb)
{
	for (unsigned i = 0; i < ACCEPT_BATCH && egress_sandbox_fd(sb, STEER_TCP) >= 0; i++) {
		auto_close int fd = accept4(egress_sandbox_fd(sb, STEER_TCP), NULL, NULL,
					    SOCK_CLOEXEC | SOCK_NONBLOCK);
		struct sockaddr_in dialled = {};
		socklen_t n = sizeof(dialled);
		struct flow *f = NULL;

		if (fd < 0)
			return;
		if (egress_sandbox_may_begin_flow(sb) &&
		    getsockname(fd, (struct sockaddr *)&dialled, &n) == 0)
			f = flow_new(sb, &dialled);
		if (f) {
			flow_begin(f, cay_take_fd(&fd));
		} else {
			socket_reset_on_close(fd, true);
			egress_sandbox_count_refusal(sb, "too_many");
		}
	}
}
