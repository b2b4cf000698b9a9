/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/api.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>

#include "base/clock.h"
#include "text/percent.h"
#include "wire/attach.h"

#define REPLY_MAX MIB(4)
#define REPLY_MAX_RUN MIB(64) /* output and results */
#define ROWS_MAX 100000u

static struct json_limits api_reply_limits(enum op_id op)
{
	return (struct json_limits){
		.bytes = ops[op].response == &run_info_table ? REPLY_MAX_RUN : REPLY_MAX,
		.depth = 16,
		.values = 400000,
	};
}

/* When a reply must have begun.  A larger --timeout than the operation's own counts. */
static uint64_t api_reply_ms(const struct api *a, enum op_id op)
{
	uint64_t ms = op_deadline_ms(&ops[op], false);

	return ops[op].deadline_s && ms > a->timeout_ms ? ms : a->timeout_ms;
}

uint64_t api_reply_deadline(const struct api *a, enum op_id op)
{
	return ops[op].deadline_s == OP_NO_DEADLINE
		       ? UINT64_MAX
		       : clk_boot_ns(&clk_system) + api_reply_ms(a, op) * NS_PER_MS;
}

void api_hint_set(struct api *a, const char *hint)
{
	int n = snprintf(a->hint, sizeof(a->hint), "%s", hint);

	assert(n >= 0 && n < (int)sizeof(a->hint));
}

/* The daemon's hint is about headers; users of cay need a command. */
static void api_hint_bad_token(struct api *a, const struct cay_err *err)
{
	int n;

	if (err->code != CAY_E_UNAUTHENTICATED || !dial_is_remote(&a->dial))
		return;
	n = snprintf(a->hint, sizeof(a->hint),
		     "the token of context '%s' is invalid or has expired; replace it with 'cay "
		     "context add --replace --token-file FILE %s'",
		     a->dial.context.name, a->dial.context.name);
	assert(n >= 0 && n < (int)sizeof(a->hint));
}

/* "{port}": a value of the caller, not an id. */
static bool api_path_part_is_name(struct slice part)
{
	for (size_t i = 0; i < op_n_params; i++)
		if (part.n == strlen(op_params[i].name) + 2 && part.p[0] == '{' &&
		    memcmp(part.p + 1, op_params[i].name, part.n - 2) == 0)
			return op_params[i].noun == ID_NONE;
	return false;
}

static int api_target_add_path(const struct api_call *c, struct buf *target)
{
	struct slice path = slice_of(ops[c->op].path);
	unsigned param = 0;
	int r = 0;

	(void)slice_cut(&path, '/');
	while (r >= 0 && path.p) {
		struct slice part = slice_cut(&path, '/');

		r = buf_putc(target, '/');
		if (r >= 0 && api_path_part_is_name(part)) {
			r = buf_puts(target, c->path_name);
		} else if (r >= 0 && part.n && part.p[0] == '{') {
			char text[ID_TEXT_LEN + 1];

			assert(param < OP_PARAMS_MAX && c->ids[param].noun != ID_NONE);
			id_format(&c->ids[param++], text);
			r = buf_puts(target, text);
		} else if (r >= 0) {
			r = buf_append(target, part.p, part.n);
		}
	}
	return r;
}

static int api_target_add_encoded(struct buf *target, const char *s)
{
	int r = 0;

	for (; r >= 0 && *s; s++) {
		char code[3];
		size_t n = percent_encode(s, 1, code);

		r = buf_append(target, code, n);
	}
	return r;
}

