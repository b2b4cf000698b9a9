/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_IMAGE_PULLER_LINK_H
#define CAY_CAYD_IMAGE_PULLER_LINK_H
/*
 * puller-link - a connection to cay-pull, for one pull (wire/puller.h)
 *
 * Both never wait.  Replies are untrusted.
 */
#include "cayd/core/cayd.h"
#include "wire/puller.h"

/* Ask for an image with the credentials given, or (NULL) those of its owner.  The connection, which
 * the caller polls and closes; CAY_E_UNAVAILABLE when cay-pull does not run. */
[[nodiscard]] int puller_link_open(const struct cayd *c, const char *reference,
				   const struct id *owner, const struct registry_auth *given,
				   struct cay_err *err);
/* -EAGAIN: none yet; other errors: the pull is over.  *ret_fd is the caller's, of PULLER_DONE. */
[[nodiscard]] int puller_link_receive(int conn, struct puller_reply *ret, int *ret_fd);
#endif
