/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/egress-message.h"

#include <errno.h>
#include <string.h>

#define COUNTS_MAX \
	(sizeof(struct egress_node_counts) + \
	 EGRESS_COUNTS_ROWS_MAX * sizeof(struct egress_counts_row))

#define FLOWS_MAX (EGRESS_FLOWS_MAX * sizeof(struct egress_flow_row))

#define LOG_MAX \
	(sizeof(struct egress_log_end) + EGRESS_LOG_ROWS_MAX * sizeof(struct egress_log_row))

#define LAYERS 5 /* of egress/policy.h */

/* A body of at least body_min bytes and at most body_max; what exceeds body_min is rows of
 * body_row bytes. */
static const struct {
	bool from_cayd, from_egress, has_sandbox, has_policy, may_have_fd;
	size_t body_min, body_row, body_max;
} egress_kinds[EGRESS_MSG_NUM] = {
	[EGRESS_MSG_HELLO] = { .from_cayd = true, .from_egress = true },
	[EGRESS_MSG_ALL] = { .from_cayd = true },
	[EGRESS_MSG_SANDBOX] = { .from_cayd = true,
				 .has_sandbox = true,
				 .has_policy = true,
				 .may_have_fd = true,
				 .body_min = sizeof(struct egress_counts) +
					     sizeof(struct egress_limits) + 1,
				 .body_row = 1,
				 .body_max = EGRESS_MESSAGE_MAX },
	[EGRESS_MSG_GONE] = { .from_cayd = true, .has_sandbox = true },
	[EGRESS_MSG_END] = { .from_cayd = true },
	[EGRESS_MSG_APPLIED] = { .from_egress = true,
				 .has_sandbox = true,
				 .body_min = sizeof(struct egress_counts),
				 .body_row = 1,
				 .body_max = sizeof(struct egress_counts) + EGRESS_CA_MAX },
	[EGRESS_MSG_REFUSED] = { .from_egress = true, .has_sandbox = true },
	[EGRESS_MSG_COUNTS] = { .from_egress = true,
				.body_min = sizeof(struct egress_node_counts),
				.body_row = sizeof(struct egress_counts_row),
				.body_max = COUNTS_MAX },
	[EGRESS_MSG_LIST_FLOWS] = { .from_cayd = true, .has_sandbox = true },
	[EGRESS_MSG_FLOWS] = { .from_egress = true,
			       .has_sandbox = true,
			       .body_row = sizeof(struct egress_flow_row),
			       .body_max = FLOWS_MAX },
	[EGRESS_MSG_CUT] = { .from_cayd = true,
			     .has_sandbox = true,
			     .body_min = sizeof(struct egress_cut),
			     .body_max = sizeof(struct egress_cut) },
	[EGRESS_MSG_CUT_DONE] = { .from_egress = true,
				  .has_sandbox = true,
				  .body_min = sizeof(uint64_t),
				  .body_max = sizeof(uint64_t) },
	[EGRESS_MSG_LIST_LOG] = { .from_cayd = true,
				  .has_sandbox = true,
				  .body_min = sizeof(struct egress_log_query),
				  .body_max = sizeof(struct egress_log_query) },
	[EGRESS_MSG_LOG] = { .from_egress = true,
			     .has_sandbox = true,
			     .body_min = sizeof(struct egress_log_end),
			     .body_row = sizeof(struct egress_log_row),
			     .body_max = LOG_MAX },
	[EGRESS_MSG_ASK] = { .from_egress = true,
			     .has_sandbox = true,
			     .body_min = sizeof(struct egress_ask),
			     .body_max = sizeof(struct egress_ask) },
	[EGRESS_MSG_ANSWER] = { .from_cayd = true,
				.has_sandbox = true,
				.body_min = sizeof(struct egress_answer),
				.body_max = sizeof(struct egress_answer) },
	[EGRESS_MSG_EVENT] = { .from_cayd = true,
			       .body_min = 1,
			       .body_row = 1,
			       .body_max = EGRESS_EVENT_MAX },
	[EGRESS_MSG_PEER] = { .from_egress = true,
			      .has_sandbox = true,
			      .body_min = sizeof(struct egress_peer),
			      .body_max = sizeof(struct egress_peer) },
	[EGRESS_MSG_PEER_DONE] = { .from_cayd = true,
				   .has_sandbox = true,
				   .may_have_fd = true,
				   .body_min = sizeof(struct egress_peer_done),
				   .body_max = sizeof(struct egress_peer_done) },
	[EGRESS_MSG_EXPOSE] = { .from_cayd = true,
				.has_sandbox = true,
				.body_min = sizeof(struct egress_exposed),
				.body_max = sizeof(struct egress_exposed) },
	[EGRESS_MSG_ANSWERED] = { .from_egress = true,
				  .has_sandbox = true,
				  .body_min = sizeof(uint64_t),
				  .body_max = sizeof(uint64_t) },
};
static_assert(sizeof(struct egress_message) + COUNTS_MAX <= EGRESS_MESSAGE_MAX);
static_assert(sizeof(struct egress_message) + FLOWS_MAX <= EGRESS_MESSAGE_MAX);
static_assert(sizeof(struct egress_message) + LOG_MAX <= EGRESS_MESSAGE_MAX);

