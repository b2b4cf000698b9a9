/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SHELL_SHELL_H
#define CAY_INIT_SHELL_SHELL_H
/*
 * shell - a long-lived bash in PID 1; struct shell_info is its form in a reply
 *
 * The bash is an internal exec (exec.h) that reads its script from one pipe and reports on
 * another when a run has finished (shell-script.h, shell-report.h).  The script's pipe holds
 * one page in one slot, so the kernel shows when it has been read completely: if bash waits for
 * more and has reported nothing, it never will.  Then the script ends, and the shell with it.
 */
#include "init/session/session.h"
#include "init/shell/shell-report.h"

#define SHELLS_MAX 32

enum shell_phase {
	SHELL_PHASE_NONE,
	SHELL_PHASE_START,   /* its first lines */
	SHELL_PHASE_CHECK,   /* can the text be parsed? */
	SHELL_PHASE_RUN,     /* the text */
	SHELL_PHASE_RESTORE, /* after a stopped run */
};

struct shell {
	struct session session;
	enum shell_phase phase;
	int script_fd, report_fd;
	uv_poll_t script_poll, report_poll;
	bool script_open, report_open, script_writing;
	struct buf script; /* of this phase, until all of it is written */
	size_t script_written;
	struct shell_report report;
};

static inline struct shell *shell_of(struct session *s)
{
	return (struct shell *)s;
}

/* shell.c: its runs. */
/* Write the script of this phase and expect its report. */
void shell_write_script(struct shell *s, enum shell_phase phase, bool eval);
/* End the script, and so the shell, for that reason. */
void shell_end_script(struct shell *s, const char *why);
void shell_start_run(struct session *session);
/* After a stopped run its state is restored first. */
void shell_after_run(struct session *session, bool stopped);
void on_shell_report_readable(uv_poll_t *p, int status, int events);

/* shell-open.c */
#define SCRIPT_PAGE 4096 /* capacity of the script's pipe, in its one slot */
void shell_close_script(struct shell *s);
void shell_close_report(struct shell *s);

/* shell-stop.c: stop the run in steps, and keep the shell if possible. */
void shell_stop_run(struct session *session);

/* shell-child.c: in the child, as the user: execute bash.  arg is not used. */
int child_shell_exec_bash(void *arg);
extern const struct field_map shell_env;

/* shell-handlers.c */
void shell_reply_info(const struct session *s, struct request *rq);
/* Reply with the requested part of the output; NULL: without. */
void shell_reply_run(struct run *r, struct request *rq, const struct run_query *q);
#endif
