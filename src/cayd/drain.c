/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/drain.h"

#include "cayd/box.h"
#include "prog/prog.h"

#define LOOK_MS 20

bool drain_wanted(struct cayd *c)
{
	static struct settings now;
	struct cay_err err = {};

	if (prog_settings(c->argc, c->argv, &now, &err) == 0)
		return now.drain;
	log_error(&c->log, "stopping as the settings said before: %s", err.msg);
	return c->settings.drain;
}

static void on_look(uv_timer_t *t)
{
	struct cayd *c = t->data;
	unsigned left = boxes_live(c->boxes);

	if (left && clk_boot_ns(c->clk) < c->drain_ns)
		return;
	if (left)
		log_error(&c->log, "%u sandboxes are not removed yet: the next start goes on",
			  left);
	uv_stop(&c->loop);
}

void drain_start(struct cayd *c)
{
	log_info(&c->log, "ending %u sandboxes", boxes_live(c->boxes));
	c->drain_ns = clk_boot_ns(c->clk) + DRAIN_MS * NS_PER_MS;
	for (struct box *b = boxes_newest(c->boxes); b; b = b->older)
		box_end(b, END_EVICTED, "the node is drained");
	(void)uv_timer_init(&c->loop, &c->drain);
	c->drain.data = c;
	(void)uv_timer_start(&c->drain, on_look, LOOK_MS, LOOK_MS);
}
