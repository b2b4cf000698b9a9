/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "init/core/signals.h"
#include "init/core/workdir.h"
#include "init/exec/attach.h"
#include "init/exec/output-excerpt.h"
#include "init/exec/output-stream.h"
#include "init/exec/pty.h"
#include "init/exec/stdin-upload.h"
#include "init/file/file-read.h"
#include "init/proc/proc-query.h"
#include "init/proc/sandbox-info.h"
#include "init/service/service.h"
#include "init/service/start-scripts.h"
#include "init/shell/shell.h"
#include "wire/hello.h"

/* What the host alone asks */

static void init_route_hello(struct request *rq, void *arg)
{
	const struct init *in = arg;
	struct hello h = { .proto_min = HELLO_PROTO_MIN, .proto_max = HELLO_PROTO_MAX };
	auto_buf body = BUF_INIT(HELLO_SIZE);
	uint8_t bytes[HELLO_SIZE];
	struct cay_err err = {};

	memcpy(h.build, CAY_VERSION,
	       sizeof(CAY_VERSION) < sizeof(h.build) ? sizeof(CAY_VERSION) : sizeof(h.build));
	h.features = (in->usable ? HELLO_CLAIMED : 0) |
		     (in->entrypoint.state ? HELLO_ENTRYPOINT_STARTED : 0);
	h.features |= in->claimed ? HELLO_CLAIM_RECEIVED : 0;
	hello_encode(&h, bytes);
	if (buf_append(&body, bytes, sizeof(bytes)) < 0) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for a hello");
		request_fail(rq, &err);
		return;
	}
	request_reply(rq, 200, HELLO_MEDIA_TYPE, &body);
}

static const char *claim_copy_text(struct arena *p, const char *s, bool *ok)
{
	const char *copy = s ? arena_strndup(p, s, strlen(s)) : NULL;

	*ok &= !s || copy;
	return copy;
}

/* From the request's pool into one that lives as long as we do. */
static bool claim_copy(struct arena *p, const struct claim *from, struct claim *to)
{
	size_t n = from->env.n;
	bool ok = true;

	to->env.keys = arena_alloc(p, n, sizeof(char *));
	to->env.values = arena_alloc(p, n, sizeof(char *));
	if (!to->env.keys || !to->env.values)
		return false;
	for (size_t i = 0; i < n; i++) {
		to->env.keys[i] = claim_copy_text(p, from->env.keys[i], &ok);
		to->env.values[i] = claim_copy_text(p, from->env.values[i], &ok);
	}
	to->env.n = n;
	to->user = claim_copy_text(p, from->user, &ok);
	to->cwd = claim_copy_text(p, from->cwd, &ok);
	return ok;
}

static void init_route_claim(struct request *rq, void *arg)
{
	const struct claim *asked = rq->body;
	struct init *in = arg;
	struct arena arena = ARENA_INIT(CLAIM_POOL);
	struct claim claim = {};
	struct cay_err err = {};

	if (in->claimed) {
		(void)cay_fail(&err, CAY_E_CONFLICT, "this sandbox is somebody's already");
	} else if (!claim_copy(&arena, asked, &claim)) {
		(void)cay_fail(&err, arena.full ? CAY_E_TOO_LARGE : CAY_E_NO_MEMORY,
			       "no room for the claim");
		arena_fini(&arena);
	} else {
		in->claim_arena = arena;
		in->claim = claim;
		in->claimed = true;
		if (asked->has_output)
			in->budget.max = asked->output_bytes;
		workdir_create(claim.cwd);
		start_scripts_begin(in, rq);
		return;
	}
	request_fail(rq, &err);
}

static void init_route_start_wait(struct request *rq, void *arg)
{
	start_scripts_wait(arg, rq);
}

