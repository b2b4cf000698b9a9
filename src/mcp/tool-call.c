/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "mcp/mcp.h"
#include "mcp/tool-result.h"

#define HEAD_MAX KIB(16)
#define REQUEST_MAX MIB(2)
#define TICK_MS 50
#define TICK_FIRST_MS 100
#define TICK_MAX_MS 5000
#define RUN_POOL MIB(4)

static void on_tool_call_answer(void *arg, const struct http_head *head, struct slice body,
				const struct cay_err *err);

/* The default: the reply as JSON. */
static int tool_call_write_json(struct tool_run *run, struct tool_result *out, struct cay_err *err)
{
	auto_buf b = BUF_INIT(TOOL_RUN_ANSWER_MAX * 2);
	struct jw w = jw_to(&b);

	if (!run->answer.json && tool_result_add_image(out, run->answer.body))
		return 0;
	if (!run->answer.json) {
		tool_result_add_cut(out, run->answer.body, RESULT_TEXT, NULL);
		return 0;
	}
	json_write(run->answer.json, NULL, &w);
	if (jw_finish(&w) < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, "the reply is too large");
	out->data = run->answer.json;
	tool_result_add_cut(out, (struct slice){ buf_str(&b), b.len }, RESULT_TEXT, NULL);
	return 0;
}

static int tool_call_write_result(struct mcp_request *v, struct buf *b,
				  const struct cay_err *failed, struct cay_err *err)
{
	tool_write_result_fn *show =
		v->run.tool->write_result ? v->run.tool->write_result : tool_call_write_json;
	enum result_shape shape = profile_limits[v->run.tool->profile].shape;
	auto_buf said = BUF_INIT(RESULT_SAID);
	struct jw w = jw_to(b);
	struct tool_result out = { .w = &w, .said = shape == SHAPE_PLAIN ? NULL : &said };
	int r = 0;

	mcp_rpc_begin_result(&v->rpc, &w);
	jw_array_begin(&w, "content");
	if (failed)
		tool_result_add_error(&out, failed, tool_hint_find(v->run.call.op, failed));
	else
		r = show(&v->run, &out, err);
	if (r >= 0) {
		jw_end(&w);
		tool_result_set_shape(&out, shape);
		if (json_is_object(out.data))
			json_write(out.data, "structuredContent", &w);
		jw_bool(&w, "isError", out.error);
		mcp_rpc_end_result(&w);
	}
	json_decref(out.owned);
	if (r >= 0 && jw_finish(&w) < 0)
		r = cay_fail(err, CAY_E_TOO_LARGE, "the result is too large");
	return r;
}

static void tool_call_finish(struct mcp_request *v, const struct cay_err *failed)
{
	auto_buf b = BUF_INIT(SERVER_OUT_MAX - KIB(64));
	struct cay_err err = {};
	int r = tool_call_write_result(v, &b, failed, &err);

	if (r < 0) {
		buf_clear(&b);
		r = tool_call_write_result(v, &b, &err, &err);
	}
	mcp_request_reply(v, r < 0 ? 500 : 200, r < 0 ? NULL : &b);
}

static int tool_call_write_head(struct mcp_request *v, const struct buf *target, size_t length,
				struct buf *b)
{
	const struct tool_op_call *c = &v->run.call;
	const struct op *op = &ops[c->op];
	int r = buf_printf(b, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\nAccept: %s\r\n",
			   op_method_name(op->method), buf_str(target), v->host, v->auth,
			   c->accept ? c->accept : "application/json");

	/* the edge limits the call to the group: a model may name any sandbox */
	if (r >= 0)
		r = face_write_group(v->run.group, b);
	if (r >= 0 && c->range)
		r = buf_printf(b, "Range: %s\r\n", c->range);
	/* closing the connection of a cancelled call ends the command as well */
	if (r >= 0 && (c->op == OP_EXEC_RUN || c->op == OP_SHELL_RUN || c->op == OP_KERNEL_EVAL))
		r = buf_puts(b, "Prefer: " HTTP_END_WITH_CALLER "\r\n");
	if (r >= 0 && op->body != BODY_NONE)
		r = buf_printf(b, "Content-Type: %s\r\nContent-Length: %zu\r\n",
			       op->body == BODY_JSON ? "application/json"
						     : "application/octet-stream",
			       length);
	return r < 0 ? r : buf_puts(b, "\r\n");
}

static bool on_tool_call_bytes(void *arg, size_t held)
{
	const struct mcp_request *v = arg;

	return request_count_held(v->rq, held);
}

static int tool_call_send_op(struct mcp_request *v, struct cay_err *err)
{
	auto_buf target = BUF_INIT(HTTP_TARGET_MAX), body = BUF_INIT(REQUEST_MAX);
	auto_buf head = BUF_INIT(HEAD_MAX);
	struct client_call_conf conf = { .shared = request_conn_shared(v->rq),
					 .can_retry = ops[v->run.call.op].method == METHOD_GET,
					 .answer_max = TOOL_RUN_ANSWER_MAX,
					 .received = on_tool_call_bytes,
					 .done = on_tool_call_answer,
					 .arg = v };
	int r;

	if (v->run.step >= TOOL_RUN_CALLS_MAX)
		return cay_fail(err, CAY_E_INTERNAL, "too many calls by one tool");
	r = tool_run_write_request(&v->run, &target, &body, err);
	if (r < 0)
		return r;
	conf.upstream = face_open_edge(&v->mcp->face, v->edge, err);
	if (!conf.upstream)
		return -ENOMEM;
	if (tool_call_write_head(v, &target, body.len, &head) < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, "the request is too long");
	conf.head = (struct slice){ head.data, head.len };
	conf.body = (struct slice){ body.data, body.len };
	r = client_call_start(&conf, &v->call, err);
	explicit_bzero(head.data, head.len);
	return r;
}

