/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "init/core/handlers.h"
#include "init/exec/pipes.h"
#include "init/shell/shell.h"

#define OPEN_MS 20000

static void on_shell_handle_closed(uv_handle_t *h)
{
	struct shell *s = h->data;

	if (--s->handles == 0)
		free(s);
}

static void on_shell_output_closed(uv_handle_t *h)
{
	struct output *o = h->data;
	struct shell *s = o->data;

	if (--s->handles == 0)
		free(s);
}

/* The handle before its fd: see output.c. */
void shell_close_script(struct shell *s)
{
	if (s->script_open)
		uv_close((uv_handle_t *)&s->script_poll, on_shell_handle_closed);
	s->script_open = s->script_writing = false;
	buf_fini(&s->script);
	if (s->script_fd >= 0)
		(void)close(cay_take_fd(&s->script_fd));
}

void shell_close_report(struct shell *s)
{
	if (s->report_open)
		uv_close((uv_handle_t *)&s->report_poll, on_shell_handle_closed);
	s->report_open = false;
	if (s->report_fd >= 0)
		(void)close(cay_take_fd(&s->report_fd));
}

void shell_run_free(struct run *r)
{
	shell_run_free_text(r);
	free(r->cwd);
	free(r);
}

static void shell_free(struct shell *s)
{
	struct shell **at = &s->init->shells.first;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	s->init->shells.n--;
	while (s->first_run) {
		struct run *r = s->first_run;

		s->first_run = r->next;
		shell_run_free(r);
	}
	shell_close_script(s);
	shell_close_report(s);
	free(s->cwd);
	for (int i = 0; i < 2; i++) {
		output_remove_reader(&s->watchers[i]);
		output_close(&s->out[i]);
		if (s->output_write_fds[i] >= 0)
			(void)close(s->output_write_fds[i]);
	}
	uv_close((uv_handle_t *)&s->timer, on_shell_handle_closed);
}

static bool shell_is_in_use(const struct shell *s)
{
	if (s->exec || s->current_run || s->create_request)
		return true;
	for (const struct run *r = s->first_run; r; r = r->next)
		if (r->range.users || r->rq)
			return true;
	/* the shell's own reader is always there */
	for (int i = 0; i < 2; i++)
		if (s->out[i].pumping || (s->out[i].readers && s->out[i].readers->next))
			return true;
	return false;
}

/* Free deleted shells that no client reads; when all places are taken, the oldest that ended. */
static void shells_sweep(struct init *in)
{
	struct shell *s = in->shells.first;

	while (s) {
		struct shell *next = s->next;

		if (s->state == SHELL_ENDED && !shell_is_in_use(s) &&
		    (s->deleted || in->shells.n >= SHELLS_MAX))
			shell_free(s);
		s = next;
	}
}

bool shell_reclaim_output(struct init *in)
{
	for (struct shell *s = in->shells.first; s; s = s->next)
		if (s->state == SHELL_ENDED && !shell_is_in_use(s) &&
		    (s->out[0].ring.cap || s->out[1].ring.cap)) {
			ring_free_data(&s->out[0].ring);
			ring_free_data(&s->out[1].ring);
			return true;
		}
	return false;
}

void shell_reply_create(struct shell *s, const struct cay_err *err)
{
	struct request *rq = cay_take(s->create_request);

	if (rq)
		rq->events = NULL;
	if (rq && err)
		request_fail(rq, err);
	else if (rq)
		shell_reply_info(s, rq);
}

static void on_shell_started(struct exec *, const struct cay_err *err, void *arg)
{
	struct shell *s = arg;

	if (!err) {
		shell_write_script(s, SHELL_PHASE_START, false);
		return;
	}
	s->exec = NULL;
	s->state = SHELL_ENDED;
	s->deleted = true;
	shell_reply_create(s, err);
}

