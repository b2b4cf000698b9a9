/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/box.h"

#include <assert.h>
#include <stdio.h>

#include "cayd/create.h"
#include "cayd/image.h"
#include "cayd/link.h"
#include "cayd/push.h"
#include "cayd/resize.h"
#include "cayd/tenant.h"
#include "text/hex.h"

#define BUCKETS 16384
#define POOL_MAX KIB(256)
#define FAILED_KEPT_NS (UINT64_C(3600) * NS_PER_S)

struct boxes {
	struct cayd *cayd;
	struct box *by_id[BUCKETS], *by_name[BUCKETS], *by_key[BUCKETS];
	struct box *newest, *oldest;
	uint64_t seq;
	unsigned n, n_ended;
	uint32_t next_range;
	uint8_t ranges[VERB_RANGE_MAX / 8 + 1];
};

static unsigned hash(const void *p, size_t n)
{
	const uint8_t *at = p;
	uint32_t h = 2166136261;

	for (size_t i = 0; i < n; i++)
		h = (h ^ at[i]) * 16777619;
	return h % BUCKETS;
}

int boxes_open(struct cayd *c, struct cay_err *err)
{
	c->boxes = calloc(1, sizeof(*c->boxes));
	if (!c->boxes)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	c->boxes->cayd = c;
	return 0;
}

static int take_range(struct boxes *all, uint32_t *ret)
{
	for (uint32_t i = 0; i <= VERB_RANGE_MAX; i++) {
		uint32_t at = (all->next_range + i) % (VERB_RANGE_MAX + 1);

		if (all->ranges[at / 8] & 1u << at % 8)
			continue;
		all->ranges[at / 8] |= (uint8_t)(1u << at % 8);
		all->next_range = at + 1;
		*ret = at;
		return 0;
	}
	return -ENOSR;
}

void boxes_keep_range(struct boxes *all, uint32_t range)
{
	all->ranges[range / 8] |= (uint8_t)(1u << range % 8);
}

int box_range_anew(struct box *b)
{
	return take_range(b->cayd->boxes, &b->range);
}

static void give_range(struct boxes *all, uint32_t range)
{
	all->ranges[range / 8] &= (uint8_t)~(1u << range % 8);
}

struct box *box_find(struct boxes *all, const struct id *id)
{
	struct box *b = all->by_id[hash(id, sizeof(*id))];

	while (b && !id_eq(&b->info.id, id))
		b = b->next_by_id;
	return b;
}

static bool is_of(const struct box *b, const struct id *tenant)
{
	return id_eq(&b->info.tenant, tenant);
}

struct box *box_of(struct boxes *all, const struct id *tenant, const struct id *id)
{
	struct box *b = box_find(all, id);

	return b && is_of(b, tenant) ? b : NULL;
}

/* One that is ending has given its name up. */
static struct box *find_name(struct boxes *all, const struct id *tenant, const char *name)
{
	struct box *b = all->by_name[hash(name, strlen(name))];

	while (b &&
	       (!is_of(b, tenant) || !str_eq(b->info.name, name) || b->info.state >= SB_ENDING))
		b = b->next_by_name;
	return b;
}

static struct box *find_key(struct boxes *all, const struct id *tenant, struct slice key)
{
	struct box *b = key.n ? all->by_key[hash(key.p, key.n)] : NULL;

	while (b && (!is_of(b, tenant) || !slice_eq(slice_of(b->key), key)))
		b = b->next_by_key;
	return b;
}

void boxes_hurry(struct boxes *all)
{
	uint64_t now = clk_boot_ns(all->cayd->clk);

	for (struct box *b = all->newest; b; b = b->older) {
		if (b->life.retry_ns != LIFE_NEVER)
			b->life.retry_ns = now;
		resize_again(b);
	}
}

struct box *boxes_newest(struct boxes *all)
{
	return all->newest;
}

struct box *box_before(struct boxes *all, const struct id *tenant, uint64_t before)
{
	struct box *b = all->newest;

	while (b && ((before && b->seq >= before) || !is_of(b, tenant)))
		b = b->older;
	return b;
}

