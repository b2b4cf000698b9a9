/* SPDX-License-Identifier: Apache-2.0 */
/* flow-dial - the name of a connection becomes addresses, and one that may be dialled is */
#include <arpa/inet.h>
#include <netinet/in.h>

#include "egress/flow.h"

#define DIAL_MS 5000

void flow_leave_dial(struct flow *f)
{
	flow_proxy_leave(f);
	if (f->outside)
		conn_discard(f->outside);
	f->outside = NULL;
}

void flow_dial_next(struct flow *f)
{
	f->state = EGRESS_FLOW_CONNECTING;
	while (f->n_dials < f->to.n && f->n_dials < DIALS_MAX)
		if (flow_dial_open(f, f->to.addresses[f->n_dials++], flow_dial_port(f)) >= 0)
			return;
	flow_cut(f, "connect_failed");
}

static void flow_dial_again(struct flow *f)
{
	flow_leave_dial(f);
	if (f->proxy)
		flow_proxy_dial(f);
	else
		flow_dial_next(f);
}

static void on_flow_dial_timeout(uv_timer_t *t)
{
	flow_dial_again(t->data);
}

void flow_dial_take(struct flow *f)
{
	struct conn *outside = f->outside;

	flow_proxy_leave(f);
	f->outside = NULL;
	flow_copy(f, outside);
}

static void on_flow_dialled(struct conn *c)
{
	struct flow *f = conn_data(c);

	if (f->proxy)
		flow_proxy_ask(f);
	else
		flow_dial_take(f);
}

static void on_flow_dial_failed(struct conn *c, const struct cay_err *)
{
	flow_dial_again(conn_data(c));
}

int flow_dial_open(struct flow *f, const uint8_t *address, uint16_t port)
{
	static const struct conn_events events = { .ready = on_flow_dialled,
						   .end = on_flow_dial_failed };
	struct conn_conf conf = { .events = &events, .data = f, .out_max = 2 * CONN_READ };
	bool v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)address);
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int r;

	memcpy(&in.sin_addr, address + 12, 4);
	memcpy(&in6.sin6_addr, address, sizeof(in6.sin6_addr));
	r = conn_connect(f->sandbox->egress->room,
			 v4 ? (const struct sockaddr *)&in : (const struct sockaddr *)&in6, &conf,
			 &f->outside);
	if (r >= 0)
		(void)uv_timer_start(&f->timer, on_flow_dial_timeout, DIAL_MS, 0);
	return r;
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
	if (flow_is_to_proxy(f))
		flow_cut(f, "address_of_proxy");
	else if (!flow_log(f, "connect", f->approved ? "answered" : "allow"))
		flow_cut(f, "log_unavailable");
	else if (f->by_proxy)
		flow_proxy_start(f);
	else
		flow_dial_unless_proxy(f);
}

static void on_flow_resolved(void *arg, const struct resolved *what)
{
	struct flow *f = arg;

	if (!f->ended && !f->cut) {
		f->to = *what;
		if (what->outcome == RESOLVED)
			flow_connect(f);
		else
			flow_cut(f,
				 what->outcome == RESOLVE_FAILED ? "resolve_failed" : "no_address");
	}
	flow_release(f);
}

void flow_resolve(struct flow *f)
{
	f->by_proxy = flow_goes_through_proxy(f);
	if (f->name.n && egress_leaves_name_to_proxy(f->sandbox->egress, &f->name)) {
		f->to.n = 0;
		flow_connect(f);
		return;
	}
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
