/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask-answer - the answer to an ask
 *
 * `once` is sent to cay-egress, which judges the connections that wait by its present policy.  What
 * is remembered becomes a rule of the sandbox, or of all sandboxes of its group: the journal has it
 * before cay-egress, and cay-egress before the reply.
 */
#include <arpa/inet.h>
#include <assert.h>

#include "cayd/core/deferred-reply.h"
#include "cayd/core/handlers.h"
#include "cayd/egress/asks.h"
#include "cayd/egress/egress-link.h"
#include "cayd/egress/policy.h"
#include "cayd/sandbox/record.h"

int sandbox_remember(struct sandbox *sb, const struct egress_remembered *answer,
		     struct cay_err *err)
{
	auto_buf compiled = BUF_INIT(EGRESS_POLICY_MAX);
	struct sandbox_answers *was = sb->answers;
	const struct field_list all = sandbox_list_answers(sb);
	struct egress_remembered rows[ANSWERS_MAX + 1];
	size_t n = 0;
	int r;

	for (size_t i = 0; i < all.n; i++)
		if (was->v[i].port != answer->port || !str_eq(was->v[i].to, answer->to))
			rows[n++] = was->v[i];
	if (answer->verdict != EGRESS_SPEC_ASK)
		rows[n++] = *answer;
	if (n > ANSWERS_MAX)
		return cay_fail_field(err, CAY_E_LIMIT, "remember",
				      "a sandbox has at most %d answers that are remembered; "
				      "change its policy instead",
				      ANSWERS_MAX);
	sb->answers = NULL;
	r = sandbox_set_answers(sb, &(struct field_list){ rows, n });
	if (r >= 0)
		r = sandbox_record_check_size(sb);
	if (r == -E2BIG)
		(void)cay_fail(err, CAY_E_TOO_LARGE,
			       "the answers are more than the journal keeps of one sandbox");
	else if (r < 0)
		(void)cay_no_memory(err);
	else
		r = sandbox_egress_compile(sb->cayd, sb, &compiled, err);
	if (r < 0) {
		sandbox_answers_free(sb->answers);
		sb->answers = was;
		return r;
	}
	sandbox_answers_free(was);
	return 0;
}

/* An answer under way. */
struct answering {
	struct cayd *cayd;
	struct request *rq; /* NULL: the client left */
	struct id ask;
	enum ask_state state;
	unsigned open; /* sandboxes that the journal or cay-egress has yet to get */
	struct cay_err failure;
};

static void answering_finish(struct answering *g)
{
	const struct ask *a = asks_find_id(g->cayd, &g->ask);
	struct ask_info info = {};

	if (!a && !g->failure.code)
		(void)cay_fail(&g->failure, CAY_E_NOT_FOUND, "the sandbox has ended");
	if (a && !g->failure.code)
		ask_tell_answered(g->cayd, a);
	if (a)
		info = ask_describe(a);
	request_reply_outcome(g->rq, &g->failure, &ask_info_table, &info);
	free(g);
}

static struct answering *answering_create(struct cayd *c, struct request *rq, const struct ask *a,
					  const struct ask_answer *q)
{
	struct answering *g = calloc(1, sizeof(*g));

	if (!g) {
		request_no_memory(rq);
		return NULL;
	}
	*g = (struct answering){ .cayd = c,
				 .rq = rq,
				 .ask = a->id,
				 .state = q->verdict == EGRESS_SPEC_ALLOW  ? ASK_ALLOWED
					  : q->verdict == EGRESS_SPEC_DENY ? ASK_DENIED
									   : ASK_GONE };
	request_watch_client(&g->rq);
	return g;
}

/* Once */

static void on_ask_answered(void *arg, const struct cay_err *outcome, struct slice body)
{
	struct answering *g = arg;
	struct ask *a = asks_find_id(g->cayd, &g->ask);
	uint64_t n = 0;

	g->failure = *outcome;
	if (!outcome->code)
		memcpy(&n, body.p, sizeof(n));
	if (!outcome->code && !n)
		(void)cay_fail(&g->failure, CAY_E_CONFLICT,
			       "the program has left; a remembered answer is for its next try");
	if (a && !a->waiting && a->state != (n ? g->state : ASK_GONE))
		ask_change(g->cayd, a, n ? g->state : ASK_GONE);
	answering_finish(g);
}

static void ask_answer_once(struct sandbox *sb, struct ask *a, struct answering *g)
{
	struct egress_answer answer = { .port = a->port,
					.verdict = g->state == ASK_ALLOWED ? EGRESS_ANSWER_ALLOW
									   : EGRESS_ANSWER_DENY };
	struct in_addr address;

	if (inet_pton(AF_INET, a->to, &address) == 1)
		answer.address = ntohl(address.s_addr);
	else
		memcpy(answer.name, a->to, sizeof(a->to));
	ask_set_answer(g->cayd, a, g->state, &(struct egress_remembered){});
	egress_link_ask(sb, EGRESS_MSG_ANSWER,
			(struct slice){ (const char *)&answer, sizeof(answer) }, on_ask_answered,
			g);
}

