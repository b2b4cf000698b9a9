/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_SECCOMP_H
#define CAY_NET_SECCOMP_H
/*
 * confine - what a daemon that talks to strangers can still do once it serves
 *
 * It can talk on sockets it has, accept more, and dial unix sockets.  It can open no
 * file, start no program and no thread, and make no memory executable.  A bug in a
 * parser finds nothing here but what passes through.
 */
#include "base/err.h"

/* Before the loop is made: libuv asks for a ring (io_uring) whatever it is told, and a
 * ring is a way past the filter. */
[[nodiscard]] int confine_deny_io_uring(struct cay_err *err);
/* For good. */
[[nodiscard]] int confine_daemon(struct cay_err *err);
#endif
