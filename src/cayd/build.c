/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/build.h"

#include <assert.h>

#include "auth/key.h"
#include "cayd/build-internal.h"
#include "cayd/layer.h"
#include "cayd/link.h"
#include "ops/package.h"
#include "text/hex.h"

#define TICK_MS 50
#define SPEC_MAX MIB(16)
#define POOL_MAX (2 * MIB(16))
#define COMMITS_MAX 5
#define DROPS_MAX 100
#define DROP_AGAIN_MS 500

struct builds {
	struct build *first; /* the newest */
	unsigned live, over;
};

int builds_open(struct cayd *c, struct cay_err *err)
{
	c->builds = calloc(1, sizeof(*c->builds));
	return c->builds ? 0 : cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
}

bool build_has(const struct id *tenant)
{
	return id_eq(tenant, &build_tenant);
}

bool build_any(const struct layer_spec *spec)
{
	return spec->files.n || spec->setup.n || packages_any(&spec->packages);
}

bool build_over(const struct build *b)
{
	return b->state == BUILD_OVER;
}

const char *build_hash(const struct build *b)
{
	return b->hash;
}

struct build *build_find(struct cayd *c, const char *hash)
{
	struct build *b = c->builds->first;

	while (b && !str_eq(b->hash, hash))
		b = b->next;
	return b;
}

/* The log */

void build_say(struct build *b, const char *p, size_t n)
{
	size_t drop;

	if (n > BUILD_LOG_MAX) {
		b->log_lost += n - BUILD_LOG_MAX;
		p += n - BUILD_LOG_MAX;
		n = BUILD_LOG_MAX;
	}
	drop = b->log.len + n > BUILD_LOG_MAX ? b->log.len + n - BUILD_LOG_MAX : 0;
	/* a quarter at once: dropping moves the rest */
	if (drop && drop < BUILD_LOG_MAX / 4)
		drop = b->log.len < BUILD_LOG_MAX / 4 ? b->log.len : BUILD_LOG_MAX / 4;
	buf_consume(&b->log, drop);
	b->log_lost += drop;
	if (buf_add(&b->log, p, n) < 0)
		b->log_lost += n;
}

struct slice build_log(const struct build *b, uint64_t offset, uint64_t *at)
{
	uint64_t end = b->log_lost + b->log.len;

	*at = offset < b->log_lost ? b->log_lost : offset > end ? end : offset;
	return (struct slice){ buf_str(&b->log) + (*at - b->log_lost), (size_t)(end - *at) };
}

/* Builds that are over */

static void build_free(struct build *b)
{
	pool_fini(&b->pool);
	buf_fini(&b->log);
	buf_fini(&b->feed);
	free(b);
}

/* Never the one that is just over: who ended it still looks at it. */
static void forget_oldest(struct builds *all, const struct build *now)
{
	struct build **at = &all->first, **last = NULL;

	for (; *at; at = &(*at)->next)
		if ((*at)->state == BUILD_OVER && !(*at)->asking && *at != now)
			last = at;
	if (all->over > BUILDS_KEPT && last) {
		struct build *b = *last;

		*last = b->next;
		all->over--;
		build_free(b);
	}
}

static void on_tick_closed(uv_handle_t *h)
{
	free(h);
}

/* What went into it may be secret: only its name and its log stay. */
static void empty(struct build *b)
{
	pool_fini(&b->pool);
	buf_fini(&b->feed);
	b->spec = (struct layer_spec){};
	b->told = (struct exec){};
	b->steps = NULL;
	b->n_steps = b->at = 0;
}

static void finish(struct build *b, const struct image_row *layer, const struct cay_err *err)
{
	struct builds *all = b->cayd->builds;
	struct build_waiter *w = cay_take(b->waiters);

	if (b->state == BUILD_OVER)
		return;
	b->state = BUILD_OVER;
	all->live--;
	all->over++;
	if (b->tick)
		uv_close((uv_handle_t *)b->tick, on_tick_closed);
	b->tick = NULL;
	if (b->box) {
		box_end(b->box, END_KILLED, "its build is over");
		box_unhold(b->box);
		b->box = NULL;
	}
	empty(b);
	while (w) {
		struct build_waiter *next = w->next;

		w->fn(w->arg, layer, err);
		free(w);
		w = next;
	}
	forget_oldest(all, b);
}

void build_fail(struct build *b, const struct cay_err *err)
{
	build_say(b, err->msg, strlen(err->msg));
	build_say(b, "\n", 1);
	log_warn(&b->cayd->log, "a build failed: %s", err->msg);
	finish(b, NULL, err);
}

/* Layers nobody knows */

