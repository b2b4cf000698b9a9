/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/create/create.h"
#include "cayd/core/handlers.h"

#include "cayd/image/pull.h"
#include "cayd/template/package-layer.h"
#include "cayd/template/pool.h"
#include "cayd/template/template.h"
#include "cayd/tenant/admit.h"
#include "cayd/tenant/tenant.h"
#include "life/create-queue.h"

#define STILL_NS NS_PER_S
#define DOUBT_NS (5 * NS_PER_S)

struct creates {
	struct create_queue queue;
	uv_timer_t queue_timer;
	uint64_t swept_ns;
	uint64_t stale_until_ns; /* until then, requests may come from clients that have left */
};

struct create_request {
	struct create_slot slot; /* first: create_queue_start_next() returns it */
	struct cayd *cayd;
	struct request *rq; /* NULL once it has started */
};

static void create_refuse_overloaded(struct request *rq, const char *what)
{
	(void)request_add_reply_header(rq, "Retry-After", "1");
	request_refuse(rq, CAY_E_OVERLOADED, what);
}

static int create_read_key(const struct request *rq, struct idempotency_key *ret,
			   struct cay_err *err)
{
	struct sandbox_create asked = *(const struct sandbox_create *)rq->body;

	/* members that override a template are part of the request */
	if (!asked.template)
		asked.given = asked.limits.given = 0;
	return idempotency_key_read(http_header_find(rq->head, "idempotency-key"),
				    &sandbox_create_table, &asked, KIB(128), ret, err);
}

/* A name or key may lead to a sandbox of a group that the actor must not see. */
static void create_reply(struct sandbox *sb, struct request *rq)
{
	const struct sandbox_create *spec = rq->body;

	if (!actor_has_group(&rq->actor, sb->info.group)) {
		request_refuse(rq, CAY_E_CONFLICT,
			       "another group of the tenant uses this name or Idempotency-Key");
		return;
	}

	rq->target = sb->info.id;
	sandbox_reply_when(sb, rq, spec->wait ? WAIT_STARTED : WAIT_SAVED);
}

/* A client that leaves does not stop the work. But after cayd stood still, most requests that it
 * reads were abandoned and sent again. */
static bool create_client_may_be_gone(const struct cayd *c)
{
	uint64_t now = clk_boot_ns(c->clk);

	return now < c->creates->stale_until_ns || now - c->creates->swept_ns > STILL_NS;
}

static void create_start(struct create_request *w)
{
	struct cayd *c = w->cayd;
	struct request *rq = cay_take(w->rq);
	struct sandbox_create spec;
	struct cay_err err = {};
	struct idempotency_key key;
	struct sandbox *sb = NULL;

	rq->events = NULL;
	if (create_client_may_be_gone(c) && request_peer_has_left(rq))
		(void)cay_fail(&err, CAY_E_UNAVAILABLE, "the client has left");
	else if (create_read_key(rq, &key, &err) >= 0 && template_apply(c, rq, &spec, &err) >= 0 &&
		 pool_check_max(c, &spec, &err) >= 0 &&
		 admit_and_create(c, &rq->actor.tenant, &spec, &key, NULL, &sb, &err) >= 0 &&
		 sb->life.state == SB_PENDING && !sb->create.slot) {
		sb->create.slot = &w->slot;
		create_reply(sb, rq);
		return;
	}
	create_queue_leave(&c->creates->queue, &w->slot);
	free(w);
	if (sb)
		create_reply(sb, rq);
	else
		request_fail(rq, &err);
}

static void creates_run_queue(struct cayd *c)
{
	struct create_slot *t;

	while ((t = create_queue_start_next(&c->creates->queue, clk_boot_ns(c->clk))))
		create_start((struct create_request *)(void *)t);
}

static void on_create_queue_timer(uv_timer_t *t)
{
	creates_run_queue(t->data);
}

/* From a timer: a reply may start another request, and the caller may be inside one. */
static void creates_schedule_queue(struct cayd *c)
{
	if (c->creates->queue.waiting)
		(void)uv_timer_start(&c->creates->queue_timer, on_create_queue_timer, 0, 0);
}

static void on_create_client_gone(struct request *rq)
{
	struct create_request *w = rq->data;

	create_queue_leave(&w->cayd->creates->queue, &w->slot);
	free(w);
}

/* Pull the missing image if that is allowed and the sandbox would be admitted then: a tenant
 * that cannot have a sandbox gets no image either.  Otherwise the request fails with err. */
