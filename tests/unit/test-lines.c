/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "file/lines.h"
#include "unit.h"

static const struct {
	const char *text;
	struct file_lines_request ask;
	const char *want;
	uint64_t first, n, total;
	bool more;
	uint64_t cut;
} rows[] = {
	{ "", { .limit = 10 }, "", 1, 0, 0, false, 0 },
	{ "a\nb\nc\n", { .limit = 10 }, "a\nb\nc\n", 1, 3, 3, false, 0 },
	{ "a\nb\nc", { .limit = 10 }, "a\nb\nc", 1, 3, 3, false, 0 },
	{ "a\nb\nc\n", { .limit = 2 }, "a\nb\n", 1, 2, 3, true, 0 },
	{ "a\nb\nc", { .limit = 2 }, "a\nb\n", 1, 2, 3, true, 0 },
	{ "a\nb\nc\n", { .first = 2, .limit = 1 }, "b\n", 2, 1, 3, true, 0 },
	{ "a\nb\nc\n", { .first = 3, .limit = 5 }, "c\n", 3, 1, 3, false, 0 },
	{ "a\nb\nc\n", { .first = 9, .limit = 5 }, "", 9, 0, 3, false, 0 },
	{ "a\nb\nc\n", { .tail = true, .limit = 2 }, "b\nc\n", 2, 2, 3, false, 0 },
	{ "a\nb\nc", { .tail = true, .limit = 2 }, "b\nc", 2, 2, 3, false, 0 },
	{ "a\nb\nc\n", { .tail = true, .limit = 9 }, "a\nb\nc\n", 1, 3, 3, false, 0 },
	{ "\n\n\n", { .tail = true, .limit = 1 }, "\n", 3, 1, 3, false, 0 },
	{ "a\r\nb\r\n", { .limit = 1 }, "a\r\n", 1, 1, 2, true, 0 },
	{ "a\nb\n", { .limit = 9, .numbers = true }, "     1\ta\n     2\tb\n", 1, 2, 2, false, 0 },
	{ "a\nb\n",
	  { .tail = true, .limit = 1, .numbers = true },
	  "     2\tb\n",
	  2,
	  1,
	  2,
	  false,
	  0 },
	{ "12345678\nx\n",
	  { .limit = 9, .width = 4 },
	  "1234 [4 bytes cut]\nx\n",
	  1,
	  2,
	  2,
	  false,
	  1 },
	{ "1234\n", { .limit = 9, .width = 4 }, "1234\n", 1, 1, 1, false, 0 },
	{ "1234\r\n", { .limit = 9, .width = 4 }, "1234\r\n", 1, 1, 1, false, 0 },
	{ "12345\r\n", { .limit = 9, .width = 4 }, "1234 [1 bytes cut]\r\n", 1, 1, 1, false, 1 },
	{ "ab\xc3\xa4\n", { .limit = 9, .width = 3 }, "ab [2 bytes cut]\n", 1, 1, 1, false, 1 },
	{ "\xf0\x9f\x98\x80z\n",
	  { .limit = 9, .width = 3 },
	  " [5 bytes cut]\n",
	  1,
	  1,
	  1,
	  false,
	  1 },
};

struct fixture {
	char base[32];
	char path[64];
	int dir;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || snprintf(f->base, sizeof(f->base), "/tmp/cay-lines-XXXXXX") < 0 ||
	    !mkdtemp(f->base) || snprintf(f->path, sizeof(f->path), "%s/f", f->base) < 0)
		return -1;
	f->dir = open(f->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	auto_close int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = rmtree_at(tmp, f->base + strlen("/tmp/"));

	(void)close(f->dir);
	free(f);
	return r;
}

static void parts_of_files(void **state)
{
	const struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct file_lines_request ask = rows[i].ask;
		auto_lines l = LINES_INIT;

		ask.path = f->path;
		ask.width = ask.width ? ask.width : 2000;
		row_check(i, path_write_atomic(f->dir, "f", rows[i].text, strlen(rows[i].text),
					       0600) == 0);
		row_check(i, file_lines_read(&ask, &l, NULL) == 0);
		if (!str_eq(buf_str(&l.text), rows[i].want))
			fail_msg("row %zu: '%s'", i, buf_str(&l.text));
		row_check(i, l.first == rows[i].first && l.n == rows[i].n);
		row_check(i, l.has_total && l.total == rows[i].total);
		row_check(i, l.more == rows[i].more && l.cut == rows[i].cut && !l.binary);
	}
}

static void binary_is_said(void **state)
{
	const struct fixture *f = *state;
	struct file_lines_request ask = { .path = f->path, .limit = 10, .width = 100 };
	auto_lines l = LINES_INIT;

	assert_int_equal(path_write_atomic(f->dir, "f", "a\nb\0c\n", 6, 0600), 0);
	assert_int_equal(file_lines_read(&ask, &l, NULL), 0);
	assert_true(l.binary);
	assert_int_equal(l.text.len, 0);
	assert_int_equal(l.size, 6);
}

