/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flow - a connection of a sandbox
 *
 *	accepted -> judged -> (the policy asks: an answer allows it)
 *	                      (port 443: the name in its TLS hello is the name it dialled)
 *	                      (port 80: so is the Host of each request, host-guard.h)
 *	                      (to another sandbox of the group: cayd connects, flow-peer.c)
 *	         -> resolved -> each address may be dialled -> logged -> dialled -> copied
 *
 * It is judged by the name whose address it dialled, and connected to that name: nothing that it
 * sends has an influence.  A refused connection is reset, so that a program inside fails at once.
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "egress/client-hello.h"
#include "egress/flow.h"
#include "egress/host-guard.h"

#define HELLO_MS 10000
#define IDLE_MS 900000    /* without a byte */
#define ASK_BYTES KIB(16) /* of one that waits for an answer; then nothing more is read */

struct flow *flow_next(const struct flow *f)
{
	return f->next;
}

void flow_get_moved(const struct flow *f, uint64_t *ret_up, uint64_t *ret_down)
{
	*ret_up = *ret_down = 0;
	if (f->tunnel)
		tunnel_get_moved(f->tunnel, ret_up, ret_down);
	else if (f->inspection)
		inspection_get_moved(f->inspection, ret_up, ret_down);
}

struct tunnel *flow_get_tunnel(const struct flow *f)
{
	return f->tunnel;
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
	if (f->n_dials && f->to.n)
		memcpy(ret->address, f->to.addresses[f->n_dials - 1], sizeof(ret->address));
	else if (!f->name.n)
		address_from_v4(f->address, ret->address);
	flow_get_moved(f, &ret->up, &ret->down);
	return true;
}

void flow_release(struct flow *f)
{
	struct egress_sandbox *sb = f->sandbox;

	if (--f->holds)
		return;
	buf_fini(&f->hello);
	flow_proxy_free(f);
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

const struct name_mirror *flow_mirror(const struct flow *f)
{
	return f->name.n ? name_map_find(&f->sandbox->egress->map, &f->name) : NULL;
}

uint16_t flow_dial_port(const struct flow *f)
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
			      .by_proxy = f->by_proxy,
			      .verdict = f->verdict };

	if (f->n_dials && f->to.n)
		d.dialled = f->to.addresses[f->n_dials - 1];
	flow_get_moved(f, &d.up, &d.down);
	return d;
}

bool flow_log(const struct flow *f, const char *op, const char *outcome)
{
	char room[ADDRESS_TEXT_MAX];
	struct decision d = flow_decision(f, op, outcome, room);

	return decision_log_add(f->sandbox->egress, &d);
}

void flow_log_denied_request(const struct flow *f, const char *why, const char *request)
{
	char room[ADDRESS_TEXT_MAX];
	struct decision d = flow_decision(f, "cut", why, room);

	d.request = request;
	decision_log_add_denial(f->sandbox, &d);
}

void flow_log_denial(const struct flow *f, const char *why)
{
	flow_log_denied_request(f, why, NULL);
}

