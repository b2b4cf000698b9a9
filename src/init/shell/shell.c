/* SPDX-License-Identifier: Apache-2.0 */
#include "init/shell/shell.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/random.h>

#include "text/hex.h"

#define RESTORE_MS 5000 /* for the state a stopped run may have changed */

static void shell_write_script_page(struct shell *s);

void shell_end_script(struct shell *s, const char *why)
{
	if (!s->session.ended_why)
		s->session.ended_why = why;
	s->report.nonce[0] = 0;
	shell_close_script(s);
}

static void shell_kill_flooded(struct shell *s)
{
	shell_end_script(s, "too many bytes on its report channel");
	shell_close_report(s);
	session_kill(&s->session, NULL);
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
	const struct run *run = s->session.current_run;
	struct slice text = run ? slice_of(run->text) : (struct slice){};
	int r = getrandom(chance, sizeof(chance), 0) == (ssize_t)sizeof(chance) ? 0 : -EIO;

	hex_encode(chance, sizeof(chance), nonce);
	s->phase = phase;
	shell_report_expect(&s->report, nonce);
	shell_clear_script(s);
	if (r >= 0 && phase == SHELL_PHASE_START)
		r = script_append_start(&s->script, nonce, s->session.cwd);
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
		free(s->session.cwd);
		s->session.cwd = cay_take(cwd);
	}
	free(cwd);
	switch (s->phase) {
	case SHELL_PHASE_START:
		s->phase = SHELL_PHASE_NONE;
		session_ready(&s->session);
		break;
	case SHELL_PHASE_CHECK:
		shell_write_script(s, SHELL_PHASE_RUN, s->report.status != 0);
		break;
	case SHELL_PHASE_RUN:
		s->phase = SHELL_PHASE_NONE;
		session_run_judge(s->session.current_run, (int)s->report.status);
		session_settle_run(&s->session);
		break;
	case SHELL_PHASE_RESTORE:
		(void)uv_timer_stop(&s->session.timer);
		s->phase = SHELL_PHASE_NONE;
		s->session.held = false;
		session_start_next_run(&s->session);
		break;
	case SHELL_PHASE_NONE:
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

/* It runs commands that the user may have redefined. */
static void on_shell_restore_timeout(uv_timer_t *t)
{
	struct shell *s = t->data;

	shell_end_script(s, "its state could not be restored after a stopped run");
	session_kill(&s->session, NULL);
}

void shell_after_run(struct session *session, bool stopped)
{
	struct shell *s = shell_of(session);

	s->phase = SHELL_PHASE_NONE;
	if (!stopped) {
		session_start_next_run(session);
		return;
	}
	session->held = true;
	(void)uv_timer_start(&session->timer, on_shell_restore_timeout, RESTORE_MS, 0);
	shell_write_script(s, SHELL_PHASE_RESTORE, false);
}

void shell_start_run(struct session *session)
{
	bool plain = script_text_is_plain(slice_of(session->current_run->text));

	shell_write_script(shell_of(session), plain ? SHELL_PHASE_RUN : SHELL_PHASE_CHECK, false);
}
