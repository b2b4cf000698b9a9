/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/box.h"

#include <assert.h>
#include <stdio.h>

#include "cayd/admit.h"
#include "cayd/create.h"
#include "cayd/image.h"
#include "cayd/limit.h"
#include "cayd/link.h"
#include "cayd/push.h"
#include "cayd/record.h"
#include "cayd/resize.h"
#include "cayd/revoke.h"
#include "cayd/services.h"
#include "cayd/sign.h"
#include "cayd/stock.h"
#include "cayd/tally.h"
#include "cayd/tenant.h"
#include "text/hex.h"

#define BUCKETS 16384
#define POOL_MAX KIB(256)
#define FAILED_KEPT_NS (UINT64_C(3600) * NS_PER_S)

struct boxes {
	struct cayd *cayd;
	struct box *by_id[BUCKETS], *by_name[BUCKETS], *by_key[BUCKETS];
	struct box *newest, *oldest;
	struct tally *tally;
	uint64_t seq;
	unsigned n, n_ended, n_ending;
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
	if (!c->boxes || !(c->boxes->tally = tally_new()))
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

const struct tally *boxes_tally(const struct boxes *all)
{
	return all->tally;
}

unsigned boxes_placed(const struct boxes *all)
{
	return all->n - all->n_ended - all->n_ending;
}

unsigned boxes_live(const struct boxes *all)
{
	return all->n - all->n_ended;
}

/* By its name and its key; and as the newest. */
static void link_names(struct boxes *all, struct box *b)
{
	struct box **at;

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
	b->newer = NULL;
	if (all->newest)
		all->newest->newer = b;
	else
		all->oldest = b;
	all->newest = b;
}

static void unlink_order(struct boxes *all, struct box *b)
{
	*(b->newer ? &b->newer->older : &all->newest) = b->older;
	*(b->older ? &b->older->newer : &all->oldest) = b->newer;
}

static void link_in(struct boxes *all, struct box *b)
{
	struct box **at = &all->by_id[hash(&b->info.id, sizeof(b->info.id))];

	b->next_by_id = *at;
	*at = b;
	link_names(all, b);
	all->n++;
	all->n_ended += life_over(&b->life);
	all->n_ending += b->life.state == SB_ENDING;
	tally_in(all->tally, b);
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

static void free_box(struct box *b)
{
	free(b->revoked);
	pool_fini(&b->pool);
	free(b);
}

static void forget(struct boxes *all, struct box *b)
{
	struct box **at = &all->by_id[hash(&b->info.id, sizeof(b->info.id))];

	while (*at != b)
		at = &(*at)->next_by_id;
	*at = b->next_by_id;
	UNLINK(all, b, by_name, next_by_name, b->info.name);
	UNLINK(all, b, by_key, next_by_key, b->key);
	unlink_order(all, b);
	all->n--;
	all->n_ended--;
	free_box(b);
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

void box_changed(struct box *b, unsigned before)
{
	struct boxes *all = b->cayd->boxes;
	uint64_t kept = b->cayd->settings.record_ttl_ms * NS_PER_MS;

	b->changed_boot = clk_boot_ns(b->cayd->clk);
	b->info.state = b->life.state;
	b->info.changed_ns = clk_wall_ns(b->cayd->clk);
	if (!b->life.warm)
		push_box(b);
	if (b->life.state != SB_PENDING)
		create_over(b);
	all->n_ending += b->life.state == SB_ENDING;
	all->n_ending -= before == SB_ENDING;
	tally_in(all->tally, b);
	if (!life_over(&b->life) || before >= SB_TERMINATED)
		return;
	if (box_look(b)->has_end && !b->life.warm)
		b->cayd->ends[b->info.end.reason]++;
	give_range(all, b->range);
	all->n_ended++;
	if (b->life.failed && kept < FAILED_KEPT_NS)
		kept = FAILED_KEPT_NS;
	b->forget_boot = b->changed_boot + (b->life.warm ? 0 : kept);
}

static struct box *new_box(struct boxes *all)
{
	struct box *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->cayd = all->cayd;
	b->pidfd = -EBADF;
	b->epoch = SIGN_EPOCH;
	b->pool = POOL_INIT(POOL_MAX);
	return b;
}

struct life_terms box_terms(const struct cayd *c, const struct sandbox_create *spec)
{
	return (struct life_terms){
		.ttl_ns = spec->has_ttl ? spec->ttl_ms * NS_PER_MS : LIFE_NEVER,
		.idle_ns = spec->has_idle ? spec->idle_ms * NS_PER_MS : LIFE_NEVER,
		.max_ns = c->settings.max_ttl_ms * NS_PER_MS,
		.entry = spec->has_entrypoint || spec->image_entrypoint,
		.on_exit = (uint8_t)spec->on_exit,
	};
}

/* Whose it is, and all that this one wants of it. */
static int give(struct box *b, const struct sandbox_create *spec, const struct box_key *key,
		const struct id *tenant)
{
	const struct image_row *image = image_by_digest(b->cayd->images, b->image);
	const struct field_texts *argv =
		spec->image_entrypoint && image ? &image->config.argv : &spec->entrypoint;
	struct limits limits;
	int r = limit_settle(b->cayd, spec, &limits, NULL);

	if (r < 0)
		return r;
	b->info = (struct sandbox){ .id = b->life.id,
				    .tenant = *tenant,
				    .runtime = spec->runtime,
				    .created_ns = clk_wall_ns(b->cayd->clk),
				    .image = box_text(b, spec->image),
				    .template = box_text(b, spec->template),
				    .name = box_text(b, spec->name),
				    .group = box_text(b, spec->group),
				    .timezone = box_text(b, spec->timezone) };
	b->info.limits = limits;
	b->info.storage = spec->storage;
	b->info.app_port = spec->has_app_port ? spec->app_port : APP_PORT;
	b->info.has_writable = spec->has_writable;
	b->info.changed_ns = b->info.active_ns = b->info.created_ns;
	if (key->key.n) {
		b->key = pool_strn(&b->pool, key->key.p, key->key.n);
		b->key_body = box_text(b, key->body);
	}
	if (!b->info.image || (spec->name && !b->info.name) ||
	    (spec->template && !b->info.template) || (spec->group && !b->info.group) ||
	    (spec->timezone && !b->info.timezone) || (key->key.n && (!b->key || !b->key_body)) ||
	    box_keep_map(b, &spec->labels, &b->info.labels) < 0 ||
	    box_keep_map(b, &spec->env, &b->env) < 0 ||
	    box_keep_texts(b, &spec->writable, &b->info.writable) < 0 ||
	    box_keep_texts(b, argv, &b->entrypoint) < 0 ||
	    field_copy_list(&service_spec_table, &spec->services, &b->pool, &b->services) < 0)
		return -ENOMEM;
	return record_check(b);
}

static int fill(struct box *b, const struct sandbox_create *spec, const struct box_key *key,
		const struct id *tenant)
{
	struct life_terms t = box_terms(b->cayd, spec);
	struct id id;
	int r = id_new(ID_SANDBOX, 0, 0, &id);

	if (r < 0)
		return r;
	b->life = life_new(&id, clk_boot_ns(b->cayd->clk), t.ttl_ns, t.idle_ns, t.max_ns);
	b->life.entry = t.entry;
	b->life.on_exit = t.on_exit;
	b->home = *tenant;
	return give(b, spec, key, tenant);
}

/* Creating a name again returns what has it, if that is what was asked for. */
static int same_request(const struct box *b, const struct sandbox_create *spec, struct cay_err *err)
{
	if (str_eq(b->info.image, spec->image) && b->info.runtime == spec->runtime &&
	    (!spec->has_app_port || spec->app_port == b->info.app_port) && limit_same(b, spec))
		return 0;
	return cay_fail_field(err, CAY_E_CONFLICT, "name",
			      "'%s' is the name of a sandbox with another image, runtime, storage, "
			      "app_port or limits",
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
	struct limits settled;

	if (r < 0 || *ret)
		return r;
	r = image_check(all->cayd->images, spec, err);
	if (r >= 0)
		r = labels_check(&spec->labels, err);
	if (r >= 0)
		r = services_check(&spec->services, "services", err);
	if (r >= 0)
		r = limit_storage(spec, err);
	if (r >= 0)
		r = limit_settle(all->cayd, spec, &settled, err);
	return r < 0 ? r : admit_check(all->cayd, tenant, spec, err);
}

static int make(struct boxes *all, const struct id *tenant, const struct sandbox_create *spec,
		const struct box_key *key, bool warm, struct box **ret, struct cay_err *err)
{
	struct box *b = new_box(all);
	int r;

	if (!b)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	memcpy(b->image, image_for(all->cayd->images, spec)->digest, sizeof(b->image));
	r = fill(b, spec, key, tenant);
	if (r >= 0)
		r = take_range(all, &b->range);
	if (r < 0) {
		free_box(b);
		if (r == -E2BIG)
			return cay_fail(err, CAY_E_TOO_LARGE,
					"its variables, services and entrypoint are more than the "
					"journal keeps of one sandbox");
		return cay_fail_sys(err, CAY_E_CAPACITY, -r, "make a sandbox");
	}
	b->seq = ++all->seq;
	if (warm) { /* its time begins when it is taken */
		b->life =
			life_new(&b->info.id, b->life.born_ns, LIFE_NEVER, LIFE_NEVER, LIFE_NEVER);
		b->life.warm = true;
	}
	link_in(all, b);
	image_used(all->cayd->images, b->image);
	*ret = b;
	return 0;
}

int box_create(struct boxes *all, const struct id *tenant, const struct sandbox_create *spec,
	       const struct box_key *key, struct box **ret, struct cay_err *err)
{
	int r = box_check(all, tenant, spec, key, ret, err);

	if (r < 0 || *ret)
		return r;
	r = admit_take(all->cayd, tenant, spec, err);
	if (r >= 0)
		r = make(all, tenant, spec, key, false, ret, err);
	if (r >= 0)
		(void)box_happens(*ret, &(struct life_event){ .kind = LIFE_ACCEPTED });
	return r;
}

int box_warm(struct boxes *all, const struct sandbox_create *spec, struct box **ret,
	     struct cay_err *err)
{
	if (!image_for(all->cayd->images, spec))
		return cay_fail(err, CAY_E_NOT_FOUND, "there is no image '%s'", spec->image);
	return make(all, &warm_tenant, spec, &(struct box_key){}, true, ret, err);
}

int box_take(struct box *b, const struct id *tenant, const struct sandbox_create *spec,
	     const struct box_key *key)
{
	struct boxes *all = b->cayd->boxes;
	struct life_event ev = { .kind = LIFE_TAKE, .terms = box_terms(b->cayd, spec) };
	struct limits was = b->info.limits;

	tally_out(all->tally, b);
	if (give(b, spec, key, tenant) < 0) {
		b->info.name = b->key = NULL; /* nobody finds it by them */
		tally_in(all->tally, b);
		return -ENOMEM;
	}
	tally_in(all->tally, b);
	b->relimit |= limit_changed(&was, &b->info.limits);
	unlink_order(all, b);
	b->seq = ++all->seq;
	link_names(all, b);
	(void)box_happens(b, &ev);
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
	/* who was taking it when we died may have changed them */
	b->relimit = life->warm ? LIMIT_ALL : 0;
	b->info = *from;
	b->info.state = life->state;
	b->seq = seq;
	b->range = (uint32_t)record->range;
	b->home = record->home.noun ? record->home : from->tenant;
	b->wanted = record->wanted;
	b->has_wanted = record->has_wanted;
	if (record->has_epoch)
		b->epoch = (uint32_t)record->epoch;
	b->info.image = box_text(b, from->image);
	b->info.template = box_text(b, from->template);
	b->info.limits.given = b->wanted.given =
		0; /* all of them, also those it had not heard of */
	b->info.name = box_text(b, from->name);
	b->info.group = box_text(b, from->group);
	b->info.timezone = box_text(b, from->timezone);
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
	    box_keep_map(b, &from->labels, &b->info.labels) < 0 ||
	    box_keep_map(b, &record->env, &b->env) < 0 ||
	    box_keep_texts(b, &from->writable, &b->info.writable) < 0 ||
	    box_keep_texts(b, &record->entrypoint, &b->entrypoint) < 0 ||
	    field_copy_list(&service_spec_table, &record->services, &b->pool, &b->services) < 0 ||
	    revoke_restore(b, &record->revoked) < 0) {
		free_box(b);
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
	if (life->warm && life->state == SB_PENDING)
		stock_adopt(b);
	if (all->seq < seq)
		all->seq = seq;
	link_in(all, b);
	*ret = b;
	return 0;
}
