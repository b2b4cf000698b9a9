/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/template/pool.h"

#include "cayd/core/keeper-link.h"
#include "cayd/image/image.h"
#include "cayd/sandbox/claim.h"
#include "cayd/sandbox/count.h"
#include "cayd/sandbox/limits.h"
#include "cayd/template/package-layer.h"
#include "cayd/template/template.h"
#include "cayd/tenant/admit.h"
#include "cayd/tenant/quota.h"
#include "life/create-queue.h"

/* Creates of clients go first, but only so long. */
#define STARVED_NS NS_PER_S
/* Delay after a failed start: 100 ms, doubled each time. */
#define AGAIN_NS (UINT64_C(100) * NS_PER_MS)
#define AGAIN_SHIFT_MAX 8

struct warm_pool {
	struct warm_pool *next;
	char template[64];
	struct sandbox *ready, **ready_tail; /* oldest first */
	unsigned n_ready, n_starting;
	unsigned n_failed; /* in a row */
	uint64_t retry_ns; /* no start before this */
	uint64_t claimed, failed;
};

struct warm_pools {
	struct warm_pool *first;
	const struct create_queue *clients; /* creates that go first */
	uv_timer_t refill_timer;
	size_t next_template; /* the template to consider first, round robin */
	unsigned n_starting;
	uint64_t last_start_ns;
};

static struct warm_pool *pool_find(const struct cayd *c, const char *template)
{
	struct warm_pool *s = c->warm_pools->first;

	while (s && !str_eq(s->template, template))
		s = s->next;
	return s;
}

static struct warm_pool *pool_find_or_create(struct cayd *c, const char *template)
{
	struct warm_pool *s = pool_find(c, template);

	if (s)
		return s;
	s = strlen(template) < sizeof(s->template) ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return NULL;
	memcpy(s->template, template, strlen(template));
	s->ready_tail = &s->ready;
	s->next = c->warm_pools->first;
	c->warm_pools->first = s;
	return s;
}

/* Whether they keep the same interpreters loaded. */
static bool warm_kernels_are_equal(const struct field_list *a, const struct field_list *b)
{
	const struct warm_kernel *va = a->v, *vb = b->v;

	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++) {
		if (va[i].language != vb[i].language || va[i].modules.n != vb[i].modules.n)
			return false;
		for (size_t k = 0; k < va[i].modules.n; k++)
			if (!str_eq(va[i].modules.v[k], vb[i].modules.v[k]))
				return false;
	}
	return true;
}

/* Whether a warm sandbox can satisfy this request. */
static bool warm_sandbox_can_become(const struct sandbox *sb, const struct sandbox_create *spec)
{
	const struct image *image = image_find_for_create(sb->cayd->images, &warm_tenant, spec);

	/* volumes are mounted at its start */
	return image && memcmp(image->digest, sb->image, sizeof(sb->image)) == 0 &&
	       !spec->volumes.n && warm_kernels_are_equal(&sb->kernels, &spec->kernels) &&
	       sb->info.runtime == spec->runtime && sandbox_limits_can_become(sb, spec);
}

static bool pool_has_ready(const struct warm_pool *s, const struct sandbox *sb)
{
	for (const struct sandbox *at = s->ready; at; at = at->pool.next)
		if (at == sb)
			return true;
	return false;
}

static void pool_remove_ready(struct warm_pool *s, struct sandbox *sb)
{
	struct sandbox **at = &s->ready;

	while (*at != sb)
		at = &(*at)->pool.next;
	*at = sb->pool.next;
	if (!*at)
		s->ready_tail = at;
	sb->pool.next = NULL;
	s->n_ready--;
}

static void pool_remove_sandbox(struct sandbox *sb)
{
	struct warm_pool *s = sb->pool.of;

	if (pool_has_ready(s, sb)) {
		pool_remove_ready(s, sb);
	} else {
		s->n_starting--;
		sb->cayd->warm_pools->n_starting--;
	}
	sb->pool.of = NULL;
}

static void pool_add_starting(struct warm_pool *s, struct sandbox *sb)
{
	sb->pool.of = s;
	s->n_starting++;
	sb->cayd->warm_pools->n_starting++;
}

void pool_adopt_sandbox(struct sandbox *sb)
{
	bool adopt = sb->life.warm && sb->life.state == SB_PENDING && sb->info.template;
	struct warm_pool *s = adopt ? pool_find_or_create(sb->cayd, sb->info.template) : NULL;

	/* without a pool no create gets it; fsck and a drain still find it */
	if (s)
		pool_add_starting(s, sb);
}

static void pool_count_failure(struct warm_pool *s, const struct sandbox *sb)
{
	unsigned shift = s->n_failed < AGAIN_SHIFT_MAX ? s->n_failed : AGAIN_SHIFT_MAX;

	s->failed++;
	s->n_failed++;
	s->retry_ns = clk_boot_ns(sb->cayd->clk) + (AGAIN_NS << shift);
}

