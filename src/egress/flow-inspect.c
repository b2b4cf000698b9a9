/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/flow.h"
#include "egress/request-head.h"

/* Requests are read from here on; the host is dialled when one is allowed. */
static void on_flow_inspection_dial(void *arg)
{
	struct flow *f = arg;
	struct egress_sandbox *sb = f->sandbox;

	/* the first counted when it was accepted */
	if (f->dialled && !egress_sandbox_pace_flow(sb)) {
		flow_cut(f, "too_many");
		return;
	}
	f->dialled = true;
	f->to = (struct resolved){};
	f->n_dials = 0;
	flow_resolve(f);
}

static void on_flow_request_denied(void *arg, const struct http_head *head,
				   const struct egress_verdict *by, const char *why)
{
	struct flow *f = arg;
	char text[REQUEST_TEXT_MAX];

	f->verdict = *by;
	request_describe(head, text);
	flow_log_denied_request(f, why, text);
	if (!f->n_dials)
		egress_sandbox_count_refusal(f->sandbox, why);
}

void on_flow_refused(void *arg, const char *why)
{
	flow_cut(arg, why);
}

void flow_inspect(struct flow *f)
{
	struct inspection_conf conf = { .sandbox = f->sandbox,
					.name = &f->name,
					.port = f->port,
					.approved = f->approved,
					.dial = on_flow_inspection_dial,
					.denied = on_flow_request_denied,
					.failed = on_flow_refused,
					.done = on_flow_copied,
					.arg = f };
	struct conn *inside = f->inside;

	if (f->port != FLOW_HTTPS_PORT && f->port != FLOW_HTTP_PORT) {
		flow_cut(f, "cannot_inspect");
		return;
	}
	(void)uv_timer_stop(&f->timer);
	f->inspection = inspection_new(&conf);
	if (!f->inspection) {
		flow_cut(f, "no_memory");
		return;
	}
	socket_reset_on_close(conn_fd(inside)); /* until the program has all that it gets */
	f->inside = NULL; /* the inspection's, with the hold of the connection */
	inspection_start(f->inspection, inside, (struct slice){ f->hello.data, f->hello.len });
}

void flow_move_again(struct flow *f)
{
	if (f->tunnel)
		tunnel_go_on(f->tunnel);
	else if (f->inspection)
		inspection_move_again(f->inspection);
}
