/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_DIAL_H
#define CAY_NET_DIAL_H
/*
 * dial - connect to a unix socket whose owner is not trusted
 *
 * A peer may send fds along with its bytes.  We never take them, so the kernel closes them
 * during our read: a socket with SO_LINGER then blocks the whole loop for as long as its
 * sender chose.  Linux 6.16 can refuse them.
 */
#include <uv.h>

#include "base/mem.h"

/* pipe is initialised and has no fd yet; cb is called from the loop unless this fails (UV_*). */
[[nodiscard]] int dial_unix_async(uv_pipe_t *pipe, const char *path, uv_connect_t *req,
				  uv_connect_cb cb);
/* A connected fd, or -errno.  Does not block: a unix socket accepts at once or not at all. */
[[nodiscard]] int dial_unix_connect(const char *path);
#endif
