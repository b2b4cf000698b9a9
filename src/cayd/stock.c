/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/stock.h"

#include <stdio.h>

#include "cayd/admit.h"
#include "cayd/create.h"
#include "cayd/image.h"
#include "cayd/layer.h"
#include "cayd/limit.h"
#include "cayd/link.h"
#include "cayd/tally.h"
#include "cayd/template.h"
#include "life/turn.h"

/* A client's create comes first, but a pool is not starved by them. */
#define STARVED_NS NS_PER_S
/* After one that could not be made: 100 ms, doubled each time. */
#define AGAIN_NS (UINT64_C(100) * NS_PER_MS)
#define AGAIN_SHIFT_MAX 8

struct stock {
	struct stock *next;
	char template[64];
	struct box *ready, **last; /* the oldest first */
	unsigned n_ready, n_starting;
	unsigned n_failed; /* one after another */
	uint64_t again_ns; /* not before then */
	uint64_t claimed, failed;
};

struct stocks {
	struct stock *first;
	uv_timer_t soon;
	size_t turn; /* of the templates, whose is looked at first */
	unsigned n_starting;
	uint64_t begun_ns; /* when one was begun last */
};

static struct stock *find(const struct cayd *c, const char *template)
{
	struct stock *s = c->stocks->first;

	while (s && !str_eq(s->template, template))
		s = s->next;
	return s;
}

static struct stock *find_or_make(struct cayd *c, const char *template)
{
	struct stock *s = find(c, template);

	if (s)
		return s;
	s = strlen(template) < sizeof(s->template) ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return NULL;
	memcpy(s->template, template, strlen(template));
	s->last = &s->ready;
	s->next = c->stocks->first;
	c->stocks->first = s;
	return s;
}

/* Whether a warm one can become what this asks for. */
static bool fits(const struct box *b, const struct sandbox_create *spec)
{
	const struct image_row *image = image_for(b->cayd->images, spec);

	return image && memcmp(image->digest, b->image, sizeof(b->image)) == 0 &&
	       b->info.runtime == spec->runtime && limit_late(b, spec);
}

static bool is_listed(const struct stock *s, const struct box *b)
{
	for (const struct box *at = s->ready; at; at = at->next_warm)
		if (at == b)
			return true;
	return false;
}

static void unlist(struct stock *s, struct box *b)
{
	struct box **at = &s->ready;

	while (*at != b)
		at = &(*at)->next_warm;
	*at = b->next_warm;
	if (!*at)
		s->last = at;
	b->next_warm = NULL;
	s->n_ready--;
}

/* It is nobody's of ours any more. */
static void leave(struct box *b)
{
	struct stock *s = b->stock;

	if (is_listed(s, b)) {
		unlist(s, b);
	} else {
		s->n_starting--;
		b->cayd->stocks->n_starting--;
	}
	b->stock = NULL;
}

static void join(struct stock *s, struct box *b)
{
	b->stock = s;
	s->n_starting++;
	b->cayd->stocks->n_starting++;
}

void stock_adopt(struct box *b)
{
	struct stock *s = b->info.template ? find_or_make(b->cayd, b->info.template) : NULL;

	/* without one it is a box that nobody takes: fsck and a drain still see it */
	if (s)
		join(s, b);
}

static void failed(struct stock *s, const struct box *b)
{
	unsigned shift = s->n_failed < AGAIN_SHIFT_MAX ? s->n_failed : AGAIN_SHIFT_MAX;

	s->failed++;
	s->n_failed++;
	s->again_ns = clk_boot_ns(b->cayd->clk) + (AGAIN_NS << shift);
}

void stock_changed(struct box *b)
{
	struct stock *s = b->stock;
	bool listed = is_listed(s, b);

	if (b->life.state != SB_PENDING || !b->life.warm) {
		if (b->life.failed)
			failed(s, b);
		leave(b);
		stocks_soon(b->cayd);
	} else if (life_ready(&b->life) && !listed) {
		s->n_starting--;
		b->cayd->stocks->n_starting--;
		s->n_ready++;
		s->n_failed = 0;
		*s->last = b;
		s->last = &b->next_warm;
		stocks_soon(b->cayd);
	}
}

/* Alive of a template, warm ones too. */
static unsigned alive(const struct cayd *c, const char *template)
{
	return tally_of(boxes_tally(c->boxes), TALLY_TEMPLATE, NULL, template);
}

static struct box *first_that_fits(const struct stock *s, const struct sandbox_create *spec)
{
	struct box *b = s ? s->ready : NULL;

	while (b && !fits(b, spec))
		b = b->next_warm;
	return b;
}

bool stock_has(const struct cayd *c, const struct sandbox_create *spec)
{
	return spec->template && !layer_needed(spec) &&
	       first_that_fits(find(c, spec->template), spec);
}

int stock_room(const struct cayd *c, const struct sandbox_create *spec, struct cay_err *err)
{
	const struct template_row *t = spec->template ? template_named(c, spec->template) : NULL;

	if (!t || !t->info.has_pool || !t->info.pool.max ||
	    alive(c, spec->template) < t->info.pool.max)
		return 0;
	return cay_fail(err, CAY_E_CAPACITY, "'%s' has %llu sandboxes", spec->template,
			(unsigned long long)t->info.pool.max);
}

