/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#include "base/path.h"
#include "base/spawn.h"
#include "file/diff.h"
#include "unified.h"
#include "unit.h"

static const struct {
	const char *before, *after, *want;
} rows[] = {
	{ "", "", "" },
	{ "a\n", "a\n", "" },
	{ "", "a\n", "--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+a\n" },
	{ "a\n", "", "--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-a\n" },
	{ "a", "a\n", "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n" },
	{ "a\nb\n", "a\nb",
	  "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+b\n\\ No newline at end of file\n" },
	{ "1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nX\n6\n7\n8\n9\n",
	  "--- a/f\n+++ b/f\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+X\n 6\n 7\n 8\n" },
	{ "a\r\nb\r\n", "a\r\nc\r\n", "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\r\n-b\r\n+c\r\n" },
	/* seven lines apart are two hunks, six are one */
	{ "x\n1\n2\n3\n4\n5\n6\n7\ny\n", "X\n1\n2\n3\n4\n5\n6\n7\nY\n",
	  "--- a/f\n+++ b/f\n@@ -1,4 +1,4 @@\n-x\n+X\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n "
	  "7\n-y\n+Y\n" },
	{ "x\n1\n2\n3\n4\n5\n6\ny\n", "X\n1\n2\n3\n4\n5\n6\nY\n",
	  "--- a/f\n+++ b/f\n@@ -1,8 +1,8 @@\n-x\n+X\n 1\n 2\n 3\n 4\n 5\n 6\n-y\n+Y\n" },
};

static void known_diffs(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf d = BUF_INIT(KIB(4));

		assert_int_equal(diff_unified(slice_of(rows[i].before), slice_of(rows[i].after),
					      SLICE("f"), &d),
				 0);
		if (!str_eq(buf_str(&d), rows[i].want))
			fail_msg("row %zu: %s", i, buf_str(&d));
	}
}

static uint64_t seed = 1;

static unsigned rnd(unsigned n)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(seed >> 33) % n;
}

static void text_of(struct buf *b, unsigned lines, unsigned kinds)
{
	for (unsigned i = 0; i < lines; i++)
		assert_int_equal(
			buf_printf(b, "line %u%s", rnd(kinds), i + 1 < lines || rnd(2) ? "\n" : ""),
			0);
}

/* Some lines of a go, some come, some stay. */
static void change(struct slice a, unsigned one_in, unsigned kinds, struct buf *b)
{
	while (a.n) {
		struct slice l = unified_line(&a);
		unsigned what = rnd(one_in * 3);

		if (what != 0)
			assert_int_equal(buf_append(b, l.p, l.n), 0);
		if (what == 1)
			assert_int_equal(buf_printf(b, "line %u\n", rnd(kinds)), 0);
	}
}

static size_t changed_lines(struct slice diff)
{
	size_t n = 0;

	(void)unified_line(&diff);
	(void)unified_line(&diff);
	while (diff.n) {
		struct slice l = unified_line(&diff);

		n += l.p[0] == '+' || l.p[0] == '-';
	}
	return n;
}

static void write_file(int dir, const char *name, const struct buf *b)
{
	assert_int_equal(path_write_atomic(dir, name, buf_str(b), b->len, 0600), 0);
}

static int run(const char *base, const char *path, const char *const *argv, int out)
{
	static const char *const env[] = { "HOME=/nonexistent", NULL };
	struct spawn s = SPAWN_INIT(path, argv);
	auto_close int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_child c = CHILD_INIT;
	int status;

	s.env = env;
	s.fds[0] = s.fds[2] = -EBADF;
	s.fds[1] = out;
	s.n_fds = 3;
	assert_int_equal(chdir(base), 0);
	assert_int_equal(child_start(&s, &c, NULL), 0);
	assert_int_equal(fchdir(here), 0);
	assert_int_equal(child_wait(&c, &status), 0);
	return status;
}

