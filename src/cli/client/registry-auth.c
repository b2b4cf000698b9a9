/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/client/registry-auth.h"

#include <fcntl.h>

#include "base/path.h"

#define LINE_MAX_BYTES (255 + 1 + 4096)

/* Up to the end of the line, the file or the buffer. */
static ssize_t registry_auth_read_line(int fd, char *ret, size_t size)
{
	size_t n = 0;

	while (n < size) {
		ssize_t got = read(fd, ret + n, size - n);

		if (got < 0)
			return -errno;
		n += (size_t)got;
		if (got == 0 || memchr(ret, '\n', n))
			break;
	}
	return (ssize_t)n;
}

int registry_auth_read(const char *path, struct arena *arena, struct registry_auth *ret,
		       struct cay_err *err)
{
	bool is_stdin = str_eq(path, "-");
	auto_close int file = is_stdin ? -EBADF : open(path, O_RDONLY | O_CLOEXEC);
	int fd = is_stdin ? STDIN_FILENO : file;
	char line[LINE_MAX_BYTES + 2];
	ssize_t n = fd < 0 ? -errno : registry_auth_read_line(fd, line, sizeof(line) - 1);
	char *colon;
	int r = 0;

	if (n < 0)
		return cay_fail_sys(err, CAY_E_INVALID, (int)-n, "read %s", path);
	line[n] = 0;
	line[strcspn(line, "\r\n")] = 0;
	colon = strchr(line, ':');
	if (!colon || colon == line || !colon[1] || strlen(line) > LINE_MAX_BYTES) {
		r = cay_fail(err, CAY_E_INVALID, "expected USER:PASSWORD as the first line of %s",
			     path);
	} else {
		ret->username = arena_strndup(arena, line, (size_t)(colon - line));
		ret->password = arena_strndup(arena, colon + 1, strlen(colon + 1));
		if (!ret->username || !ret->password)
			r = cay_no_memory(err);
	}
	explicit_bzero(line, sizeof(line));
	return r;
}
