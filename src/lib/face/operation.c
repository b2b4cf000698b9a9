/* SPDX-License-Identifier: Apache-2.0 */
#include "face/operation.h"

#include "text/base64.h"
#include "text/json.h"
#include "text/percent.h"

#define HEAD_MAX KIB(24)
#define REQUEST_MAX MIB(3)
#define UPLOAD_QUEUE KIB(192)      /* of a call that sends its body in pieces */
#define PIECES_FAILURE_MAX KIB(64) /* of the reply to a call whose success comes in pieces */

static int face_append_encoded(struct buf *b, const json_t *v)
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

static const json_t *face_member(json_t *members, struct slice name)
{
	const char *key;
	const json_t *v;

	json_object_foreach (members, key, v)
		if (slice_eq(slice_of(key), name))
			return v;
	return NULL;
}

static bool face_table_has(const struct field_table *t, const char *name)
{
	for (size_t i = 0; t && i < t->n; i++)
		if (str_eq(t->rows[i].name, name))
			return true;
	return false;
}

static int face_write_path(const struct face_caller *who, const struct op *op, json_t *members,
			   struct buf *b)
{
	struct slice left = slice_of(op->path);
	int r = 0;

	while (left.n && r >= 0) {
		struct slice text = slice_cut(&left, '{'), name;
		const json_t *m;

		r = buf_append(b, text.p, text.n);
		if (r < 0 || !left.p)
			break;
		name = slice_cut(&left, '}');
		m = face_member(members, name);
		if (slice_eq(name, SLICE("sandbox")))
			r = buf_puts(b, who->sandbox);
		else
			r = m ? face_append_encoded(b, m) : -EINVAL;
	}
	return r;
}

static int face_write_query(const struct op *op, json_t *members, struct buf *b)
{
	const char *key;
	const json_t *m;
	char mark = '?';
	int r = 0;

	json_object_foreach (members, key, m) {
		if (!face_table_has(op->query, key))
			continue;
		if (r >= 0)
			r = buf_printf(b, "%c%s=", mark, key);
		if (r >= 0)
			r = face_append_encoded(b, m);
		mark = '&';
	}
	return r;
}

static int face_write_body(const struct op *op, json_t *members, struct buf *b)
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

static int face_write_head(const struct face_caller *who, const struct face_operation *what,
			   const struct buf *target, size_t length, struct buf *b)
{
	const struct op *op = &ops[what->op];
	int r = buf_printf(b, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\nAccept: %s\r\n",
			   op_method_name(op->method), buf_str(target), who->host, who->auth,
			   what->accept ? what->accept : "application/json");

	/* the credential alone may have the whole tenant */
	if (r >= 0)
		r = face_write_group(who->group, b);
	if (r >= 0 && what->range)
		r = buf_printf(b, "Range: %s\r\n", what->range);
	if (r >= 0 && what->ends_with_caller)
		r = buf_puts(b, "Prefer: end-with-caller\r\n");
	if (r >= 0 && op->body != BODY_NONE)
		r = buf_printf(b, "Content-Type: %s\r\n",
			       op->body == BODY_JSON ? "application/json"
						     : "application/octet-stream");
	if (r >= 0 && what->upload)
		r = buf_puts(b, "Transfer-Encoding: chunked\r\n");
	else if (r >= 0 && op->body != BODY_NONE)
		r = buf_printf(b, "Content-Length: %zu\r\n", length);
	return r < 0 ? r : buf_puts(b, "\r\n");
}

int face_operation_start(const struct face_caller *who, const struct face_operation *what,
			 struct client_call **ret, struct cay_err *err)
{
	auto_buf target = BUF_INIT(HTTP_TARGET_MAX + KIB(8)), body = BUF_INIT(REQUEST_MAX);
	auto_buf head = BUF_INIT(HEAD_MAX);
	auto_json members = what->members;
	const struct op *op = &ops[what->op];
	struct client_call_conf conf = {
		.upstream = face_open_edge(who->face, who->edge, err),
		.shared = who->shared,
		.can_retry = op->method == METHOD_GET,
		.answer_max = what->piece && what->answer_max > PIECES_FAILURE_MAX
				      ? PIECES_FAILURE_MAX
				      : what->answer_max,
		.received = what->received,
		.piece = what->piece,
		.more = what->upload,
		.drain = what->drain,
		.done = what->done,
		.arg = what->arg,
	};
	int r;

	if (!conf.upstream || !members)
		return cay_no_memory(err);
	r = face_write_path(who, op, members, &target);
	if (r >= 0)
		r = face_write_query(op, members, &target);
	if (r >= 0)
		r = face_write_body(op, members, &body);
	if (r >= 0 && what->body.n)
		r = buf_append(&body, what->body.p, what->body.n);
	if (r >= 0)
		r = face_write_head(who, what, &target, body.len, &head);
	if (r < 0)
		return r == -EINVAL ? cay_fail(err, CAY_E_INVALID, "the request is not valid")
				    : cay_fail(err, CAY_E_TOO_LARGE, "the request is too long");
	if (what->sent &&
	    !what->sent(what->arg, head.len + body.len + (what->upload ? UPLOAD_QUEUE : 0)))
		return cay_fail(err, CAY_E_RATE,
				"the requests of this tenant take too much memory");
	conf.head = (struct slice){ head.data, head.len };
	conf.body = (struct slice){ body.data, body.len };
	r = client_call_start(&conf, ret, err);
	explicit_bzero(head.data, head.len);
	return r;
}

static int face_append_odd_name(const char *base64, struct buf *path)
{
	size_t n = strlen(base64);
	auto_free char *name = malloc(BASE64_BYTES(n) + 1);
	int r;

	if (!name)
		return -ENOMEM;
	r = base64_decode(base64, n, (uint8_t *)name, &n);
	for (size_t i = 0; i < n && r >= 0; i++)
		r = (unsigned char)name[i] < 0x80 && name[i] ? buf_putc(path, name[i])
							     : buf_puts(path, "\xef\xbf\xbd");
	return r;
}

int face_append_entry_path(const json_t *row, struct buf *path)
{
	const char *name = json_string_value(json_object_get(row, "path"));
	const char *odd = json_string_value(json_object_get(row, "path_b64"));

	if (name && name[0])
		return buf_puts(path, name);
	return odd && odd[0] ? face_append_odd_name(odd, path) : -EINVAL;
}

enum cay_code face_code_named(const char *name)
{
	for (unsigned i = CAY_OK + 1; i < CAY_NUM_CODES; i++)
		if (name && str_eq(cay_error_row((enum cay_code)i)->name, name))
			return (enum cay_code)i;
	return CAY_E_INTERNAL;
}