static void odd_files_are_refused_at_once(void **state)
{
	static const struct {
		const char *name;
		enum cay_code code;
	} odd[] = {
		{ "dir", CAY_E_INVALID },
		{ "fifo", CAY_E_INVALID },
		{ "loop", CAY_E_NOT_FOUND },
		{ "gone", CAY_E_NOT_FOUND },
	};
	const struct fixture *f = *state;

	assert_int_equal(mkdirat(f->dir, "dir", 0700), 0);
	assert_int_equal(mkfifoat(f->dir, "fifo", 0600), 0);
	assert_int_equal(symlinkat("loop", f->dir, "loop"), 0);
	(void)alarm(10);
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		char path[64];
		struct file_lines_request ask = { .path = path, .limit = 10, .width = 100 };
		struct cay_err err = {};
		auto_lines l = LINES_INIT;

		assert_true(snprintf(path, sizeof(path), "%s/%s", f->base, odd[i].name) > 0);
		row_check(i, file_lines_read(&ask, &l, &err) < 0);
		row_check(i, err.code == odd[i].code);
	}
	(void)alarm(0);
}

/* Three blocks' worth in every direction, against a model that has all of it in memory. */
static void across_blocks(void **state)
{
	const struct fixture *f = *state;
	auto_buf all = BUF_INIT(MIB(1));
	size_t at[2001];
	uint64_t seed = 7;

	for (unsigned i = 0; i < 2000; i++) {
		at[i] = all.len;
		seed = seed * UINT64_C(6364136223846793005) + 1;
		for (unsigned k = 0; k < (seed >> 40) % 100; k++)
			assert_int_equal(buf_putc(&all, (char)('a' + k % 26)), 0);
		assert_int_equal(buf_putc(&all, '\n'), 0);
	}
	at[2000] = all.len;
	assert_int_equal(path_write_atomic(f->dir, "f", all.data, all.len, 0600), 0);
	for (unsigned i = 0; i < 200; i++) {
		unsigned from, n;
		struct file_lines_request ask = { .path = f->path, .width = 1000 };
		auto_lines l = LINES_INIT;

		seed = seed * UINT64_C(6364136223846793005) + 1;
		from = (unsigned)(seed >> 40) % 2000;
		n = 1 + (unsigned)(seed >> 20) % (2000 - from);
		ask.tail = i % 2;
		if (ask.tail)
			from = 2000 - n;
		ask.first = from + 1;
		ask.limit = n;
		assert_int_equal(file_lines_read(&ask, &l, NULL), 0);
		row_check(i, l.first == from + 1 && l.n == n && l.total == 2000);
		row_check(i, l.text.len == at[from + n] - at[from]);
		row_check(i, memcmp(l.text.data, all.data + at[from], l.text.len) == 0);
	}
}

/* 3 GiB of which nearly all is a hole: shown from both ends in little memory. */
static void a_huge_file(void **state)
{
	const struct fixture *f = *state;
	struct file_lines_request ask = { .path = f->path, .limit = 2, .width = 100 };
	auto_close int fd = openat(f->dir, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct rlimit before, few = { MIB(64), MIB(64) };
	auto_buf front = BUF_INIT(KIB(64));

	for (unsigned i = 0; i < 5000; i++)
		assert_int_equal(buf_puts(&front, "front line\n"), 0);
	assert_int_equal(fd_write_all(fd, front.data, front.len), 0);
	assert_int_equal(pwrite(fd, "\nlast but one\nlast\n", 19, (off_t)MIB(3072)), 19);
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	few.rlim_max = before.rlim_max;
#ifdef CAY_SANITIZED /* its own memory is terabytes */
	few = before;
#endif
	assert_int_equal(setrlimit(RLIMIT_AS, &few), 0);
	for (unsigned i = 0; i < 2; i++) {
		auto_lines l = LINES_INIT;

		ask.tail = i;
		assert_int_equal(file_lines_read(&ask, &l, NULL), 0);
		assert_text(&l.text, i ? "last but one\nlast\n" : "front line\nfront line\n");
		assert_false(l.has_total);
		assert_int_equal(l.first, i ? 0 : 1);
		assert_int_equal(l.more, !i);
	}
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
}

static void the_kernels_files_have_an_end_too(void **state)
{
	struct file_lines_request ask = {
		.path = "/proc/self/status", .tail = true, .limit = 1, .width = 100
	};
	auto_lines l = LINES_INIT;

	(void)state;
	assert_int_equal(file_lines_read(&ask, &l, NULL), 0);
	assert_int_equal(l.n, 1);
	assert_non_null(strstr(buf_str(&l.text), "nonvoluntary_ctxt_switches"));
}

int main(void)
{
#define REAL(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		REAL(parts_of_files), REAL(binary_is_said), REAL(odd_files_are_refused_at_once),
		REAL(across_blocks),  REAL(a_huge_file),    REAL(the_kernels_files_have_an_end_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