static void shell_start_failed(struct shell *s)
{
	struct cay_err err = {};

	if (s->end.reason == END_EXIT && s->end.exit_code == 127)
		(void)cay_fail(&err, CAY_E_UNSUPPORTED,
			       "the image has no bash: use an image that has it, or run commands "
			       "with exec.run, whose 'shell' only needs /bin/sh");
	else if (s->end.reason == END_EXIT && s->end.exit_code == 126)
		(void)cay_fail(&err, CAY_E_INVALID, "cannot change to the directory cwd");
	else
		(void)cay_fail(&err, CAY_E_STATE, "bash ended before it was ready");
	shell_reply_create(s, &err);
	s->deleted = true;
}

static void on_shell_exit(struct exec *exec, void *arg)
{
	struct shell *s = arg;
	bool started = s->state != SHELL_STARTING;
	struct run *r = s->current_run;

	exec_end_copy(exec, &s->end, s->signal_name, s->detail);
	s->exec = NULL;
	s->state = SHELL_ENDED;
	s->report.nonce[0] = 0;
	shell_close_script(s);
	shell_close_report(s);
	if (!started)
		shell_start_failed(s);
	if (r && s->phase != SHELL_PHASE_SETTLE) {
		exec_end_copy(exec, &r->end, r->signal_name, r->detail);
		if (s->timed_out) {
			r->end.reason = END_TIMEOUT;
			end_judge(&r->end, END_OF_PROCESS);
		}
		shell_settle_run(s);
	} else if (!r) {
		shell_complete(s);
	}
	/* other writers are gone or about to end */
	for (int i = 0; i < 2; i++)
		if (s->output_write_fds[i] >= 0)
			(void)close(cay_take_fd(&s->output_write_fds[i]));
}

static void on_shell_start_timeout(uv_timer_t *t)
{
	struct shell *s = t->data;

	shell_end_script(s, "bash did not start in time");
	if (s->exec)
		exec_kill(s->exec);
}

static void on_shell_create_client_gone(struct request *rq)
{
	struct shell *s = rq->data;

	s->create_request = NULL;
}

static void on_shell_output_complete(struct output *)
{
	/* on_shell_exit() completes an output */
}

static int shell_open_outputs(struct shell *s)
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
		s->out[i].on_complete = on_shell_output_complete;
		s->out[i].on_closed = on_shell_output_closed;
		s->handles += s->out[i].open;
		if (r < 0)
			return r;
		s->watchers[i] = (struct output_reader){ .greedy = true,
							 .on_more = on_shell_output_watch,
							 .data = s };
		output_add_reader(&s->out[i], &s->watchers[i], 0);
	}
	return 0;
}

/* The pipes of the script and the report; pass gets the child's ends. */
static int shell_open_pipes(struct shell *s, int pass[static 2])
{
	int fds[2] = { -EBADF, -EBADF };
	int r = pipe_create(fds, 1);

	pass[0] = fds[0];
	s->script_fd = fds[1];
	/* bash opens it by name, as any user; only its own processes can reach the name */
	if (r >= 0 && fchmod(fds[0], 0644) < 0)
		r = -errno;
	if (r >= 0 && fcntl(s->script_fd, F_SETPIPE_SZ, SCRIPT_PAGE) < 0)
		r = -errno;
	if (r < 0)
		return r;
	r = uv_poll_init(&s->init->loop, &s->script_poll, s->script_fd);
	if (r < 0)
		return r;
	s->script_open = true;
	s->handles++;
	fds[0] = fds[1] = -EBADF;
	r = pipe_create(fds, 0);
	pass[1] = fds[1];
	s->report_fd = fds[0];
	if (r < 0)
		return r;
	r = uv_poll_init(&s->init->loop, &s->report_poll, s->report_fd);
	if (r < 0)
		return r;
	s->report_open = true;
	s->handles++;
	s->script_poll.data = s->report_poll.data = s;
	return 0;
}

