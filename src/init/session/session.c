/* SPDX-License-Identifier: Apache-2.0 */
#include "init/session/session.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>

#include "init/core/memory.h"
#include "init/core/signals.h"
#include "init/exec/output-excerpt.h"

#define SETTLE_MS 2000 /* for output that was written when the run finished */

static uint64_t output_written_offset(const struct output *o)
{
	int n = 0;

	if (o->fd < 0 || ioctl(o->fd, FIONREAD, &n) < 0)
		n = 0;
	return output_end_offset(o) + (uint64_t)n;
}

void session_output_written(const struct session *s, uint64_t ret[static 2])
{
	for (int i = 0; i < 2; i++)
		ret[i] = output_written_offset(&s->out[i]);
}

static void session_run_free_text(struct run *r)
{
	if (!r->text)
		return;
	r->session->list->run_texts -= strlen(r->text);
	free(cay_take(r->text));
}

void session_run_free(struct run *r)
{
	session_run_free_text(r);
	if (r->session->kind->free_run)
		r->session->kind->free_run(r);
	free(r->cwd);
	free(r);
}

static void session_forget_old_runs(struct session *s)
{
	struct run **at = &s->first_run;

	while (s->n_ended > RUNS_KEPT && *at) {
		struct run *r = *at;

		if (r->state != RUN_ENDED || r->range.users || r->rq) {
			at = &r->next;
			continue;
		}
		*at = r->next;
		s->n_ended--;
		if (s->last_run == r) {
			s->last_run = s->first_run;
			while (s->last_run && s->last_run->next)
				s->last_run = s->last_run->next;
		}
		session_run_free(r);
	}
}

static void session_run_finish(struct run *r)
{
	struct request *rq = cay_take(r->rq);
	struct session *s = r->session;

	r->state = RUN_ENDED;
	r->ended_ns = clk_wall_ns(s->init->clk);
	r->range.finished = true;
	session_run_free_text(r);
	s->n_ended++;
	if (rq) {
		rq->events = NULL;
		s->kind->reply_run(r, rq, &r->output_query);
	}
}

/* It is queued, and will not run. */
static void session_run_cancel_queued(struct run *r, const char *why)
{
	struct session *s = r->session;

	s->n_queued--;
	r->end = (struct end){ .reason = END_KILLED, .detail = why };
	end_judge(&r->end, END_OF_PROCESS);
	if (s->end.has_blame) /* it would have run, had the session not ended */
		end_judge_as(&r->end, s->end.blame);
	for (int i = 0; i < 2; i++)
		r->output_start[i] = r->range.output_end[i] = output_end_offset(&s->out[i]);
	session_run_finish(r);
}

void session_complete(struct session *s)
{
	for (struct run *r = s->first_run; r; r = r->next)
		if (r->state == RUN_QUEUED)
			session_run_cancel_queued(r, s->kind->no_run);
	for (int i = 0; i < 2; i++) {
		s->out[i].complete = !s->kind->can_restart || s->deleted;
		output_notify_readers(&s->out[i]);
	}
	if (s->kind->after_end)
		s->kind->after_end(s);
}

static void session_finish_current_run(struct session *s)
{
	struct run *r = cay_take(s->current_run);
	bool stopped = s->stop_step;

	(void)uv_timer_stop(&s->timer);
	s->settling = false;
	s->stop_step = 0;
	s->timed_out = false;
	session_run_finish(r);
	for (int i = 0; i < 2; i++)
		output_notify_readers(&s->out[i]);
	session_forget_old_runs(s);
	if (s->state == SESSION_ENDED)
		session_complete(s);
	else
		s->kind->after_run(s, stopped);
}

static bool session_output_is_settled(const struct session *s)
{
	return output_end_offset(&s->out[0]) >= s->current_run->range.output_end[0] &&
	       output_end_offset(&s->out[1]) >= s->current_run->range.output_end[1];
}

static void on_session_settle_timer(uv_timer_t *t)
{
	struct session *s = t->data;

	if (!s->settling)
		return;
	for (int i = 0; i < 2; i++) /* another process inside may have read it first */
		if (s->current_run->range.output_end[i] > output_end_offset(&s->out[i]))
			s->current_run->range.output_end[i] = output_end_offset(&s->out[i]);
	session_finish_current_run(s);
}

/* Not from inside an output's loop over its readers. */
void on_session_output_watch(struct output_reader *w)
{
	struct session *s = w->data;

	if (s->settling && session_output_is_settled(s))
		(void)uv_timer_start(&s->timer, on_session_settle_timer, 0, 0);
}

/* Its output does not wait for the client of the current run any more.  The rest in the pipes fits
 * in the half of a ring that is free while it waits. */
static void session_release_output(struct session *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->out); i++)
		output_set_awaited_reader(&s->out[i], NULL);
}

void session_stop_run(struct session *s)
{
	session_release_output(s); /* what it does to end must not wait for a client */
	s->kind->stop_run(s);
}

void session_settle_run(struct session *s)
{
	(void)uv_timer_stop(&s->timer);
	s->settling = true;
	session_release_output(s);
	session_output_written(s, s->current_run->range.output_end);
	if (session_output_is_settled(s))
		session_finish_current_run(s);
	else
		(void)uv_timer_start(&s->timer, on_session_settle_timer, SETTLE_MS, 0);
}

