/* SPDX-License-Identifier: Apache-2.0 */
/* Names, ranges, new content and what is done to names, on real directories. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "file/atomic-write.h"
#include "file/http-range.h"
#include "file/list-dir.h"
#include "file/name-ops.h"
#include "text/hex.h"
#include "unit.h"

static int before = -EBADF, work = -EBADF;
static char name[64];

static int fresh(void **)
{
	assert_true(snprintf(name, sizeof(name), "/tmp/test-file-XXXXXX") > 0);
	assert_non_null(mkdtemp(name));
	before = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	work = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(work >= 0 && before >= 0);
	assert_int_equal(fchdir(work), 0);
	return 0;
}

static int stale(void **)
{
	assert_int_equal(rmtree_contents(work), 0);
	assert_int_equal(fchdir(before), 0);
	assert_int_equal(rmdir(name), 0);
	(void)close(work);
	(void)close(before);
	return 0;
}

static int count_one(void *arg, int, const char *)
{
	++*(unsigned *)arg;
	return 0;
}

static unsigned entries(void)
{
	auto_close int dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned n = 0;

	assert_int_equal(path_for_each_entry(dir, count_one, &n), 0);
	return n;
}

static void holds(const char *path, const char *want)
{
	auto_buf b = BUF_INIT(KIB(64));

	assert_int_equal(path_read(work, path, &b), 0);
	assert_text(&b, want);
}

static void ranges(void **)
{
	static const struct {
		const char *text;
		uint64_t size;
		enum http_range_kind kind;
		uint64_t first, n;
	} rows[] = {
		{ "", 10, HTTP_RANGE_ALL, 0, 10 },
		{ "bytes=0-0", 10, HTTP_RANGE_PART, 0, 1 },
		{ " bytes=2-5 ", 10, HTTP_RANGE_PART, 2, 4 },
		{ "bytes=2-", 10, HTTP_RANGE_PART, 2, 8 },
		{ "bytes=-2", 10, HTTP_RANGE_PART, 8, 2 },
		{ "bytes=-20", 10, HTTP_RANGE_PART, 0, 10 },
		{ "bytes=9-99", 10, HTTP_RANGE_PART, 9, 1 },
		{ "bytes=10-", 10, HTTP_RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=-0", 10, HTTP_RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=0-", 0, HTTP_RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=-1", 0, HTTP_RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=18446744073709551616-", 10, HTTP_RANGE_UNSATISFIABLE, 0, 0 },
		{ "bytes=5-4", 10, HTTP_RANGE_ALL, 0, 10 },
		{ "bytes=-", 10, HTTP_RANGE_ALL, 0, 10 },
		{ "bytes=1", 10, HTTP_RANGE_ALL, 0, 10 },
		{ "bytes=1-2,3-4", 10, HTTP_RANGE_ALL, 0, 10 },
		{ "bytes=+1-2", 10, HTTP_RANGE_ALL, 0, 10 },
		{ "Bytes=1-2", 10, HTTP_RANGE_ALL, 0, 10 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		uint64_t first, n;
		enum http_range_kind kind =
			http_range_parse(slice_of(rows[i].text), rows[i].size, &first, &n);

		row_check(i, kind == rows[i].kind);
		row_check(i, kind == HTTP_RANGE_UNSATISFIABLE ||
				     (first == rows[i].first && n == rows[i].n));
	}
}

static void names_are_text_or_base64(void **)
{
	auto_arena arena = ARENA_INIT(KIB(16));
	struct cay_err err = {};
	const char *path, *text, *b64;

	assert_int_equal(file_path_decode("a", NULL, "path", &arena, &path, &err), 0);
	assert_string_equal(path, "a");
	assert_int_equal(file_path_decode(NULL, "/w==", "path", &arena, &path, &err), 0);
	assert_string_equal(path, "\xff");
	assert_int_equal(file_path_encode(path, &arena, &text, &b64), 0);
	assert_null(text);
	assert_string_equal(b64, "/w==");
	assert_true(file_path_decode("a", "/w==", "path", &arena, &path, &err) < 0);
	assert_string_equal(err.field, "path");
	err = (struct cay_err){};
	assert_true(file_path_decode(NULL, "AA==", "to", &arena, &path, &err) < 0); /* a NUL */
	assert_string_equal(err.field, "to_b64");
}

