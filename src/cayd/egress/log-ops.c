/* SPDX-License-Identifier: Apache-2.0 */
/* log-ops - the last decisions about a sandbox, which cay-egress remembers */
#include <arpa/inet.h>

#include "cayd/core/deferred-reply.h"
#include "cayd/core/handlers.h"
#include "cayd/egress/egress-link.h"
#include "cayd/egress/policy.h"
#include "egress/host-name.h"

#define LOG_ARENA_MAX KIB(256)
#define AGAIN_MS 250
#define WAITING_MAX 256 /* requests; others get what there is */

/* A request that waits for a decision; cay-egress is asked again until there is one. */
struct log_wait {
	struct cayd *cayd;
	struct request *rq; /* NULL: the client left */
	struct id sandbox;
	struct egress_log_query which;
	uint64_t until_ns;
	uv_timer_t timer;
};

static unsigned n_waiting;

static void on_log_wait_closed(uv_handle_t *h)
{
	struct log_wait *w = h->data;

	n_waiting--;
	free(w);
}

static void log_wait_end(struct log_wait *w)
{
	uv_close((uv_handle_t *)&w->timer, on_log_wait_closed);
}

static const char *address_text(const uint8_t address[static 16], struct arena *arena)
{
	static const uint8_t none[16];
	const bool v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)(const void *)address);
	char text[INET6_ADDRSTRLEN];

	if (memcmp(address, none, sizeof(none)) == 0 ||
	    !inet_ntop(v4 ? AF_INET : AF_INET6, address + (v4 ? 12 : 0), text, sizeof(text)))
		return NULL;
	return arena_strndup(arena, text, strlen(text));
}

static uint64_t bounded(uint64_t n)
{
	return n < INT64_MAX ? n : INT64_MAX;
}

static int egress_decision_describe(const struct egress_log_row *row, struct arena *arena,
				    struct egress_decision *ret)
{
	*ret = (struct egress_decision){
		.seq = row->seq,
		.time_ns = row->time_ns,
		.op = arena_strndup(arena, row->op, strlen(row->op)),
		.verdict = row->verdict,
		.reason = arena_strndup(arena, row->outcome, strlen(row->outcome)),
		.name = row->name[0] ? arena_strndup(arena, row->name, strlen(row->name)) : NULL,
		.port = row->port,
		.address = address_text(row->address, arena),
		.layer = row->layer,
		.has_rule = row->rule >= 0,
		.rule = row->rule >= 0 ? (uint64_t)row->rule : 0,
		.up_bytes = bounded(row->up),
		.down_bytes = bounded(row->down),
		.more = bounded(row->more),
	};
	return ret->op && ret->reason ? 0 : -ENOMEM;
}

static void egress_log_reply(struct request *rq, struct slice body)
{
	auto_arena arena = ARENA_INIT(LOG_ARENA_MAX);
	const size_t n = egress_log_count_rows(body);
	struct egress_decision *rows = arena_alloc(&arena, n + 1, sizeof(*rows));
	struct egress_log_page page = { .decisions = { rows, n } };
	struct egress_log_end end;
	bool all = rows != NULL;

	memcpy(&end, body.p, sizeof(end));
	page.next = end.next;
	page.dropped = end.dropped;
	for (size_t i = 0; all && i < n; i++) {
		const struct egress_log_row row = egress_log_get_row(body, i);

		all = egress_decision_describe(&row, &arena, &rows[i]) >= 0;
	}
	if (all)
		request_reply_json(rq, &egress_log_page_table, &page);
	else
		request_no_memory(rq);
}

static void log_wait_ask(struct log_wait *w);

static void on_log_wait_timer(uv_timer_t *t)
{
	log_wait_ask(t->data);
}

static void on_egress_log_listed(void *arg, const struct cay_err *outcome, struct slice body)
{
	struct log_wait *w = arg;
	struct egress_log_end end;

	if (!w->rq) {
		log_wait_end(w);
		return;
	}
	if (outcome->code) {
		request_fail(w->rq, outcome);
		log_wait_end(w);
		return;
	}
	memcpy(&end, body.p, sizeof(end));
	if (egress_log_count_rows(body) || end.dropped ||
	    clk_boot_ns(w->cayd->clk) >= w->until_ns) {
		egress_log_reply(w->rq, body);
		log_wait_end(w);
		return;
	}
	w->which.after = end.next; /* what does not match is not looked at again */
	(void)uv_timer_start(&w->timer, on_log_wait_timer, AGAIN_MS, 0);
}

/* One without a policy has no decisions, and may get one while the request waits. */
static void log_wait_ask(struct log_wait *w)
{
	struct sandbox *sb = sandbox_find(w->cayd->sandboxes, &w->sandbox);
	const struct egress_log_end none = { .next = w->which.after };
	struct cay_err err = {};

	if (!sb)
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "there is no such sandbox");
	else if (life_is_finished(&sb->life) || sb->life.state == SB_ENDING)
		(void)sandbox_fail_state(sb, &err);
	if (err.code)
		on_egress_log_listed(w, &err, (struct slice){});
	else if (egress_link_has(sb) || sandbox_has_egress(sb))
		egress_link_ask(sb, EGRESS_MSG_LIST_LOG,
				(struct slice){ (const char *)&w->which, sizeof(w->which) },
				on_egress_log_listed, w);
	else
		on_egress_log_listed(w, &err, (struct slice){ (const char *)&none, sizeof(none) });
}

static int egress_log_query_write(const struct egress_log_filter *q, struct egress_log_query *ret,
				  struct cay_err *err)
{
	struct host_name name = {};

	*ret = (struct egress_log_query){ .after = q->after,
					  .verdict = q->has_verdict ? (uint16_t)q->verdict
								    : EGRESS_LOG_NUM };
	if (q->name && host_name_parse(slice_of(q->name), &name) != 0)
		return cay_fail_field(err, CAY_E_INVALID, "name",
				      "expected a name such as api.example.com");
	memcpy(ret->name, name.text, name.n);
	return 0;
}

void op_egress_log(struct cayd *c, struct request *rq)
{
	const struct sandbox *sb = sandbox_find_of_request(c, rq);
	const struct egress_log_filter *q = rq->query;
	struct egress_log_query which;
	struct cay_err err = {};
	struct log_wait *w;

	if (!sb)
		return;
	if (egress_log_query_write(q, &which, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		request_no_memory(rq);
		return;
	}
	w->cayd = c;
	w->sandbox = sb->info.id;
	w->which = which;
	w->until_ns = clk_boot_ns(c->clk) + (n_waiting < WAITING_MAX ? q->wait_ms * NS_PER_MS : 0);
	n_waiting++;
	(void)uv_timer_init(&c->loop, &w->timer);
	w->timer.data = w;
	w->rq = rq;
	request_watch_client(&w->rq);
	log_wait_ask(w);
}
