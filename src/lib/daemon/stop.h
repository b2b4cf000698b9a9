/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_DAEMON_STOP_H
#define CAY_DAEMON_STOP_H
/*
 * stop - a daemon's end, asked for by a signal
 *
 * Nothing new, five seconds for what is here, then the loop stops.  Asked twice: at once.
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
