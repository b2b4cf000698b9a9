/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "init/attach.h"
#include "init/boot.h"
#include "init/feed.h"
#include "init/file.h"
#include "init/look.h"
#include "init/peek.h"
#include "init/shell.h"
#include "init/signals.h"
#include "init/stream.h"
#include "init/svc.h"
#include "init/tell.h"
#include "init/term.h"
#include "init/workdir.h"
#include "wire/hello.h"

/* What the host alone asks */

static void say_hello(struct request *rq, void *arg)
{
	const struct init *in = arg;
	struct hello h = { .proto_min = HELLO_PROTO_MIN, .proto_max = HELLO_PROTO_MAX };
	auto_buf body = BUF_INIT(HELLO_SIZE);
	uint8_t bytes[HELLO_SIZE];
	struct cay_err err = {};

	memcpy(h.build, CAY_VERSION,
	       sizeof(CAY_VERSION) < sizeof(h.build) ? sizeof(CAY_VERSION) : sizeof(h.build));
	h.features = (in->usable ? HELLO_CLAIMED : 0) | (in->entry.state ? HELLO_ENTERED : 0);
	h.features |= in->claimed ? HELLO_TOLD : 0;
	hello_encode(&h, bytes);
	if (buf_add(&body, bytes, sizeof(bytes)) < 0) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for a hello");
		request_fail(rq, &err);
		return;
	}
	request_reply(rq, 200, HELLO_MEDIA_TYPE, &body);
}

static const char *keep(struct pool *p, const char *s, bool *ok)
{
	const char *copy = s ? pool_strn(p, s, strlen(s)) : NULL;

	*ok &= !s || copy;
	return copy;
}

/* From the request's pool into one that lives as long as we do. */
static bool keep_claim(struct pool *p, const struct claim *from, struct claim *to)
{
	size_t n = from->env.n;
	bool ok = true;

	to->env.keys = pool_take(p, n, sizeof(char *));
	to->env.values = pool_take(p, n, sizeof(char *));
	if (!to->env.keys || !to->env.values)
		return false;
	for (size_t i = 0; i < n; i++) {
		to->env.keys[i] = keep(p, from->env.keys[i], &ok);
		to->env.values[i] = keep(p, from->env.values[i], &ok);
	}
	to->env.n = n;
	to->user = keep(p, from->user, &ok);
	to->cwd = keep(p, from->cwd, &ok);
	return ok;
}

static void take_claim(struct request *rq, void *arg)
{
	const struct claim *asked = rq->body;
	struct init *in = arg;
	struct pool pool = POOL_INIT(CLAIM_POOL);
	struct claim claim = {};
	struct cay_err err = {};

	if (in->claimed) {
		(void)cay_fail(&err, CAY_E_CONFLICT, "this sandbox is somebody's already");
	} else if (!keep_claim(&pool, asked, &claim)) {
		(void)cay_fail(&err, pool.full ? CAY_E_TOO_LARGE : CAY_E_NO_MEMORY,
			       "no room for the claim");
		pool_fini(&pool);
	} else {
		in->claim_pool = pool;
		in->claim = claim;
		in->claimed = true;
		if (asked->has_output)
			in->budget.max = asked->output_bytes;
		workdir_make(claim.cwd);
		boot_begin(in, rq);
		return;
	}
	request_fail(rq, &err);
}

static void ask_start(struct request *rq, void *arg)
{
	boot_wait(arg, rq);
}

static void tell_entry(const struct init *in, struct request *rq)
{
	auto_buf body = BUF_INIT(ENTRY_SIZE);
	uint8_t bytes[ENTRY_SIZE];
	struct cay_err err = {};

	entry_encode(&in->entry, bytes);
	if (!in->entry.state)
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "no entrypoint was started");
	else if (buf_add(&body, bytes, sizeof(bytes)) < 0)
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for an answer");
	if (err.code)
		request_fail(rq, &err);
	else
		request_reply(rq, 200, ENTRY_MEDIA_TYPE, &body);
}

/* Who asks may be gone by the time it runs; that it was started is true all the same. */
struct entering {
	struct init *init;
	struct request *rq;
};

static void on_entered(struct job *j, const struct cay_err *err, void *arg)
{
	struct entering *e = arg;

	if (err)
		e->init->entry = (struct entry){};
	if (e->rq)
		e->rq->events = NULL;
	if (e->rq && err)
		request_fail(e->rq, err);
	else if (e->rq)
		tell_entry(j->init, e->rq);
	free(e);
}

static void on_entering_gone(struct request *rq)
{
	struct entering *e = rq->data;

	e->rq = NULL;
}

static void start_entry(struct request *rq, void *arg)
{
	static const struct request_events events = { .gone = on_entering_gone };
	struct init *in = arg;
	struct entering *e;
	struct cay_err err = {};
	struct job *j;

	if (in->entry.state) { /* there is one, and never another */
		tell_entry(in, rq);
		return;
	}
	e = malloc(sizeof(*e));
	if (!e)
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for the entrypoint");
	if (!e || job_start(in, rq->body, &(struct id){}, OUTPUT_DROP, &j, &err) < 0) {
		free(e);
		request_fail(rq, &err);
		return;
	}
	in->entry = (struct entry){ .state = ENTRY_RUNNING, .exec = j->id };
	*e = (struct entering){ in, rq };
	j->started = on_entered;
	j->arg = e;
	rq->data = e;
	rq->events = &events;
}

