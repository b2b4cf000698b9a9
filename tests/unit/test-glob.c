/* SPDX-License-Identifier: Apache-2.0 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "file/glob-find.h"
#include "unit.h"

static const struct {
	const char *pattern, *path;
	bool want;
} rows[] = {
	{ "*.c", "a.c", true },
	{ "*.c", "d/a.c", false },
	{ "**/*.c", "a.c", true },
	{ "**/*.c", "d/e/a.c", true },
	{ "**", "d/e/a.c", true },
	{ "d/**", "d/e/a.c", true },
	{ "d/**/a.c", "d/a.c", true },
	{ "d/**/a.c", "d/x/y/a.c", true },
	{ "d/**/x/**/a.c", "d/x/x/y/a.c", true },
	{ "d/**/x/**/a.c", "d/y/y/a.c", false },
	{ "**/**/**/a.c", "a.c", true },
	{ "a**b", "axxb", true }, /* within a name it is a star */
	{ "a**b", "a/b", false },
	{ "?.c", "a.c", true },
	{ "?.c", ".c", false },
	{ "[abc].c", "b.c", true },
	{ "[!abc].c", "b.c", false },
	{ "[^abc].c", "d.c", true },
	{ "[a-c]x", "bx", true },
	{ "[a-c]x", "dx", false },
	{ "[]x]", "]", true },
	{ "[a-]", "-", true },
	{ "[\\]]", "]", true },
	{ "{a,b}.c", "b.c", true },
	{ "{a,b}.c", "c.c", false },
	{ "{a,b{c,d}}.h", "bd.h", true },
	{ "{a,b{c,d}}.h", "b.h", false },
	{ "{src,tests}/**/*.{c,h}", "tests/u/x.h", true },
	{ "{src/a,b}/x", "src/a/x", true },
	{ "{,x}y", "y", true },
	{ "\\*", "*", true },
	{ "\\*", "a", false },
	{ "\\{a,b\\}", "{a,b}", true },
	{ "a}", "a}", true },
	{ "./a", "a", true },
	{ "a//b", "a/b", true },
	{ "*", ".a", false },
	{ ".*", ".a", true },
	{ "**/x", ".d/x", false },
	{ ".d/**", ".d/x", true },
	{ "[.]a", ".a", false },
	{ "d/", "d", false }, /* it is no directory here */
	{ "\xff*", "\xff\x80", true },
};

static void patterns(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_glob g = {};

		row_check(i, glob_init(&g, slice_of(rows[i].pattern), false, NULL) == 0);
		row_check(i, glob_match_path(&g, slice_of(rows[i].path), false) == rows[i].want);
	}
}

static void hidden_by_option(void **state)
{
	auto_glob g = {};

	(void)state;
	assert_int_equal(glob_init(&g, SLICE("**/*"), true, NULL), 0);
	assert_true(glob_match_path(&g, SLICE(".git/config"), false));
	assert_true(glob_match_path(&g, SLICE(".x"), false));
}

static void refused(void **state)
{
	static const char *const bad[] = {
		"",
		"[a",
		"{a,b",
		"a\\",
		"../x",
		"a/../b",
		"[a/b]",
		"/",
		".",
		"{/a,b}",
		"{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		auto_glob g = {};
		struct cay_err err = {};

		row_check(i, glob_init(&g, slice_of(bad[i]), false, &err) < 0);
		row_check(i, err.code == CAY_E_INVALID);
	}
}

/* Each of these takes years where stars are tried one within another. */
static void no_pattern_is_slow(void **state)
{
	char name[255];
	auto_buf deep = BUF_INIT(KIB(4));
	auto_glob g = {}, h = {};

	(void)state;
	memset(name, 'a', sizeof(name));
	(void)alarm(20);
	for (unsigned i = 0; i < 1000; i++)
		assert_false(glob_match_name(SLICE("a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b"),
					     (struct slice){ name, sizeof(name) }));
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(buf_puts(&deep, "a/"), 0);
	assert_int_equal(glob_init(&g, SLICE("**/a/**/a/**/a/**/a/**/a/**/a/**/a/**/b"), 0, NULL),
			 0);
	assert_false(glob_match_path(&g, (struct slice){ deep.data, deep.len }, false));
	assert_int_equal(
		glob_init(&h, SLICE("{**/a,**/a/a}/{**/a,**/a/a}/{**/a,**/a/a}/b"), 0, NULL), 0);
	assert_false(glob_match_path(&h, (struct slice){ deep.data, deep.len }, false));
	(void)alarm(0);
}

static int set_up(void **state)
{
	char *base = strdup("/tmp/cay-glob-XXXXXX");

	*state = base;
	return base && mkdtemp(base) ? 0 : -1;
}

