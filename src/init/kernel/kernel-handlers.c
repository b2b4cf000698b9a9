/* SPDX-License-Identifier: Apache-2.0 */
#include "init/core/handlers.h"
#include "init/kernel/kernel-parent.h"

static void kernel_describe(const struct session *s, struct kernel_info *ret)
{
	const struct kernel *k = kernel_of_const(s);

	*ret = (struct kernel_info){
		.id = s->id,
		.language = k->language->name,
		.name = s->name[0] ? s->name : NULL,
		.state = s->state,
		.version = k->version[0] ? k->version : NULL,
		.implementation = k->implementation[0] ? k->implementation : NULL,
		.cwd = s->cwd && utf8_is_valid(s->cwd, strlen(s->cwd)) ? s->cwd : NULL,
		.created_ns = s->created_ns,
		.has_pid = s->exec && s->exec->pid > 0,
		.pid = s->exec && s->exec->pid > 0 ? (uint64_t)s->exec->pid : 0,
		.runs = s->last_number,
		.queued = s->n_queued,
		.restarts = k->restarts,
		.forked = k->forked,
		.stdout_bytes = output_end_offset(&s->out[0]),
		.stderr_bytes = output_end_offset(&s->out[1]),
		.why = s->ended_why,
		.end = s->end,
		.has_end = s->state == SESSION_ENDED,
	};
}

void kernel_reply_info(const struct session *s, struct request *rq)
{
	struct kernel_info reply;

	kernel_describe(s, &reply);
	request_reply_json(rq, &kernel_info_table, &reply);
}

/* A new state of the results that have its display_id.  Each has it in the reply, so together the
 * copies are bounded too. */
static void results_replace(struct field_list *results, const struct kernel_event *e,
			    size_t *copied)
{
	const struct kernel_result *r = &e->result;
	struct kernel_result *rows = results->v;

	for (size_t i = 0; r->display_id && i < results->n; i++) {
		bool main = rows[i].main;

		if (!rows[i].display_id || !str_eq(rows[i].display_id, r->display_id))
			continue;
		if ((*copied += e->size) > RESULTS_MAX)
			return;
		rows[i] = *r;
		rows[i].main = main;
		rows[i].update = false;
	}
}

/* The results as they are at the end: updates are made, cleared ones are gone. */
static bool code_run_describe(const struct code_run *r, struct arena *arena, struct run_info *ret)
{
	struct kernel_result *rows = arena_alloc(arena, r->n_events + 1, sizeof(*rows));
	bool clear_at_next = false;
	size_t copied = 0;

	ret->results.v = rows;
	ret->results_dropped = r->dropped;
	ret->restarted = r->restarted;
	for (const struct output_event *at = r->run.range.events; rows && at; at = at->next) {
		const struct kernel_event *e = (const struct kernel_event *)at;

		switch (e->type) {
		case KERNEL_EVENT_RESULT:
			if (clear_at_next)
				ret->results.n = 0;
			clear_at_next = false;
			if (!e->result.update)
				rows[ret->results.n++] = e->result;
			else
				results_replace(&ret->results, e, &copied);
			break;
		case KERNEL_EVENT_EXCEPTION:
			ret->exception = e->exception;
			ret->has_exception = true;
			break;
		case KERNEL_EVENT_CLEAR:
			clear_at_next = e->wait;
			if (!e->wait)
				ret->results.n = 0;
			break;
		case KERNEL_EVENT_COUNT:
			ret->execution_count = e->execution_count;
			ret->has_execution_count = true;
			break;
		}
	}
	return rows;
}

void kernel_reply_run(struct run *r, struct request *rq, const struct run_query *q)
{
	auto_output_excerpt out = OUTPUT_EXCERPT_INIT, err = OUTPUT_EXCERPT_INIT;
	struct run_info reply;
	/* kernel.run_get has a query of its own, and gets all results */
	uint64_t max = q == &r->output_query ? code_run_of(r)->reply_max : UINT64_MAX;

	session_run_describe(r, &reply);
	reply.kernel = r->session->id;
	if (q && (session_run_fill_outputs(r, q, &out, &err, &reply) < 0 ||
		  !code_run_describe(code_run_of(r), &rq->arena, &reply) ||
		  !kernel_limit_results(&reply, max, &rq->arena)))
		request_no_memory(rq);
	else
		request_reply_json(rq, &run_info_table, &reply);
}

static struct session *kernel_from_request(struct request *rq, void *arg)
{
	struct init *in = arg;

	return session_from_request(&in->kernels, rq);
}

void op_kernel_list(struct request *rq, void *arg)
{
	const struct init *in = arg;
	struct kernel_info *rows = arena_alloc(&rq->arena, KERNELS_MAX, sizeof(*rows));
	struct kernel_list reply = { .kernels.v = rows };

	if (!rows) {
		request_no_memory(rq);
		return;
	}
	for (const struct session *s = in->kernels.first; s; s = s->next)
		if (!s->deleted && s->was_ready)
			kernel_describe(s, &rows[reply.kernels.n++]);
	reply.has_loaded = kernel_parent_describe(in, &reply.loaded);
	request_reply_json(rq, &kernel_list_table, &reply);
}

