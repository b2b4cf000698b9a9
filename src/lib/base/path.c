/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/failpoint.h"

static int path_openat2(int dirfd, const char *path, int flags, mode_t mode, uint64_t resolve)
{
	struct open_how how = {
		.flags = (unsigned)(flags | O_CLOEXEC),
		.mode = flags & (O_CREAT | __O_TMPFILE) ? mode : 0,
		.resolve = resolve | RESOLVE_NO_MAGICLINKS,
	};
	long fd;

	/* EAGAIN: a rename elsewhere raced with ".."; the kernel requests a retry */
	for (int tries = 0; tries < 64; tries++) {
		fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
		if (fd >= 0)
			return (int)fd;
		if (errno != EAGAIN && errno != EINTR)
			break;
	}
	return -errno;
}

int path_open(int dirfd, const char *path, int flags, mode_t mode)
{
	return path_openat2(dirfd, path, flags, mode, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
}

int path_open_in_root(int dirfd, const char *path, int flags, mode_t mode)
{
	return path_openat2(dirfd, path, flags, mode, RESOLVE_IN_ROOT);
}

/* O_NONBLOCK: opening a planted fifo must not hang */
#define READ_FLAGS (O_RDONLY | O_NONBLOCK | O_NOCTTY)

static int fd_read_file(int fd, struct buf *ret)
{
	size_t before = ret->len;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	for (;;) {
		char chunk[4096];
		ssize_t n = read(fd, chunk, sizeof(chunk));
		int r;

		if (n < 0 && errno == EINTR)
			continue;
		r = n < 0 ? -errno : buf_append(ret, chunk, (size_t)n);
		explicit_bzero(chunk, n > 0 ? (size_t)n : 0); /* it may be a key */
		if (r < 0) {
			buf_truncate(ret, before);
			return r == -ENOBUFS ? -EFBIG : r;
		}
		if (n == 0)
			return 0;
	}
}

int path_read(int dirfd, const char *path, struct buf *ret)
{
	auto_close int fd = path_open(dirfd, path, READ_FLAGS, 0);

	return fd < 0 ? fd : fd_read_file(fd, ret);
}

int path_read_in_root(int dirfd, const char *path, struct buf *ret)
{
	auto_close int fd = path_open_in_root(dirfd, path, READ_FLAGS, 0);

	return fd < 0 ? fd : fd_read_file(fd, ret);
}

int fd_write_all(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n) {
		ssize_t done = write(fd, at, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return -errno;
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

#define TMP_PREFIX ".tmp-"

static int path_tmp_name(struct buf *ret)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	return buf_printf(ret, TMP_PREFIX "%016" PRIx64, random);
}

static int path_tmp_create(int dirfd, const char *tmp, const void *p, size_t n, mode_t mode)
{
	auto_close int fd = path_open(dirfd, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
	int r;

	if (fd < 0)
		return fd;
	r = failpoint_hit(FAULT_WRITE_CREATED);
	if (r >= 0 && fchmod(fd, mode) < 0) /* whatever the umask is */
		r = -errno;
	if (r >= 0)
		r = fd_write_all(fd, p, n);
	if (r >= 0 && fsync(fd) < 0)
		r = -errno;
	return r;
}

int path_write_atomic(int dirfd, const char *name, const void *p, size_t n, mode_t mode)
{
	auto_buf tmp = BUF_INIT(NAME_MAX);
	int flags = fcntl(dirfd, F_GETFL), r;

	if (flags < 0 || flags & O_PATH) /* could not be synced in the end */
		return -EBADF;
	if (strchr(name, '/'))
		return -EINVAL;
	r = path_tmp_name(&tmp);
	if (r >= 0)
		r = path_tmp_create(dirfd, tmp.data, p, n, mode);
	if (r == -EEXIST) /* one chance in 2^64 */
		return r;
	if (r >= 0)
		r = failpoint_hit(FAULT_WRITE_FILLED);
	if (r >= 0 && renameat(dirfd, tmp.data, dirfd, name) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(dirfd, buf_str(&tmp), 0);
		return r;
	}
	r = failpoint_hit(FAULT_WRITE_RENAMED);
	if (r >= 0 && fsync(dirfd) < 0)
		r = -errno;
	return r;
}

int path_for_each_entry(int dirfd, path_fn *fn, void *arg)
{
	int fd = path_open(dirfd, ".", O_RDONLY | O_DIRECTORY, 0), r = 0;
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *e;

	if (!dir) {
		r = fd < 0 ? fd : -errno;
		cay_closep(&fd);
		return r;
	}
	while (!r && (e = readdir(dir))) /* NOLINT(concurrency-mt-unsafe): dir is ours */
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = fn(arg, dirfd, e->d_name);
	(void)closedir(dir);
	return r;
}

static int path_tmp_remove(void *arg, int dirfd, const char *name)
{
	int *failed = arg;

	if (strncmp(name, TMP_PREFIX, strlen(TMP_PREFIX)) == 0 && unlinkat(dirfd, name, 0) < 0)
		*failed = -errno;
	return 0;
}

int path_remove_tmp_files(int dirfd)
{
	int failed = 0, r = path_for_each_entry(dirfd, path_tmp_remove, &failed);

	return r < 0 ? r : failed;
}
