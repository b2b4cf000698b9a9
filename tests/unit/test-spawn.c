/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include "base/failpoint.h"
#include "base/spawn.h"
#include "unit.h"

static struct spawn shell(const char *const argv[static 4], int out)
{
	struct spawn s = SPAWN_INIT("/bin/sh", argv);

	s.fds[0] = -1;
	s.fds[1] = s.fds[2] = out;
	s.n_fds = 3;
	return s;
}

static int run(const char *script, int *ret_status, char *out, size_t size)
{
	const char *const argv[] = { "sh", "-c", script, NULL };
	auto_child c = CHILD_INIT;
	struct spawn s;
	int fds[2];
	ssize_t n;
	int r;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	s = shell(argv, fds[1]);
	r = child_start(&s, &c, NULL);
	(void)close(fds[1]);
	if (r >= 0)
		r = child_wait(&c, ret_status);
	n = read(fds[0], out, size - 1);
	out[n > 0 ? n : 0] = 0;
	(void)close(fds[0]);
	return r;
}

static void exit_statuses_and_signals_are_exact(void **)
{
	char out[64];
	int status;

	assert_int_equal(run("exit 0", &status, out, sizeof(out)), 0);
	assert_int_equal(status, 0);
	assert_int_equal(run("exit 255", &status, out, sizeof(out)), 0);
	assert_int_equal(status, 255);
	assert_int_equal(run("kill -TERM $$", &status, out, sizeof(out)), 0);
	assert_int_equal(status, -SIGTERM);
}

static void the_child_gets_what_was_named_and_nothing_else(void **)
{
	auto_close int leak = open("/dev/null", O_RDONLY); /* not close-on-exec on purpose */
	char out[256];
	int status;

	assert_true(leak >= 0);
	assert_int_equal(setenv("SECRET", "x", 1), 0);
	assert_int_equal(run("echo \"<$SECRET>\"; ls /proc/self/fd | tr '\\n' ' '", &status, out,
			     sizeof(out)),
			 0);
	/* ls opens one itself */
	assert_string_equal(out, "<>\n0 1 2 3 ");
}

/* Sources that are the other one's target, and a target that lies where a
 * source could have been parked meanwhile. */