static void tool_call_continue(struct mcp_request *v)
{
	struct tool_run *run = &v->run;
	struct cay_err err = {};
	int r = TOOL_FINISHED;

	run->accepts_failure = false;
	if (!v->sandbox_found) {
		r = tool_run_find_sandbox(run, &err);
		v->sandbox_found = r == TOOL_FINISHED;
		if (v->sandbox_found)
			run->step = 0; /* the tool's own steps start at 0 */
	}
	if (v->sandbox_found)
		r = run->tool->next_call ? run->tool->next_call(run, &err)
					 : tool_run_default_call(run, &err);
	if (r == TOOL_NEXT_CALL)
		r = tool_call_send_op(v, &err);
	else if (r == TOOL_FINISHED) {
		tool_run_note_end(run);
		tool_call_finish(v, NULL);
		return;
	}
	if (r < 0)
		tool_call_finish(v, &err);
}

static int tool_call_read_answer(struct tool_run *run, const struct http_head *head,
				 struct slice body, struct cay_err *err)
{
	/* it is nested deeper in the result, and must fit JW_DEPTH_MAX there */
	static const struct json_limits limits = { TOOL_RUN_ANSWER_MAX, 24, 32768 };
	struct slice kind = http_header_find(head, "content-type");

	json_decref(run->answer.json);
	run->answer = (struct tool_op_answer){ .status = head->status, .body = body };
	run->step++;
	if (!http_equals_nocase(slice_trim(slice_cut(&kind, ';')), "application/json") || !body.n)
		return 0;
	/* it may come from a sandbox */
	if (json_parse(body, &limits, &run->answer.json, NULL) < 0)
		return cay_fail(err, CAY_E_MISBEHAVED, "the reply is not valid JSON");
	return 0;
}

static void on_tool_call_answer(void *arg, const struct http_head *head, struct slice body,
				const struct cay_err *failed)
{
	struct mcp_request *v = arg;
	struct cay_err err = {};
	int r;

	v->call = NULL;
	if (!head) {
		tool_call_finish(v, failed);
		return;
	}
	r = tool_call_read_answer(&v->run, head, body, &err);
	if (r >= 0 && head->status >= 400 && !v->run.accepts_failure) {
		tool_run_read_failure(&v->run, &err);
		r = -EREMOTEIO;
	}
	if (r < 0)
		tool_call_finish(v, &err);
	else
		tool_call_continue(v);
}

/* Progress: the elapsed time, at growing intervals. */

static void tool_call_send_progress(struct mcp_request *v, uint64_t now)
{
	auto_buf b = BUF_INIT(KIB(4));
	struct jw w = jw_to(&b);
	char says[64];
	uint64_t ms = now - v->arrived_ms;

	if (snprintf(says, sizeof(says), "%s: %llu.%llu s", v->run.tool->name,
		     (unsigned long long)ms / 1000, (unsigned long long)ms / 100 % 10) < 0)
		says[0] = 0;
	mcp_rpc_write_progress(&v->rpc, ms, says, &w);
	if (jw_finish(&w) >= 0 && request_queued_bytes(v->rq) < SERVER_OUT_MARK)
		mcp_request_send_event(v, &b);
	v->progress_interval_ms = v->progress_interval_ms > TICK_MAX_MS / 2
					  ? TICK_MAX_MS
					  : v->progress_interval_ms * 2;
	v->progress_due_ms = now + v->progress_interval_ms;
}

static void on_tool_call_progress_timer(uv_timer_t *t)
{
	struct mcp *m = t->data;
	uint64_t now = uv_now(&m->face.loop);
	bool any = false;

	for (struct mcp_request *v = m->requests; v; v = v->next) {
		if (v->progress_due_ms && v->progress_due_ms <= now)
			tool_call_send_progress(v, now);
		any |= v->progress_due_ms != 0;
	}
	if (!any)
		(void)uv_timer_stop(t);
}

void tool_call_start(struct mcp_request *v, const struct mcp_tool *t, json_t *args)
{
	uv_timer_t *timer = &v->mcp->progress_timer;
	struct tool_run *run = &v->run;
	struct cay_err err = {};
	int r = 0;

	run->tool = t;
	run->settings = &v->mcp->face.settings;
	run->told = &v->mcp->told;
	run->arena = ARENA_INIT(RUN_POOL);
	if (!tool_is_allowed(t, &run->actor))
		r = cay_fail(&err, CAY_E_FORBIDDEN, "the credential lacks the scope for %s",
			     t->name);
	if (r >= 0)
		r = tool_args_check(t, args, &run->args, &err);
	if (r < 0) {
		tool_call_finish(v, &err);
		return;
	}
	if (v->rpc.progress && v->accepts_stream) {
		v->progress_interval_ms = TICK_FIRST_MS;
		v->progress_due_ms = v->arrived_ms + v->progress_interval_ms;
		if (!uv_is_active((const uv_handle_t *)timer))
			(void)uv_timer_start(timer, on_tool_call_progress_timer, TICK_MS, TICK_MS);
	}
	tool_call_continue(v);
}
