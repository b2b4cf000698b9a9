/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/e2b.h"
#include "e2b/envelope.h"

#define REPLY_MAX (SERVER_OUT_MAX - KIB(64))
#define STREAM_MEDIA "application/connect+json"
#define TICK_MS 1000

/* The words of Connect for what Cay refuses. */
static const char *e2b_connect_code(enum cay_code code)
{
	static const struct {
		enum cay_code code;
		const char *word;
	} words[] = {
		{ CAY_E_INVALID, "invalid_argument" },
		{ CAY_E_UNAUTHENTICATED, "unauthenticated" },
		{ CAY_E_FORBIDDEN, "permission_denied" },
		{ CAY_E_NOT_FOUND, "not_found" },
		{ CAY_E_CONFLICT, "already_exists" },
		{ CAY_E_STATE, "failed_precondition" },
		{ CAY_E_START, "invalid_argument" },
		{ CAY_E_TOO_LARGE, "resource_exhausted" },
		{ CAY_E_LIMIT, "resource_exhausted" },
		{ CAY_E_RATE, "resource_exhausted" },
		{ CAY_E_DISK_FULL, "resource_exhausted" },
		{ CAY_E_UNSUPPORTED, "unimplemented" },
		{ CAY_E_METHOD, "unimplemented" },
		{ CAY_E_TIMEOUT, "deadline_exceeded" },
		{ CAY_E_UNAVAILABLE, "unavailable" },
		{ CAY_E_OVERLOADED, "unavailable" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (words[i].code == code)
			return words[i].word;
	return "internal";
}

static void e2b_connect_error_write(const struct cay_err *err, struct jw *w)
{
	jw_object_begin(w, NULL);
	jw_str(w, "code", e2b_connect_code(err->code));
	jw_str(w, "message", err->msg);
	jw_end(w);
}

void e2b_reply(struct e2b_request *v, int status, json_t *body)
{
	auto_buf b = BUF_INIT(REPLY_MAX);
	struct request *rq = v->rq;
	struct jw w = jw_to(&b);

	if (!rq) { /* the client left */
		json_decref(body);
		e2b_request_free(v);
		return;
	}
	if (!body) {
		e2b_refuse(v, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	json_write(body, NULL, &w);
	json_decref(body);
	e2b_request_free(v);
	if (jw_finish(&w) < 0)
		request_refuse(rq, CAY_E_TOO_LARGE, "the reply is too large");
	else
		request_reply(rq, status, "application/json", &b);
}

/* Without a body, which the server says with "Content-Length: 0", or with 204. */
void e2b_reply_status(struct e2b_request *v, int status)
{
	struct request *rq = v->rq;

	e2b_request_free(v);
	if (rq)
		request_reply(rq, status, NULL, NULL);
}

void e2b_fail(struct e2b_request *v, const struct cay_err *err)
{
	struct cay_err copy = *err;
	struct request *rq = v->rq;

	if (!rq) {
		e2b_request_free(v);
		return;
	}
	if (v->begun && (!v->route || v->route->body != E2B_STREAM)) {
		e2b_request_free(v);
		request_abort(rq);
		return;
	}
	if (v->route && v->route->body == E2B_STREAM) {
		e2b_stream_end(v, e2b_connect_code(copy.code), copy.msg);
		return;
	}
	if (v->route && v->route->body == E2B_UNARY)
		rq->write_error = e2b_connect_error_write;
	e2b_request_free(v);
	request_fail(rq, &copy);
}

void e2b_refuse(struct e2b_request *v, enum cay_code code, const char *why)
{
	struct cay_err err = {};

	(void)cay_fail(&err, code, "%s", why);
	e2b_fail(v, &err);
}

void e2b_fail_gone(struct e2b_request *v)
{
	static const char why[] = "The sandbox was not found";

	if (v->begun)
		e2b_refuse(v, CAY_E_NOT_FOUND, why);
	else
		e2b_reply(v, 502,
			  json_pack("{s:s,s:s,s:i}", "sandboxId", v->sandbox, "message", why,
				    "code", 502));
}

static bool e2b_stream_write(struct e2b_request *v, unsigned flags, json_t *message)
{
	auto_buf b = BUF_INIT(REPLY_MAX);
	uint8_t head[ENVELOPE_HEAD];
	struct jw w = jw_to(&b);

	if (message)
		json_write(message, NULL, &w);
	json_decref(message);
	if (!v->rq)
		return false;
	if (!v->begun)
		request_start_stream(v->rq, 200, STREAM_MEDIA, REQUEST_LENGTH_UNKNOWN);
	v->begun = true;
	v->written_ms = uv_now(&v->door->face.loop);
	/* without memory the stream lacks its end, which no client takes for a complete one */
	if (jw_finish(&w) < 0)
		return false;
	envelope_head(flags, b.len, head);
	(void)request_write_stream(v->rq, head, sizeof(head));
	return request_write_stream(v->rq, b.data, b.len);
}

bool e2b_stream_send(struct e2b_request *v, json_t *message)
{
	return e2b_stream_write(v, 0, message);
}

void e2b_stream_end(struct e2b_request *v, const char *code, const char *why)
{
	struct request *rq = v->rq;

	(void)e2b_stream_write(
		v, ENVELOPE_END,
		code ? json_pack("{s:{s:s,s:s}}", "error", "code", code, "message", why)
		     : json_object());
	e2b_request_free(v);
	if (rq)
		request_end_stream(rq);
}

void e2b_break_stream(struct e2b_request *v, const char *why)
{
	client_call_cancel(cay_take(v->call));
	e2b_refuse(v, CAY_E_UNAVAILABLE, why);
}

static void e2b_send_keepalive(struct e2b_request *v)
{
	char *line;

	if (v->route->start == e2b_watch_dir) {
		(void)e2b_stream_send(v, json_pack("{s:{}}", "keepalive"));
		return;
	}
	if (v->route->body == E2B_STREAM) {
		(void)e2b_stream_send(v, json_pack("{s:{s:{}}}", "event", "keepalive"));
		return;
	}
	line = json_dumps(v->door->keepalive, JSON_COMPACT);
	v->written_ms = uv_now(&v->door->face.loop);
	if (line) {
		(void)request_write_stream(v->rq, line, strlen(line));
		(void)request_write_stream(v->rq, "\n", 1);
	}
	free(line);
}

static void on_e2b_tick(uv_timer_t *t)
{
	struct e2b *d = t->data;
	struct e2b_request *next;
	bool any = false;

	for (struct e2b_request *v = d->requests; v; v = next) {
		next = v->next;
		if (v->waits_for_shell) {
			any = true;
			v->waits_for_shell = false;
			e2b_bash_execute(v); /* may free it */
		} else if (v->keepalive_ms && v->begun && v->rq) {
			any = true;
			if (v->route->plane == E2B_CODE)
				(void)e2b_code_flush(v);
			if (uv_now(t->loop) - v->written_ms >= v->keepalive_ms)
				e2b_send_keepalive(v);
		}
	}
	if (!any)
		(void)uv_timer_stop(t);
}

void e2b_start_ticks(struct e2b *d)
{
	if (!uv_is_active((const uv_handle_t *)&d->tick))
		(void)uv_timer_start(&d->tick, on_e2b_tick, TICK_MS, TICK_MS);
}