void pool_sandbox_changed(struct sandbox *sb)
{
	struct warm_pool *s = sb->pool.of;
	bool listed;

	if (!s)
		return;
	listed = pool_has_ready(s, sb);
	if (sb->life.state != SB_PENDING || !sb->life.warm) {
		if (sb->life.failed)
			pool_count_failure(s, sb);
		pool_remove_sandbox(sb);
		pools_schedule_refill(sb->cayd);
	} else if (life_is_warm_and_ready(&sb->life) && !listed) {
		claim_prepare_kernels(sb);
		s->n_starting--;
		sb->cayd->warm_pools->n_starting--;
		s->n_ready++;
		s->n_failed = 0;
		*s->ready_tail = sb;
		s->ready_tail = &sb->pool.next;
		pools_schedule_refill(sb->cayd);
	}
}

/* Live sandboxes of a template, warm ones included. */
static unsigned template_count_live(const struct cayd *c, const char *template)
{
	return sandbox_counts_get(sandboxes_get_counts(c->sandboxes), COUNT_TEMPLATE, NULL,
				  template);
}

static struct sandbox *pool_find_match(const struct warm_pool *s, const struct sandbox_create *spec)
{
	struct sandbox *sb = s ? s->ready : NULL;

	while (sb && !warm_sandbox_can_become(sb, spec))
		sb = sb->pool.next;
	return sb;
}

const struct sandbox *pool_find_warm(const struct cayd *c, const struct sandbox_create *spec)
{
	return spec->template && !package_layer_is_needed(spec)
		       ? pool_find_match(pool_find(c, spec->template), spec)
		       : NULL;
}

int pool_check_max(const struct cayd *c, const struct sandbox_create *spec, struct cay_err *err)
{
	const struct template *t = spec->template ? template_find_by_name(c, spec->template) : NULL;

	if (!t || !t->info.has_pool || !t->info.pool.max ||
	    template_count_live(c, spec->template) < t->info.pool.max)
		return 0;
	return cay_fail(err, CAY_E_CAPACITY, "template '%s' already has %llu sandboxes",
			spec->template, (unsigned long long)t->info.pool.max);
}

int pool_claim_sandbox(struct cayd *c, const struct id *tenant, const struct sandbox_create *spec,
		       const struct idempotency_key *key, struct sandbox **ret, struct cay_err *err)
{
	const struct template *t = spec->template ? template_find_by_name(c, spec->template) : NULL;
	struct warm_pool *s = t ? pool_find(c, spec->template) : NULL;
	struct sandbox *sb = pool_find_match(s, spec);

	*ret = NULL;
	if (!t || !t->info.has_pool)
		return 0;
	if (!sb && t->info.pool.on_empty == ON_EMPTY_FAIL)
		return cay_fail(err, CAY_E_CAPACITY, "no sandbox of '%s' is ready", spec->template);
	if (!sb)
		return pool_check_max(c, spec, err);
	if (admit_check_and_evict(c, tenant, spec, sb, err) < 0)
		return -ENOSR;
	pool_remove_sandbox(sb);
	pools_schedule_refill(c);
	if (sandbox_claim_warm(sb, tenant, spec, key) < 0) {
		sandbox_end(sb, END_EVICTED, "out of memory during its claim");
		return cay_no_memory(err);
	}
	s->claimed++;
	*ret = sb;
	return 0;
}

/* The template's defaults that apply to every sandbox, without those of an owner. */
static int template_make_warm_spec(const struct cayd *c, const struct template *t,
				   struct sandbox_create *ret, struct cay_err *err)
{
	struct sandbox_create spec = t->info.defaults;

	spec.template = t->info.name;
	spec.name = spec.group = NULL;
	spec.labels = spec.env = (struct field_map){};
	spec.entrypoint = (struct field_texts){};
	spec.services = (struct field_list){};
	spec.has_entrypoint = spec.image_entrypoint = spec.has_ttl = spec.has_idle = false;
	spec.has_lease = spec.has_egress = spec.has_stop_after = spec.has_rest_ttl = false;
	spec.has_on_expire = spec.has_idle_by = spec.has_pause_after = false;
	spec.on_expire = ON_EXPIRE_END;
	spec.on_exit = ON_EXIT_KEEP;
	if (template_give_files(c, t, &spec, err) < 0)
		return -ENOENT;
	if (quota_bound_create(c, &warm_tenant, &spec, err) < 0)
		return -EINVAL;
	spec.limits.given = 0;
	*ret = spec;
	return 0;
}

/* End warm sandboxes that are surplus, or that the template has outdated. */
static void pool_retire_surplus(struct warm_pool *s, const struct template *t)
{
	struct sandbox *sb = s->ready;
	struct sandbox_create spec;
	bool usable = t && sb && template_make_warm_spec(sb->cayd, t, &spec, NULL) >= 0;
	uint64_t kept = 0;

	while (sb) {
		struct sandbox *next = sb->pool.next;

		if (usable && kept < t->info.pool.min && warm_sandbox_can_become(sb, &spec))
			kept++;
		else
			sandbox_end(sb, END_EVICTED, "its template has changed or needs fewer");
		sb = next;
	}
}

