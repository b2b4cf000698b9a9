/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "opensandbox/opensandbox.h"

#define PING_MS 3000
#define LEFT_BEHIND_MAX 1024 /* commands whose output is read for nobody */
#define LEFT_BEHIND_OF_TENANT_MAX 128
#define STEP KIB(4)  /* of a piece: each byte may be a line, whose event is 70 times as long */
#define LARGE KIB(4) /* an event that can be too large: that which says so never is */

static const struct json_limits osb_event_limits = { OSB_EVENT_MAX, 24, 200000 };

static bool osb_stream_write(struct osb_request *v, const char *text)
{
	if (!v->begun) {
		request_start_stream(v->rq, 200, "text/event-stream", REQUEST_LENGTH_UNKNOWN);
		v->begun = true;
		osb_start_tick(v->door);
	}
	v->written_ms = uv_now(&v->door->face.loop);
	(void)request_write_stream(v->rq, text, strlen(text));
	return request_write_stream(v->rq, "\n\n", 2);
}

/* Instead of a result that does not fit: it is in a file of the sandbox, or lost. */
static bool osb_stream_send_too_large(struct osb_request *v)
{
	static const char why[] = "a result was left out, because it is too large to send";

	return osb_stream_send(v, json_pack("{s:s,s:{s:s,s:s,s:[s]}}", "type", "error", "error",
					    "ename", "ResultTooLarge", "evalue", why, "traceback",
					    why));
}

/* An event is JSON in ASCII and an empty line: some SDKs end lines at characters beyond ASCII.
 * Most text grows by that: an event can be too large when what it came from was not. */
bool osb_stream_send(struct osb_request *v, json_t *event)
{
	json_int_t ms = (json_int_t)(clk_wall_ns(&clk_system) / NS_PER_MS);
	char *text = NULL;
	bool full = false;

	if (event && json_object_set_new(event, "timestamp", json_integer(ms)) >= 0)
		text = json_dumps(event, JSON_ENSURE_ASCII | JSON_COMPACT);
	json_decref(event);
	if (v->rq && text && strlen(text) > LARGE &&
	    request_queued_bytes(v->rq) + strlen(text) > SERVER_OUT_MAX - KIB(64))
		full = osb_stream_send_too_large(v);
	else if (v->rq && text)
		full = osb_stream_write(v, text);
	free(text);
	return full;
}

void osb_stream_ping(struct osb_request *v, uint64_t now)
{
	if (v->begun && v->is_stream && v->rq && now - v->written_ms >= PING_MS)
		(void)osb_stream_send(v, json_pack("{s:s,s:s}", "type", "ping", "text", "pong"));
}

bool osb_stream_init(struct osb_request *v, const char *id)
{
	v->is_stream = true;
	return osb_stream_send(v, json_pack("{s:s,s:s}", "type", "init", "text", id));
}

static void osb_stream_close(struct osb_request *v)
{
	struct request *rq = v->rq;

	osb_request_free(v);
	if (rq)
		request_end_stream(rq);
}

void osb_stream_complete(struct osb_request *v)
{
	(void)osb_stream_send(v,
			      json_pack("{s:s,s:i}", "type", "execution_complete", "execution_time",
					(int)((uv_now(&v->door->face.loop) - v->number))));
	osb_stream_close(v);
}

/* OpenSandbox writes an empty line as its end. */
static bool osb_stream_line(struct osb_request *v, unsigned which, struct slice line)
{
	return osb_stream_send(v, json_pack("{s:s,s:o}", "type", which ? "stderr" : "stdout",
					    "text", face_text(line.n ? line : SLICE("\n"))));
}

static bool osb_stream_output(struct osb_request *v, unsigned which, struct slice bytes)
{
	struct slice line;
	bool full = false;

	if (!v->rq)
		return false;
	while (output_lines_next(&v->lines[which], &bytes, &line) > 0)
		full |= osb_stream_line(v, which, line);
	return full;
}

/* {"main", "data": {MIME type: text}}: every value of OpenSandbox's results is text. */
static json_t *osb_stream_result(const json_t *result)
{
	json_t *results = json_object(), *value;
	const char *type;

	json_object_foreach (json_object_get(result, "data"), type, value) {
		if (!json_is_string(value))
			continue;
		(void)json_object_set(results, type, value);
		if (str_eq(type, "text/plain"))
			(void)json_object_set(results, "text", value);
	}
	return json_pack("{s:s,s:o}", "type", "result", "results", results);
}

