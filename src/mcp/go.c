/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "mcp/mcp.h"
#include "mcp/result.h"

#define HEAD_MAX KIB(16)
#define REQUEST_MAX MIB(2)
#define KEPT_MAX 32
#define KEPT_MS 30000 /* an edge closes idle ones after 60 s */
#define TICK_MS 50
#define TICK_FIRST_MS 100
#define TICK_MAX_MS 5000
#define RUN_POOL MIB(4)

static void on_answer(void *arg, const struct http_head *head, struct slice body,
		      const struct cay_err *err);

/* The result */

static int write_data(const struct result *out, struct jw *w)
{
	if (json_is_object(out->data))
		jr_write(out->data, "structuredContent", w);
	jw_bool(w, "isError", out->error);
	return 0;
}

/* As JSON, which is what a model is told when there is nothing better. */
static int show_json(struct tool_run *run, struct result *out, struct cay_err *err)
{
	auto_buf b = BUF_INIT(RUN_ANSWER_MAX * 2);
	struct jw w = jw_to(&b);

	if (!run->answer.json && result_image(out, run->answer.body))
		return 0;
	if (!run->answer.json) {
		result_cut(out, run->answer.body, RESULT_TEXT, NULL);
		return 0;
	}
	jr_write(run->answer.json, NULL, &w);
	if (jw_done(&w) < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, "the answer is too large");
	out->data = run->answer.json;
	result_cut(out, (struct slice){ buf_str(&b), b.len }, RESULT_TEXT, NULL);
	return 0;
}

static int write_result(struct visit *v, struct buf *b, const struct cay_err *failed,
			struct cay_err *err)
{
	tool_show *show = v->run.tool->show ? v->run.tool->show : show_json;
	struct jw w = jw_to(b);
	struct result out = { .w = &w };
	int r = 0;

	rpc_begin(&v->rpc, &w);
	jw_array(&w, "content");
	if (failed)
		result_fail(&out, failed);
	else
		r = show(&v->run, &out, err);
	if (r >= 0) {
		jw_end(&w);
		r = write_data(&out, &w);
		rpc_end(&w);
	}
	json_decref(out.owned);
	if (r >= 0 && jw_done(&w) < 0)
		r = cay_fail(err, CAY_E_TOO_LARGE, "the result is too large");
	return r;
}

static void finish(struct visit *v, const struct cay_err *failed)
{
	auto_buf b = BUF_INIT(SERVER_OUT_MAX - KIB(64));
	struct cay_err err = {};
	int r = write_result(v, &b, failed, &err);

	if (r < 0) {
		buf_clear(&b);
		r = write_result(v, &b, &err, &err);
	}
	visit_reply(v, r < 0 ? 500 : 200, r < 0 ? NULL : &b);
}

/* Calls */

static struct upstream *edge(struct visit *v, struct cay_err *err)
{
	struct mcp *m = v->mcp;
	struct upstream **u = &m->edges[v->edge];
	char path[108];
	int n = snprintf(path, sizeof(path), "%s/edge-%u.sock", m->settings.mcp_dir, v->edge);

	if (!*u && n > 0 && n < (int)sizeof(path))
		*u = upstream_new(&m->loop, path, KEPT_MAX, KEPT_MS);
	if (!*u)
		(void)cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	return *u;
}

static int write_head(struct visit *v, const struct buf *target, size_t length, struct buf *b)
{
	const struct run_call *c = &v->run.call;
	const struct op *op = &ops[c->op];
	int r = buf_printf(b, "%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: %s\r\nAccept: %s\r\n",
			   op_method_name(op->method), buf_str(target), v->host, v->auth,
			   c->accept ? c->accept : "application/json");

	if (r >= 0 && c->range)
		r = buf_printf(b, "Range: %s\r\n", c->range);
	/* a call that is cancelled is closed, and so what it runs ends, too */
	if (r >= 0 && (c->op == OP_EXEC_RUN || c->op == OP_SHELL_RUN))
		r = buf_puts(b, "Prefer: " HTTP_END_WITH_CALLER "\r\n");
	if (r >= 0 && op->body != BODY_NONE)
		r = buf_printf(b, "Content-Type: %s\r\nContent-Length: %zu\r\n",
			       op->body == BODY_JSON ? "application/json"
						     : "application/octet-stream",
			       length);
	return r < 0 ? r : buf_puts(b, "\r\n");
}

static int send_call(struct visit *v, struct cay_err *err)
{
	auto_buf target = BUF_INIT(HTTP_TARGET_MAX), body = BUF_INIT(REQUEST_MAX);
	auto_buf head = BUF_INIT(HEAD_MAX);
	struct call_conf conf = { .room = request_room(v->rq),
				  .again = ops[v->run.call.op].method == METHOD_GET,
				  .answer_max = RUN_ANSWER_MAX,
				  .done = on_answer,
				  .arg = v };
	int r;

	if (v->run.step >= RUN_CALLS_MAX)
		return cay_fail(err, CAY_E_INTERNAL, "more calls than a tool makes");
	r = run_write(&v->run, &target, &body, err);
	if (r < 0)
		return r;
	conf.upstream = edge(v, err);
	if (!conf.upstream)
		return -ENOMEM;
	if (write_head(v, &target, body.len, &head) < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, "the request is too long");
	conf.head = (struct slice){ head.data, head.len };
	conf.body = (struct slice){ body.data, body.len };
	r = call_start(&conf, &v->call, err);
	explicit_bzero(head.data, head.len);
	return r;
}

