/* SPDX-License-Identifier: Apache-2.0 */
#include "net/server-internal.h"
#include "wire/frame.h"

static int request_find_route(struct server_conn *c, unsigned *allow, struct cay_err *err)
{
	const struct server_conf *conf = c->conf;
	const struct http_head *h = c->rq.head;
	struct slice query = h->target;
	struct slice path = slice_cut(&query, '?');

	for (size_t i = 0; i < conf->n_routes; i++) {
		const struct server_route *r = &conf->routes[i];

		if (!slice_eq(path, slice_of(r->path)))
			continue;
		if (slice_eq(h->method, slice_of(op_method_name(r->method)))) {
			c->route = r;
			c->rq.match.query = query;
			return 0;
		}
		*allow |= 1u << r->method;
		return cay_fail(err, CAY_E_METHOD, "this path only supports %s",
				op_method_name(r->method));
	}
	return op_find(h->method, h->target, &c->rq.match, allow, err);
}

static int request_decode_query(struct server_conn *c, const struct field_table *t,
				struct cay_err *err)
{
	struct slice q = c->rq.match.query;
	void *to;
	int r;

	if (!t)
		return q.n ? cay_fail(err, CAY_E_INVALID, "this operation takes no query") : 0;
	to = arena_alloc(&c->rq.arena, 1, t->size);
	if (!to)
		return cay_no_memory(err);
	r = field_decode_query(t, q, &c->rq.arena, to, err);
	c->rq.query = to;
	return r;
}

static bool media_type_is_multipart(struct slice media)
{
	static const char form[] = "multipart/";

	return media.n >= sizeof(form) - 1 && strncasecmp(media.p, form, sizeof(form) - 1) == 0;
}

static int request_check_body(struct server_conn *c, enum op_body kind, struct cay_err *err)
{
	const struct http_head *h = c->rq.head;
	struct slice media = http_header_find(h, "content-type");

	if (h->framing == HTTP_LENGTH && h->length > c->body_max && kind != BODY_NONE)
		return cay_fail(err, CAY_E_TOO_LARGE, "body of %llu bytes; the limit is %zu",
				(unsigned long long)h->length, c->body_max);
	if (kind == BODY_NONE && h->framing != HTTP_EMPTY)
		return cay_fail(err, CAY_E_INVALID, "this operation takes no body");
	if (kind == BODY_JSON &&
	    !http_equals_nocase(slice_trim(slice_cut(&media, ';')), "application/json"))
		return cay_fail(err, CAY_E_MEDIA_TYPE, "the body must be application/json");
	/* the parts and their headers would become the content */
	if (kind == BODY_RAW && media_type_is_multipart(media)) {
		(void)cay_fail(err, CAY_E_MEDIA_TYPE,
			       "the body must be the content itself, not a form");
		cay_err_hint(err, "send the bytes as the body, with Content-Type "
				  "application/octet-stream");
		return -EMEDIUMTYPE;
	}
	return 0;
}

/* False: the connection is lost. */
static bool request_send_continue(struct server_conn *c)
{
	char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
	uv_buf_t b = uv_buf_init(text, sizeof(text) - 1);

	if (!c->rq.head->expect || c->complete || conn_write(c->conn, &b, 1) >= 0)
		return true;
	server_conn_close(c);
	return false;
}

static bool request_try_special_handler(struct server_conn *c)
{
	request_fn *fn = c->conf->find_special ? c->conf->find_special(&c->rq, c->conf->arg) : NULL;

	if (!fn)
		return false;
	c->is_special = c->raw = c->in_handler = true;
	c->body_max = SIZE_MAX;
	if (request_send_continue(c))
		fn(&c->rq, c->conf->arg);
	return true;
}

void server_conn_call_handler(struct server_conn *c)
{
	const struct server_conf *conf = c->conf;
	request_fn *fn = c->route ? c->route->handler : conf->handler;

	if (c->raw && c->rq.match.op && c->rq.match.op->where == WHERE_INSIDE &&
	    conf->sandbox_handler)
		fn = conf->sandbox_handler;
	c->in_handler = true;
	fn(&c->rq, conf->arg);
}

/* An anonymous caller has no tenant; the reply to a balancer must not depend on other strangers. */
static bool request_is_counted(const struct request *rq)
{
	return rq->actor.scope != SCOPE_PUBLIC || (rq->match.op && rq->match.op->flags & OP_PAGE);
}

static int request_admit_charged(struct server_conn *c, struct cay_err *err)
{
	/* operators do not wait for the tenant they act for */
	static const struct id operators = { .bits = { 1 } };
	int r = c->conf->admit ? c->conf->admit(&c->rq, c->conf->arg, err) : 0;

	if (r < 0 || !request_is_counted(&c->rq))
		return r;
	r = request_charge_tenant(
		&c->rq, c->rq.actor.scope == SCOPE_OPERATOR ? &operators : &c->rq.actor.tenant, 0,
		err);
	if (r < 0)
		(void)request_add_reply_header(&c->rq, "Retry-After", "1");
	return r;
}

