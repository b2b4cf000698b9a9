/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dial.h"

#include <sys/un.h>

#include "base/seqpacket.h"

static int dial_open_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	seqpacket_refuse_fds(fd);
	return fd;
}

int dial_unix_async(uv_pipe_t *pipe, const char *path, uv_connect_t *req, uv_connect_cb cb)
{
	int fd = dial_open_socket();
	int r;

	if (fd < 0)
		return fd;
	r = uv_pipe_open(pipe, fd);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	/* a unix socket accepts at once or not at all; libuv reports it from the loop */
	return uv_pipe_connect2(req, pipe, path, strlen(path), UV_PIPE_NO_TRUNCATE, cb);
}

int dial_unix_connect(const char *path)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	auto_close int fd = dial_open_socket();
	size_t n = strlen(path);

	if (fd < 0)
		return fd;
	if (n >= sizeof(to.sun_path))
		return -ENAMETOOLONG;
	memcpy(to.sun_path, path, n);
	if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	return cay_take_fd(&fd);
}
