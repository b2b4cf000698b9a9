/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "file/grep.h"
#include "unit.h"

struct fixture {
	char base[32];
	int dir;
	struct buf out;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || snprintf(f->base, sizeof(f->base), "/tmp/cay-grep-XXXXXX") < 0 ||
	    !mkdtemp(f->base))
		return -1;
	f->dir = open(f->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->out = BUF_INIT(KIB(64));
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	auto_close int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = rmtree_at(tmp, f->base + strlen("/tmp/"));

	(void)close(f->dir);
	buf_fini(&f->out);
	free(f);
	return r;
}

static int note(void *arg, const struct grep_hit *h)
{
	struct fixture *f = arg;

	return buf_printf(&f->out, "%.*s:%llu:%llu:%.*s%s|", (int)h->path.n, h->path.p,
			  (unsigned long long)h->line, (unsigned long long)h->column,
			  (int)h->text.n, h->text.p, h->cut ? "..." : "");
}

static struct grep_request ask_for(struct fixture *f, const char *pattern)
{
	return (struct grep_request){ .path = f->base,
				      .pattern = slice_of(pattern),
				      .limit = 100,
				      .width = 100,
				      .on_hit = note,
				      .arg = f };
}

static struct grep_result found(struct fixture *f, const struct grep_request *ask, const char *want)
{
	struct grep_result done;

	buf_clear(&f->out);
	assert_int_equal(grep_run(ask, &done, NULL), 0);
	assert_string_equal(buf_str(&f->out), want);
	return done;
}

static void put(struct fixture *f, const char *name, const char *text)
{
	assert_int_equal(path_write_atomic(f->dir, name, text, strlen(text), 0644), 0);
}

static void lines_of_a_tree(void **state)
{
	static const char *const c_files[] = { "*.{c,h}" };
	struct fixture *f = *state;
	struct grep_request ask;
	struct grep_result done;

	put(f, "a.c", "one\nTwo two\r\nthree\n");
	ask = ask_for(f, "two");
	ask.fixed = true;
	found(f, &ask, "a.c:2:5:Two two|");
	ask.ignore_case = true;
	found(f, &ask, "a.c:2:1:Two two|");
	ask = ask_for(f, "t(wo|hree)$");
	found(f, &ask, "a.c:2:5:Two two|a.c:3:1:three|");
	ask.ignore_case = true;
	ask.limit = 1;
	done = found(f, &ask, "a.c:2:5:Two two|");
	assert_true(done.more);
	put(f, "b.txt", "two\n");
	ask = ask_for(f, "two");
	ask.include = c_files;
	ask.n_include = 1;
	done = found(f, &ask, "a.c:2:5:Two two|");
	assert_int_equal(done.files, 1);
	ask = ask_for(f, "o");
	ask.include = c_files;
	ask.n_include = 1;
	ask.per_file = 1;
	found(f, &ask, "a.c:1:1:one|");
}

static void context_is_told_once(void **state)
{
	struct fixture *f = *state;
	struct grep_request ask = ask_for(f, "x");

	put(f, "f", "1\n2\n3\nx4\n5\nx6\n7\n8\n9\n10\n11\nx12");
	ask.context = 2;
	found(f, &ask,
	      "f:2:0:2|f:3:0:3|f:4:1:x4|f:5:0:5|f:6:1:x6|f:7:0:7|f:8:0:8|f:10:0:10|f:11:0:11|f:12:"
	      "1:x12|");
	ask.limit = 1; /* and what belongs to the last one still comes */
	found(f, &ask, "f:2:0:2|f:3:0:3|f:4:1:x4|f:5:0:5|f:6:0:x6|");
}

static void odd_things_are_passed_by(void **state)
{
	struct fixture *f = *state;
	struct grep_request ask = ask_for(f, "needle");
	struct grep_result done;

	put(f, "text", "needle\n");
	assert_int_equal(path_write_atomic(f->dir, "binary", "\0needle\n", 8, 0644), 0);
	assert_int_equal(mkdirat(f->dir, "d", 0755), 0);
	assert_int_equal(symlinkat("..", f->dir, "d/loop"), 0);
	assert_int_equal(symlinkat("text", f->dir, "link"), 0);
	assert_int_equal(mkfifoat(f->dir, "fifo", 0644), 0);
	put(f, ".hidden", "needle\n");
	(void)alarm(10);
	for (unsigned i = 0; i < 2; i++) {
		ask.fixed = i;
		done = found(f, &ask, "text:1:1:needle|");
		assert_int_equal(done.files, 2);
		assert_int_equal(done.binary, 1);
	}
	(void)alarm(0);
	ask.hidden = true;
	buf_clear(&f->out);
	assert_int_equal(grep_run(&ask, &done, NULL), 0);
	assert_int_equal(done.hits, 2);
}

