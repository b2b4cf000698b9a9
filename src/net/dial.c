/* SPDX-License-Identifier: Apache-2.0 */
#include "net/dial.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/msg.h"

int dial(uv_pipe_t *pipe, const char *path, uv_connect_t *req, uv_connect_cb cb)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int r;

	if (fd < 0)
		return -errno;
	msg_refuse_fds(fd);
	r = uv_pipe_open(pipe, fd);
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	/* a unix socket answers at once or not at all; libuv tells it from the loop */
	return uv_pipe_connect2(req, pipe, path, strlen(path), UV_PIPE_NO_TRUNCATE, cb);
}
