/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "file/edit.h"
#include "unit.h"

#define REPLACE(o, n) { .kind = EDIT_REPLACE, .old = SLICE(o), .text = SLICE(n) }
#define ALL(o, n) { .kind = EDIT_REPLACE_ALL, .old = SLICE(o), .text = SLICE(n) }
#define INSERT(l, n) { .kind = EDIT_INSERT, .line = (l), .text = SLICE(n) }

static const struct {
	const char *before;
	struct edit edits[3];
	unsigned n;
	const char *want; /* NULL: refused */
	enum cay_code code;
	const char *field, *msg;
} rows[] = {
	{ "a b c", { REPLACE("b", "x") }, 1, "a x c", 0, NULL, NULL },
	{ "a b c", { REPLACE("b", "") }, 1, "a  c", 0, NULL, NULL },
	{ "a b c", { REPLACE("b", "x"), REPLACE("x c", "y") }, 2, "a y", 0, NULL, NULL },
	{ "a\nb\nb\n",
	  { REPLACE("b", "x") },
	  1,
	  NULL,
	  CAY_E_CONFLICT,
	  "edits[0].old",
	  "stands 2 times, on lines 2, 3; give more of the text around it" },
	{ "aaa",
	  { REPLACE("aa", "x") },
	  1,
	  NULL,
	  CAY_E_CONFLICT,
	  "edits[0].old",
	  "stands 2 times, on lines 1, 1; give more of the text around it" },
	{ "x\nx\nx\nx\nx\nx\nx\nx\nx\nx\n",
	  { REPLACE("x", "y") },
	  1,
	  NULL,
	  CAY_E_CONFLICT,
	  "edits[0].old",
	  "stands 10 times, on lines 1, 2, 3, 4, 5, 6, 7, 8, ...; give more of the text around "
	  "it" },
	{ "a",
	  { REPLACE("b", "x") },
	  1,
	  NULL,
	  CAY_E_CONFLICT,
	  "edits[0].old",
	  "does not occur in the file" },
	{ "a\r\nb\r\n",
	  { REPLACE("a\nb", "x") },
	  1,
	  NULL,
	  CAY_E_CONFLICT,
	  "edits[0].old",
	  "does not occur in the file; its lines end in CR LF" },
	{ "a",
	  { REPLACE("a", "b"), REPLACE("a", "c") },
	  2,
	  NULL,
	  CAY_E_CONFLICT,
	  "edits[1].old",
	  "does not occur in the file" },
	{ "a", { REPLACE("", "b") }, 1, NULL, CAY_E_INVALID, "edits[0].old", NULL },
	{ "a", { REPLACE("a", "a") }, 1, NULL, CAY_E_INVALID, "edits[0].old", NULL },
	{ "aXbXc", { ALL("X", "--") }, 1, "a--b--c", 0, NULL, NULL },
	{ "aaaa", { ALL("aa", "a") }, 1, "aa", 0, NULL, NULL },
	{ "b", { ALL("a", "x") }, 1, NULL, CAY_E_CONFLICT, "edits[0].old", NULL },
	{ "1\n2\n", { INSERT(0, "0\n") }, 1, "0\n1\n2\n", 0, NULL, NULL },
	{ "1\n2\n", { INSERT(1, "x") }, 1, "1\nx\n2\n", 0, NULL, NULL },
	{ "1\n2\n", { INSERT(2, "x") }, 1, "1\n2\nx", 0, NULL, NULL },
	{ "1\n2", { INSERT(2, "x\n") }, 1, "1\n2\nx\n", 0, NULL, NULL },
	{ "1\r\n2", { INSERT(2, "x") }, 1, "1\r\n2\r\nx", 0, NULL, NULL },
	{ "1\r\n2\r\n", { INSERT(1, "x") }, 1, "1\r\nx\r\n2\r\n", 0, NULL, NULL },
	{ "", { INSERT(0, "x") }, 1, "x", 0, NULL, NULL },
	{ "1\n",
	  { INSERT(2, "x") },
	  1,
	  NULL,
	  CAY_E_CONFLICT,
	  "edits[0].line",
	  "is after the last line, 1" },
	{ "1\n", { INSERT(0, "") }, 1, NULL, CAY_E_INVALID, "edits[0].new", NULL },
	{ "a", {}, 0, NULL, CAY_E_INVALID, "edits", NULL },
};

