/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DAEMON_CONTROL_PEER_H
#define CAY_DAEMON_CONTROL_PEER_H
/*
 * control-peer - the socket of a daemon that serves cayd and no other program
 *
 * The daemon has a user of its own.  The keeper made the directory of its socket for that user, and
 * gives the socket the group of cayd; the user of each peer is checked as well.
 */
#include <sys/types.h>

#include "ops/settings.h"

/* The user of cayd.  CAY_E_FORBIDDEN when this process runs as that user: with it the daemon could
 * reach all that cayd can. */
[[nodiscard]] int control_peer_find_user(const struct settings *s, const char *program,
					 const char *setting, uid_t *ret, struct cay_err *err);
/* A SEQPACKET listener at this path below paths.run. */
[[nodiscard]] int control_peer_listen(const struct settings *s, const char *path, int backlog,
				      struct cay_err *err);
/* Whether an accepted connection is of that user. */
bool control_peer_check(int conn, uid_t control);
#endif