void op_kernel_get(struct request *rq, void *arg)
{
	const struct session *s = kernel_from_request(rq, arg);

	if (s)
		kernel_reply_info(s, rq);
}

void op_kernel_delete(struct request *rq, void *arg)
{
	struct session *s = kernel_from_request(rq, arg);

	if (!s)
		return;
	kernel_reply_info(s, rq);
	session_delete(s);
}

/* The run's request to the runner, as JSON. */
static int code_run_write(const struct kernel_run *q, struct buf *out)
{
	struct jw w = jw_to(out);

	jw_object_begin(&w, NULL);
	jw_str(&w, "code", q->code);
	jw_bool(&w, "silent", q->silent);
	if (q->cwd)
		jw_str(&w, "cwd", q->cwd);
	jw_object_begin(&w, "env");
	for (size_t i = 0; i < q->env.n; i++)
		jw_str(&w, q->env.keys[i], q->env.values[i]);
	jw_end(&w);
	jw_end(&w);
	return jw_finish(&w);
}

/* False: replied. */
static bool kernel_start_if_ended(struct kernel *k, struct request *rq, bool *ret_restarted)
{
	struct session *s = &k->session;
	struct cay_err err = {};

	*ret_restarted = false;
	if (s->state != SESSION_ENDED)
		return true;
	if (k->restart || s->current_run || s->exec) {
		request_refuse(rq, CAY_E_STATE, "the kernel is ending: try again");
		return false;
	}
	if (kernel_start(k, NULL, &err) < 0) {
		request_fail(rq, &err);
		return false;
	}
	k->restarts++;
	*ret_restarted = true;
	return true;
}

/* False: replied. */
static bool kernel_submit_run(struct session *s, struct request *rq, const struct kernel_run *q,
			      bool restarted)
{
	auto_buf text = BUF_INIT(MIB(6));
	bool detach = q->detach;
	struct run *r;

	if (code_run_write(q, &text) < 0) {
		request_no_memory(rq);
		return false;
	}
	r = session_run_new(s, rq, text.data, q->timeout_ms,
			    &(struct run_query){ q->max_output_bytes, q->keep });
	if (!r)
		return false;
	r->range.event_name = kernel_event_name;
	r->range.event_write = kernel_event_write;
	code_run_of(r)->last_event = &r->range.events;
	code_run_of(r)->restarted = restarted;
	code_run_of(r)->reply_max = q->max_results_bytes;
	session_run_submit(r, rq, detach, output_stream_choose_form(rq->head, STREAM_WAIT));
	return true;
}

void op_kernel_run(struct request *rq, void *arg)
{
	struct session *s = kernel_from_request(rq, arg);
	bool restarted;

	if (s && kernel_start_if_ended(kernel_of(s), rq, &restarted))
		(void)kernel_submit_run(s, rq, rq->body, restarted);
}

/* The oldest of that name, even if it starts for the first time: a run waits for that. */
static struct session *kernel_find_named(struct sessions *list, const char *name,
					 const struct kernel_language *language)
{
	struct session *s = list->first;

	while (s && (s->deleted || kernel_of(s)->language != language || !str_eq(s->name, name)))
		s = s->next;
	return s;
}

/* A run in a new kernel, in the place of the one that has its name; that one stays if there can be
 * none. */
static void kernel_eval_in_new(struct init *in, struct request *rq, const char *name,
			       struct session *replaced)
{
	const struct kernel_eval *q = rq->body;
	struct kernel_create create = { .language = q->language, .name = name };
	struct kernel *k = kernel_open(in, &create, replaced, rq, false);

	if (!k)
		return;
	if (!kernel_submit_run(&k->session, rq, &q->run, replaced))
		replaced = &k->session;
	if (replaced)
		session_delete(replaced);
}

/* A run that is queued for a kernel that cannot start is replied to with the reason. */
void op_kernel_eval(struct request *rq, void *arg)
{
	struct init *in = arg;
	const struct kernel_eval *q = rq->body;
	struct cay_err err = {};
	const struct kernel_language *language = kernel_language_find(q->language, &err);
	const char *name = q->name || !language ? q->name : language->name;
	struct session *s = language ? kernel_find_named(&in->kernels, name, language) : NULL;
	bool restarted;

	if (!s || q->restart)
		kernel_eval_in_new(in, rq, name, s);
	else if (kernel_start_if_ended(kernel_of(s), rq, &restarted))
		(void)kernel_submit_run(s, rq, &q->run, restarted);
}

void op_kernel_runs(struct request *rq, void *arg)
{
	const struct session *s = kernel_from_request(rq, arg);

	if (s)
		session_reply_runs(s, rq);
}

void op_kernel_run_get(struct request *rq, void *arg)
{
	const struct session *s = kernel_from_request(rq, arg);
	struct run *r = s ? session_run_from_request(s, rq) : NULL;

	if (r)
		kernel_reply_run(r, rq, rq->query);
}

void op_kernel_output(struct request *rq, void *arg)
{
	struct session *s = kernel_from_request(rq, arg);

	if (s)
		session_reply_output(s, rq);
}

void op_kernel_interrupt(struct request *rq, void *arg)
{
	struct session *s = kernel_from_request(rq, arg);

	if (s)
		session_reply_interrupt(s, rq);
}
