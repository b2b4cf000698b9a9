/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of entries in, a tree out.  A line of a layer is one entry:
 *
 *	d NAME MODE | f NAME TEXT | s NAME TARGET | h NAME TARGET | c NAME x |
 *	u NAME UID | g NAME GID
 *
 * and a line of the tree is what lies there, in the order of names.
 */
#include <archive.h>
#include <archive_entry.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "unit.h"
#include "unpack/rootfs.h"
#include "unpack/unpack-layer.h"

#define MTIME 1700000000
#define LAYERS_MAX 4

static void add_entry(struct archive *a, char type, const char *name, const char *arg)
{
	struct archive_entry *e = archive_entry_new();
	size_t n = type == 'f' ? strlen(arg) : 0;

	archive_entry_set_pathname(e, name);
	archive_entry_set_mtime(e, MTIME, 5);
	archive_entry_set_uid(e, 7);
	archive_entry_set_gid(e, 65535);
	archive_entry_set_mode(e, type == 'd'   ? S_IFDIR | 0755
				  : type == 's' ? S_IFLNK | 0777
				  : type == 'c' ? S_IFCHR | 0666
						: S_IFREG | 0644);
	if (type == 'u')
		archive_entry_set_uid(e, strtoll(arg, NULL, 10));
	else if (type == 'g')
		archive_entry_set_gid(e, strtoll(arg, NULL, 10));
	else if (type == 'd')
		archive_entry_set_perm(e, (mode_t)strtoul(arg, NULL, 8));
	else if (type == 's')
		archive_entry_set_symlink(e, arg);
	else if (type == 'h')
		archive_entry_set_hardlink(e, arg);
	archive_entry_set_size(e, (int64_t)n);
	assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
	if (n)
		assert_int_equal(archive_write_data(a, arg, n), n);
	archive_entry_free(e);
}

/* Compressed by gzip as often as it says. */
static int make_gzip(const char *lines, unsigned gzips)
{
	int fd = memfd_create("layer", MFD_CLOEXEC);
	struct archive *a = archive_write_new();
	struct slice rest = slice_of(lines);

	assert_true(fd >= 0);
	assert_int_equal(archive_write_set_format_pax(a), ARCHIVE_OK);
	for (unsigned i = 0; i < gzips; i++)
		assert_int_equal(archive_write_add_filter_gzip(a), ARCHIVE_OK);
	assert_int_equal(archive_write_open_fd(a, fd), ARCHIVE_OK);
	while (rest.n) {
		struct slice line = slice_cut(&rest, '\n'), type = slice_cut(&line, ' ');
		struct slice name = slice_cut(&line, ' ');
		auto_free char *n = strndup(name.p, name.n);
		auto_free char *arg = strndup(line.p ? line.p : "", line.n);

		add_entry(a, type.p[0], n, arg);
	}
	assert_int_equal(archive_write_free(a), ARCHIVE_OK);
	return fd;
}

static int make_tar(const char *lines)
{
	return make_gzip(lines, 0);
}

/* The same digest for blob and tar: it is a plain one. */
static struct descriptor describe(int fd, struct oci_layout *ret)
{
	static struct oci_layout_file file;
	struct descriptor d = { .media = MEDIA_TAR };
	struct hash h = {};
	char chunk[4096];
	ssize_t n;

	assert_int_equal(hash_init(&h), 0);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
		assert_int_equal(hash_update(&h, chunk, (size_t)n), 0);
		d.size += (uint64_t)n;
	}
	assert_int_equal(hash_finish(&h, &d.digest), 0);
	hash_fini(&h);
	file = (struct oci_layout_file){ d.digest, 0, d.size };
	*ret = (struct oci_layout){ .fd = fd, .blobs = &file, .n_blobs = 1 };
	return d;
}

static int apply(int root, const char *lines, bool lowest, struct layer_budget *left,
		 struct cay_err *err)
{
	auto_close int fd = make_tar(lines);
	struct oci_layout layout;
	struct descriptor d = describe(fd, &layout);