struct box *box_older(const struct box *b)
{
	struct box *older = b->older;

	while (older && !is_of(older, &b->info.tenant))
		older = older->older;
	return older;
}

unsigned boxes_live_of(const struct boxes *all, const struct id *tenant)
{
	unsigned n = 0;

	for (const struct box *b = all->newest; b; b = b->older)
		n += !life_over(&b->life) && is_of(b, tenant);
	return n;
}

unsigned boxes_live(const struct boxes *all)
{
	return all->n - all->n_ended;
}

static void link_in(struct boxes *all, struct box *b)
{
	struct box **at = &all->by_id[hash(&b->info.id, sizeof(b->info.id))];

	b->next_by_id = *at;
	*at = b;
	if (b->info.name) {
		at = &all->by_name[hash(b->info.name, strlen(b->info.name))];
		b->next_by_name = *at;
		*at = b;
	}
	if (b->key) {
		at = &all->by_key[hash(b->key, strlen(b->key))];
		b->next_by_key = *at;
		*at = b;
	}
	b->older = all->newest;
	if (all->newest)
		all->newest->newer = b;
	else
		all->oldest = b;
	all->newest = b;
	all->n++;
	all->n_ended += life_over(&b->life);
}

#define UNLINK(all, b, table, next, text) \
	do { \
		struct box **at_ = (text) ? &(all)->table[hash((text), strlen(text))] : NULL; \
\
		while (at_ && *at_ != (b)) \
			at_ = &(*at_)->next; \
		if (at_) \
			*at_ = (b)->next; \
	} while (0)

static void forget(struct boxes *all, struct box *b)
{
	struct box **at = &all->by_id[hash(&b->info.id, sizeof(b->info.id))];

	while (*at != b)
		at = &(*at)->next_by_id;
	*at = b->next_by_id;
	UNLINK(all, b, by_name, next_by_name, b->info.name);
	UNLINK(all, b, by_key, next_by_key, b->key);
	*(b->newer ? &b->newer->older : &all->newest) = b->older;
	*(b->older ? &b->older->newer : &all->oldest) = b->newer;
	all->n--;
	all->n_ended--;
	pool_fini(&b->pool);
	free(b);
}

void boxes_forget(struct boxes *all, uint64_t now)
{
	struct box *b = all->oldest;

	while (b) {
		struct box *newer = b->newer;

		/* or there are more of them than there may be live ones */
		bool old = now >= b->forget_boot || all->n_ended > all->cayd->settings.max_boxes;

		if (life_over(&b->life) && old && !b->holds && !b->waiters) {
			db_drop(all->cayd->db, &b->info.id, NULL, NULL);
			forget(all, b);
		}
		b = newer;
	}
}

void box_unhold(struct box *b)
{
	assert(b->holds);
	b->holds--;
}

/* What clients see is made when they look: times are the wall's, of now. */
const struct sandbox *box_look(struct box *b)
{
	uint64_t boot = clk_boot_ns(b->cayd->clk), wall = clk_wall_ns(b->cayd->clk);
	const struct life *l = &b->life;

	b->info.has_expires = l->expires_ns != LIFE_NEVER && !life_over(l);
	if (b->info.has_expires)
		b->info.expires_ns = wall + (l->expires_ns - boot);
	if (!life_over(l))
		b->info.active_ns = wall - (boot - l->active_ns);
	return &b->info;
}

const char *box_text(struct box *b, const char *text)
{
	return text ? pool_strn(&b->pool, text, strlen(text)) : NULL;
}

void box_changed(struct box *b, unsigned before)
{
	struct boxes *all = b->cayd->boxes;
	uint64_t kept = b->cayd->settings.record_ttl_ms * NS_PER_MS;

	b->changed_boot = clk_boot_ns(b->cayd->clk);
	b->info.state = b->life.state;
	b->info.changed_ns = clk_wall_ns(b->cayd->clk);
	push_box(b);
	if (b->life.state != SB_PENDING)
		create_over(b);
	if (!life_over(&b->life) || before >= SB_TERMINATED)
		return;
	if (box_look(b)->has_end)
		b->cayd->ends[b->info.end.reason]++;
	give_range(all, b->range);
	all->n_ended++;
	if (b->life.failed && kept < FAILED_KEPT_NS)
		kept = FAILED_KEPT_NS;
	b->forget_boot = b->changed_boot + kept;
}

