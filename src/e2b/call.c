/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "e2b/e2b.h"
#include "text/percent.h"

#define HEAD_MAX KIB(24)
#define REQUEST_MAX MIB(3)
#define UPLOAD_QUEUE KIB(192)      /* of a call that sends its body in pieces */
#define PIECES_FAILURE_MAX KIB(64) /* of the reply to a call whose success comes in pieces */

/* A reply may come from a sandbox. */
static const struct json_limits e2b_answer_limits = { E2B_ANSWER_MAX, 24, 65536 };

static int e2b_append_encoded(struct buf *b, const json_t *v)
{
	const char *s = json_string_value(v);
	int r;

	if (json_is_integer(v))
		return buf_printf(b, "%lld", (long long)json_integer_value(v));
	if (json_is_boolean(v))
		return buf_puts(b, json_is_true(v) ? "true" : "false");
	if (!s)
		return -EINVAL;
	r = buf_reserve(b, 3 * json_string_length(v) + 1);
	if (r < 0)
		return r;
	b->len += percent_encode(s, json_string_length(v), b->data + b->len);
	b->data[b->len] = 0;
	return 0;
}

static const json_t *e2b_member(const json_t *members, struct slice name)
{
	const char *key;
	const json_t *v;

	json_object_foreach ((json_t *)(uintptr_t)members, key, v)
		if (slice_eq(slice_of(key), name))
			return v;
	return NULL;
}

static bool e2b_table_has(const struct field_table *t, const char *name)
{
	for (size_t i = 0; t && i < t->n; i++)
		if (str_eq(t->rows[i].name, name))
			return true;
	return false;
}

static int e2b_write_target(const struct e2b_request *v, const struct op *op, json_t *members,
			    struct buf *b)
{
	struct slice left = slice_of(op->path);
	const char *key;
	const json_t *m;
	char mark = '?';
	int r = 0;

	while (left.n && r >= 0) {
		struct slice text = slice_cut(&left, '{'), name;

		r = buf_append(b, text.p, text.n);
		if (r < 0 || !left.p)
			break;
		name = slice_cut(&left, '}');
		m = e2b_member(members, name);
		if (slice_eq(name, SLICE("sandbox")))
			r = buf_puts(b, v->sandbox);
		else
			r = m ? e2b_append_encoded(b, m) : -EINVAL;
	}
	json_object_foreach (members, key, m) {
		if (!e2b_table_has(op->query, key))
			continue;
		if (r >= 0)
			r = buf_printf(b, "%c%s=", mark, key);
		if (r >= 0)
			r = e2b_append_encoded(b, m);
		mark = '&';
	}
	return r;
}

static int e2b_write_body(const struct op *op, json_t *members, struct buf *b)
{
	struct jw w = jw_to(b);

	if (op->body != BODY_JSON)
		return 0;
	jw_object_begin(&w, NULL);
	for (size_t i = 0; i < op->request->n; i++) {
		const json_t *m = json_object_get(members, op->request->rows[i].name);

		if (m)
			json_write(m, op->request->rows[i].name, &w);
	}
	jw_end(&w);
	return jw_finish(&w);
}

static int e2b_write_head(const struct e2b_request *v, const struct op *op,
			  const struct e2b_transfer *how, const struct buf *target, size_t length,
			  struct buf *b)
{
	int r = buf_printf(b, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\nAccept: %s\r\n",
			   op_method_name(op->method), buf_str(target), v->host, v->auth,
			   how->accept ? how->accept : "application/json");

	/* the credential alone may have the whole tenant */
	if (r >= 0)
		r = face_write_group(v->actor.group, b);
	if (r >= 0 && how->range)
		r = buf_printf(b, "Range: %s\r\n", how->range);
	if (r >= 0 && how->ends_with_caller)
		r = buf_puts(b, "Prefer: end-with-caller\r\n");
	if (r >= 0 && op->body != BODY_NONE)
		r = buf_printf(b, "Content-Type: %s\r\n",
			       op->body == BODY_JSON ? "application/json"
						     : "application/octet-stream");
	if (r >= 0 && how->upload)
		r = buf_puts(b, "Transfer-Encoding: chunked\r\n");
	else if (r >= 0 && op->body != BODY_NONE)
		r = buf_printf(b, "Content-Length: %zu\r\n", length);
	return r < 0 ? r : buf_puts(b, "\r\n");
}

static bool on_e2b_received(void *arg, size_t held)
{
	struct e2b_request *v = arg;

	return face_hold(v->rq, &v->memory, E2B_MEM_RECEIVED, held);
}

