/* SPDX-License-Identifier: Apache-2.0 */
#include "base/seqpacket.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

int seqpacket_connect(const char *dir, const char *name)
{
	auto_close int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	int n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/%s", dir, name);

	if (fd < 0)
		return -errno;
	if (n < 0 || n >= (int)sizeof(at.sun_path))
		return -ENAMETOOLONG;
	if (connect(fd, (const struct sockaddr *)&at, sizeof(at)) < 0)
		return -errno;
	return cay_take_fd(&fd);
}

int seqpacket_send_fds(int sock, const void *p, size_t n, const int *fds, unsigned n_fds)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(SEQPACKET_FDS_MAX * sizeof(int))] = {};
	struct iovec iov = { (void *)(uintptr_t)p, n };
	struct msghdr h = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (n_fds > SEQPACKET_FDS_MAX)
		return -E2BIG;
	if (n_fds) {
		struct cmsghdr *c = (struct cmsghdr *)(void *)control;

		h.msg_control = control;
		h.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	return sendmsg(sock, &h, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

int seqpacket_send(int sock, const void *p, size_t n, int fd)
{
	return seqpacket_send_fds(sock, p, n, &fd, fd >= 0);
}

ssize_t seqpacket_receive_fds(int sock, void *p, size_t max, int *ret_fds, unsigned max_fds,
			      unsigned *ret_n_fds)
{
	alignas(struct cmsghdr) char control[CMSG_SPACE(SEQPACKET_FDS_MAX * sizeof(int))];
	struct iovec iov = { p, max };
	struct msghdr h = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(sock, &h, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	for (unsigned i = 0; i < max_fds; i++)
		ret_fds[i] = -EBADF;
	*ret_n_fds = 0;
	if (n < 0)
		return -errno;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c; c = CMSG_NXTHDR(&h, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (++*ret_n_fds <= max_fds)
				ret_fds[*ret_n_fds - 1] = fd;
			else
				cay_closep(&fd);
		}
	}
	if (h.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		*ret_n_fds = UINT_MAX;
	return n;
}

ssize_t seqpacket_receive(int sock, void *p, size_t max, int *ret_fd, unsigned *ret_n_fds)
{
	return seqpacket_receive_fds(sock, p, max, ret_fd, 1, ret_n_fds);
}

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

void seqpacket_refuse_fds(int sock)
{
	(void)setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &(int){ 0 }, sizeof(int));
}