static void modes(void **)
{
	mode_t m = 0;

	assert_int_equal(file_mode_parse("0644", &m), 0);
	assert_int_equal(m, 0644);
	assert_int_equal(file_mode_parse("755", &m), 0);
	assert_int_equal(m, 0755);
	assert_int_equal(file_mode_parse("4755", &m), 0);
	assert_true(file_mode_parse("8", &m) < 0 && file_mode_parse("0888", &m) < 0 &&
		    file_mode_parse("00644", &m) < 0);
}

static int put(const struct atomic_write_conf *given, const char *text, struct cay_err *err)
{
	struct atomic_write_conf conf = *given;
	auto_atomic_write p = ATOMIC_WRITE_INIT;
	int r;

	conf.path = "f";
	conf.uid = (uid_t)-1;
	conf.gid = (gid_t)-1;
	*err = (struct cay_err){};
	r = atomic_write_begin(&p, &conf, err);
	if (r >= 0)
		r = atomic_write_add(&p, text, strlen(text), err);
	return r < 0 ? r : atomic_write_commit(&p, err);
}

static void content_is_whole_or_not_at_all(void **)
{
	unsigned char abc[FILE_HASH_LEN];
	struct atomic_write unfinished = ATOMIC_WRITE_INIT;
	struct atomic_write_conf conf = { .path = "f", .uid = (uid_t)-1, .gid = (gid_t)-1 };
	struct cay_err err = {};

	assert_int_equal(
		hex_decode("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
			   FILE_HASH_HEX, abc, sizeof(abc)),
		0);
	assert_int_equal(put(&(struct atomic_write_conf){ .new_hash = abc }, "abc", &err), 0);
	holds("f", "abc");
	assert_true(put(&(struct atomic_write_conf){ .new_hash = abc }, "abx", &err) < 0);
	assert_string_equal(err.field, "sha256");
	assert_true(put(&(struct atomic_write_conf){ .create_only = true }, "x", &err) < 0);
	assert_int_equal(err.code, CAY_E_CONFLICT);
	assert_true(put(&(struct atomic_write_conf){ .has_size = true, .size = 2 }, "x", &err) < 0);
	assert_int_equal(put(&(struct atomic_write_conf){ .old_hash = abc }, "new", &err), 0);
	assert_true(put(&(struct atomic_write_conf){ .old_hash = abc }, "newer", &err) < 0);
	assert_string_equal(err.field, "if_sha256");
	assert_int_equal(atomic_write_begin(&unfinished, &conf, &err), 0);
	assert_int_equal(atomic_write_add(&unfinished, "half", 4, &err), 0);
	atomic_write_fini(&unfinished);
	holds("f", "new");
	assert_int_equal(entries(), 1);
}

