/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/handlers.h"
#include "init/shell/shell.h"

static void shell_describe(const struct session *s, struct shell_info *ret)
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
		.has_end = s->state == SESSION_ENDED,
	};
}

void shell_reply_run(struct run *r, struct request *rq, const struct run_query *q)
{
	auto_output_excerpt out = OUTPUT_EXCERPT_INIT, err = OUTPUT_EXCERPT_INIT;
	struct run_info reply;

	session_run_describe(r, &reply);
	if (q && session_run_fill_outputs(r, q, &out, &err, &reply) < 0)
		request_no_memory(rq);
	else
		request_reply_json(rq, &run_info_table, &reply);
}

void shell_reply_info(const struct session *s, struct request *rq)
{
	struct shell_info reply;

	shell_describe(s, &reply);
	request_reply_json(rq, &shell_info_table, &reply);
}

static struct session *shell_from_request(struct request *rq, void *arg)
{
	struct init *in = arg;

	return session_from_request(&in->shells, rq);
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
	for (const struct session *s = in->shells.first; s; s = s->next)
		if (!s->deleted && s->was_ready)
			shell_describe(s, &rows[reply.shells.n++]);
	request_reply_json(rq, &shell_list_table, &reply);
}

void op_shell_get(struct request *rq, void *arg)
{
	const struct session *s = shell_from_request(rq, arg);

	if (s)
		shell_reply_info(s, rq);
}

void op_shell_delete(struct request *rq, void *arg)
{
	struct session *s = shell_from_request(rq, arg);

	if (!s)
		return;
	shell_reply_info(s, rq);
	session_delete(s);
}

void op_shell_run(struct request *rq, void *arg)
{
	const struct shell_run *q = rq->body;
	struct session *s = shell_from_request(rq, arg);
	bool detach = q->detach;
	struct run *r;

	if (!s)
		return;
	if (s->state == SESSION_ENDED || shell_of(s)->script_fd < 0) {
		request_refuse(rq, CAY_E_STATE, "the shell has ended");
		return;
	}
	r = session_run_new(s, rq, q->command, q->timeout_ms,
			    &(struct run_query){ q->max_output_bytes, q->keep });
	if (r)
		session_run_submit(r, rq, detach, output_stream_choose_form(rq->head, STREAM_WAIT));
}

void op_shell_runs(struct request *rq, void *arg)
{
	const struct session *s = shell_from_request(rq, arg);

	if (s)
		session_reply_runs(s, rq);
}

void op_shell_run_get(struct request *rq, void *arg)
{
	const struct session *s = shell_from_request(rq, arg);
	struct run *r = s ? session_run_from_request(s, rq) : NULL;

	if (r)
		shell_reply_run(r, rq, rq->query);
}

void op_shell_output(struct request *rq, void *arg)
{
	struct session *s = shell_from_request(rq, arg);

	if (s)
		session_reply_output(s, rq);
}

void op_shell_interrupt(struct request *rq, void *arg)
{
	struct session *s = shell_from_request(rq, arg);

	if (s)
		session_reply_interrupt(s, rq);
}
