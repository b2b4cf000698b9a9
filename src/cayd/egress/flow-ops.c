/* SPDX-License-Identifier: Apache-2.0 */
/* flow-ops - operations on the open connections of a sandbox, which cay-egress has */
#include <arpa/inet.h>

#include "cayd/core/deferred-reply.h"
#include "cayd/core/handlers.h"
#include "cayd/egress/destination.h"
#include "cayd/egress/egress-link.h"
#include "cayd/egress/policy.h"

#define FLOWS_ARENA_MAX KIB(256)

/* A request that waits for cay-egress. */
struct flow_question {
	struct request *rq; /* NULL: the client left */
};

static int egress_flow_describe(const struct egress_flow_row *row, struct arena *arena,
				struct egress_flow *ret)
{
	static const uint8_t none[sizeof(row->address)];
	const bool v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)row->address);
	char address[INET6_ADDRSTRLEN];

	*ret = (struct egress_flow){ .port = row->port,
				     .state = row->state,
				     .since_ns = row->since_ns,
				     .up_bytes = row->up,
				     .down_bytes = row->down };
	if (row->name[0]) {
		ret->name = arena_strndup(arena, row->name, strlen(row->name));
		if (!ret->name)
			return -ENOMEM;
	}
	if (memcmp(row->address, none, sizeof(none)) == 0 ||
	    !inet_ntop(v4 ? AF_INET : AF_INET6, row->address + (v4 ? 12 : 0), address,
		       sizeof(address)))
		return 0;
	ret->address = arena_strndup(arena, address, strlen(address));
	return ret->address ? 0 : -ENOMEM;
}

static void egress_flows_reply(struct request *rq, struct slice body)
{
	auto_arena arena = ARENA_INIT(FLOWS_ARENA_MAX);
	const size_t n = egress_flows_count_rows(body);
	struct egress_flow *rows = arena_alloc(&arena, n + 1, sizeof(*rows));
	struct egress_flow_list list = { .flows = { rows, n } };
	bool all = rows != NULL;

	for (size_t i = 0; all && i < n; i++) {
		const struct egress_flow_row row = egress_flows_get_row(body, i);

		all = egress_flow_describe(&row, &arena, &rows[i]) >= 0;
	}
	if (all)
		request_reply_json(rq, &egress_flow_list_table, &list);
	else
		request_no_memory(rq);
}

static void on_egress_flows_listed(void *arg, const struct cay_err *outcome, struct slice body)
{
	struct flow_question *q = arg;

	if (q->rq && outcome->code)
		request_fail(q->rq, outcome);
	else if (q->rq)
		egress_flows_reply(q->rq, body);
	free(q);
}

static void on_egress_flows_cut(void *arg, const struct cay_err *outcome, struct slice body)
{
	struct flow_question *q = arg;
	struct egress_cut_done done = {};

	if (!outcome->code)
		memcpy(&done.connections, body.p, sizeof(done.connections));
	if (done.connections > EGRESS_LIMIT_FLOWS_MAX)
		done.connections = EGRESS_LIMIT_FLOWS_MAX;
	request_reply_outcome(q->rq, outcome, &egress_cut_done_table, &done);
	free(q);
}

/* Ask cay-egress, unless the sandbox has no connections because it has no policy or does not run.
 */
static void egress_flows_ask(struct sandbox *sb, struct request *rq, enum egress_kind kind,
			     struct slice body, egress_answer_fn *fn)
{
	const bool runs = sb->life.state == SB_RUNNING || sb->life.state == SB_PAUSED;
	static const uint64_t zero;
	struct flow_question *q = calloc(1, sizeof(*q));

	if (!q) {
		request_no_memory(rq);
		return;
	}
	q->rq = rq;
	request_watch_client(&q->rq);
	if (egress_link_has(sb) || (runs && sandbox_has_egress(sb)))
		egress_link_ask(sb, kind, body, fn, q);
	else
		fn(q, &(struct cay_err){},
		   kind == EGRESS_MSG_CUT ? (struct slice){ (const char *)&zero, sizeof(zero) }
					  : (struct slice){});
}

void op_egress_flows(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);

	if (sb)
		egress_flows_ask(sb, rq, EGRESS_MSG_LIST_FLOWS, (struct slice){},
				 on_egress_flows_listed);
}

void op_egress_cut(struct cayd *c, struct request *rq)
{
	struct sandbox *sb = sandbox_find_of_request(c, rq);
	const struct egress_cut_spec *spec = rq->body;
	struct egress_destination to = {};
	struct egress_cut which = { .port = spec->has_port ? (uint16_t)spec->port : 0 };
	struct cay_err err = {};

	if (!sb)
		return;
	if (rq->actor.one_sandbox)
		(void)cay_fail(&err, CAY_E_FORBIDDEN, "a token cannot cut connections");
	else if (spec->to)
		(void)egress_destination_parse(spec->to, &to, &err);
	if (err.code) {
		request_fail(rq, &err);
		return;
	}
	static_assert(sizeof(to.name.text) <= sizeof(which.name));
	memcpy(which.name, to.name.text, to.name.n);
	which.address = to.name.n ? 0 : to.address;
	egress_flows_ask(sb, rq, EGRESS_MSG_CUT,
			 (struct slice){ (const char *)&which, sizeof(which) },
			 on_egress_flows_cut);
}