struct dropping {
	struct cayd *cayd;
	uv_timer_t again;
	struct verb_image_commit q;
	unsigned tries;
	bool cut_off; /* its sandbox goes behind it: what a layer is called only that one's record
			 says */
};

static void drop(uv_timer_t *t);

static void cut_off(struct box *b)
{
	if (b && !life_over(&b->life))
		box_end(b, END_KILLED, "its build was cut off");
}

static void on_dropping_closed(uv_handle_t *h)
{
	free(h->data);
}

/* A keeper that went away is asked again when it is back. */
static void drop_over(struct dropping *d, const struct cay_err *outcome)
{
	if (outcome->code == CAY_E_UNAVAILABLE && ++d->tries < DROPS_MAX) {
		(void)uv_timer_start(&d->again, drop, DROP_AGAIN_MS, 0);
		return;
	}
	if (outcome->code && outcome->code != CAY_E_NOT_FOUND)
		log_warn(&d->cayd->log, "a layer nobody knows may be left: %s", outcome->msg);
	if (d->cut_off)
		cut_off(box_find(d->cayd->boxes, &d->q.sandbox));
	uv_close((uv_handle_t *)&d->again, on_dropping_closed);
}

static void on_removed(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	cay_closep(&fd);
	drop_over(arg, outcome);
}

static void on_asked(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct dropping *d = arg;
	struct verb_image_commit_reply made;
	struct verb_image_remove q = {};

	cay_closep(&fd);
	if (!outcome->code) {
		memcpy(&made, reply, sizeof(made));
		memcpy(q.digest, made.digest, sizeof(q.digest));
		if (!image_by_digest(d->cayd->images, q.digest)) {
			link_call(d->cayd->link, VERB_IMAGE_REMOVE, &q, -EBADF, on_removed, d);
			return;
		}
	}
	drop_over(d, outcome);
}

static void drop(uv_timer_t *t)
{
	struct dropping *d = t->data;

	link_call(d->cayd->link, VERB_IMAGE_COMMIT, &d->q, -EBADF, on_asked, d);
}

/* Asked to commit once more the keeper says what the layer is called: one that was made
 * and that nobody noted goes.  So does one that it makes only now. */
static bool drop_unknown(const struct box *b, bool cut_off)
{
	struct dropping *d = calloc(1, sizeof(*d));

	if (!d)
		return false; /* the next start tries again */
	d->cayd = b->cayd;
	d->q.sandbox = b->info.id;
	d->q.generation = b->life.generation;
	memcpy(d->q.parent, b->image, sizeof(d->q.parent));
	(void)uv_timer_init(&b->cayd->loop, &d->again);
	d->again.data = d;
	d->cut_off = cut_off;
	drop(&d->again);
	return true;
}

/* Making the layer */

static void on_noted(void *arg, const struct image_row *row, const struct cay_err *err)
{
	struct build *b = arg;

	b->asking = false;
	if (b->state != BUILD_COMMITTING)
		return;
	if (row) {
		finish(b, row, err);
		return;
	}
	(void)drop_unknown(b->box, /* cut_off= */ false);
	build_fail(b, err);
}

static void on_committed(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct build *b = arg;
	struct verb_image_commit_reply made;

	cay_closep(&fd);
	if (b->state == BUILD_COMMITTING && !outcome->code) {
		memcpy(&made, reply, sizeof(made));
		image_note_layer(b->cayd->images,
				 &(struct image_layer_note){ .parent = b->parent,
							     .digest = made.digest,
							     .hash = b->hash,
							     .tenant = b->tenant,
							     .bytes = b->bytes },
				 on_noted, b);
		return;
	}
	b->asking = false;
	if (outcome->code == CAY_E_UNAVAILABLE && b->commits < COMMITS_MAX)
		return; /* said again when the keeper is back */
	if (b->state == BUILD_COMMITTING)
		on_noted(b, NULL, outcome);
}

static void commit(struct build *b)
{
	struct verb_image_commit q = { .sandbox = b->box->info.id,
				       .generation = b->box->life.generation };

	memcpy(q.parent, b->parent, sizeof(q.parent));
	b->state = BUILD_COMMITTING;
	b->asking = true;
	b->commits++;
	link_call(b->cayd->link, VERB_IMAGE_COMMIT, &q, -EBADF, on_committed, b);
}

/* Where nobody counts, a layer is as large as what it is over. */
static void on_sized(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct build *b = arg;
	struct verb_usage_reply now;

	cay_closep(&fd);
	b->asking = false;
	if (b->state != BUILD_COMMITTING)
		return;
	if (!outcome->code) {
		memcpy(&now, reply, sizeof(now));
		b->bytes = now.disk_bytes == UINT64_MAX ? 0 : now.disk_bytes;
	}
	commit(b);
}