void socket_reset_on_close(int fd)
{
	struct linger l = { .l_onoff = 1 };

	if (fd >= 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
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

static void flow_stop_asking(struct flow *f, enum egress_ask_event why)
{
	if (f->state != EGRESS_FLOW_ASKING)
		return;
	f->state = EGRESS_FLOW_CHECKING;
	f->sandbox->n_asking--;
	(void)flow_tell(f, why);
}

void flow_cut(struct flow *f, const char *why)
{
	if (f->ended || f->cut)
		return;
	flow_stop_asking(f, EGRESS_ASK_LEFT);
	f->cut = true;
	flow_log_denial(f, why);
	if (!f->tunnel)
		egress_sandbox_count_refusal(f->sandbox, why);
	if (f->tunnel) {
		tunnel_reset(f->tunnel); /* its done() ends the flow */
		return;
	}
	if (f->inspection) {
		flow_leave_dial(f);
		(void)uv_timer_stop(&f->timer);
		inspection_refuse(f->inspection, why); /* so does this */
		return;
	}
	if (f->inside) {
		socket_reset_on_close(conn_fd(f->inside));
		conn_close(f->inside);
	}
	flow_end(f);
}

static struct slice egress_sandbox_policy(const struct egress_sandbox *sb)
{
	return (struct slice){ sb->policy.data, sb->policy.len };
}

static struct flow_facts flow_get_facts(const struct flow *f)
{
	const bool asking = f->state == EGRESS_FLOW_ASKING;

	return (struct flow_facts){ .name = f->name.n ? &f->name : NULL,
				    .address = f->address,
				    .port = f->port,
				    .asking = asking,
				    .approved = f->approved,
				    .saying = f->port == FLOW_HTTPS_PORT &&
					      f->state == EGRESS_FLOW_CHECKING,
				    .guarded = f->guarded,
				    .inspected = f->inspection,
				    .hides_name = f->hides_name };
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

void on_flow_copied(void *arg)
{
	struct flow *f = arg;
	uint64_t up, down;

	flow_get_moved(f, &up, &down);
	f->sandbox->count.ended.up += up;
	f->sandbox->count.ended.down += down;
	(void)flow_log(f, "closed", "closed");
	f->tunnel = NULL;
	f->inspection = NULL;
	flow_end(f);
	flow_release(f);
}

void flow_copy(struct flow *f, struct conn *outside)
{
	struct egress *e = f->sandbox->egress;
	struct conn *inside = f->inside;
	struct tunnel *t;

	if (f->inspection) {
		(void)uv_timer_stop(&f->timer);
		f->state = EGRESS_FLOW_OPEN;
		f->sandbox->count.ended.connected++;
		inspection_set_host(f->inspection, outside);
		return;
	}
	t = tunnel_new(&e->loop, on_flow_copied, f);
	if (!t) {
		conn_discard(outside);
		flow_cut(f, "no_memory");
		return;
	}
	f->tunnel = t;
	f->state = EGRESS_FLOW_OPEN;
	f->sandbox->count.ended.connected++;
	egress_sandbox_meter_tunnel(f->sandbox, t);
	if (e->may_splice && !conn_is_filtered(inside) && !flow_is_to_peer(f))
		tunnel_allow_splice(t);
	f->inside = NULL; /* the tunnel's, with the hold of the connection */
	(void)uv_timer_start(&f->timer, on_flow_idle_timer, IDLE_MS, IDLE_MS);
	tunnel_start(t, inside, (struct slice){ f->hello.data, f->hello.len }, outside,
		     (struct slice){});
	buf_fini(&f->hello);
	f->hello = BUF_INIT(0);
}

static void flow_go_on(struct flow *f)
{
	if (flow_is_to_peer(f))
		flow_peer_ask(f);
	else if (f->verdict.inspect)
		flow_inspect(f);
	else
		flow_resolve(f);
}

/* The name a TLS client asks for must be the one it dialled.  A hello that may hide another (ECH)
 * is refused, unless every name is allowed. */
static void flow_check_hello(struct flow *f)
{
	struct client_hello hello;
	enum client_hello_result r;

	r = client_hello_read((const uint8_t *)f->hello.data, f->hello.len, &hello);
	if (r == CLIENT_HELLO_MORE)
		return;
	conn_set_reading(f->inside, false);
	if (r != CLIENT_HELLO_DONE)
		flow_cut(f, r == CLIENT_HELLO_NOT_TLS ? "not_tls" : "hello_malformed");
	else if ((f->hides_name = hello.has_ech) &&
		 !egress_sandbox_may_hide_names(f->sandbox, f->port))
		flow_cut(f, "name_is_hidden");
	else if (hello.sni != CLIENT_HELLO_SNI_PRESENT)
		flow_cut(f, "no_name");
	else if (!host_name_eq(&f->name, (struct slice){ hello.name.text, hello.name.n }))
		flow_cut(f, "other_name");
	else
		flow_go_on(f);
}

static void on_flow_inside_read(struct conn *c, struct slice bytes)
{
	struct flow *f = conn_data(c);

	if (buf_append(&f->hello, bytes.p, bytes.n) < 0) {
		flow_cut(f, "hello_too_long");
	} else if (f->state != EGRESS_FLOW_ASKING) {
		flow_check_hello(f);
	} else {
		if (f->hello.len >= ASK_BYTES)
			conn_set_reading(c, false);
		if (f->kind == EGRESS_KIND_NONE) {
			f->kind = ask_kind_of(f->hello.data[0]);
			(void)flow_tell(f, EGRESS_ASK_BYTES);
		}
	}
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

static const struct conn_events flow_inside_events = { .read = on_flow_inside_read,
						       .end = on_flow_inside_end,
						       .closed = on_flow_inside_closed };

static bool flow_is_to_host(const struct flow *f)
{
	return f->name.n && flow_is_outside(&f->name);
}

/* It is allowed. */
static void flow_pass(struct flow *f)
{
	flow_stop_asking(f, EGRESS_ASK_LEFT);
	if (flow_is_to_host(f) && f->port == FLOW_HTTPS_PORT) {
		(void)uv_timer_start(&f->timer, on_flow_hello_timeout, HELLO_MS, 0);
		conn_set_reading(f->inside, true);
		if (f->hello.len)
			flow_check_hello(f);
	} else {
		conn_set_reading(f->inside, false);
		flow_go_on(f);
	}
}

static void on_flow_ask_timeout(uv_timer_t *t)
{
	struct flow *f = t->data;

	flow_stop_asking(f, EGRESS_ASK_EXPIRED);
	flow_cut(f, "not_answered");
}

/* Its first bytes are read while it waits: they tell its protocol, and an end is seen. */
static void flow_ask(struct flow *f)
{
	const bool room = f->sandbox->n_asking < EGRESS_ASKS_MAX;

	if (!flow_tell(f, room ? EGRESS_ASK_BEGAN : EGRESS_ASK_REFUSED)) {
		flow_cut(f, "nobody_to_ask");
		return;
	}
	if (!room) {
		flow_cut(f, "too_many_ask");
		return;
	}
	f->state = EGRESS_FLOW_ASKING;
	f->sandbox->n_asking++;
	(void)uv_timer_start(&f->timer, on_flow_ask_timeout,
			     egress_policy_ask_ms(egress_sandbox_policy(f->sandbox)), 0);
	conn_set_reading(f->inside, true);
}

void flow_answer(struct flow *f, enum egress_answer_verdict verdict)
{
	const struct flow_facts facts = flow_get_facts(f);
	const struct flow_judgement j = flow_judge_answered(egress_sandbox_policy(f->sandbox),
							    &facts, verdict == EGRESS_ANSWER_ALLOW);

	f->verdict = j.verdict;
	if (j.next == FLOW_CUT) {
		flow_cut(f, verdict == EGRESS_ANSWER_NOBODY ? "nobody_to_ask" : j.why);
	} else {
		f->approved = true;
		flow_pass(f);
	}
}

static void flow_apply_policy(struct flow *f)
{
	const struct flow_facts facts = flow_get_facts(f);
	const struct flow_judgement j = flow_judge_again(egress_sandbox_policy(f->sandbox), &facts);

	f->verdict = j.verdict;
	if (j.next == FLOW_CUT)
		flow_cut(f, j.why);
	else if (j.next == FLOW_PASSES)
		flow_pass(f);
	else if (f->inspection && !inspection_is_allowed(f->inspection, &f->verdict))
		flow_cut(f, "request_denied");
}

void egress_sandbox_judge_flows(struct egress_sandbox *sb)
{
	for (struct flow *f = sb->flows, *next; f; f = next) {
		next = f->next;
		flow_apply_policy(f);
	}
}

/* Which name it dialled; false: it dialled an address that no name has. */
static bool flow_find_name(struct flow *f)
{
	const struct egress *e = f->sandbox->egress;

	if ((f->address ^ e->synthetic_net) >> (32 - e->synthetic_prefix))
		return true;
	return name_table_find_address(&f->sandbox->names, f->address, &f->name);
}

static void flow_begin(struct flow *f, int fd)
{
	struct egress *e = f->sandbox->egress;
	const bool has_target = f->address != STEER_SERVICE && flow_find_name(f);
	const struct flow_facts facts = flow_get_facts(f);
	const struct flow_judgement j =
		has_target ? flow_judge_first(egress_sandbox_policy(f->sandbox), &facts)
			   : (struct flow_judgement){ FLOW_CUT,
						      "no_such_host",
						      { .action = EGRESS_DENY, .rule = -1 } };
	struct host_guard_layer guard = { { host_guard_attach }, &f->name, on_flow_refused, f };
	struct conn_conf conf = { .events = &flow_inside_events,
				  .data = f,
				  .out_max = 2 * CONN_READ };

	f->verdict = j.verdict;
	f->guarded = flow_is_to_guard(&facts, &j.verdict);
	if (f->guarded)
		conf.layer = &guard.layer;
	if (conn_open_fd(e->room, fd, AF_INET, &conf, &f->inside) < 0) {
		f->inside = NULL;
		flow_cut(f, "no_memory");
		return;
	}
	f->holds++;
	if (j.next == FLOW_CUT)
		flow_cut(f, j.why);
	else if (j.next == FLOW_ASKS)
		flow_ask(f);
	else
		flow_pass(f);
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

bool flow_start(struct egress_sandbox *sb, const struct sockaddr_in *dialled, int *fd)
{
	struct flow *f = flow_new(sb, dialled);

	if (f)
		flow_begin(f, cay_take_fd(fd));
	return f;
}
