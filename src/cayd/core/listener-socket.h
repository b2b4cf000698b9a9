/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CORE_LISTENER_SOCKET_H
#define CAY_CAYD_CORE_LISTENER_SOCKET_H
/* listener-socket - a listening unix socket below paths.run */
#include "cayd/core/cayd.h"

/* The fd.  A socket of this name that an earlier cayd left is replaced. */
[[nodiscard]] int listener_socket_create(const struct cayd *c, const char *name, mode_t mode,
					 struct cay_err *err);
#endif
