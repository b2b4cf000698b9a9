/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/egress/asks.h"

#include <arpa/inet.h>

#include "cayd/core/deferred-reply.h"
#include "cayd/core/handlers.h"
#include "cayd/core/list-page.h"
#include "cayd/core/list.h"
#include "cayd/egress/egress-link.h"
#include "cayd/egress/policy.h"
#include "cayd/tenant/api-key.h"

#define TELL_AGAIN_NS (60 * NS_PER_S)
#define DECIDERS_MAX 64          /* of a tenant */
#define MARGIN_NS (5 * NS_PER_S) /* so much later than cay-egress a row expires here */
#define SWEEP_NS NS_PER_S

/* A client who waits for rows, or did a moment ago. */
struct decider {
	struct decider *next;
	struct request *rq; /* NULL: it was answered, or the client left */
	struct id tenant, sandbox;
	char group[ASK_GROUP_MAX + 1];
	struct ask_query query;
	uint64_t until_ns; /* when its wait ends; without a request, when it is forgotten */
	bool may_answer, has_left;
};

struct asks {
	struct ask_table table;
	struct decider *deciders;
	uint64_t started_ns, swept_ns;
};

/* Rows */

static uint64_t asks_now(const struct cayd *c)
{
	return clk_wall_ns(c->clk);
}

struct ask *asks_find_id(const struct cayd *c, const struct id *id)
{
	return ask_find(&c->asks->table, id);
}

struct ask *asks_find(const struct cayd *c, const struct id *sandbox, const char *to, uint16_t port)
{
	const struct id id = ask_id(sandbox, to, port);

	return ask_find(&c->asks->table, &id);
}

struct ask_info ask_describe(const struct ask *a)
{
	const bool answered = a->state == ASK_ALLOWED || a->state == ASK_DENIED;

	return (struct ask_info){ .id = a->id,
				  .sandbox = a->sandbox,
				  .group = a->group[0] ? a->group : NULL,
				  .to = a->to,
				  .port = a->port,
				  .state = a->state,
				  .kind = a->kind,
				  .has_kind = a->kind != EGRESS_KIND_NONE,
				  .count = a->count,
				  .waiting = a->waiting,
				  .generation = a->generation,
				  .since_ns = a->since_ns,
				  .changed_ns = a->changed_ns,
				  .remember = a->remember,
				  .has_remember = answered,
				  .until_ns = answered ? a->until_ns : 0,
				  .seq = a->seq };
}

static void ask_tell(struct cayd *c, const struct ask *a, bool answered)
{
	struct ask_info info = ask_describe(a);

	c->hooks->ask_changed(c, &a->of->id, &info, answered);
}

void ask_tell_answered(struct cayd *c, const struct ask *a)
{
	ask_tell(c, a, true);
}

static void deciders_reply(struct cayd *c, const struct id *tenant);

void ask_change(struct cayd *c, struct ask *a, enum ask_state state)
{
	ask_set_state(a, state, asks_now(c));
	deciders_reply(c, &a->of->id);
}

/* What was forgotten leaves connections that wait. */
void ask_set_answer(struct cayd *c, struct ask *a, enum ask_state state,
		    const struct egress_remembered *answer)
{
	a->remember = answer->remember;
	a->until_ns = answer->until_ns;
	ask_change(c, a, state == ASK_GONE && a->waiting ? ASK_WAITING : state);
}

/* Deciders */

static bool decider_has(const struct decider *d, const struct id *tenant, const struct id *sandbox,
			const char *group)
{
	return id_eq(&d->tenant, tenant) && (!d->sandbox.noun || id_eq(&d->sandbox, sandbox)) &&
	       (!d->group[0] || (group && str_eq(d->group, group)));
}

static bool asks_can_be_answered(const struct cayd *c, const struct id *tenant,
				 const struct id *sandbox, const char *group)
{
	for (const struct decider *d = c->asks->deciders; d; d = d->next)
		if (d->may_answer && decider_has(d, tenant, sandbox, group) &&
		    (!d->rq || actor_is_still_valid(c, &d->rq->actor)))
			return true;
	return false;
}

bool asks_have_decider(const struct sandbox *sb)
{
	return asks_can_be_answered(sb->cayd, &sb->info.tenant, &sb->info.id, sb->info.group);
}

static bool decider_wants(const struct decider *d, const struct ask *a)
{
	return decider_has(d, &a->of->id, &a->sandbox, a->group) &&
	       (!d->query.has_state || d->query.state == a->state);
}

