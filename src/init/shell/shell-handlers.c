/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/handlers.h"
#include "init/exec/output-excerpt.h"
#include "init/shell/shell.h"

static void shell_describe(const struct shell *s, struct shell_info *ret)
{
	*ret = (struct shell_info){
		.id = s->id,
		.name = s->name[0] ? s->name : NULL,
		.state = s->state,
		.cwd = s->cwd && utf8_is_valid(s->cwd, strlen(s->cwd)) ? s->cwd : NULL,
		.created_ns = s->created_ns,
		.has_pid = s->exec && s->exec->pid > 0,
		.pid = s->exec && s->exec->pid > 0 ? (uint64_t)s->exec->pid : 0,
		.runs = s->last_number,
		.queued = s->n_queued,
		.stdout_bytes = output_end_offset(&s->out[0]),
		.stderr_bytes = output_end_offset(&s->out[1]),
		.why = s->ended_why,
		.end = s->end,
		.has_end = s->state == SHELL_ENDED,
	};
}

void shell_run_describe(const struct run *r, struct run_info *ret)
{
	*ret = (struct run_info){
		.number = r->number,
		.state = r->state,
		.started_ns = r->started_ns,
		.ended_ns = r->ended_ns,
		.cwd = r->cwd && utf8_is_valid(r->cwd, strlen(r->cwd)) ? r->cwd : NULL,
		.end = r->end,
		.has_end = r->state == RUN_ENDED,
	};
}

void shell_run_reply(struct run *r, struct request *rq, const struct run_query *q)
{
	auto_output_excerpt out = OUTPUT_EXCERPT_INIT, err = OUTPUT_EXCERPT_INIT;
	const struct output *o = r->shell->out;
	uint64_t end[2] = { r->range.output_end[0], r->range.output_end[1] };
	struct run_info reply;

	shell_run_describe(r, &reply);
	if (r->state == RUN_RUNNING) {
		end[0] = output_end_offset(&o[0]);
		end[1] = output_end_offset(&o[1]);
	}
	for (int i = 0; i < 2; i++)
		end[i] = end[i] > r->output_start[i] ? end[i] : r->output_start[i];
	if (output_excerpt_fill(&o[0], r->output_start[0], end[0], q, NULL, &out, &reply.out) < 0 ||
	    output_excerpt_fill(&o[1], r->output_start[1], end[1], q, NULL, &err, &reply.err) < 0) {
		request_no_memory(rq);
		return;
	}
	request_reply_json(rq, &run_info_table, &reply);
}

/* NULL: replied not_found. */
static struct shell *shell_from_request(struct init *in, struct request *rq)
{
	struct shell *s = shell_find(in, &rq->match.params[1]);

	if (!s)
		request_refuse(rq, CAY_E_NOT_FOUND, "no such shell");
	return s;
}

void shell_reply_info(const struct shell *s, struct request *rq)
{
	struct shell_info reply;

	shell_describe(s, &reply);
	request_reply_json(rq, &shell_info_table, &reply);
}

void op_shell_list(struct request *rq, void *arg)
{
	const struct init *in = arg;
	struct shell_info *rows = arena_alloc(&rq->arena, SHELLS_MAX, sizeof(*rows));
	struct shell_list reply = { .shells.v = rows };

	if (!rows) {
		request_no_memory(rq);
		return;
	}
	for (const struct shell *s = in->shells.first; s; s = s->next)
		if (!s->deleted && s->state != SHELL_STARTING)
			shell_describe(s, &rows[reply.shells.n++]);
	request_reply_json(rq, &shell_list_table, &reply);
}

void op_shell_get(struct request *rq, void *arg)
{
	const struct shell *s = shell_from_request(arg, rq);

	if (s)
		shell_reply_info(s, rq);
}

void op_shell_delete(struct request *rq, void *arg)
{
	struct shell *s = shell_from_request(arg, rq);

	if (!s)
		return;
	shell_reply_info(s, rq);
	shell_delete(s);
}

void op_shell_run(struct request *rq, void *arg)
{
	struct shell *s = shell_from_request(arg, rq);

	if (s)
		shell_run_submit(s, rq, rq->body, output_stream_choose_form(rq->head, STREAM_WAIT));
}

void op_shell_runs(struct request *rq, void *arg)
{
	const struct shell *s = shell_from_request(arg, rq);
	struct run_list reply = {};
	struct run_info *rows;

	if (!s)
		return;
	rows = arena_alloc(&rq->arena, s->n_ended + s->n_queued + 1, sizeof(*rows));
	if (!rows) {
		request_no_memory(rq);
		return;
	}
	reply.runs.v = rows;
	for (const struct run *r = s->first_run; r; r = r->next)
		shell_run_describe(r, &rows[reply.runs.n++]);
	request_reply_json(rq, &run_list_table, &reply);
}

void op_shell_run_get(struct request *rq, void *arg)
{
	const struct shell *s = shell_from_request(arg, rq);
	struct run *r = NULL;
	uint64_t number;

	if (!s)
		return;
	if (str_parse_u64(rq->match.name, 1, INT64_MAX, &number) >= 0)
		r = shell_run_find(s, number);
	if (!r)
		request_refuse(rq, CAY_E_NOT_FOUND, "no such run, or it was forgotten");
	else
		shell_run_reply(r, rq, rq->query);
}

void op_shell_output(struct request *rq, void *arg)
{
	const struct exec_output_query *q = rq->query;
	struct shell *s = shell_from_request(arg, rq);

	if (s)
		output_stream_reply_output(NULL, &s->out[q->stream], rq, q);
}

void op_shell_interrupt(struct request *rq, void *arg)
{
	struct shell *s = shell_from_request(arg, rq);

	if (s && !s->current_run) {
		request_refuse(rq, CAY_E_STATE, "no run to interrupt");
	} else if (s) {
		if (!s->stop_step)
			shell_stop_run(s);
		shell_reply_info(s, rq);
	}
}