struct egress_message egress_message_init(enum egress_kind kind, const struct id *sandbox,
					  uint64_t generation)
{
	struct egress_message m = { .magic = EGRESS_MAGIC,
				    .kind = (uint16_t)kind,
				    .number = kind == EGRESS_MSG_HELLO ? EGRESS_ABI : 0,
				    .generation = generation };

	if (sandbox)
		m.sandbox = *sandbox;
	return m;
}

static bool egress_id_is_zero(const struct id *id)
{
	static const struct id zero;

	return memcmp(id, &zero, sizeof(zero)) == 0;
}

static bool egress_body_has_size(enum egress_kind kind, size_t n)
{
	const size_t min = egress_kinds[kind].body_min, row = egress_kinds[kind].body_row;

	return n >= min && n <= egress_kinds[kind].body_max &&
	       (n == min || (row && (n - min) % row == 0));
}

/* Characters of host names, ended by 0. */
static bool egress_word_is_valid(const char *name, size_t size)
{
	size_t n = 0;

	while (n < size && name[n]) {
		const char c = name[n++];

		if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && c != '-' && c != '_' &&
		    c != '.')
			return false;
	}
	return n < size;
}

static bool egress_name_is_valid(const char name[static EGRESS_NAME_SIZE])
{
	return egress_word_is_valid(name, EGRESS_NAME_SIZE);
}

static bool egress_log_row_is_valid(const struct egress_log_row *row)
{
	return egress_name_is_valid(row->name) && egress_word_is_valid(row->op, sizeof(row->op)) &&
	       row->op[0] && egress_word_is_valid(row->outcome, sizeof(row->outcome)) &&
	       row->outcome[0] && row->layer < LAYERS && row->verdict < EGRESS_LOG_NUM;
}

static bool egress_log_is_valid(struct slice body)
{
	struct egress_log_end end;

	memcpy(&end, body.p, sizeof(end));
	for (size_t i = 0; i < egress_log_count_rows(body); i++) {
		const struct egress_log_row row = egress_log_get_row(body, i);

		if (!egress_log_row_is_valid(&row) || row.seq > end.next)
			return false;
	}
	return end.dropped <= 1 && end.next <= INT64_MAX;
}

static bool egress_log_query_is_valid(struct slice body)
{
	struct egress_log_query q;

	memcpy(&q, body.p, sizeof(q));
	return egress_name_is_valid(q.name) && q.verdict <= EGRESS_LOG_NUM && !q.zero[0] &&
	       !q.zero[1] && !q.zero[2];
}

static bool egress_limits_are_valid(struct slice body)
{
	struct egress_limits l;

	memcpy(&l, body.p + sizeof(struct egress_counts), sizeof(l));
	return l.flows && l.flows <= EGRESS_LIMIT_FLOWS_MAX && l.new_per_s &&
	       l.new_per_s <= EGRESS_LIMIT_NEW_PER_S_MAX;
}

static bool egress_peer_is_valid(struct slice body)
{
	struct egress_peer p;

	memcpy(&p, body.p, sizeof(p));
	return egress_name_is_valid(p.name) && p.name[0] && p.port && !p.zero[0] && !p.zero[1] &&
	       !p.zero[2];
}

static bool egress_peer_done_is_valid(struct slice body, unsigned n_fds)
{
	struct egress_peer_done d;

	memcpy(&d, body.p, sizeof(d));
	return d.outcome < EGRESS_PEER_NUM && !d.zero &&
	       n_fds == (d.outcome == EGRESS_PEER_CONNECTED) &&
	       (n_fds ? id_is_valid(&d.peer, ID_SANDBOX) : egress_id_is_zero(&d.peer));
}

static bool egress_exposed_is_valid(struct slice body)
{
	struct egress_exposed e;

	memcpy(&e, body.p, sizeof(e));
	if (e.n > EGRESS_EXPOSED_MAX || e.zero[0] || e.zero[1] || e.zero[2])
		return false;
	for (size_t i = 0; i < EGRESS_EXPOSED_MAX; i++)
		if (i < e.n ? !e.ports[i].from || e.ports[i].from > e.ports[i].to
			    : e.ports[i].from || e.ports[i].to)
			return false;
	return true;
}

bool egress_exposed_has(const struct egress_exposed *e, uint16_t port)
{
	for (size_t i = 0; i < e->n; i++)
		if (port >= e->ports[i].from && port <= e->ports[i].to)
			return true;
	return false;
}