	return layer_apply(root, &layout, &d, &d.digest, lowest, left, err);
}

static void list(int dirfd, const char *front, struct buf *out)
{
	struct dirent **names;
	int fd = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int n = scandirat(fd, ".", &names, NULL, alphasort);

	assert_true(n >= 2);
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;
		char arg[256] = "";
		struct stat st;

		if (str_eq(name, ".") || str_eq(name, ".."))
			goto next;
		assert_int_equal(fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
		if (S_ISLNK(st.st_mode)) {
			assert_true(readlinkat(fd, name, arg, sizeof(arg) - 1) > 0);
			assert_int_equal(buf_printf(out, "s %s%s %s\n", front, name, arg), 0);
		} else if (S_ISREG(st.st_mode)) {
			auto_buf text = BUF_INIT(256);

			assert_int_equal(path_read(fd, name, &text), 0);
			assert_int_equal(
				buf_printf(out, "f %s%s %s\n", front, name, buf_str(&text)), 0);
		} else {
			auto_close int sub = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

			assert_int_equal(
				buf_printf(out, "d %s%s %o\n", front, name, st.st_mode & 07777), 0);
			assert_true(snprintf(arg, sizeof(arg), "%s%s/", front, name) > 0);
			list(sub, arg, out);
		}
	next:
		free(names[i]);
	}
	free(names);
	(void)close(fd);
}

