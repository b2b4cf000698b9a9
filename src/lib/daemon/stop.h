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

struct daemon_stop {
	uv_loop_t *loop;
	struct log *log;
	void (*drain)(void *arg);                /* take nothing new */
	unsigned (*count_open)(const void *arg); /* connections that are open */
	void *arg;
	uv_signal_t signals[2];
	uv_timer_t timer;
	uint64_t until_ns;
};

/* The first five are the caller's to set; it lives as long as the loop. */
void daemon_stop_on_signals(struct daemon_stop *s);
#endif