int stock_take(struct cayd *c, const struct id *tenant, const struct sandbox_create *spec,
	       const struct box_key *key, struct box **ret, struct cay_err *err)
{
	const struct template_row *t = spec->template ? template_named(c, spec->template) : NULL;
	struct stock *s = t ? find(c, spec->template) : NULL;
	struct box *b = first_that_fits(s, spec);

	*ret = NULL;
	if (!t || !t->info.has_pool)
		return 0;
	if (!b && t->info.pool.on_empty == ON_EMPTY_FAIL)
		return cay_fail(err, CAY_E_CAPACITY, "no sandbox of '%s' is ready", spec->template);
	if (!b)
		return stock_room(c, spec, err);
	if (admit_take(c, tenant, spec, err) < 0)
		return -ENOSR;
	leave(b);
	stocks_soon(c);
	if (box_take(b, tenant, spec, key) < 0) {
		box_end(b, END_EVICTED, "no memory for who took it");
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	}
	s->claimed++;
	*ret = b;
	return 0;
}

/* Those that are too many, or not what the template says. */
static void retire(struct stock *s, const struct template_row *t)
{
	struct box *b = s->ready;
	uint64_t kept = 0;

	while (b) {
		struct box *next = b->next_warm;

		if (t && kept < t->info.pool.min && fits(b, &t->info.defaults))
			kept++;
		else
			box_end(b, END_EVICTED, "its template does not want it any more");
		b = next;
	}
}

static bool may_begin(struct cayd *c)
{
	const struct turns *q = creates_turns(c);
	uint64_t now = clk_boot_ns(c->clk);

	if (c->drain_ns || !link_up(c->link) || c->stocks->n_starting ||
	    admit_node(c, &(struct cay_err){}) < 0)
		return false;
	return (!q->n_making && !q->n_waiting) || now - c->stocks->begun_ns >= STARVED_NS;
}

static bool wants(const struct cayd *c, const struct template_row *t, const struct stock *s)
{
	const struct pool_conf *p = &t->info.pool;
	unsigned has = s ? s->n_ready + s->n_starting : 0;

	return t->info.has_pool && t->info.state == TEMPLATE_READY && has < p->min &&
	       (!s || clk_boot_ns(c->clk) >= s->again_ns) &&
	       (!p->max || alive(c, t->info.name) < p->max) &&
	       link_runtimes(c->link) & 1u << t->info.defaults.runtime;
}

/* What a template says of every sandbox, without what one of them is given. */
static struct sandbox_create plain(const struct template_row *t)
{
	struct sandbox_create spec = t->info.defaults;

	spec.template = t->info.name;
	spec.name = spec.group = NULL;
	spec.labels = spec.env = (struct field_map){};
	spec.entrypoint = (struct field_texts){};
	spec.services = (struct field_list){};
	spec.has_entrypoint = spec.image_entrypoint = spec.has_ttl = spec.has_idle = false;
	spec.on_exit = ON_EXIT_KEEP;
	spec.limits.given = 0;
	return spec;
}

static void begin(struct cayd *c, const struct template_row *t)
{
	struct sandbox_create spec = plain(t);
	struct stock *s = find_or_make(c, t->info.name);
	struct cay_err err = {};
	struct box *b;

	if (!s)
		return;
	c->stocks->begun_ns = clk_boot_ns(c->clk);
	if (box_warm(c->boxes, &spec, &b, &err) < 0) {
		if (!s->n_failed)
			log_error(&c->log, "a warm sandbox of '%s': %s", s->template, err.msg);
		s->failed++;
		s->n_failed += s->n_failed < AGAIN_SHIFT_MAX;
		s->again_ns = c->stocks->begun_ns + (AGAIN_NS << s->n_failed);
		return;
	}
	join(s, b);
	(void)box_happens(b, &(struct life_event){ .kind = LIFE_ACCEPTED });
}

static void look(struct cayd *c)
{
	const struct template_row *t;
	struct stock **at = &c->stocks->first;
	size_t n = templates_n(c);

	while (*at) {
		struct stock *s = *at;

		t = template_named(c, s->template);
		retire(s, t && t->info.has_pool ? t : NULL);
		if (!t && !s->ready && !s->n_starting) {
			*at = s->next;
			free(s);
		} else {
			at = &s->next;
		}
	}
	for (size_t i = 0; i < n && may_begin(c); i++) {
		t = template_at(c, (c->stocks->turn + i) % n);
		if (t && wants(c, t, find(c, t->info.name))) {
			c->stocks->turn = (c->stocks->turn + i + 1) % n;
			begin(c, t);
		}
	}
}

static void on_soon(uv_timer_t *t)
{
	look(t->data);
}

void stocks_soon(struct cayd *c)
{
	(void)uv_timer_start(&c->stocks->soon, on_soon, 0, 0);
}

void stocks_sweep(struct cayd *c)
{
	look(c);
}

bool stock_pools(const struct cayd *c)
{
	return c->stocks->first;
}

struct pool_count stock_count(const struct cayd *c, const char *template)
{
	const struct stock *s = NULL;
	struct pool_count all = {}, n;
	const char *name;

	while ((s = stock_next(c, s, &name, &n))) {
		if (template && !str_eq(name, template))
			continue;
		all.warm += n.warm;
		all.starting += n.starting;
		all.claimed += n.claimed;
		all.failed += n.failed;
	}
	return all;
}

const struct stock *stock_next(const struct cayd *c, const struct stock *s,
			       const char **ret_template, struct pool_count *ret)
{
	s = s ? s->next : c->stocks->first;
	if (!s)
		return NULL;
	*ret_template = s->template;
	*ret = (struct pool_count){ s->n_ready, s->n_starting, s->claimed, s->failed };
	return s;
}

int stocks_open(struct cayd *c, struct cay_err *err)
{
	c->stocks = calloc(1, sizeof(*c->stocks));
	if (!c->stocks)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	(void)uv_timer_init(&c->loop, &c->stocks->soon);
	c->stocks->soon.data = c;
	return 0;
}
