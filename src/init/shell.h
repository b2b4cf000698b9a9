/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SHELL_H
#define CAY_INIT_SHELL_H
/*
 * shell - a bash that stays, as PID 1 keeps it; struct shell is what is told of it
 *
 *	starting -> idle <-> busy -> ended
 *
 * The bash is a job of PID 1's own (job.h) that reads its script from a pipe of ours
 * and tells on another that a run is over (script.h, side.h).  The script's pipe holds
 * one page in one slot, so the kernel says when it has been read to its end: if bash
 * asks for more and has told nothing, it never will.  Then the script ends, and with
 * it the shell, as any script does.
 *
 * Runs take turns.  What belongs to a run is what stands in the outputs' pipes when it
 * is told to be over; what somebody in the background writes later has its offset
 * in the shell's outputs like all else, and is of no run or of the next.
 *
 * Bounded: SHELLS_MAX, ended ones included (the oldest of those makes room), and of
 * each RUNS_MAX runs, of which the oldest that ended is forgotten first.
 */
#include "init/job.h"
#include "init/side.h"
#include "init/stream.h"

#define SHELLS_MAX 32
#define RUNS_QUEUED 64
#define RUNS_KEPT 128

enum sh_phase {
	PHASE_NONE,
	PHASE_START,   /* its first lines */
	PHASE_CHECK,   /* can the text be parsed? */
	PHASE_RUN,     /* the text */
	PHASE_SETTLE,  /* it is over; its last output is on its way */
	PHASE_RESTORE, /* behind a run that was stopped */
};

struct sh_run {
	struct sh *shell;
	struct sh_run *next; /* by number */
	uint64_t number;
	enum run_state state;
	char *text; /* until it has run */
	uint64_t timeout_ms, started_ns, ended_ns, born_ticks, oom_kills;
	pid_t last_pid; /* when its turn came */
	uint64_t from[2];
	struct stream_bound bound;
	struct end end;
	char signal_name[16], detail[128]; /* of end */
	char *cwd;
	/* Who asked, until it is answered. */
	struct request *rq;
	enum stream_form form;
	struct run_query told;
	bool ends; /* with who asked */
};

struct sh {
	struct init *init;
	struct sh *next;
	struct id id;
	char name[64];
	enum shell_state state;
	enum sh_phase phase;
	bool deleted;
	struct job *job;
	uint64_t created_ns;
	int script, side_fd, ends[2]; /* ends: what its processes write to */
	uv_poll_t script_poll, side_poll;
	bool script_open, side_open, feeding;
	uv_timer_t timer; /* the run's time, and the steps of stopping it */
	unsigned handles;
	struct buf feed; /* not written yet */
	struct side side;
	struct output out[2];
	struct reader watch[2];
	char *cwd;
	const char *why;
	struct end end;
	char signal_name[16], detail[128]; /* of end */
	uint64_t runs;                     /* number of the last */
	unsigned queued, kept;
	struct sh_run *first, *last, *run; /* run: whose turn it is */
	unsigned stopping;                 /* step; 0: nobody asked to */
	bool timed_out;
	struct request *opener;
};

/* Open one; rq is answered when it can be used, or why not. */
void shell_open(struct init *in, struct request *rq, const struct shell_create *q);
struct sh *shell_find(struct init *in, const struct id *id);
struct sh_run *shell_run_find(const struct sh *s, uint64_t number);
/* Queue a command; rq is answered by how it was asked for. */
void shell_submit(struct sh *s, struct request *rq, const struct shell_run *q,
		  enum stream_form form);
/* End it and all it started; it is forgotten when nobody reads it any more. */
void shell_delete(struct sh *s);
/* Give the output of one that ended back to the budget. */
bool shell_reclaim(struct init *in);
void shell_describe(const struct sh *s, struct shell *ret);
/* The script ends here, and so will the shell; it is told why. */
void shell_break(struct sh *s, const char *why);

/* Between shell.c, where runs are, and shell-open.c, where shells are. */
#define SCRIPT_PAGE 4096 /* what a script's pipe holds, in its one slot */
/* Write what there is for this phase, and have it told when it is over. */
void shell_feed(struct sh *s, enum sh_phase phase, bool eval);
/* The run is over: exactly what the pipes hold now is the last of its output. */
void shell_settle(struct sh *s);
/* Nobody will run what still waits for its turn. */
void shell_drop_queue(struct sh *s);
void shell_on_side(uv_poll_t *p, int status, int events);
void shell_on_watch(struct reader *w);
void shell_close_script(struct sh *s);
void shell_close_side(struct sh *s);
void shell_run_free(struct sh_run *r);

/* shell-stop.c: stop the run, in steps, and keep the shell if it can be. */
void shell_stop(struct sh *s);

/* shell-child.c: in the child, as the user: become a bash.  arg is not used. */
int shell_inside(void *arg);
extern const struct field_map shell_env;

/* shell-api.c: the operations on shells; false: it is none of them. */
bool shell_api(struct init *in, struct request *rq);
/* The reply to who waited, with as much output as was asked for. */
void shell_tell(struct sh_run *r, struct request *rq, const struct run_query *q);
void shell_describe_run(const struct sh_run *r, struct ran *ret);
#endif
