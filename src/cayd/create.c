/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/create.h"

#include <stdio.h>

#include "cayd/layer.h"
#include "cayd/pull.h"
#include "cayd/stock.h"
#include "cayd/template.h"
#include "life/turn.h"

#define KEY_MAX 64
#define STILL_NS NS_PER_S
#define DOUBT_NS (5 * NS_PER_S)

struct creates {
	struct turns turns;
	uv_timer_t soon;
	uint64_t swept_ns;    /* when the sweeper came last */
	uint64_t doubtful_ns; /* until when what is read may be old */
};

struct create {
	struct turn turn; /* first: what turns returns is this */
	struct cayd *cayd;
	struct request *rq; /* NULL once it has begun */
};

static void refuse(struct request *rq, const char *what)
{
	(void)request_header(rq, "Retry-After", "1");
	request_refuse(rq, CAY_E_OVERLOADED, what);
}

/* The same request has the same hash, however it was spelled. */
static int read_key(struct request *rq, struct box_key *ret, struct cay_err *err)
{
	struct sandbox_create asked = *(const struct sandbox_create *)rq->body;
	auto_buf text = BUF_INIT(KIB(128));
	struct jw w = jw_to(&text);
	uint64_t h = UINT64_C(14695981039346656037);

	*ret = (struct box_key){ .key = http_header(rq->head, "idempotency-key") };
	if (!ret->key.p)
		return 0;
	if (!ret->key.n || ret->key.n > KEY_MAX)
		return cay_fail(err, CAY_E_INVALID, "Idempotency-Key has 1 to %d characters",
				KEY_MAX);
	for (size_t i = 0; i < ret->key.n; i++)
		if (ret->key.p[i] <= ' ' || ret->key.p[i] > '~')
			return cay_fail(err, CAY_E_INVALID, "Idempotency-Key is not plain text");
	/* what a template would have said otherwise is part of what was asked */
	if (!asked.template)
		asked.given = asked.limits.given = 0;
	field_encode(&sandbox_create_table, NULL, &asked, &w);
	if (jw_done(&w) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	for (size_t i = 0; i < text.len; i++)
		h = (h ^ (uint8_t)text.data[i]) * UINT64_C(1099511628211);
	return snprintf(ret->body, sizeof(ret->body), "%016llx", (unsigned long long)h) == 16
		       ? 0
		       : -EINVAL;
}

static void answer(struct box *b, struct request *rq)
{
	const struct sandbox_create *spec = rq->body;

	rq->target = b->info.id;
	box_answer(b, rq, spec->wait ? WAIT_STARTED : WAIT_SAVED);
}

/* A client that leaves does not stop the work.  But after a time in which we stood still,
 * most of what there is to read was given up and asked again. */
static bool in_doubt(const struct cayd *c)
{
	uint64_t now = clk_boot_ns(c->clk);

	return now < c->creates->doubtful_ns || now - c->creates->swept_ns > STILL_NS;
}

/* It is its turn. */
static void begin(struct create *w)
{
	struct cayd *c = w->cayd;
	struct request *rq = cay_take(w->rq);
	struct sandbox_create spec;
	struct cay_err err = {};
	struct box_key key;
	struct box *b = NULL;

	rq->events = NULL;
	if (in_doubt(c) && request_left(rq))
		(void)cay_fail(&err, CAY_E_UNAVAILABLE, "the client left");
	else if (read_key(rq, &key, &err) >= 0 && template_apply(c, rq, &spec, &err) >= 0 &&
		 stock_room(c, &spec, &err) >= 0 &&
		 box_create(c->boxes, &rq->actor.tenant, &spec, &key, &b, &err) >= 0 &&
		 b->life.state == SB_PENDING && !b->turn) {
		b->turn = &w->turn;
		answer(b, rq);
		return;
	}
	turn_leave(&c->creates->turns, &w->turn);
	free(w);
	if (b)
		answer(b, rq);
	else
		request_fail(rq, &err);
}

static void go_on(struct cayd *c)
{
	struct turn *t;

	while ((t = turn_next(&c->creates->turns, clk_boot_ns(c->clk))))
		begin((struct create *)(void *)t);
}

static void on_soon(uv_timer_t *t)
{
	go_on(t->data);
}

/* From the loop: an answer may begin another request, and we may be inside of one. */
static void go_on_soon(struct cayd *c)
{
	if (c->creates->turns.waiting)
		(void)uv_timer_start(&c->creates->soon, on_soon, 0, 0);
}

static void on_gone(struct request *rq)
{
	struct create *w = rq->data;

	turn_leave(&w->cayd->creates->turns, &w->turn);
	free(w);
}

void create_ask(struct cayd *c, struct request *rq)
{
	static const struct request_events events = { .gone = on_gone };
	struct sandbox_create spec = {};
	struct cay_err err = {};
	struct box_key key;
	struct create *w;
	struct box *b;

	if (read_key(rq, &key, &err) < 0 || template_apply(c, rq, &spec, &err) < 0 ||
	    box_check(c->boxes, &rq->actor.tenant, &spec, &key, &b, &err) < 0) {
		if (!str_eq(err.field, "image") ||
		    !pull_instead(c, rq, spec.image, &err, create_ask))
			request_fail(rq, &err);
		return;
	}
	/* a warm one has no packages of the request's */
	if (!b && !layer_needed(&spec) &&
	    stock_take(c, &rq->actor.tenant, &spec, &key, &b, &err) < 0) {
		(void)request_header(rq, "Retry-After", "1");
		request_fail(rq, &err);
		return;
	}
	if (b) {
		answer(b, rq);
		return;
	}
	if (layer_needed(&spec)) {
		layer_ask(c, rq, &spec);
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	if (!turn_ask(&c->creates->turns, &w->turn, &rq->actor.tenant, clk_boot_ns(c->clk))) {
		free(w);
		refuse(rq, "more sandboxes are asked for than can be made now");
		return;
	}
	w->cayd = c;
	w->rq = rq;
	rq->data = w;
	rq->events = &events;
	go_on(c);
}

void create_over(struct box *b)
{
	struct turns *q = &b->cayd->creates->turns;
	struct turn *t = cay_take(b->turn);

	if (!t)
		return;
	/* one that failed says nothing of what making one takes */
	if (b->life.state == SB_RUNNING)
		turn_over(q, t, clk_boot_ns(b->cayd->clk));
	else
		turn_leave(q, t);
	free(t);
	go_on_soon(b->cayd);
	stocks_soon(b->cayd);
}

void creates_sweep(struct cayd *c, uint64_t now)
{
	struct turn *t;

	if (now - c->creates->swept_ns > STILL_NS)
		c->creates->doubtful_ns = now + DOUBT_NS;
	c->creates->swept_ns = now;
	while ((t = turn_late(&c->creates->turns, now))) {
		struct create *w = (struct create *)(void *)t;
		struct request *rq = w->rq;

		free(w);
		rq->events = NULL;
		refuse(rq, "it was not its turn in time");
	}
}

const struct turns *creates_turns(const struct cayd *c)
{
	return &c->creates->turns;
}

int creates_open(struct cayd *c, struct cay_err *err)
{
	c->creates = calloc(1, sizeof(*c->creates));
	if (!c->creates)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	(void)uv_timer_init(&c->loop, &c->creates->soon);
	c->creates->soon.data = c;
	c->creates->swept_ns = clk_boot_ns(c->clk);
	return 0;
}
