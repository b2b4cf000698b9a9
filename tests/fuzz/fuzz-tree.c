/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tar, unpacked into a fresh directory.  Bit 0 of the first byte: it is gzip; bit 1:
 * symlinks may lead out; bit 2: sums are made right, or nothing would get past them.  Whatever
 * comes, what lies beside the directory stays, no temporary name is left, what was made fits the
 * limits, and what is packed again is read again.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "archive/gz.h"
#include "archive/tar-internal.h"
#include "archive/tree-unpack.h"
#include "base/path.h"
#include "base/rmtree.h"
#include "fuzz.h"

#define MAX_BYTES KIB(256)
#define MAX_ENTRIES 300

struct memory {
	const uint8_t *p;
	size_t n;
};

static ssize_t from_memory(void *arg, void *p, size_t n, struct cay_err *)
{
	struct memory *m = arg;
	size_t some = m->n < n ? m->n : n;

	if (some)
		memcpy(p, m->p, some);
	m->p += some;
	m->n -= some;
	return (ssize_t)some;
}

static int to_buf(void *arg, const void *p, size_t n, struct cay_err *)
{
	return buf_append(arg, p, n);
}

static int work_dir(void)
{
	static char name[] = "/tmp/fuzz-tree-XXXXXX";
	static int fd = -1;

	if (fd < 0) {
		CHECK(mkdtemp(name));
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
	       (st.st_mode & 07777) == 0600;
}

static int no_tmp(void *, int, const char *name)
{
	CHECK(strncmp(name, ".cay-", 5) != 0 || strlen(name) != 21);
	return 0;
}

/* Ours is read by ours, with the same counts. */
static void again(int root)
{
	auto_buf b = BUF_INIT(MIB(8));
	struct tree_counts n, there;
	struct cay_err err = {};
	struct memory m;
	struct tree_unpack how = { .dirfd = root,
				   .read = from_memory,
				   .arg = &m,
				   .limits = { UINT64_MAX, UINT64_MAX, 0, true } };

	CHECK(tree_pack(root, "root", to_buf, &b, &n, &err) == 0);
	m = (struct memory){ (const uint8_t *)b.data, b.len };
	CHECK(tree_unpack(&how, &n, &there, &err) == 0);
}

static void seal(uint8_t *p, size_t n)
{
	for (; n >= TAR_BLOCK; p += TAR_BLOCK, n -= TAR_BLOCK)
		if (memcmp(p + AT_MAGIC, "ustar", 5) == 0)
			CHECK(snprintf((char *)p + AT_SUM, LEN_SUM, "%06o", tar_checksum(p)) == 6);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct gz_reader gz;
	int work = work_dir(), r;
	auto_close int root = -EBADF;
	auto_free uint8_t *in = NULL;
	struct memory m;
	struct tree_counts n, there;
	struct cay_err err = {};
	struct tree_unpack how = { .read = from_memory, .arg = &m };

	if (size < 2)
		return 0;
	in = fuzz_copy(data + 1, size - 1);
	if ((data[0] & 5) == 4)
		seal(in, size - 1);
	m = (struct memory){ in, size - 1 };
	CHECK(mkdirat(work, "root", 0755) == 0);
	root = openat(work, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(mkdirat(root, "d", 0755) == 0 && symlinkat("../canary", root, "l") == 0 &&
	      symlinkat("..", root, "d/s") == 0 && path_write_atomic(root, "f", "x", 1, 0644) == 0);
	how.dirfd = root;
	how.limits = (struct tree_limits){ MAX_ENTRIES, MAX_BYTES, 022, data[0] & 2 };
	if (data[0] & 1) {
		CHECK(gz_reader_init(&gz, from_memory, &m, &err) == 0);
		how.read = gz_read;
		how.arg = &gz;
	}
	r = tree_unpack(&how, &n, &there, &err);
	gz_reader_fini(&gz);
	CHECK(r >= 0 || (err.code != CAY_OK && err.msg[0]));
	CHECK(n.bytes <= MAX_BYTES && n.files + n.directories + n.links <= MAX_ENTRIES);
	CHECK(path_for_each_entry(root, no_tmp, NULL) == 0);
	again(root);
	CHECK(canary_lives(work));
	CHECK(rmtree_at(work, "root") == 0);
	CHECK(canary_lives(work));
	return 0;
}
