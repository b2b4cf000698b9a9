/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>

#include "init/exec/pipes.h"
#include "init/session/session.h"

void on_session_handle_closed(uv_handle_t *h)
{
	struct session *s = h->data;

	if (--s->handles == 0)
		free(s);
}

static void on_session_output_closed(uv_handle_t *h)
{
	struct output *o = h->data;
	struct session *s = o->data;

	if (--s->handles == 0)
		free(s);
}

void session_free(struct session *s)
{
	struct session **at = &s->list->first;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	s->list->n--;
	while (s->first_run) {
		struct run *r = s->first_run;

		s->first_run = r->next;
		session_run_free(r);
	}
	s->kind->fini(s);
	free(s->cwd);
	for (int i = 0; i < 2; i++) {
		output_remove_reader(&s->watchers[i]);
		output_close(&s->out[i]);
		if (s->output_write_fds[i] >= 0)
			(void)close(s->output_write_fds[i]);
	}
	uv_close((uv_handle_t *)&s->timer, on_session_handle_closed);
}

static bool session_is_in_use(const struct session *s)
{
	if (s->exec || s->current_run || s->create_request)
		return true;
	for (const struct run *r = s->first_run; r; r = r->next)
		if (r->range.users || r->rq)
			return true;
	/* the session's own reader is always there */
	for (int i = 0; i < 2; i++)
		if (s->out[i].pumping || (s->out[i].readers && s->out[i].readers->next))
			return true;
	return false;
}

/* Those that are not deleted; one that is to be replaced is not counted. */
static unsigned sessions_count(const struct sessions *list, const struct session *replaced)
{
	unsigned n = 0;

	for (const struct session *s = list->first; s; s = s->next)
		n += !s->deleted && s != replaced;
	return n;
}

/* Free deleted ones that no client reads; for a new one, when all places are taken, those that
 * ended. */
static void sessions_sweep(struct sessions *list, bool make_room, const struct session *replaced)
{
	struct session *s = list->first;

	while (s) {
		struct session *next = s->next;

		if (s->state == SESSION_ENDED && s != replaced && !session_is_in_use(s) &&
		    (s->deleted || (make_room && sessions_count(list, replaced) >= s->kind->max)))
			session_free(s);
		s = next;
	}
}

bool session_reclaim_output(struct sessions *list)
{
	for (struct session *s = list->first; s; s = s->next)
		if (s->state == SESSION_ENDED && !session_is_in_use(s) &&
		    (s->out[0].ring.cap || s->out[1].ring.cap)) {
			ring_free_data(&s->out[0].ring);
			ring_free_data(&s->out[1].ring);
			return true;
		}
	return false;
}

struct session *session_add(const struct session_kind *kind, struct init *in, struct sessions *list,
			    const char *name, const struct session *replaced, struct request *rq)
{
	const struct id *sandbox = &rq->match.params[0];
	struct session *s, **at;
	int n;

	sessions_sweep(list, true, replaced);
	if (sessions_count(list, replaced) >= kind->max || list->n >= 2 * kind->max) {
		request_failf(rq, CAY_E_LIMIT, "too many %ss are open", kind->noun);
		return NULL;
	}
	s = calloc(1, kind->size);
	if (!s) {
		request_no_memory(rq);
		return NULL;
	}
	if (id_generate(kind->id_noun, id_cell(sandbox), id_node(sandbox), &s->id) < 0) {
		request_failf(rq, CAY_E_INTERNAL, "cannot generate an id");
		free(s);
		return NULL;
	}
	s->kind = kind;
	s->init = in;
	s->list = list;
	s->output_write_fds[0] = s->output_write_fds[1] = -EBADF;
	s->out[0].fd = s->out[1].fd = -EBADF;
	s->created_ns = clk_wall_ns(in->clk);
	(void)uv_timer_init(&in->loop, &s->timer);
	s->timer.data = s;
	s->handles = 1;
	for (at = &list->first; *at; at = &(*at)->next)
		;
	*at = s;
	list->n++;
	n = snprintf(s->name, sizeof(s->name), "%s", name ? name : "");
	assert(n >= 0 && (size_t)n < sizeof(s->name));
	return s;
}

static void on_session_output_complete(struct output *)
{
	/* on_session_exit() completes an output */
}

int session_open_outputs(struct session *s)
{
	for (int i = 0; i < 2; i++) {
		int fds[2] = { -EBADF, -EBADF };
		int r = pipe_create(fds, 0);

		if (r < 0)
			return r;
		s->output_write_fds[i] = fds[1];
		r = output_init(&s->out[i], &s->init->loop, fds[0], OUTPUT_DROP, &s->init->budget);
		s->out[i].data = s;
		s->out[i].poll.data = &s->out[i];
		s->out[i].on_complete = on_session_output_complete;
		s->out[i].on_closed = on_session_output_closed;
		s->handles += s->out[i].open;
		if (r < 0)
			return r;
		s->watchers[i] = (struct output_reader){ .greedy = true,
							 .on_more = on_session_output_watch,
							 .data = s };
		output_add_reader(&s->out[i], &s->watchers[i], 0);
		output_start(&s->out[i]);
	}
	return 0;
}