static void entrypoint_reply(const struct init *in, struct request *rq)
{
	auto_buf body = BUF_INIT(ENTRYPOINT_STATUS_SIZE);
	uint8_t bytes[ENTRYPOINT_STATUS_SIZE];
	struct cay_err err = {};

	entrypoint_status_encode(&in->entrypoint, bytes);
	if (!in->entrypoint.state)
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "no entrypoint was started");
	else if (buf_append(&body, bytes, sizeof(bytes)) < 0)
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for an answer");
	if (err.code)
		request_fail(rq, &err);
	else
		request_reply(rq, 200, ENTRYPOINT_MEDIA_TYPE, &body);
}

/* Who asks may be gone by the time it runs; that it was started is true all the same. */
struct entrypoint_start {
	struct init *init;
	struct request *rq;
};

static void on_entrypoint_started(struct exec *exec, const struct cay_err *err, void *arg)
{
	struct entrypoint_start *e = arg;

	if (err)
		e->init->entrypoint = (struct entrypoint_status){};
	if (e->rq)
		e->rq->events = NULL;
	if (e->rq && err)
		request_fail(e->rq, err);
	else if (e->rq)
		entrypoint_reply(exec->init, e->rq);
	free(e);
}

static void on_entrypoint_client_gone(struct request *rq)
{
	struct entrypoint_start *e = rq->data;

	e->rq = NULL;
}

static void init_route_entrypoint_start(struct request *rq, void *arg)
{
	static const struct request_events events = { .gone = on_entrypoint_client_gone };
	struct init *in = arg;
	struct entrypoint_start *e;
	struct cay_err err = {};
	struct exec *exec;

	if (in->entrypoint.state) { /* there is one, and never another */
		entrypoint_reply(in, rq);
		return;
	}
	e = malloc(sizeof(*e));
	if (!e)
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for the entrypoint");
	if (!e || exec_start(in, rq->body, &(struct id){}, OUTPUT_DROP, &exec, &err) < 0) {
		free(e);
		request_fail(rq, &err);
		return;
	}
	in->entrypoint =
		(struct entrypoint_status){ .state = ENTRYPOINT_RUNNING, .exec = exec->id };
	*e = (struct entrypoint_start){ in, rq };
	exec->on_started = on_entrypoint_started;
	exec->cb_arg = e;
	rq->data = e;
	rq->events = &events;
}

static void init_route_entrypoint_get(struct request *rq, void *arg)
{
	entrypoint_reply(arg, rq);
}

const struct server_route init_routes[] = {
	{ METHOD_GET, INIT_PATH_HELLO, NULL, 0, init_route_hello },
	{ METHOD_POST, INIT_PATH_CLAIM, &claim_table, KIB(256), init_route_claim },
	{ METHOD_GET, INIT_PATH_START, NULL, 0, init_route_start_wait },
	{ METHOD_POST, INIT_PATH_ENTER, &exec_run_table, KIB(256), init_route_entrypoint_start },
	{ METHOD_GET, INIT_PATH_ENTRY, NULL, 0, init_route_entrypoint_get },
};
const size_t init_n_routes = ARRAY_SIZE(init_routes);

/* Operations */

static void op_exec_run(struct init *in, struct request *rq)
{
	const struct exec_run *req = rq->body;
	enum output_stream_form form = output_stream_choose_form(rq->head, STREAM_WAIT);
	enum exec_output mode = (enum exec_output)req->output;
	struct run_query part = { req->has_max_output ? req->max_output_bytes : TELL_MAX,
				  req->has_keep ? req->keep : KEEP_TAIL };
	struct cay_err err = {};
	struct exec *exec;

	if (mode == OUTPUT_AUTO)
		mode = req->detach && !req->has_tty ? OUTPUT_DROP : OUTPUT_BLOCK;
	if (exec_start(in, req, &rq->match.params[0], mode, &exec, &err) < 0)
		request_fail(rq, &err);
	else if (req->detach)
		exec_reply_when_started(exec, rq);
	else
		output_stream_reply_run(exec, rq, &part, form,
					http_prefers(rq->head, HTTP_END_WITH_CALLER));
}

