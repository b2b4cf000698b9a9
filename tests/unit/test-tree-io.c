/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees in and out of archives, on real directories: what comes back, what a hostile
 * archive leaves (nothing outside, no temporary name inside), and what is counted.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "archive/tree-unpack.h"
#include "base/path.h"
#include "base/rmtree.h"
#include "file/inode-set.h"
#include "unit.h"

struct memory {
	const char *p;
	size_t n, at;
};

static ssize_t from_memory(void *arg, void *p, size_t n, struct cay_err *)
{
	struct memory *m = arg;
	size_t some = m->n - m->at < n ? m->n - m->at : n;

	memcpy(p, m->p + m->at, some);
	m->at += some;
	return (ssize_t)some;
}

static int to_buf(void *arg, const void *p, size_t n, struct cay_err *)
{
	return buf_append(arg, p, n);
}

/* A directory of its own for each test, with one beside it that must not change. */
static int work = -EBADF;

static int fresh(void **)
{
	char name[] = "/tmp/test-tree-io-XXXXXX";

	assert_non_null(mkdtemp(name));
	work = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(work >= 0);
	assert_int_equal(mkdirat(work, "in", 0755), 0);
	assert_int_equal(path_write_atomic(work, "canary", "bird", 4, 0600), 0);
	return 0;
}

static int stale(void **)
{
	char self[32], name[256];
	ssize_t n;

	assert_true(snprintf(self, sizeof(self), "/proc/self/fd/%d", work) > 0);
	n = readlink(self, name, sizeof(name) - 1);
	assert_true(n > 0);
	name[n] = 0;
	assert_int_equal(rmtree_contents(work), 0);
	assert_int_equal(rmdir(name), 0);
	(void)close(work);
	return 0;
}

