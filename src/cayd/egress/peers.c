/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/egress/peers.h"

#include "cayd/egress/policy.h"
#include "net/dial.h"
#include "text/port-range.h"
#include "wire/hello.h"

#define DIALS_MAX 512 /* under way, of all sandboxes */
#define DIALS_OF_TENANT_MAX 64
#define DIAL_MS 6000 /* longer than PID 1 tries */
#define HEAD_MAX KIB(4)

/* Which ports */

/* The ports of both. */
static void exposed_narrow(struct egress_exposed *e, const struct egress_exposed *by)
{
	struct egress_exposed both = {};

	for (size_t i = 0; i < e->n; i++)
		for (size_t k = 0; k < by->n && both.n < EGRESS_EXPOSED_MAX; k++) {
			const struct egress_port_range a = e->ports[i], b = by->ports[k];
			const uint16_t from = a.from > b.from ? a.from : b.from;
			const uint16_t to = a.to < b.to ? a.to : b.to;

			if (from <= to)
				both.ports[both.n++] = (struct egress_port_range){ from, to };
		}
	*e = both;
}

static void exposed_read(const struct egress_spec *spec, struct egress_exposed *ret)
{
	*ret = (struct egress_exposed){};
	for (size_t i = 0; i < spec->expose.n && ret->n < EGRESS_EXPOSED_MAX; i++) {
		struct egress_port_range r;

		if (port_range_parse(slice_of(spec->expose.v[i]), &r.from, &r.to) == 0)
			ret->ports[ret->n++] = r;
	}
}

void sandbox_get_exposed(const struct sandbox *sb, struct egress_exposed *ret)
{
	const struct egress_policies p = sandbox_get_policies(sb);
	struct egress_exposed of_template;

	*ret = (struct egress_exposed){};
	if (p.own || p.template)
		exposed_read(p.own ? p.own : p.template, ret);
	if (p.own && p.template) {
		exposed_read(p.template, &of_template);
		exposed_narrow(ret, &of_template);
	}
}

/* Which sandbox */

static bool sandbox_is_peer(const struct sandbox *sb, const struct sandbox *from)
{
	const char *a = from->info.group, *b = sb->info.group;

	return a && b && a[0] && str_eq(a, b) && id_eq(&sb->info.tenant, &from->info.tenant) &&
	       !life_is_finished(&sb->life);
}

static struct sandbox *peer_find(struct sandbox *from, struct slice label)
{
	struct sandboxes *all = from->cayd->sandboxes;
	char name[HOST_NAME_MAX_LEN + 1];
	struct sandbox *sb;
	struct id id;

	if (id_parse(ID_SANDBOX, label, &id) == 0) {
		sb = sandbox_find(all, &id);
	} else {
		memcpy(name, label.p, label.n);
		name[label.n] = 0;
		sb = sandbox_find_named_before(all, &from->info.tenant, name, 0);
	}
	return sb && sandbox_is_peer(sb, from) ? sb : NULL;
}

/* Whether it may be connected to now; one that dozes is woken for it. */
static enum egress_peer_outcome peer_judge(struct sandbox *sb, uint16_t port)
{
	struct egress_exposed exposed;

	if (!sb)
		return EGRESS_PEER_ABSENT;
	sandbox_get_exposed(sb, &exposed);
	if (!egress_exposed_has(&exposed, port))
		return EGRESS_PEER_NOT_EXPOSED;
	return sandbox_takes_requests(sb) && !sb->life.claimed ? EGRESS_PEER_CONNECTED
							       : EGRESS_PEER_UNREACHABLE;
}

int peer_explain(struct sandbox *from, const struct host_name *name, uint16_t port,
		 bool *ret_exposed, struct buf *reason)
{
	struct slice label;
	struct sandbox *sb = NULL;
	enum egress_peer_outcome outcome;

	if (host_name_is_of_group(name, &label))
		sb = peer_find(from, label);
	outcome = peer_judge(sb, port);
	*ret_exposed = outcome != EGRESS_PEER_ABSENT && outcome != EGRESS_PEER_NOT_EXPOSED;
	switch (outcome) {
	case EGRESS_PEER_CONNECTED:
		return buf_puts(reason, "; that sandbox of the group exposes the port");
	case EGRESS_PEER_UNREACHABLE:
		return buf_puts(reason, "; that sandbox of the group exposes the port, and does "
					"not run now");
	case EGRESS_PEER_NOT_EXPOSED:
		return buf_printf(reason,
				  "; but the policy of that sandbox of the group does not "
				  "have the port %u in its `expose`",
				  port);
	case EGRESS_PEER_ABSENT:
	case EGRESS_PEER_NUM:
		break;
	}
	return buf_puts(reason, from->info.group && from->info.group[0]
					? "; but its group has no such sandbox"
					: "; but it has no group");
}

/* Connecting */