static void create_pull_or_fail(struct cayd *c, struct request *rq, const char *image,
				const struct cay_err *err)
{
	struct sandbox_create spec;
	struct cay_err full = {};

	if (!str_eq(err->field, "image") || !pull_can_help_create(c, image, err))
		request_fail(rq, err);
	else if (template_apply(c, rq, &spec, &full) < 0 ||
		 admit_check(c, &rq->actor.tenant, &spec, pool_find_warm(c, &spec), &full) < 0)
		request_fail(rq, &full);
	else
		pull_start_for_create(c, rq, image, op_sandbox_create);
}

/* *ret is the sandbox that an earlier request with this key or name has created. */
static int create_check(struct cayd *c, const struct id *tenant, const struct sandbox_create *spec,
			const struct idempotency_key *key, struct sandbox **ret,
			struct cay_err *err)
{
	int r = sandbox_create_check(c->sandboxes, tenant, spec, key, ret, err);

	return r < 0 || *ret ? r : admit_check(c, tenant, spec, pool_find_warm(c, spec), err);
}

void op_sandbox_create(struct cayd *c, struct request *rq)
{
	static const struct request_events events = { .gone = on_create_client_gone };
	struct sandbox_create spec = {};
	struct cay_err err = {};
	struct idempotency_key key;
	struct sandbox_create *body = rq->body;
	struct create_request *w;
	struct sandbox *sb;

	if (!request_bind_group(rq, &body->group))
		return;
	if (create_read_key(rq, &key, &err) < 0 || template_apply(c, rq, &spec, &err) < 0 ||
	    create_check(c, &rq->actor.tenant, &spec, &key, &sb, &err) < 0) {
		create_pull_or_fail(c, rq, spec.image, &err);
		return;
	}
	if (!sb && !package_layer_is_needed(&spec) && !tenant_take_create(c, &rq->actor.tenant)) {
		(void)request_add_reply_header(rq, "Retry-After", "1");
		request_refuse(rq, CAY_E_RATE, "this tenant creates too many sandboxes a second");
		return;
	}
	/* warm sandboxes have no packages of a request */
	if (!sb && !package_layer_is_needed(&spec) &&
	    pool_claim_sandbox(c, &rq->actor.tenant, &spec, &key, &sb, &err) < 0) {
		(void)request_add_reply_header(rq, "Retry-After", "1");
		request_fail(rq, &err);
		return;
	}
	if (sb) {
		create_reply(sb, rq);
		return;
	}
	if (package_layer_is_needed(&spec)) {
		package_layer_request(c, rq, &spec, op_sandbox_create);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		request_no_memory(rq);
		return;
	}
	if (!create_queue_enter(&c->creates->queue, &w->slot, &rq->actor.tenant,
				clk_boot_ns(c->clk))) {
		free(w);
		create_refuse_overloaded(rq, "too many creates are waiting; try again");
		return;
	}
	w->cayd = c;
	w->rq = rq;
	rq->data = w;
	rq->events = &events;
	creates_run_queue(c);
}

void create_slot_release(struct sandbox *sb)
{
	struct create_queue *q = &sb->cayd->creates->queue;
	struct create_slot *t;

	if (sb->life.state == SB_PENDING || !sb->create.slot)
		return;
	t = cay_take(sb->create.slot);
	/* failed creates do not count towards the average duration */
	if (sb->life.state == SB_RUNNING)
		create_queue_finish(q, t, clk_boot_ns(sb->cayd->clk));
	else
		create_queue_leave(q, t);
	free(t);
	creates_schedule_queue(sb->cayd);
	pools_schedule_refill(sb->cayd);
}

void creates_expire_waiting(struct cayd *c, uint64_t now)
{
	struct create_slot *t;

	if (now - c->creates->swept_ns > STILL_NS)
		c->creates->stale_until_ns = now + DOUBT_NS;
	c->creates->swept_ns = now;
	while ((t = create_queue_pop_expired(&c->creates->queue, now))) {
		struct create_request *w = (struct create_request *)(void *)t;
		struct request *rq = w->rq;

		free(w);
		rq->events = NULL;
		create_refuse_overloaded(rq, "the create waited too long; try again");
	}
}

const struct create_queue *creates_get_queue(const struct cayd *c)
{
	return &c->creates->queue;
}

int creates_open(struct cayd *c, struct cay_err *err)
{
	c->creates = calloc(1, sizeof(*c->creates));
	if (!c->creates)
		return cay_no_memory(err);
	(void)uv_timer_init(&c->loop, &c->creates->queue_timer);
	c->creates->queue_timer.data = c;
	c->creates->swept_ns = clk_boot_ns(c->clk);
	return 0;
}