void session_run_judge(struct run *r, int exit_code)
{
	struct session *s = r->session;
	struct memory_kills now = memory_count_kills(&s->init->memory);
	uint64_t kills = now.oom - r->kills_before.oom;
	int n;

	r->end = (struct end){ .reason = END_EXIT,
			       .has_exit_code = true,
			       .exit_code = (unsigned)exit_code };
	if (s->stop_step) {
		r->end = (struct end){ .reason = s->timed_out ? END_TIMEOUT : END_SIGNAL };
		signal_format(SIGINT, r->signal_name);
		r->end.signal = r->signal_name;
	} else if (kills) {
		n = snprintf(r->detail, sizeof(r->detail),
			     "processes killed for memory meanwhile: %llu",
			     (unsigned long long)kills);
		r->end.detail = n > 0 ? r->detail : NULL;
	}
	end_judge(&r->end, END_OF_PROCESS);
	if (s->stop_step && !s->timed_out) /* the client's interrupt */
		end_judge_as(&r->end, BLAME_CALLER);
	else if (kills && !s->stop_step && r->end.exit_code)
		end_judge_as(&r->end,
			     memory_reached_own_limit(&s->init->memory, &r->kills_before, &now)
				     ? BLAME_LIMIT
				     : BLAME_INFRA);
	r->cwd = s->cwd ? strdup(s->cwd) : NULL;
}

static void on_session_run_timeout(uv_timer_t *t)
{
	struct session *s = t->data;

	s->timed_out = true;
	session_stop_run(s);
}

static void session_run_begin(struct run *r)
{
	struct session *s = r->session;
	struct request *rq;

	s->current_run = r;
	s->n_queued--;
	r->state = RUN_RUNNING;
	r->started_ns = clk_wall_ns(s->init->clk);
	r->born_ticks = clk_boot_ns(s->init->clk) / (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
	r->last_pid = proc_last_pid();
	r->kills_before = memory_count_kills(&s->init->memory);
	session_output_written(s, r->output_start);
	for (int i = 0; i < 2; i++) /* an earlier process may have made it non-blocking */
		(void)fcntl(s->output_write_fds[i], F_SETFL, 0);
	if (r->rq && r->form != STREAM_WAIT) {
		rq = cay_take(r->rq);
		rq->events = NULL;
		output_stream_reply_session_run(s->out, r->output_start, &r->range, rq, r->form);
	}
	if (r->timeout_ms)
		(void)uv_timer_start(&s->timer, on_session_run_timeout, r->timeout_ms, 0);
}

void session_start_next_run(struct session *s)
{
	struct run *r = s->first_run;

	if (s->state == SESSION_STARTING || s->state == SESSION_ENDED || s->current_run || s->held)
		return;
	while (r && r->state != RUN_QUEUED)
		r = r->next;
	s->state = r ? SESSION_BUSY : SESSION_IDLE;
	if (!r)
		return;
	session_run_begin(r);
	s->kind->start_run(s);
}

struct run *session_find_run(const struct session *s, uint64_t number)
{
	struct run *r = s->first_run;

	while (r && r->number != number)
		r = r->next;
	return r;
}

static void on_session_run_client_left(void *arg)
{
	struct run *r = arg;
	struct session *s = r->session;

	if (!r->stop_with_client)
		return;
	if (r == s->current_run && !s->stop_step)
		session_stop_run(s);
	if (r->state != RUN_QUEUED)
		return;
	session_run_cancel_queued(r, "the client left before the run started");
	session_forget_old_runs(s);
}

static void on_session_run_waiter_gone(struct request *rq)
{
	struct run *r = rq->data;

	r->rq = NULL;
	on_session_run_client_left(r);
}

static void session_queue_append_run(struct session *s, struct run *r)
{
	r->number = ++s->last_number;
	r->range.end = &r->end;
	r->range.on_client_left = on_session_run_client_left;
	r->range.arg = r;
	*(s->last_run ? &s->last_run->next : &s->first_run) = r;
	s->last_run = r;
	s->n_queued++;
}

struct run *session_run_new(struct session *s, struct request *rq, const char *text,
			    uint64_t timeout_ms, const struct run_query *part)
{
	size_t most = output_excerpt_max(s->init);
	struct run *r;

	if (s->n_queued >= RUNS_QUEUED || s->list->run_texts + strlen(text) > RUN_TEXTS_MAX) {
		request_failf(rq, CAY_E_LIMIT, "too many runs are queued for this %s",
			      s->kind->noun);
		return NULL;
	}
	r = calloc(1, s->kind->run_size);
	if (r)
		r->text = strdup(text);
	if (!r || !r->text) {
		free(r);
		request_no_memory(rq);
		return NULL;
	}
	r->session = s;
	s->list->run_texts += strlen(r->text);
	r->timeout_ms = timeout_ms;
	r->output_query = *part;
	if (r->output_query.max_output_bytes > most)
		r->output_query.max_output_bytes = most;
	return r;
}

void session_run_submit(struct run *r, struct request *rq, bool detach,
			enum output_stream_form form)
{
	static const struct request_events events = { .gone = on_session_run_waiter_gone };
	struct session *s = r->session;
	char number[24];
	int n;

	request_free_body(rq);
	for (size_t i = 0; i < ARRAY_SIZE(s->out); i++)
		output_keep_excerpt(&s->out[i], &r->output_query);
	r->form = form;
	r->stop_with_client = http_prefers(rq->head, HTTP_END_WITH_CALLER);
	session_queue_append_run(s, r);
	n = snprintf(number, sizeof(number), "%llu", (unsigned long long)r->number);
	assert(n > 0 && (size_t)n < sizeof(number));
	(void)request_add_reply_header(rq, "Cay-Run", number);
	if (!detach) {
		r->rq = rq;
		rq->data = r;
		rq->events = &events;
	}
	session_start_next_run(s);
	if (detach)
		s->kind->reply_run(r, rq, NULL);
}