static bool pools_can_start_sandbox(struct cayd *c)
{
	const struct create_queue *q = c->warm_pools->clients;
	uint64_t now = clk_boot_ns(c->clk);

	if (c->drain_ns || !keeper_is_up(c->keeper) || c->warm_pools->n_starting ||
	    admit_check_node(c, &(struct grant){}, &(struct cay_err){}) < 0)
		return false;
	return (!q->n_creating && !q->n_waiting) ||
	       now - c->warm_pools->last_start_ns >= STARVED_NS;
}

static bool pool_needs_sandbox(const struct cayd *c, const struct template *t,
			       const struct warm_pool *s)
{
	const struct pool_conf *p = &t->info.pool;
	unsigned has = s ? s->n_ready + s->n_starting : 0;

	return t->info.has_pool && t->info.state == TEMPLATE_READY && has < p->min &&
	       (!s || clk_boot_ns(c->clk) >= s->retry_ns) &&
	       (!p->max || template_count_live(c, t->info.name) < p->max) &&
	       keeper_runtimes(c->keeper) & 1u << t->info.defaults.runtime;
}

static void pool_start_sandbox(struct cayd *c, const struct template *t)
{
	struct sandbox_create spec;
	struct warm_pool *s = pool_find_or_create(c, t->info.name);
	struct cay_err err = {};
	struct sandbox *sb;
	struct grant more = grant_of_limits(&t->info.defaults.limits, NULL);

	if (!s || admit_check_node(c, &more, NULL) < 0)
		return;
	c->warm_pools->last_start_ns = clk_boot_ns(c->clk);
	if (template_make_warm_spec(c, t, &spec, &err) < 0 ||
	    sandbox_create_warm(c->sandboxes, &spec, &sb, &err) < 0) {
		if (!s->n_failed)
			log_error(&c->log, "cannot start a warm sandbox of '%s': %s", s->template,
				  err.msg);
		s->failed++;
		s->n_failed += s->n_failed < AGAIN_SHIFT_MAX;
		s->retry_ns = c->warm_pools->last_start_ns + (AGAIN_NS << s->n_failed);
		return;
	}
	pool_add_starting(s, sb);
	(void)sandbox_apply_event(sb, &(struct life_event){ .kind = LIFE_ACCEPTED });
}

static void pools_retire_and_refill(struct cayd *c)
{
	const struct template *t;
	struct warm_pool **at = &c->warm_pools->first;
	size_t n = templates_count(c);

	while (*at) {
		struct warm_pool *s = *at;

		t = template_find_by_name(c, s->template);
		pool_retire_surplus(s, t && t->info.has_pool ? t : NULL);
		if (!t && !s->ready && !s->n_starting) {
			*at = s->next;
			free(s);
		} else {
			at = &s->next;
		}
	}
	for (size_t i = 0; i < n && pools_can_start_sandbox(c); i++) {
		t = template_at(c, (c->warm_pools->next_template + i) % n);
		if (t && pool_needs_sandbox(c, t, pool_find(c, t->info.name))) {
			c->warm_pools->next_template = (c->warm_pools->next_template + i + 1) % n;
			pool_start_sandbox(c, t);
		}
	}
}

static void on_pool_refill_timer(uv_timer_t *t)
{
	pools_retire_and_refill(t->data);
}

void pools_schedule_refill(struct cayd *c)
{
	(void)uv_timer_start(&c->warm_pools->refill_timer, on_pool_refill_timer, 0, 0);
}

void pools_sweep(struct cayd *c, uint64_t)
{
	pools_retire_and_refill(c);
}

bool pools_has_any(const struct cayd *c)
{
	return c->warm_pools->first;
}

struct pool_count pools_count(const struct cayd *c, const char *template)
{
	const struct warm_pool *s = NULL;
	struct pool_count all = {}, n;
	const char *name;

	while ((s = pool_next(c, s, &name, &n))) {
		if (template && !str_eq(name, template))
			continue;
		all.warm += n.warm;
		all.starting += n.starting;
		all.in_use += n.in_use;
		all.claimed += n.claimed;
		all.failed += n.failed;
	}
	return all;
}

const struct warm_pool *pool_next(const struct cayd *c, const struct warm_pool *s,
				  const char **ret_template, struct pool_count *ret)
{
	unsigned live, idle;

	s = s ? s->next : c->warm_pools->first;
	if (!s)
		return NULL;
	live = template_count_live(c, s->template);
	idle = s->n_ready + s->n_starting;
	*ret_template = s->template;
	*ret = (struct pool_count){ .warm = s->n_ready,
				    .starting = s->n_starting,
				    .in_use = live > idle ? live - idle : 0,
				    .claimed = s->claimed,
				    .failed = s->failed };
	return s;
}

int pools_open(struct cayd *c, const struct create_queue *clients, struct cay_err *err)
{
	c->warm_pools = calloc(1, sizeof(*c->warm_pools));
	if (!c->warm_pools)
		return cay_no_memory(err);
	c->warm_pools->clients = clients;
	(void)uv_timer_init(&c->loop, &c->warm_pools->refill_timer);
	c->warm_pools->refill_timer.data = c;
	return 0;
}