int e2b_transfer(struct e2b_request *v, enum op_id id, json_t *members,
		 const struct e2b_transfer *how, struct cay_err *err)
{
	auto_buf target = BUF_INIT(HTTP_TARGET_MAX + KIB(8)), body = BUF_INIT(REQUEST_MAX);
	auto_buf head = BUF_INIT(HEAD_MAX);
	const struct op *op = &ops[id];
	struct client_call_conf conf = {
		.upstream = face_open_edge(&v->door->face, v->edge, err),
		.shared = request_conn_shared(v->rq),
		.can_retry = op->method == METHOD_GET,
		.answer_max = how->piece ? PIECES_FAILURE_MAX : E2B_ANSWER_MAX,
		.received = how->arg ? NULL : on_e2b_received,
		.piece = how->piece,
		.more = how->upload,
		.drain = how->drain,
		.done = how->done ? how->done : e2b_take_answer,
		.arg = how->arg ? how->arg : v,
	};
	int r;

	if (!conf.upstream || !members) {
		json_decref(members);
		return cay_no_memory(err);
	}
	r = e2b_write_target(v, op, members, &target);
	if (r >= 0)
		r = e2b_write_body(op, members, &body);
	if (r >= 0 && how->body.n)
		r = buf_append(&body, how->body.p, how->body.n);
	if (r >= 0)
		r = e2b_write_head(v, op, how, &target, body.len, &head);
	json_decref(members);
	if (r < 0)
		return r == -EINVAL ? cay_fail(err, CAY_E_INVALID, "the request is not valid")
				    : cay_fail(err, CAY_E_TOO_LARGE, "the request is too long");
	if (!how->call &&
	    !e2b_hold(v, E2B_MEM_SENT, head.len + body.len + (how->upload ? UPLOAD_QUEUE : 0), err))
		return -EDQUOT;
	v->op = id;
	conf.head = (struct slice){ head.data, head.len };
	conf.body = (struct slice){ body.data, body.len };
	r = client_call_start(&conf, how->call ? how->call : &v->call, err);
	explicit_bzero(head.data, head.len);
	return r;
}

void e2b_call(struct e2b_request *v, enum op_id op, e2b_step *then, const char *fmt, ...)
{
	static const struct e2b_transfer plain = {};
	struct cay_err err = {};
	json_t *members;
	va_list ap;

	va_start(ap, fmt);
	members = json_vpack_ex(NULL, 0, fmt, ap);
	va_end(ap);
	v->then = then;
	if (e2b_transfer(v, op, members, &plain, &err) < 0)
		e2b_fail(v, &err);
}

const char *e2b_answer_text(const struct e2b_request *v, const char *name)
{
	const char *s = json_string_value(json_object_get(v->answer, name));

	return s ? s : "";
}

static enum cay_code e2b_code_named(const char *name)
{
	for (unsigned i = CAY_OK + 1; i < CAY_NUM_CODES; i++)
		if (name && str_eq(cay_error_row((enum cay_code)i)->name, name))
			return (enum cay_code)i;
	return CAY_E_INTERNAL;
}

/* The error of an operation. */
static void e2b_read_failure(struct e2b_request *v)
{
	const json_t *error = json_object_get(v->answer, "error");
	const char *says = json_string_value(json_object_get(error, "message"));
	const char *field = json_string_value(json_object_get(error, "field"));
	enum cay_code code = e2b_code_named(json_string_value(json_object_get(error, "code")));

	v->failure = (struct cay_err){};
	/* a process that ended a moment ago is none */
	if (code == CAY_E_STATE &&
	    (v->op == OP_EXEC_SIGNAL || v->op == OP_EXEC_STDIN || v->op == OP_EXEC_RESIZE))
		code = CAY_E_NOT_FOUND;
	/* envd says so of a user that the sandbox does not have */
	if (field && str_eq(field, "user"))
		code = CAY_E_UNAUTHENTICATED;
	(void)cay_fail(&v->failure, code, "%s", says ? says : "the request failed");
}

static void on_e2b_state_known(struct e2b_request *v)
{
	if (v->status == 200 && e2b_answer_is_running(v))
		e2b_fail(v, &v->failure);
	else
		e2b_fail_gone(v);
}

static void e2b_continue(struct e2b_request *v)
{
	bool failed = v->status >= 400;

	if (!failed || v->accepts_failure) {
		if (failed)
			e2b_read_failure(v);
		v->accepts_failure = false;
		v->then(v);
		return;
	}
	e2b_read_failure(v);
	/* a file that is absent, or its sandbox? */
	if (v->route->plane != E2B_CONTROL && v->rq && !v->begun &&
	    (v->failure.code == CAY_E_NOT_FOUND || v->failure.code == CAY_E_STATE ||
	     v->failure.code == CAY_E_UNAVAILABLE)) {
		v->accepts_failure = true;
		e2b_call(v, OP_SANDBOX_GET, on_e2b_state_known, "{}");
	} else {
		e2b_fail(v, &v->failure);
	}
}

/* The answer before, unless a handler keeps it or a part of it. */
static void e2b_drop_answer(struct e2b_request *v)
{
	size_t *held = v->memory.kinds;

	if (v->kept && held[E2B_MEM_KEPT] < held[E2B_MEM_ANSWER])
		held[E2B_MEM_KEPT] = held[E2B_MEM_ANSWER];
	held[E2B_MEM_SENT] = held[E2B_MEM_RECEIVED] = 0;
	json_decref(v->answer);
	v->answer = NULL;
	(void)face_hold(v->rq, &v->memory, E2B_MEM_ANSWER, 0);
}

void e2b_take_answer(void *arg, const struct http_head *head, struct slice body,
		     const struct cay_err *err)
{
	struct e2b_request *v = arg;
	struct slice kind = head ? http_header_find(head, "content-type") : (struct slice){};
	struct cay_err too_much = {};

	v->call = NULL;
	v->uploading = false;
	e2b_drop_answer(v);
	if (!head) {
		e2b_fail(v, err);
		return;
	}
	v->status = head->status;
	if (body.n && http_equals_nocase(slice_trim(slice_cut(&kind, ';')), "application/json") &&
	    json_parse(body, &e2b_answer_limits, &v->answer, NULL) < 0)
		e2b_refuse(v, CAY_E_MISBEHAVED, "the reply is not valid JSON");
	else if (v->answer && !e2b_hold(v, E2B_MEM_ANSWER, json_estimate_bytes(body), &too_much))
		e2b_fail(v, &too_much);
	else
		e2b_continue(v);
}