/* A number of another past begins from the start. */
static struct ask *decider_first(const struct cayd *c, const struct decider *d)
{
	const struct ask_table *t = &c->asks->table;
	const uint64_t last = ask_last_seq(t, &d->tenant);
	struct ask *a = ask_find_after(t, &d->tenant, d->query.after > last ? 0 : d->query.after);

	while (a && !decider_wants(d, a))
		a = a->newer;
	return a;
}

static void decider_reply(const struct cayd *c, struct decider *d, struct request *rq)
{
	uint64_t next = ask_last_seq(&c->asks->table, &d->tenant);
	struct list_page page;

	list_page_begin(&page, "asks");
	for (const struct ask *a = decider_first(c, d); a; a = a->newer) {
		const struct ask_info info = ask_describe(a);

		if (!decider_wants(d, a))
			continue;
		if (page.rows == d->query.limit || !list_page_add(&page, &ask_info_table, &info)) {
			next = a->seq - 1;
			break;
		}
	}
	jw_end(&page.w);
	jw_u64(&page.w, "next", next ? next : d->query.after);
	jw_end(&page.w);
	list_page_reply(&page, rq);
}

/* Its place is kept while the client asks for more. */
static void decider_leave(const struct cayd *c, struct decider *d)
{
	d->rq = NULL;
	d->has_left = true;
	d->until_ns = clk_boot_ns(c->clk) + DECIDER_GRACE_NS;
}

static void deciders_reply(struct cayd *c, const struct id *tenant)
{
	for (struct decider *d = c->asks->deciders; d; d = d->next)
		if (d->rq && id_eq(&d->tenant, tenant) && decider_first(c, d)) {
			struct request *rq = d->rq;

			decider_leave(c, d);
			decider_reply(c, d, rq);
		}
}

static void deciders_sweep(struct cayd *c, uint64_t now)
{
	for (struct decider *d = c->asks->deciders, *next; d; d = next) {
		struct request *rq = d->rq;

		next = d->next;
		if (!rq && !d->has_left) {
			decider_leave(c, d);
		} else if (rq && now >= d->until_ns) {
			decider_leave(c, d);
			decider_reply(c, d, rq);
		} else if (!rq && now >= d->until_ns) {
			LIST_UNLINK(c->asks->deciders, d, next);
			free(d);
		}
	}
}

/* One place for the requests of a client that follow each other. */
static struct decider *decider_get(struct cayd *c, const struct decider *like)
{
	struct asks *all = c->asks;
	struct decider *d = all->deciders;
	size_t n = 0;

	while (d &&
	       (d->rq || d->may_answer != like->may_answer || !id_eq(&d->tenant, &like->tenant) ||
		!id_eq(&d->sandbox, &like->sandbox) || !str_eq(d->group, like->group))) {
		n += id_eq(&d->tenant, &like->tenant);
		d = d->next;
	}
	if (d)
		return d;
	d = n < DECIDERS_MAX ? calloc(1, sizeof(*d)) : NULL;
	if (!d)
		return NULL;
	d->next = all->deciders;
	all->deciders = d;
	return d;
}

void op_ask_list(struct cayd *c, struct request *rq)
{
	struct ask_query *q = rq->query;
	struct decider like = { .tenant = rq->actor.tenant,
				.may_answer = rq->actor.scope >= SCOPE_WRITE };
	struct decider *d;

	if (!request_bind_group(rq, &q->group))
		return;
	like.query = *q;
	like.query.sandbox = like.query.group = NULL; /* texts of the request */
	if (q->sandbox && id_parse(ID_SANDBOX, slice_of(q->sandbox), &like.sandbox) < 0) {
		request_refuse(rq, CAY_E_INVALID, "not the id of a sandbox");
		return;
	}
	if (q->group)
		memcpy(like.group, q->group, strnlen(q->group, ASK_GROUP_MAX));
	if (!q->wait_ms) {
		decider_reply(c, &like, rq);
		return;
	}
	d = decider_get(c, &like);
	if (!d) {
		request_refuse(rq, CAY_E_LIMIT, "too many clients wait for asks");
		return;
	}
	like.next = d->next;
	like.until_ns = clk_boot_ns(c->clk) + q->wait_ms * NS_PER_MS;
	*d = like;
	if (decider_first(c, d)) {
		decider_leave(c, d);
		decider_reply(c, d, rq);
		return;
	}
	d->rq = rq;
	request_watch_client(&d->rq);
}

struct ask *ask_find_of_request(struct cayd *c, struct request *rq)
{
	struct ask *a = ask_find(&c->asks->table, &rq->match.params[0]);

