/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_EXEC_CHILD_H
#define CAY_INIT_EXEC_EXEC_CHILD_H
/*
 * exec-child - from fork to exec: become the user, in blocking code
 *
 * Everything that touches files of the sandbox (passwd, group, the working directory, the
 * program) happens here, in a process of the exec, so that no file can block or mislead PID 1.
 * On success the report pipe closes with exec; a failure is one struct exec_child_report,
 * smaller than PIPE_BUF.
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
	const struct field_map *env[4]; /* later ones win; may be NULL */
	int stdio[3];
	int report_fd;
	int cgroup; /* to move to; negative when the child is in it already or there is none */
	const struct rlimit *nofile;
	const char *term_name;        /* TERM; not NULL: stdio becomes the controlling terminal */
	int (*child_main)(void *arg); /* instead of argv, or NULL */
	/* Called with the reason when child_main cannot run, instead of a report.  `report` is
	 * any fd that is kept until then, and passed on. */
	void (*on_fail)(void *arg, int report, const struct cay_err *err);
	const int *pass_fds; /* n_pass fds, which become CHILD_PASS and up, close-on-exec */
	size_t n_pass;
	bool programs_get_them; /* not close-on-exec */
	void *arg;
};

/* Signals PID 1 ignores and a child must not; exec resets all others. */
#define CHILD_IGNORED_N 5
extern const int child_ignored[CHILD_IGNORED_N];

/* Fork.  A child that starts in the cgroup costs less than one that moves there: a move takes
 * a lock that, after a quiet period, waits for every CPU.  Where a filter refuses clone3 (it
 * cannot check its arguments) *cgroup is unchanged, and the child moves itself.  PID 1 has no
 * threads, so nothing needs the C library's preparations for a fork. */
[[nodiscard]] pid_t exec_child_fork(int *cgroup);
/* Only in a forked child. */
[[noreturn]] void exec_child_run(const struct exec_child_plan *plan);
/* For a child that stays without exec: join the cgroup (negative: already in it), be killed
 * before PID 1 when memory runs out, and have no more rights than other children. */
[[nodiscard]] int helper_child_setup(int cgroup);
/* Read a small regular file of the image; opening it never blocks. */
[[nodiscard]] int image_file_read(const char *path, struct buf *ret);
/* Reduce the effective capabilities to those PID 1 needs; the rest stay permitted. */
[[nodiscard]] int init_caps_lower(void);
#endif