void build_commit(struct build *b)
{
	struct verb_box q = { .sandbox = b->box->info.id, .generation = b->box->life.generation };

	if (b->state == BUILD_COMMITTING) { /* once more */
		commit(b);
		return;
	}
	b->state = BUILD_COMMITTING;
	b->asking = true;
	link_call(b->cayd->link, VERB_USAGE, &q, -EBADF, on_sized, b);
}

static void box_gone(struct build *b)
{
	struct box *box = b->box;
	struct cay_err err = box->failure;

	if (box->life.reason == END_TTL)
		(void)cay_fail(&err, CAY_E_TIMEOUT, "the build took longer than %llu s",
			       (unsigned long long)(BUILD_TTL_MS / 1000));
	if (!err.code)
		(void)cay_fail(&err, CAY_E_BUILD, "the sandbox of the build ended: %s",
			       box->info.end.detail ? box->info.end.detail : "");
	build_fail(b, &err);
}

/* A tenant's, and nobody came back for it. */
static bool is_left(struct build *b)
{
	uint64_t now = clk_boot_ns(b->cayd->clk);

	if (b->waiters || b->tenant.noun == ID_NONE || b->state == BUILD_COMMITTING)
		b->alone_ns = now;
	return now - b->alone_ns > BUILD_ALONE_NS;
}

static void on_tick(uv_timer_t *t)
{
	struct build *b = t->data;
	unsigned state = b->box->life.state;
	struct cay_err err = {};

	if (is_left(b)) {
		(void)cay_fail(&err, CAY_E_BUILD, "nobody waits for it any more");
		build_fail(b, &err);
		return;
	}
	if (b->asking)
		return;
	if (b->state == BUILD_COMMITTING) {
		if (link_up(b->cayd->link))
			build_commit(b);
		return;
	}
	if (b->state == BUILD_STARTING && state == SB_RUNNING)
		b->state = BUILD_RUNNING;
	if (state == SB_RUNNING)
		build_go_on(b);
	else if (state != SB_PENDING)
		box_gone(b);
}

/* Asking for one */

/* A copy in order: the same packages are the same, however they were said. */
static int sorted(struct pool *pool, struct field_map *map)
{
	struct field_map from = *map;

	map->keys = pool_take(pool, from.n + 1, sizeof(*map->keys));
	map->values = pool_take(pool, from.n + 1, sizeof(*map->values));
	if (!map->keys || !map->values)
		return -ENOMEM;
	for (size_t i = 0; i < from.n; i++) {
		map->keys[i] = from.keys[i];
		map->values[i] = from.values[i];
	}
	for (size_t i = 1; i < map->n; i++)
		for (size_t k = i; k && strcmp(map->keys[k - 1], map->keys[k]) > 0; k--) {
			const char *key = map->keys[k], *value = map->values[k];

			map->keys[k] = map->keys[k - 1];
			map->values[k] = map->values[k - 1];
			map->keys[k - 1] = key;
			map->values[k - 1] = value;
		}
	return 0;
}

/* Its own copy of all that goes into it, and what that is called. */
static int take_spec(struct build *b, const struct layer_spec *spec, struct cay_err *err)
{
	static const struct json_limits limits = { SPEC_MAX, 8, 100000 };
	auto_buf text = BUF_INIT(SPEC_MAX);
	struct jw w = jw_to(&text);
	uint8_t hash[KEY_HASH_LEN];
	struct layer_spec s = *spec;
	struct field_map *maps[] = { &s.env, &s.packages.python, &s.packages.node, &s.packages.r };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		if (sorted(&b->pool, maps[i]) < 0)
			return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	field_encode(&layer_spec_table, NULL, &s, &w);
	r = jw_done(&w);
	if (r < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, "that is too much for one layer");
	key_hash((struct slice){ text.data, text.len }, hash);
	hex_write(hash, sizeof(hash), b->hash);
	return field_read(&layer_spec_table, (struct slice){ text.data, text.len }, &limits,
			  &b->pool, &b->spec, err);
}

static int start_box(struct build *b, const struct sandbox_create *like, struct cay_err *err)
{
	struct sandbox_create spec = { .image = b->spec.image,
				       .layer = b->spec.image,
				       .env = b->spec.env,
				       .limits = like->limits,
				       .runtime = like->runtime,
				       .ttl_ms = BUILD_TTL_MS,
				       .has_ttl = true };
	struct box_key key = {};
	int r;

	/* what is to be a layer is on disk: these are of the memory of the other */
	if (like->storage == STORAGE_MEMORY)
		spec.limits.has_disk_bytes = spec.limits.has_disk_inodes = false;
	r = box_create(b->cayd->boxes, &build_tenant, &spec, &key, &b->box, err);
	if (r < 0)
		return r;
	b->box->holds++;
	b->tick = calloc(1, sizeof(*b->tick));
	if (!b->tick)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	(void)uv_timer_init(&b->cayd->loop, b->tick);
	b->tick->data = b;
	return uv_timer_start(b->tick, on_tick, TICK_MS, TICK_MS);
}

