/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A writable layer as rows and as a tar: what each name becomes, what a hostile tree cannot
 * do, and that no bytes which are no rows pass for some.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "archive/change-row.h"
#include "archive/layer-tar.h"
#include "archive/out-file.h"
#include "base/path.h"
#include "base/rmtree.h"
#include "unit.h"

static int work = -EBADF, upper = -EBADF, below = -EBADF;

static int fresh(void **)
{
	char name[] = "/tmp/test-layer-XXXXXX";

	assert_non_null(mkdtemp(name));
	work = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(work >= 0);
	assert_int_equal(mkdirat(work, "upper", 0755), 0);
	assert_int_equal(mkdirat(work, "below", 0755), 0);
	upper = openat(work, "upper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	below = openat(work, "below", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(upper >= 0 && below >= 0);
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
	(void)close(upper);
	(void)close(below);
	return 0;
}

/* The attribute under a name that a test may set. */
static int on_flags(void *, int fd, struct cay_err *)
{
	char v;

	if (fgetxattr(fd, "user.moved", &v, 1) == 1)
		return LAYER_MOVED;
	return fgetxattr(fd, "user.opaque", &v, 1) == 1 ? LAYER_OPAQUE : 0;
}

static int to_buf(void *arg, const void *p, size_t n, struct cay_err *)
{
	return buf_append(arg, p, n);
}

static void put(int dir, const char *name, const char *data)
{
	auto_close int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, data, strlen(data)), 0);
}

