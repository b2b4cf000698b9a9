/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/create/create.h"
#include "cayd/core/handlers.h"

#include "cayd/egress/policy.h"
#include "cayd/image/pull.h"
#include "cayd/image/registry.h"
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

struct create_turn {
	struct create_slot slot; /* first: create_queue_start_next() returns it */
	struct cayd *cayd;
	const struct create_turn_events *events;
	void *arg;
};

static void create_fail(struct request *rq, const struct cay_err *err)
{
	if (err->code && cay_error_row(err->code)->retryable)
		(void)request_add_reply_header(rq, "Retry-After", "1");
	request_fail(rq, err);
}

int create_read_key(const struct request *rq, struct idempotency_key *ret, struct cay_err *err)
{
	struct sandbox_create asked = *(const struct sandbox_create *)rq->body;

	asked.has_registry_auth = false; /* the journal has a hash of the request, of no secret */
	if (asked.is_fork)               /* the snapshot is another one for each request */
		asked.snapshot = rq->match.params[0];
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

int create_turn_enter(struct cayd *c, const struct id *tenant,
		      const struct create_turn_events *events, void *arg, struct create_turn **ret,
		      struct cay_err *err)
{
	struct create_turn *t = calloc(1, sizeof(*t));

	if (!t)
		return cay_no_memory(err);
	*t = (struct create_turn){ .cayd = c, .events = events, .arg = arg };
	if (!create_queue_enter(&c->creates->queue, &t->slot, tenant, clk_boot_ns(c->clk))) {
		free(t);
		return cay_fail(err, CAY_E_OVERLOADED, "too many creates are waiting; try again");
	}
	*ret = t;
	return 0;
}

void create_turn_leave(struct create_turn *t)
{
	create_queue_leave(&t->cayd->creates->queue, &t->slot);
	free(t);
}

struct create_slot *create_turn_take_slot(struct create_turn *t)
{
	return &t->slot;
}

struct cayd *create_turn_cayd(const struct create_turn *t)
{
	return t->cayd;
}

int create_at_turn(struct cayd *c, const struct actor *actor, const struct sandbox_create *asked,
		   const struct idempotency_key *key, struct arena *arena, struct create_turn *turn,
		   struct sandbox **ret, struct cay_err *err)
{
	struct sandbox_create spec;
	int r = template_apply(c, actor, asked, arena, &spec, err);

	if (r >= 0)
		r = egress_create_check(c, &actor->tenant, &spec, err);
	if (r >= 0)
		r = pool_check_max(c, &spec, err);
	if (r >= 0)
		r = admit_and_create(c, &actor->tenant, &spec, key, NULL, ret, err);
	if (r >= 0 && (*ret)->life.state == SB_PENDING && !(*ret)->create.slot)
		(*ret)->create.slot = &turn->slot;
	else
		create_turn_leave(turn);
	return r;
}

static void on_create_turn(void *arg, struct create_turn *turn)
{
	struct request *rq = arg;
	struct cayd *c = turn->cayd;
	struct cay_err err = {};
	struct idempotency_key key;
	struct sandbox *sb = NULL;
	int r = 0;

	rq->events = NULL;
	if (create_client_may_be_gone(c) && request_peer_has_left(rq))
		r = cay_fail(&err, CAY_E_UNAVAILABLE, "the client has left");
	if (r >= 0)
		r = create_read_key(rq, &key, &err);
	if (r < 0)
		create_turn_leave(turn);
	else
		r = create_at_turn(c, &rq->actor, rq->body, &key, &rq->arena, turn, &sb, &err);
	if (r < 0)
		create_fail(rq, &err);
	else
		create_reply(sb, rq);
}

static void on_create_expired(void *arg, const struct cay_err *err)
{
	struct request *rq = arg;

	rq->events = NULL;
	create_fail(rq, err);
}

void creates_run_queue(struct cayd *c)
{
	struct create_slot *slot;

	while ((slot = create_queue_start_next(&c->creates->queue, clk_boot_ns(c->clk)))) {
		struct create_turn *t = (struct create_turn *)(void *)slot;

		t->events->start(t->arg, t);
	}
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
	create_turn_leave(rq->data);
}

static int create_admit(struct cayd *c, const struct id *tenant, const struct sandbox_create *spec,
			struct cay_err *err)
{
	return admit_check(c, tenant, spec, pool_find_warm(c, spec), err);
}

/* Pull the missing image if that is allowed and the sandbox would be admitted then: a tenant
 * that cannot have a sandbox gets no image either.  Otherwise the request fails with err. */
static void create_pull_or_fail(struct cayd *c, struct request *rq,
				const struct sandbox_create *wanted, const struct cay_err *err,
				create_again_fn *again)
{
	struct sandbox_create spec;
	struct cay_err full = {};

	if (!str_eq(err->field, "image") ||
	    !pull_can_help_create(c, &rq->actor.tenant, wanted, err))
		create_fail(rq, err);
	else if (template_apply(c, &rq->actor, rq->body, &rq->arena, &spec, &full) < 0 ||
		 create_admit(c, &rq->actor.tenant, &spec, &full) < 0)
		create_fail(rq, &full);
	else {
		spec.registry_auth = wanted->registry_auth;
		spec.has_registry_auth = wanted->has_registry_auth;
		pull_start_for_create(c, rq, &spec, again);
	}
}

/* Credentials of the request serve one pull: they are in no spec that lives on. */
static bool create_prepare_with(struct cayd *c, struct request *rq,
				const struct idempotency_key *key, create_again_fn *again,
				const struct registry_auth_copy *auth, struct sandbox_create *spec,
				struct sandbox **ret)
{
	const struct sandbox_create *body = rq->body;
	struct cay_err err = {};

	*spec = (struct sandbox_create){};
	if (auth->given && body->template) {
		(void)cay_fail_field(&err, CAY_E_INVALID, "registry_auth",
				     "the image is the template's; omit it");
		create_fail(rq, &err);
		return false;
	}
	if (registry_auth_check(auth, &err) < 0) {
		create_fail(rq, &err);
		return false;
	}
	if (template_apply(c, &rq->actor, rq->body, &rq->arena, spec, &err) < 0 ||
	    egress_create_check(c, &rq->actor.tenant, spec, &err) < 0 ||
	    sandbox_create_check(c->sandboxes, &rq->actor.tenant, spec, key, ret, &err) < 0) {
		spec->registry_auth = auth->auth;
		spec->has_registry_auth = auth->given;
		create_pull_or_fail(c, rq, spec, &err, again);
		*spec = (struct sandbox_create){};
		return false;
	}
	if (!*ret && egress_create_require_link(c, spec, &err) < 0) {
		create_fail(rq, &err);
		return false;
	}
	if (*ret || !package_layer_is_needed(spec))
		return true;
	if (create_admit(c, &rq->actor.tenant, spec, &err) < 0)
		create_fail(rq, &err);
	else
		package_layer_request(c, rq, spec, again);
	return false;
}

bool create_prepare(struct cayd *c, struct request *rq, const struct idempotency_key *key,
		    create_again_fn *again, struct sandbox_create *spec, struct sandbox **ret)
{
	struct sandbox_create *body = rq->body;
	struct registry_auth_copy auth;
	bool done;

	registry_auth_take(&body->registry_auth, &body->has_registry_auth, &auth);
	done = create_prepare_with(c, rq, key, again, &auth, spec, ret);
	explicit_bzero(&auth, sizeof(auth));
	return done;
}

int create_claim(struct cayd *c, const struct id *tenant, const struct sandbox_create *spec,
		 const struct idempotency_key *key, struct sandbox **ret, struct cay_err *err)
{
	int r = create_admit(c, tenant, spec, err);

	if (r < 0)
		return r;
	if (!tenant_take_create(c, tenant))
		return cay_fail(err, CAY_E_RATE, "this tenant creates too many sandboxes a second");
	return pool_claim_sandbox(c, tenant, spec, key, ret, err);
}

void op_sandbox_create(struct cayd *c, struct request *rq)
{
	static const struct create_turn_events turn_events = { on_create_turn, on_create_expired };
	static const struct request_events events = { .gone = on_create_client_gone };
	struct sandbox_create spec, *body = rq->body;
	const struct id *tenant = &rq->actor.tenant;
	struct cay_err err = {};
	struct idempotency_key key;
	struct create_turn *turn = NULL;
	struct sandbox *sb = NULL;
	int r;

	if (!request_bind_group(rq, &body->group))
		return;
	r = create_read_key(rq, &key, &err);
	if (r >= 0 && !create_prepare(c, rq, &key, op_sandbox_create, &spec, &sb))
		return;
	if (r >= 0 && !sb)
		r = create_claim(c, tenant, &spec, &key, &sb, &err);
	if (r >= 0 && !sb)
		r = create_turn_enter(c, tenant, &turn_events, rq, &turn, &err);
	if (r < 0) {
		create_fail(rq, &err);
	} else if (sb) {
		create_reply(sb, rq);
	} else {
		rq->data = turn;
		rq->events = &events;
		creates_run_queue(c);
	}
}

void create_slot_release(struct sandbox *sb)
{
	struct create_queue *q = &sb->cayd->creates->queue;
	struct create_slot *t;

	if (sb->life.state == SB_PENDING || sb->life.state == SB_STARTING || !sb->create.slot)
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
		struct create_turn turn = *(struct create_turn *)(void *)t;
		struct cay_err err = {};

		free(t);
		(void)cay_fail(&err, CAY_E_OVERLOADED, "the create waited too long; try again");
		turn.events->expire(turn.arg, &err);
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
