/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_DIAL_H
#define CAY_NET_DIAL_H
/*
 * dial - connect to a stranger's unix socket
 *
 * A stranger may send fds along with its bytes.  Nobody takes them, so the kernel
 * closes them, in the middle of our read: a socket with SO_LINGER then holds up the
 * whole loop for as long as its sender likes.  Linux 6.16 refuses them for us.
 */
#include <uv.h>

#include "base/mem.h"

/* pipe is initialised and has no fd yet; cb is called from the loop, unless this
 * fails (UV_*). */
[[nodiscard]] int dial_unix_async(uv_pipe_t *pipe, const char *path, uv_connect_t *req,
				  uv_connect_cb cb);
/* The same at once: a connected fd, or -errno.  A unix socket is there or it is not. */
[[nodiscard]] int dial_unix_connect(const char *path);
#endif