static void edits(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf b = BUF_INIT(KIB(1));
		struct cay_err err = {};
		uint64_t count;
		int r = edit_apply(slice_of(rows[i].before), rows[i].edits, rows[i].n, &b, &count,
				   &err);

		row_check(i, (r == 0) == (rows[i].want != NULL));
		if (rows[i].want) {
			row_check(i, str_eq(buf_str(&b), rows[i].want));
			continue;
		}
		row_check(i, err.code == rows[i].code && str_eq(err.field, rows[i].field));
		row_check(i, !rows[i].msg || str_eq(err.msg, rows[i].msg));
	}
}

static void growth_is_bounded(void **state)
{
	const struct edit grow = ALL("a", "aa");
	struct edit all[12];
	auto_buf b = BUF_INIT(KIB(1));
	struct cay_err err = {};
	uint64_t count;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		all[i] = grow;
	assert_true(edit_apply(SLICE("a"), all, ARRAY_SIZE(all), &b, &count, &err) < 0);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
}

/* The tests need no SHA-256, only a hash that tells texts apart. */
static int hash(const void *p, size_t n, uint8_t ret[static EDIT_HASH_LEN])
{
	const unsigned char *s = p;

	memset(ret, 0, EDIT_HASH_LEN);
	for (size_t i = 0; i < n; i++)
		ret[i % EDIT_HASH_LEN] = (uint8_t)(ret[i % EDIT_HASH_LEN] * 31 + s[i] + 1);
	return 0;
}

struct fixture {
	char base[32];
	char path[64];
	int dir;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || snprintf(f->base, sizeof(f->base), "/tmp/cay-edit-XXXXXX") < 0 ||
	    !mkdtemp(f->base) || snprintf(f->path, sizeof(f->path), "%s/f", f->base) < 0)
		return -1;
	f->dir = open(f->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = f;
	return path_write_atomic(f->dir, "f", "one\ntwo\n", 8, 0640);
}

static int count_names(void *arg, int dirfd, const char *name)
{
	(void)dirfd;
	(void)name;
	++*(unsigned *)arg;
	return 0;
}

