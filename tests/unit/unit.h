/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TESTS_UNIT_H
#define CAY_TESTS_UNIT_H
/* unit - cmocka, which wants four headers before its own, and a few shorthands */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* Name the row of a table that failed before the assertion ends the test. */
#define row_check(i, cond) \
	do { \
		if (!(cond)) \
			fail_msg("row %zu: %s", (size_t)(i), #cond); \
	} while (0)

/* Our own bugs assert; whether they do is tried in a child. */
#define assert_aborts(expr) \
	do { \
		int status_ = 0; \
		pid_t pid_ = fork(); \
		if (pid_ == 0) { \
			(void)close(STDERR_FILENO); \
			expr; \
			_exit(0); \
		} \
		assert_int_equal(waitpid(pid_, &status_, 0), pid_); \
		assert_true(WIFSIGNALED(status_) && WTERMSIG(status_) == SIGABRT); \
	} while (0)

#define assert_text(b, want) assert_string_equal(buf_str(b), want)
#endif
