/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "e2b/e2b.h"

#define KEEPALIVE_MS 5000
#define EVENT_MAX MIB(6) /* of a result, with its escapes */
#define RESULTS_MAX MIB(3)
#define HELD_MAX KIB(4)

/* The members of a result, by MIME type.  Others are in `extra`. */
static const struct {
	const char *type, *name;
	bool json;
} code_types[] = {
	{ "text/plain", "text", false },
	{ "text/html", "html", false },
	{ "text/markdown", "markdown", false },
	{ "image/svg+xml", "svg", false },
	{ "image/png", "png", false },
	{ "image/jpeg", "jpeg", false },
	{ "application/pdf", "pdf", false },
	{ "text/latex", "latex", false },
	{ "application/json", "json", true },
	{ "application/javascript", "javascript", false },
	{ "application/vnd.cay.data+json", "data", true },
	{ "application/vnd.cay.chart+json", "chart", true },
};

static const struct json_limits code_limits = { EVENT_MAX, 24, 200000 };

static bool code_write_line(struct e2b_request *v, const char *text)
{
	v->written_ms = uv_now(&v->door->face.loop);
	(void)request_write_stream(v->rq, text, strlen(text));
	return request_write_stream(v->rq, "\n", 1);
}

static json_t *code_failure(const char *name, const char *value, const char *traceback)
{
	return json_pack("{s:s,s:s,s:s,s:s}", "type", "error", "name", name, "value", value,
			 "traceback", traceback);
}

/* Instead of a result that does not fit: it is in a file of the sandbox, or lost. */
static bool code_send_too_large(struct e2b_request *v)
{
	json_t *line = code_failure("ResultTooLarge",
				    "a result was left out, because it is too large to send", "");
	char *text = line ? json_dumps(line, JSON_COMPACT) : NULL;
	bool full = text && code_write_line(v, text);

	json_decref(line);
	free(text);
	return full;
}

/* One line of the stream, in ASCII: the SDK for JavaScript decodes each piece of it by itself.
 * Most text grows by that: a line can be too large when its event was not. */
static bool code_send(struct e2b_request *v, json_t *line)
{
	char *text = line ? json_dumps(line, JSON_ENSURE_ASCII | JSON_COMPACT) : NULL;
	size_t n = text ? strlen(text) : 0;
	bool full = false;

	json_decref(line);
	if (!v->rq || !text)
		full = false;
	else if (request_queued_bytes(v->rq) + n > SERVER_OUT_MAX - KIB(64))
		full = code_send_too_large(v);
	else
		full = code_write_line(v, text);
	free(text);
	return full;
}

/* E2B removes one pair of quotes around a text. */
static json_t *code_result_text(const json_t *value)
{
	const char *s = json_string_value(value);
	size_t n = s ? strlen(s) : 0;

	if (n >= 2 && (s[0] == '\'' || s[0] == '"') && s[n - 1] == s[0])
		return json_stringn(s + 1, n - 2);
	return json_incref((json_t *)(uintptr_t)value);
}

static json_t *code_result(const json_t *result)
{
	json_t *line = json_pack("{s:s,s:b}", "type", "result", "is_main_result",
				 json_is_true(json_object_get(result, "main")));
	json_t *extra = json_object(), *value;
	const char *type;

	json_object_foreach (json_object_get(result, "data"), type, value) {
		const char *s = json_string_value(value);
		size_t i = 0;

		while (i < ARRAY_SIZE(code_types) && !str_eq(code_types[i].type, type))
			i++;
		if (i == ARRAY_SIZE(code_types)) {
			(void)json_object_set(extra, type, value);
		} else if (code_types[i].json && s) {
			json_t *parsed = NULL;

			if (json_parse(slice_of(s), &code_limits, &parsed, NULL) >= 0)
				(void)json_object_set_new(line, code_types[i].name, parsed);
		} else {
			(void)json_object_set_new(line, code_types[i].name,
						  i ? json_incref(value) : code_result_text(value));
		}
	}
	if (json_object_size(extra))
		(void)json_object_set(line, "extra", extra);
	json_decref(extra);
	return line;
}

static json_t *code_error(const json_t *exception)
{
	const char *name = json_string_value(json_object_get(exception, "name"));
	const char *value = json_string_value(json_object_get(exception, "value"));
	const json_t *lines = json_object_get(exception, "traceback");
	auto_buf text = BUF_INIT(MIB(1));
	json_t *row;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)lines, i, row)(void) buf_printf(
		&text, "%s%s", i ? "\n" : "", json_string_value(row) ? json_string_value(row) : "");
	return code_failure(name ? name : "Error", value ? value : "", buf_str(&text));
}

/* A line of the kernel's events: {"result": ...}, {"exception": ...}, {"execution_count": ...} */
static bool code_take_event(struct e2b_request *v, struct slice line)
{
	json_t *event = NULL;
	struct cay_err err = {};
	const json_t *m;
	bool full = e2b_code_flush(v);

	if (json_parse(line, &code_limits, &event, &err) < 0)
		return err.code == CAY_E_TOO_LARGE ? full | code_send_too_large(v) : full;
	if ((m = json_object_get(event, "result")))
		full |= code_send(v, code_result(m));
	else if ((m = json_object_get(event, "exception")))
		full |= code_send(v, code_error(m));
	else if ((m = json_object_get(event, "execution_count")))
		full |= code_send(v, json_pack("{s:s,s:O}", "type", "number_of_executions",
					       "execution_count", m));
	json_decref(event);
	return full;
}

