/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/observe/webhook.h"

#include "cayd/egress/egress-link.h"

void webhook_send_ask(struct cayd *c, const struct id *tenant, const struct ask_info *ask,
		      bool answered)
{
	auto_buf text = BUF_INIT(EGRESS_EVENT_MAX);
	char id[ID_TEXT_LEN + 1], at[CLK_TEXT_LEN + 1];
	struct jw w = jw_to(&text);

	if (!c->settings.webhook_url[0])
		return;
	id_format(tenant, id);
	clk_format_rfc3339(clk_wall_ns(c->clk), at);
	jw_object_begin(&w, NULL);
	jw_str(&w, "type", answered ? "egress.answered" : "egress.asked");
	jw_str(&w, "timestamp", at);
	jw_str(&w, "tenant", id);
	field_encode(&ask_info_table, "data", ask, &w);
	jw_end(&w);
	if (jw_finish(&w) < 0 || !egress_link_send_event(c, (struct slice){ text.data, text.len }))
		log_warn(&c->log, "an event for the webhook was dropped");
}