/* Where there are no files without a name: a SIGTERM takes the hidden one away. */
static void a_hidden_name_goes_with_us(void **)
{
	int status = 0, pipes[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(pipes), 0);
	pid = fork();
	if (pid == 0) {
		struct atomic_write p = ATOMIC_WRITE_INIT;
		struct atomic_write_conf conf = { .path = "f", .uid = (uid_t)-1, .gid = (gid_t)-1 };
		struct cay_err err = {};

		p.tmpfile.no_tmpfile = true;
		if (atomic_write_begin(&p, &conf, &err) < 0 || entries() != 1 ||
		    write(pipes[1], "x", 1) != 1)
			_exit(1);
		(void)pause();
	}
	assert_int_equal(read(pipes[0], &c, 1), 1);
	assert_int_equal(kill(pid, SIGTERM), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(entries(), 0);
	(void)close(pipes[0]);
	(void)close(pipes[1]);
}

static void what_is_hidden_goes_unless_it_is_placed(void **)
{
	for (unsigned hidden = 0; hidden < 2; hidden++) {
		struct atomic_write_conf conf = { .path = "f", .uid = (uid_t)-1, .gid = (gid_t)-1 };
		struct atomic_write p = ATOMIC_WRITE_INIT, q = ATOMIC_WRITE_INIT;
		struct cay_err err = {};

		p.tmpfile.no_tmpfile = q.tmpfile.no_tmpfile = hidden;
		assert_int_equal(atomic_write_begin(&p, &conf, &err), 0);
		assert_int_equal(atomic_write_add(&p, "half", 4, &err), 0);
		assert_int_equal(entries(), hidden ? 2 : 0);
		atomic_write_fini(&p);
		assert_int_equal(entries(), hidden);
		assert_int_equal(atomic_write_begin(&q, &conf, &err), 0);
		assert_int_equal(atomic_write_add(&q, "whole", 5, &err), 0);
		assert_int_equal(atomic_write_commit(&q, &err), 0);
		atomic_write_fini(&q);
		holds("f", "whole");
		assert_int_equal(entries(), 1);
	}
}

/* What is not appended in the end is cut off; a file that somebody put there is not its. */
static void an_append_given_up_takes_nothing_of_others(void **)
{
	struct atomic_write_conf conf = {
		.path = "log", .append = true, .uid = (uid_t)-1, .gid = (gid_t)-1
	};
	struct atomic_write p = ATOMIC_WRITE_INIT;
	struct cay_err err = {};

	assert_int_equal(atomic_write_begin(&p, &conf, &err), 0);
	assert_int_equal(atomic_write_add(&p, "half", 4, &err), 0);
	assert_int_equal(path_write_atomic(work, "theirs", "whole", 5, 0600), 0);
	assert_int_equal(rename("theirs", "log"), 0);
	atomic_write_fini(&p);
	holds("log", "whole");
	assert_int_equal(entries(), 1);
}

static int change(enum name_op_kind what, const char *path, const char *to, bool recursive)
{
	struct name_op c = { .kind = what,
			     .path = path,
			     .to = to,
			     .recursive = recursive,
			     .has_mode = what == NAME_OP_CHMOD,
			     .mode = 0700,
			     .uid = (uid_t)-1,
			     .gid = (gid_t)-1 };
	struct cay_err err = {};

	return name_op_run(&c, &err);
}

static void trees(void **)
{
	struct stat st;

	assert_int_equal(change(NAME_OP_MKDIR, "a", NULL, false), 0);
	assert_int_equal(change(NAME_OP_MKDIR, "a/b", NULL, false), 0);
	assert_int_equal(change(NAME_OP_SYMLINK, "a/out", "../canary", false), 0);
	assert_int_equal(path_write_atomic(work, "canary", "bird", 4, 0600), 0);
	assert_int_equal(change(NAME_OP_COPY, "a", "c", true), 0);
	assert_int_equal(change(NAME_OP_COPY, "a", "a/b/c", true), -EINVAL);
	assert_int_equal(change(NAME_OP_CHMOD, "c", NULL, true), 0);
	assert_int_equal(stat("c/b", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(stat("canary", &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(change(NAME_OP_MOVE, "c", "a", false), -EEXIST);
	assert_int_equal(change(NAME_OP_MOVE, "c", "d", false), 0);
	assert_int_equal(change(NAME_OP_DELETE, "a", NULL, false), -ENOTEMPTY);
	assert_int_equal(change(NAME_OP_DELETE, "a", NULL, true), 0);
	assert_int_equal(change(NAME_OP_DELETE, "d", NULL, true), 0);
	assert_int_equal(change(NAME_OP_DELETE, "d", NULL, true), -ENOENT);
	holds("canary", "bird");
	assert_int_equal(entries(), 1);
}

static void lists(void **)
{
	auto_arena arena = ARENA_INIT(MIB(1));
	struct cay_err err = {};
	struct dir_list l;

	assert_int_equal(change(NAME_OP_MKDIR, "b", NULL, false), 0);
	assert_int_equal(change(NAME_OP_MKDIR, "b/in", NULL, false), 0);
	assert_int_equal(change(NAME_OP_SYMLINK, "a", "b", false), 0);
	assert_int_equal(dir_list_read(".", 1, 10, &arena, &l, &err), 0);
	assert_int_equal(l.n, 2);
	assert_string_equal(l.v[0].path, "a");
	assert_string_equal(l.v[0].target, "b");
	assert_false(l.truncated);
	assert_int_equal(dir_list_read(".", 2, 10, &arena, &l, &err), 0);
	assert_int_equal(l.n, 3); /* the link is not followed */
	assert_string_equal(l.v[2].path, "b/in");
	assert_int_equal(dir_list_read(".", 2, 2, &arena, &l, &err), 0);
	assert_true(l.n == 2 && l.truncated);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges),
		cmocka_unit_test(names_are_text_or_base64),
		cmocka_unit_test(modes),
		cmocka_unit_test_setup_teardown(content_is_whole_or_not_at_all, fresh, stale),
		cmocka_unit_test_setup_teardown(a_hidden_name_goes_with_us, fresh, stale),
		cmocka_unit_test_setup_teardown(what_is_hidden_goes_unless_it_is_placed, fresh,
						stale),
		cmocka_unit_test_setup_teardown(an_append_given_up_takes_nothing_of_others, fresh,
						stale),
		cmocka_unit_test_setup_teardown(trees, fresh, stale),
		cmocka_unit_test_setup_teardown(lists, fresh, stale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