static int new_root(char base[static 64])
{
	int fd;

	assert_true(snprintf(base, 64, "/tmp/cay-layer-XXXXXX") > 0);
	assert_non_null(mkdtemp(base));
	fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void drop_root(int fd, const char *base)
{
	assert_int_equal(rmtree_contents(fd), 0);
	(void)close(fd);
	assert_int_equal(rmdir(base), 0);
}

static const struct {
	const char *layers[LAYERS_MAX];
	const char *tree; /* or NULL, */
	const char *why;  /* and then this is in the message */
} cases[] = {
	{ { "d a 700\nf a/b hi" }, "d a 700\nf a/b hi\n" },
	{ { "f a/b/c hi" }, "d a 755\nd a/b 755\nf a/b/c hi\n" },
	{ { "d a 6711" }, "d a 6711\n" },
	{ { "f a 1\nf a 2" }, "f a 2\n" },
	{ { "f a 1\nd a 755" }, "d a 755\n" },
	{ { "f a/b 1\nf a 2" }, "f a 2\n" },
	{ { "s a b\nf a 2" }, "f a 2\n" },
	{ { "s a b\nd b 755\nd a 700" }, "d a 700\nd b 755\n" },
	{ { "d b 755\ns a b\nf a/c 1" }, "s a b\nd b 755\nf b/c 1\n" },
	{ { "d b 755\ns b/a /b\nf b/a/c 1" }, "d b 755\ns b/a /b\nf b/c 1\n" },
	{ { "f a 1\nh b a\nf a 2" }, "f a 2\nf b 1\n" },
	{ { "f a 1\nh a a" }, "f a 1\n" },
	{ { "f a 1\nf b 2\nh b a" }, "f a 1\nf b 1\n" },
	{ { "c a x\nf b 1" }, "f b 1\n" },
	{ { "f ./a 1\nf /b 2\nf .//c 3" }, "f a 1\nf b 2\nf c 3\n" },
	/* layers */
	{ { "f a 1", "f b 2", "f a 3" }, "f a 3\nf b 2\n" },
	{ { "d a 755\nf a/b 1", "d a 700\nf a/c 2" }, "d a 700\nf a/b 1\nf a/c 2\n" },
	{ { "f a/b 1", "f a 2" }, "f a 2\n" },
	{ { "f a 1", "d a 755\nf a/b 2" }, "d a 755\nf a/b 2\n" },
	{ { "f a 1", "h b a" }, "f a 1\nf b 1\n" },
	/* whiteouts */
	{ { "f a/b 1\nf a/c 2", "f a/.wh.b x" }, "d a 755\nf a/c 2\n" },
	{ { "f a/b/c 1", "f .wh.a x" }, "" },
	{ { "f a 1", "f .wh.a x\nf a 2" }, "f a 2\n" },
	{ { "f a 1", "f a 2\nf .wh.a x" }, "f a 2\n" },
	{ { "f a/b 1", "f a/c 2\nf a/.wh..wh..opq x" }, "d a 755\nf a/c 2\n" },
	{ { "f a/b 1", "f a/.wh..wh..opq x", "f a/b 3" }, "d a 755\nf a/b 3\n" },
	{ { "f a 1", "f .wh.b x\nf c/.wh..wh..opq x" }, "f a 1\n" },
	{ { "f a/b 1\ns l a", "f l/.wh.b x" }, "d a 755\ns l a\n" },
	{ { "f a/b 1\ns l a", "f .wh.l x" }, "d a 755\nf a/b 1\n" },
	{ { "f .wh.a 1" }, "" },
	{ { "f a 1", "f .wh..wh.aufs x" }, "f a 1\n" },
	/* refused */
	{ { "f ../a 1" }, NULL, "'..'" },
	{ { "f a/../b 1" }, NULL, "'..'" },
	{ { "h a ../b" }, NULL, "'..'" },
	{ { "h a b" }, NULL, "not in the image" },
	{ { "s b /etc/passwd\nh a b" }, NULL, "not a file" },
	{ { "d b 755\nh a b" }, NULL, "not a file" },
	{ { "s b /nowhere\nf b/c 1" }, NULL, "cannot enter" },
	{ { "s b c\ns c b\nf b/c 1" }, NULL, "cannot enter" },
	{ { "f a 1\nf a/b 2" }, NULL, "cannot enter" },
	{ { "u a 65535\ng b 65535" }, "f a \nf b \n" },
	{ { "u a 65536" }, NULL, "owner" },
	{ { "g a 65536" }, NULL, "owner" },
	{ { "u a 4294967295" }, NULL, "owner" },
	{ { "f . 1" }, NULL, "root of the image" },
	{ { "s . a" }, NULL, "root of the image" },
	{ { "f a 1", "f .wh. x" }, NULL, "whiteout of nothing" },
	{ { "f a 1", "f .wh... x" }, NULL, "whiteout of nothing" },
};

static void entries_become_a_tree(void **)
{
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct layer_budget left = { MIB(1), MIB(1), 100, 0 };
		auto_buf tree = BUF_INIT(KIB(64));
		struct cay_err err = {};
		char base[64];
		int root = new_root(base), r = 0;

		for (size_t k = 0; r >= 0 && k < LAYERS_MAX && cases[i].layers[k]; k++)
			r = apply(root, cases[i].layers[k], k == 0, &left, &err);
		list(root, "", &tree);
		if (cases[i].tree && !str_eq(cases[i].tree, buf_str(&tree)))
			fail_msg("row %zu: %s\n%s", i, err.msg, buf_str(&tree));
		row_check(i, cases[i].tree ? r == 0 : r < 0 && strstr(err.msg, cases[i].why));
		row_check(i, cases[i].tree || err.code == CAY_E_INVALID);
		drop_root(root, base);
	}
}

static void owner_and_times_are_kept(void **)
{
	struct layer_budget left = { MIB(1), MIB(1), 100, 0 };
	static const char *const names[] = { "d", "d/f", "d/s", "d/e" };
	struct cay_err err = {};
	char base[64];
	int root = new_root(base);

	assert_int_equal(apply(root,
			       "d d 755\nf d/f 1\ns d/s x\nd d/e 755\nf d/gone 1\nf d/gone/x 1",
			       true, &left, &err),
			 -ENOTDIR);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		struct stat st;

		assert_int_equal(fstatat(root, names[i], &st, AT_SYMLINK_NOFOLLOW), 0);
		row_check(i, st.st_uid == 7 && st.st_gid == 65535);
		row_check(i, st.st_mtim.tv_sec == MTIME && st.st_mtim.tv_nsec == 5);
	}
	drop_root(root, base);
}

