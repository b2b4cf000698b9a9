/* SPDX-License-Identifier: Apache-2.0 */
#include "file/path-at.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/str.h"
#include "text/base64.h"

#define SHOWN_MAX 120 /* of a path in a message */

int file_path_decode(const char *path, const char *path_b64, const char *field, struct arena *arena,
		     const char **ret, struct cay_err *err)
{
	auto_buf blamed = BUF_INIT(CAY_ERR_FIELD_MAX);
	size_t n = path_b64 ? strlen(path_b64) : 0, got = 0;
	char *bytes;

	if (!path == !path_b64)
		return cay_fail_field(err, CAY_E_INVALID, field, "give one of %s and %s_b64", field,
				      field);
	if (path) {
		*ret = path;
		return 0;
	}
	bytes = arena_alloc(arena, 1, BASE64_BYTES(n) + 1);
	if (!bytes || buf_printf(&blamed, "%s_b64", field) < 0)
		return cay_no_memory(err);
	if (base64_decode(path_b64, n, (uint8_t *)bytes, &got) < 0)
		return cay_fail_field(err, CAY_E_INVALID, buf_str(&blamed), "not base64");
	if (!got || got > FILE_PATH_MAX || memchr(bytes, 0, got))
		return cay_fail_field(err, CAY_E_INVALID, buf_str(&blamed), "not a path");
	bytes[got] = 0;
	*ret = bytes;
	return 0;
}

int file_path_encode(const char *name, struct arena *arena, const char **ret, const char **ret_b64)
{
	size_t n = strlen(name);
	char *text;

	*ret = *ret_b64 = NULL;
	if (utf8_is_valid(name, n)) {
		*ret = arena_strndup(arena, name, n);
		return *ret ? 0 : -ENOMEM;
	}
	text = arena_alloc(arena, 1, BASE64_TEXT(n) + 1);
	if (!text)
		return -ENOMEM;
	base64_encode((const uint8_t *)name, n, text);
	*ret_b64 = text;
	return 0;
}

int file_open(int dirfd, const char *path, int flags, mode_t mode)
{
	struct open_how how = { .flags = (unsigned)(flags | O_CLOEXEC),
				.mode = flags & (O_CREAT | __O_TMPFILE) ? mode : 0,
				.resolve = RESOLVE_NO_MAGICLINKS };
	long fd;

	if (!(flags & O_PATH))
		how.flags |= O_NONBLOCK | O_NOCTTY;
	do
		fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));
	while (fd < 0 && errno == EINTR);
	return fd < 0 ? -errno : (int)fd;
}

int file_open_regular(const char *path, struct stat *ret, int *ret_fd, struct cay_err *err)
{
	auto_close int fd = file_open(AT_FDCWD, path, O_RDONLY, 0);

	/* a socket, or a device without a driver */
	if (fd == -ENXIO || fd == -ENODEV)
		return cay_fail_field(err, CAY_E_INVALID, "path", "not a regular file");
	if (fd < 0)
		return file_fail_lookup(err, -fd, path);
	if (fstat(fd, ret) < 0)
		return file_fail(err, errno, "look at", path);
	if (S_ISDIR(ret->st_mode))
		return cay_fail_field(err, CAY_E_INVALID, "path", "it is a directory");
	if (!S_ISREG(ret->st_mode))
		return cay_fail_field(err, CAY_E_INVALID, "path", "not a regular file");
	*ret_fd = cay_take_fd(&fd);
	return 0;
}

/* Places */

void path_at_fini(const struct path_at *at)
{
	if (at->dir >= 0)
		(void)close(at->dir);
}

/* Start of the last component, without trailing slashes; returns its length. */
static size_t path_last_component(const char *path, size_t *ret_at)
{
	size_t n = strlen(path), at;

	while (n && path[n - 1] == '/')
		n--;
	at = n;
	while (at && path[at - 1] != '/')
		at--;
	*ret_at = at;
	return n - at;
}

int path_at_open(const char *path, bool parents, struct path_at *ret, struct cay_err *err)
{
	return path_at_open_from(AT_FDCWD, path, parents, ret, err);
}

int path_at_open_from(int dirfd, const char *path, bool parents, struct path_at *ret,
		      struct cay_err *err)
{
	char above[FILE_PATH_MAX + 1];
	size_t at, n = path_last_component(path, &at);
	int fd, r;

	if (!n || (n == 1 && path[at] == '.') || (n == 2 && memcmp(path + at, "..", 2) == 0))
		return cay_fail_field(err, CAY_E_INVALID, "path",
				      "it names no entry of a directory");
	if (n >= sizeof(ret->name) || at >= sizeof(above))
		return file_fail_lookup(err, ENAMETOOLONG, path);
	memcpy(ret->name, path + at, n);
	ret->name[n] = 0;
	memcpy(above, at ? path : ".", at ? at : 1);
	above[at ? at : 1] = 0;
	fd = file_open(dirfd, above, O_PATH | O_DIRECTORY, 0);
	if (fd == -ENOENT && parents) {
		r = file_mkdir_parents(dirfd, above, 0777, err);
		if (r < 0)
			return r;
		fd = file_open(dirfd, above, O_PATH | O_DIRECTORY, 0);
	}
	if (fd < 0)
		return file_fail_lookup(err, -fd, path);
	ret->dir = fd;
	return 0;
}

/* Descend one component; a missing directory is created, with the mode of all such. */
static int path_enter_dir(int *dir, const char *name, mode_t mode)
{
	int fd = file_open(*dir, name, O_PATH | O_DIRECTORY, 0);

	if (fd == -ENOENT) {
		if (mkdirat(*dir, name, mode) < 0 && errno != EEXIST)
			return -errno;
		fd = file_open(*dir, name, O_PATH | O_DIRECTORY, 0);
	}
	if (fd < 0)
		return fd;
	if (*dir >= 0)
		(void)close(*dir);
	*dir = fd;
	return 0;
}