void server_conn_begin_request(struct server_conn *c)
{
	const struct http_head *h = &c->http.head;
	const struct op *op;
	struct cay_err err = {};
	enum op_body kind;
	unsigned allow = 0;
	bool relayed;
	int r;

	c->live = true;
	c->complete = h->framing == HTTP_EMPTY;
	c->last_request = !h->keep_alive || c->server->draining;
	c->bodiless = slice_eq(h->method, SLICE("HEAD"));
	c->body_received = 0;
	c->rq = (struct request){ .head = h,
				  .begun_ns = uv_hrtime(),
				  .arena = ARENA_INIT(SERVER_POOL_MAX) };
	server_conn_set_request_id(c);
	if (request_try_special_handler(c))
		return;
	r = request_find_route(c, &allow, &err);
	if (r < 0) {
		server_conn_reply_error(c, &err, allow);
		return;
	}
	if (request_admit_charged(c, &err) < 0) {
		server_conn_refuse(c, &err);
		return;
	}
	op = c->rq.match.op;
	kind = op ? op->body : c->route->request ? BODY_JSON : BODY_NONE;
	relayed = op && (c->conf->raw || (op->where == WHERE_INSIDE && c->conf->sandbox_handler));
	c->raw = kind == BODY_RAW || relayed;
	c->body_max = op ? op->body_max : c->route->body_max;
	c->body = BUF_INIT(c->raw ? 0 : c->body_max);
	r = request_check_body(c, kind, &err);
	if (r >= 0)
		r = request_decode_query(c, op ? op->query : NULL, &err);
	if (r < 0) {
		server_conn_reply_error(c, &err, 0);
		return;
	}
	if (request_send_continue(c) && c->raw)
		server_conn_take_turn(c);
}

/* The handler gets `gone`; the reply is ours again. */
static void request_reclaim_from_handler(struct server_conn *c)
{
	if (c->in_handler && c->rq.events && c->rq.events->gone)
		c->rq.events->gone(&c->rq);
	c->in_handler = false;
}

void server_conn_free_body(struct server_conn *c)
{
	buf_fini(&c->body);
	c->server->bodies -= c->body_counted;
	c->body_counted = 0;
}

void request_free_body(struct request *rq)
{
	arena_fini(&rq->arena);
	rq->arena = ARENA_INIT(SERVER_POOL_MAX);
	rq->query = NULL;
	rq->body = NULL;
}

/* Short bodies are bounded by the number of connections. */
static int server_conn_gather_body(struct server_conn *c, struct slice bytes, struct cay_err *err)
{
	size_t len = c->body.len + bytes.n, max = c->conf->bodies_max;

	if (max && len > SERVER_BODY_SMALL) {
		if (c->server->bodies - c->body_counted + len > max) {
			(void)request_add_reply_header(&c->rq, "Retry-After", "1");
			return cay_fail(err, CAY_E_RATE,
					"too many large requests are being received");
		}
		c->server->bodies += len - c->body_counted;
		c->body_counted = len;
	}
	return buf_append(&c->body, bytes.p, bytes.n) < 0 ? cay_no_memory(err) : 0;
}

void server_conn_add_body(struct server_conn *c, struct slice bytes)
{
	struct cay_err err = {};

	c->body_received += bytes.n;
	if (c->reply_finished)
		return; /* answered already; discard the rest */
	if (c->body_received > c->body_max) {
		(void)cay_fail(&err, CAY_E_TOO_LARGE, "body of more than %zu bytes", c->body_max);
		if (c->reply_begun) {
			server_conn_close(c);
		} else {
			request_reclaim_from_handler(c);
			server_conn_reply_error(c, &err, 0);
		}
	} else if (c->raw) {
		if (c->rq.events && c->rq.events->body)
			c->rq.events->body(&c->rq, bytes);
	} else if (server_conn_gather_body(c, bytes, &err) < 0) {
		server_conn_free_body(c);
		server_conn_reply_error(c, &err, 0);
	}
}

static int request_decode_body(struct server_conn *c, struct cay_err *err)
{
	const struct field_table *t = c->route ? c->route->request : c->rq.match.op->request;
	struct json_limits limits = json_control_limits;
	void *to;
	int r;

	if (!t)
		return 0;
	/* an admitted body must fit */
	if (c->body_max > SERVER_POOL_MAX / 2)
		c->rq.arena.left += 2 * c->body_max;
	to = arena_alloc(&c->rq.arena, 1, t->size);
	if (!to)
		return cay_no_memory(err);
	if (limits.bytes < c->body_max)
		limits.bytes = c->body_max;
	r = field_decode_text(t, (struct slice){ buf_str(&c->body), c->body.len }, &limits,
			      &c->rq.arena, to, err);
	server_conn_free_body(c);
	c->rq.body = to;
	return r;
}

void server_conn_finish_body(struct server_conn *c)
{
	struct cay_err err = {};

	c->complete = true;
	server_conn_set_timeout(c, 0);
	if (c->reply_finished)
		return;
	if (c->raw) {
		if (c->rq.events && c->rq.events->body_end)
			c->rq.events->body_end(&c->rq);
	} else if (request_decode_body(c, &err) < 0) {
		server_conn_reply_error(c, &err, 0);
	} else {
		server_conn_take_turn(c);
	}
}

void server_conn_fail_last(struct server_conn *c, const struct cay_err *err)
{
	if (c->reply_begun) {
		server_conn_close(c);
		return;
	}
	/* the rest of the input cannot be parsed */
	request_reclaim_from_handler(c);
	if (!c->live) {
		c->live = true;
		c->rq = (struct request){ .begun_ns = uv_hrtime(),
					  .arena = ARENA_INIT(SERVER_POOL_MAX) };
		server_conn_set_request_id(c);
	}
	if (err->code == CAY_E_HEADERS && c->conf->head_refused)
		c->conf->head_refused(&c->rq, http_parser_refused_head(&c->http), c->conf->arg);
	c->complete = false;
	c->last_request = true;
	server_conn_reply_error(c, err, 0);
}

bool request_is_streamed(const struct request *rq)
{
	return http_accepts_media_type(rq->head, FRAME_MEDIA_TYPE) ||
	       http_accepts_media_type(rq->head, "text/event-stream");
}
