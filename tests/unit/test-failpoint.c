/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <sched.h>

#include "base/failpoint.h"
#include "unit.h"

static void nothing_happens_until_armed(void **)
{
	assert_int_equal(failpoint_arm(NULL, NULL), 0);
	for (unsigned i = 0; i < FAULT_NUM; i++)
		assert_int_equal(failpoint_hit((enum failpoint)i), 0);
}

static void error_acts_once_at_the_asked_pass(void **)
{
	assert_int_equal(failpoint_arm("write:filled=error@3,spawn:after=error", NULL), 0);
	assert_int_equal(failpoint_hit(FAULT_WRITE_FILLED), 0);
	assert_int_equal(failpoint_hit(FAULT_WRITE_FILLED), 0);
	assert_int_equal(failpoint_hit(FAULT_WRITE_FILLED), -EIO);
	assert_int_equal(failpoint_hit(FAULT_WRITE_FILLED), 0);
	assert_int_equal(failpoint_hit(FAULT_SPAWN_AFTER), -EIO);
	assert_int_equal(failpoint_hit(FAULT_SPAWN_BEFORE), 0);
}

static void always_goes_on(void **)
{
	assert_int_equal(failpoint_arm("write:filled=always@2", NULL), 0);
	assert_int_equal(failpoint_hit(FAULT_WRITE_FILLED), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(failpoint_hit(FAULT_WRITE_FILLED), -EIO);
}

static void kill_kills(void **)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (failpoint_arm("spawn:before=kill", NULL) == 0)
			(void)failpoint_hit(FAULT_SPAWN_BEFORE);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* PID 1 cannot kill itself; it ends all the same. */
static void kill_ends_pid_1_too(void **)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (unshare(CLONE_NEWPID) < 0)
			_exit(3);
		pid = fork();
		if (pid == 0) {
			if (failpoint_arm("spawn:before=kill", NULL) == 0)
				(void)failpoint_hit(FAULT_SPAWN_BEFORE);
			_exit(0);
		}
		_exit(waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									   : 4);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 128 + SIGKILL);
}

static void spelling_mistakes_are_errors(void **)
{
	static const char *const bad[] = {
		"nothing=kill",
		"write:filled",
		"write:filled=",
		"write:filled=kil",
		"=kill",
		"write:filled=kill@0",
		"write:filled=kill@",
		"write:filled=kill@x",
		",",
		"write:filled=kill,,a",
		"write:filled=kill@1@2",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct cay_err err = {};

		row_check(i, failpoint_arm(bad[i], &err) == -EINVAL);
		row_check(i, err.msg[0]);
	}
	assert_int_equal(failpoint_arm("", NULL), 0);
}

static void names_are_operation_and_moment(void **)
{
	for (unsigned i = 0; i < FAULT_NUM; i++) {
		const char *name = failpoint_name((enum failpoint)i);

		row_check(i, strchr(name, ':'));
		for (unsigned k = 0; k < i; k++)
			row_check(i, !str_eq(name, failpoint_name((enum failpoint)k)));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_happens_until_armed),
		cmocka_unit_test(error_acts_once_at_the_asked_pass),
		cmocka_unit_test(always_goes_on),
		cmocka_unit_test(kill_kills),
		cmocka_unit_test(kill_ends_pid_1_too),
		cmocka_unit_test(spelling_mistakes_are_errors),
		cmocka_unit_test(names_are_operation_and_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
