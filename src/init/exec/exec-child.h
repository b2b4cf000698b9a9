/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_EXEC_CHILD_H
#define CAY_INIT_EXEC_EXEC_CHILD_H
/*
 * child - from fork to exec: becoming the user, in straight blocking code
 *
 * All that touches files of the sandbox (passwd, group, the directory to start
 * in, the program) happens here, in a process of the exec's own, so that nothing
 * planted there can hold up or mislead PID 1.  Success is silent: the report pipe
 * closes with exec.  Failure is one struct exec_child_report, smaller than PIPE_BUF.
 */
#include <sys/resource.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "ops/types.h"

struct exec_child_report {
	enum cay_code code;
	int errnum;
	char field[16];
	char msg[CAY_ERR_MSG_MAX];
};

#define CHILD_PASS 4

struct exec_child_plan {
	const char *const *argv; /* ended by NULL */
	const char *user, *cwd;
	const struct field_map *env[3]; /* later ones win; may be NULL */
	int stdio[3];
	int report_fd;
	int cgroup; /* to move to; negative when it is there already or there is none */
	const struct rlimit *nofile;
	const char *term_name;        /* TERM; not NULL: stdio is a terminal, and to be its own */
	int (*child_main)(void *arg); /* in the place of argv, or NULL */
	/* Told why there is no inside, in the place of a report; `report` is any fd to be
	 * kept until then, and is handed over. */
	void (*on_fail)(void *arg, int report, const struct cay_err *err);
	const int *pass_fds; /* n_pass fds that become CHILD_PASS and on, close-on-exec */
	size_t n_pass;
	void *arg;
};

/* What PID 1 ignores and a child must not; all else is default across exec. */
#define CHILD_IGNORED_N 5
extern const int child_ignored[CHILD_IGNORED_N];

/* A child that is born in the cgroup costs less than one that moves there: a move takes a
 * lock that, after a quiet moment, waits for every CPU.  Where a filter refuses clone3 (it
 * cannot look into its arguments) *cgroup stays as it is, for the child to move.  There are
 * no threads, so nothing needs the C library's preparations for a fork. */
[[nodiscard]] pid_t exec_child_fork(int *cgroup);
/* Never returns.  Call it in a forked child only. */
[[noreturn]] void exec_child_run(const struct exec_child_plan *plan);
/* For a child that executes nothing and stays: in its cgroup (negative: it is there), before
 * PID 1 when memory runs out, and as little permitted as others. */
[[nodiscard]] int helper_child_setup(int cgroup);
/* A file of the image: regular, small, and opening it waits for nobody. */
[[nodiscard]] int image_file_read(const char *path, struct buf *ret);
/* Leave the effective capabilities PID 1 works with; the rest stays permitted. */
[[nodiscard]] int init_caps_lower(void);
#endif
