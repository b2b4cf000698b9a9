/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/key.h"
#include "edge/edge.h"
#include "net/ws.h"

#define CONTROL_MAX 1024
#define INSIDE_MAX 256
#define ORIGIN_MAX KIB(2)
#define BEARER "Bearer "
#define PROOF_MAX (sizeof(BEARER) - 1 + KEY_TEXT_LEN)

struct routed_request {
	struct live_request live;
	struct forward_handle hold;
	struct edge_attach *attach;            /* instead of hold, once it is a WebSocket */
	struct control_state_sandbox *sandbox; /* NULL: control */
	unsigned slot;                         /* of control_requests */
};

static void routed_request_end(struct live_request *g, const struct cay_err *why)
{
	struct routed_request *a = (struct routed_request *)g;

	if (a->attach)
		edge_attach_terminate(a->attach, why);
	else
		forward_cancel(&a->hold, why);
}

static void on_routed_request_done(void *arg)
{
	struct routed_request *a = arg;
	struct edge *e = a->live.edge;

	live_request_remove(&a->live);
	if (a->sandbox)
		control_state_leave_sandbox(e->control_state, a->sandbox);
	else
		e->control_requests[a->slot]--;
	free(a);
}

static struct routed_request *routed_request_new(struct edge *e, struct request *rq,
						 struct control_state_sandbox *s)
{
	const struct id *t = &rq->actor.tenant;
	struct routed_request *a = malloc(sizeof(*a));

	if (!a)
		return NULL;
	*a = (struct routed_request){
		.sandbox = s,
		.slot = (unsigned)(t->bits[14] | t->bits[13] << 8) % RATE_BUCKETS,
	};
	if (s)
		control_feed_enter_sandbox(e, s);
	else
		e->control_requests[a->slot]++;
	live_request_add(e, &a->live, rq, s, routed_request_end);
	return a;
}

static void route_refuse_for_now(struct request *rq, enum cay_code code, const char *why)
{
	(void)request_add_reply_header(rq, "Retry-After", "1");
	request_refuse(rq, code, why);
}

bool route_check_sandbox(struct edge *e, struct request *rq, const struct control_state_sandbox *s,
			 unsigned most)
{
	bool asleep = s->dozes && !control_feed_is_serving(e);

	if (asleep)
		route_refuse_for_now(rq, CAY_E_UNAVAILABLE,
				     "control does not respond, and the sandbox dozes");
	else if (!control_state_takes_requests(s))
		request_refuse(rq, CAY_E_STATE, "the sandbox is not running");
	else if (s->n_requests >= most)
		route_refuse_for_now(rq, CAY_E_RATE,
				     "too many requests to this sandbox are in progress");
	return !asleep && control_state_takes_requests(s) && s->n_requests < most;
}

/* Untrusted bytes on the API's origin: a browser must save them as a file and never run them. */
static int route_add_download_headers(struct request *rq)
{
	static const struct relay_header guards[] = {
		{ "Content-Disposition", "attachment" },
		{ "X-Content-Type-Options", "nosniff" },
		{ "Content-Security-Policy", "sandbox; default-src 'none'" },
		{ "Referrer-Policy", "no-referrer" },
		{ "Cache-Control", "no-store" },
	};

	if (!(rq->match.op->flags & OP_DOWNLOAD))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(guards); i++)
		if (request_add_reply_header(rq, guards[i].name, guards[i].value) < 0)
			return -ENOBUFS;
	return 0;
}