static void fds_may_trade_places(void **)
{
	const char *const argv[] = { "sh", "-c",
				     "read a <&3; read b <&4; read c <&9; [ $a$b$c = onetwothree ]",
				     NULL };
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct spawn s = SPAWN_INIT("/bin/sh", argv);
		auto_child c = CHILD_INIT;
		int p[3][2];

		for (int i = 0; i < 3; i++) {
			const char *const text[] = { "one\n", "two\n", "three\n" };
			size_t n = strlen(text[i]);

			if (pipe2(p[i], O_CLOEXEC) < 0 ||
			    write(p[i][1], text[i], n) != (ssize_t)n ||
			    dup3(p[i][0], 100 + i, O_CLOEXEC) < 0)
				_exit(2);
		}
		for (int fd = 3; fd < 100; fd++)
			(void)close(fd);
		if (dup3(100, 4, O_CLOEXEC) < 0 || dup3(101, 3, O_CLOEXEC) < 0)
			_exit(3);
		s.n_fds = 10;
		for (unsigned i = 0; i < s.n_fds; i++)
			s.fds[i] = -1;
		s.fds[3] = 4;
		s.fds[4] = 3;
		s.fds[9] = 102;
		if (child_start(&s, &c, NULL) < 0 || child_wait(&c, &status) < 0)
			_exit(4);
		_exit(status);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* What we block and ignore, and our session, is our own affair. */
static void signals_and_session_start_afresh(void **)
{
	const char *const grep[] = { "grep", "-hE", "^Sig(Blk|Ign):", "/proc/self/status", NULL };
	const char *const sh[] = { "sh", "-c",
				   "read pid name state ppid pgrp sid rest </proc/$$/stat; "
				   "[ $sid = $$ ]",
				   NULL };
	struct spawn s = SPAWN_INIT("/bin/grep", grep);
	auto_child c = CHILD_INIT;
	sigset_t block, before;
	int status, fds[2];
	char lines[128] = "";
	uint64_t blocked, ignored;

	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	(void)sigemptyset(&block);
	(void)sigaddset(&block, SIGUSR1);
	(void)sigprocmask(SIG_BLOCK, &block, &before);
	(void)signal(SIGPIPE, SIG_IGN);
	s.fds[0] = s.fds[2] = -1;
	s.fds[1] = fds[1];
	s.n_fds = 3;
	assert_int_equal(child_start(&s, &c, NULL), 0);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	(void)signal(SIGPIPE, SIG_DFL);
	assert_int_equal(child_wait(&c, &status), 0);
	assert_true(read(fds[0], lines, sizeof(lines) - 1) > 0);
	assert_int_equal(sscanf(lines, "SigBlk: %" SCNx64 " SigIgn: %" SCNx64, &blocked, &ignored),
			 2);
	assert_int_equal(blocked, 0);
	/* but for 32 and 33, which are glibc's own and which it does not touch */
	assert_int_equal(ignored & ~(UINT64_C(3) << 31), 0);
	(void)close(fds[0]);
	(void)close(fds[1]);

	s = SPAWN_INIT("/bin/sh", sh);
	s.session = true;
	assert_int_equal(child_start(&s, &c, NULL), 0);
	assert_int_equal(child_wait(&c, &status), 0);
	assert_int_equal(status, 0);
}

static void a_missing_program_fails_at_once(void **)
{
	const char *const argv[] = { "x", NULL };
	struct spawn s = SPAWN_INIT("/no/such", argv);
	auto_child c = CHILD_INIT;
	struct cay_err err = {};

	assert_int_equal(child_start(&s, &c, &err), -ENOENT);
	assert_string_equal(err.msg, "cannot start '/no/such': No such file or directory");
	s.path = "relative";
	assert_true(child_start(&s, &c, NULL) < 0);
	s.path = "/bin/sh";
	s.n_fds = 1;
	s.fds[0] = 9999;
	assert_int_equal(child_start(&s, &c, NULL), -EBADF);
	s.n_fds = 0;
	s.cgroup_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(child_start(&s, &c, NULL) < 0);
	(void)close(s.cgroup_fd);
}

static void letting_go_kills_and_reaps(void **)
{
	const char *const argv[] = { "sh", "-c", "exec sleep 1000", NULL };
	struct spawn s = shell(argv, -1);
	struct child c = CHILD_INIT;
	struct pollfd pfd;

	s.session = true;
	assert_int_equal(child_start(&s, &c, NULL), 0);
	pfd = (struct pollfd){ .fd = dup(c.pidfd), .events = POLLIN };
	assert_int_equal(poll(&pfd, 1, 0), 0);
	child_fini(&c);
	assert_int_equal(c.pidfd, -EBADF);
	assert_int_equal(poll(&pfd, 1, 5000), 1);
	(void)close(pfd.fd);
	child_fini(&c);
	assert_int_equal(child_kill(&c, SIGTERM), -EBADF);
}

static void faults_leave_no_child(void **)
{
	const char *const argv[] = { "sh", "-c", "exec sleep 1000", NULL };
	struct spawn s = shell(argv, -1);
	struct child c = CHILD_INIT;

	assert_int_equal(failpoint_arm("spawn:before=error,spawn:after=error", NULL), 0);
	assert_int_equal(child_start(&s, &c, NULL), -EIO);
	assert_int_equal(child_start(&s, &c, NULL), -EIO);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit_statuses_and_signals_are_exact),
		cmocka_unit_test(the_child_gets_what_was_named_and_nothing_else),
		cmocka_unit_test(fds_may_trade_places),
		cmocka_unit_test(signals_and_session_start_afresh),
		cmocka_unit_test(a_missing_program_fails_at_once),
		cmocka_unit_test(letting_go_kills_and_reaps),
		cmocka_unit_test(faults_leave_no_child),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