/* A query's rows are scalars, so its JSON is flat. */
static int api_target_add_query(const struct api_call *c, struct buf *target, struct cay_err *err)
{
	auto_buf text = BUF_INIT(KIB(8));
	struct json_limits limits = api_reply_limits(c->op);
	auto_json json = NULL;
	const char *key;
	json_t *value;
	char lead = '?';
	int r = api_json_encode(ops[c->op].query, c->query, &text, err);

	if (r >= 0)
		r = json_parse((struct slice){ text.data, text.len }, &limits, &json, err);
	if (r < 0)
		return r;
	json_object_foreach (json, key, value) {
		r = buf_printf(target, "%c%s=", lead, key);
		if (r >= 0 && json_is_string(value))
			r = api_target_add_encoded(target, json_string_value(value));
		else if (r >= 0 && json_is_boolean(value))
			r = buf_puts(target, json_is_true(value) ? "true" : "false");
		else if (r >= 0)
			r = buf_printf(target, "%lld", (long long)json_integer_value(value));
		if (r < 0)
			return cay_no_memory(err);
		lead = '&';
	}
	return 0;
}

int api_json_encode(const struct field_table *t, const void *in, struct buf *out,
		    struct cay_err *err)
{
	struct jw w = jw_to(out);
	int r;

	field_encode(t, NULL, in, &w);
	r = jw_finish(&w);
	if (r == -ENOBUFS)
		return cay_fail(err, CAY_E_TOO_LARGE, "%s is larger than %zu bytes", t->name,
				out->max);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write %s", t->name) : 0;
}

int api_connect(struct api *a, struct http_client *h, struct cay_err *err)
{
	uint64_t deadline = clk_boot_ns(&clk_system) + a->timeout_ms * NS_PER_MS;
	int r = http_client_open(h, &a->dial, deadline, &a->intr, err);

	if (r < 0)
		api_hint_set(a, a->dial.hint ? a->dial.hint : "");
	return r;
}

int api_call_open(struct api *a, const struct api_call *c, struct http_client *h,
		  struct cay_err *err)
{
	const struct op *op = &ops[c->op];
	auto_buf target = BUF_INIT(KIB(8)), body = BUF_INIT(op->body_max);
	struct http_client_request request = {
		.method = op_method_name(op->method),
		.accept = c->accept ? c->accept : "application/json",
		.content_type = op->body == BODY_JSON ? "application/json" : c->content_type,
		.idempotency_key = c->idempotency_key,
		.upgrade = c->upgrade,
		.ws_key = c->ws_key,
		.ws_protocol = ATTACH_PROTOCOL,
		.body_length = op->body == BODY_RAW ? c->body_length : HTTP_CLIENT_NO_BODY,
	};
	char host[URL_MAX], prefer[64];
	int r = api_target_add_path(c, &target);

	a->hint[0] = 0;
	a->last_op = c->op;
	a->has_last_op = true;
	if (r < 0)
		return cay_no_memory(err);
	if (c->query)
		r = api_target_add_query(c, &target, err);
	if (r >= 0 && op->body == BODY_JSON) {
		r = api_json_encode(op->request, c->request, &body, err);
		request.body_length = body.len;
	}
	if (r >= 0)
		r = api_connect(a, h, err);
	if (r < 0)
		return r;
	request.target = buf_str(&target);
	if (c->prefer && snprintf(prefer, sizeof(prefer), "Prefer: %s\r\n", c->prefer) > 0)
		request.extra_headers = prefer;
	if (dial_is_remote(&a->dial)) {
		url_format_authority(&a->dial.context.url, host);
		request.host = host;
		request.token = a->dial.context.token;
	}
	h->out.max += body.len;
	if (http_client_queue_request(h, &request) < 0 ||
	    buf_append(&h->out, buf_str(&body), body.len) < 0)
		return cay_no_memory(err);
	return 0;
}

static int api_check_wait(const struct api *a, enum op_id op, int r, struct cay_err *err)
{
	if (r == -ETIMEDOUT)
		return cay_fail(err, CAY_E_TIMEOUT, "%s: no reply in %llu s", ops[op].name,
				(unsigned long long)((api_reply_ms(a, op) + 999) / 1000));
	if (r == -EINTR)
		return cay_fail(err, CAY_E_UNAVAILABLE, "%s: interrupted", ops[op].name);
	return r < 0 ? cay_fail_sys(err, CAY_E_UNAVAILABLE, -r, "%s", ops[op].name) : 0;
}