static void route_to_control(struct edge *e, struct request *rq)
{
	auto_buf origin = BUF_INIT(ORIGIN_MAX);
	char actor[ACTOR_TEXT_MAX + 1], proof[PROOF_MAX + 1] = "";
	struct relay_header told[3] = { { "Cay-Actor", actor } };
	struct relay_conf conf = { .upstream = e->control, .headers = told, .n_headers = 1 };
	struct routed_request *a;
	struct cay_err err = {};
	struct slice key, host = http_header_find(rq->head, "host");

	/* clients that wait now would retry and double the load */
	if (control_feed_is_hung(e)) {
		route_refuse_for_now(rq, CAY_E_UNAVAILABLE, "control does not respond");
		return;
	}
	a = routed_request_new(e, rq, NULL);
	if (!a) {
		request_no_memory(rq);
		return;
	}
	/* a client that follows events holds a connection to control for as long as it likes,
	 * so the requests of one tenant are limited */
	if (e->control_requests[a->slot] > CONTROL_MAX) {
		on_routed_request_done(a);
		route_refuse_for_now(rq, CAY_E_RATE,
				     "too many requests of this tenant are in progress");
		return;
	}
	/* control verifies keys itself */
	if (a->live.credential.kind == CREDENTIAL_KEY &&
	    credential_find_bearer(rq->head, &key, &err) >= 0 && key.n == KEY_TEXT_LEN) {
		memcpy(proof, BEARER, sizeof(BEARER) - 1);
		memcpy(proof + sizeof(BEARER) - 1, key.p, key.n);
		told[conf.n_headers++] = (struct relay_header){ "Authorization", proof };
	}
	/* the URL the client used; its Host is checked (admission_host_is_ours()) */
	if ((rq->match.op == &ops[OP_TREE_LINK] || rq->match.op == &ops[OP_EXPORT_CREATE]) &&
	    buf_printf(&origin, "%s://%.*s", e->tls ? "https" : "http", (int)host.n, host.p) >= 0)
		told[conf.n_headers++] = (struct relay_header){ "Cay-Origin", origin.data };
	conf.handle = &a->hold;
	conf.done = on_routed_request_done;
	conf.arg = a;
	actor_format(&rq->actor, actor);
	conf.head_timeout_ms = op_deadline_ms(rq->match.op, request_is_streamed(rq));
	/* without a handshake, control reports the state of the sandbox */
	if (route_add_download_headers(rq) < 0) {
		on_routed_request_done(a);
		request_no_memory(rq);
	} else if (rq->match.op->reply != REPLY_SOCKET ||
		   edge_attach_start(e, rq, &conf, &a->attach, &err) < 0) {
		relay_start(rq, &conf);
	}
	explicit_bzero(proof, sizeof(proof));
}

static void route_refuse_not_websocket(struct request *rq, const struct cay_err *err)
{
	if (err->code == CAY_E_UPGRADE) {
		(void)request_add_reply_header(rq, "Upgrade", "websocket");
		(void)request_add_reply_header(rq, "Sec-WebSocket-Version", WS_VERSION);
	}
	request_fail(rq, err);
}

/* target: NULL, or instead of the request's. */
static void route_to_sandbox(struct edge *e, struct request *rq, struct control_state_sandbox *s,
			     const char *target)
{
	auto_buf path = BUF_INIT(128);
	struct relay_conf conf = { .head_timeout_ms =
					   op_deadline_ms(rq->match.op, request_is_streamed(rq)),
				   .target = target,
				   .done = on_routed_request_done };
	struct routed_request *v;
	char name[ID_TEXT_LEN + 1];
	struct cay_err err = {};

	id_format(&s->id, name);
	v = buf_printf(&path, "%s/box/%s", e->settings.run_dir, name) < 0
		    ? NULL
		    : routed_request_new(e, rq, s);
	if (!v) {
		request_no_memory(rq);
		return;
	}
	conf.path = path.data;
	conf.handle = &v->hold;
	conf.arg = v;
	conf.upgrade =
		rq->match.op == &ops[OP_PORT_CONNECT] || rq->match.op == &ops[OP_BROWSER_CDP];
	if (route_add_download_headers(rq) < 0) {
		on_routed_request_done(v);
		request_no_memory(rq);
	} else if (rq->match.op->reply != REPLY_SOCKET || conf.upgrade) {
		relay_start(rq, &conf);
	} else if (edge_attach_start(e, rq, &conf, &v->attach, &err) < 0) {
		on_routed_request_done(v);
		route_refuse_not_websocket(rq, &err);
	}
}

/* One that is not found, control looks for: it may be new, or have ended. */
void route_resolve_name(struct edge *e, struct request *rq)
{
	const struct control_state_sandbox *s;
	uint8_t tag[KEY_NAME_TAG_LEN];

	if (!rq->match.sandbox_segment.n)
		return;
	key_name_tag(rq->match.sandbox_name, tag);
	s = control_state_find_named(e->control_state, &rq->actor.tenant, tag);
	if (s)
		op_match_resolve(&rq->match, &s->id);
}

