/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SHELL_SHELL_H
#define CAY_INIT_SHELL_SHELL_H
/*
 * shell - a long-lived bash in PID 1; struct shell_info is its form in a reply
 *
 *	starting -> idle <-> busy -> ended
 *
 * The bash is an internal exec (exec.h) that reads its script from one pipe and reports on
 * another when a run has finished (shell-script.h, shell-report.h).  The script's pipe holds
 * one page in one slot, so the kernel shows when it has been read completely: if bash waits for
 * more and has reported nothing, it never will.  Then the script ends, and the shell with it.
 *
 * Runs are executed one at a time.  The output of a run ends with the bytes in the outputs'
 * pipes at its report; bytes that background processes write later have offsets in the shell's
 * outputs, and belong to no run or to the next.
 *
 * Bounded: SHELLS_MAX shells including ended ones (the oldest of those makes room), RUNS_QUEUED
 * queued and RUNS_KEPT ended runs of each; the oldest ended run is forgotten first.  The texts of
 * runs that have not ended: RUN_TEXTS_MAX.
 */
#include "init/exec/exec.h"
#include "init/exec/output-stream.h"
#include "init/shell/shell-report.h"

#define SHELLS_MAX 32
#define RUNS_QUEUED 64
#define RUNS_KEPT 128
#define RUN_TEXTS_MAX MIB(16) /* of all runs that are queued or running */

enum shell_phase {
	SHELL_PHASE_NONE,
	SHELL_PHASE_START,   /* its first lines */
	SHELL_PHASE_CHECK,   /* can the text be parsed? */
	SHELL_PHASE_RUN,     /* the text */
	SHELL_PHASE_SETTLE,  /* it is over; its last output is on its way */
	SHELL_PHASE_RESTORE, /* after a stopped run */
};

struct run {
	struct shell *shell;
	struct run *next; /* by number */
	uint64_t number;
	enum run_state state;
	char *text; /* until it has run */
	uint64_t timeout_ms, started_ns, ended_ns, born_ticks;
	struct memory_kills kills_before; /* in the sandbox */
	pid_t last_pid;                   /* when it started */
	uint64_t output_start[2];
	struct output_range range;
	struct end end;
	char signal_name[SIGNAL_TEXT_MAX], detail[END_DETAIL_MAX]; /* of end */
	char *cwd;
	/* The client's, until replied. */
	struct request *rq;
	enum output_stream_form form;
	struct run_query output_query;
	bool stop_with_client; /* when the client leaves */
};

struct shell {
	struct init *init;
	struct shell *next;
	struct id id;
	char name[64];
	enum shell_state state;
	enum shell_phase phase;
	bool deleted;
	struct exec *exec;
	uint64_t created_ns;
	int script_fd, report_fd,
		output_write_fds[2]; /* output_write_fds: its processes write to these */
	uv_poll_t script_poll, report_poll;
	bool script_open, report_open, script_writing;
	uv_timer_t timer; /* the run's timeout, and the steps of stopping it */
	unsigned handles;
	struct buf script; /* of this phase, until all of it is written */
	size_t script_written;
	struct shell_report report;
	struct output out[2];
	struct output_reader watchers[2];
	char *cwd;
	const char *ended_why;
	struct end end;
	char signal_name[SIGNAL_TEXT_MAX], detail[END_DETAIL_MAX]; /* of end */
	uint64_t last_number;
	unsigned n_queued, n_ended;
	struct run *first_run, *last_run, *current_run;
	unsigned stop_step; /* 0: the run is not being stopped */
	bool timed_out;
	struct request *create_request;
};

struct shell *shell_find(struct init *in, const struct id *id);
struct run *shell_run_find(const struct shell *s, uint64_t number);
/* Queue a command; the form decides how rq is replied to. */
void shell_run_submit(struct shell *s, struct request *rq, const struct shell_run *q,
		      enum output_stream_form form);
/* End it and all its processes; it is freed when no client reads it any more. */
void shell_delete(struct shell *s);
/* Free the output of one that ended and that no client reads; false: there is none. */
bool shell_reclaim_output(struct init *in);
void shell_reply_info(const struct shell *s, struct request *rq);
/* Reply to the request that creates it, if its client is still there; err: it failed. */
void shell_reply_create(struct shell *s, const struct cay_err *err);
/* End the script, and so the shell, for that reason. */
void shell_end_script(struct shell *s, const char *why);

/* Shared by shell.c (runs) and shell-open.c (shells). */
#define SCRIPT_PAGE 4096 /* capacity of the script's pipe, in its one slot */
/* Write the script of this phase and expect its report. */
void shell_write_script(struct shell *s, enum shell_phase phase, bool eval);
/* The run has finished: exactly the bytes in the pipes now are the last of its output. */
void shell_settle_run(struct shell *s);
/* The shell has ended: cancel queued runs and complete its outputs. */
void shell_complete(struct shell *s);
void on_shell_report_readable(uv_poll_t *p, int status, int events);
void on_shell_output_watch(struct output_reader *w);
void shell_close_script(struct shell *s);
void shell_close_report(struct shell *s);
void shell_run_free_text(struct run *r);
void shell_run_free(struct run *r);

/* shell-stop.c: stop the run in steps, and keep the shell if possible. */
void shell_stop_run(struct shell *s);

/* shell-child.c: in the child, as the user: execute bash.  arg is not used. */
int child_shell_exec_bash(void *arg);
extern const struct field_map shell_env;

/* shell-handlers.c */
/* Reply with the requested part of the output. */
void shell_run_reply(struct run *r, struct request *rq, const struct run_query *q);
void shell_run_describe(const struct run *r, struct run_info *ret);
#endif
