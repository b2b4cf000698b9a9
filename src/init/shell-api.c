/* SPDX-License-Identifier: Apache-2.0 */
#include "init/shell.h"
#include "init/tell.h"

void shell_describe(const struct sh *s, struct shell *ret)
{
	*ret = (struct shell){
		.id = s->id,
		.name = s->name[0] ? s->name : NULL,
		.state = s->state,
		.cwd = s->cwd && utf8_valid(s->cwd, strlen(s->cwd)) ? s->cwd : NULL,
		.created_ns = s->created_ns,
		.has_pid = s->job && s->job->pid > 0,
		.pid = s->job && s->job->pid > 0 ? (uint64_t)s->job->pid : 0,
		.runs = s->runs,
		.queued = s->queued,
		.stdout_bytes = output_end(&s->out[0]),
		.stderr_bytes = output_end(&s->out[1]),
		.why = s->why,
		.end = s->end,
		.has_end = s->state == SHELL_ENDED,
	};
}

void shell_describe_run(const struct sh_run *r, struct ran *ret)
{
	*ret = (struct ran){
		.number = r->number,
		.state = r->state,
		.started_ns = r->started_ns,
		.ended_ns = r->ended_ns,
		.cwd = r->cwd && utf8_valid(r->cwd, strlen(r->cwd)) ? r->cwd : NULL,
		.end = r->end,
		.has_end = r->state == RUN_ENDED,
	};
}

void shell_tell(struct sh_run *r, struct request *rq, const struct run_query *q)
{
	auto_told out = TOLD_INIT, err = TOLD_INIT;
	const struct output *o = r->shell->out;
	uint64_t end[2] = { r->bound.upto[0], r->bound.upto[1] };
	struct ran told;

	shell_describe_run(r, &told);
	if (r->state == RUN_RUNNING) {
		end[0] = output_end(&o[0]);
		end[1] = output_end(&o[1]);
	}
	for (int i = 0; i < 2; i++)
		end[i] = end[i] > r->from[i] ? end[i] : r->from[i];
	if (tell(&o[0], r->from[0], end[0], q, NULL, &out, &told.out) < 0 ||
	    tell(&o[1], r->from[1], end[1], q, NULL, &err, &told.err) < 0) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory for the reply; read shell.output");
		return;
	}
	request_reply_json(rq, &ran_table, &told);
}

static void list(struct init *in, struct request *rq)
{
	struct shell *rows = pool_take(&rq->pool, SHELLS_MAX, sizeof(*rows));
	struct shell_list told = { .shells.v = rows };

	if (!rows) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory for the list");
		return;
	}
	for (const struct sh *s = in->shells.first; s; s = s->next)
		if (!s->deleted && s->state != SHELL_STARTING)
			shell_describe(s, &rows[told.shells.n++]);
	request_reply_json(rq, &shell_list_table, &told);
}

static void get(struct sh *s, struct request *rq)
{
	struct shell told;

	shell_describe(s, &told);
	request_reply_json(rq, &shell_table, &told);
}

static void delete(struct sh *s, struct request *rq)
{
	get(s, rq);
	shell_delete(s);
}

static void run(struct sh *s, struct request *rq)
{
	shell_submit(s, rq, rq->body, stream_form(rq->head, STREAM_WAIT));
}

static void runs(struct sh *s, struct request *rq)
{
	struct ran *rows = pool_take(&rq->pool, s->kept + s->queued + 1, sizeof(*rows));
	struct ran_list told = { .runs.v = rows };

	if (!rows) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory for the list");
		return;
	}
	for (const struct sh_run *r = s->first; r; r = r->next)
		shell_describe_run(r, &rows[told.runs.n++]);
	request_reply_json(rq, &ran_list_table, &told);
}

static void run_get(struct sh *s, struct request *rq)
{
	struct sh_run *r = NULL;
	uint64_t number;

	if (str_u64(rq->match.name, 1, INT64_MAX, &number) >= 0)
		r = shell_run_find(s, number);
	if (!r)
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such run, or no more");
	else
		shell_tell(r, rq, rq->query);
}

static void output(struct sh *s, struct request *rq)
{
	const struct exec_output_query *q = rq->query;

	stream_shell(&s->out[q->stream], rq, q, stream_form(rq->head, STREAM_RAW));
}

static void interrupt(struct sh *s, struct request *rq)
{
	if (!s->run) {
		request_refuse(rq, CAY_E_STATE, "it runs nothing");
		return;
	}
	if (!s->stopping)
		shell_stop(s);
	get(s, rq);
}

static void (*const of_one[OP_NUM])(struct sh *s, struct request *rq) = {
	[OP_SHELL_GET] = get,
	[OP_SHELL_DELETE] = delete,
	[OP_SHELL_RUN] = run,
	[OP_SHELL_RUNS] = runs,
	[OP_SHELL_RUN_GET] = run_get,
	[OP_SHELL_OUTPUT] = output,
	[OP_SHELL_INTERRUPT] = interrupt,
};

bool shell_api(struct init *in, struct request *rq)
{
	ptrdiff_t op = rq->match.op - ops;
	struct sh *s;

	if (op == OP_SHELL_CREATE)
		shell_open(in, rq, rq->body);
	else if (op == OP_SHELL_LIST)
		list(in, rq);
	else if (!of_one[op])
		return false;
	else if (!(s = shell_find(in, &rq->match.params[1])))
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such shell");
	else
		of_one[op](s, rq);
	return true;
}