int api_call_receive_head(struct api *a, enum op_id op, struct http_client *h, struct cay_err *err)
{
	uint64_t deadline = api_reply_deadline(a, op);

	while (!h->head_complete) {
		int r = http_client_flush(h);
		short events = (short)(r == -EAGAIN ? POLLIN | POLLOUT : POLLIN);

		/* a peer that stopped reading may have sent a reply */
		if (r == -EPIPE || r == -ECONNRESET)
			h->sent = h->out.len;
		r = api_check_wait(a, op, http_client_wait(h, events, deadline, &a->intr), err);
		if (r < 0)
			return r;
		r = http_client_receive(h, err);
		if (r == -ECONNRESET && http_parser_is_idle(&h->parser) &&
		    dial_is_remote(&a->dial) && !h->tls)
			api_hint_set(a, "if the server speaks TLS, use an https:// url");
		if (r < 0 && r != -EAGAIN)
			return cay_err_wrap(err, r, "%s", ops[op].name);
	}
	return 0;
}

static int api_read_body(struct api *a, enum op_id op, struct http_client *h, struct cay_err *err)
{
	uint64_t deadline = clk_boot_ns(&clk_system) + a->timeout_ms * NS_PER_MS;

	while (!h->reply_complete) {
		int r = api_check_wait(a, op, http_client_wait(h, POLLIN, deadline, &a->intr), err);

		if (r < 0)
			return r;
		r = http_client_receive(h, err);
		if (r < 0 && r != -EAGAIN)
			return cay_err_wrap(err, r, "%s", ops[op].name);
		if (h->body.len > api_reply_limits(op).bytes)
			return cay_fail(err, CAY_E_MISBEHAVED, "%s: the reply is too large",
					ops[op].name);
	}
	return 0;
}

int api_error_decode(struct api *a, struct slice json, struct cay_err *err)
{
	struct error_body body = {};
	struct cay_err why = {};

	if (field_decode_text(&error_body_table, json, &json_control_limits, &a->arena, &body,
			      &why) < 0)
		return cay_fail(err, CAY_E_MISBEHAVED, "error object: invalid reply: %s", why.msg);
	api_hint_set(a, body.error.hint);
	if (body.error.field)
		return cay_fail_field(err, (enum cay_code)(body.error.code + 1), body.error.field,
				      "%s", body.error.message);
	return cay_fail(err, (enum cay_code)(body.error.code + 1), "%s", body.error.message);
}

int api_call_finish(struct api *a, enum op_id op, struct http_client *h, void *ret,
		    struct cay_err *err)
{
	struct json_limits limits = api_reply_limits(op);
	struct cay_err why = {};
	struct slice body;
	bool accepted;
	int r = api_read_body(a, op, h, err);

	if (r < 0)
		return r;
	body = (struct slice){ buf_str(&h->body), h->body.len };
	if (!http_client_has_type(h, "application/json"))
		return cay_fail(err, CAY_E_MISBEHAVED, "%s: status %d without JSON", ops[op].name,
				h->status);
	accepted = ops[op].reply == REPLY_SOON && h->status == 202; /* it does not run yet */
	if (h->status < 400 && h->status != ops[op].status && !accepted)
		return cay_fail(err, CAY_E_MISBEHAVED, "%s: status %d instead of %d", ops[op].name,
				h->status, ops[op].status);
	if (h->status >= 400) {
		r = api_error_decode(a, body, err);
		api_hint_bad_token(a, err);
		return r;
	}
	if (!ret)
		return 0;
	if (field_decode_text(ops[op].response, body, &limits, &a->arena, ret, &why) < 0)
		return cay_fail(err, CAY_E_MISBEHAVED, "%s: invalid reply: %s", ops[op].name,
				why.msg);
	return 0;
}

