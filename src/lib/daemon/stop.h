/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DAEMON_STOP_H
#define CAY_DAEMON_STOP_H
/*
 * stop - end a daemon on a signal
 *
 * Accept nothing new, allow five seconds for open requests, then stop the loop.  A second
 * signal stops it at once.
 */
#include <uv.h>

#include "base/log.h"

/* For the one loop of the program.  drain: accept nothing new; count_open: open connections. */
void daemon_stop_on_signals(uv_loop_t *loop, struct log *log, void (*drain)(void *arg),
			    unsigned (*count_open)(const void *arg), void *arg);
#endif