bool route_actor_has_sandbox(const struct actor *a, const struct control_state_sandbox *s)
{
	uint8_t tag[KEY_NAME_TAG_LEN];

	static_assert(sizeof(tag) == sizeof(s->group_tag));
	if (!id_eq(&s->tenant, &a->tenant))
		return false;
	key_name_tag(a->group, tag);
	return !a->group[0] || memcmp(tag, s->group_tag, sizeof(tag)) == 0;
}

/* Load balancers remove a node that does not answer, so nothing is asked of control here. */
static void route_answer_health(struct edge *e, struct request *rq)
{
	static const struct health healthy = {};

	rq->mark = true;
	if (control_feed_is_serving(e))
		request_reply_json(rq, &health_table, &healthy);
	else
		route_refuse_for_now(rq, CAY_E_UNAVAILABLE, "control does not respond");
}

void route_request(struct request *rq, void *arg)
{
	struct edge *e = arg;
	const struct credential *by = rq->data;
	struct control_state_sandbox *s;

	if (rq->match.op == &ops[OP_SYSTEM_HEALTH] && by->kind == CREDENTIAL_NONE) {
		route_answer_health(e, rq);
		return;
	}
	if (rq->match.op->where != WHERE_INSIDE) {
		route_to_control(e, rq);
		return;
	}
	s = control_state_find_sandbox(e->control_state, &rq->match.params[0]);
	/* what was pushed may be old, and control may know that the sandbox runs; it reports a
	 * foreign one as absent, and it knows who is to blame for an end */
	if (!s || !control_state_takes_requests(s) || !route_actor_has_sandbox(&rq->actor, s))
		route_to_control(e, rq);
	else if (route_check_sandbox(e, rq, s, INSIDE_MAX))
		route_to_sandbox(e, rq, s, NULL);
}

void route_to_screen(struct edge *e, struct request *rq, struct control_state_sandbox *s)
{
	auto_buf target = BUF_INIT(128);
	char name[ID_TEXT_LEN + 1];

	id_format(&s->id, name);
	if (buf_printf(&target, "/v1/sandboxes/%s/screen/vnc", name) < 0)
		request_no_memory(rq);
	else
		route_to_sandbox(e, rq, s, buf_str(&target));
}

/* The same reply as for a path without an operation, for any method and caller. */
static void route_refuse_not_found(struct request *rq, void *arg)
{
	struct cay_err err = {};
	struct op_match match;
	unsigned allow = 0;

	(void)arg;
	(void)op_find(rq->head->method, SLICE("/-"), &match, &allow, &err);
	request_fail(rq, &err);
}

static request_fn *route_find_closed_page(const struct edge *e, const struct request *rq)
{
	struct slice query = rq->head->target, path = slice_cut(&query, '?');

	for (unsigned i = 0; !e->settings.edge_pages && i < OP_NUM; i++)
		if (ops[i].flags & OP_PAGE && op_has_path(&ops[i], path))
			return route_refuse_not_found;
	return NULL;
}

/* A person who opens the address in a browser. */
static void route_redirect_to_docs(struct request *rq, void *arg)
{
	const struct edge *e = arg;

	if (!admission_host_is_ours(e, http_header_find(rq->head, "host")))
		route_refuse_not_found(rq, arg);
	else if (request_add_reply_header(rq, "Location", "/docs") < 0)
		request_no_memory(rq);
	else
		request_reply(rq, 303, NULL, NULL);
}

static bool route_is_front_page(const struct edge *e, const struct http_head *h)
{
	return e->settings.edge_pages && slice_eq(h->target, SLICE("/")) &&
	       (slice_eq(h->method, SLICE("GET")) || slice_eq(h->method, SLICE("HEAD")));
}

/* Previews first: on their hosts every path belongs to a sandbox. */
request_fn *route_find_special_handler(struct request *rq, void *arg)
{
	request_fn *fn = edge_preview_find_handler(rq, arg);

	if (!fn)
		fn = mcp_forward_find_handler(rq, arg);
	if (!fn)
		fn = e2b_forward_find_handler(rq, arg);
	if (!fn)
		fn = opensandbox_forward_find_handler(rq, arg);
	if (!fn && route_is_front_page(arg, rq->head))
		fn = route_redirect_to_docs;
	return fn ? fn : route_find_closed_page(arg, rq);
}
