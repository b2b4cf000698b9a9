/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/host-guard.h"

#include <stdlib.h>

#include "http/http.h"

#define SWITCHED "HTTP/1.1 101"

enum guard_state { GUARD_HTTP, GUARD_SWITCHING, GUARD_SWITCHED };

struct host_guard {
	struct host_name name;
	void (*refused)(void *arg, const char *why);
	void *arg;
	enum guard_state state;
	struct http_parser parser;
	bool in_head, asked, switches, ended; /* asked: a request has passed */
	struct buf held;                      /* of a head, or behind a request for WebSocket */
	size_t n_reply;                       /* the first bytes of the host */
	char reply[sizeof(SWITCHED) - 1];
};

static void guard_pass(struct conn *c, struct slice bytes)
{
	if (bytes.n && !c->closing)
		c->events->read(c, bytes);
}

static void guard_pass_held(struct conn *c, struct host_guard *g)
{
	struct buf held = g->held;

	g->held = BUF_INIT(CONN_READ);
	guard_pass(c, (struct slice){ held.data, held.len });
	buf_fini(&held);
}

/* "api.example.com" or "api.example.com:80". */
static const char *guard_check_head(struct host_guard *g)
{
	const struct http_head *head = &g->parser.head;
	struct slice host = http_header_find(head, "host"), left = host;
	struct slice text = slice_cut(&left, ':');
	struct host_name name;

	if (text.n != host.n && !slice_eq(left, SLICE("80")))
		return "other_port";
	if (host_name_parse(text, &name) < 0 ||
	    !host_name_eq(&g->name, (struct slice){ name.text, name.n }))
		return "other_host";
	g->switches = http_equals_nocase(head->upgrade, "websocket");
	if (g->switches && g->asked)
		return "late_upgrade";
	g->asked = true;
	return NULL;
}

static const char *guard_take_http(struct conn *c, struct host_guard *g, struct slice *in)
{
	struct cay_err err = {};
	struct slice body;
	const char *from = in->p, *why = NULL;
	int r = http_parser_next(&g->parser, in, &body, &err);
	struct slice taken = { from, (size_t)(in->p - from) };

	if (r < 0)
		return err.code == CAY_E_HEADERS ? "head_too_long" : "not_http";
	if (!g->in_head)
		guard_pass(c, taken);
	else if (buf_append(&g->held, taken.p, taken.n) < 0)
		return "no_memory";
	if (r == HTTP_HEAD_DONE) {
		why = guard_check_head(g);
		g->in_head = false;
		if (!why)
			guard_pass_held(c, g);
	} else if (r == HTTP_END) {
		if (g->switches)
			g->state = GUARD_SWITCHING;
		http_parser_reset(&g->parser);
		g->in_head = true;
	}
	return why;
}

static void guard_take(struct conn *c, struct host_guard *g, struct slice in)
{
	const char *why = NULL;

	/* a request without a body ends after its last byte */
	while (!c->closing && !why && g->state == GUARD_HTTP && (in.n || !g->in_head)) {
		size_t before = in.n;
		bool was_in_head = g->in_head;

		why = guard_take_http(c, g, &in);
		if (in.n == before && g->in_head == was_in_head)
			break;
	}
	if (!c->closing && !why && g->state == GUARD_SWITCHING &&
	    buf_append(&g->held, in.p, in.n) < 0)
		why = "too_early";
	else if (!why && g->state == GUARD_SWITCHED)
		guard_pass(c, in);
	if (why && !c->closing)
		g->refused(g->arg, why);
}

static void host_guard_input(struct conn *c, struct slice wire)
{
	struct host_guard *g = c->filter_data;

	if (wire.n) {
		guard_take(c, g, wire);
	} else if (g->state == GUARD_SWITCHING && g->held.len) {
		g->ended = true; /* told after the bytes that wait */
		conn_wire_set_reading(c, false);
	} else {
		conn_notify_end(c, NULL);
	}
}

/* The first reply decides whether the connection is HTTP from now on. */
static void guard_see_reply(struct conn *c, struct host_guard *g)
{
	struct buf held = g->held;

	if (g->state != GUARD_SWITCHING || g->n_reply < sizeof(g->reply))
		return;
	g->state = memcmp(g->reply, SWITCHED, sizeof(g->reply)) == 0 ? GUARD_SWITCHED : GUARD_HTTP;
	g->held = BUF_INIT(CONN_READ);
	guard_take(c, g, (struct slice){ held.data, held.len });
	buf_fini(&held);
	if (g->ended)
		conn_notify_end(c, NULL);
}

static int host_guard_output(struct conn *c, const uv_buf_t *v, unsigned n)
{
	struct host_guard *g = c->filter_data;
	int r = conn_wire_write(c, v, n);

	for (unsigned i = 0; i < n && g->n_reply < sizeof(g->reply); i++) {
		size_t room = sizeof(g->reply) - g->n_reply;
		size_t some = v[i].len < room ? v[i].len : room;

		memcpy(g->reply + g->n_reply, v[i].base, some);
		g->n_reply += some;
	}
	if (r >= 0)
		guard_see_reply(c, g);
	return r;
}

static void host_guard_update_reading(struct conn *c)
{
	const struct host_guard *g = c->filter_data;

	conn_wire_set_reading(c, c->want_read && !g->ended);
}

static void host_guard_close(struct conn *) {}

static void host_guard_free(struct conn *c)
{
	struct host_guard *g = c->filter_data;

	http_parser_fini(&g->parser);
	buf_fini(&g->held);
	free(g);
}

int host_guard_attach(const struct conn_layer *layer, struct conn *c)
{
	static const struct conn_filter filter = { .input = host_guard_input,
						   .output = host_guard_output,
						   .update_reading = host_guard_update_reading,
						   .shutdown = conn_wire_shutdown,
						   .close = host_guard_close,
						   .free = host_guard_free };
	const struct host_guard_layer *conf = (const struct host_guard_layer *)layer;
	struct host_guard *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	g->name = *conf->name;
	g->refused = conf->refused;
	g->arg = conf->arg;
	g->in_head = true;
	g->held = BUF_INIT(CONN_READ);
	http_parser_init(&g->parser, HTTP_KIND_REQUEST);
	c->filter = &filter;
	c->filter_data = g;
	return 0;
}