static bool osb_stream_kernel_event(struct osb_request *v, struct slice line)
{
	struct cay_err err = {};
	auto_json event = NULL;
	const json_t *m;

	if (json_parse(line, &osb_event_limits, &event, &err) < 0)
		return err.code == CAY_E_TOO_LARGE && osb_stream_send_too_large(v);
	if ((m = json_object_get(event, "result")))
		return osb_stream_send(v, osb_stream_result(m));
	if ((m = json_object_get(event, "execution_count")))
		return osb_stream_send(
			v, json_pack("{s:s,s:O}", "type", "execution_count", "execution_count", m));
	m = json_object_get(event, "exception");
	if (!m)
		return false;
	v->flag = true; /* nothing says that it completed */
	return osb_stream_send(v, json_pack("{s:s,s:{s:O,s:O,s:O}}", "type", "error", "error",
					    "ename", json_object_get(m, "name"), "evalue",
					    json_object_get(m, "value"), "traceback",
					    json_object_get(m, "traceback")));
}

static void osb_stream_count_lines(struct osb_request *v, bool *ret_fits)
{
	struct cay_err err = {};

	*ret_fits = osb_hold(
		v, OSB_MEM_LINES,
		v->events.cap + v->rest.cap + v->lines[0].held.cap + v->lines[1].held.cap, &err);
}

static bool osb_stream_kernel_part(struct osb_request *v, const uint8_t *p, size_t n, bool ends)
{
	bool full = false, fits = true;

	if (!v->line_lost) {
		v->line_lost = buf_append(&v->events, p, n) < 0;
		osb_stream_count_lines(v, &fits);
		v->line_lost |= !fits;
		full = v->line_lost && osb_stream_send_too_large(v);
	}
	if (ends && !v->line_lost)
		full = osb_stream_kernel_event(
			v, (struct slice){ buf_str(&v->events), v->events.len });
	if (ends || v->line_lost) {
		buf_fini(&v->events);
		v->events = BUF_INIT(OSB_EVENT_MAX);
		osb_stream_count_lines(v, &fits);
	}
	v->line_lost &= !ends;
	return full;
}

static bool osb_stream_kernel(struct osb_request *v, const uint8_t *p, size_t n)
{
	bool full = false;

	while (n && v->rq) {
		const uint8_t *end = memchr(p, '\n', n);
		size_t part = end ? (size_t)(end - p) : n;

		full |= osb_stream_kernel_part(v, p, part, end);
		p += part + (end != NULL);
		n -= part + (end != NULL);
	}
	return full;
}

static bool osb_stream_item(struct osb_request *v, const struct frame_reader_item *item)
{
	struct slice bytes = { (const char *)item->p, item->n };
	char text[FACE_GAP_MAX];
	struct slice gap = { text, 0 };

	if (item->event == STREAM_END && !v->kept)
		(void)json_parse(bytes, &json_control_limits, &v->kept, NULL);
	if (item->event == STREAM_GAP) {
		gap.n = face_format_gap(item, text);
		return osb_stream_line(v, 1, slice_cut(&gap, '\n'));
	}
	if (item->event != STREAM_DATA)
		return false;
	return item->stream == FRAME_EVENTS
		       ? osb_stream_kernel(v, item->p, item->n)
		       : osb_stream_output(v, item->stream == FRAME_STDERR, bytes);
}

/* Until the client's stream is full: *bytes is what is left then. */
static bool osb_stream_take(struct osb_request *v, struct slice *bytes)
{
	bool full = false, fits;

	while (bytes->n && !full) {
		struct frame_reader_item item;
		ssize_t n = frame_reader_feed(&v->frames, (const uint8_t *)bytes->p,
					      bytes->n < STEP ? bytes->n : STEP, &item);

		if (n < 0) { /* v->frames.refused */
			*bytes = (struct slice){};
			return false;
		}
		full = osb_stream_item(v, &item);
		*bytes = (struct slice){ bytes->p + n, bytes->n - (size_t)n };
	}
	osb_stream_count_lines(v, &fits);
	/* nobody reads: the output is thrown away, and the command never waits */
	return full && v->rq;
}

/* The reply of a call breaks its format: end the call, which PID 1 may never do. */
static void osb_stream_break(struct osb_request *v)
{
	client_call_cancel(cay_take(v->call));
	osb_refuse(v, CAY_E_UNAVAILABLE, "the stream of the command was interrupted");
}

static bool on_osb_stream_piece(void *arg, const struct http_head *head, struct slice bytes)
{
	struct osb_request *v = arg;
	struct slice id = http_header_find(head, "cay-exec");
	char text[64];
	bool full;

	if (!v->begun && v->rq) {
		if (snprintf(text, sizeof(text), "%.*s", (int)(id.n < 60 ? id.n : 60),
			     id.n ? id.p : "") < 0)
			text[0] = 0;
		(void)osb_stream_init(v, id.n ? text : v->target);
	}
	full = osb_stream_take(v, &bytes);
	/* the rest waits for on_osb_stream_drain() */
	if (bytes.n && buf_append(&v->rest, bytes.p, bytes.n) < 0)
		v->frames.refused = true;
	if (v->frames.refused) {
		osb_stream_break(v);
		return false;
	}
	return full;
}