	if (a && id_eq(&a->of->id, &rq->actor.tenant) && actor_has_group(&rq->actor, a->group))
		return a;
	request_refuse(rq, CAY_E_NOT_FOUND, "there is no such ask");
	return NULL;
}

void op_ask_get(struct cayd *c, struct request *rq)
{
	const struct ask *a = ask_find_of_request(c, rq);
	struct ask_info info;

	if (!a)
		return;
	info = ask_describe(a);
	request_reply_json(rq, &ask_info_table, &info);
}

/* What cay-egress tells */

static void on_nobody_told(void *, const struct cay_err *, struct slice) {}

static void ask_end_unanswered(struct sandbox *sb, const struct egress_ask *ask)
{
	struct egress_answer nobody = { .address = ask->address,
					.port = ask->port,
					.verdict = EGRESS_ANSWER_NOBODY };

	memcpy(nobody.name, ask->name, sizeof(nobody.name));
	egress_link_ask(sb, EGRESS_MSG_ANSWER,
			(struct slice){ (const char *)&nobody, sizeof(nobody) }, on_nobody_told,
			NULL);
}

/* A name, or an address in the form that clients write. */
static void ask_format_target(const struct egress_ask *ask, char ret[static ASK_TO_MAX + 1])
{
	const uint32_t address = htonl(ask->address);

	memset(ret, 0, ASK_TO_MAX + 1);
	if (ask->name[0])
		memcpy(ret, ask->name, strnlen(ask->name, ASK_TO_MAX));
	else
		(void)inet_ntop(AF_INET, &address, ret, ASK_TO_MAX + 1);
}

static uint64_t sandbox_ask_ns(const struct sandbox *sb)
{
	auto_buf compiled = BUF_INIT(EGRESS_POLICY_MAX);
	struct cay_err err = {};

	if (sandbox_egress_compile(sb->cayd, sb, &compiled, &err) < 0)
		return EGRESS_ASK_MS_MAX * NS_PER_MS;
	return egress_policy_ask_ms((struct slice){ compiled.data, compiled.len }) * NS_PER_MS;
}

static void ask_begin(struct sandbox *sb, const struct egress_ask *ask, const char *to)
{
	struct cayd *c = sb->cayd;
	const struct ask_target target = { &sb->info.id, &sb->info.tenant, sb->info.group, to,
					   ask->port };
	const bool held = ask->event != EGRESS_ASK_REFUSED, again = ask->event == EGRESS_ASK_AGAIN;
	struct ask *a = ask_table_get(&c->asks->table, &target, asks_now(c));
	const bool was_waiting = a && a->state == ASK_WAITING;
	/* a program may try again and again while no client can answer */
	const bool was_told = a && a->state == ASK_NOBODY && a->told_ns &&
			      clk_boot_ns(c->clk) < a->told_ns + TELL_AGAIN_NS;
	/* after a start of cayd, deciders have yet to come back */
	const bool late = clk_boot_ns(c->clk) > c->asks->started_ns + DECIDER_GRACE_NS;
	const bool nobody = held && !asks_have_decider(sb) && (!again || late);

	if (!a) {
		ask_end_unanswered(sb, ask);
		return;
	}
	ask_count(a, held, asks_now(c));
	a->generation = sandbox_egress_generation(sb);
	if (held)
		a->expires_ns = clk_boot_ns(c->clk) + sandbox_ask_ns(sb) + MARGIN_NS;
	if (again && ask->kind)
		a->kind = ask->kind;
	if (nobody) {
		ask_change(c, a, ASK_NOBODY);
		ask_end_unanswered(sb, ask);
	}
	if (held && !was_waiting && !was_told) {
		a->told_ns = clk_boot_ns(c->clk);
		ask_tell(c, a, false);
		deciders_reply(c, &a->of->id);
	}
}

void asks_receive(struct cayd *c, const struct id *sandbox, struct slice body)
{
	struct sandbox *sb = sandbox_find(c->sandboxes, sandbox);
	char to[ASK_TO_MAX + 1];
	struct egress_ask ask;
	struct ask *a;

	if (!sb || life_is_finished(&sb->life) || sb->life.state == SB_ENDING)
		return;
	memcpy(&ask, body.p, sizeof(ask));
	ask_format_target(&ask, to);
	if (ask.event <= EGRESS_ASK_REFUSED) {
		ask_begin(sb, &ask, to);
		return;
	}
	a = asks_find(c, sandbox, to, ask.port);
	if (a && ask.event == EGRESS_ASK_BYTES)
		a->kind = ask.kind;
	if (!a || ask.event == EGRESS_ASK_BYTES)
		return;
	ask_leave(a, ask.event == EGRESS_ASK_EXPIRED ? ASK_EXPIRED : ASK_GONE, asks_now(c));
	deciders_reply(c, &a->of->id);
}