static void ask_entry(struct request *rq, void *arg)
{
	tell_entry(arg, rq);
}

const struct server_route init_routes[] = {
	{ METHOD_GET, INIT_PATH_HELLO, NULL, 0, say_hello },
	{ METHOD_POST, INIT_PATH_CLAIM, &claim_table, KIB(256), take_claim },
	{ METHOD_GET, INIT_PATH_START, NULL, 0, ask_start },
	{ METHOD_POST, INIT_PATH_ENTER, &exec_run_table, KIB(256), start_entry },
	{ METHOD_GET, INIT_PATH_ENTRY, NULL, 0, ask_entry },
};
const size_t init_n_routes = ARRAY_SIZE(init_routes);

/* Operations */

static void run(struct init *in, struct request *rq)
{
	const struct exec_run *req = rq->body;
	enum stream_form form = stream_form(rq->head, STREAM_WAIT);
	enum exec_output mode = (enum exec_output)req->output;
	struct run_query part = { req->has_max_output ? req->max_output_bytes : TELL_MAX,
				  req->has_keep ? req->keep : KEEP_TAIL };
	struct cay_err err = {};
	struct job *j;

	if (mode == OUTPUT_AUTO)
		mode = req->detach && !req->has_tty ? OUTPUT_DROP : OUTPUT_BLOCK;
	if (job_start(in, req, &rq->match.params[0], mode, &j, &err) < 0)
		request_fail(rq, &err);
	else if (req->detach)
		stream_detach(j, rq);
	else
		stream_run(j, rq, &part, form, http_prefers(rq->head, HTTP_END_WITH_CALLER));
}

static void list(struct init *in, struct request *rq)
{
	struct exec *rows = pool_take(&rq->pool, in->live + in->finished, sizeof(*rows));
	struct exec_list told = { .execs.v = rows };
	struct cay_err err = {};

	if (!rows) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for the list");
		request_fail(rq, &err);
		return;
	}
	for (const struct job *j = in->oldest; j; j = j->next)
		if (job_visible(j))
			job_describe(j, &rows[told.execs.n++]);
	request_reply_json(rq, &exec_list_table, &told);
}

static void get(struct job *j, struct request *rq)
{
	struct exec told;

	job_describe(j, &told);
	request_reply_json(rq, &exec_table, &told);
}

static void output(struct job *j, struct request *rq)
{
	stream_output(j, rq, rq->query, stream_form(rq->head, STREAM_RAW));
}

static void input(struct job *j, struct request *rq)
{
	const struct exec_stdin_query *q = rq->query;

	struct cay_err err = {};

	if (j->tty && q->close) {
		(void)cay_fail_field(&err, CAY_E_INVALID, "close",
				     "a terminal's input has no end; send it the character");
		request_fail(rq, &err);
		return;
	}
	feed_start(j, rq, q->close);
}

static void resize(struct job *j, struct request *rq)
{
	const struct exec_resize *q = rq->body;
	struct cay_err err = {};

	if (term_resize(j, q->cols, q->rows, &err) < 0)
		request_fail(rq, &err);
	else
		get(j, rq);
}

static void attach(struct job *j, struct request *rq)
{
	attach_start(j, rq, rq->query);
}

static void send_signal(struct job *j, struct request *rq)
{
	const struct exec_signal *req = rq->body;
	struct cay_err err = {};
	int sig = signal_parse(slice_of(req->signal));

	if (sig < 0)
		(void)cay_fail_field(&err, CAY_E_INVALID, "signal", "there is no signal '%s'",
				     req->signal);
	if (sig < 0 || job_signal(j, sig, &err) < 0)
		request_fail(rq, &err);
	else
		get(j, rq);
}

/* Rows that name a job; the others are in init_handle(). */
static void (*const of_a_job[OP_NUM])(struct job *j, struct request *rq) = {
	[OP_EXEC_GET] = get,       [OP_EXEC_OUTPUT] = output,
	[OP_EXEC_STDIN] = input,   [OP_EXEC_SIGNAL] = send_signal,
	[OP_EXEC_ATTACH] = attach, [OP_EXEC_RESIZE] = resize,
};

void init_handle(struct request *rq, void *arg)
{
	struct init *in = arg;
	ptrdiff_t op = rq->match.op - ops;
	struct cay_err err = {};
	struct job *j;

	assert(op >= 0 && op < OP_NUM);
	if (svc_api(in, rq) || peek_api(in, rq) || file_api(in, rq) || shell_api(in, rq))
		return;
	if (op == OP_SANDBOX_INFO) {
		look_info(in, rq);
	} else if (op == OP_SANDBOX_HEALTH) {
		look_health(in, rq);
	} else if (op == OP_EXEC_RUN) {
		run(in, rq);
	} else if (op == OP_EXEC_LIST) {
		list(in, rq);
	} else if (!of_a_job[op]) {
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "nothing is here");
		request_fail(rq, &err);
	} else if (!(j = job_find(in, &rq->match.params[1]))) {
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such command");
		request_fail(rq, &err);
	} else {
		of_a_job[op](j, rq);
	}
}