/* What waited of the last piece, then more pieces. */
static void osb_stream_go_on(struct osb_request *v)
{
	struct slice rest = { v->rest.data, v->rest.len };
	bool full = rest.n && osb_stream_take(v, &rest);

	if (v->frames.refused) {
		osb_stream_break(v);
		return;
	}
	buf_consume(&v->rest, v->rest.len - rest.n);
	if (full)
		return;
	buf_fini(&v->rest);
	v->rest = BUF_INIT(OSB_REST_MAX);
	client_call_resume(v->call);
}

/* How a command ended, as OpenSandbox does: a status other than 0 is an error whose value it is. */
static void osb_stream_end(struct osb_request *v)
{
	const char *reason = osb_text(v->kept, "reason"), *signal = osb_text(v->kept, "signal");
	json_int_t code = json_integer_value(json_object_get(v->kept, "exit_code"));
	bool exited = str_eq(reason, "exit");
	char value[24], words[64];
	struct slice line;

	for (unsigned i = 0; i < 2; i++)
		if (output_lines_last(&v->lines[i], &line))
			(void)osb_stream_line(v, i, line);
	if (exited && !code && !v->flag) {
		osb_stream_complete(v);
		return;
	}
	if (!v->flag) {
		if (snprintf(value, sizeof(value), "%d", exited ? (int)code : -1) < 0 ||
		    (exited ? snprintf(words, sizeof(words), "exit status %d", (int)code)
			    : snprintf(words, sizeof(words), "%s%s%s", reason,
				       signal[0] ? ": " : "", signal)) < 0)
			value[0] = words[0] = 0;
		(void)osb_stream_send(v, json_pack("{s:s,s:{s:s,s:s,s:[s]}}", "type", "error",
						   "error", "ename", "CommandExecError", "evalue",
						   value, "traceback", words));
	}
	osb_stream_close(v);
}

static void on_osb_stream_done(void *arg, const struct http_head *head, struct slice body,
			       const struct cay_err *err)
{
	struct osb_request *v = arg;

	if (!head || head->status >= 400) {
		osb_take_answer(v, head, body, err);
		return;
	}
	v->call = NULL;
	if (v->kept)
		osb_stream_end(v);
	else
		osb_refuse(v, CAY_E_UNAVAILABLE, "the stream of the command was interrupted");
}

static bool osb_may_leave_behind(const struct osb_request *v)
{
	unsigned own = 0;

	for (const struct osb_request *r = v->door->requests; r; r = r->next)
		own += r->counted && id_eq(&r->actor.tenant, &v->actor.tenant);
	return v->door->left_behind < LEFT_BEHIND_MAX && own < LEFT_BEHIND_OF_TENANT_MAX;
}

/* The command goes on, as with OpenSandbox: only its output is lost.  Nobody pays for what it
 * holds, so that is little. */
static void on_osb_stream_gone(struct request *rq)
{
	struct osb_request *v = rq->data;

	if (!v->call || !osb_may_leave_behind(v)) {
		osb_request_free(v);
		return;
	}
	json_decref(v->json);
	v->json = NULL;
	buf_fini(&v->events);
	output_lines_fini(&v->lines[0]);
	output_lines_fini(&v->lines[1]);
	v->rq = NULL;
	v->counted = true;
	v->door->left_behind++;
	osb_stream_go_on(v);
}

static void on_osb_stream_drain(struct request *rq)
{
	struct osb_request *v = rq->data;

	if (v->call)
		osb_stream_go_on(v);
}

void osb_stream_run(struct osb_request *v, enum op_id op, json_t *members, unsigned unplaced)
{
	static const struct request_events events = { .drain = on_osb_stream_drain,
						      .gone = on_osb_stream_gone };
	struct cay_err err = {};

	v->frames = frame_reader_create(STREAM_BIT(FRAME_STDOUT) | STREAM_BIT(FRAME_STDERR) |
					STREAM_BIT(FRAME_EVENTS));
	v->frames.unplaced = unplaced ? v->frames.allowed : 0;
	v->flag = false;
	v->number = uv_now(&v->door->face.loop);
	v->rq->events = &events;
	if (osb_transfer(v, op, members,
			 (struct face_operation){ .accept = FRAME_MEDIA_TYPE,
						  .piece = on_osb_stream_piece,
						  .done = on_osb_stream_done },
			 &err) < 0)
		osb_fail(v, &err);
}
