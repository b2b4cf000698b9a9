/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/drain.h"

#include "cayd/sandbox/sandbox.h"
#include "daemon/daemon.h"

#define LOOK_MS 20

bool drain_is_configured(struct cayd *c)
{
	static struct settings now;
	struct cay_err err = {};

	if (daemon_parse_options(c->argc, c->argv, &now, &err) == 0)
		return now.drain;
	log_error(&c->log, "cannot read the settings, using the previous ones: %s", err.msg);
	return c->settings.drain;
}

/* Sandboxes to end.  A stopped one has no process, and its files outlive the daemons. */
static unsigned drain_count_left(struct cayd *c)
{
	unsigned n = 0;

	for (const struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older)
		n += sb->life.state != SB_STOPPED && !life_is_finished(&sb->life);
	return n;
}

static void on_drain_timer(uv_timer_t *t)
{
	struct cayd *c = t->data;
	unsigned left = drain_count_left(c);

	if (left && clk_boot_ns(c->clk) < c->drain_ns)
		return;
	if (left)
		log_error(&c->log, "%u sandboxes are not removed yet; the next start continues",
			  left);
	uv_stop(&c->loop);
}

void drain_start(struct cayd *c)
{
	log_info(&c->log, "ending %u sandboxes", drain_count_left(c));
	c->drain_ns = clk_boot_ns(c->clk) + DRAIN_MS * NS_PER_MS;
	for (struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older)
		if (sb->life.state != SB_STOPPED && sb->life.state != SB_STOPPING)
			sandbox_end(sb, END_EVICTED, "the node is drained");
	(void)uv_timer_init(&c->loop, &c->drain);
	c->drain.data = c;
	(void)uv_timer_start(&c->drain, on_drain_timer, LOOK_MS, LOOK_MS);
}
