/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/image-tar.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#define TEN(h) h h h h h h h h h h
#define LONG_BLOB "blobs/sha512/" TEN("0123456789ab") /* a pax header names it */

struct fixture {
	char dir[32];
	int fd;
};

static void layout_put(const struct fixture *f, const char *name, const char *text)
{
	int fd = openat(f->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	(void)close(fd);
}

static int layout_create(void **state)
{
	static struct fixture f;

	f = (struct fixture){ .dir = "/tmp/cay-layout-XXXXXX" };
	assert_non_null(mkdtemp(f.dir));
	f.fd = open(f.dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_true(f.fd >= 0);
	assert_int_equal(mkdirat(f.fd, "blobs", 0700), 0);
	assert_int_equal(mkdirat(f.fd, "blobs/sha256", 0700), 0);
	assert_int_equal(mkdirat(f.fd, "blobs/sha512", 0700), 0);
	layout_put(&f, "oci-layout", "{}");
	layout_put(&f, "index.json", "[]");
	layout_put(&f, "blobs/sha256/b", "");
	layout_put(&f, "blobs/sha256/a", TEN(TEN("0123456789")));
	layout_put(&f, LONG_BLOB, "long");
	layout_put(&f, "other", "not sent");
	*state = &f;
	return 0;
}

static int layout_delete(void **state)
{
	static const char *const files[] = { "oci-layout",     "index.json", "blobs/sha256/a",
					     "blobs/sha256/b", LONG_BLOB,    "other",
					     "blobs/sha256/c" };
	const struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		(void)unlinkat(f->fd, files[i], 0);
	(void)unlinkat(f->fd, "blobs/sha256", AT_REMOVEDIR);
	(void)unlinkat(f->fd, "blobs/sha512", AT_REMOVEDIR);
	(void)unlinkat(f->fd, "blobs", AT_REMOVEDIR);
	(void)close(f->fd);
	return rmdir(f->dir);
}

static ssize_t from_layout(void *arg, void *p, size_t n, struct cay_err *err)
{
	return image_tar_read(arg, p, n, err);
}

static void a_directory_is_its_files_by_name(void **state)
{
	const struct fixture *f = *state;
	static const struct {
		const char *name, *data;
	} want[] = {
		{ "blobs/sha256/a", TEN(TEN("0123456789")) },
		{ "blobs/sha256/b", "" },
		{ LONG_BLOB, "long" },
		{ "index.json", "[]" },
		{ "oci-layout", "{}" },
	};
	auto_layout l = IMAGE_TAR_INIT;
	CAY_CLEANUP(tar_reader_fini) struct tar_reader t;
	struct tar_entry e;
	struct cay_err err = {};

	assert_int_equal(image_tar_open(&l, f->dir, &err), 0);
	tar_reader_init(&t, from_layout, &l);
	for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
		char data[KIB(2)] = "";

		row_check(i, tar_read_entry(&t, &e, &err) == 1);
		row_check(i, str_eq(e.name, want[i].name) && e.mode == 0644 && e.mtime == 0);
		row_check(i, tar_read_data(&t, data, sizeof(data) - 1, &err) ==
				     (ssize_t)strlen(want[i].data));
		row_check(i, str_eq(data, want[i].data));
	}
	assert_int_equal(tar_read_entry(&t, &e, &err), 0);
}

static void the_length_is_known_before(void **state)
{
	static const size_t steps[] = { 1, 511, KIB(64) };
	const struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		auto_layout l = IMAGE_TAR_INIT;
		static char piece[KIB(64)];
		struct cay_err err = {};
		uint64_t sum = 0;
		ssize_t n;

		assert_int_equal(image_tar_open(&l, f->dir, &err), 0);
		while ((n = image_tar_read(&l, piece, steps[i], &err)) > 0)
			sum += (uint64_t)n;
		row_check(i, n == 0 && sum == l.total && sum % 512 == 0);
	}
}

static void the_length_counts_what_a_large_file_needs(void **state)
{
	const struct fixture *f = *state;
	uint64_t small, large = UINT64_C(1) << 33;
	struct cay_err err = {};
	auto_layout before = IMAGE_TAR_INIT, after = IMAGE_TAR_INIT;

	assert_int_equal(image_tar_open(&before, f->dir, &err), 0);
	small = before.total;
	layout_put(f, "blobs/sha256/c", "");
	{
		auto_close int fd = openat(f->fd, "blobs/sha256/c", O_WRONLY | O_CLOEXEC);

		assert_int_equal(ftruncate(fd, (off_t)large), 0);
	}
	assert_int_equal(image_tar_open(&after, f->dir, &err), 0);
	assert_int_equal(after.total, small + large + (uint64_t)3 * 512);
}

static void what_is_no_layout_is_refused(void **state)
{
	const struct fixture *f = *state;
	struct cay_err err = {};

	assert_int_equal(symlinkat("a", f->fd, "blobs/sha256/c"), 0);
	{
		auto_layout l = IMAGE_TAR_INIT;

		assert_true(image_tar_open(&l, f->dir, &err) < 0);
		assert_non_null(strstr(err.msg, "symbolic link"));
	}
	assert_int_equal(unlinkat(f->fd, "blobs/sha256/c", 0), 0);
	{
		auto_layout l = IMAGE_TAR_INIT;
		char piece[KIB(4)];
		ssize_t n;

		assert_int_equal(image_tar_open(&l, f->dir, &err), 0);
		layout_put(f, "blobs/sha256/a", "shorter");
		while ((n = image_tar_read(&l, piece, sizeof(piece), &err)) > 0)
			;
		assert_true(n < 0);
	}
	assert_int_equal(unlinkat(f->fd, "index.json", 0), 0);
	{
		auto_layout l = IMAGE_TAR_INIT;

		assert_true(image_tar_open(&l, f->dir, &err) < 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_directory_is_its_files_by_name, layout_create,
						layout_delete),
		cmocka_unit_test_setup_teardown(the_length_is_known_before, layout_create,
						layout_delete),
		cmocka_unit_test_setup_teardown(the_length_counts_what_a_large_file_needs,
						layout_create, layout_delete),
		cmocka_unit_test_setup_teardown(what_is_no_layout_is_refused, layout_create,
						layout_delete),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
