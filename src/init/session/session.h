/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SESSION_SESSION_H
#define CAY_INIT_SESSION_SESSION_H
/*
 * session - an interpreter that keeps its state and executes one run at a time
 *
 *	starting -> idle <-> busy -> ended
 *
 * A shell (shell.h) and a kernel (kernel.h) begin with a struct session.  The session has what
 * they share: the process, an internal exec (exec.h), its two outputs, the queue of runs, the
 * requests that wait for them, and the life of the object.  struct session_kind has what differs:
 * how a run starts and stops, and how a reply looks.
 *
 * The output of a run ends with the bytes in the outputs' pipes when the run finishes; bytes that
 * background processes write later have offsets in the session's outputs, and belong to no run or
 * to the next.
 *
 * Bounded: kind->max sessions of a kind including ended ones (the oldest of those makes room), and
 * with deleted ones that a client still reads or whose process is ending twice as many; RUNS_QUEUED
 *queued and RUNS_KEPT ended runs of each; the oldest ended run is forgotten first. The texts of
 *runs that have not ended: RUN_TEXTS_MAX.
 */
#include "init/exec/exec.h"
#include "init/exec/output-excerpt.h"
#include "init/exec/output-stream.h"

#define RUNS_QUEUED 64
#define RUNS_KEPT 128
#define RUN_TEXTS_MAX MIB(16) /* of all runs of a kind that are queued or running */

struct session;

