/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What root's side of image_store_add() does: takes a file, makes a name, leaves
 * nothing behind.  What images can hold is tried in tests/attack/images.
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
#include "keeper/image-store.h"
#include "unit.h"
#include "unpack/digest.h"
#include "unpack/unpack-confine.h"

#ifdef __aarch64__
#define ARCH "arm64"
#else
#define ARCH "amd64"
#endif
#define TYPE "application/vnd.oci.image."

static const struct disk plain = { .kind = VERB_DISK_NONE };

struct fixture {
	char base[64];
	int fd;
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || snprintf(f->base, sizeof(f->base), "/tmp/cay-image-XXXXXX") < 0 ||
	    !mkdtemp(f->base))
		return -1;
	f->fd = open(f->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;
	int r = rmtree_contents(f->fd);

	(void)close(f->fd);
	r |= rmdir(f->base);
	free(f);
	return r;
}

/* How many entries a directory of images/ has. */
static unsigned count(const struct fixture *f, const char *name)
{
	int fd = openat(f->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd >= 0 ? fdopendir(fd) : NULL;
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		(void)closedir(d);
	return n > 2 ? n - 2 : 0;
}

static void add_file(struct archive *a, const char *name, const void *p, size_t n)
{
	struct archive_entry *e = archive_entry_new();

	archive_entry_set_pathname(e, name);
	archive_entry_set_mode(e, S_IFREG | 04755);
	archive_entry_set_uid(e, 1000);
	archive_entry_set_size(e, (int64_t)n);
	assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
	assert_int_equal(archive_write_data(a, p, n), n);
	archive_entry_free(e);
}

static void hash_of(const char *p, size_t n, char hex[static DIGEST_HEX_LEN + 1])
{
	struct hash h = {};
	struct digest d;

	assert_int_equal(hash_init(&h), 0);
	assert_int_equal(hash_update(&h, p, n), 0);
	assert_int_equal(hash_finish(&h, &d), 0);
	hash_fini(&h);
	digest_format_hex(&d, hex);
}

static void add_blob(struct archive *a, const char *p, size_t n,
		     char hex[static DIGEST_HEX_LEN + 1])
{
	char name[128];

	hash_of(p, n, hex);
	assert_true(snprintf(name, sizeof(name), "blobs/sha256/%s", hex) > 0);
	add_file(a, name, p, n);
}

static size_t make_layer(char *ret, size_t max)
{
	struct archive *a = archive_write_new();
	size_t n = 0;

	assert_int_equal(archive_write_set_format_ustar(a), ARCHIVE_OK);
	assert_int_equal(archive_write_open_memory(a, ret, max, &n), ARCHIVE_OK);
	add_file(a, "bin/f", "hello", 5);
	assert_int_equal(archive_write_close(a), ARCHIVE_OK);
	assert_int_equal(archive_write_free(a), ARCHIVE_OK);
	return n;
}

/* An image of one file; hex is its name. */
static int make_image(char hex[static DIGEST_HEX_LEN + 1])
{
	char layer[KIB(16)], id[DIGEST_HEX_LEN + 1], config_id[DIGEST_HEX_LEN + 1], text[2048];
	int fd = memfd_create("image", MFD_CLOEXEC), n;
	struct archive *a = archive_write_new();
	size_t size = make_layer(layer, sizeof(layer));

	assert_true(fd >= 0);
	assert_int_equal(archive_write_set_format_ustar(a), ARCHIVE_OK);
	assert_int_equal(archive_write_open_fd(a, fd), ARCHIVE_OK);
	add_blob(a, layer, size, id);
	n = snprintf(text, sizeof(text),
		     "{\"os\":\"linux\",\"architecture\":\"" ARCH "\",\"config\":{\"User\":\"7\"},"
		     "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:%s\"]}}",
		     id);
	add_blob(a, text, (size_t)n, config_id);
	n = snprintf(text, sizeof(text),
		     "{\"schemaVersion\":2,\"config\":{\"mediaType\":\"" TYPE
		     "config.v1+json\",\"digest\":\"sha256:%s\",\"size\":%d},"
		     "\"layers\":[{\"mediaType\":\"" TYPE
		     "layer.v1.tar\",\"digest\":\"sha256:%s\",\"size\":%zu}]}",
		     config_id, n, id, size);
	add_blob(a, text, (size_t)n, hex);
	n = snprintf(text, sizeof(text),
		     "{\"schemaVersion\":2,\"manifests\":[{\"mediaType\":\"" TYPE
		     "manifest.v1+json\",\"digest\":\"sha256:%s\",\"size\":%d}]}",
		     hex, n);
	add_file(a, "./index.json", text, (size_t)n);
	assert_int_equal(archive_write_free(a), ARCHIVE_OK);
	return fd;
}

static void an_image_gets_the_name_of_its_manifest(void **state)
{
	struct fixture *f = *state;
	char hex[DIGEST_HEX_LEN + 1], got[DIGEST_HEX_LEN + 1], path[256], config[64] = "";
	auto_close int tar = make_image(hex), config_fd = -EBADF;
	struct image_store_added added = {};
	struct cay_err err = {};
	struct digest d;
	struct stat st;

	if (image_store_add(f->fd, tar, MIB(1), 0, &added, &err) < 0)
		fail_msg("%s", err.msg);
	config_fd = added.config_fd;
	memcpy(d.byte, added.digest, sizeof(d.byte));
	digest_format_hex(&d, got);
	assert_string_equal(got, hex);
	assert_int_equal(added.bytes, 5);
	assert_true(snprintf(path, sizeof(path), "sha256/%s/rootfs/bin/f", hex) > 0);
	assert_int_equal(fstatat(f->fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_uid, FOREIGN_BASE + 1000);
	assert_int_equal(st.st_gid, FOREIGN_BASE);
	assert_int_equal(st.st_mode & 07777, 04755);
	assert_true(snprintf(path, sizeof(path), "sha256/%s", hex) > 0);
	assert_int_equal(fstatat(f->fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	assert_int_equal(st.st_uid, 0);
	assert_int_equal(fcntl(config_fd, F_GET_SEALS) & F_SEAL_WRITE, F_SEAL_WRITE);
	assert_true(read(config_fd, config, sizeof(config) - 1) > 0);
	assert_string_equal(config, "{\"env\":{},\"user\":\"7\"}");
	assert_int_equal(count(f, "tmp"), 0);
	assert_int_equal(count(f, "sha256"), 1);
}

static void adding_and_removing_twice_is_success(void **state)
{
	struct fixture *f = *state;
	char hex[DIGEST_HEX_LEN + 1];
	auto_close int tar = make_image(hex);
	struct image_store_added added = {};
	struct cay_err err = {};

	for (int i = 0; i < 2; i++) {
		assert_int_equal(image_store_add(f->fd, tar, MIB(1), 0, &added, &err), 0);
		(void)close(added.config_fd);
		assert_int_equal(count(f, "tmp"), 0);
		assert_int_equal(count(f, "sha256"), 1);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(image_store_remove(f->fd, &plain, added.digest, &err), 0);
		assert_int_equal(count(f, "tmp"), 0);
		assert_int_equal(count(f, "sha256"), 0);
	}
}

/* What an unpacker that was taken over can leave under the name of another image. */
static int plant_content(int root)
{
	auto_close int fd = openat(root, "bin/f", O_WRONLY | O_CLOEXEC);

	return pwrite(fd, "X", 1, 4) == 1 ? 0 : -1;
}

static int plant_mode(int root)
{
	return fchmodat(root, "bin/f", 0755, 0);
}

static int plant_owner(int root)
{
	return fchownat(root, "bin/f", FOREIGN_BASE, FOREIGN_BASE, 0) |
	       fchmodat(root, "bin/f", 04755, 0);
}

static int plant_more(int root)
{
	return mkdirat(root, "bin/more", 0755);
}

static int plant_less(int root)
{
	return unlinkat(root, "bin/f", 0);
}

static int plant_link(int root)
{
	return unlinkat(root, "bin/f", 0) | symlinkat("/bin/sh", root, "bin/f");
}

static int plant_nothing(int root)
{
	return renameat(root, "../rootfs", root, "../other");
}

static void the_name_of_another_tree_is_refused(void **state)
{
	static int (*const plants[])(int) = { plant_content, plant_mode, plant_owner,  plant_more,
					      plant_less,    plant_link, plant_nothing };
	struct fixture *f = *state;
	char hex[DIGEST_HEX_LEN + 1], path[128];
	auto_close int tar = make_image(hex);

	assert_true(snprintf(path, sizeof(path), "sha256/%s/rootfs", hex) > 0);
	for (size_t i = 0; i < ARRAY_SIZE(plants); i++) {
		struct image_store_added added = {}, again = { .config_fd = -EBADF };
		auto_close int root = -EBADF;
		struct cay_err err = {};

		row_check(i, image_store_add(f->fd, tar, MIB(1), 0, &added, &err) == 0);
		(void)close(added.config_fd);
		root = openat(f->fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		row_check(i, plants[i](root) == 0);
		row_check(i, image_store_add(f->fd, tar, MIB(1), 0, &again, &err) < 0);
		row_check(i, err.code == CAY_E_STATE && strstr(err.msg, hex));
		row_check(i, again.config_fd == -EBADF && count(f, "tmp") == 0);
		err = (struct cay_err){};
		row_check(i, image_store_remove(f->fd, &plain, added.digest, &err) == 0);
	}
}

static void only_a_readable_file_is_taken(void **state)
{
	struct fixture *f = *state;
	char hex[DIGEST_HEX_LEN + 1], self[64];
	auto_close int tar = make_image(hex);
	int fds[6], pipes[2];

	assert_true(snprintf(self, sizeof(self), "/proc/self/fd/%d", tar) > 0);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	fds[0] = pipes[0];
	fds[1] = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fds[2] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	fds[3] = open(self, O_WRONLY | O_CLOEXEC);
	fds[4] = open(self, O_PATH | O_CLOEXEC);
	fds[5] = -EBADF;
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		struct image_store_added added = { .config_fd = -EBADF };
		struct cay_err err = {};

		row_check(i, image_store_add(f->fd, fds[i], MIB(1), 0, &added, &err) == -EINVAL);
		row_check(i, err.code == CAY_E_INVALID && added.config_fd == -EBADF);
		row_check(i, strstr(err.msg, "not a readable file"));
		cay_closep(&fds[i]);
	}
	(void)close(pipes[1]);
	assert_int_equal(count(f, "tmp") + count(f, "sha256"), 0);
}

static void what_is_refused_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	char hex[DIGEST_HEX_LEN + 1];
	auto_close int tar = make_image(hex);
	struct image_store_added added;
	struct cay_err err = {};

	assert_int_equal(image_store_add(f->fd, tar, 4, 0, &added, &err), -E2BIG);
	assert_int_equal(err.code, CAY_E_TOO_LARGE);
	err = (struct cay_err){};
	assert_int_equal(ftruncate(tar, 700), 0);
	assert_int_equal(image_store_add(f->fd, tar, MIB(1), 0, &added, &err), -EINVAL);
	assert_int_equal(err.code, CAY_E_INVALID);
	assert_int_equal(count(f, "tmp") + count(f, "sha256"), 0);
}

/* A name of the image in a message is a stranger's: nothing of it reaches a
 * terminal as more than text. */
static void messages_are_printable(void **state)
{
	struct fixture *f = *state;
	auto_close int tar = memfd_create("image", MFD_CLOEXEC);
	struct archive *a = archive_write_new();
	struct image_store_added added;
	struct cay_err err = {};

	assert_int_equal(archive_write_set_format_ustar(a), ARCHIVE_OK);
	assert_int_equal(archive_write_open_fd(a, tar), ARCHIVE_OK);
	add_file(a, "index.json", "\x1b[2J", 4);
	assert_int_equal(archive_write_free(a), ARCHIVE_OK);
	assert_int_equal(image_store_add(f->fd, tar, MIB(1), 0, &added, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "JSON"));
	for (const char *c = err.msg; *c; c++)
		assert_true(*c >= ' ' && *c <= '~');
}

/* A sandbox's directory with a disk that has one file. */
static int make_box(const struct fixture *f)
{
	static const char *const parts[] = {
		"box",           "box/disk",           "box/disk/upper",
		"box/disk/work", "box/disk/upper/new", "box/disk/work/left"
	};

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		assert_true(mkdirat(f->fd, parts[i], 0755) == 0 || errno == EEXIST);
	return openat(f->fd, "box", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool is_there(int dirfd, const char *front, const char *hex, const char *rest)
{
	char path[256];
	struct stat st;

	assert_true(snprintf(path, sizeof(path), "%s%s%s", front, hex, rest) > 0);
	return fstatat(dirfd, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void a_disk_becomes_a_layer(void **state)
{
	struct fixture *f = *state;
	char hex[DIGEST_HEX_LEN + 1];
	auto_close int tar = make_image(hex), box = make_box(f);
	const struct digest layer = { { 7 } };
	struct image_store_added added = {};
	uint8_t chain[IMAGE_LAYERS_MAX][32];
	struct cay_err err = {};

	assert_int_equal(image_store_add(f->fd, tar, MIB(1), 0, &added, &err), 0);
	(void)close(added.config_fd);
	assert_int_equal(
		image_store_commit(f->fd, &plain, box, added.digest, layer.byte, NULL, &err), 0);
	assert_int_equal(count(f, "tmp"), 0);
	digest_format_hex(&layer, hex);
	assert_true(is_there(f->fd, "sha256/", hex, "/disk/upper/new"));
	assert_false(is_there(f->fd, "sha256/", hex, "/disk/work"));
	assert_false(is_there(box, "disk", "", ""));
	assert_int_equal(image_store_read_chain(f->fd, layer.byte, chain), 2);
	assert_memory_equal(chain[0], layer.byte, 32);
	assert_memory_equal(chain[1], added.digest, 32);
	/* what something is over stays */
	assert_true(image_store_remove(f->fd, &plain, added.digest, &err) < 0);
	assert_int_equal(err.code, CAY_E_STATE);
	err = (struct cay_err){};
	assert_int_equal(image_store_remove(f->fd, &plain, layer.byte, &err), 0);
	assert_int_equal(image_store_read_chain(f->fd, layer.byte, chain), -ENOENT);
	assert_int_equal(image_store_remove(f->fd, &plain, added.digest, &err), 0);
	assert_int_equal(count(f, "sha256") + count(f, "tmp"), 0);
}

static void layers_are_bounded(void **state)
{
	struct fixture *f = *state;
	char hex[DIGEST_HEX_LEN + 1];
	auto_close int tar = make_image(hex), config = -EBADF;
	struct digest below, top = { { 1 } };
	struct image_store_added added = {};
	uint8_t chain[IMAGE_LAYERS_MAX][32];
	struct cay_err err = {};

	assert_int_equal(image_store_add(f->fd, tar, MIB(1), 0, &added, &err), 0);
	config = added.config_fd;
	memcpy(below.byte, added.digest, sizeof(below.byte));
	for (int i = 1; i < IMAGE_LAYERS_MAX; i++) {
		auto_close int box = make_box(f);

		row_check(i, image_store_commit(f->fd, &plain, box, below.byte, top.byte, NULL,
						&err) == 0);
		row_check(i, image_store_read_chain(f->fd, top.byte, chain) == i + 1);
		below = top;
		top.byte[0]++;
	}
	auto_close int box = make_box(f);
	assert_true(image_store_commit(f->fd, &plain, box, below.byte, top.byte, NULL, &err) < 0);
	assert_int_equal(err.code, CAY_E_LIMIT);
	assert_true(is_there(box, "disk/upper", "", "/new"));
	assert_int_equal(count(f, "tmp"), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(an_image_gets_the_name_of_its_manifest),
		T(adding_and_removing_twice_is_success),
		T(the_name_of_another_tree_is_refused),
		T(only_a_readable_file_is_taken),
		T(what_is_refused_leaves_nothing),
		T(messages_are_printable),
		T(a_disk_becomes_a_layer),
		T(layers_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