void session_reply_start(struct session *s, const struct cay_err *err)
{
	struct request *rq = cay_take(s->create_request);

	if (rq)
		rq->events = NULL;
	if (rq && err)
		request_fail(rq, err);
	else if (rq)
		s->kind->reply_info(s, rq);
}

void session_ready(struct session *s)
{
	(void)uv_timer_stop(&s->timer);
	s->state = SESSION_IDLE;
	s->was_ready = true;
	s->held = false;
	session_reply_start(s, NULL);
	session_start_next_run(s);
}

/* It did not become ready.  One that was before stays, to be started again; of one that was not,
 * the clients that wait for runs get the reason. */
static void session_fail_start(struct session *s, const struct cay_err *err)
{
	s->deleted = s->deleted || !s->was_ready;
	session_reply_start(s, err);
	for (struct run *r = s->first_run; r && !s->was_ready; r = r->next) {
		struct request *rq = cay_take(r->rq);

		if (rq) {
			rq->events = NULL;
			request_fail(rq, err);
		}
	}
}

static void session_close_outputs(struct session *s)
{
	for (int i = 0; i < 2; i++)
		if (s->output_write_fds[i] >= 0)
			(void)close(cay_take_fd(&s->output_write_fds[i]));
}

static void on_session_exit(struct exec *exec, void *arg)
{
	struct session *s = arg;
	bool started = s->state != SESSION_STARTING;
	struct run *r = s->current_run;
	struct cay_err err = {};

	exec_end_copy(exec, &s->end, s->signal_name, s->detail);
	s->exec = NULL;
	s->state = SESSION_ENDED;
	s->kind->after_exit(s);
	if (!started && s->kind->start_again && s->kind->start_again(s))
		return;
	if (!started) {
		(void)uv_timer_stop(&s->timer);
		s->kind->explain_failed_start(s, &err);
		session_fail_start(s, &err);
	}
	if (r && !s->settling) {
		exec_end_copy(exec, &r->end, r->signal_name, r->detail);
		if (s->ended_why && !r->end.detail)
			r->end.detail = s->ended_why;
		if (s->timed_out) {
			r->end.reason = END_TIMEOUT;
			end_judge(&r->end, END_OF_PROCESS);
		}
		session_settle_run(s);
	} else if (!r) {
		(void)uv_timer_stop(&s->timer); /* of a shell that restored its state */
		session_complete(s);
	}
	/* other writers are gone or about to end */
	if (!s->kind->can_restart || s->deleted)
		session_close_outputs(s);
}

static void on_session_start_timeout(uv_timer_t *t)
{
	struct session *s = t->data;

	session_kill(s, s->kind->unstarted_why);
}

static void on_session_start_client_gone(struct request *rq)
{
	struct session *s = rq->data;

	s->create_request = NULL;
}

int session_start(struct session *s, const struct exec_run *req, struct exec_internal *own,
		  uint64_t timeout_ms, struct request *rq, struct cay_err *err)
{
	static const struct request_events events = { .gone = on_session_start_client_gone };
	int r;

	own->output_fd = s->output_write_fds[0];
	own->stderr_fd = s->output_write_fds[1];
	own->separate_stderr = true;
	own->on_ended = on_session_exit;
	own->arg = s;
	r = exec_start_internal(s->init, req, own, &s->exec, err);
	if (r < 0)
		return r;
	s->state = SESSION_STARTING;
	s->ended_why = NULL;
	s->end = (struct end){};
	s->create_request = rq;
	if (rq) {
		rq->data = s;
		rq->events = &events;
	}
	(void)uv_timer_start(&s->timer, on_session_start_timeout, timeout_ms, 0);
	return 0;
}

void session_exec_failed(struct session *s, const struct cay_err *err)
{
	s->exec = NULL;
	s->state = SESSION_ENDED;
	(void)uv_timer_stop(&s->timer);
	s->kind->after_exit(s);
	session_fail_start(s, err);
	session_complete(s);
}

void session_kill(struct session *s, const char *why)
{
	if (!s->ended_why)
		s->ended_why = why;
	if (s->exec)
		exec_kill(s->exec);
}

void session_delete(struct session *s)
{
	s->deleted = true;
	session_kill(s, s->kind->deleted_why);
	if (!s->exec) {
		session_complete(s);
		session_close_outputs(s);
	}
	sessions_sweep(s->list, false, NULL);
}

struct session *session_find(struct sessions *list, const struct id *id)
{
	sessions_sweep(list, false, NULL);
	for (struct session *s = list->first; s; s = s->next)
		if (id_eq(&s->id, id) && !s->deleted && s->was_ready)
			return s;
	return NULL;
}
