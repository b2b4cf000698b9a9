/* SPDX-License-Identifier: Apache-2.0 */
/*
 * count - what each sandbox uses, and all of them together
 *
 * A sandbox whose counts may have changed is in a list.  Once a second the list is read and cayd
 * gets those that differ from its own.  Sandboxes without connections cost nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "egress/egress.h"

#define COUNT_MS 1000
#define COUNT_SOON_MS 20 /* when one message has no room for all */

struct counter {
	struct egress *egress;
	uv_timer_t timer;
	struct egress_node_counts node, sent;
	struct egress_sandbox *first, *last;
	size_t n_listed;
	struct {
		struct egress_message head;
		struct egress_node_counts node;
		struct egress_counts_row rows[EGRESS_COUNTS_ROWS_MAX];
	} out;
	struct egress_sandbox *of_rows[EGRESS_COUNTS_ROWS_MAX];
};

/* Reasons that are no verdict about the connection; others are denials. */
static const char *const failure_reasons[] = {
	"client_left",       "connect_failed", "cut_by_request",     "hello_timeout",
	"log_unavailable",   "no_address",     "no_memory",          "resolve_failed",
	"resolver_busy",     "sandbox_ended",  "broker_unavailable", "ca_not_trusted",
	"no_certificate",    "no_handshake",   "proxy_closed",       "proxy_connect_failed",
	"proxy_denied",      "proxy_login",    "proxy_malformed",    "proxy_timeout",
	"proxy_unreachable", "nobody_to_ask",  "not_answered",       "peer_absent",
	"peer_unreachable",  "peer_timeout",
};

static void counter_unlist(struct counter *c, struct egress_sandbox *sb)
{
	*(sb->count.prev ? &sb->count.prev->count.next : &c->first) = sb->count.next;
	*(sb->count.next ? &sb->count.next->count.prev : &c->last) = sb->count.prev;
	sb->count.prev = sb->count.next = NULL;
	sb->count.listed = false;
	c->n_listed--;
}

static void counter_list(struct counter *c, struct egress_sandbox *sb)
{
	sb->count.prev = c->last;
	*(c->last ? &c->last->count.next : &c->first) = sb;
	c->last = sb;
	sb->count.listed = true;
	c->n_listed++;
}

struct egress_counts egress_sandbox_get_counts(const struct egress_sandbox *sb)
{
	struct egress_counts now = sb->count.ended;
	uint64_t up, down;

	now.open = sb->n_flows;
	for (const struct flow *f = sb->flows; f; f = flow_next(f)) {
		flow_get_moved(f, &up, &down);
		now.up += up;
		now.down += down;
	}
	return now;
}

/* Give the node what was used since the last time. */
static struct egress_counts egress_sandbox_counts_settle(struct egress_sandbox *sb)
{
	const struct egress_counts now = egress_sandbox_get_counts(sb), *was = &sb->count.settled;
	struct egress_counts *all = &sb->egress->counter->node.all;

	all->connected += now.connected - was->connected;
	all->denied += now.denied - was->denied;
	all->failed += now.failed - was->failed;
	all->limited += now.limited - was->limited;
	all->names_denied += now.names_denied - was->names_denied;
	all->up += now.up - was->up;
	all->down += now.down - was->down;
	sb->count.settled = now;
	return now;
}

/* Those of the first sandboxes of the list that cayd does not have; they go to its end. */
static size_t counter_write_rows(struct counter *c)
{
	size_t n = 0;

	for (size_t left = c->n_listed; c->first && left && n < EGRESS_COUNTS_ROWS_MAX; left--) {
		struct egress_sandbox *sb = c->first;
		struct egress_counts now = egress_sandbox_counts_settle(sb);

		counter_unlist(c, sb);
		if (memcmp(&now, &sb->count.sent, sizeof(now)) != 0) {
			c->out.rows[n] = (struct egress_counts_row){ sb->id, now };
			c->of_rows[n++] = sb;
		} else if (!now.open) {
			continue;
		}
		counter_list(c, sb);
	}
	return n;
}

static void on_counter_timer(uv_timer_t *t);