static void code_drop_line(struct e2b_request *v)
{
	size_t most = v->line.max;

	buf_fini(&v->line);
	v->line = BUF_INIT(most);
	(void)face_hold(v->rq, &v->memory, E2B_MEM_LINE, 0);
}

static bool code_take_event_part(struct e2b_request *v, const uint8_t *p, size_t n, bool ends)
{
	struct cay_err too_much = {};
	bool full = false;

	if (!v->line_lost && (buf_append(&v->line, p, n) < 0 ||
			      !e2b_hold(v, E2B_MEM_LINE, v->line.cap, &too_much))) {
		v->line_lost = true;
		full = code_send_too_large(v);
	}
	if (ends && !v->line_lost)
		full = code_take_event(v, (struct slice){ buf_str(&v->line), v->line.len });
	if (ends || v->line_lost)
		code_drop_line(v);
	v->line_lost &= !ends;
	return full;
}

static bool code_take_events(struct e2b_request *v, const uint8_t *p, size_t n)
{
	bool full = false;

	while (n) {
		const uint8_t *end = memchr(p, '\n', n);
		size_t part = end ? (size_t)(end - p) : n;

		full |= code_take_event_part(v, p, part, end);
		p += part + (end != NULL);
		n -= part + (end != NULL);
	}
	return full;
}

static bool code_send_text(struct e2b_request *v, const char *stream, const char *p, size_t n)
{
	char at[CLK_TEXT_LEN + 1];

	clk_format_rfc3339(clk_wall_ns(&clk_system), at);
	return code_send(v, json_pack("{s:s,s:o,s:s}", "type", stream, "text",
				      face_text((struct slice){ p, n }), "timestamp", at));
}

static const char *const code_streams[] = { "stdout", "stderr" };

/* Send the first n bytes that are held of a stream, but no part of a character. */
static bool code_send_held(struct e2b_request *v, unsigned which, size_t n)
{
	struct buf *held = &v->held[which];
	size_t whole = utf8_whole_prefix_len(held->data, n), most = held->max;
	bool full = whole && code_send_text(v, code_streams[which], held->data, whole);

	if (whole < held->len) {
		buf_consume(held, whole);
	} else {
		buf_fini(held);
		*held = BUF_INIT(most);
	}
	return full;
}

/* Nothing comes after it: also a part of a character. */
static void code_send_rest(struct e2b_request *v)
{
	(void)e2b_code_flush(v);
	for (unsigned i = 0; i < ARRAY_SIZE(v->held); i++)
		if (v->held[i].len)
			(void)code_send_text(v, code_streams[i], v->held[i].data, v->held[i].len);
}

static bool code_send_gap(struct e2b_request *v, const struct frame_reader_item *item)
{
	char text[FACE_GAP_MAX];
	size_t n = face_format_gap(item, text);
	bool full = e2b_code_flush(v);

	return code_send_text(v, "stderr", text, n) || full;
}

bool e2b_code_flush(struct e2b_request *v)
{
	bool full = false;

	for (unsigned i = 0; i < ARRAY_SIZE(v->held); i++)
		if (v->held[i].len)
			full |= code_send_held(v, i, v->held[i].len);
	return full;
}

/* Whole lines, as IPython's own streams send them.  A part waits for the rest, for whatever comes
 * after it, or a second. */
static bool code_take_output(struct e2b_request *v, unsigned which, const uint8_t *p, size_t n)
{
	struct buf *held = &v->held[which], *other = &v->held[!which];
	bool full = other->len && code_send_held(v, !which, other->len);
	const char *end;

	if (buf_append(held, p, n) < 0)
		return full;
	end = memrchr(held->data, '\n', held->len);
	if (held->len > HELD_MAX)
		full |= code_send_held(v, which, held->len);
	else if (end)
		full |= code_send_held(v, which, (size_t)(end + 1 - held->data));
	return full;
}

static bool code_take_item(struct e2b_request *v, const struct frame_reader_item *item)
{
	if (item->event == STREAM_END)
		(void)json_parse((struct slice){ (const char *)item->p, item->n }, &code_limits,
				 &v->kept, NULL);
	if (item->event == STREAM_GAP)
		return code_send_gap(v, item);
	if (item->event != STREAM_DATA)
		return false;
	return item->stream == FRAME_EVENTS
		       ? code_take_events(v, item->p, item->n)
		       : code_take_output(v, item->stream == FRAME_STDERR, item->p, item->n);
}

static void code_begin(struct e2b_request *v)
{
	v->begun = true;
	v->written_ms = uv_now(&v->door->face.loop);
	v->keepalive_ms = KEEPALIVE_MS;
	request_start_stream(v->rq, 200, "application/json", REQUEST_LENGTH_UNKNOWN);
	e2b_start_ticks(v->door);
}