static bool egress_body_is_valid(enum egress_kind kind, struct slice body, unsigned n_fds)
{
	struct egress_cut cut;
	struct egress_ask ask;
	struct egress_answer answer;

	if (kind == EGRESS_MSG_SANDBOX)
		return egress_limits_are_valid(body);
	if (kind == EGRESS_MSG_LOG)
		return egress_log_is_valid(body);
	if (kind == EGRESS_MSG_LIST_LOG)
		return egress_log_query_is_valid(body);
	if (kind == EGRESS_MSG_PEER)
		return egress_peer_is_valid(body);
	if (kind == EGRESS_MSG_PEER_DONE)
		return egress_peer_done_is_valid(body, n_fds);
	if (kind == EGRESS_MSG_EXPOSE)
		return egress_exposed_is_valid(body);
	if (kind == EGRESS_MSG_CUT) {
		memcpy(&cut, body.p, sizeof(cut));
		return egress_name_is_valid(cut.name) && !cut.zero && !(cut.name[0] && cut.address);
	}
	if (kind == EGRESS_MSG_ASK) {
		memcpy(&ask, body.p, sizeof(ask));
		return egress_name_is_valid(ask.name) && !(ask.name[0] && ask.address) &&
		       ask.event < EGRESS_ASK_NUM_EVENTS && ask.kind < EGRESS_KIND_NUM;
	}
	if (kind == EGRESS_MSG_ANSWER) {
		memcpy(&answer, body.p, sizeof(answer));
		return egress_name_is_valid(answer.name) && !(answer.name[0] && answer.address) &&
		       answer.verdict < EGRESS_ANSWER_NUM;
	}
	for (size_t i = 0; kind == EGRESS_MSG_FLOWS && i < egress_flows_count_rows(body); i++) {
		const struct egress_flow_row row = egress_flows_get_row(body, i);

		if (!egress_name_is_valid(row.name) || row.state >= EGRESS_FLOW_NUM_STATES ||
		    row.zero)
			return false;
	}
	return true;
}

int egress_message_check(const void *msg, size_t n, unsigned n_fds, bool from_cayd)
{
	struct egress_message m;
	bool policy;

	if (n < sizeof(m) || n > EGRESS_MESSAGE_MAX)
		return -EPROTO;
	memcpy(&m, msg, sizeof(m));
	if (m.magic != EGRESS_MAGIC || !m.kind || m.kind >= EGRESS_MSG_NUM ||
	    !(from_cayd ? egress_kinds[m.kind].from_cayd : egress_kinds[m.kind].from_egress))
		return -EPROTO;
	policy = egress_kinds[m.kind].has_policy;
	if (!egress_body_has_size(m.kind, n - sizeof(m)) ||
	    n_fds > egress_kinds[m.kind].may_have_fd ||
	    m.number != (m.kind == EGRESS_MSG_HELLO ? EGRESS_ABI : 0))
		return -EPROTO;
	if (egress_kinds[m.kind].has_sandbox ? !id_is_valid(&m.sandbox, ID_SANDBOX)
					     : !egress_id_is_zero(&m.sandbox) || m.generation)
		return -EPROTO;
	if (policy ? !id_is_valid(&m.tenant, ID_TENANT) || !m.generation
		   : !egress_id_is_zero(&m.tenant))
		return -EPROTO;
	return egress_body_is_valid(m.kind, egress_message_body(msg, n), n_fds) ? 0 : -EPROTO;
}

struct slice egress_message_body(const void *msg, size_t n)
{
	const char *p = msg;

	return (struct slice){ p + sizeof(struct egress_message),
			       n - sizeof(struct egress_message) };
}

size_t egress_counts_count_rows(struct slice body)
{
	return (body.n - sizeof(struct egress_node_counts)) / sizeof(struct egress_counts_row);
}

struct egress_counts_row egress_counts_get_row(struct slice body, size_t i)
{
	struct egress_counts_row row;

	memcpy(&row, body.p + sizeof(struct egress_node_counts) + i * sizeof(row), sizeof(row));
	return row;
}

size_t egress_flows_count_rows(struct slice body)
{
	return body.n / sizeof(struct egress_flow_row);
}

struct egress_flow_row egress_flows_get_row(struct slice body, size_t i)
{
	struct egress_flow_row row;

	memcpy(&row, body.p + i * sizeof(row), sizeof(row));
	return row;
}

size_t egress_log_count_rows(struct slice body)
{
	return (body.n - sizeof(struct egress_log_end)) / sizeof(struct egress_log_row);
}

struct egress_log_row egress_log_get_row(struct slice body, size_t i)
{
	struct egress_log_row row;

	memcpy(&row, body.p + sizeof(struct egress_log_end) + i * sizeof(row), sizeof(row));
	return row;
}

static void egress_count_raise(uint64_t *c, uint64_t now)
{
	const uint64_t most = INT64_MAX; /* of a reply's member */

	if (now > *c)
		*c = now < most ? now : most;
}

void egress_counts_raise(struct egress_counts *c, const struct egress_counts *now)
{
	c->open = 0;
	egress_count_raise(&c->open, now->open);
	egress_count_raise(&c->connected, now->connected);
	egress_count_raise(&c->denied, now->denied);
	egress_count_raise(&c->failed, now->failed);
	egress_count_raise(&c->limited, now->limited);
	egress_count_raise(&c->names_denied, now->names_denied);
	egress_count_raise(&c->up, now->up);
	egress_count_raise(&c->down, now->down);
}