static void mark(const char *dir, const char *attribute)
{
	auto_close int fd = openat(upper, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_int_equal(fsetxattr(fd, attribute, "y", 1, 0), 0);
}

/* Device 0/0 needs no right. */
static void delete(const char *name)
{
	assert_int_equal(mknodat(upper, name, S_IFCHR, makedev(0, 0)), 0);
}

static struct layer_source source(void)
{
	return (struct layer_source){ .upper = upper, .below = below, .dir_flags = on_flags };
}

/* "kind path;" of every row, in order of their names. */
static int row_compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static const char *rows(uint64_t max, bool *ret_more, uint64_t *ret_skipped)
{
	static const char *const kinds[] = { "A", "M", "D" };
	static char lines[64][64];
	static struct buf text = { .max = KIB(4) };
	auto_buf b = BUF_INIT(MIB(1));
	struct layer_source s = source();
	struct cay_err err = {};
	struct change_row row = {};
	const char *sorted[64];
	size_t n = 0, at = 0;

	assert_int_equal(change_rows_write(&s, -EBADF, to_buf, &b, max, &err), 0);
	assert_true(b.len <= max);
	while (row.kind != CHANGE_END) {
		ssize_t len = change_row_parse(b.data + at, b.len - at, &row);

		assert_true(len > 0);
		at += (size_t)len;
		if (row.kind == CHANGE_END)
			break;
		assert_true(n < 64);
		assert_true(snprintf(lines[n], 64, "%s %.*s;", kinds[row.kind], (int)row.name.n,
				     row.name.p) < 64);
		sorted[n] = lines[n];
		n++;
	}
	assert_int_equal(at, b.len);
	*ret_more = row.more;
	*ret_skipped = row.skipped;
	qsort(sorted, n, sizeof(sorted[0]), row_compare);
	buf_clear(&text);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(buf_puts(&text, sorted[i]), 0);
	return buf_str(&text);
}

static void assert_rows(const char *want)
{
	bool more;
	uint64_t skipped;

	assert_string_equal(rows(MIB(1), &more, &skipped), want);
	assert_false(more);
	assert_int_equal(skipped, 0);
}

static void each_change_has_its_kind(void **)
{
	put(below, "same", "1");
	put(below, "gone", "1");
	assert_int_equal(mkdirat(below, "d", 0755), 0);
	put(below, "d/old", "1");
	assert_int_equal(mkdirat(below, "mode", 0700), 0);
	assert_int_equal(mkdirat(below, "file-now", 0755), 0);
	put(upper, "same", "1"); /* it is there, so it was written */
	put(upper, "new", "1");
	put(upper, "file-now", "1");
	assert_int_equal(mkdirat(upper, "d", 0755), 0);
	assert_int_equal(mkdirat(upper, "mode", 0755), 0);
	assert_int_equal(mkdirat(upper, "d/deep", 0755), 0);
	assert_int_equal(symlinkat("/etc/passwd", upper, "d/link"), 0);
	delete ("gone");
	delete ("never");
	assert_rows("A d/deep;A d/link;A new;D gone;M file-now;M mode;M same;");
}

static void an_opaque_directory_deletes_what_it_hides(void **)
{
	assert_int_equal(mkdirat(below, "o", 0755), 0);
	assert_int_equal(mkdirat(below, "o/sub", 0755), 0);
	assert_int_equal(mkdirat(below, "o/rest", 0755), 0);
	put(below, "o/sub/x", "1");
	put(below, "o/sub/y", "1");
	put(below, "o/rest/z", "1");
	put(below, "o/file", "1");
	assert_int_equal(mkdirat(upper, "o", 0755), 0);
	assert_int_equal(mkdirat(upper, "o/sub", 0755), 0);
	put(upper, "o/sub/x", "2");
	put(upper, "o/new", "2");
	mark("o", "user.opaque");
	assert_rows("A o/new;D o/file;D o/rest;D o/sub/y;M o/sub/x;");
}

static void rows_end_where_there_is_no_room(void **)
{
	bool more;
	uint64_t skipped;

	for (int i = 0; i < 20; i++) {
		char name[8];

		assert_true(snprintf(name, sizeof(name), "f%02d", i) == 3);
		put(upper, name, "");
	}
	assert_int_equal(strlen(rows(CHANGE_HEAD + 3 * (CHANGE_HEAD + 3), &more, &skipped)), 3 * 6);
	assert_true(more);
}

static void a_moved_directory_is_refused(void **)
{
	auto_buf b = BUF_INIT(MIB(1));
	struct layer_source s = source();
	struct cay_err err = {};

	assert_int_equal(mkdirat(upper, "m", 0755), 0);
	mark("m", "user.moved");
	assert_true(change_rows_write(&s, -EBADF, to_buf, &b, MIB(1), &err) < 0);
	assert_int_equal(err.code, CAY_E_UNSUPPORTED);
}

static void deep_directories_and_long_names_are_skipped(void **)
{
	char name[256];
	auto_close int at = fcntl(upper, F_DUPFD_CLOEXEC, 3);

	memset(name, 'n', 255);
	name[255] = 0;
	for (int i = 0; i < 20; i++) { /* longer than a path may be */
		int in;

		assert_int_equal(mkdirat(at, name, 0755), 0);
		in = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)close(at);
		at = in;
	}
	{
		auto_buf b = BUF_INIT(MIB(1));
		struct layer_source s = source();
		struct cay_err err = {};
		struct tree_counts counts;

		assert_int_equal(layer_write_tar(&s, to_buf, &b, MIB(1), &counts, &err), 0);
		assert_int_equal(counts.directories, 16); /* and the top */
		assert_int_equal(counts.skipped, 1);
	}
	assert_int_equal(rmtree_contents(upper), 0);
	(void)close(at);
	at = fcntl(upper, F_DUPFD_CLOEXEC, 3);
	for (int i = 0; i < LAYER_DEPTH_MAX + 5; i++) {
		int in;

		assert_int_equal(mkdirat(at, "d", 0755), 0);
		in = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		(void)close(at);
		at = in;
	}
	{
		auto_buf b = BUF_INIT(MIB(2));
		struct layer_source s = source();
		struct cay_err err = {};
		struct tree_counts counts;

		assert_int_equal(layer_write_tar(&s, to_buf, &b, MIB(1), &counts, &err), 0);
		assert_int_equal(counts.directories, LAYER_DEPTH_MAX);
		assert_int_equal(counts.skipped, 1);
	}
}

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

/* "type name[=link|=content];" in the order of the archive. */
static void tar_names(struct buf *text, struct tree_counts *counts)
{
	auto_buf b = BUF_INIT(MIB(4));
	struct layer_source s = source();
	struct cay_err err = {};
	struct tar_reader tar;
	struct tar_entry e;
	struct memory m;

	assert_int_equal(layer_write_tar(&s, to_buf, &b, MIB(1), counts, &err), 0);
	m = (struct memory){ b.data, b.len, 0 };
	tar_reader_init(&tar, from_memory, &m);
	while (tar_read_entry(&tar, &e, &err) > 0) {
		char data[32] = "";

		assert_int_equal(buf_printf(text, "%c %s", "fdlho"[e.type], e.name), 0);
		if (e.type == TAR_FILE && e.size < sizeof(data))
			assert_true(tar_read_data(&tar, data, sizeof(data) - 1, &err) >= 0);
		if ((e.link && e.link[0]) || data[0])
			assert_int_equal(buf_printf(text, "=%s", data[0] ? data : e.link), 0);
		assert_int_equal(buf_puts(text, ";"), 0);
	}
	assert_int_equal(err.code, CAY_OK);
	tar_reader_fini(&tar);
}

