/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_EXEC_H
#define CAY_INIT_EXEC_EXEC_H
/*
 * exec - one exec in PID 1; struct exec_info is its form in a reply
 *
 *	starting -> running -> dying -> ended
 *	        `-> failed (only the caller learns of it, with the reason)
 *
 * Starting lasts until execve() succeeds, dying until the last output has been read.  An exec
 * needs no connection, and its output can be read after it ends, until EXECS_FINISHED_MAX
 * others have ended.  Its cgroup is removed as soon as it is empty; processes that the program
 * leaves running stay in it.
 */
#include <sys/resource.h>
#include <sys/types.h>

#include "init/core/init.h"
#include "init/core/signals.h"
#include "init/exec/input.h"
#include "init/exec/output.h"
#include "ops/idempotency-key.h"

#define END_DETAIL_MAX 128

enum exec_phase {
	EXEC_PHASE_STARTING,
	EXEC_PHASE_RUNNING,
	EXEC_PHASE_DYING,
	EXEC_PHASE_ENDED,
	EXEC_PHASE_FAILED
};

struct exec {
	struct init *init;
	struct exec *prev, *next; /* oldest first */
	struct id id;
	char name[ID_TEXT_LEN + 1];
	char key[IDEMPOTENCY_KEY_MAX + 1], key_hash[17]; /* of the request; empty: none */
	enum exec_phase state;
	pid_t pid;
	int cgroup;           /* its directory; -EBADF once removed */
	int cgroup_events_fd; /* its cgroup.events, while the cgroup outlives the exec */
	uv_poll_t cgroup_events;
	bool watching_cgroup;
	uint64_t started_ns, ended_ns;
	struct memory_kills kills_before; /* in the sandbox, before it started */
	pid_t first_pid;                  /* pid, and its value after the end */
	bool started_alone;               /* the sandbox had no other process when it started */
	int status;                       /* of waitpid */
	bool timed_out, killed;
	int client_signal; /* the last that a client sent, other than SIGKILL; 0 */
	bool handles_open; /* all its handles are initialised */
	bool internal;     /* PID 1's own: in no list, freed when it ends */
	bool awaits_process;
	struct end end;
	char signal_name[SIGNAL_TEXT_MAX], detail[END_DETAIL_MAX]; /* of end */
	struct output out[2];                                      /* stdout, stderr */
	struct input in;
	bool tty; /* out[0] and in are a terminal */
	uint16_t cols, rows;
	char term[65];
	int report_fd;
	uv_poll_t report;
	uv_timer_t timer;
	unsigned handles; /* not closed yet */
	/* Called once: it runs (err NULL), or cannot start. */
	void (*on_started)(struct exec *exec, const struct cay_err *err, void *arg);
	/* Called once, when it has ended and its output can be read. */
	void (*on_ended)(struct exec *exec, void *arg);
	void *cb_arg; /* of both */
};

/* An exec of PID 1's own: the program of a service or shell, or a query of the sandbox. */
struct exec_internal {
	int output_fd;        /* of both outputs, or -EBADF: pipes as for any exec */
	bool visible;         /* it is listed like a client's, and kept after its end */
	bool separate_stderr; /* stderr goes to stderr_fd */
	int stderr_fd;
	const struct field_map *env; /* lowest priority, or NULL */
	const int *pass_fds;         /* exec-child.h */
	size_t n_pass;
	bool programs_get_them;       /* pass_fds stay open in the program */
	int (*child_main)(void *arg); /* runs in the child instead of a program, or NULL */
	bool adopts_process; /* exec_adopt_process() gives it its process; nothing is forked */
	void (*on_started)(struct exec *exec, const struct cay_err *err, void *arg);
	void (*on_ended)(struct exec *exec, void *arg);
	void *arg;
};

/* Start an exec; on_started is called from the loop.  A failure leaves nothing. */
[[nodiscard]] int exec_start(struct init *in, const struct exec_run *req, const struct id *sandbox,
			     enum exec_output mode, struct exec **ret, struct cay_err *err);
/* The same for PID 1 itself.  It is not one of the EXECS_LIVE_MAX, and all its processes are
 * killed when the first one ends.  If it cannot be executed, on_started gets the reason and
 * on_ended is never called. */
[[nodiscard]] int exec_start_internal(struct init *in, const struct exec_run *req,
				      const struct exec_internal *own, struct exec **ret,
				      struct cay_err *err);
/* Its process is this one, which another process of the sandbox forked and left to PID 1, and which
 * leads a session of its own.  A pid that is no such child of PID 1 is an error. */
[[nodiscard]] int exec_adopt_process(struct exec *exec, pid_t pid);
/* Kill all its processes after this time, if its first process has not ended by then. */
void exec_kill_later(struct exec *exec, uint64_t ms);
/* Kill all its processes. */
void exec_kill(struct exec *exec);
/* An exec that is starting may still fail, and then never existed for clients. */
static inline bool exec_is_visible(const struct exec *exec)
{
	return !exec->internal && exec->state != EXEC_PHASE_STARTING &&
	       exec->state != EXEC_PHASE_FAILED;
}
/* NULL when there is none, or it failed to start. */
struct exec *exec_find(struct init *in, const struct id *id);
/* Also one that is starting. */
struct exec *exec_find_by_key(struct init *in, struct slice key);
[[nodiscard]] int exec_signal(struct exec *exec, int sig, struct cay_err *err);
/* Without output; texts point into the exec. */
void exec_describe(const struct exec *exec, struct exec_info *ret);
/* Sets exec->end from its status and what the kernel counted meanwhile. */
void exec_end_determine(struct exec *exec, const struct rusage *used);
/* Copy the end, with its texts, for an object that outlives the exec. */
void exec_end_copy(const struct exec *exec, struct end *to,
		   char signal_name[static SIGNAL_TEXT_MAX], char detail[static END_DETAIL_MAX]);
/* A child exited; false: it is no exec. */
bool exec_handle_exit(struct init *in, pid_t pid, int status, const struct rusage *used);
/* Free the output of an ended exec that no client reads; false: there is none. */
bool exec_reclaim_output(struct init *in);
/* In a process of PID 1 that stays: its copies of the rings would stay allocated, too. */
void exec_free_rings(const struct init *in);
#endif