static int wait_for(struct build *b, build_fn *fn, void *arg, struct cay_err *err)
{
	struct build_waiter *w = malloc(sizeof(*w));

	if (!w)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	*w = (struct build_waiter){ b->waiters, fn, arg };
	b->waiters = w;
	return 0;
}

static unsigned live_of(const struct builds *all, const struct id *tenant)
{
	unsigned n = 0;

	for (const struct build *b = all->first; b; b = b->next)
		n += b->state != BUILD_OVER && id_eq(&b->tenant, tenant);
	return n;
}

static int has_room(struct cayd *c, const struct build_order *order, struct cay_err *err)
{
	const struct builds *all = c->builds;
	unsigned n = order->tenant ? live_of(all, order->tenant) : 0;

	if (all->live >= BUILDS_LIVE)
		return cay_fail(err, CAY_E_OVERLOADED, "%d builds run already", BUILDS_LIVE);
	if (!order->by_operator && n >= BUILDS_TENANT)
		return cay_fail(err, CAY_E_OVERLOADED, "%d builds of this tenant run already",
				BUILDS_TENANT);
	return layer_room(c, order->tenant, n, all->live, err);
}

static int begin(struct build *b, const struct build_order *order, struct cay_err *err)
{
	const struct image_row *image = image_find(b->cayd->images, b->spec.image);
	struct builds *all = b->cayd->builds;
	int r = build_plan(b, err);

	if (r < 0)
		return r;
	if (!image)
		return cay_fail_field(err, CAY_E_NOT_FOUND, "image", "there is no image '%s'",
				      b->spec.image);
	memcpy(b->parent, image->digest, sizeof(b->parent));
	r = has_room(b->cayd, order, err);
	if (r < 0)
		return r;
	if (order->tenant)
		b->tenant = *order->tenant;
	b->alone_ns = clk_boot_ns(b->cayd->clk);
	r = start_box(b, order->box, err);
	if (r >= 0) {
		b->next = all->first;
		all->first = b;
		all->live++;
	} else if (b->box) {
		box_end(b->box, END_KILLED, "its build did not begin");
		box_unhold(b->box);
	}
	return r;
}

/* One that is over is made anew: it failed, or its layer was removed since. */
static struct build *find_live(struct cayd *c, const char *hash)
{
	struct build *b = c->builds->first;

	while (b && (b->state == BUILD_OVER || !str_eq(b->hash, hash)))
		b = b->next;
	return b;
}

int build_ask(struct cayd *c, const struct build_order *order, build_fn *fn, void *arg,
	      const struct image_row **ret_layer, struct build **ret_build, struct cay_err *err)
{
	struct build *b = calloc(1, sizeof(*b)), *live;
	int r;

	*ret_layer = NULL;
	*ret_build = NULL;
	if (!b)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	*b = (struct build){ .cayd = c, .pool = POOL_INIT(POOL_MAX) };
	b->log = BUF_INIT(BUILD_LOG_MAX);
	b->feed = BUF_INIT(MIB(2));
	r = take_spec(b, &order->spec, err);
	*ret_layer = r < 0 ? NULL : image_layer(c->images, b->hash);
	live = r < 0 || *ret_layer ? NULL : find_live(c, b->hash);
	if (r < 0 || *ret_layer || live) {
		build_free(b);
		b = live;
	} else {
		r = begin(b, order, err);
		if (r < 0) {
			if (b->tick)
				uv_close((uv_handle_t *)b->tick, on_tick_closed);
			build_free(b);
		}
	}
	if (r < 0 || *ret_layer)
		return r;
	*ret_build = b;
	return wait_for(b, fn, arg, err);
}

void build_leave(struct build *b, const void *arg)
{
	struct build_waiter **at = &b->waiters;

	while (*at && (*at)->arg != arg)
		at = &(*at)->next;
	if (*at) {
		struct build_waiter *w = *at;

		*at = w->next;
		free(w);
	}
}

void builds_recover(struct cayd *c)
{
	for (struct box *b = boxes_newest(c->boxes), *next; b; b = next) {
		next = b->older;
		if (!build_has(&b->info.tenant))
			continue;
		if (!drop_unknown(b, /* cut_off= */ true))
			cut_off(b);
	}
}
