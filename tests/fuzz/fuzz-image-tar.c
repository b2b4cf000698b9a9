/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layers and whole layouts, unpacked into a fresh directory in memory.  The
 * first byte says what the rest is: bits 0 and 1 the media type or a layout, bit
 * 2 whether there is a layer below it.  Whatever comes, what lies beside the
 * directory stays, and the tree can be removed.
 */
#include <fcntl.h>
#include <locale.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/path.h"
#include "base/rmtree.h"
#include "fuzz.h"
#include "unpack/unpack-layer.h"
#include "unpack/unpack.h"

#define MAX_BYTES MIB(4) /* a bomb stops here */

static int work_dir(void)
{
	static char name[] = "/tmp/fuzz-image-XXXXXX";
	static int fd = -1;

	if (fd < 0) {
		CHECK(setlocale(LC_CTYPE, "C.UTF-8") && mkdtemp(name));
		fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		CHECK(fd >= 0 && path_write_atomic(fd, "canary", "bird", 4, 0600) == 0);
	}
	return fd;
}

static bool canary_lives(int work)
{
	auto_buf b = BUF_INIT(16);
	struct stat st;

	return path_read(work, "canary", &b) == 0 && strcmp(buf_str(&b), "bird") == 0 &&
	       fstatat(work, "canary", &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_nlink == 1 &&
	       st.st_uid == 0 && (st.st_mode & 07777) == 0600;
}

static int memory_file(const void *p, size_t n)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	CHECK(fd >= 0 && fd_write_all(fd, p, n) == 0);
	return fd;
}

static int apply(int root, int fd, unsigned media, bool lowest, const uint8_t *data, size_t size,
		 struct cay_err *err)
{
	struct layer_budget left = { MAX_BYTES, MAX_BYTES, 1000, 0 };
	struct descriptor d = { .size = size, .media = media };
	struct oci_layout_file file = { .size = size };
	struct oci_layout layout = { .fd = fd, .blobs = &file, .n_blobs = 1 };
	struct hash h = {};
	int r;

	CHECK(hash_init(&h) == 0 && hash_update(&h, data, size) == 0 &&
	      hash_finish(&h, &d.digest) == 0);
	hash_fini(&h);
	file.digest = d.digest;
	r = layer_apply(root, &layout, &d, &d.digest, lowest, &left, err);
	CHECK(left.file_bytes <= MAX_BYTES && left.tar_bytes <= MAX_BYTES && left.entries <= 1000);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const unsigned medias[] = { MEDIA_TAR, MEDIA_TAR_GZIP, MEDIA_TAR_ZSTD };
	int work = work_dir(), r;
	auto_close int root = -EBADF, fd = -EBADF;
	struct cay_err err = {};

	if (size < 2)
		return 0;
	CHECK(mkdirat(work, "root", 0755) == 0);
	root = openat(work, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(mkdirat(root, "d", 0755) == 0 && symlinkat("../canary", root, "l") == 0 &&
	      symlinkat("/d", root, "d/s") == 0 && path_write_atomic(root, "f", "x", 1, 0644) == 0);
	fd = memory_file(data + 1, size - 1);
	if ((data[0] & 3) == 3) {
		auto_close int config = memory_file("", 0), manifest = memory_file("", 0);
		const struct unpack_texts to = { config, manifest };
		struct unpack_result u;

		r = unpack_image(root, fd, to, MAX_BYTES, 0, &u, &err);
	} else {
		r = apply(root, fd, medias[data[0] & 3], !(data[0] & 4), data + 1, size - 1, &err);
	}
	CHECK(r >= 0 || (err.code != CAY_OK && err.msg[0]));
	CHECK(canary_lives(work));
	CHECK(rmtree_at(work, "root") == 0);
	CHECK(canary_lives(work));
	return 0;
}