static void counter_start(struct counter *c, uint64_t ms)
{
	if (!uv_is_active((const uv_handle_t *)&c->timer))
		(void)uv_timer_start(&c->timer, on_counter_timer, ms, 0);
}

static bool counter_node_is_sent(const struct counter *c)
{
	return memcmp(&c->node, &c->sent, sizeof(c->node)) == 0;
}

/* What cayd did not read is sent the next time. */
static void on_counter_timer(uv_timer_t *t)
{
	struct counter *c = t->data;
	const size_t n = counter_write_rows(c);
	const size_t head = sizeof(c->out.head) + sizeof(c->out.node);

	c->node.all.open = c->egress->n_flows;
	c->out.head = egress_message_init(EGRESS_MSG_COUNTS, NULL, 0);
	c->out.node = c->node;
	if ((n || !counter_node_is_sent(c)) &&
	    feed_push(c->egress, &c->out, head + n * sizeof(c->out.rows[0]))) {
		for (size_t i = 0; i < n; i++)
			c->of_rows[i]->count.sent = c->out.rows[i].counts;
		c->sent = c->node;
	}
	if (c->first || !counter_node_is_sent(c))
		counter_start(c, n == EGRESS_COUNTS_ROWS_MAX && c->n_listed > n ? COUNT_SOON_MS
										: COUNT_MS);
}

void counter_send_again(struct egress *e)
{
	e->counter->sent = (struct egress_node_counts){};
	counter_start(e->counter, COUNT_SOON_MS);
}

void egress_sandbox_counts_changed(struct egress_sandbox *sb)
{
	struct counter *c = sb->egress->counter;

	if (sb->gone || sb->count.listed)
		return;
	counter_list(c, sb);
	counter_start(c, COUNT_MS);
}

bool reason_is_failure(const char *why)
{
	for (size_t i = 0; i < ARRAY_SIZE(failure_reasons); i++)
		if (strcmp(why, failure_reasons[i]) == 0)
			return true;
	return false;
}

void egress_sandbox_count_refusal(struct egress_sandbox *sb, const char *why)
{
	struct egress_counts *to = &sb->count.ended;

	if (strcmp(why, "too_many") == 0 || strcmp(why, "too_many_ask") == 0 ||
	    strcmp(why, "used_up") == 0)
		to->limited++;
	else if (reason_is_failure(why))
		to->failed++;
	else
		to->denied++;
	egress_sandbox_counts_changed(sb);
}

void egress_sandbox_set_counts(struct egress_sandbox *sb, const struct egress_counts *base)
{
	sb->count.ended = (struct egress_counts){};
	egress_counts_raise(&sb->count.ended, base);
	sb->count.ended.open = 0;
	sb->count.settled = sb->count.ended;
}

void egress_sandbox_counts_send(struct egress_sandbox *sb)
{
	struct counter *c = sb->egress->counter;
	struct egress_counts now = egress_sandbox_counts_settle(sb);

	now.open = 0;
	c->node.all.open = c->egress->n_flows;
	c->out.head = egress_message_init(EGRESS_MSG_COUNTS, NULL, 0);
	c->out.node = c->node;
	c->out.rows[0] = (struct egress_counts_row){ sb->id, now };
	(void)feed_push(c->egress, &c->out,
			sizeof(c->out.head) + sizeof(c->out.node) + sizeof(c->out.rows[0]));
}

void egress_sandbox_counts_end(struct egress_sandbox *sb)
{
	if (sb->count.listed)
		counter_unlist(sb->egress->counter, sb);
	(void)egress_sandbox_counts_settle(sb);
	counter_start(sb->egress->counter, COUNT_MS);
}

int counter_open(struct egress *e, struct cay_err *err)
{
	struct counter *c = calloc(1, sizeof(*c));

	if (!c)
		return cay_no_memory(err);
	static_assert(offsetof(struct counter, out.rows) - offsetof(struct counter, out) ==
		      sizeof(c->out.head) + sizeof(c->out.node));
	c->egress = e;
	c->node.instance = clk_boot_ns(e->clk);
	c->timer.data = c;
	e->counter = c;
	return uv_timer_init(&e->loop, &c->timer) < 0 ? cay_no_memory(err) : 0;
}