static void op_exec_list(struct init *in, struct request *rq)
{
	struct exec_info *rows =
		arena_alloc(&rq->arena, in->n_live_execs + in->n_finished_execs, sizeof(*rows));
	struct exec_list told = { .execs.v = rows };
	struct cay_err err = {};

	if (!rows) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for the list");
		request_fail(rq, &err);
		return;
	}
	for (const struct exec *exec = in->oldest_exec; exec; exec = exec->next)
		if (exec_is_visible(exec))
			exec_describe(exec, &rows[told.execs.n++]);
	request_reply_json(rq, &exec_list_table, &told);
}

static void op_exec_get(struct exec *exec, struct request *rq)
{
	struct exec_info told;

	exec_describe(exec, &told);
	request_reply_json(rq, &exec_info_table, &told);
}

static void op_exec_output(struct exec *exec, struct request *rq)
{
	output_stream_reply_output(exec, rq, rq->query,
				   output_stream_choose_form(rq->head, STREAM_RAW));
}

static void op_exec_stdin(struct exec *exec, struct request *rq)
{
	const struct exec_stdin_query *q = rq->query;

	struct cay_err err = {};

	if (exec->tty && q->close) {
		(void)cay_fail_field(&err, CAY_E_INVALID, "close",
				     "a terminal's input has no end; send it the character");
		request_fail(rq, &err);
		return;
	}
	stdin_upload_start(exec, rq, q->close);
}

static void op_exec_resize(struct exec *exec, struct request *rq)
{
	const struct exec_resize *q = rq->body;
	struct cay_err err = {};

	if (exec_resize_pty(exec, q->cols, q->rows, &err) < 0)
		request_fail(rq, &err);
	else
		op_exec_get(exec, rq);
}

static void op_exec_attach(struct exec *exec, struct request *rq)
{
	exec_attach_start(exec, rq, rq->query);
}

static void op_exec_signal(struct exec *exec, struct request *rq)
{
	const struct exec_signal *req = rq->body;
	struct cay_err err = {};
	int sig = signal_parse(slice_of(req->signal));

	if (sig < 0)
		(void)cay_fail_field(&err, CAY_E_INVALID, "signal", "there is no signal '%s'",
				     req->signal);
	if (sig < 0 || exec_signal(exec, sig, &err) < 0)
		request_fail(rq, &err);
	else
		op_exec_get(exec, rq);
}

/* Rows that name a job; the others are in init_handle_operation(). */
static void (*const exec_op_handlers[OP_NUM])(struct exec *exec, struct request *rq) = {
	[OP_EXEC_GET] = op_exec_get,       [OP_EXEC_OUTPUT] = op_exec_output,
	[OP_EXEC_STDIN] = op_exec_stdin,   [OP_EXEC_SIGNAL] = op_exec_signal,
	[OP_EXEC_ATTACH] = op_exec_attach, [OP_EXEC_RESIZE] = op_exec_resize,
};

void init_handle_operation(struct request *rq, void *arg)
{
	struct init *in = arg;
	ptrdiff_t op = rq->match.op - ops;
	struct cay_err err = {};
	struct exec *exec;

	assert(op >= 0 && op < OP_NUM);
	if (service_handle_operation(in, rq) || proc_handle_operation(in, rq) ||
	    file_handle_operation(in, rq) || shell_handle_operation(in, rq))
		return;
	if (op == OP_SANDBOX_INFO) {
		op_sandbox_info(in, rq);
	} else if (op == OP_SANDBOX_HEALTH) {
		op_sandbox_health(in, rq);
	} else if (op == OP_EXEC_RUN) {
		op_exec_run(in, rq);
	} else if (op == OP_EXEC_LIST) {
		op_exec_list(in, rq);
	} else if (!exec_op_handlers[op]) {
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "no such endpoint");
		request_fail(rq, &err);
	} else if (!(exec = exec_find(in, &rq->match.params[1]))) {
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such command");
		request_fail(rq, &err);
	} else {
		exec_op_handlers[op](exec, rq);
	}
}