/* What diff(1) says of the same two, applied by the same hand; how many lines it changes. */
static size_t diff_program(const char *base, int dir, struct slice a, struct slice b)
{
	const char *const argv[] = { "diff", "-u", "--label", "a/f", "--label",
				     "b/f",  "f",  "B",       NULL };
	auto_close int out = openat(dir, "D", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	auto_buf text = BUF_INIT(MIB(4)), made = BUF_INIT(MIB(4));

	assert_int_equal(run(base, "/usr/bin/diff", argv, out), 1);
	assert_int_equal(path_read(dir, "D", &text), 0);
	assert_true(unified_apply(a, (struct slice){ buf_str(&text), text.len }, &made));
	assert_true(slice_eq((struct slice){ buf_str(&made), made.len }, b));
	return changed_lines((struct slice){ buf_str(&text), text.len });
}

/* Our diff makes f what it should be in the hands of git(1). */
static void applied_by_git(const char *base, int dir, const struct buf *diff, struct slice want)
{
	const char *const argv[] = { "git", "apply", "--allow-empty", "P", NULL };
	auto_buf is = BUF_INIT(MIB(4));

	write_file(dir, "P", diff);
	assert_int_equal(run(base, "/usr/bin/git", argv, -EBADF), 0);
	assert_int_equal(path_read(dir, "f", &is), 0);
	assert_true(slice_eq((struct slice){ buf_str(&is), is.len }, want));
}

static void any_two_texts(void **state)
{
	char base[] = "/tmp/cay-diff-XXXXXX";
	size_t ours = 0, theirs = 0;
	auto_close int dir = -EBADF;

	(void)state;
	assert_non_null(mkdtemp(base));
	dir = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned i = 0; i < 600; i++) {
		auto_buf a = BUF_INIT(MIB(1)), b = BUF_INIT(MIB(1)), d = BUF_INIT(MIB(4)),
			 made = BUF_INIT(MIB(1));
		struct slice sa, sb, sd;
		unsigned kinds = i % 3 == 0 ? 2 : i % 3 == 1 ? 20 : 100000;

		text_of(&a, rnd(i % 10 == 0 ? 2000 : 30), kinds);
		sa = (struct slice){ buf_str(&a), a.len };
		change(sa, 1 + rnd(20), kinds, &b);
		sb = (struct slice){ buf_str(&b), b.len };
		assert_int_equal(diff_unified(sa, sb, SLICE("f"), &d), 0);
		sd = (struct slice){ buf_str(&d), d.len };
		row_check(i, unified_apply(sa, sd, &made));
		row_check(i, slice_eq((struct slice){ buf_str(&made), made.len }, sb));
		if (slice_eq(sa, sb) || i % 10)
			continue;
		write_file(dir, "f", &a);
		write_file(dir, "B", &b);
		theirs += diff_program(base, dir, sa, sb);
		ours += changed_lines(sd);
		applied_by_git(base, dir, &d, sb);
	}
	print_message("# changed lines told: %zu, diff(1) %zu\n", ours, theirs);
	assert_true(ours <= theirs + theirs / 4);
	(void)unlinkat(dir, "f", 0);
	(void)unlinkat(dir, "P", 0);
	(void)unlinkat(dir, "B", 0);
	(void)unlinkat(dir, "D", 0);
	assert_int_equal(rmdir(base), 0);
}

/* All lines differ, none is unique: told whole, and at once. */
static void the_worst_is_quick(void **state)
{
	auto_buf a = BUF_INIT(MIB(2)), b = BUF_INIT(MIB(2)), d = BUF_INIT(MIB(8)),
		 made = BUF_INIT(MIB(2));
	struct slice sa, sb;

	(void)state;
	for (unsigned i = 0; i < 100000; i++) {
		assert_int_equal(buf_puts(&a, rnd(2) ? "a\n" : "b\n"), 0);
		assert_int_equal(buf_puts(&b, rnd(2) ? "a\n" : "b\n"), 0);
	}
	sa = (struct slice){ a.data, a.len };
	sb = (struct slice){ b.data, b.len };
	(void)alarm(10);
	assert_int_equal(diff_unified(sa, sb, SLICE("f"), &d), 0);
	(void)alarm(0);
	assert_true(unified_apply(sa, (struct slice){ d.data, d.len }, &made));
	assert_true(slice_eq((struct slice){ made.data, made.len }, sb));
}

static void a_bound_is_kept(void **state)
{
	auto_buf d = BUF_INIT(16);

	(void)state;
	assert_int_equal(diff_unified(SLICE("a\n"), SLICE("b\n"), SLICE("f"), &d), -ENOBUFS);
	assert_int_equal(d.len, 0);
}

static void odd_names_are_quoted(void **state)
{
	auto_buf d = BUF_INIT(KIB(1));

	(void)state;
	assert_int_equal(diff_unified(SLICE("a\n"), SLICE("b\n"), SLICE("x\n\033\xff"), &d), 0);
	assert_true(unified_starts(slice_of(buf_str(&d)), "--- a/\"x\\012\\033\\377\"\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_diffs),          cmocka_unit_test(any_two_texts),
		cmocka_unit_test(the_worst_is_quick),   cmocka_unit_test(a_bound_is_kept),
		cmocka_unit_test(odd_names_are_quoted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