static void budgets_are_over_all_layers(void **)
{
	static const struct {
		struct layer_budget left;
		int want;
		uint64_t files; /* bytes left after success */
	} rows[] = {
		{ { MIB(1), 20, 100, 0 }, 0, 0 },      { { MIB(1), 21, 100, 0 }, 0, 1 },
		{ { MIB(1), 19, 100, 0 }, -E2BIG, 0 }, { { MIB(1), 20, 2, 0 }, 0, 0 },
		{ { MIB(1), 20, 1, 0 }, -E2BIG, 0 },   { { 2500, 20, 100, 0 }, -E2BIG, 0 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct layer_budget left = rows[i].left;
		struct cay_err err = {};
		char base[64];
		int root = new_root(base);
		int r = apply(root, "f a 0123456789", true, &left, &err);

		if (r >= 0)
			r = apply(root, "f a 0123456789", false, &left, &err);
		row_check(i, r == rows[i].want);
		row_check(i,
			  r < 0 ? err.code == CAY_E_TOO_LARGE : left.file_bytes == rows[i].files);
		drop_root(root, base);
	}
}

/* One name brings many directories; they are entries like any other. */
static void implied_directories_count(void **)
{
	for (uint64_t entries = 1; entries < 6; entries++) {
		struct layer_budget left = { MIB(1), MIB(1), entries, 0 };
		struct cay_err err = {};
		char base[64];
		int root = new_root(base);
		int r = apply(root, "f a/b/c/d 1", true, &left, &err);

		row_check(entries, r == (entries < 4 ? -E2BIG : 0));
		row_check(entries, r == 0 || err.code == CAY_E_TOO_LARGE);
		drop_root(root, base);
	}
}

static void mount_targets_are_real_directories(void **)
{
	static const struct {
		const char *layer, *why; /* NULL: fine */
	} rows[] = {
		{ "d etc 755", NULL },     { "f x 1", NULL },           { "s dev /x", "/dev" },
		{ "s proc dev", "/proc" }, { "s sys nowhere", "/sys" }, { "f run x", "/run" },
		{ "s tmp ../..", "/tmp" }, { "s etc usr", "/etc" },     { "f etc x", "/etc" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct layer_budget left = { MIB(1), MIB(1), 100, 0 };
		struct cay_err err = {};
		char base[64];
		struct stat st;
		int root = new_root(base);

		assert_int_equal(apply(root, rows[i].layer, true, &left, &err), 0);
		row_check(i,
			  rootfs_check_mount_dirs(root, true, &err) == (rows[i].why ? -EINVAL : 0));
		row_check(i, !rows[i].why || strncmp(err.msg, rows[i].why, 4) == 0);
		err = (struct cay_err){};
		row_check(i, rows[i].why ? rootfs_check_mount_dirs(root, false, &err) < 0
					 : rootfs_check_mount_dirs(root, false, &err) == 0 &&
						   fstatat(root, "tmp", &st, 0) == 0 &&
						   (st.st_mode & 07777) == 01777);
		drop_root(root, base);
	}
}

static void names_are_taken_apart(void **)
{
	static const struct {
		const char *in, *dir, *base; /* dir NULL: refused */
	} rows[] = {
		{ "a", ".", "a" },
		{ "a/b", "a", "b" },
		{ "/a//b/./c/", "a/b", "c" },
		{ ".", ".", "" },
		{ "", ".", "" },
		{ "///", ".", "" },
		{ "a/.../b", "a/...", "b" },
		{ "..", NULL, "" },
		{ "a/..", NULL, "" },
		{ "../a", NULL, "" },
		{ "a/../b", NULL, "" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct rootfs_name n;
		struct cay_err err = {};
		int r = rootfs_name_parse(rows[i].in, &n, &err);

		row_check(i, rows[i].dir ? r == 0 && str_eq(n.dir, rows[i].dir) &&
						   str_eq(n.base, rows[i].base)
					 : r == -EINVAL);
	}
}

/* A changed byte anywhere is another layer. */
static void digests_are_checked(void **)
{
	auto_close int fd = make_tar("f a hello\nf b world");
	struct oci_layout layout;
	const struct descriptor good = describe(fd, &layout);
	char base[64];
	int root = new_root(base);

	for (unsigned what = 0; what < 4; what++) {
		struct layer_budget left = { MIB(1), MIB(1), 100, 0 };
		struct descriptor d = good;
		struct digest diff_id = good.digest;
		struct cay_err err = {};
		int r;

		if (what == 1)
			diff_id.byte[31] ^= 1;
		if (what == 2)
			d.size++;
		if (what == 3) /* behind the end of the tar */
			assert_int_equal(pwrite(fd, "x", 1, (off_t)good.size - 1), 1);
		r = layer_apply(root, &layout, &d, &diff_id, true, &left, &err);
		row_check(what, what ? r == -EINVAL && err.code == CAY_E_INVALID : r == 0);
	}
	drop_root(root, base);
}

static void compression_is_what_the_media_type_says(void **)
{
	static const struct {
		unsigned gzips, media;
		const char *why; /* NULL: fine */
	} rows[] = {
		{ 0, MEDIA_TAR, NULL },
		{ 1, MEDIA_TAR_GZIP, NULL },
		{ 0, MEDIA_TAR_GZIP, "media type" },
		{ 0, MEDIA_TAR_ZSTD, "media type" },
		{ 1, MEDIA_TAR_ZSTD, "media type" },
		{ 2, MEDIA_TAR_GZIP, "media type" },
		{ 1, MEDIA_TAR, "not a" },
	};
	auto_close int plain = make_tar("f a 1");
	struct oci_layout layout;
	const struct digest diff_id = describe(plain, &layout).digest;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_close int fd = make_gzip("f a 1", rows[i].gzips);
		struct layer_budget left = { MIB(1), MIB(1), 100, 0 };
		struct descriptor d = describe(fd, &layout);
		struct cay_err err = {};
		char base[64];
		int root = new_root(base), r;

		d.media = rows[i].media;
		r = layer_apply(root, &layout, &d, &diff_id, true, &left, &err);
		row_check(i, rows[i].why ? r == -EINVAL && strstr(err.msg, rows[i].why) : r == 0);
		drop_root(root, base);
	}
}

static void long_names_are_refused(void **)
{
	static const struct {
		unsigned parts, length; /* of each */
		bool ok;
	} rows[] = {
		{ 1, 255, true },  { 1, 256, false }, { 256, 1, true },
		{ 257, 1, false }, { 16, 255, true }, { 17, 255, false },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_buf text = BUF_INIT(KIB(8));
		struct cay_err err = {};
		struct rootfs_name n;

		for (unsigned k = 0; k < rows[i].parts * (rows[i].length + 1) - 1; k++)
			assert_int_equal(buf_putc(&text, k % (rows[i].length + 1) < rows[i].length
								 ? 'x'
								 : '/'),
					 0);
		row_check(i, rootfs_name_parse(text.data, &n, &err) == (rows[i].ok ? 0 : -EINVAL));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(entries_become_a_tree),
		cmocka_unit_test(owner_and_times_are_kept),
		cmocka_unit_test(budgets_are_over_all_layers),
		cmocka_unit_test(implied_directories_count),
		cmocka_unit_test(mount_targets_are_real_directories),
		cmocka_unit_test(names_are_taken_apart),
		cmocka_unit_test(digests_are_checked),
		cmocka_unit_test(compression_is_what_the_media_type_says),
		cmocka_unit_test(long_names_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
