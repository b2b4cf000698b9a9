/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/output-excerpt.h"
#include "init/session/session.h"

void session_run_describe(const struct run *r, struct run_info *ret)
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

int session_run_fill_outputs(const struct run *r, const struct run_query *q,
			     struct output_excerpt *out, struct output_excerpt *err,
			     struct run_info *ret)
{
	const struct output *o = r->session->out;
	uint64_t end[2] = { r->range.output_end[0], r->range.output_end[1] };
	int code;

	if (r->state == RUN_RUNNING) {
		end[0] = output_end_offset(&o[0]);
		end[1] = output_end_offset(&o[1]);
	}
	for (int i = 0; i < 2; i++)
		end[i] = end[i] > r->output_start[i] ? end[i] : r->output_start[i];
	code = output_excerpt_fill(&o[0], r->output_start[0], end[0], q, NULL, out, &ret->out);
	if (code < 0)
		return code;
	return output_excerpt_fill(&o[1], r->output_start[1], end[1], q, NULL, err, &ret->err);
}

struct session *session_from_request(struct sessions *list, struct request *rq)
{
	struct session *s = session_find(list, &rq->match.params[1]);

	if (!s)
		request_refuse(rq, CAY_E_NOT_FOUND,
			       rq->match.params[1].noun == ID_KERNEL ? "no such kernel"
								     : "no such shell");
	return s;
}

struct run *session_run_from_request(const struct session *s, struct request *rq)
{
	struct run *r = NULL;
	uint64_t number;

	if (str_parse_u64(rq->match.name, 1, INT64_MAX, &number) >= 0)
		r = session_find_run(s, number);
	if (!r)
		request_refuse(rq, CAY_E_NOT_FOUND, "no such run, or it was forgotten");
	return r;
}

void session_reply_runs(const struct session *s, struct request *rq)
{
	struct run_info *rows =
		arena_alloc(&rq->arena, s->n_ended + s->n_queued + 1, sizeof(*rows));
	struct run_list reply = { .runs.v = rows };

	if (!rows) {
		request_no_memory(rq);
		return;
	}
	for (const struct run *r = s->first_run; r; r = r->next)
		session_run_describe(r, &rows[reply.runs.n++]);
	request_reply_json(rq, &run_list_table, &reply);
}

void session_reply_output(struct session *s, struct request *rq)
{
	const struct exec_output_query *q = rq->query;

	output_stream_reply_output(NULL, &s->out[q->stream], rq, q);
}

void session_reply_interrupt(struct session *s, struct request *rq)
{
	if (!s->current_run) {
		request_refuse(rq, CAY_E_STATE, "no run to interrupt");
		return;
	}
	if (!s->stop_step)
		session_stop_run(s);
	s->kind->reply_info(s, rq);
}
