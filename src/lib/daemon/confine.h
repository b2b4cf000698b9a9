/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DAEMON_CONFINE_H
#define CAY_DAEMON_CONFINE_H
/*
 * confine - restrict a daemon that handles untrusted input, once it serves
 *
 * It can use the sockets it has, accept more, and dial unix sockets.  It cannot open a file,
 * start a program or a thread, or make memory executable.  An exploited parser reaches nothing
 * but the data that passes through.
 */
#include "base/err.h"

/* Call before the loop is created: libuv opens an io_uring, which bypasses the filter. */
[[nodiscard]] int confine_deny_io_uring(struct cay_err *err);
/* Irreversible. */
[[nodiscard]] int confine_daemon(struct cay_err *err);
/* The same for a daemon that also connects to other hosts. */
[[nodiscard]] int confine_dialling_daemon(struct cay_err *err);
/* A thread of such a daemon that writes files below a directory.  The filters above are for the
 * thread that calls them: one that exists already has none. */
[[nodiscard]] int confine_log_writer(int dirfd);
#endif
