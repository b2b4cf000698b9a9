/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/stop.h"

#include <signal.h>

#include "base/clock.h"
#include "base/mem.h"

#define DRAIN_MS 5000
#define LOOK_MS 50

static void on_daemon_stop_timer(uv_timer_t *t)
{
	struct daemon_stop *s = t->data;
	unsigned left = s->count_open(s->arg);

	if (left && clk_boot_ns(&clk_system) < s->until_ns)
		return;
	if (left)
		log_info(s->log, "%u connections are cut; streams go on by offset", left);
	uv_stop(s->loop);
}

static void on_daemon_stop_signal(uv_signal_t *sig, int number)
{
	struct daemon_stop *s = sig->data;

	if (s->until_ns) {
		uv_stop(s->loop);
		return;
	}
	log_info(s->log, "signal %d: no new requests", number);
	s->until_ns = clk_boot_ns(&clk_system) + DRAIN_MS * NS_PER_MS;
	s->drain(s->arg);
	(void)uv_timer_start(&s->timer, on_daemon_stop_timer, 0, LOOK_MS);
}

void daemon_stop_on_signals(struct daemon_stop *s)
{
	static const int numbers[ARRAY_SIZE(s->signals)] = { SIGTERM, SIGINT };

	(void)uv_timer_init(s->loop, &s->timer);
	s->timer.data = s;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		(void)uv_signal_init(s->loop, &s->signals[i]);
		s->signals[i].data = s;
		(void)uv_signal_start(&s->signals[i], on_daemon_stop_signal, numbers[i]);
	}
}
