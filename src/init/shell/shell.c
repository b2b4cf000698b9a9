/* SPDX-License-Identifier: Apache-2.0 */
#include "init/shell/shell.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/random.h>

#include "init/core/memory.h"
#include "init/core/signals.h"
#include "init/exec/output-excerpt.h"
#include "text/hex.h"

#define SETTLE_MS 2000  /* for output that was written when the run finished */
#define RESTORE_MS 5000 /* for the state a stopped run may have changed */

static void shell_start_next_run(struct shell *s);
static void shell_write_script_page(struct shell *s);

static uint64_t output_written_offset(const struct output *o)
{
	int n = 0;

	if (o->fd < 0 || ioctl(o->fd, FIONREAD, &n) < 0)
		n = 0;
	return output_end_offset(o) + (uint64_t)n;
}

static void shell_forget_old_runs(struct shell *s)
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
		shell_run_free(r);
	}
}

void shell_run_free_text(struct run *r)
{
	if (!r->text)
		return;
	r->shell->init->shells.run_texts -= strlen(r->text);
	free(cay_take(r->text));
}

static void shell_run_finish(struct run *r)
{
	struct request *rq = cay_take(r->rq);
	struct shell *s = r->shell;

	r->state = RUN_ENDED;
	r->ended_ns = clk_wall_ns(s->init->clk);
	r->range.finished = true;
	shell_run_free_text(r);
	s->n_ended++;
	if (rq) {
		rq->events = NULL;
		shell_run_reply(r, rq, &r->output_query);
	}
}

/* It is queued, and will not run. */
static void shell_run_cancel_queued(struct run *r, const char *why)
{
	struct shell *s = r->shell;

	s->n_queued--;
	r->end = (struct end){ .reason = END_KILLED, .detail = why };
	end_judge(&r->end, END_OF_PROCESS);
	if (s->end.has_blame) /* it would have run, had the shell not ended */
		end_judge_as(&r->end, s->end.blame);
	for (int i = 0; i < 2; i++)
		r->output_start[i] = r->range.output_end[i] = output_end_offset(&s->out[i]);
	shell_run_finish(r);
}

void shell_complete(struct shell *s)
{
	for (struct run *r = s->first_run; r; r = r->next)
		if (r->state == RUN_QUEUED)
			shell_run_cancel_queued(r, "the shell ended before the run started");
	for (int i = 0; i < 2; i++) {
		s->out[i].complete = true;
		output_notify_readers(&s->out[i]);
	}
}

static void shell_finish_current_run(struct shell *s)
{
	struct run *r = cay_take(s->current_run);
	bool stopped = s->stop_step;

	(void)uv_timer_stop(&s->timer);
	s->phase = SHELL_PHASE_NONE;
	s->stop_step = 0;
	s->timed_out = false;
	shell_run_finish(r);
	for (int i = 0; i < 2; i++)
		output_notify_readers(&s->out[i]);
	shell_forget_old_runs(s);
	if (s->state == SHELL_ENDED) {
		shell_complete(s);
		return;
	}
	s->phase = stopped ? SHELL_PHASE_RESTORE : SHELL_PHASE_NONE;
	shell_start_next_run(s);
}

static bool shell_output_is_settled(const struct shell *s)
{
	return output_end_offset(&s->out[0]) >= s->current_run->range.output_end[0] &&
	       output_end_offset(&s->out[1]) >= s->current_run->range.output_end[1];
}

static void on_shell_settle_timer(uv_timer_t *t)
{
	struct shell *s = t->data;

	if (s->phase != SHELL_PHASE_SETTLE)
		return;
	for (int i = 0; i < 2; i++) /* another process inside may have read it first */
		if (s->current_run->range.output_end[i] > output_end_offset(&s->out[i]))
			s->current_run->range.output_end[i] = output_end_offset(&s->out[i]);
	shell_finish_current_run(s);
}

/* Not from inside an output's loop over its readers. */
void on_shell_output_watch(struct output_reader *w)
{
	struct shell *s = w->data;

	if (s->phase == SHELL_PHASE_SETTLE && shell_output_is_settled(s))
		(void)uv_timer_start(&s->timer, on_shell_settle_timer, 0, 0);
}

