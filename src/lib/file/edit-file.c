/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/path.h"
#include "file/edit.h"
#include "file/path-at.h"
#include "file/tmpfile.h"

#define WAIT_NS (UINT64_C(5) * NS_PER_S) /* for others to be done with it */
#define PAUSE_MS 2
#define AGAIN 1

/* The file itself, links resolved. */
struct edit_target {
	int dirfd, fd;
	const char *name; /* in dirfd; points into real */
	char *real;
	struct stat st;
	struct tmpfile tmpfile; /* the new text */
};

static void edit_target_fini(struct edit_target *t)
{
	tmpfile_fini(&t->tmpfile);
	cay_closep(&t->fd);
	cay_closep(&t->dirfd);
	free(t->real);
}

static int edit_target_open(const struct edit_request *ask, struct edit_target *t,
			    struct cay_err *err)
{
	/* realpath() takes magic links by their text, as if they were names */
	auto_close int there = file_open(AT_FDCWD, ask->path, O_PATH, 0);
	char *slash;

	if (there < 0)
		return file_fail_lookup(err, -there, ask->path);
	t->real = realpath(ask->path, NULL);
	if (!t->real)
		return file_fail_lookup(err, errno, ask->path);
	slash = strrchr(t->real, '/');
	t->name = slash + 1;
	*slash = '\0';
	t->dirfd = open(t->real[0] ? t->real : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (t->dirfd < 0)
		return file_fail(err, errno, "open the directory of", ask->path);
	/* O_NONBLOCK: the file may have become a fifo */
	t->fd = openat(t->dirfd, t->name[0] ? t->name : ".",
		       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (t->fd < 0 && (errno == ELOOP || errno == ENOENT))
		return AGAIN; /* replaced since it was found */
	if (t->fd < 0 && (errno == ENXIO || errno == ENODEV))
		return cay_fail_field(err, CAY_E_INVALID, "path", "not a regular file");
	if (t->fd < 0)
		return file_fail(err, errno, "open", ask->path);
	return 0;
}

static int edit_target_check(const struct edit_request *ask, const struct edit_target *t,
			     struct cay_err *err)
{
	if (S_ISDIR(t->st.st_mode))
		return cay_fail_field(err, CAY_E_INVALID, "path", "it is a directory");
	if (!S_ISREG(t->st.st_mode))
		return cay_fail_field(err, CAY_E_INVALID, "path", "not a regular file");
	if ((uint64_t)t->st.st_size > EDIT_FILE_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, "it has %jd bytes; %zu can be edited",
				(intmax_t)t->st.st_size, EDIT_FILE_MAX);
	/* rename() would not check this */
	if (faccessat(t->dirfd, t->name, W_OK, AT_EACCESS) < 0)
		return file_fail(err, errno, "write", ask->path);
	return 0;
}

static bool edit_target_is_in_place(const struct edit_target *t)
{
	struct stat st;

	return fstatat(t->dirfd, t->name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	       st.st_dev == t->st.st_dev && st.st_ino == t->st.st_ino;
}

static int edit_read_whole_file(int fd, struct buf *ret)
{
	buf_clear(ret);
	for (;;) {
		ssize_t n;
		int r = buf_reserve(ret, KIB(64) < ret->max - ret->len ? KIB(64) : 1);

		if (r < 0)
			return r == -ENOBUFS ? -EFBIG : r;
		n = pread(fd, ret->data + ret->len,
			  KIB(64) < ret->max - ret->len ? KIB(64) : ret->max - ret->len,
			  (off_t)ret->len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		ret->len += (size_t)n;
		ret->data[ret->len] = '\0';
	}
}

/* Whether a writer without the lock has changed it since.  Times alone do not show it: two
 * writes within a clock tick have the same one. */
static int edit_target_is_unchanged(const struct edit_target *t, const struct buf *read)
{
	auto_buf now = BUF_INIT(read->max);
	int r;

	if (!edit_target_is_in_place(t))
		return 0;
	r = edit_read_whole_file(t->fd, &now);
	if (r == -EFBIG)
		return 0;
	if (r < 0)
		return r;
	return slice_eq((struct slice){ now.data, now.len },
			(struct slice){ read->data, read->len });
}

/* The new text beside the old, with its mode and owner. */
static int edit_target_write_tmpfile(const struct edit_request *ask, struct edit_target *t,
				     const struct buf *text, struct cay_err *err)
{
	int fd = tmpfile_open(&t->tmpfile, t->dirfd), r;

	if (fd < 0)
		return file_fail(err, -fd, "write beside", ask->path);
	if ((t->st.st_uid != geteuid() || t->st.st_gid != getegid()) &&
	    fchown(fd, t->st.st_uid, t->st.st_gid) < 0)
		return file_fail(err, errno, "keep the owner of", ask->path);
	/* setuid and setgid applied to the old bytes: a write clears them */
	if (fchmod(fd, t->st.st_mode & 01777) < 0)
		return file_fail(err, errno, "keep the mode of", ask->path);
	r = fd_write_all(fd, text->data, text->len);
	return r < 0 ? file_fail(err, -r, "write beside", ask->path) : 0;
}

static int edit_check_old_hash(const struct edit_request *ask, const struct buf *text,
			       struct cay_err *err)
{
	uint8_t is[EDIT_HASH_LEN];

	if (!ask->if_hash)
		return 0;
	if (ask->hash(buf_str(text), text->len, is) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "cannot hash it");
	if (memcmp(is, ask->if_hash, sizeof(is)) != 0)
		return cay_fail_field(err, CAY_E_CONFLICT, "if_sha256",
				      "the file has changed; read it again");
	return 0;
}

static int edit_target_apply(const struct edit_request *ask, struct edit_target *t,
			     struct edit_result *ret, struct cay_err *err)
{
	int r = edit_read_whole_file(t->fd, &ret->before);

	if (r < 0)
		return file_fail_read(err, -r, t->fd, ask->path);
	r = edit_check_old_hash(ask, &ret->before, err);
	if (r >= 0) {
		buf_clear(&ret->after);
		r = edit_apply((struct slice){ buf_str(&ret->before), ret->before.len }, ask->edits,
			       ask->n, &ret->after, &ret->count, err);
	}
	if (r >= 0 && ask->hash(buf_str(&ret->after), ret->after.len, ret->hash) < 0)
		r = cay_fail(err, CAY_E_INTERNAL, "cannot hash it");
	if (r < 0 || ask->dry_run)
		return r;
	r = edit_target_write_tmpfile(ask, t, &ret->after, err);
	if (r < 0)
		return r;
	if (ask->before_rename)
		ask->before_rename(ask->arg);
	r = edit_target_is_unchanged(t, &ret->before);
	if (r < 0)
		return file_fail(err, -r, "read", ask->path);
	if (r == 0)
		return AGAIN;
	r = tmpfile_commit(&t->tmpfile, t->name, TMPFILE_REPLACE);
	if (r < 0)
		return file_fail(err, -r, "replace", ask->path);
	(void)flock(t->fd, LOCK_UN); /* a process waiting for the old file's lock then sees that it
					was replaced */
	ret->old_fd = cay_take_fd(&t->fd);
	return 0;
}

/* One attempt: 0 if done, AGAIN if another writer came first. */
static int edit_file_try_once(const struct edit_request *ask, struct edit_result *ret,
			      struct cay_err *err)
{
	CAY_CLEANUP(edit_target_fini)
	struct edit_target t = { .dirfd = -EBADF, .fd = -EBADF, .tmpfile = TMPFILE_INIT };
	int r = edit_target_open(ask, &t, err);

	if (r != 0)
		return r;
	if (fstat(t.fd, &t.st) < 0)
		return file_fail(err, errno, "look at", ask->path);
	r = edit_target_check(ask, &t, err);
	if (r < 0)
		return r;
	if (flock(t.fd, LOCK_EX | LOCK_NB) < 0)
		return errno == EWOULDBLOCK || errno == EINTR
			       ? AGAIN
			       : file_fail(err, errno, "lock", ask->path);
	if (!edit_target_is_in_place(
		    &t)) /* replaced while we waited: this lock is of the old one */
		return AGAIN;
	return edit_target_apply(ask, &t, ret, err);
}

int edit_file(const struct edit_request *ask, struct edit_result *ret, struct cay_err *err)
{
	uint64_t end = clk_boot_ns(&clk_system) + WAIT_NS;
	int r;

	for (ret->tries = 1;; ret->tries++) {
		r = edit_file_try_once(ask, ret, err);
		if (r != AGAIN)
			return r;
		if (clk_boot_ns(&clk_system) > end)
			return cay_fail(
				err, CAY_E_CONFLICT,
				"it is being written or locked by another process again and again");
		(void)poll(NULL, 0, PAUSE_MS); /* a lock has no deadline to wait with */
	}
}

void edit_result_fini(struct edit_result *d)
{
	buf_fini(&d->before);
	buf_fini(&d->after);
	cay_closep(&d->old_fd);
}
