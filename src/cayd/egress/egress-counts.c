/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/egress/egress-counts.h"

#include "cayd/egress/egress-link.h"

struct egress_totals {
	struct egress_node_counts last;
	struct egress_counts before; /* of the instances before the last */
	struct egress_counts all;
};

int egress_counts_open(struct cayd *c, struct cay_err *err)
{
	c->egress_totals = calloc(1, sizeof(*c->egress_totals));
	return c->egress_totals ? 0 : cay_no_memory(err);
}

void egress_counts_receive_one(struct sandbox *sb, const struct egress_counts *now)
{
	egress_counts_raise(&sb->egress_counts.now, now);
	sb->egress_counts.known = sb->egress_counts.changed = true;
}

static void egress_totals_receive(struct egress_totals *t, const struct egress_node_counts *now)
{
	struct egress_counts sum = t->before;

	if (now->instance != t->last.instance) {
		sum = t->before = t->all;
		t->last = (struct egress_node_counts){ .instance = now->instance };
	}
	egress_counts_raise(&t->last.all, &now->all);
	sum.connected += t->last.all.connected;
	sum.denied += t->last.all.denied;
	sum.failed += t->last.all.failed;
	sum.limited += t->last.all.limited;
	sum.names_denied += t->last.all.names_denied;
	sum.up += t->last.all.up;
	sum.down += t->last.all.down;
	sum.open = t->last.all.open;
	egress_counts_raise(&t->all, &sum);
}

void egress_counts_receive(struct cayd *c, struct slice body)
{
	struct egress_node_counts node;

	memcpy(&node, body.p, sizeof(node));
	egress_totals_receive(c->egress_totals, &node);
	for (size_t i = 0; i < egress_counts_count_rows(body); i++) {
		struct egress_counts_row row = egress_counts_get_row(body, i);
		struct sandbox *sb = sandbox_find(c->sandboxes, &row.sandbox);

		/* the last ones of a run come after it was detached */
		if (sb && (egress_link_has(sb) || (sb->egress && life_is_at_rest(&sb->life))))
			egress_counts_receive_one(sb, &row.counts);
	}
}

void egress_counts_forget_open(struct cayd *c)
{
	for (struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older)
		sb->egress_counts.now.open = 0;
	c->egress_totals->all.open = 0;
}

const struct egress_counts *egress_counts_get_totals(const struct cayd *c)
{
	return &c->egress_totals->all;
}