int file_mkdir_parents(int dirfd, const char *path, mode_t mode, struct cay_err *err)
{
	char name[256];
	struct slice rest = slice_of(path);
	auto_close int dir = file_open(dirfd, path[0] == '/' ? "/" : ".", O_PATH | O_DIRECTORY, 0);
	int r = dir;

	while (r >= 0 && rest.p) {
		struct slice s = slice_cut(&rest, '/');

		if (!s.n)
			continue;
		if (s.n >= sizeof(name)) {
			r = -ENAMETOOLONG;
			break;
		}
		memcpy(name, s.p, s.n);
		name[s.n] = 0;
		r = path_enter_dir(&dir, name, mode);
	}
	return r < 0 ? file_fail(err, -r, "make the directory", path) : 0;
}

/* Errors */

/* The errors a user can act on. */
static const struct {
	int errnum;
	enum cay_code code;
	const char *text;
	const char *hint; /* or NULL: that of the code */
} file_errno_rows[] = {
	{ ENOENT, CAY_E_NOT_FOUND, "there is no such file, or this user cannot reach it" },
	{ ELOOP, CAY_E_NOT_FOUND, "its links lead nowhere" },
	{ ENOTDIR, CAY_E_NOT_FOUND, "there is no such file, or this user cannot reach it" },
	{ EACCES, CAY_E_FORBIDDEN, "this user may not", FILE_HINT_PERMISSION },
	{ EPERM, CAY_E_FORBIDDEN, "this user may not", FILE_HINT_PERMISSION },
	{ EROFS, CAY_E_FORBIDDEN, "the file system is read-only", FILE_HINT_PERMISSION },
	{ EEXIST, CAY_E_CONFLICT, "it is there already" },
	{ ENOTEMPTY, CAY_E_CONFLICT, "the directory is not empty" },
	{ EISDIR, CAY_E_CONFLICT, "it is a directory" },
	{ EBUSY, CAY_E_CONFLICT, "something is mounted there, or uses it" },
	{ ETXTBSY, CAY_E_CONFLICT, "it is a running program" },
	{ EXDEV, CAY_E_UNSUPPORTED, "the two are on different file systems: copy, then delete" },
	{ EOPNOTSUPP, CAY_E_UNSUPPORTED, "the file system cannot" },
	{ ENOSPC, CAY_E_DISK_FULL, "no space is left" },
	{ EDQUOT, CAY_E_DISK_FULL, "no space is left" },
	{ EFBIG, CAY_E_TOO_LARGE, "larger than a file may be" },
	{ E2BIG, CAY_E_TOO_LARGE, "too many directories below each other" },
	{ ENOMEM, CAY_E_NO_MEMORY, "no memory" },
	{ EMFILE, CAY_E_LIMIT, "too many open files" },
	{ ENFILE, CAY_E_LIMIT, "too many open files" },
	{ EMLINK, CAY_E_LIMIT, "too many links" },
	{ ENAMETOOLONG, CAY_E_INVALID, "the name is too long" },
	{ EINVAL, CAY_E_INVALID, "that cannot be done" },
	{ EILSEQ, CAY_E_INVALID, "the file system does not take such a name" },
};

int file_fail(struct cay_err *err, int errnum, const char *what, const char *path)
{
	size_t n = utf8_whole_prefix_len(path, strnlen(path, SHOWN_MAX));
	enum cay_code code = CAY_E_UNAVAILABLE; /* a disk that fails is the sandbox's own trouble */
	const char *text = strerror(errnum), *hint = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(file_errno_rows); i++)
		if (file_errno_rows[i].errnum == errnum) {
			code = file_errno_rows[i].code;
			text = file_errno_rows[i].text;
			hint = file_errno_rows[i].hint;
		}
	if (!utf8_is_valid(path, n))
		n = 0;
	(void)cay_fail(err, code, "%s '%.*s': %s", what, (int)n, path, text);
	if (hint)
		cay_err_hint(err, "%s", hint);
	return -errnum;
}

/* /proc/self/mem where nothing is mapped, or a file about a process that is gone: their
 * content is generated on read, and there is none. */
int file_fail_read(struct cay_err *err, int errnum, int fd, const char *path)
{
	static const int none[] = { EIO, ESRCH, EINVAL, ENXIO, ENODEV, EFAULT, ENODATA };
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(none); i++)
		if (none[i] == errnum && fstat(fd, &st) >= 0 && !st.st_size) {
			(void)cay_fail_field(err, CAY_E_INVALID, "path",
					     "a special file that cannot be read so: %s",
					     strerror(errnum));
			return -errnum;
		}
	return file_fail(err, errnum, "read", path);
}

int file_fail_lookup(struct cay_err *err, int errnum, const char *path)
{
	if (errnum == ENAMETOOLONG || errnum == ENOMEM || errnum == EMFILE || errnum == ENFILE ||
	    errnum == EIO)
		return file_fail(err, errnum, "look up", path);
	(void)cay_fail_field(err, CAY_E_NOT_FOUND, "path",
			     "there is no such file, or this user cannot reach it");
	return -ENOENT;
}

int file_mode_parse(const char *text, mode_t *ret)
{
	size_t n = strlen(text);
	mode_t v = 0;

	if (n < 3 || n > 4)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (text[i] < '0' || text[i] > '7')
			return -EINVAL;
		v = v << 3 | (mode_t)(text[i] - '0');
	}
	*ret = v;
	return 0;
}
