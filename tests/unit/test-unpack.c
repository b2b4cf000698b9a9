/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What form an image comes in: `docker save`, a tree, compressed.  Hostile ones are
 * in tests/attack/images.
 */
#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "unit.h"
#include "unpack/docker.h"
#include "unpack/unpack.h"

static void test_docker_names(void **)
{
	static const struct {
		const char *text, *why; /* NULL: fine */
	} rows[] = {
		{ "[{\"Config\":\"a.json\",\"Layers\":[\"b.tar\"]}]", NULL },
		{ "[{\"Config\":\"a.json\",\"Layers\":[\"b.tar\"],\"RepoTags\":null}]", NULL },
		{ "[]", "no image" },
		{ "{}", "no image" },
		{ "[{\"Config\":\"a\",\"Layers\":[\"b\"]},{\"Config\":\"a\",\"Layers\":[\"b\"]}]",
		  "several images" },
		{ "[{\"Layers\":[\"b.tar\"]}]", "'Config'" },
		{ "[{\"Config\":\"\",\"Layers\":[\"b.tar\"]}]", "'Config'" },
		{ "[{\"Config\":\"a.json\",\"Layers\":[]}]", "no layers" },
		{ "[{\"Config\":\"a.json\"}]", "no layers" },
		{ "[{\"Config\":\"a.json\",\"Layers\":[7]}]", "layer 1" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_arena arena = ARENA_INIT(KIB(64));
		struct image_choice choice = {};
		struct docker_image image;
		struct cay_err err = {};
		int r = docker_manifest_parse(slice_of(rows[i].text), &choice, &arena, &image,
					      &err);

		if (rows[i].why) {
			assert_true(r < 0);
			assert_non_null(strstr(err.msg, rows[i].why));
		} else {
			assert_int_equal(r, 0);
			assert_string_equal(image.config, "a.json");
			assert_int_equal(image.n_layers, 1);
		}
	}
}

#define TWO \
	"[{\"Config\":\"a.json\",\"Layers\":[\"b.tar\"],\"RepoTags\":[\"swe/a:1\",\"swe/" \
	"a:2\",\"swe/a:1\"]}," \
	"{\"Config\":\"c.json\",\"Layers\":[\"d.tar\"],\"RepoTags\":[\"no-tag\",\"-:x\",\"a " \
	"b:1\",7,\"c:1\"]}]"

/* Each is found by its number, with the names that docker would show. */
static void test_docker_of_several(void **)
{
	static const struct {
		uint64_t which;
		const char *config, *names; /* NULL: refused */
	} rows[] = {
		{ 1, "a.json", "swe/a:1 swe/a:2 " },
		{ 2, "c.json", "c:1 " },
		{ 3, NULL, NULL },
		{ 0, NULL, NULL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		auto_arena arena = ARENA_INIT(KIB(64));
		struct image_choice choice = { .which = rows[i].which };
		auto_buf names = BUF_INIT(KIB(4));
		struct docker_image image;
		struct cay_err err = {};
		int r = docker_manifest_parse(slice_of(TWO), &choice, &arena, &image, &err);

		row_check(i, (r >= 0) == (rows[i].config != NULL) && choice.n_images == 2);
		row_check(i, rows[i].which < 3 || strstr(err.msg, "holds 2 images"));
		if (!rows[i].config)
			continue;
		assert_string_equal(image.config, rows[i].config);
		for (size_t k = 0; k < choice.n_names; k++)
			assert_int_equal(buf_printf(&names, "%s ", choice.names[k]), 0);
		assert_text(&names, rows[i].names);
	}
}

static void add(struct archive *a, const char *name, const char *text, unsigned mode)
{
	struct archive_entry *e = archive_entry_new();

	archive_entry_set_pathname(e, name);
	archive_entry_set_mode(e, S_IFREG | mode);
	archive_entry_set_size(e, (int64_t)strlen(text));
	assert_int_equal(archive_write_header(a, e), ARCHIVE_OK);
	assert_int_equal(archive_write_data(a, text, strlen(text)), strlen(text));
	archive_entry_free(e);
}

/* A tar of one file, once or more often by gzip. */
static int make_tar(const char *name, unsigned mode, unsigned skins)
{
	struct archive *a = archive_write_new();
	int fd = memfd_create("tar", MFD_CLOEXEC);

	assert_int_equal(archive_write_set_format_ustar(a), ARCHIVE_OK);
	for (unsigned i = 0; i < skins; i++)
		assert_int_equal(archive_write_add_filter_gzip(a), ARCHIVE_OK);
	assert_int_equal(archive_write_open_fd(a, fd), ARCHIVE_OK);
	add(a, name, "#!", mode);
	assert_int_equal(archive_write_close(a), ARCHIVE_OK);
	assert_int_equal(archive_write_free(a), ARCHIVE_OK);
	return fd;
}

static void hash_memfd(int fd, struct digest *ret)
{
	char text[KIB(4)];
	ssize_t n = pread(fd, text, sizeof(text), 0);

	assert_true(n > 0 && n < (ssize_t)sizeof(text));
	assert_int_equal(digest_compute(text, (size_t)n, ret), 0);
}

static int unpack_one(const char *name, unsigned mode, unsigned skins, uint64_t max,
		      struct digest *ret, struct cay_err *err)
{
	char dir[] = "/tmp/cay-unpack-XXXXXX";
	auto_close int tar = make_tar(name, mode, skins);
	auto_close int config = memfd_create("config", MFD_CLOEXEC), root = -EBADF;
	auto_close int manifest = memfd_create("manifest", MFD_CLOEXEC);
	struct unpack_result u = {};
	int r;

	assert_non_null(mkdtemp(dir));
	root = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	r = unpack_image(root, tar, (struct unpack_texts){ config, manifest }, max, 0, &u, err);
	if (r >= 0) {
		assert_int_equal(faccessat(root, name, F_OK, 0), 0);
		hash_memfd(manifest, ret);
	}
	assert_int_equal(rmtree_contents(root), 0);
	assert_int_equal(rmdir(dir), 0);
	return r;
}

static void test_tree(void **)
{
	struct digest plain = {}, zipped = {}, other = {};
	struct cay_err err = {};

	assert_int_equal(unpack_one("bin/sh", 0755, 0, MIB(1), &plain, &err), 0);
	assert_int_equal(unpack_one("bin/sh", 0755, 1, MIB(1), &zipped, &err), 0);
	assert_int_equal(unpack_one("bin/zh", 0755, 0, MIB(1), &other, &err), 0);
	assert_true(digest_eq(&plain, &zipped));
	assert_false(digest_eq(&plain, &other));
}

static void test_not_a_tree(void **)
{
	static const struct {
		const char *name, *why;
		unsigned mode, skins;
		uint64_t max;
	} rows[] = {
		{ "etc/passwd", "no program", 0644, 0, MIB(1) },
		{ "blobs/x", "no index.json", 0755, 0, MIB(1) },
		{ "bin/sh", "compressed twice", 0755, 2, MIB(1) },
		{ "bin/sh", "uncompressed data is larger", 0755, 1, 512 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct digest u = {};
		struct cay_err err = {};

		assert_true(unpack_one(rows[i].name, rows[i].mode, rows[i].skins, rows[i].max, &u,
				       &err) < 0);
		assert_non_null(strstr(err.msg, rows[i].why));
	}
}

/* An archive whose second layer is a link; of it only the way next door is gone. */
static const struct oci_layout_file *linked(const char *name, const char *to)
{
	static struct oci_layout_name names[2];
	static struct oci_layout l;

	names[0] = (struct oci_layout_name){ .name = (char *)(uintptr_t)"a/layer.tar" };
	names[1] = (struct oci_layout_name){ .name = (char *)(uintptr_t)name,
					     .link = (char *)(uintptr_t)to };
	l = (struct oci_layout){ .fd = -EBADF, .names = names, .n_names = 2 };
	return oci_layout_find_file(&l, name);
}

static void test_links(void **)
{
	assert_non_null(linked("b/layer.tar", "../a/layer.tar"));
	assert_null(linked("b/layer.tar", "a/layer.tar"));
	assert_null(linked("b/layer.tar", "../b/layer.tar"));
	assert_null(linked("b/c/layer.tar", "../a/layer.tar"));
	assert_null(linked("b/layer.tar", "/etc/passwd"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_docker_names), cmocka_unit_test(test_docker_of_several),
		cmocka_unit_test(test_tree),         cmocka_unit_test(test_not_a_tree),
		cmocka_unit_test(test_links),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