/* Of all rows that connections wait for. */
static void asks_for_each_waiting(struct cayd *c, void (*fn)(struct cayd *c, struct ask *a))
{
	for (size_t i = 0; i < ASK_BUCKETS; i++)
		for (struct ask *a = c->asks->table.by_id[i]; a; a = a->next)
			if (a->waiting || a->state == ASK_WAITING)
				fn(c, a);
}

static void ask_forget_waiting(struct cayd *c, struct ask *a)
{
	a->waiting = 0;
	if (a->state == ASK_WAITING)
		ask_change(c, a, ASK_GONE);
}

void asks_forget_waiting(struct cayd *c)
{
	asks_for_each_waiting(c, ask_forget_waiting);
}

void asks_forget_ended(struct sandbox *sb)
{
	if (sb->cayd->asks && (sb->life.state >= SB_ENDING || sb->life.state == SB_STOPPING))
		ask_remove_of_sandbox(&sb->cayd->asks->table, &sb->info.tenant, &sb->info.id);
}

static struct egress_ask ask_of_row(const struct ask *a)
{
	struct egress_ask ask = { .port = a->port };
	struct in_addr address;

	if (inet_pton(AF_INET, a->to, &address) == 1)
		ask.address = ntohl(address.s_addr);
	else
		memcpy(ask.name, a->to, sizeof(a->to));
	return ask;
}

static void ask_sweep(struct cayd *c, struct ask *a)
{
	struct sandbox *sb = sandbox_find(c->sandboxes, &a->sandbox);
	const struct egress_ask ask = ask_of_row(a);
	const uint64_t now = clk_boot_ns(c->clk);

	if (now > a->expires_ns) { /* cay-egress could not tell */
		a->waiting = 0;
		if (a->state == ASK_WAITING)
			ask_change(c, a, ASK_EXPIRED);
	} else if (a->state == ASK_WAITING && sb && egress_link_has(sb) &&
		   now > c->asks->started_ns + DECIDER_GRACE_NS && !asks_have_decider(sb)) {
		ask_change(c, a, ASK_NOBODY);
		ask_end_unanswered(sb, &ask);
	}
}

/* What they allowed is asked again. */
static void answers_sweep(struct sandbox *sb, uint64_t now_ns)
{
	const struct field_list all = sandbox_list_answers(sb);
	bool ended = false;

	for (size_t i = 0; i < all.n; i++)
		ended |= sb->answers->v[i].until_ns && sb->answers->v[i].until_ns <= now_ns;
	if (!ended || sandbox_set_answers(sb, &all) < 0)
		return;
	sandbox_save(sb, false);
	egress_policy_changed(sb, NULL, NULL);
}

void asks_sweep(struct cayd *c, uint64_t now_boot_ns)
{
	deciders_sweep(c, now_boot_ns);
	if (now_boot_ns < c->asks->swept_ns + SWEEP_NS)
		return;
	c->asks->swept_ns = now_boot_ns;
	asks_for_each_waiting(c, ask_sweep);
	for (struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older)
		if (sb->answers && sb->life.state < SB_ENDING)
			answers_sweep(sb, asks_now(c));
}

/* Rows of what was remembered, so that it is listed and can be taken back. */
static void asks_restore_sandbox(struct cayd *c, const struct sandbox *sb)
{
	for (size_t i = 0; i < sb->answers->n; i++) {
		const struct egress_remembered *r = &sb->answers->v[i];
		const struct ask_target target = { &sb->info.id, &sb->info.tenant, sb->info.group,
						   r->to, (uint16_t)r->port };
		struct ask *a = ask_table_get(&c->asks->table, &target, r->at_ns);

		if (!a)
			return;
		ask_set_state(a, r->verdict == EGRESS_SPEC_ALLOW ? ASK_ALLOWED : ASK_DENIED,
			      r->at_ns);
		a->remember = r->remember;
		a->until_ns = r->until_ns;
		a->generation = sandbox_egress_generation(sb);
	}
}

int asks_open(struct cayd *c, struct cay_err *err)
{
	c->asks = calloc(1, sizeof(*c->asks));
	if (!c->asks)
		return cay_no_memory(err);
	c->asks->started_ns = clk_boot_ns(c->clk);
	for (struct sandbox *sb = sandboxes_newest(c->sandboxes); sb; sb = sb->older)
		if (sb->answers && sb->life.state < SB_ENDING)
			asks_restore_sandbox(c, sb);
	return 0;
}
