/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_SEQPACKET_H
#define CAY_BASE_SEQPACKET_H
/* seqpacket - messages with fds over a unix socket */
#include "base/mem.h"

#define SEQPACKET_FDS_MAX 4

/* A socket that does not wait, connected to the one of this name in dir.  -EAGAIN: its queue is
 * full. */
[[nodiscard]] int seqpacket_connect(const char *dir, const char *name);
/* fd < 0: none.  It stays the caller's.  Waits as the socket does, never raises SIGPIPE. */
[[nodiscard]] int seqpacket_send(int sock, const void *p, size_t n, int fd);
/* Never waits.  How many bytes, 0 at the end, -EAGAIN when there is nothing, -errno.  *ret_n_fds
 * is how many fds came; the first is *ret_fd and the caller's, others are closed.
 * A message that did not fit has UINT_MAX of them, so that no reader takes it. */
[[nodiscard]] ssize_t seqpacket_receive(int sock, void *p, size_t max, int *ret_fd,
					unsigned *ret_n_fds);

/* The same for up to SEQPACKET_FDS_MAX fds.  Of those that come, ret_fds has the first max, which
 * are the caller's; the others of ret_fds are -EBADF. */
[[nodiscard]] int seqpacket_send_fds(int sock, const void *p, size_t n, const int *fds,
				     unsigned n_fds);
[[nodiscard]] ssize_t seqpacket_receive_fds(int sock, void *p, size_t max, int *ret_fds,
					    unsigned max_fds, unsigned *ret_n_fds);

/* A peer that sends fds over this connection gets EPERM (Linux 6.16; earlier kernels deliver
 * them and they are closed unread). */
void seqpacket_refuse_fds(int sock);
#endif