static bool on_code_piece(void *arg, const struct http_head *, struct slice bytes)
{
	struct e2b_request *v = arg;
	bool full = false;

	if (!v->begun)
		code_begin(v);
	while (bytes.n) {
		struct frame_reader_item item;
		ssize_t n = frame_reader_feed(&v->frames, (const uint8_t *)bytes.p, bytes.n, &item);

		if (n < 0) {
			e2b_break_stream(v, "the stream of the run was interrupted");
			return false;
		}
		full |= code_take_item(v, &item);
		bytes = (struct slice){ bytes.p + n, bytes.n - (size_t)n };
	}
	return full;
}

/* An end without an exception that stopped the code: E2B shows it as one.  It shows the exit status
 * of bash so too, with no name. */
static void code_send_end(struct e2b_request *v)
{
	const char *reason = json_string_value(json_object_get(v->kept, "reason"));
	json_int_t status = json_integer_value(json_object_get(v->kept, "exit_code"));
	bool exited = !reason || str_eq(reason, "exit");
	auto_buf text = BUF_INIT(24);

	code_send_rest(v);
	if (!exited)
		(void)code_send(v, code_failure(str_eq(reason, "timeout") ? "TimeoutError"
									  : "KernelStopped",
						reason, reason));
	else if (v->op == OP_SHELL_RUN && status && buf_printf(&text, "%d", (int)status) >= 0)
		(void)code_send(v, code_failure("", buf_str(&text), ""));
	(void)code_send(v, json_pack("{s:s}", "type", "end_of_execution"));
}

static void on_code_done(void *arg, const struct http_head *head, struct slice body,
			 const struct cay_err *err)
{
	struct e2b_request *v = arg;
	struct request *rq = v->rq;

	if (!head || head->status >= 400) {
		e2b_take_answer(v, head, body, err);
		return;
	}
	v->call = NULL;
	if (!v->kept) {
		e2b_refuse(v, CAY_E_UNAVAILABLE, "the stream of the run was interrupted");
		return;
	}
	code_send_end(v);
	e2b_request_free(v);
	request_end_stream(rq);
}

const char *e2b_code_language(const json_t *body)
{
	const char *s = json_string_value(json_object_get(body, "language"));

	if (!s)
		return "python";
	return str_eq(s, "js") || str_eq(s, "javascript") ? "node" : s;
}

void e2b_code_run(struct e2b_request *v, enum op_id op, json_t *members)
{
	static const struct e2b_transfer how = { .accept = FRAME_MEDIA_TYPE,
						 .ends_with_caller = true,
						 .piece = on_code_piece,
						 .done = on_code_done };
	struct cay_err err = {};

	v->frames = frame_reader_create(STREAM_BIT(FRAME_STDOUT) | STREAM_BIT(FRAME_STDERR) |
					STREAM_BIT(FRAME_EVENTS));
	/* the streams of a kernel and a shell go on over all runs */
	v->frames.unplaced = v->frames.allowed;
	if (e2b_transfer(v, op, members, &how, &err) < 0)
		e2b_fail(v, &err);
}

static void code_run_in_kernel(struct e2b_request *v, enum op_id op, const char *member,
			       const char *value)
{
	json_t *env = json_object_get(v->json, "env_vars");
	json_t *members = json_pack("{s:s,s:O,s:i}", member, value, "code",
				    json_object_get(v->json, "code"), "max_results", RESULTS_MAX);

	if (json_object_size(env))
		(void)json_object_set(members, "env", env);
	e2b_code_run(v, op, members);
}

static bool code_member_is_valid(const struct e2b_request *v, const char *name, json_type type)
{
	const json_t *m = json_object_get(v->json, name);

	return !m || json_is_null(m) || json_typeof(m) == type;
}

void e2b_code_execute(struct e2b_request *v)
{
	const char *context = json_string_value(json_object_get(v->json, "context_id"));
	const char *language = json_string_value(json_object_get(v->json, "language"));

	if (!json_is_string(json_object_get(v->json, "code")))
		e2b_refuse(v, CAY_E_INVALID, "code is missing");
	else if (!code_member_is_valid(v, "context_id", JSON_STRING) ||
		 !code_member_is_valid(v, "language", JSON_STRING))
		e2b_refuse(v, CAY_E_INVALID, "context_id and language are strings");
	else if (!code_member_is_valid(v, "env_vars", JSON_OBJECT))
		e2b_refuse(v, CAY_E_INVALID, "env_vars is an object");
	else if (context && language)
		e2b_refuse(v, CAY_E_INVALID, "Only one of context_id or language can be provided");
	else if (context && e2b_context_is_bash(context))
		e2b_bash_run(v, context);
	else if (context)
		code_run_in_kernel(v, OP_KERNEL_RUN, "kernel", context);
	else if (language && str_eq(language, "bash"))
		e2b_bash_execute(v);
	else
		code_run_in_kernel(v, OP_KERNEL_EVAL, "language", e2b_code_language(v->json));
}

void e2b_code_health(struct e2b_request *v)
{
	e2b_envd_health(v);
}
