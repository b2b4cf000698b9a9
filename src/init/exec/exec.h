/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_EXEC_H
#define CAY_INIT_EXEC_EXEC_H
/*
 * job - one exec as PID 1 holds it; struct exec_info is what is told of it
 *
 *	starting -> running -> dying -> ended
 *	        `-> failed (never was: the caller hears why, nobody else sees it)
 *
 * Starting lasts until the program was executed, dying until its last output is
 * here.  A job is not a connection: nobody need listen for it to live, and what
 * it wrote can be read after it ended, until JOBS_FINISHED others have.
 * The job's cgroup is removed as soon as it is empty; processes the program left
 * behind go on living in it.
 */
#include <sys/types.h>

#include "init/core/init.h"
#include "init/exec/input.h"
#include "init/exec/output.h"

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
	enum exec_phase state;
	pid_t pid;
	int cgroup;           /* its directory; -EBADF when there is none any more */
	int cgroup_events_fd; /* of the cgroup, while it outlives the job */
	uv_poll_t cgroup_events;
	bool watching_cgroup;
	uint64_t started_ns, ended_ns;
	uint64_t oom_kills; /* in the sandbox, before it started */
	pid_t first_pid;    /* pid, also when it is none any more */
	bool started_alone; /* no other process was there when it started */
	int status;         /* of waitpid */
	bool timed_out, killed;
	bool handles_open; /* all its handles are */
	bool internal;     /* no client's: in no list, forgotten as soon as it has ended */
	struct end end;
	char signal_name[16];
	char detail[128];     /* of end */
	struct output out[2]; /* stdout, stderr */
	struct input in;
	bool tty; /* out[0] and in are a terminal */
	uint16_t cols, rows;
	char term[65];
	int report_fd;
	uv_poll_t report;
	uv_timer_t timer;
	unsigned handles; /* not closed yet */
	/* Told once: it runs (err NULL), or why it cannot. */
	void (*on_started)(struct exec *exec, const struct cay_err *err, void *arg);
	/* Told once it has ended; its output is still here. */
	void (*on_ended)(struct exec *exec, void *arg);
	void *cb_arg; /* of both */
};

/* A job of PID 1's own: a service's program, or a look at the sandbox's files. */
struct exec_internal {
	int output_fd;        /* where both its outputs go, or -EBADF: as for any job */
	bool separate_stderr; /* errors go to err */
	int stderr_fd;
	const struct field_map *env; /* that any other overrides, or NULL */
	const int *pass_fds;         /* exec-child.h */
	size_t n_pass;
	int (*child_main)(void *arg); /* called in the child in the place of a program, or NULL */
	void (*on_started)(struct exec *exec, const struct cay_err *err, void *arg);
	void (*on_ended)(struct exec *exec, void *arg);
	void *arg;
};

/* Start an exec; started is called from the loop.  On failure nothing is left. */
[[nodiscard]] int exec_start(struct init *in, const struct exec_run *req, const struct id *sandbox,
			     enum exec_output mode, struct exec **ret, struct cay_err *err);
/* The same for PID 1 itself; it is not one of the JOBS_LIVE, and all of it is killed when
 * its first process ends.  If it cannot be executed, started is told why and ended never is. */
[[nodiscard]] int exec_start_internal(struct init *in, const struct exec_run *req,
				      const struct exec_internal *own, struct exec **ret,
				      struct cay_err *err);
/* Every process of it. */
void exec_kill(struct exec *exec);
/* One that is starting may yet turn out never to have been. */
static inline bool exec_is_visible(const struct exec *exec)
{
	return !exec->internal && exec->state != EXEC_PHASE_STARTING &&
	       exec->state != EXEC_PHASE_FAILED;
}
/* NULL when there is none, or it never was. */
struct exec *exec_find(struct init *in, const struct id *id);
[[nodiscard]] int exec_signal(struct exec *exec, int sig, struct cay_err *err);
/* Without output; text points into the job. */
void exec_describe(const struct exec *exec, struct exec_info *ret);
/* Sets exec->end from its status and what the kernel counted meanwhile. */
void exec_end_determine(struct exec *exec);
/* A child was waited for; false: it is no exec. */
bool exec_handle_exit(struct init *in, pid_t pid, int status);
/* Free the output of one that ended and that no client reads; false: there is none. */
bool exec_reclaim_output(struct init *in);
#endif