static int shell_start(struct shell *s, const struct shell_create *q, struct cay_err *err)
{
	const struct claim *c = &s->init->claim;
	struct exec_run req = { .user = q->user, .cwd = q->cwd, .env = q->env };
	int pass[2] = { -EBADF, -EBADF };
	struct exec_internal own = { .output_fd = -EBADF,
				     .separate_stderr = true,
				     .env = &shell_env,
				     .pass_fds = pass,
				     .n_pass = ARRAY_SIZE(pass),
				     .child_main = child_shell_exec_bash,
				     .on_started = on_shell_started,
				     .on_ended = on_shell_exit,
				     .arg = s };
	int r = shell_open_outputs(s);

	if (r >= 0)
		r = shell_open_pipes(s, pass);
	s->cwd = strdup(q->cwd ? q->cwd : c->cwd ? c->cwd : "/");
	if (r < 0 || !s->cwd)
		r = cay_fail_sys(err, CAY_E_LIMIT, r < 0 ? -r : ENOMEM,
				 "create pipes for the shell");
	own.output_fd = s->output_write_fds[0];
	own.stderr_fd = s->output_write_fds[1];
	if (r >= 0)
		r = exec_start_internal(s->init, &req, &own, &s->exec, err);
	for (int i = 0; i < 2; i++)
		if (pass[i] >= 0)
			(void)close(pass[i]);
	return r;
}

/* Replies when the shell can be used, or has failed to start. */
void op_shell_create(struct request *rq, void *arg)
{
	static const struct request_events events = { .gone = on_shell_create_client_gone };
	const struct shell_create *q = rq->body;
	struct init *in = arg;
	struct shell **at = &in->shells.first;
	struct cay_err err = {};
	struct shell *s;
	int n;

	shells_sweep(in);
	if (in->shells.n >= SHELLS_MAX) {
		request_refuse(rq, CAY_E_LIMIT, "too many shells are open");
		return;
	}
	s = calloc(1, sizeof(*s));
	if (!s) {
		request_no_memory(rq);
		return;
	}
	s->init = in;
	s->script_fd = s->report_fd = s->output_write_fds[0] = s->output_write_fds[1] = -EBADF;
	s->out[0].fd = s->out[1].fd = -EBADF;
	s->script = BUF_INIT(SCRIPT_MAX);
	s->created_ns = clk_wall_ns(in->clk);
	(void)uv_timer_init(&in->loop, &s->timer);
	s->timer.data = s;
	s->handles = 1;
	while (*at)
		at = &(*at)->next;
	*at = s;
	in->shells.n++;
	n = snprintf(s->name, sizeof(s->name), "%s", q->name ? q->name : "");
	assert(n >= 0 && (size_t)n < sizeof(s->name));
	if (id_generate(ID_SHELL, id_cell(&rq->match.params[0]), id_node(&rq->match.params[0]),
			&s->id) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "cannot generate an id");
	if (err.code || shell_start(s, q, &err) < 0) {
		request_fail(rq, &err);
		shell_free(s);
		return;
	}
	s->create_request = rq;
	rq->data = s;
	rq->events = &events;
	output_start(&s->out[0]);
	output_start(&s->out[1]);
	(void)uv_poll_start(&s->report_poll, UV_READABLE, on_shell_report_readable);
	(void)uv_timer_start(&s->timer, on_shell_start_timeout, OPEN_MS, 0);
}

void shell_delete(struct shell *s)
{
	s->deleted = true;
	if (!s->ended_why)
		s->ended_why = "the shell was deleted";
	if (s->exec)
		exec_kill(s->exec);
	shells_sweep(s->init);
}

struct shell *shell_find(struct init *in, const struct id *id)
{
	shells_sweep(in);
	for (struct shell *s = in->shells.first; s; s = s->next)
		if (id_eq(&s->id, id) && !s->deleted && s->state != SHELL_STARTING)
			return s;
	return NULL;
}