static int copy_texts(struct box *b, const struct field_texts *in, struct field_texts *ret)
{
	*ret = (struct field_texts){ .n = in->n };
	if (!in->n)
		return 0;
	ret->v = pool_take(&b->pool, in->n, sizeof(*ret->v));
	for (size_t i = 0; ret->v && i < in->n; i++) {
		ret->v[i] = box_text(b, in->v[i]);
		if (!ret->v[i])
			return -ENOMEM;
	}
	return ret->v ? 0 : -ENOMEM;
}

static int copy_map(struct box *b, const struct field_map *in, struct field_map *ret)
{
	struct field_texts keys = {}, values = {};
	int r = copy_texts(b, &(struct field_texts){ in->keys, in->n }, &keys);

	if (r >= 0)
		r = copy_texts(b, &(struct field_texts){ in->values, in->n }, &values);
	*ret = (struct field_map){ keys.v, values.v, in->n };
	return r;
}

static bool reserved(const char *key)
{
	return strncmp(key, "cay/", 4) == 0;
}

int box_label(struct box *b, const struct field_map *patch, struct cay_err *err)
{
	const struct field_map *old = &b->info.labels;
	struct field_map now = {};
	size_t max = old->n + patch->n;

	now.keys = pool_take(&b->pool, max + 1, sizeof(*now.keys));
	now.values = pool_take(&b->pool, max + 1, sizeof(*now.values));
	for (size_t i = 0; now.keys && now.values && i < max; i++) {
		bool mine = i < old->n;
		const char *key = mine ? old->keys[i] : patch->keys[i - old->n];
		const char *value = mine ? old->values[i] : patch->values[i - old->n];
		size_t k = 0;

		if (!mine && reserved(key))
			return cay_fail_field(err, CAY_E_INVALID, "labels", "'%s' is Cay's own",
					      key);
		while (k < now.n && !str_eq(now.keys[k], key))
			k++;
		if (!value) {
			if (k < now.n) {
				now.keys[k] = now.keys[--now.n];
				now.values[k] = now.values[now.n];
			}
			continue;
		}
		now.keys[k] = mine ? key : box_text(b, key);
		now.values[k] = mine ? value : box_text(b, value);
		if (!now.keys[k] || !now.values[k])
			return cay_fail(err, CAY_E_LIMIT, "labels changed too often");
		now.n += k == now.n;
	}
	if (!now.keys || !now.values)
		return cay_fail(err, CAY_E_LIMIT, "labels changed too often");
	if (now.n > 64)
		return cay_fail_field(err, CAY_E_INVALID, "labels", "more than 64 labels");
	b->info.labels = now;
	return 0;
}

static struct box *new_box(struct boxes *all)
{
	struct box *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->cayd = all->cayd;
	b->pidfd = -EBADF;
	b->pool = POOL_INIT(POOL_MAX);
	return b;
}

static void drop_new(struct box *b)
{
	pool_fini(&b->pool);
	free(b);
}