static void a_tar_has_whiteouts_and_no_names_of_them(void **)
{
	auto_buf text = BUF_INIT(KIB(4));
	struct tree_counts counts;

	assert_int_equal(mkdirat(upper, "o", 0755), 0);
	mark("o", "user.opaque");
	put(upper, "o/a", "content");
	tar_names(&text, &counts);
	assert_string_equal(buf_str(&text), "d ;d o;f o/.wh..wh..opq;f o/a=content;");
	assert_int_equal(counts.skipped, 0);
	assert_int_equal(rmtree_contents(upper), 0);
	buf_clear(&text);
	put(upper, ".wh.passwd", "x");
	assert_int_equal(mkdirat(upper, ".wh.d", 0755), 0);
	put(upper, ".wh.d/x", "x");
	tar_names(&text, &counts);
	assert_string_equal(buf_str(&text), "d ;d ;");
	assert_int_equal(counts.skipped, 2);
	assert_int_equal(rmtree_contents(upper), 0);
	buf_clear(&text);
	delete ("gone");
	tar_names(&text, &counts);
	assert_string_equal(buf_str(&text), "d ;f .wh.gone;");
}

static void links_and_other_types(void **)
{
	auto_buf text = BUF_INIT(KIB(4));
	struct tree_counts counts;

	assert_int_equal(mkdirat(upper, "d", 0755), 0);
	put(upper, "d/one", "1");
	assert_int_equal(linkat(upper, "d/one", upper, "d/two", 0), 0);
	tar_names(&text, &counts);
	if (!strstr(buf_str(&text), "f d/one=1;h d/two=d/one;"))
		assert_string_equal(buf_str(&text), "d ;d d;f d/two=1;h d/one=d/two;");
	assert_int_equal(rmtree_contents(upper), 0);
	buf_clear(&text);
	assert_int_equal(symlinkat("../../x", upper, "l"), 0);
	assert_int_equal(mkfifoat(upper, "l.fifo", 0644), 0);
	tar_names(&text, &counts);
	assert_int_equal(counts.skipped, 0);
	assert_non_null(strstr(buf_str(&text), "l l=../../x;"));
	assert_non_null(strstr(buf_str(&text), "o l.fifo;"));
}