static int in(void)
{
	int fd = openat(work, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

struct member {
	enum tar_type type;
	const char *name, *link, *data;
	unsigned mode;
};

static void build(struct buf *b, const struct member *m, size_t n)
{
	struct cay_err err = {};
	struct tar_writer t;

	tar_writer_init(&t, to_buf, b);
	for (size_t i = 0; i < n && m[i].name; i++) {
		struct tar_entry e = { .type = m[i].type,
				       .name = m[i].name,
				       .link = m[i].link,
				       .size = m[i].data ? strlen(m[i].data) : 0,
				       .mode = m[i].mode ? m[i].mode : 0644,
				       .mtime = 1000000000 };

		assert_int_equal(tar_write_entry(&t, &e, &err), 0);
		assert_int_equal(tar_write_data(&t, m[i].data, e.size, &err), 0);
	}
	assert_int_equal(tar_write_end(&t, &err), 0);
	tar_writer_fini(&t);
}

static int unpack(const struct buf *b, struct tree_limits limits, struct tree_counts *n,
		  struct tree_counts *there, struct cay_err *err)
{
	struct memory m = { b->data, b->len, 0 };
	auto_close int fd = in();
	struct tree_unpack how = { .dirfd = fd, .read = from_memory, .arg = &m, .limits = limits };

	return tree_unpack(&how, n, there, err);
}

static const struct tree_limits wide = { 1000, MIB(1), 0, true };

static void assert_content(const char *name, const char *want)
{
	auto_buf b = BUF_INIT(KIB(64));
	auto_close int fd = in();

	assert_int_equal(path_read(fd, name, &b), 0);
	assert_string_equal(buf_str(&b), want);
}

static int no_tmp(void *arg, int dirfd, const char *name)
{
	struct stat st;

	(void)arg;
	assert_true(strncmp(name, ".cay-", 5) != 0);
	assert_int_equal(fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	if (S_ISDIR(st.st_mode)) {
		auto_close int fd = path_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);

		assert_int_equal(path_for_each_entry(fd, no_tmp, NULL), 0);
	}
	return 0;
}

static void assert_untouched(void)
{
	auto_buf b = BUF_INIT(16);
	auto_close int fd = in();
	unsigned beside = 0;
	struct stat st;
	DIR *d = fdopendir(openat(work, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));

	assert_non_null(d);
	while (readdir(d))
		beside++;
	(void)closedir(d);
	assert_int_equal(beside, 4); /* . .. in canary */
	assert_int_equal(path_read(work, "canary", &b), 0);
	assert_string_equal(buf_str(&b), "bird");
	assert_int_equal(fstatat(work, "canary", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(st.st_nlink == 1 && (st.st_mode & 07777) == 0600);
	assert_int_equal(path_for_each_entry(fd, no_tmp, NULL), 0);
}

#define F(...) { TAR_FILE, __VA_ARGS__ }
#define D(...) { TAR_DIRECTORY, __VA_ARGS__ }
#define S(...) { TAR_SYMLINK, __VA_ARGS__ }
#define H(...) { TAR_HARDLINK, __VA_ARGS__ }

static void test_hostile(void **)
{
	static const struct {
		struct member m[5];
		enum cay_code code; /* CAY_OK: taken */
		const char *why;
	} rows[] = {
		/* a link, then a file through it */
		{ { S("l", "..", NULL, 0), F("l/canary", NULL, "dead", 0) },
		  CAY_E_CONFLICT,
		  "'l/canary'" },
		{ { S("l", "../canary", NULL, 0), F("l", NULL, "new", 0) }, CAY_OK, NULL },
		{ { D("a", NULL, NULL, 0755), S("a/l", "../..", NULL, 0),
		    D("a/l/new", NULL, NULL, 0) },
		  CAY_E_CONFLICT,
		  "'a/l/new'" },
		{ { S("l", "../canary", NULL, 0), H("h", "l", NULL, 0) },
		  CAY_E_INVALID,
		  "not of this archive" },
		{ { S("l", "..", NULL, 0), H("h", "l/canary", NULL, 0) },
		  CAY_E_INVALID,
		  "not of this archive" },
		{ { S("l", "..", NULL, 0), D("l", NULL, NULL, 0755) }, CAY_E_CONFLICT, "'l'" },
		{ { F("../canary", NULL, "dead", 0) }, CAY_E_INVALID, "leads out" },
		{ { F("/etc/x", NULL, "dead", 0) }, CAY_E_INVALID, "absolute" },
		{ { H("h", "was", NULL, 0) }, CAY_E_INVALID, "not of this archive" },
		{ { H("h", "nothing", NULL, 0) }, CAY_E_INVALID, "not of this archive" },
		{ { H("h", "dir", NULL, 0) }, CAY_E_INVALID, "not of this archive" },
		{ { F("dir", NULL, "x", 0) }, CAY_E_CONFLICT, "'dir'" },
		{ { S("dir", "x", NULL, 0) }, CAY_E_CONFLICT, "'dir'" },
		{ { F("was/x", NULL, "x", 0) }, CAY_E_CONFLICT, "'was/x'" },
		{ { D("was", NULL, NULL, 0) }, CAY_E_CONFLICT, "'was'" },
		{ { F("a", NULL, "1", 0), F("a", NULL, "2", 0) }, CAY_OK, NULL },
		{ { F("a", NULL, "1", 0), H("b", "a", NULL, 0), H("b", "a", NULL, 0) },
		  CAY_OK,
		  NULL },
		/* in a directory of its own files are made in place */
		{ { F("o/a", NULL, "1", 0), F("o/a", NULL, "2", 0) }, CAY_OK, NULL },
		{ { F("o/x", NULL, "", 0), S("o/l", "../../canary", NULL, 0),
		    F("o/l", NULL, "dead", 0) },
		  CAY_OK,
		  NULL },
		{ { F("out/x", NULL, "through a link that was there", 0) },
		  CAY_E_CONFLICT,
		  "'out/x'" },
		{ { F("\x1b[2Jx/was/../y", NULL, "", 0) }, CAY_E_INVALID, "'\\x1b[2Jx/was" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf b = BUF_INIT(MIB(1));
		struct tree_counts n, there;
		struct cay_err err = {};
		auto_close int fd = in();
		int r;

		assert_int_equal(rmtree_contents(fd), 0);
		assert_int_equal(path_write_atomic(fd, "was", "here", 4, 0644), 0);
		assert_int_equal(mkdirat(fd, "dir", 0755), 0);
		assert_int_equal(symlinkat("..", fd, "out"), 0);
		build(&b, rows[i].m, ARRAY_SIZE(rows[i].m));
		r = unpack(&b, wide, &n, &there, &err);
		assert_int_equal(err.code, rows[i].code);
		assert_int_equal(r < 0, rows[i].code != CAY_OK);
		if (rows[i].why)
			assert_non_null(strstr(err.msg, rows[i].why));
		assert_untouched();
		assert_content("was", "here");
	}
}

static void test_modes_links_and_times(void **)
{
	static const struct member m[] = {
		D("./", NULL, NULL, 0500),
		D("d", NULL, NULL, 0500),
		F("d/suid", NULL, "x", 06755),
		F("d/ro", NULL, "y", 0444),
		S("l", "/etc/passwd", NULL, 0),
		H("h", "d/ro", NULL, 0),
		F("new/parents/f", NULL, "z", 01640),
	};
	auto_buf b = BUF_INIT(MIB(1));
	struct tree_counts n, there;
	struct cay_err err = {};
	struct stat st, st2;
	auto_close int fd = in();

	build(&b, m, ARRAY_SIZE(m));
	assert_int_equal(unpack(&b, wide, &n, &there, &err), 0);
	assert_true(n.files == 3 && n.directories == 1 && n.links == 2 && n.bytes == 3);
	assert_int_equal(fstatat(fd, "d/suid", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(st.st_mtime, 1000000000);
	assert_int_equal(fstatat(fd, "d", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	assert_int_equal(fstatat(fd, "new/parents/f", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(fstatat(fd, "h", &st, 0), 0);
	assert_int_equal(fstatat(fd, "d/ro", &st2, 0), 0);
	assert_true(st.st_ino == st2.st_ino && st.st_nlink == 2);
	assert_int_equal(fstatat(fd, "l", &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_untouched();
}

static void test_links_that_stay_inside(void **)
{
	static const struct {
		const char *name, *to;
		bool made;
	} rows[] = {
		{ "l", "x", true },           { "l", "./x/y", true },
		{ "a/l", "../x", true },      { "a/b/l", "../../x", true },
		{ "l", ".", true },           { "a/l", "..", true },
		{ "l", "/x", false },         { "l", "..", false },
		{ "l", "x/..", false },       { "a/l", "../..", false },
		{ "a/l", "./../..", false },  { "l", "a/b/c/../..", false },
		{ "a/b/l", "x/..", false },   { "l", "x/../../y", false },
		{ "a/l", "..//../x", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct member m = { TAR_SYMLINK, rows[i].name, rows[i].to, NULL, 0 };
		auto_buf b = BUF_INIT(MIB(1));
		struct tree_counts n, there;
		struct cay_err err = {};

		build(&b, &m, 1);
		assert_int_equal(
			unpack(&b, (struct tree_limits){ 9, 9, 0, false }, &n, &there, &err), 0);
		assert_int_equal(n.links, rows[i].made);
		assert_int_equal(n.skipped, !rows[i].made);
	}
}

static void test_limits(void **)
{
	static const struct member m[] = { F("a", NULL, "12345", 0), F("b", NULL, "12345", 0) };
	static const struct {
		struct tree_limits l;
		bool fits;
	} rows[] = {
		{ { 2, 10, 0, true }, true },         { { 1, 10, 0, true }, false },
		{ { 2, 9, 0, true }, false },         { { 2, 4, 0, true }, false },
		{ { 2, UINT64_MAX, 0, true }, true },
	};
	auto_buf b = BUF_INIT(MIB(1));

	build(&b, m, ARRAY_SIZE(m));
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct tree_counts n, there;
		struct cay_err err = {};
		int r = unpack(&b, rows[i].l, &n, &there, &err);

		assert_int_equal(r >= 0, rows[i].fits);
		assert_int_equal(err.code, rows[i].fits ? CAY_OK : CAY_E_TOO_LARGE);
	}
	assert_untouched();
}

/* An archive cut at every block: what was there stays, what is new is whole or absent. */
static void test_cut_anywhere(void **)
{
	static const struct member m[] = { F("was", NULL, "new content", 0),
					   F("b", NULL, "12345", 0), F("new/c", NULL, "67890", 0) };
	auto_buf b = BUF_INIT(MIB(1));

	build(&b, m, ARRAY_SIZE(m));
	for (size_t n = 0; n + 2ul * TAR_BLOCK <= b.len; n += 100) {
		struct buf cut = { .data = b.data, .len = n };
		struct tree_counts counts, there;
		struct cay_err err = {};
		auto_close int fd = in();

		assert_int_equal(path_write_atomic(fd, "was", "here", 4, 0644), 0);
		assert_true(unpack(&cut, wide, &counts, &there, &err) < 0);
		assert_content("was", counts.files ? "new content" : "here");
		if (counts.files == 3)
			assert_content("new/c", "67890");
		else
			assert_true(faccessat(fd, "new/c", F_OK, 0) < 0);
		assert_untouched();
	}
}

/* A disk that is full in the middle of a file, in a directory that was there and in a new one. */
static void test_full(void **)
{
	static const char *const names[] = { "f", "new/f" };
	struct rlimit few, was;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
	few = (struct rlimit){ 3, was.rlim_max };
	assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct member m = F(names[i], NULL, "12345", 0);
		auto_buf b = BUF_INIT(MIB(1));
		struct tree_counts n, there;
		struct cay_err err = {};
		auto_close int fd = in();
		int r;

		build(&b, &m, 1);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
		r = unpack(&b, wide, &n, &there, &err);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
		assert_true(r < 0 && n.files == 0);
		assert_true(faccessat(fd, names[i], F_OK, 0) < 0);
		assert_untouched();
	}
	assert_true(signal(SIGXFSZ, SIG_DFL) != SIG_ERR);
}

/* More directories than are kept open, in an order that suits nobody, with few fds. */
static void test_many_directories(void **)
{
	enum { DIRECTORIES = 300, FILES = 900 };
	struct rlimit few, was;
	struct tar_writer t;
	struct tree_counts n, there;
	struct cay_err err = {};
	auto_buf b = BUF_INIT(MIB(2));
	char name[32];
	int r;

	tar_writer_init(&t, to_buf, &b);
	for (unsigned i = 0; i < FILES; i++) {
		struct tar_entry e = { .type = TAR_FILE, .name = name, .size = 1, .mode = 0644 };

		assert_true(snprintf(name, sizeof(name), "d/%u/f%u", i % DIRECTORIES, i) > 0);
		assert_int_equal(tar_write_entry(&t, &e, &err), 0);
		assert_int_equal(tar_write_data(&t, "x", 1, &err), 0);
	}
	assert_int_equal(tar_write_end(&t, &err), 0);
	tar_writer_fini(&t);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = (struct rlimit){ 32, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	r = unpack(&b, wide, &n, &there, &err);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(r, 0);
	assert_int_equal(n.files, FILES);
	assert_content("d/299/f899", "x");
	assert_content("d/0/f0", "x");
	assert_untouched();
}

static void plant(int fd)
{
	assert_int_equal(mkdirat(fd, "d", 0755), 0);
	assert_int_equal(mkdirat(fd, "d/empty", 0711), 0);
	assert_int_equal(path_write_atomic(fd, "f", "content", 7, 0640), 0);
	assert_int_equal(path_write_atomic(fd, "\xff\x1b", "odd", 3, 0600), 0);
	assert_int_equal(symlinkat("../canary", fd, "d/l"), 0);
	assert_int_equal(mkfifoat(fd, "fifo", 0600), 0);
}

static void test_there_and_back(void **)
{
	auto_close int from = -EBADF, fd = in();
	auto_buf b = BUF_INIT(MIB(1));
	struct tree_counts n, n2, there;
	struct cay_err err = {};
	struct stat st;

	assert_int_equal(mkdirat(fd, "from", 0755), 0);
	from = path_open(fd, "from", O_RDONLY | O_DIRECTORY, 0);
	plant(from);
	assert_int_equal(tree_pack(from, "from", to_buf, &b, &n, &err), 0);
	assert_true(n.files == 2 && n.directories == 3 && n.links == 1 && n.skipped == 1);
	assert_int_equal(n.bytes, 10);
	assert_null(memmem(b.data, b.len, "bird", 4));
	assert_int_equal(rmtree_contents(fd), 0);
	assert_int_equal(unpack(&b, wide, &n2, &there, &err), 0);
	assert_true(n2.files == 2 && n2.directories == 2 && n2.links == 1 && n2.skipped == 0);
	assert_true(there.skipped == 1 && there.changed == 0);
	assert_content("f", "content");
	assert_content("\xff\x1b", "odd");
	assert_int_equal(fstatat(fd, "d/empty", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0711);
	assert_untouched();
}

static void test_one_file(void **)
{
	auto_close int fd = in(), f = -EBADF;
	auto_buf b = BUF_INIT(MIB(1));
	struct tree_counts n, there;
	struct cay_err err = {};

	assert_int_equal(path_write_atomic(fd, "f", "content", 7, 0640), 0);
	f = path_open(fd, "f", O_RDONLY, 0);
	assert_int_equal(tree_pack(f, "some/where/f2", to_buf, &b, &n, &err), 0);
	assert_int_equal(unpack(&b, wide, &n, &there, &err), 0);
	assert_content("f2", "content");
}

/* The sink makes the file smaller once its header has gone by. */
struct shrinks {
	struct buf *b;
	int fd;
	unsigned calls;
};

static int shrink(void *arg, const void *p, size_t n, struct cay_err *)
{
	struct shrinks *s = arg;

	if (s->calls++ == 1)
		assert_int_equal(ftruncate(s->fd, 10), 0);
	return buf_append(s->b, p, n);
}

static void test_a_file_that_shrinks(void **)
{
	static char much[200000];
	auto_close int fd = in();
	auto_buf b = BUF_INIT(MIB(1));
	struct shrinks s = { .b = &b };
	struct tree_counts n, there;
	struct cay_err err = {};
	struct stat st;

	memset(much, 'x', sizeof(much));
	assert_int_equal(path_write_atomic(fd, "f", much, sizeof(much), 0640), 0);
	s.fd = path_open(fd, "f", O_RDWR, 0);
	assert_int_equal(tree_pack(fd, "in", shrink, &s, &n, &err), 0);
	assert_int_equal(close(s.fd), 0);
	assert_int_equal(n.changed, 1);
	assert_int_equal(unpack(&b, wide, &n, &there, &err), 0);
	assert_int_equal(there.changed, 1);
	assert_int_equal(fstatat(fd, "f", &st, 0), 0);
	assert_int_equal(st.st_size, sizeof(much));
}

/* Directories in directories: those below the depth are counted, and no fd stays. */
static void test_deep(void **)
{
	auto_buf b = BUF_INIT(MIB(4));
	auto_close int at = in();
	auto_close int top = in();
	struct tree_counts n;
	struct cay_err err = {};

	for (unsigned i = 0; i < TREE_DEPTH_MAX + 5; i++) {
		int next;

		assert_int_equal(mkdirat(at, "d", 0755), 0);
		next = path_open(at, "d", O_RDONLY | O_DIRECTORY, 0);
		assert_true(next >= 0);
		(void)close(at);
		at = next;
	}
	assert_int_equal(tree_pack(top, "in", to_buf, &b, &n, &err), 0);
	assert_int_equal(n.directories, TREE_DEPTH_MAX);
	assert_int_equal(n.skipped, 1);
}

static void test_notes(void **)
{
	static const struct {
		const char *note;
		bool good;
	} rows[] = {
		{ "skipped=3 changed=7", true },
		{ "", false },
		{ "skipped=3", false },
		{ "skipped=3 changed=", false },
		{ "skipped=-3 changed=7", false },
		{ "skipped=3 changed=7 ", false },
		{ "skipped 3 changed=7", false },
		{ "x=3 changed=7", false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct tree_counts n = {};

		assert_int_equal(tree_note_parse(rows[i].note, &n), rows[i].good);
		if (rows[i].good)
			assert_true(n.skipped == 3 && n.changed == 7);
	}
}

static void test_made(void **)
{
	struct inode_set m = {};
	struct stat st = {};

	assert_false(inode_set_has(&m, &st));
	for (unsigned i = 0; i < 5000; i += 2) {
		st.st_ino = i;
		assert_int_equal(inode_set_add(&m, &st), 0);
	}
	for (unsigned i = 1; i < 5000; i++) {
		st.st_ino = i;
		assert_int_equal(inode_set_has(&m, &st), i % 2 == 0 || i == 1);
	}
	inode_set_fini(&m);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, fresh, stale)
	const struct CMUnitTest tests[] = {
		T(test_hostile),
		T(test_modes_links_and_times),
		T(test_limits),
		T(test_links_that_stay_inside),
		T(test_cut_anywhere),
		T(test_there_and_back),
		T(test_one_file),
		T(test_a_file_that_shrinks),
		T(test_deep),
		T(test_notes),
		T(test_made),
		T(test_full),
		T(test_many_directories),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