static int fill(struct box *b, const struct sandbox_create *spec, const struct box_key *key,
		const struct id *tenant)
{
	struct id id;
	int r = id_new(ID_SANDBOX, 0, 0, &id);

	if (r < 0)
		return r;
	b->life = life_new(&id, clk_boot_ns(b->cayd->clk),
			   spec->has_ttl ? spec->ttl_ms * NS_PER_MS : LIFE_NEVER,
			   spec->has_idle ? spec->idle_ms * NS_PER_MS : LIFE_NEVER,
			   b->cayd->settings.max_ttl_ms * NS_PER_MS);
	b->life.entry = spec->has_entrypoint;
	b->life.on_exit = (uint8_t)spec->on_exit;
	b->info = (struct sandbox){ .id = id,
				    .tenant = *tenant,
				    .limits = spec->limits,
				    .runtime = spec->runtime,
				    .created_ns = clk_wall_ns(b->cayd->clk),
				    .image = box_text(b, spec->image),
				    .name = box_text(b, spec->name),
				    .group = box_text(b, spec->group) };
	b->info.changed_ns = b->info.active_ns = b->info.created_ns;
	if (key->key.n) {
		b->key = pool_strn(&b->pool, key->key.p, key->key.n);
		b->key_body = box_text(b, key->body);
	}
	if (!b->info.image || (spec->name && !b->info.name) || (spec->group && !b->info.group) ||
	    (key->key.n && (!b->key || !b->key_body)) ||
	    copy_map(b, &spec->labels, &b->info.labels) < 0 ||
	    copy_map(b, &spec->env, &b->env) < 0 ||
	    copy_texts(b, &spec->entrypoint, &b->entrypoint) < 0)
		return -ENOMEM;
	return 0;
}

static unsigned group_size(struct boxes *all, const struct id *tenant, const char *group)
{
	unsigned n = 0;

	for (const struct box *b = box_before(all, tenant, 0); b; b = box_older(b))
		n += !life_over(&b->life) && b->info.group && str_eq(b->info.group, group);
	return n;
}

/* Whether there is room and reason for one more. */
static int admit(struct boxes *all, const struct id *tenant, const struct sandbox_create *spec,
		 struct cay_err *err)
{
	const struct settings *s = &all->cayd->settings;

	if (!tenant_known(all->cayd, tenant)) /* it went while the request was read */
		return cay_fail(err, CAY_E_NOT_FOUND, "there is no such tenant");
	if (boxes_live(all) >= s->max_boxes)
		return cay_fail(err, CAY_E_CAPACITY, "this node has %llu sandboxes",
				(unsigned long long)s->max_boxes);
	if (s->max_tenant < s->max_boxes && boxes_live_of(all, tenant) >= s->max_tenant)
		return cay_fail(err, CAY_E_LIMIT, "this tenant has %llu sandboxes",
				(unsigned long long)s->max_tenant);
	if (spec->group && s->max_group < s->max_boxes &&
	    group_size(all, tenant, spec->group) >= s->max_group)
		return cay_fail(err, CAY_E_LIMIT, "group '%s' has %llu sandboxes", spec->group,
				(unsigned long long)s->max_group);
	for (size_t i = 0; i < spec->labels.n; i++)
		if (reserved(spec->labels.keys[i]))
			return cay_fail_field(err, CAY_E_INVALID, "labels", "'%s' is Cay's own",
					      spec->labels.keys[i]);
	if (!link_up(all->cayd->link))
		return cay_fail(err, CAY_E_UNAVAILABLE, "the keeper is away");
	if (!(link_runtimes(all->cayd->link) & 1u << spec->runtime))
		return cay_fail_field(err, CAY_E_UNSUPPORTED, "runtime",
				      "this runtime is not installed here or failed its probes");
	return 0;
}

/* Creating a name again returns what has it, if that is what was asked for. */
static int same_request(const struct box *b, const struct sandbox_create *spec, struct cay_err *err)
{
	const struct limits *a = &b->info.limits, *l = &spec->limits;

	if (str_eq(b->info.image, spec->image) && b->info.runtime == spec->runtime &&
	    a->memory_bytes == l->memory_bytes && a->cpu_milli == l->cpu_milli &&
	    a->pids == l->pids)
		return 0;
	return cay_fail_field(err, CAY_E_CONFLICT, "name",
			      "'%s' is the name of a sandbox with another image, runtime or limits",
			      spec->name);
}

