/* SPDX-License-Identifier: Apache-2.0 */
/* test-disk-merge - one upper directory of overlayfs over another; control/test_flatten compares
 * whole trees */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "disk/disk.h"
#include "unit.h"

#define OPAQUE "trusted.overlay.opaque"

/* u is laid over l. */
struct fixture {
	char base[64];
	int fd, u, l;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	/* a memory file system has no attributes user.* on older kernels, so: on disk */
	if (!f || snprintf(f->base, sizeof(f->base), "/var/tmp/cay-merge-XXXXXX") < 0 ||
	    !mkdtemp(f->base))
		return -1;
	f->fd = open(f->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mkdirat(f->fd, "u", 0755) < 0 || mkdirat(f->fd, "l", 0755) < 0)
		return -1;
	f->u = openat(f->fd, "u", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	f->l = openat(f->fd, "l", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = f;
	return f->u < 0 || f->l < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	int r;

	close(f->u);
	close(f->l);
	r = rmtree_contents(f->fd);
	close(f->fd);
	(void)rmdir(f->base);
	free(f);
	return r;
}

static void put(int at, const char *name, const char *text)
{
	auto_close int fd = openat(at, name, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void make_dir(int at, const char *name, bool opaque)
{
	auto_close int fd = -EBADF;

	assert_int_equal(mkdirat(at, name, 0755), 0);
	fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	if (opaque)
		assert_int_equal(fsetxattr(fd, OPAQUE, "y", 1, 0), 0);
}

static void whiteout(int at, const char *name)
{
	assert_int_equal(mknodat(at, name, S_IFCHR, makedev(0, 0)), 0);
}

static bool is_opaque(int at, const char *name)
{
	auto_close int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char v[1];

	return fd >= 0 && fgetxattr(fd, OPAQUE, v, 1) == 1 && v[0] == 'y';
}

static bool is_whiteout(int at, const char *name)
{
	struct stat st;

	return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode) &&
	       st.st_rdev == makedev(0, 0);
}

static bool absent(int at, const char *name)
{
	struct stat st;

	return fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static void says(int at, const char *name, const char *text)
{
	auto_buf b = BUF_INIT(64);

	assert_int_equal(path_read(at, name, &b), 0);
	assert_string_equal(buf_str(&b), text);
}

static void merge(const struct fixture *f, int expected)
{
	assert_int_equal(disk_merge(f->fd, "u", f->fd, "l"), expected);
}

static void what_the_upper_one_has_replaces_what_the_lower_one_has(void **state)
{
	const struct fixture *f = *state;

	put(f->l, "stays", "l");
	put(f->l, "file", "l");
	put(f->u, "file", "u");
	make_dir(f->l, "dir-to-file", false);
	put(f->l, "dir-to-file/x", "l");
	put(f->u, "dir-to-file", "u");
	put(f->l, "deleted", "l");
	whiteout(f->u, "deleted");
	make_dir(f->l, "deleted-dir", false);
	put(f->l, "deleted-dir/x", "l");
	whiteout(f->u, "deleted-dir");
	whiteout(f->l, "again");
	put(f->u, "again", "u");
	assert_int_equal(symlinkat("stays", f->l, "link"), 0);
	put(f->u, "link", "u");
	assert_int_equal(symlinkat("l", f->l, "link-to-dir"), 0);
	make_dir(f->u, "link-to-dir", true);
	put(f->u, "link-to-dir/x", "u");
	merge(f, 0);
	says(f->l, "stays", "l");
	says(f->l, "file", "u");
	says(f->l, "dir-to-file", "u");
	says(f->l, "again", "u");
	says(f->l, "link", "u");
	says(f->l, "link-to-dir/x", "u");
	assert_true(is_whiteout(f->l, "deleted") && is_whiteout(f->l, "deleted-dir"));
}

/* A name below all layers must neither come back nor go. */
static void directories_hide_what_they_hid(void **state)
{
	const struct fixture *f = *state;

	make_dir(f->l, "both", false);
	put(f->l, "both/l", "l");
	make_dir(f->u, "both", false);
	put(f->u, "both/u", "u");
	make_dir(f->l, "opaque-below", true);
	put(f->l, "opaque-below/l", "l");
	make_dir(f->u, "opaque-below", false);
	put(f->u, "opaque-below/u", "u");
	make_dir(f->l, "opaque-above", false);
	put(f->l, "opaque-above/l", "l");
	make_dir(f->u, "opaque-above", true);
	put(f->u, "opaque-above/u", "u");
	whiteout(f->l, "over-a-whiteout");
	make_dir(f->u, "over-a-whiteout", false);
	put(f->l, "over-a-file", "l");
	make_dir(f->u, "over-a-file", false);
	make_dir(f->u, "new", false);
	merge(f, 0);
	says(f->l, "both/l", "l");
	says(f->l, "both/u", "u");
	says(f->l, "opaque-below/l", "l");
	says(f->l, "opaque-below/u", "u");
	assert_true(absent(f->l, "opaque-above/l"));
	says(f->l, "opaque-above/u", "u");
	assert_true(is_opaque(f->l, "opaque-below") && is_opaque(f->l, "opaque-above"));
	assert_true(is_opaque(f->l, "over-a-whiteout") && is_opaque(f->l, "over-a-file"));
	assert_false(is_opaque(f->l, "both") || is_opaque(f->l, "new"));
}

static void links_of_one_inode_are_not_written_through(void **state)
{
	const struct fixture *f = *state;
	struct stat a, b;

	put(f->l, "one", "l");
	assert_int_equal(linkat(f->l, "one", f->l, "two", 0), 0);
	put(f->u, "one", "u");
	put(f->u, "three", "u");
	assert_int_equal(linkat(f->u, "three", f->u, "four", 0), 0);
	merge(f, 0);
	says(f->l, "one", "u");
	says(f->l, "two", "l");
	assert_int_equal(fstatat(f->l, "three", &a, 0), 0);
	assert_int_equal(fstatat(f->l, "four", &b, 0), 0);
	assert_true(a.st_ino == b.st_ino && a.st_nlink == 2);
}

static void attributes_are_those_of_the_upper_one(void **state)
{
	const struct fixture *f = *state;
	struct stat st;
	char v[8];

	make_dir(f->l, "d", false);
	make_dir(f->u, "d", false);
	assert_int_equal(fchmodat(f->u, "d", 01751, 0), 0);
	assert_int_equal(fchownat(f->u, "d", 7, 8, 0), 0);
	{
		auto_close int l = openat(f->l, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		auto_close int u = openat(f->u, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		assert_int_equal(fsetxattr(l, "user.old", "l", 1, 0), 0);
		assert_int_equal(fsetxattr(l, "user.both", "l", 1, 0), 0);
		assert_int_equal(fsetxattr(u, "user.both", "u", 1, 0), 0);
		merge(f, 0);
		assert_true(fgetxattr(l, "user.old", v, sizeof(v)) < 0 && errno == ENODATA);
		assert_true(fgetxattr(l, "user.both", v, sizeof(v)) == 1 && v[0] == 'u');
	}
	assert_int_equal(fstatat(f->l, "d", &st, 0), 0);
	assert_true((st.st_mode & 07777) == 01751 && st.st_uid == 7 && st.st_gid == 8);
}

/* Deep in one of them is copied; deep in both is refused, and nothing hangs. */
static void depth_is_bounded(void **state)
{
	const struct fixture *f = *state;

	for (int which = 0; which < 2; which++) {
		int at = fcntl(which ? f->u : f->l, F_DUPFD_CLOEXEC, 3);

		for (int i = 0; i < 300; i++) {
			int below;

			make_dir(at, "d", false);
			below = openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			close(at);
			at = below;
		}
		close(at);
		if (!which)
			merge(f, 0);
	}
	merge(f, -EMLINK);
}

static void each_file_is_counted_once(void **state)
{
	const struct fixture *f = *state;
	uint64_t before, after;
	int fd;

	assert_int_equal(disk_count_bytes(f->fd, "l", &before), 0);
	fd = openat(f->l, "big", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
	assert_int_equal(fallocate(fd, 0, 0, MIB(1)), 0);
	assert_int_equal(ftruncate(fd, MIB(512)), 0);
	close(fd);
	for (int i = 0; i < 4; i++) {
		char name[] = "link0";

		name[4] = (char)('0' + i);
		assert_int_equal(linkat(f->l, "big", f->l, name, 0), 0);
	}
	assert_int_equal(disk_count_bytes(f->fd, "l", &after), 0);
	assert_true(after - before >= MIB(1) - 8 && after - before < MIB(2));
	assert_int_equal(disk_count_bytes(f->fd, "none", &after), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			what_the_upper_one_has_replaces_what_the_lower_one_has, set_up, tear_down),
		cmocka_unit_test_setup_teardown(directories_hide_what_they_hid, set_up, tear_down),
		cmocka_unit_test_setup_teardown(links_of_one_inode_are_not_written_through, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(attributes_are_those_of_the_upper_one, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(depth_is_bounded, set_up, tear_down),
		cmocka_unit_test_setup_teardown(each_file_is_counted_once, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