static int tear_down(void **state)
{
	char *base = *state;
	auto_close int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = rmtree_at(tmp, base + strlen("/tmp/"));

	free(base);
	return r;
}

static void make(int dir, const char *name, time_t mtime)
{
	auto_close int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	struct timespec t[2] = { { .tv_sec = mtime }, { .tv_sec = mtime } };

	assert_true(fd >= 0);
	assert_int_equal(utimensat(dir, name, t, 0), 0);
}

static void found(const char *base, const char *pattern, unsigned limit, const char *want,
		  uint64_t total)
{
	struct glob_find_request ask = { .dir = base,
					 .pattern = slice_of(pattern),
					 .limit = limit };
	auto_glob_find f = {};
	auto_buf is = BUF_INIT(KIB(16));

	assert_int_equal(glob_find_run(&ask, &f, NULL), 0);
	for (size_t i = 0; i < f.n; i++)
		assert_int_equal(buf_printf(&is, "%s|", f.v[i].path), 0);
	assert_string_equal(buf_str(&is), want);
	assert_int_equal(f.total, total);
}

static void newest_first_in_a_real_tree(void **state)
{
	const char *base = *state;
	auto_close int dir = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(mkdirat(dir, "d", 0700), 0);
	assert_int_equal(mkdirat(dir, ".h", 0700), 0);
	make(dir, "old.c", 100);
	make(dir, "d/new.c", 300);
	make(dir, "d/mid.c", 200);
	make(dir, "d/same.c", 200);
	make(dir, ".h/x.c", 900);
	make(dir, "nl\n\033\xff.c", 50);
	assert_int_equal(symlinkat("..", dir, "d/up"), 0); /* a loop, if it were followed */
	assert_int_equal(symlinkat("old.c", dir, "link.c"), 0);
	assert_int_equal(mkfifoat(dir, "d/fifo.c", 0600), 0);
	{
		struct timespec t[2] = { { .tv_sec = 10 }, { .tv_sec = 10 } };

		assert_int_equal(utimensat(dir, "link.c", t, AT_SYMLINK_NOFOLLOW), 0);
		assert_int_equal(utimensat(dir, "d/fifo.c", t, 0), 0);
	}
	found(base, "**/*.c", 100, "d/new.c|d/mid.c|d/same.c|old.c|nl\n\033\xff.c|d/fifo.c|link.c|",
	      7);
	found(base, "**/*.c", 2, "d/new.c|d/mid.c|", 7);
	found(base, "d/{new,mid}.c", 100, "d/new.c|d/mid.c|", 2);
	found(base, "**/up/**", 100, "d/up|", 1);
	found(base, "x/*", 100, "", 0);
}

static void deep_and_closed_directories_are_passed_by(void **state)
{
	const char *base = *state;
	struct glob_find_request ask = { .dir = base, .pattern = SLICE("**/f"), .limit = 10 };
	int at = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_glob_find f = {};

	for (unsigned i = 0; i < WALK_DEPTH_MAX + 10; i++) {
		int next;

		make(at, "f", 1);
		assert_int_equal(mkdirat(at, "d", 0700), 0);
		next = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)close(at);
		at = next;
	}
	(void)close(at);
	assert_int_equal(glob_find_run(&ask, &f, NULL), 0);
	assert_int_equal(f.total, WALK_DEPTH_MAX);
	assert_int_equal(f.skipped, 1);
}

static void the_newest_of_many(void **state)
{
	const char *base = *state;
	auto_close int dir = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct glob_find_request ask = { .dir = base, .pattern = SLICE("*"), .limit = 50 };
	auto_glob_find f = {};

	for (unsigned i = 0; i < 1000; i++) {
		char name[16];

		assert_true(snprintf(name, sizeof(name), "%u", i) > 0);
		make(dir, name, (time_t)(i * 7919 % 1000)); /* each time once */
	}
	assert_int_equal(glob_find_run(&ask, &f, NULL), 0);
	assert_int_equal(f.total, 1000);
	assert_int_equal(f.n, 50);
	for (unsigned i = 0; i < 50; i++)
		assert_int_equal(f.v[i].mtime_ns, (999 - i) * UINT64_C(1000000000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(patterns),
		cmocka_unit_test(hidden_by_option),
		cmocka_unit_test(refused),
		cmocka_unit_test(no_pattern_is_slow),
		cmocka_unit_test_setup_teardown(newest_first_in_a_real_tree, set_up, tear_down),
		cmocka_unit_test_setup_teardown(deep_and_closed_directories_are_passed_by, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(the_newest_of_many, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