static unsigned names(const struct fixture *f)
{
	unsigned n = 0;

	assert_int_equal(path_for_each_entry(f->dir, count_names, &n), 0);
	return n;
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

static void holds(const struct fixture *f, const char *name, const char *want)
{
	auto_buf b = BUF_INIT(KIB(64));

	assert_int_equal(path_read(f->dir, name, &b), 0);
	assert_string_equal(buf_str(&b), want);
}

static int edit_it(const struct fixture *f, const char *path, const struct edit *e, size_t n,
		   struct cay_err *err)
{
	struct edit_request ask = { .path = path, .edits = e, .n = n, .hash = hash };
	auto_edit_result done = EDIT_RESULT_INIT;

	(void)f;
	return edit_file(&ask, &done, err);
}

static void a_file_keeps_mode_and_loses_nothing(void **state)
{
	const struct edit e[] = { REPLACE("two", "2"), INSERT(0, "zero\n") };
	const struct edit bad[] = { REPLACE("one", "1"), REPLACE("nowhere", "x") };
	struct fixture *f = *state;
	struct stat st, after;

	assert_int_equal(fstatat(f->dir, "f", &st, 0), 0);
	assert_true(edit_it(f, f->path, bad, 2, NULL) < 0);
	holds(f, "f", "one\ntwo\n"); /* the first of the two was not made either */
	assert_int_equal(edit_it(f, f->path, e, 2, NULL), 0);
	holds(f, "f", "zero\none\n2\n");
	assert_int_equal(fstatat(f->dir, "f", &after, 0), 0);
	assert_int_equal(after.st_mode, st.st_mode);
	assert_int_not_equal(after.st_ino, st.st_ino); /* who had it open has the old text, whole */
	assert_int_equal(names(f), 1);
}

static void a_reader_never_sees_a_part(void **state)
{
	const struct edit e[] = { REPLACE("two", "2") };
	struct fixture *f = *state;
	auto_close int fd = openat(f->dir, "f", O_RDONLY | O_CLOEXEC);
	char text[16] = {};

	assert_int_equal(edit_it(f, f->path, e, 1, NULL), 0);
	assert_int_equal(read(fd, text, sizeof(text) - 1), 8);
	assert_string_equal(text, "one\ntwo\n");
}

static void a_link_stays_one(void **state)
{
	const struct edit e[] = { REPLACE("two", "2") };
	struct fixture *f = *state;
	char path[64];
	struct stat st;

	assert_int_equal(mkdirat(f->dir, "d", 0700), 0);
	assert_int_equal(symlinkat("../f", f->dir, "d/link"), 0);
	assert_true(snprintf(path, sizeof(path), "%s/d/link", f->base) > 0);
	assert_int_equal(edit_it(f, path, e, 1, NULL), 0);
	holds(f, "f", "one\n2\n");
	assert_int_equal(fstatat(f->dir, "d/link", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
}

static void what_is_no_file_is_refused(void **state)
{
	static const struct {
		const char *name;
		enum cay_code code;
	} odd[] = {
		{ "dir", CAY_E_INVALID },       { "fifo", CAY_E_INVALID },
		{ "loop", CAY_E_NOT_FOUND },    { "gone", CAY_E_NOT_FOUND },
		{ "f/x", CAY_E_NOT_FOUND },     { "large", CAY_E_TOO_LARGE },
		{ "nowhere", CAY_E_NOT_FOUND }, { ".", CAY_E_INVALID },
	};
	const struct edit e[] = { REPLACE("two", "2") };
	struct fixture *f = *state;

	assert_int_equal(mkdirat(f->dir, "dir", 0700), 0);
	assert_int_equal(mkfifoat(f->dir, "fifo", 0600), 0);
	assert_int_equal(symlinkat("loop", f->dir, "loop"), 0);
	assert_int_equal(symlinkat("nothing", f->dir, "nowhere"), 0);
	{
		auto_close int fd = openat(f->dir, "large", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

		assert_int_equal(ftruncate(fd, (off_t)EDIT_FILE_MAX + 1), 0);
	}
	(void)alarm(10);
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++) {
		struct cay_err err = {};
		char path[64];

		assert_true(snprintf(path, sizeof(path), "%s/%s", f->base, odd[i].name) > 0);
		row_check(i, edit_it(f, path, e, 1, &err) < 0);
		row_check(i, err.code == odd[i].code);
	}
	(void)alarm(0);
}

static void the_text_must_be_the_expected(void **state)
{
	const struct edit e[] = { REPLACE("two", "2") };
	struct fixture *f = *state;
	uint8_t want[EDIT_HASH_LEN];
	struct edit_request ask = {
		.path = f->path, .edits = e, .n = 1, .hash = hash, .if_hash = want
	};
	struct cay_err err = {};

	(void)hash("other", 5, want);
	{
		auto_edit_result done = EDIT_RESULT_INIT;

		assert_true(edit_file(&ask, &done, &err) < 0);
		assert_int_equal(err.code, CAY_E_CONFLICT);
		assert_string_equal(err.field, "if_sha256");
	}
	holds(f, "f", "one\ntwo\n");
	(void)hash("one\ntwo\n", 8, want);
	{
		auto_edit_result done = EDIT_RESULT_INIT;

		assert_int_equal(edit_file(&ask, &done, NULL), 0);
		(void)hash("one\n2\n", 6, want);
		assert_memory_equal(done.hash, want, sizeof(want));
	}
}

static void dry_changes_nothing(void **state)
{
	const struct edit e[] = { REPLACE("two", "2") };
	struct fixture *f = *state;
	struct edit_request ask = {
		.path = f->path, .edits = e, .n = 1, .hash = hash, .dry_run = true
	};
	auto_edit_result done = EDIT_RESULT_INIT;

	assert_int_equal(edit_file(&ask, &done, NULL), 0);
	assert_text(&done.after, "one\n2\n");
	holds(f, "f", "one\ntwo\n");
	assert_int_equal(names(f), 1);
}

/* Somebody who knows no lock writes the same number of bytes in the same tick. */
static void write_in_between(void *arg)
{
	struct fixture *f = arg;
	auto_close int fd = openat(f->dir, "f", O_RDWR | O_CLOEXEC);
	char first;

	assert_int_equal(pread(fd, &first, 1, 0), 1);
	if (first == 'o')
		assert_int_equal(pwrite(fd, "ONE", 3, 0), 3);
}

static void rename_in_between(void *arg)
{
	struct fixture *f = arg;
	auto_buf b = BUF_INIT(KIB(1));

	assert_int_equal(path_read(f->dir, "f", &b), 0);
	if (b.data[0] == 'o')
		assert_int_equal(path_write_atomic(f->dir, "f", "ONE\ntwo\n", 8, 0640), 0);
}

static void a_write_in_between_is_not_lost(void **state)
{
	const struct edit e[] = { REPLACE("two", "2") };
	struct fixture *f = *state;
	struct edit_request ask = {
		.path = f->path,
		.edits = e,
		.n = 1,
		.hash = hash,
		.arg = f,
	};

	for (unsigned i = 0; i < 2; i++) {
		auto_edit_result done = EDIT_RESULT_INIT;

		assert_int_equal(path_write_atomic(f->dir, "f", "one\ntwo\n", 8, 0640), 0);
		ask.before_rename = i ? rename_in_between : write_in_between;
		assert_int_equal(edit_file(&ask, &done, NULL), 0);
		holds(f, "f", "ONE\n2\n");
		assert_true(done.tries >= 2);
		assert_int_equal(names(f), 1);
	}
}

/* Another edit comes while the first holds the file: it waits for its turn. */
static void hold_lock(void *arg)
{
	struct fixture *f = arg;
	auto_close int fd = openat(f->dir, "f", O_RDONLY | O_CLOEXEC);

	assert_true(flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK);
}

static void an_edit_holds_the_lock(void **state)
{
	const struct edit e[] = { REPLACE("two", "2") };
	struct fixture *f = *state;
	struct edit_request ask = {
		.path = f->path,
		.edits = e,
		.n = 1,
		.hash = hash,
		.arg = f,
		.before_rename = hold_lock,
	};
	auto_edit_result done = EDIT_RESULT_INIT;

	assert_int_equal(edit_file(&ask, &done, NULL), 0);
}

/* Eight at once, forty edits each: every one of them is there in the end. */
static void no_edit_is_lost(void **state)
{
	struct fixture *f = *state;
	auto_buf b = BUF_INIT(KIB(64));
	unsigned lines = 0;
	int status;

	for (unsigned i = 0; i < 8; i++) {
		if (fork() != 0)
			continue;
		for (unsigned k = 0; k < 40; k++) {
			char text[16];
			struct edit e = { .kind = EDIT_INSERT, .line = 1 };

			if (snprintf(text, sizeof(text), "%u-%u\n", i, k) < 0)
				_exit(1);
			e.text = slice_of(text);
			if (edit_it(f, f->path, &e, 1, NULL) < 0)
				_exit(1);
		}
		_exit(0);
	}
	for (unsigned i = 0; i < 8; i++) {
		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
	}
	assert_int_equal(path_read(f->dir, "f", &b), 0);
	for (size_t i = 0; i < b.len; i++)
		lines += b.data[i] == '\n';
	assert_int_equal(lines, 2 + 8 * 40);
	assert_int_equal(names(f), 1);
}

static void a_file_that_may_not_be_written_is_not(void **state)
{
	const struct edit e[] = { REPLACE("two", "2") };
	struct fixture *f = *state;
	int status;

	assert_int_equal(fchmodat(f->dir, "f", 0444, 0), 0);
	assert_int_equal(chmod(f->base, 0777), 0);
	if (geteuid() == 0)
		assert_int_equal(fchownat(f->dir, "f", 65534, 65534, 0), 0);
	if (fork() == 0) {
		struct cay_err err = {};

		if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(2);
		_exit(edit_it(f, f->path, e, 1, &err) < 0 && err.code == CAY_E_FORBIDDEN ? 0 : 1);
	}
	assert_true(wait(&status) > 0);
	assert_int_equal(status, 0);
	holds(f, "f", "one\ntwo\n");
}

int main(void)
{
#define REAL(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(edits),
		cmocka_unit_test(growth_is_bounded),
		REAL(a_file_keeps_mode_and_loses_nothing),
		REAL(a_reader_never_sees_a_part),
		REAL(a_link_stays_one),
		REAL(what_is_no_file_is_refused),
		REAL(the_text_must_be_the_expected),
		REAL(dry_changes_nothing),
		REAL(a_write_in_between_is_not_lost),
		REAL(an_edit_holds_the_lock),
		REAL(no_edit_is_lost),
		REAL(a_file_that_may_not_be_written_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