/* One that this request has made already, by its key or its name. */
static int find_made(struct boxes *all, const struct id *tenant, const struct sandbox_create *spec,
		     const struct box_key *key, struct box **ret, struct cay_err *err)
{
	*ret = find_key(all, tenant, key->key);
	if (*ret && !str_eq((*ret)->key_body, key->body))
		return cay_fail(err, CAY_E_KEY_REUSED,
				"this idempotency key was used for another request");
	if (*ret)
		return 0;
	*ret = spec->name ? find_name(all, tenant, spec->name) : NULL;
	return *ret ? same_request(*ret, spec, err) : 0;
}

int box_check(struct boxes *all, const struct id *tenant, const struct sandbox_create *spec,
	      const struct box_key *key, struct box **ret, struct cay_err *err)
{
	int r = find_made(all, tenant, spec, key, ret, err);

	if (r < 0 || *ret)
		return r;
	if (!image_find(all->cayd->images, spec->image))
		return cay_fail_field(err, CAY_E_NOT_FOUND, "image", "there is no image '%s'",
				      spec->image);
	return admit(all, tenant, spec, err);
}

int box_create(struct boxes *all, const struct id *tenant, const struct sandbox_create *spec,
	       const struct box_key *key, struct box **ret, struct cay_err *err)
{
	struct box *b;
	int r = box_check(all, tenant, spec, key, ret, err);

	if (r < 0 || *ret)
		return r;
	b = new_box(all);
	if (!b)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	memcpy(b->image, image_find(all->cayd->images, spec->image)->digest, sizeof(b->image));
	r = fill(b, spec, key, tenant);
	if (r >= 0)
		r = take_range(all, &b->range);
	if (r < 0) {
		drop_new(b);
		return cay_fail_sys(err, CAY_E_CAPACITY, -r, "make a sandbox");
	}
	b->seq = ++all->seq;
	link_in(all, b);
	(void)box_happens(b, &(struct life_event){ .kind = LIFE_ACCEPTED });
	*ret = b;
	return 0;
}

int box_restore(struct boxes *all, const struct life *life, const struct sandbox_record *record,
		uint64_t seq, struct box **ret, struct cay_err *err)
{
	const struct sandbox *from = &record->sandbox;
	struct box *b = new_box(all);

	if (!b)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	b->life = *life;
	life_wake(&b->life);
	b->info = *from;
	b->info.state = life->state;
	b->seq = seq;
	b->range = (uint32_t)record->range;
	b->wanted = record->wanted;
	b->has_wanted = record->has_wanted;
	b->info.image = box_text(b, from->image);
	b->info.name = box_text(b, from->name);
	b->info.group = box_text(b, from->group);
	b->info.entry = box_text(b, from->entry);
	b->info.end.detail = box_text(b, from->end.detail);
	b->info.end.signal = box_text(b, from->end.signal);
	b->key = box_text(b, record->key);
	b->key_body = box_text(b, record->key_body);
	b->forget_boot =
		clk_boot_ns(all->cayd->clk) + all->cayd->settings.record_ttl_ms * NS_PER_MS;
	if (!id_eq(&from->id, &life->id) || record->range > VERB_RANGE_MAX || !b->info.image ||
	    (b->key && !b->key_body) ||
	    hex_read(record->image_digest, strlen(record->image_digest), b->image, 32) < 0 ||
	    copy_map(b, &from->labels, &b->info.labels) < 0 ||
	    copy_map(b, &record->env, &b->env) < 0 ||
	    copy_texts(b, &record->entrypoint, &b->entrypoint) < 0) {
		drop_new(b);
		return cay_fail(err, CAY_E_INVALID, "a row of the journal makes no sense");
	}
	if (life->state >= SB_ENDING && !from->has_end) { /* changed by hand */
		b->info.has_end = true;
		b->info.end.reason = life->reason;
		b->info.end.detail = box_text(b, "the journal does not say more");
	}
	if (life->state >= SB_ENDING && life->reason == END_START_FAILED)
		(void)cay_fail(&b->failure, CAY_E_RUNTIME, "%s",
			       b->info.end.detail ? b->info.end.detail : "it could not be started");
	if (!life_over(life))
		boxes_keep_range(all, b->range);
	if (all->seq < seq)
		all->seq = seq;
	link_in(all, b);
	*ret = b;
	return 0;
}
