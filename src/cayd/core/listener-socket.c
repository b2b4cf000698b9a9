/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/core/listener-socket.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

int listener_socket_create(const struct cayd *c, const char *name, mode_t mode, struct cay_err *err)
{
	auto_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", c->settings.run_dir, name);

	if (fd < 0 || n < 0 || n >= (int)sizeof(at.sun_path))
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create the socket %s", name);
	(void)unlink(at.sun_path);
	/* never more open than `mode`: the umask is 077 */
	if (fchmod(fd, 0600) < 0 || bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    chmod(at.sun_path, mode) < 0 || listen(fd, 512) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "listen at %s", at.sun_path);
	return cay_take_fd(&fd);
}