/* Remembered */

static void answering_leave(struct answering *g, const struct cay_err *outcome)
{
	if (outcome->code && !g->failure.code)
		g->failure = *outcome;
	if (!--g->open)
		answering_finish(g);
}

static void on_remembered_applied(void *arg, const struct cay_err *outcome)
{
	answering_leave(arg, outcome);
}

/* cay-egress gets it also if the journal failed, as it gets any policy. */
static void on_remembered_saved(void *arg, struct sandbox *sb)
{
	const struct cay_err *failure = sandbox_wait_failure(sb, WAIT_SAVED);

	if (failure->code) {
		egress_policy_changed(sb, NULL, NULL);
		answering_leave(arg, failure);
	} else {
		egress_policy_changed(sb, on_remembered_applied, arg);
	}
}

static void sandbox_save_answer(struct sandbox *sb, struct answering *g)
{
	struct sandbox_waiter *waiter;
	struct cay_err err = {};
	int r;

	g->open++;
	sandbox_save(sb, true);
	r = sandbox_wait(sb, WAIT_SAVED, on_remembered_saved, g, &waiter);
	if (r > 0) {
		egress_policy_changed(sb, on_remembered_applied, g);
	} else if (r < 0) {
		(void)cay_no_memory(&err);
		egress_policy_changed(sb, NULL, NULL);
		assert(g->open > 1); /* ask_remember() still has it */
		answering_leave(g, &err);
	}
}

/* Those that an answer to this one is for. */
static bool sandbox_shares_answers(const struct sandbox *sb, const struct sandbox *with,
				   unsigned remember)
{
	if (sb == with)
		return true;
	return remember == REMEMBER_GROUP && sb->egress && sb->life.state < SB_ENDING &&
	       sb->info.group && str_eq(sb->info.group, with->info.group);
}

static void ask_remember(struct sandbox *with, const struct egress_remembered *answer,
			 struct answering *g)
{
	struct cayd *c = g->cayd;
	struct sandbox *sb = sandbox_find_before(c->sandboxes, &with->info.tenant, 0);

	g->open = 1; /* this function */
	for (; sb; sb = sandbox_next_of_tenant(sb)) {
		struct cay_err err = {};
		struct ask *a;

		if (!sandbox_shares_answers(sb, with, answer->remember))
			continue;
		if (sandbox_remember(sb, answer, &err) < 0) {
			if (!g->failure.code)
				g->failure = err;
			continue;
		}
		a = asks_find(c, &sb->info.id, answer->to, (uint16_t)answer->port);
		if (a)
			ask_set_answer(c, a, g->state, answer);
		sandbox_save_answer(sb, g);
	}
	answering_leave(g, &(struct cay_err){});
}

static int ask_answer_check(const struct sandbox *sb, const struct ask *a, const struct request *rq,
			    struct cay_err *err)
{
	const struct ask_answer *q = rq->body;

	if (!sb || life_is_finished(&sb->life) || sb->life.state == SB_ENDING)
		return cay_fail(err, CAY_E_NOT_FOUND, "the sandbox has ended");
	if (q->remember == REMEMBER_GROUP && !sb->info.group)
		return cay_fail_field(err, CAY_E_INVALID, "remember", "the sandbox has no group");
	if (q->until_ns && q->until_ns <= clk_wall_ns(sb->cayd->clk))
		return cay_fail_field(err, CAY_E_INVALID, "until", "that time has passed");
	if (q->until_ns && q->remember == REMEMBER_ONCE)
		return cay_fail_field(err, CAY_E_INVALID, "until",
				      "an answer for now is not remembered");
	if (q->remember == REMEMBER_ONCE && q->verdict != EGRESS_SPEC_ASK &&
	    a->state != ASK_WAITING)
		return cay_fail(err, CAY_E_CONFLICT,
				"no connection waits; a remembered answer is for the next one");
	return 0;
}

void op_ask_answer(struct cayd *c, struct request *rq)
{
	const struct ask_answer *q = rq->body;
	struct ask *a = ask_find_of_request(c, rq);
	struct sandbox *sb = a ? sandbox_find(c->sandboxes, &a->sandbox) : NULL;
	struct egress_remembered answer = { .verdict = q->verdict,
					    .remember = q->remember,
					    .at_ns = clk_wall_ns(c->clk),
					    .until_ns = q->until_ns };
	struct cay_err err = {};
	struct answering *g;

	if (!a)
		return;
	if (ask_answer_check(sb, a, rq, &err) < 0) {
		request_fail(rq, &err);
		return;
	}
	g = answering_create(c, rq, a, q);
	if (!g)
		return;
	if (q->verdict != EGRESS_SPEC_ASK && q->remember == REMEMBER_ONCE) {
		ask_answer_once(sb, a, g);
		return;
	}
	answer.to = arena_strndup(&rq->arena, a->to, strlen(a->to));
	answer.port = a->port;
	if (answer.to) {
		ask_remember(sb, &answer, g);
		return;
	}
	(void)cay_no_memory(&g->failure);
	answering_finish(g);
}