static void a_file_is_no_larger_than_agreed(void **)
{
	auto_free struct out_file *o = calloc(1, sizeof(*o));
	auto_close int fd = openat(work, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct cay_err err = {};
	char bytes[1000] = {};

	assert_true(fd >= 0);
	if (fd < 0)
		return;
	o->fd = fd;
	o->left = 2500;
	assert_int_equal(on_out_file_write(o, bytes, 1000, &err), 0);
	assert_int_equal(on_out_file_write(o, bytes, 1000, &err), 0);
	assert_true(on_out_file_write(o, bytes, 1000, &err) < 0);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
	assert_int_equal(out_file_finish(o, &err), 0);
	assert_int_equal(lseek(fd, 0, SEEK_END), 2000);
}

/* The same bytes, and no blocks for those that are zeros. */
static void zeros_are_holes(void **)
{
	static const size_t zeros[] = { MIB(4), MIB(4) + 1, 2 * OUT_FILE_BUFFER, 100 };

	for (size_t i = 0; i < ARRAY_SIZE(zeros); i++) {
		auto_free struct out_file *o = calloc(1, sizeof(*o));
		auto_close int fd = openat(work, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
		auto_free char *in = calloc(2, zeros[i] + 1), *out = calloc(2, zeros[i] + 1);
		size_t n = 2 * zeros[i] + 1;
		struct cay_err err = {};
		struct stat st;

		in[zeros[i]] = 'x';
		o->fd = fd;
		o->left = n;
		assert_int_equal(on_out_file_write(o, in, n, &err), 0);
		assert_int_equal(out_file_finish(o, &err), 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, n);
		assert_true((uint64_t)st.st_blocks * 512 <= 4 * OUT_FILE_BUFFER);
		assert_int_equal(pread(fd, out, n, 0), n);
		assert_memory_equal(in, out, n);
	}
}

static void a_file_that_cannot_fit_is_not_read(void **)
{
	auto_buf b = BUF_INIT(MIB(1));
	struct layer_source s = source();
	struct cay_err err = {};
	struct tree_counts counts;
	auto_close int fd = openat(upper, "sparse", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_int_equal(ftruncate(fd, 1 << 30), 0);
	assert_true(layer_write_tar(&s, to_buf, &b, MIB(1), &counts, &err) < 0);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
	assert_true(b.len <= KIB(1));
}

static void what_is_no_row_is_refused(void **)
{
	static const struct {
		const char *bytes;
		size_t n;
		ssize_t want;
	} table[] = {
#define ROW(s, want) { s, sizeof(s) - 1, want }
		ROW("\0\0\1\0\244\201\0\0\0\0\0\0\0\0\0\0a", 17),
		ROW("\0\0\0\0\355\101\0\0\0\0\0\0\0\0\0\0", 16), /* the top */
		ROW("\0\0\2\0\244\201\0\0\0\0\0\0\0\0\0\0a", 0), /* not complete */
		ROW("\0\0\1\0\244\201\0\0\0\0\0\0\0\0\0", 0),
		ROW("\3\0\1\0\244\201\0\0\0\0\0\0\0\0\0\0a", -EINVAL), /* kind */
		ROW("\0\1\1\0\244\201\0\0\0\0\0\0\0\0\0\0a", -EINVAL),
		ROW("\0\0\1\0\244\1\0\0\0\0\0\0\0\0\0\0a", -EINVAL), /* type */
		ROW("\0\0\1\0\244\201\1\0\0\0\0\0\0\0\0\0a", -EINVAL),
		ROW("\0\0\1\0\244\201\0\0\0\0\0\0\0\0\0\200a", -EINVAL), /* size */
		ROW("\0\0\0\20\244\201\0\0\0\0\0\0\0\0\0\0a", -EINVAL),  /* length */
		ROW("\0\0\1\0\244\201\0\0\0\0\0\0\0\0\0\0/", -EINVAL),
		ROW("\0\0\2\0\244\201\0\0\0\0\0\0\0\0\0\0..", -EINVAL),
		ROW("\0\0\4\0\244\201\0\0\0\0\0\0\0\0\0\0a//b", -EINVAL),
		ROW("\0\0\3\0\244\201\0\0\0\0\0\0\0\0\0\0a/.", -EINVAL),
		ROW("\0\0\3\0\244\201\0\0\0\0\0\0\0\0\0\0a\0b", -EINVAL),
		ROW("\377\1\0\0\0\0\0\0\7\0\0\0\0\0\0\0", 16),
		ROW("\377\2\0\0\0\0\0\0\7\0\0\0\0\0\0\0", -EINVAL),
		ROW("\377\1\1\0\0\0\0\0\7\0\0\0\0\0\0\0a", -EINVAL),
	};
	struct change_row row;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		row_check(i, change_row_parse(table[i].bytes, table[i].n, &row) == table[i].want);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_change_has_its_kind, fresh, stale),
		cmocka_unit_test_setup_teardown(an_opaque_directory_deletes_what_it_hides, fresh,
						stale),
		cmocka_unit_test_setup_teardown(rows_end_where_there_is_no_room, fresh, stale),
		cmocka_unit_test_setup_teardown(a_moved_directory_is_refused, fresh, stale),
		cmocka_unit_test_setup_teardown(deep_directories_and_long_names_are_skipped, fresh,
						stale),
		cmocka_unit_test_setup_teardown(a_tar_has_whiteouts_and_no_names_of_them, fresh,
						stale),
		cmocka_unit_test_setup_teardown(links_and_other_types, fresh, stale),
		cmocka_unit_test_setup_teardown(a_file_is_no_larger_than_agreed, fresh, stale),
		cmocka_unit_test_setup_teardown(zeros_are_holes, fresh, stale),
		cmocka_unit_test_setup_teardown(a_file_that_cannot_fit_is_not_read, fresh, stale),
		cmocka_unit_test(what_is_no_row_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
