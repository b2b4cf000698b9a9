/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SHELL_SHELL_H
#define CAY_INIT_SHELL_SHELL_H
/*
 * shell - a bash that stays, as PID 1 keeps it; struct shell_info is what is told of it
 *
 *	starting -> idle <-> busy -> ended
 *
 * The bash is a job of PID 1's own (exec.h) that reads its script from a pipe of ours
 * and tells on another that a run is over (shell-script.h, shell-report.h).  The script's pipe
 *holds one page in one slot, so the kernel says when it has been read to its end: if bash asks for
 *more and has told nothing, it never will.  Then the script ends, and with it the shell, as any
 *script does.
 *
 * Runs take turns.  What belongs to a run is what stands in the outputs' pipes when it
 * is told to be over; what somebody in the background writes later has its offset
 * in the shell's outputs like all else, and is of no run or of the next.
 *
 * Bounded: SHELLS_MAX, ended ones included (the oldest of those makes room), and of
 * each RUNS_MAX runs, of which the oldest that ended is forgotten first.
 */
#include "init/exec/exec.h"
#include "init/exec/output-stream.h"
#include "init/shell/shell-report.h"

#define SHELLS_MAX 32
#define RUNS_QUEUED 64
#define RUNS_KEPT 128

enum shell_phase {
	SHELL_PHASE_NONE,
	SHELL_PHASE_START,   /* its first lines */
	SHELL_PHASE_CHECK,   /* can the text be parsed? */
	SHELL_PHASE_RUN,     /* the text */
	SHELL_PHASE_SETTLE,  /* it is over; its last output is on its way */
	SHELL_PHASE_RESTORE, /* behind a run that was stopped */
};

struct run {
	struct shell *shell;
	struct run *next; /* by number */
	uint64_t number;
	enum run_state state;
	char *text; /* until it has run */
	uint64_t timeout_ms, started_ns, ended_ns, born_ticks, oom_kills;
	pid_t last_pid; /* when its turn came */
	uint64_t output_start[2];
	struct output_range range;
	struct end end;
	char signal_name[16], detail[128]; /* of end */
	char *cwd;
	/* Who asked, until it is answered. */
	struct request *rq;
	enum output_stream_form form;
	struct run_query output_query;
	bool stop_with_client; /* with who asked */
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
	int script_fd, report_fd, output_write_fds[2]; /* ends: what its processes write to */
	uv_poll_t script_poll, report_poll;
	bool script_open, report_open, script_writing;
	uv_timer_t timer; /* the run's time, and the steps of stopping it */
	unsigned handles;
	struct buf script_pending; /* not written yet */
	struct shell_report report;
	struct output out[2];
	struct output_reader watchers[2];
	char *cwd;
	const char *ended_why;
	struct end end;
	char signal_name[16], detail[128]; /* of end */
	uint64_t last_number;              /* number of the last */
	unsigned n_queued, n_ended;
	struct run *first_run, *last_run, *current_run; /* run: whose turn it is */
	unsigned stop_step;                             /* step; 0: nobody asked to */
	bool timed_out;
	struct request *create_request;
};

struct shell *shell_find(struct init *in, const struct id *id);
struct run *shell_run_find(const struct shell *s, uint64_t number);
/* Queue a command; rq is answered by how it was asked for. */
void shell_run_submit(struct shell *s, struct request *rq, const struct shell_run *q,
		      enum output_stream_form form);
/* End it and all it started; it is forgotten when nobody reads it any more. */
void shell_delete(struct shell *s);
/* Give the output of one that ended back to the budget. */
bool shell_reclaim_output(struct init *in);
void shell_describe(const struct shell *s, struct shell_info *ret);
/* The script ends here, and so will the shell; it is told why. */
void shell_end_script(struct shell *s, const char *why);

/* Between shell.c, where runs are, and shell-open.c, where shells are. */
#define SCRIPT_PAGE 4096 /* what a script's pipe holds, in its one slot */
/* Write what there is for this phase, and have it told when it is over. */
void shell_write_script(struct shell *s, enum shell_phase phase, bool eval);
/* The run is over: exactly what the pipes hold now is the last of its output. */
void shell_settle_run(struct shell *s);
/* Nobody will run what still waits for its turn. */
void shell_cancel_queued_runs(struct shell *s);
void on_shell_report_readable(uv_poll_t *p, int status, int events);
void on_shell_output_watch(struct output_reader *w);
void shell_close_script(struct shell *s);
void shell_close_report(struct shell *s);
void shell_run_free(struct run *r);

/* shell-stop.c: stop the run, in steps, and keep the shell if it can be. */
void shell_stop_run(struct shell *s);

/* shell-child.c: in the child, as the user: become a bash.  arg is not used. */
int child_shell_exec_bash(void *arg);
extern const struct field_map shell_env;

/* shell-handlers.c */
/* The reply to who waited, with as much output as was asked for. */
void shell_run_reply(struct run *r, struct request *rq, const struct run_query *q);
void shell_run_describe(const struct run *r, struct run_info *ret);
#endif