void shell_settle_run(struct shell *s)
{
	struct run *r = s->current_run;

	(void)uv_timer_stop(&s->timer);
	s->phase = SHELL_PHASE_SETTLE;
	for (int i = 0; i < 2; i++)
		r->range.output_end[i] = output_written_offset(&s->out[i]);
	if (shell_output_is_settled(s))
		shell_finish_current_run(s);
	else
		(void)uv_timer_start(&s->timer, on_shell_settle_timer, SETTLE_MS, 0);
}

static void shell_run_end_from_report(struct shell *s)
{
	struct run *r = s->current_run;
	struct memory_kills now = memory_count_kills(&s->init->memory);
	uint64_t kills = now.oom - r->kills_before.oom;
	int n;

	r->end = (struct end){ .reason = END_EXIT,
			       .has_exit_code = true,
			       .exit_code = s->report.status };
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
	shell_settle_run(s);
}

void shell_end_script(struct shell *s, const char *why)
{
	if (!s->ended_why)
		s->ended_why = why;
	s->report.nonce[0] = 0;
	shell_close_script(s);
}

static void shell_kill_flooded(struct shell *s)
{
	shell_end_script(s, "too many bytes on its report channel");
	shell_close_report(s);
	if (s->exec)
		exec_kill(s->exec);
}

/* A long one is freed: a shell may wait for its next run for hours. */
static void shell_clear_script(struct shell *s)
{
	buf_fini(&s->script);
	s->script = BUF_INIT(SCRIPT_MAX);
	s->script_written = 0;
}

void shell_write_script(struct shell *s, enum shell_phase phase, bool eval)
{
	char nonce[SCRIPT_NONCE + 1];
	uint8_t chance[SCRIPT_NONCE / 2];
	struct slice text = s->current_run ? slice_of(s->current_run->text) : (struct slice){};
	int r = getrandom(chance, sizeof(chance), 0) == (ssize_t)sizeof(chance) ? 0 : -EIO;

	hex_encode(chance, sizeof(chance), nonce);
	s->phase = phase;
	shell_report_expect(&s->report, nonce);
	shell_clear_script(s);
	if (r >= 0 && phase == SHELL_PHASE_START)
		r = script_append_start(&s->script, nonce, s->cwd);
	else if (r >= 0 && phase == SHELL_PHASE_CHECK)
		r = script_append_check(&s->script, nonce, text);
	else if (r >= 0 && phase == SHELL_PHASE_RUN)
		r = script_append_run(&s->script, nonce, text, eval);
	else if (r >= 0)
		r = script_append_restore(&s->script, nonce);
	if (r < 0)
		shell_end_script(s, "no memory for its script");
	else
		shell_write_script_page(s);
}

static void shell_handle_report(struct shell *s)
{
	char *cwd = s->report.cwd.n ? strndup(s->report.cwd.p, s->report.cwd.n) : NULL;

	if (cwd && s->phase != SHELL_PHASE_CHECK) {
		free(s->cwd);
		s->cwd = cay_take(cwd);
	}
	free(cwd);
	switch (s->phase) {
	case SHELL_PHASE_START:
		(void)uv_timer_stop(&s->timer);
		s->state = SHELL_IDLE;
		s->phase = SHELL_PHASE_NONE;
		shell_reply_create(s, NULL);
		shell_start_next_run(s);
		break;
	case SHELL_PHASE_CHECK:
		shell_write_script(s, SHELL_PHASE_RUN, s->report.status != 0);
		break;
	case SHELL_PHASE_RUN:
		shell_run_end_from_report(s);
		break;
	case SHELL_PHASE_RESTORE:
		(void)uv_timer_stop(&s->timer);
		s->phase = SHELL_PHASE_NONE;
		shell_start_next_run(s);
		break;
	case SHELL_PHASE_NONE:
	case SHELL_PHASE_SETTLE:
		break;
	}
}