/* The operation, once, by the table. */
static int ask_once(struct tool_run *run, struct cay_err *err)
{
	int r;

	if (run->step)
		return TOOL_SHOWN;
	run_call(run, run->tool->op);
	r = run_map(run, err);
	return r < 0 ? r : TOOL_CALLS;
}

/* What comes next: a call, or the end. */
static void proceed(struct visit *v)
{
	struct tool_run *run = &v->run;
	struct cay_err err = {};
	int r = TOOL_SHOWN;

	run->hears = false;
	if (!v->found) {
		r = run_find_box(run, &err);
		v->found = r == TOOL_SHOWN;
		if (v->found)
			run->step = 0; /* the tool has heard nothing yet */
	}
	if (v->found)
		r = run->tool->ask ? run->tool->ask(run, &err) : ask_once(run, &err);
	if (r == TOOL_CALLS)
		r = send_call(v, &err);
	else if (r == TOOL_SHOWN) {
		finish(v, NULL);
		return;
	}
	if (r < 0)
		finish(v, &err);
}

static int read_answer(struct tool_run *run, const struct http_head *head, struct slice body,
		       struct cay_err *err)
{
	/* what is shown of it stands deeper, and must fit JW_DEPTH_MAX there */
	static const struct json_limits limits = { RUN_ANSWER_MAX, 24, 32768 };
	struct slice media = http_header(head, "content-type"), kind = media;

	json_decref(run->answer.json);
	run->answer = (struct run_answer){ .status = head->status, .media = media, .body = body };
	run->step++;
	if (!http_eq(slice_trim(slice_cut(&kind, ';')), "application/json") || !body.n)
		return 0;
	/* a sandbox may have written it */
	if (jr_read(body, &limits, &run->answer.json, NULL) < 0)
		return cay_fail(err, CAY_E_MISBEHAVED, "what came is not the JSON it should be");
	return 0;
}

static void on_answer(void *arg, const struct http_head *head, struct slice body,
		      const struct cay_err *failed)
{
	struct visit *v = arg;
	struct cay_err err = {};
	int r;

	v->call = NULL;
	if (!head) {
		finish(v, failed);
		return;
	}
	r = read_answer(&v->run, head, body, &err);
	if (r >= 0 && head->status >= 400 && !v->run.hears) {
		run_read_failure(&v->run, &err);
		r = -EREMOTEIO;
	}
	if (r < 0)
		finish(v, &err);
	else
		proceed(v);
}

void go(struct visit *v, const struct mcp_tool *t, json_t *args)
{
	struct tool_run *run = &v->run;
	struct cay_err err = {};
	int r = 0;

	run->tool = t;
	run->settings = &v->mcp->settings;
	run->pool = POOL_INIT(RUN_POOL);
	if (!tool_allowed(t, &run->actor))
		r = cay_fail(&err, CAY_E_FORBIDDEN, "this credential may not call %s", t->name);
	if (r >= 0)
		r = tool_args(t, args, &run->args, &err);
	if (r < 0) {
		finish(v, &err);
		return;
	}
	if (v->rpc.progress && v->streams) {
		v->wait = TICK_FIRST_MS;
		v->tick = v->since + v->wait;
		go_tick(v->mcp);
	}
	proceed(v);
}

void go_cancel(struct visit *v)
{
	if (v->call)
		call_cancel(v->call);
	v->call = NULL;
	json_decref(v->run.call.members);
	json_decref(v->run.answer.json);
	json_decref(v->run.args);
	pool_fini(&v->run.pool);
	v->run = (struct tool_run){};
	v->tick = 0;
}

/* Progress: how long it takes, less and less often. */

static void progress(struct visit *v, uint64_t now)
{
	auto_buf b = BUF_INIT(KIB(4));
	struct jw w = jw_to(&b);
	char says[64];
	uint64_t ms = now - v->since;

	if (snprintf(says, sizeof(says), "%s: %llu.%llu s", v->run.tool->name,
		     (unsigned long long)ms / 1000, (unsigned long long)ms / 100 % 10) < 0)
		says[0] = 0;
	rpc_write_progress(&v->rpc, ms, says, &w);
	if (jw_done(&w) >= 0 && request_queued(v->rq) < SERVER_OUT_MARK)
		visit_event(v, &b);
	v->wait = v->wait > TICK_MAX_MS / 2 ? TICK_MAX_MS : v->wait * 2;
	v->tick = now + v->wait;
}

static void on_tick(uv_timer_t *t)
{
	struct mcp *m = t->data;
	uint64_t now = uv_now(&m->loop);
	bool any = false;

	for (struct visit *v = m->visits; v; v = v->next) {
		if (v->tick && v->tick <= now)
			progress(v, now);
		any |= v->tick != 0;
	}
	if (!any)
		(void)uv_timer_stop(t);
}

void go_tick(struct mcp *m)
{
	if (!uv_is_active((const uv_handle_t *)&m->tick))
		(void)uv_timer_start(&m->tick, on_tick, TICK_MS, TICK_MS);
}