struct run {
	struct session *session;
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

struct session_kind {
	const char *noun; /* "shell" */
	enum id_noun id_noun;
	unsigned max;
	size_t size;        /* of a struct that begins with a struct session */
	size_t run_size;    /* of a struct that begins with a struct run */
	bool can_restart;   /* its outputs go on after its process has ended */
	const char *no_run; /* detail of a run that the end of the session cancelled */
	const char *deleted_why, *unstarted_why;
	/* Give the current run to the interpreter. */
	void (*start_run)(struct session *s);
	/* Stop the current run, one step further. */
	void (*stop_run)(struct session *s);
	/* The current run was replied to. */
	void (*after_run)(struct session *s, bool stopped);
	/* Its process has ended: close the channels to it. */
	void (*after_exit)(struct session *s);
	/* It has ended, and so has its last run; or NULL. */
	void (*after_end)(struct session *s);
	/* Why it could not start, from s->end. */
	/* It ended before it was ready: whether it starts in another way now; NULL: no. */
	bool (*start_again)(struct session *s);
	void (*explain_failed_start)(const struct session *s, struct cay_err *err);
	void (*reply_info)(const struct session *s, struct request *rq);
	void (*reply_run)(struct run *r, struct request *rq, const struct run_query *q);
	/* Free what follows the struct run; or NULL. */
	void (*free_run)(struct run *r);
	/* Free what follows the struct session. */
	void (*fini)(struct session *s);
};

struct session {
	const struct session_kind *kind;
	struct init *init;
	struct sessions *list;
	struct session *next;
	struct id id;
	char name[64];
	enum session_state state;
	bool was_ready; /* it has taken runs: clients know it */
	bool deleted;
	bool held; /* no run may start now */
	struct exec *exec;
	uint64_t created_ns;
	int output_write_fds[2]; /* its processes write to these */
	uv_timer_t timer;        /* the run's timeout, and the steps of stopping it */
	unsigned handles;
	struct output out[2];
	struct output_reader watchers[2];
	char *cwd;
	const char *ended_why;
	struct end end;
	char signal_name[SIGNAL_TEXT_MAX], detail[END_DETAIL_MAX]; /* of end */
	uint64_t last_number;
	unsigned n_queued, n_ended;
	struct run *first_run, *last_run, *current_run;
	bool settling;      /* the current run is over; its last output is on its way */
	unsigned stop_step; /* 0: the run is not being stopped */
	bool timed_out;
	struct request *create_request;
};

/* session-open.c: its life. */
/* A session of that kind, zeroed but for its struct session.  The id's cell and node are the
 * sandbox's.  `replaced`, or NULL, is one that the caller deletes if it gets the new one.  NULL: rq
 * was replied to. */
struct session *session_add(const struct session_kind *kind, struct init *in, struct sessions *list,
			    const char *name, const struct session *replaced, struct request *rq);
/* Open its outputs, once. */
[[nodiscard]] int session_open_outputs(struct session *s);
/* Start its process, with its outputs.  rq, or NULL, is replied to by session_ready() or by the
 * failure.  The caller fills own but for the outputs and the callback of the end. */
[[nodiscard]] int session_start(struct session *s, const struct exec_run *req,
				struct exec_internal *own, uint64_t timeout_ms, struct request *rq,
				struct cay_err *err);
/* Its program could not be executed. */
void session_exec_failed(struct session *s, const struct cay_err *err);
/* It takes runs from now on: reply to the request that waits for this. */
void session_ready(struct session *s);
/* Reply to the request that waits for its start; err: it failed. */
void session_reply_start(struct session *s, const struct cay_err *err);
/* Kill its processes for that reason, unless it has another already. */
void session_kill(struct session *s, const char *why);
/* The same, and free it when no client reads it any more. */
void session_delete(struct session *s);
/* For uv_close() of a handle that it counts in `handles`; the handle's data is the session. */
void on_session_handle_closed(uv_handle_t *h);
/* Remove it from its list and free it. */
void session_free(struct session *s);
/* NULL: none, or it is still starting for the first time. */
struct session *session_find(struct sessions *list, const struct id *id);
/* Free the output of one that ended and that no client reads; false: there is none. */
bool session_reclaim_output(struct sessions *list);

/* session.c: its runs. */
/* How much has been written to each output, read or not. */
void session_output_written(const struct session *s, uint64_t ret[static 2]);
struct run *session_find_run(const struct session *s, uint64_t number);
/* A run for the queue; NULL: rq was replied to. */
struct run *session_run_new(struct session *s, struct request *rq, const char *text,
			    uint64_t timeout_ms, const struct run_query *part);
/* Queue it; the form decides how rq is replied to. */
void session_run_submit(struct run *r, struct request *rq, bool detach,
			enum output_stream_form form);
void session_start_next_run(struct session *s);
/* Stop the current run. */
void session_stop_run(struct session *s);
/* The current run has ended: its output is complete once what is in the pipes has been read. */
void session_settle_run(struct session *s);
/* It was told to be over: its end, from what the interpreter and the kernel say. */
void session_run_judge(struct run *r, int exit_code);
/* The session has ended: cancel queued runs and complete its outputs. */
void session_complete(struct session *s);
void session_run_free(struct run *r);
void on_session_output_watch(struct output_reader *w);

/* session-stop.c */
/* Signal processes of the session that started during the current run, but not its own; returns how
 * many there are, including dead ones that were not waited for. */
unsigned session_signal_run(const struct session *s, int sig);
/* Kill those, also when they multiply; returns how many there were. */
unsigned session_kill_rest_of_run(const struct session *s);

/* session-reply.c */
void session_run_describe(const struct run *r, struct run_info *ret);
/* Fill the outputs of ret; the texts are in out and err. */
[[nodiscard]] int session_run_fill_outputs(const struct run *r, const struct run_query *q,
					   struct output_excerpt *out, struct output_excerpt *err,
					   struct run_info *ret);
/* The session that a request names in its path; NULL: replied not_found. */
struct session *session_from_request(struct sessions *list, struct request *rq);
/* The run that a request names in its path; NULL: replied not_found. */
struct run *session_run_from_request(const struct session *s, struct request *rq);
void session_reply_runs(const struct session *s, struct request *rq);
void session_reply_output(struct session *s, struct request *rq);
/* Stop the current run and reply. */
void session_reply_interrupt(struct session *s, struct request *rq);
#endif