static void shell_read_report(struct shell *s)
{
	char bytes[KIB(8)];
	enum shell_report_result said;
	ssize_t n;

	if (s->report_fd < 0)
		return;
	n = read(s->report_fd, bytes, sizeof(bytes));
	if (n < 0)
		return;
	if (n == 0) {
		shell_close_report(s); /* bash ends, or every process closed it */
		return;
	}
	said = shell_report_add_bytes(&s->report, bytes, (size_t)n);
	if (said == SHELL_REPORT_COMPLETE)
		shell_handle_report(s);
	else if (said == SHELL_REPORT_BROKEN)
		shell_kill_flooded(s);
}

void on_shell_report_readable(uv_poll_t *p, int, int)
{
	shell_read_report(p->data);
}

/* The pipe is empty: bash has read everything and waits for more. */
static void shell_check_script_drained(struct shell *s)
{
	char was[sizeof(s->report.nonce)]; /* a report may begin the next script at once */

	memcpy(was, s->report.nonce, sizeof(was));
	for (int i = 0; i < 32 && was[0] && s->report_fd >= 0; i++) {
		int n = 0;

		if (ioctl(s->report_fd, FIONREAD, &n) < 0 || n <= 0)
			break;
		shell_read_report(s);
		if (memcmp(was, s->report.nonce, sizeof(was)) != 0)
			return;
	}
	if (s->script_writing && !s->script.len && was[0])
		shell_end_script(s, "it waits for input without having reported the run");
}

static void on_shell_script_writable(uv_poll_t *p, int status, int)
{
	struct shell *s = p->data;

	(void)uv_poll_stop(p);
	s->script_writing = s->script_writing && status >= 0;
	if (s->script_writing && !s->script.len)
		shell_check_script_drained(s);
	if (s->script.len && s->script_fd >= 0)
		shell_write_script_page(s);
}

/* Written when the one slot of the pipe is free: then it polls as writable. */
static void shell_write_script_page(struct shell *s)
{
	size_t left = s->script.len - s->script_written;
	size_t n = left < SCRIPT_PAGE ? left : SCRIPT_PAGE;
	ssize_t put =
		s->script_fd < 0 ? -1 : write(s->script_fd, s->script.data + s->script_written, n);

	if (put < 0 && (s->script_fd < 0 || (errno != EAGAIN && errno != EINTR))) {
		/* bash was replaced by exec, or ends: on_shell_exit() follows */
		shell_close_script(s);
		return;
	}
	s->script_written += put > 0 ? (size_t)put : 0;
	if (s->script_written == s->script.len)
		shell_clear_script(s);
	s->script_writing = true;
	(void)uv_poll_start(&s->script_poll, UV_WRITABLE, on_shell_script_writable);
}

static void on_shell_run_timeout(uv_timer_t *t)
{
	struct shell *s = t->data;

	s->timed_out = true;
	shell_stop_run(s);
}

/* It runs commands that the user may have redefined. */
static void on_shell_restore_timeout(uv_timer_t *t)
{
	struct shell *s = t->data;

	shell_end_script(s, "its state could not be restored after a stopped run");
	if (s->exec)
		exec_kill(s->exec);
}

static void shell_start_next_run(struct shell *s)
{
	struct run *r = s->first_run;
	struct request *rq;

	if (s->state == SHELL_ENDED || s->current_run || s->phase != SHELL_PHASE_NONE) {
		if (s->state != SHELL_ENDED && s->phase == SHELL_PHASE_RESTORE &&
		    !s->report.nonce[0]) {
			(void)uv_timer_start(&s->timer, on_shell_restore_timeout, RESTORE_MS, 0);
			shell_write_script(s, SHELL_PHASE_RESTORE, false);
		}
		return;
	}
	while (r && r->state != RUN_QUEUED)
		r = r->next;
	s->state = r ? SHELL_BUSY : SHELL_IDLE;
	if (!r)
		return;
	s->current_run = r;
	s->n_queued--;
	r->state = RUN_RUNNING;
	r->started_ns = clk_wall_ns(s->init->clk);
	r->born_ticks = clk_boot_ns(s->init->clk) / (NS_PER_S / (uint64_t)sysconf(_SC_CLK_TCK));
	r->last_pid = proc_last_pid();
	r->kills_before = memory_count_kills(&s->init->memory);
	for (int i = 0; i < 2; i++) {
		r->output_start[i] = output_written_offset(&s->out[i]);
		/* an earlier process may have made it non-blocking */
		(void)fcntl(s->output_write_fds[i], F_SETFL, 0);
	}
	if (r->rq && r->form != STREAM_WAIT) {
		rq = cay_take(r->rq);
		rq->events = NULL;
		output_stream_reply_shell_run(s->out, r->output_start, &r->range, rq, r->form);
	}
	if (r->timeout_ms)
		(void)uv_timer_start(&s->timer, on_shell_run_timeout, r->timeout_ms, 0);
	shell_write_script(
		s, script_text_is_plain(slice_of(r->text)) ? SHELL_PHASE_RUN : SHELL_PHASE_CHECK,
		false);
}