struct peer_dial {
	struct peer_dial **at, *next; /* of all */
	struct cayd *cayd;
	struct id tenant, from, to;
	uint64_t number; /* of the question */
	uint16_t port;
	int fd;
	unsigned open; /* handles */
	uv_poll_t poll;
	uv_timer_t timer;
	struct http_parser parser;
};

static void peer_reply(struct cayd *c, const struct id *from, uint64_t number,
		       enum egress_peer_outcome outcome, const struct id *peer, int fd)
{
	struct egress_peer_done done = { .outcome = (uint32_t)outcome };

	if (outcome == EGRESS_PEER_CONNECTED)
		done.peer = *peer;
	egress_link_send_peer(c, from, number, &done, fd);
}

static void on_peer_dial_closed(uv_handle_t *h)
{
	struct peer_dial *d = h->data;

	if (--d->open)
		return;
	cay_closep(&d->fd);
	http_parser_fini(&d->parser);
	free(d);
}

/* Both are judged again: the other may have changed its policy, or have ended, meanwhile. */
static void peer_dial_finish(struct peer_dial *d, bool connected)
{
	struct sandbox *from = sandbox_find(d->cayd->sandboxes, &d->from);
	struct sandbox *to = sandbox_find(d->cayd->sandboxes, &d->to);
	enum egress_peer_outcome outcome =
		peer_judge(from && to && sandbox_is_peer(to, from) ? to : NULL, d->port);
	int fd = -EBADF;

	if (outcome == EGRESS_PEER_CONNECTED && connected)
		fd = fcntl(d->fd, F_DUPFD_CLOEXEC, 3);
	if (outcome == EGRESS_PEER_CONNECTED && fd < 0)
		outcome = EGRESS_PEER_UNREACHABLE;
	peer_reply(d->cayd, &d->from, d->number, outcome, &d->to, fd);
	*d->at = d->next;
	if (d->next)
		d->next->at = d->at;
	uv_close((uv_handle_t *)&d->poll, on_peer_dial_closed);
	uv_close((uv_handle_t *)&d->timer, on_peer_dial_closed);
}

static void on_peer_dial_timeout(uv_timer_t *t)
{
	peer_dial_finish(t->data, false);
}