int api_call(struct api *a, const struct api_call *c, void *ret, struct cay_err *err)
{
	auto_http h = HTTP_INIT;
	int r = api_call_open(a, c, &h, err);

	if (r >= 0)
		r = api_call_receive_head(a, c->op, &h, err);
	if (r >= 0)
		r = api_call_finish(a, c->op, &h, ret, err);
	/* control misbehaving usually means that cay and cayd have different versions */
	if (r < 0 && err->code == CAY_E_MISBEHAVED && ops[c->op].where == WHERE_CONTROL &&
	    !a->hint[0])
		api_hint_set(a, "does the daemon have another version? compare with 'cay version'");
	return r;
}

int api_call_upgrade(struct api *a, const struct api_call *c, struct http_client *h,
		     struct cay_err *err)
{
	int r = api_call_open(a, c, h, err);

	if (r >= 0)
		r = api_call_receive_head(a, c->op, h, err);
	if (r < 0 || (h->upgraded && http_equals_nocase(h->parser.head.upgrade, c->upgrade)))
		return r;
	r = h->upgraded ? 0 : api_call_finish(a, c->op, h, NULL, err);
	return r < 0 ? r
		     : cay_fail(err, CAY_E_MISBEHAVED, "%s: the reply is not the upgrade requested",
				ops[c->op].name);
}

/* The layout that all replies of lists share. */
struct api_list_page {
	struct field_list rows;
	const char *cursor;
};
#define LIKE_ANY(S, m) \
	static_assert(sizeof(struct S) == sizeof(struct api_list_page) && \
		      offsetof(struct S, m) == 0 && \
		      offsetof(struct S, next_cursor) == offsetof(struct api_list_page, cursor))
LIKE_ANY(sandbox_list, sandboxes);
LIKE_ANY(image_list, images);
LIKE_ANY(tenant_list, tenants);
LIKE_ANY(key_list, keys);
LIKE_ANY(audit_list, records);
LIKE_ANY(usage_list, usage);

/* Every query of a list begins with its page. */
union api_list_query {
	struct page_query page;
	struct sandbox_query sandboxes;
	struct usage_list_query usage;
	struct delete_query deletion;
};
#define PAGED(S) \
	static_assert(offsetof(struct S, limit) == offsetof(struct page_query, limit) && \
		      offsetof(struct S, cursor) == offsetof(struct page_query, cursor))
PAGED(sandbox_query);
PAGED(usage_list_query);
PAGED(delete_query);

static int api_list_fetch_page(struct api *a, enum op_id op, const void *which,
			       struct field_list *rows, const char **cursor, struct cay_err *err)
{
	union api_list_query query = {};
	struct api_call c = { .op = op, .query = &query };
	struct api_list_page list = {};
	int r;

	assert(ops[op].query->size <= sizeof(query));
	if (which)
		memcpy(&query, which, ops[op].query->size);
	query.page = (struct page_query){ .limit = 100, .cursor = *cursor };
	r = api_call(a, &c, &list, err);
	*rows = list.rows;
	*cursor = list.cursor;
	return r;
}

int api_list_each(struct api *a, enum op_id op, const void *which, api_each *each, void *to,
		  struct cay_err *err)
{
	const char *cursor = NULL;
	size_t size = ops[op].response->rows[0].sub->size;

	for (size_t seen = 0; seen < ROWS_MAX; seen++) {
		struct field_list rows;
		int r = api_list_fetch_page(a, op, which, &rows, &cursor, err);

		if (r < 0)
			return r;
		for (size_t i = 0; i < rows.n; i++) {
			r = each(to, (const char *)rows.v + i * size);
			if (r)
				return r;
		}
		seen += rows.n;
		if (!cursor)
			return 0;
	}
	return cay_fail(err, CAY_E_MISBEHAVED, "%s: more than %u rows", ops[op].name, ROWS_MAX);
}