struct run *shell_run_find(const struct shell *s, uint64_t number)
{
	struct run *r = s->first_run;

	while (r && r->number != number)
		r = r->next;
	return r;
}

static void on_shell_run_client_left(void *arg)
{
	struct run *r = arg;
	struct shell *s = r->shell;

	if (!r->stop_with_client)
		return;
	if (r == s->current_run && !s->stop_step)
		shell_stop_run(s);
	if (r->state != RUN_QUEUED)
		return;
	shell_run_cancel_queued(r, "the client left before the run started");
	shell_forget_old_runs(s);
}

static void on_shell_run_waiter_gone(struct request *rq)
{
	struct run *r = rq->data;

	r->rq = NULL;
	on_shell_run_client_left(r);
}

static void shell_queue_append_run(struct shell *s, struct run *r)
{
	r->number = ++s->last_number;
	r->range.end = &r->end;
	r->range.on_client_left = on_shell_run_client_left;
	r->range.arg = r;
	*(s->last_run ? &s->last_run->next : &s->first_run) = r;
	s->last_run = r;
	s->n_queued++;
}

static struct run *shell_run_new(struct shell *s, const struct shell_run *q)
{
	size_t most = output_excerpt_max(s->init);
	struct run *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->shell = s;
	r->text = strdup(q->command);
	if (!r->text) {
		free(r);
		return NULL;
	}
	s->init->shells.run_texts += strlen(r->text);
	r->timeout_ms = q->timeout_ms;
	r->output_query =
		(struct run_query){ q->max_output_bytes < most ? q->max_output_bytes : most,
				    q->keep };
	return r;
}

void shell_run_submit(struct shell *s, struct request *rq, const struct shell_run *q,
		      enum output_stream_form form)
{
	static const struct request_events events = { .gone = on_shell_run_waiter_gone };
	bool detach = q->detach;
	struct run *r;
	struct run_info reply;
	char number[24];
	int n;

	if (s->state == SHELL_ENDED || s->script_fd < 0) {
		request_refuse(rq, CAY_E_STATE, "the shell has ended");
		return;
	}
	if (s->n_queued >= RUNS_QUEUED ||
	    s->init->shells.run_texts + strlen(q->command) > RUN_TEXTS_MAX) {
		request_refuse(rq, CAY_E_LIMIT, "too many runs are queued for this shell");
		return;
	}
	r = shell_run_new(s, q);
	if (!r) {
		request_no_memory(rq);
		return;
	}
	request_free_body(rq);
	for (size_t i = 0; i < ARRAY_SIZE(s->out); i++)
		output_keep_excerpt(&s->out[i], &r->output_query);
	r->form = form;
	r->stop_with_client = http_prefers(rq->head, HTTP_END_WITH_CALLER);
	shell_queue_append_run(s, r);
	n = snprintf(number, sizeof(number), "%llu", (unsigned long long)r->number);
	assert(n > 0 && (size_t)n < sizeof(number));
	(void)request_add_reply_header(rq, "Cay-Run", number);
	if (!detach) {
		r->rq = rq;
		rq->data = r;
		rq->events = &events;
	}
	shell_start_next_run(s);
	if (!detach)
		return;
	shell_run_describe(r, &reply);
	request_reply_json(rq, &run_info_table, &reply);
}
