/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/stop.h"

#define DRAIN_MS 5000
#define LOOK_MS 50

struct daemon_stop {
	uv_loop_t *loop;
	struct log *log;
	void (*drain)(void *arg);
	unsigned (*count_open)(const void *arg);
	void *arg;
	uv_signal_t signals[2];
	uv_timer_t timer;
	uint64_t until_ns;
};

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

void daemon_stop_on_signals(uv_loop_t *loop, struct log *log, void (*drain)(void *arg),
			    unsigned (*count_open)(const void *arg), void *arg)
{
	static const int numbers[] = { SIGTERM, SIGINT };
	static struct daemon_stop stop;

	stop = (struct daemon_stop){ loop, log, drain, count_open, arg };
	(void)uv_timer_init(loop, &stop.timer);
	stop.timer.data = &stop;
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		(void)uv_signal_init(loop, &stop.signals[i]);
		stop.signals[i].data = &stop;
		(void)uv_signal_start(&stop.signals[i], on_daemon_stop_signal, numbers[i]);
	}
}