/* Longer than a block, with the match at its front, in its middle, and on the line behind. */
static void long_lines(void **state)
{
	struct fixture *f = *state;
	struct grep_request ask = ask_for(f, "needle");
	auto_buf b = BUF_INIT(MIB(1));

	assert_int_equal(buf_puts(&b, "needle "), 0);
	while (b.len < 300000)
		assert_int_equal(buf_puts(&b, "xxxxxxxxx "), 0);
	assert_int_equal(buf_puts(&b, "needle\nneedle"), 0);
	put(f, "f", buf_str(&b));
	ask.width = 10;
	found(f, &ask, "f:1:1:needle xxx...|f:2:1:needle|");
	buf_clear(&b);
	while (b.len < 50000)
		assert_int_equal(buf_puts(&b, "\xc3\xa4\xc3\xa4"), 0);
	assert_int_equal(buf_puts(&b, "needle\xc3\xa4\xc3\xa4\n"), 0);
	put(f, "f", buf_str(&b));
	found(f, &ask, "f:1:50001:\xc3\xa4needle\xc3\xa4...|");
}

/* The same hits as a model finds that has the whole text in memory. */
static void across_blocks(void **state)
{
	struct fixture *f = *state;
	auto_buf b = BUF_INIT(MIB(2)), want = BUF_INIT(MIB(1));
	uint64_t seed = 3;

	f->out.max = MIB(1);
	for (unsigned i = 1; i <= 20000; i++) {
		bool hit;

		seed = seed * UINT64_C(6364136223846793005) + 1;
		hit = seed >> 60 == 0;
		for (unsigned k = 0; k < (seed >> 40) % 80; k++)
			assert_int_equal(buf_putc(&b, '.'), 0);
		if (hit)
			assert_int_equal(buf_printf(&want, "f:%u:%llu:", i,
						    (unsigned long long)((seed >> 40) % 80 + 1)),
					 0);
		for (unsigned k = 0; hit && k < (seed >> 40) % 80; k++)
			assert_int_equal(buf_putc(&want, '.'), 0);
		if (hit)
			assert_int_equal(buf_puts(&want, "needle|"), 0);
		assert_int_equal(buf_puts(&b, hit ? "needle\n" : "\n"), 0);
	}
	put(f, "f", buf_str(&b));
	for (unsigned i = 0; i < 3; i++) {
		struct grep_request ask = ask_for(f, "needle");

		ask.limit = 10000;
		ask.fixed = i;
		ask.ignore_case = i == 2;
		found(f, &ask, buf_str(&want));
	}
}

static void refused(void **state)
{
	struct fixture *f = *state;
	static const char *const bad[] = { "(", "[", "a{2,1}", "*a{" };
	static const char *const bad_glob[] = { "[" };
	struct grep_request ask;
	struct grep_result done;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct cay_err err = {};

		ask = ask_for(f, bad[i]);
		if (grep_run(&ask, &done, &err) < 0)
			row_check(i, err.code == CAY_E_INVALID && str_eq(err.field, "pattern"));
		else
			row_check(i, i == 3);
	}
	{
		struct cay_err err = {};

		ask = ask_for(f, "a");
		ask.include = bad_glob;
		ask.n_include = 1;
		assert_true(grep_run(&ask, &done, &err) < 0);
		assert_string_equal(err.field, "include");
	}
	{
		struct cay_err err = {};

		ask = ask_for(f, "a");
		ask.path = "/nowhere/at/all";
		assert_true(grep_run(&ask, &done, &err) < 0);
		assert_int_equal(err.code, CAY_E_NOT_FOUND);
	}
}

int main(void)
{
#define REAL(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		REAL(lines_of_a_tree), REAL(context_is_told_once), REAL(odd_things_are_passed_by),
		REAL(long_lines),      REAL(across_blocks),        REAL(refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
