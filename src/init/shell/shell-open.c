/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>

#include "init/core/handlers.h"
#include "init/exec/pipes.h"
#include "init/shell/shell.h"

#define OPEN_MS 20000

/* The handle before its fd: see output.c. */
void shell_close_script(struct shell *s)
{
	if (s->script_open)
		uv_close((uv_handle_t *)&s->script_poll, on_session_handle_closed);
	s->script_open = s->script_writing = false;
	buf_fini(&s->script);
	if (s->script_fd >= 0)
		(void)close(cay_take_fd(&s->script_fd));
}

void shell_close_report(struct shell *s)
{
	if (s->report_open)
		uv_close((uv_handle_t *)&s->report_poll, on_session_handle_closed);
	s->report_open = false;
	if (s->report_fd >= 0)
		(void)close(cay_take_fd(&s->report_fd));
}

static void shell_close_channels(struct session *session)
{
	struct shell *s = shell_of(session);

	s->report.nonce[0] = 0;
	shell_close_script(s);
	shell_close_report(s);
}

static void on_shell_exec_started(struct exec *, const struct cay_err *err, void *arg)
{
	struct shell *s = arg;

	if (err)
		session_exec_failed(&s->session, err);
	else
		shell_write_script(s, SHELL_PHASE_START, false);
}

static void shell_explain_failed_start(const struct session *s, struct cay_err *err)
{
	if (s->end.reason == END_EXIT && s->end.exit_code == 127)
		(void)cay_fail(err, CAY_E_UNSUPPORTED,
			       "the image has no bash: use an image that has it, or run commands "
			       "with exec.run, whose 'shell' only needs /bin/sh");
	else if (s->end.reason == END_EXIT && s->end.exit_code == 126)
		(void)cay_fail(err, CAY_E_INVALID, "cannot change to the directory cwd");
	else
		(void)cay_fail(err, CAY_E_STATE, "bash ended before it was ready");
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
	r = uv_poll_init(&s->session.init->loop, &s->script_poll, s->script_fd);
	if (r < 0)
		return r;
	s->script_open = true;
	s->session.handles++;
	fds[0] = fds[1] = -EBADF;
	r = pipe_create(fds, 0);
	pass[1] = fds[1];
	s->report_fd = fds[0];
	if (r < 0)
		return r;
	r = uv_poll_init(&s->session.init->loop, &s->report_poll, s->report_fd);
	if (r < 0)
		return r;
	s->report_open = true;
	s->session.handles++;
	s->script_poll.data = s->report_poll.data = s;
	return 0;
}

static int shell_start(struct shell *s, const struct shell_create *q, struct request *rq,
		       struct cay_err *err)
{
	const struct claim *c = &s->session.init->claim;
	struct exec_run req = { .user = q->user, .cwd = q->cwd, .env = q->env };
	int pass[2] = { -EBADF, -EBADF };
	struct exec_internal own = { .env = &shell_env,
				     .pass_fds = pass,
				     .n_pass = ARRAY_SIZE(pass),
				     .child_main = child_shell_exec_bash,
				     .on_started = on_shell_exec_started };
	int r = session_open_outputs(&s->session);

	if (r >= 0)
		r = shell_open_pipes(s, pass);
	s->session.cwd = strdup(q->cwd ? q->cwd : c->cwd ? c->cwd : "/");
	if (r < 0 || !s->session.cwd)
		r = cay_fail_sys(err, CAY_E_LIMIT, r < 0 ? -r : ENOMEM,
				 "create pipes for the shell");
	if (r >= 0)
		r = session_start(&s->session, &req, &own, OPEN_MS, rq, err);
	for (int i = 0; i < 2; i++)
		if (pass[i] >= 0)
			(void)close(pass[i]);
	return r;
}

static const struct session_kind shell_kind = {
	.noun = "shell",
	.id_noun = ID_SHELL,
	.max = SHELLS_MAX,
	.size = sizeof(struct shell),
	.run_size = sizeof(struct run),
	.no_run = "the shell ended before the run started",
	.deleted_why = "the shell was deleted",
	.unstarted_why = "bash did not start in time",
	.start_run = shell_start_run,
	.stop_run = shell_stop_run,
	.after_run = shell_after_run,
	.after_exit = shell_close_channels,
	.explain_failed_start = shell_explain_failed_start,
	.reply_info = shell_reply_info,
	.reply_run = shell_reply_run,
	.fini = shell_close_channels,
};

/* Replies when the shell can be used, or has failed to start. */
void op_shell_create(struct request *rq, void *arg)
{
	const struct shell_create *q = rq->body;
	struct init *in = arg;
	struct cay_err err = {};
	struct session *session = session_add(&shell_kind, in, &in->shells, q->name, NULL, rq);
	struct shell *s;

	if (!session)
		return;
	s = shell_of(session);
	s->script_fd = s->report_fd = -EBADF;
	s->script = BUF_INIT(SCRIPT_MAX);
	if (shell_start(s, q, rq, &err) < 0) {
		request_fail(rq, &err);
		session_free(&s->session);
		return;
	}
	(void)uv_poll_start(&s->report_poll, UV_READABLE, on_shell_report_readable);
}
