/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/control-peer.h"

#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "daemon/daemon.h"

int control_peer_find_user(const struct settings *s, const char *program, const char *setting,
			   uid_t *ret, struct cay_err *err)
{
	gid_t gid;
	int r = daemon_find_user("users.control", s->control_user, ret, &gid, err);

	if (r >= 0 && *ret == geteuid())
		return cay_fail(err, CAY_E_FORBIDDEN,
				"%s must not run as the user of cayd: start it as the one in %s",
				program, setting);
	return r;
}

int control_peer_listen(const struct settings *s, const char *path, int backlog,
			struct cay_err *err)
{
	auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", s->run_dir, path);

	if (fd < 0 || n < 0 || n >= (int)sizeof(at.sun_path))
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "create a socket");
	(void)unlink(at.sun_path);
	if (bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 ||
	    chmod(at.sun_path, 0660) < 0 || listen(fd, backlog) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "listen at %s", at.sun_path);
	return cay_take_fd(&fd);
}

bool control_peer_check(int conn, uid_t control)
{
	struct ucred peer = {};
	socklen_t n = sizeof(peer);

	return getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &peer, &n) == 0 && peer.uid == control;
}
