/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recent - the last decisions about each sandbox
 *
 * This process cannot read its log once it serves, so it remembers the last records: bytes that
 * grow as they are needed, up to RECENT_MAX for a sandbox.  When all sandboxes together have
 * RECENT_ALL_MAX none gets more than it has.  A sandbox about which nothing was decided takes no
 * memory.
 *
 * Numbers begin with the time of the first decision, so that those of a cay-egress that was
 * restarted are higher than those of the one before.
 */
#include <arpa/inet.h>
#include <string.h>

#include "egress/egress.h"

#define RECENT_MAX KIB(32)
#define RECENT_MIN KIB(1)
#define RECENT_ALL_MAX MIB(64)
#define SEQ_NS_BITS 14 /* a sandbox has fewer than one record in 16 us */

/* Followed by the name, the operation and the outcome, without ends. */
struct recent_row {
	uint64_t seq, time_ns, up, down, more;
	uint8_t address[EGRESS_ADDRESS_LEN];
	int32_t rule;
	uint16_t port;
	uint8_t layer, verdict, n_name, n_op, n_outcome;
};

static size_t recent_row_size(const struct recent_row *r)
{
	return sizeof(*r) + r->n_name + r->n_op + r->n_outcome;
}

static struct recent_row recent_get(const struct egress_sandbox *sb, size_t at)
{
	struct recent_row r;

	memcpy(&r, sb->recent.rows.data + at, sizeof(r));
	return r;
}

/* Drop the oldest rows, a quarter at a time. */
static void recent_make_room(struct egress_sandbox *sb, size_t n)
{
	struct buf *rows = &sb->recent.rows;
	size_t max = sb->egress->recent_bytes < RECENT_ALL_MAX ? RECENT_MAX
		     : rows->cap > RECENT_MIN                  ? rows->cap - 1
							       : RECENT_MIN;
	size_t drop = 0;

	if (rows->len + n <= max)
		return;
	while (drop < rows->len && rows->len - drop + n > max - max / 4) {
		struct recent_row r = recent_get(sb, drop);

		drop += recent_row_size(&r);
	}
	buf_consume(rows, drop);
}

static enum egress_log_verdict recent_verdict(const struct decision *d)
{
	if (strcmp(d->op, "connect") == 0 || strcmp(d->op, "closed") == 0)
		return EGRESS_LOG_ALLOW;
	return reason_is_failure(d->outcome) ? EGRESS_LOG_FAILED : EGRESS_LOG_DENY;
}

static bool text_is_name(const char *text)
{
	struct host_name name;

	return host_name_parse(slice_of(text), &name) == 0;
}

void recent_add(struct egress_sandbox *sb, const struct decision *d)
{
	static const struct egress_log_row room;
	struct buf *rows = &sb->recent.rows;
	const size_t cap = rows->cap;
	struct in_addr v4;
	const char *name = text_is_name(d->name) ? d->name : ""; /* else its address says it */
	struct recent_row r = { .time_ns = clk_wall_ns(sb->egress->clk),
				.up = d->up,
				.down = d->down,
				.more = d->more,
				.rule = d->verdict.rule,
				.port = d->port,
				.layer = (uint8_t)d->verdict.layer,
				.verdict = (uint8_t)recent_verdict(d) };

	if (!sb->recent.next) {
		sb->recent.first = sb->recent.next = r.time_ns >> SEQ_NS_BITS;
		*rows = BUF_INIT(RECENT_MAX);
	}
	r.seq = sb->recent.next++;
	r.n_name = (uint8_t)strnlen(name, sizeof(room.name) - 1);
	r.n_op = (uint8_t)strnlen(d->op, sizeof(room.op) - 1);
	r.n_outcome = (uint8_t)strnlen(d->outcome, sizeof(room.outcome) - 1);
	if (d->dialled)
		memcpy(r.address, d->dialled, sizeof(r.address));
	else if (inet_pton(AF_INET, d->name, &v4) == 1)
		address_from_v4(ntohl(v4.s_addr), r.address);
	recent_make_room(sb, recent_row_size(&r));
	if (buf_reserve(rows, recent_row_size(&r)) < 0)
		return; /* its number is missing from the list, and the log has it */
	sb->egress->recent_bytes += rows->cap - cap;
	(void)buf_append(rows, &r, sizeof(r));
	(void)buf_append(rows, name, r.n_name);
	(void)buf_append(rows, d->op, r.n_op);
	(void)buf_append(rows, d->outcome, r.n_outcome);
}

static void recent_write(const struct egress_sandbox *sb, size_t at, struct egress_log_row *ret)
{
	const struct recent_row r = recent_get(sb, at);
	const char *text = sb->recent.rows.data + at + sizeof(r);

	*ret = (struct egress_log_row){ .seq = r.seq,
					.time_ns = r.time_ns,
					.up = r.up,
					.down = r.down,
					.more = r.more,
					.rule = r.rule,
					.port = r.port,
					.layer = r.layer,
					.verdict = r.verdict };
	memcpy(ret->address, r.address, sizeof(ret->address));
	memcpy(ret->name, text, r.n_name);
	memcpy(ret->op, text + r.n_name, r.n_op);
	memcpy(ret->outcome, text + r.n_name + r.n_op, r.n_outcome);
}

static bool recent_matches(const struct egress_log_query *which, const struct egress_log_row *row)
{
	return row->seq > which->after &&
	       (which->verdict == EGRESS_LOG_NUM || which->verdict == row->verdict) &&
	       (!which->name[0] || strcmp(which->name, row->name) == 0);
}

size_t recent_list(const struct egress_sandbox *sb, const struct egress_log_query *which,
		   struct egress_log_row *ret, struct egress_log_end *ret_end)
{
	struct egress_log_query q = *which;
	size_t n = 0, at = 0;

	*ret_end = (struct egress_log_end){ .next = q.after };
	if (!sb || !sb->recent.next)
		return 0;
	if (q.after < sb->recent.first || q.after >= sb->recent.next) {
		ret_end->dropped = q.after && q.after != sb->recent.first - 1; /* of another */
		q.after = sb->recent.first - 1;
	}
	if (!sb->recent.rows.len || recent_get(sb, 0).seq > q.after + 1)
		ret_end->dropped |= q.after + 1 < sb->recent.next;
	ret_end->next = q.after;
	while (at < sb->recent.rows.len && n < EGRESS_LOG_ROWS_MAX) {
		const struct recent_row r = recent_get(sb, at);

		recent_write(sb, at, &ret[n]);
		if (recent_matches(&q, &ret[n]))
			n++;
		if (r.seq > ret_end->next)
			ret_end->next = r.seq;
		at += recent_row_size(&r);
	}
	return n;
}

void recent_fini(struct egress_sandbox *sb)
{
	sb->egress->recent_bytes -= sb->recent.rows.cap;
	buf_fini(&sb->recent.rows);
}