/* Exactly the head is taken from the socket: what follows is the other program's. */
static void on_peer_dial_readable(uv_poll_t *p, int status, int)
{
	struct peer_dial *d = p->data;
	char head[HEAD_MAX];
	ssize_t n = status < 0 ? -1 : recv(d->fd, head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
	struct slice in = { head, n > 0 ? (size_t)n : 0 }, piece;
	int r;

	if (n < 0 && status >= 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		peer_dial_finish(d, false);
		return;
	}
	r = http_parser_next(&d->parser, &in, &piece, NULL);
	if (recv(d->fd, head, (size_t)n - in.n, MSG_DONTWAIT) != n - (ssize_t)in.n)
		r = -EPROTO;
	if (r != HTTP_MORE)
		peer_dial_finish(
			d, r == HTTP_HEAD_DONE && d->parser.head.status == 101 &&
				   http_equals_nocase(d->parser.head.upgrade, HELLO_PORT_PROTOCOL));
}

/* A socket of PID 1, on which the request is sent. */
static int peer_dial_open(const struct cayd *c, const struct id *to, uint16_t port)
{
	auto_buf path = BUF_INIT(512), request = BUF_INIT(512);
	char id[ID_TEXT_LEN + 1];
	auto_close int fd = -EBADF;

	id_format(to, id);
	if (buf_printf(&path, "%s/box/%s", c->settings.run_dir, id) < 0 ||
	    buf_printf(&request,
		       "GET /v1/sandboxes/%s/tunnel/%u HTTP/1.1\r\nHost: cay-init\r\n"
		       "Connection: Upgrade\r\nUpgrade: " HELLO_PORT_PROTOCOL "\r\n\r\n",
		       id, port) < 0)
		return -ENOMEM;
	fd = dial_unix_connect(buf_str(&path));
	if (fd < 0)
		return fd;
	if (send(fd, request.data, request.len, MSG_NOSIGNAL | MSG_DONTWAIT) !=
	    (ssize_t)request.len)
		return -EPIPE;
	return cay_take_fd(&fd);
}

/* A tenant whose servers accept nothing must not use them all up. */
static bool peer_dials_have_room(const struct cayd *c, const struct id *tenant)
{
	unsigned all = 0, own = 0;

	for (const struct peer_dial *d = c->peer_dials; d; d = d->next) {
		all++;
		own += id_eq(&d->tenant, tenant);
	}
	return all < DIALS_MAX && own < DIALS_OF_TENANT_MAX;
}

static void peer_dial_list(struct peer_dial *d)
{
	d->at = &d->cayd->peer_dials;
	d->next = *d->at;
	*d->at = d;
	if (d->next)
		d->next->at = &d->next;
}

static int peer_dial_start(struct cayd *c, const struct egress_message *m, const struct sandbox *to,
			   uint16_t port)
{
	struct peer_dial *d =
		peer_dials_have_room(c, &to->info.tenant) ? calloc(1, sizeof(*d)) : NULL;
	int fd = d ? peer_dial_open(c, &to->info.id, port) : -ENOMEM;

	if (fd < 0 || uv_poll_init(&c->loop, &d->poll, fd) < 0) {
		cay_closep(&fd);
		free(d);
		return -ENOTCONN;
	}
	d->cayd = c;
	d->tenant = to->info.tenant;
	d->from = m->sandbox;
	d->to = to->info.id;
	d->number = m->generation;
	d->port = port;
	d->fd = fd;
	d->open = 2;
	d->poll.data = d->timer.data = d;
	peer_dial_list(d);
	http_parser_init(&d->parser, HTTP_KIND_RESPONSE);
	http_parser_allow_upgrade(&d->parser);
	http_parser_refuse_interim(&d->parser);
	(void)uv_timer_init(&c->loop, &d->timer);
	(void)uv_timer_start(&d->timer, on_peer_dial_timeout, DIAL_MS, 0);
	(void)uv_poll_start(&d->poll, UV_READABLE, on_peer_dial_readable);
	return 0;
}

void peers_receive(struct cayd *c, const struct egress_message *m, struct slice body)
{
	struct sandbox *from = sandbox_find(c->sandboxes, &m->sandbox), *to = NULL;
	enum egress_peer_outcome outcome;
	struct egress_peer asked;
	struct host_name name;
	struct slice label;

	memcpy(&asked, body.p, sizeof(asked));
	/* these questions are no requests of the tenant, and wait for no turn */
	if (from && !dial_rates_take(&c->peer_rates, &from->info.tenant, clk_boot_ns(c->clk))) {
		peer_reply(c, &m->sandbox, m->generation, EGRESS_PEER_UNREACHABLE, NULL, -EBADF);
		return;
	}
	if (from && host_name_parse(slice_of(asked.name), &name) == 0 &&
	    host_name_is_of_group(&name, &label))
		to = peer_find(from, label);
	outcome = peer_judge(to, asked.port);
	if (outcome == EGRESS_PEER_CONNECTED) /* a use, as a request is */
		sandbox_touch(to);
	if (outcome == EGRESS_PEER_CONNECTED && peer_dial_start(c, m, to, asked.port) == 0)
		return;
	if (outcome == EGRESS_PEER_CONNECTED)
		outcome = EGRESS_PEER_UNREACHABLE;
	peer_reply(c, &m->sandbox, m->generation, outcome, NULL, -EBADF);
}

/* Resetting */

struct peers_change {
	struct sandbox *sandbox;
	egress_link_fn *fn;
	void *arg;
};

static bool sandbox_may_have_peers(const struct sandbox *sb)
{
	return sb->egress && sb->info.group && sb->info.group[0] && egress_link_is_ready(sb->cayd);
}

static void on_peers_unexposed(void *arg, const struct cay_err *outcome, struct slice)
{
	struct peers_change *p = arg;

	if (outcome->code) {
		egress_policy_changed(p->sandbox, NULL, NULL);
		if (p->fn)
			p->fn(p->arg, outcome);
	} else {
		egress_policy_changed(p->sandbox, p->fn, p->arg);
	}
	sandbox_release(p->sandbox);
	free(p);
}

void peers_policy_changed(struct sandbox *sb, egress_link_fn *fn, void *arg)
{
	struct peers_change *p = sandbox_may_have_peers(sb) ? malloc(sizeof(*p)) : NULL;
	struct egress_exposed exposed;

	if (!p) {
		egress_policy_changed(sb, fn, arg);
		return;
	}
	*p = (struct peers_change){ sb, fn, arg };
	sb->holds++;
	sandbox_get_exposed(sb, &exposed);
	egress_link_ask(sb, EGRESS_MSG_EXPOSE,
			(struct slice){ (const char *)&exposed, sizeof(exposed) },
			on_peers_unexposed, p);
}

static void on_peers_cut(void *arg, const struct cay_err *, struct slice)
{
	struct sandbox *sb = arg;

	sb->peers_pending = false;
	sandbox_notify_waiters(sb);
	sandbox_release(sb);
}

void peers_forget_ended(struct sandbox *sb)
{
	static const struct egress_exposed nothing = {};
	struct egress_exposed exposed;

	if ((sb->life.state != SB_ENDING && sb->life.state != SB_STOPPING) || sb->peers_pending ||
	    !sandbox_may_have_peers(sb))
		return;
	sandbox_get_exposed(sb, &exposed);
	if (!exposed.n)
		return; /* the reply that said so came after they were reset */
	sb->peers_pending = true;
	sb->holds++;
	egress_link_ask(sb, EGRESS_MSG_EXPOSE,
			(struct slice){ (const char *)&nothing, sizeof(nothing) }, on_peers_cut,
			sb);
}
