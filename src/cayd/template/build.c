/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/template/build.h"

#include "cayd/core/keeper-link.h"
#include "cayd/template/build-internal.h"
#include "cayd/template/package-layer.h"
#include "cayd/tenant/admit.h"
#include "cayd/tenant/quota.h"
#include "cayd/tenant/tenant.h"
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
	unsigned live, finished;
};

int builds_open(struct cayd *c, struct cay_err *err)
{
	c->builds = calloc(1, sizeof(*c->builds));
	return c->builds ? 0 : cay_no_memory(err);
}

bool layer_spec_has_steps(const struct layer_spec *spec)
{
	return spec->files.n || spec->setup.n || packages_has_any(&spec->packages);
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

void build_log_append(struct build *b, const char *p, size_t n)
{
	size_t drop;

	if (n > BUILD_LOG_MAX) {
		b->log_lost += n - BUILD_LOG_MAX;
		p += n - BUILD_LOG_MAX;
		n = BUILD_LOG_MAX;
	}
	drop = b->log.len + n > BUILD_LOG_MAX ? b->log.len + n - BUILD_LOG_MAX : 0;
	/* a quarter at once, because each drop moves the rest */
	if (drop && drop < BUILD_LOG_MAX / 4)
		drop = b->log.len < BUILD_LOG_MAX / 4 ? b->log.len : BUILD_LOG_MAX / 4;
	buf_consume(&b->log, drop);
	b->log_lost += drop;
	if (buf_append(&b->log, p, n) < 0)
		b->log_lost += n;
}

struct slice build_log_read(const struct build *b, uint64_t offset, uint64_t *at)
{
	uint64_t end = b->log_lost + b->log.len;

	*at = offset < b->log_lost ? b->log_lost : offset > end ? end : offset;
	return (struct slice){ buf_str(&b->log) + (*at - b->log_lost), (size_t)(end - *at) };
}

/* Finished builds */

static void build_free(struct build *b)
{
	arena_fini(&b->arena);
	buf_fini(&b->log);
	buf_fini(&b->stdin_pending);
	free(b);
}

/* Never the newest: its caller still uses it. */
static void build_forget_oldest(struct builds *all, const struct build *now)
{
	struct build **at = &all->first, **last = NULL;

	for (; *at; at = &(*at)->next)
		if ((*at)->state == BUILD_FINISHED && !(*at)->call_pending && *at != now)
			last = at;
	if (all->finished > BUILDS_KEPT && last) {
		struct build *b = *last;

		*last = b->next;
		all->finished--;
		build_free(b);
	}
}

/* Inputs may contain secrets: keep only the hash and the log. */
static void build_clear_inputs(struct build *b)
{
	arena_fini(&b->arena);
	buf_fini(&b->stdin_pending);
	b->spec = (struct layer_spec){};
	b->exec_info = (struct exec_info){};
	b->steps = NULL;
	b->n_steps = b->step = 0;
}

static void build_finish(struct build *b, const struct image *layer, const struct cay_err *err)
{
	struct builds *all = b->cayd->builds;
	struct build_waiter *w = cay_take(b->waiters);

	if (b->state == BUILD_FINISHED)
		return;
	b->state = BUILD_FINISHED;
	all->live--;
	all->finished++;
	if (b->timer)
		uv_close((uv_handle_t *)b->timer, on_handle_closed);
	b->timer = NULL;
	if (b->sandbox) {
		sandbox_end(b->sandbox, END_KILLED, "its build has finished");
		sandbox_release(b->sandbox);
		b->sandbox = NULL;
	}
	build_clear_inputs(b);
	while (w) {
		struct build_waiter *next = w->next;

		w->fn(w->arg, layer, err);
		free(w);
		w = next;
	}
	build_forget_oldest(all, b);
}

void build_fail(struct build *b, const struct cay_err *err)
{
	build_log_append(b, err->msg, strlen(err->msg));
	build_log_append(b, "\n", 1);
	log_warn(&b->cayd->log, "a build failed: %s", err->msg);
	build_finish(b, NULL, err);
}

/* Unregistered layers */

struct layer_cleanup {
	struct cayd *cayd;
	uv_timer_t retry_timer;
	struct verb_image_commit commit;
	unsigned tries;
	bool ends_sandbox; /* the sandbox is removed after the layer, because only the sandbox's
			      record names the layer */
};

static void layer_cleanup_try(uv_timer_t *t);

static void build_sandbox_end(struct sandbox *sb)
{
	if (sb && !life_is_finished(&sb->life))
		sandbox_end(sb, END_KILLED, "its build was interrupted");
}

/* Repeated when the keeper is connected again. */
static void layer_cleanup_finish(struct layer_cleanup *d, const struct cay_err *outcome)
{
	if (outcome->code == CAY_E_UNAVAILABLE && ++d->tries < DROPS_MAX) {
		(void)uv_timer_start(&d->retry_timer, layer_cleanup_try, DROP_AGAIN_MS, 0);
		return;
	}
	if (outcome->code && outcome->code != CAY_E_NOT_FOUND)
		log_warn(&d->cayd->log, "an unregistered layer may be left: %s", outcome->msg);
	if (d->ends_sandbox)
		build_sandbox_end(sandbox_find(d->cayd->sandboxes, &d->commit.sandbox));
	uv_close((uv_handle_t *)&d->retry_timer, on_handle_owner_closed);
}

static void on_layer_cleanup_removed(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	cay_closep(&fd);
	layer_cleanup_finish(arg, outcome);
}

static void on_layer_cleanup_committed(void *arg, const struct cay_err *outcome, const void *reply,
				       int fd)
{
	struct layer_cleanup *d = arg;
	struct verb_image_commit_reply made;
	struct verb_image_remove q = {};

	cay_closep(&fd);
	if (!outcome->code) {
		memcpy(&made, reply, sizeof(made));
		memcpy(q.digest, made.digest, sizeof(q.digest));
		if (!image_by_digest(d->cayd->images, q.digest)) {
			keeper_call(d->cayd->keeper, VERB_IMAGE_REMOVE, &q, -EBADF,
				    on_layer_cleanup_removed, d);
			return;
		}
	}
	layer_cleanup_finish(d, outcome);
}

static void layer_cleanup_try(uv_timer_t *t)
{
	struct layer_cleanup *d = t->data;

	keeper_call(d->cayd->keeper, VERB_IMAGE_COMMIT, &d->commit, -EBADF,
		    on_layer_cleanup_committed, d);
}

/* A repeated commit returns the digest of the layer, so a layer that was committed and not
 * registered can be removed; a layer committed only now is removed as well. */
static bool layer_cleanup_start(const struct sandbox *sb, bool cut_off)
{
	struct layer_cleanup *d = calloc(1, sizeof(*d));

	if (!d)
		return false; /* builds_recover() tries again at the next start */
	d->cayd = sb->cayd;
	d->commit.sandbox = sb->info.id;
	d->commit.generation = sb->life.generation;
	memcpy(d->commit.parent, sb->image, sizeof(d->commit.parent));
	(void)uv_timer_init(&sb->cayd->loop, &d->retry_timer);
	d->retry_timer.data = d;
	d->ends_sandbox = cut_off;
	layer_cleanup_try(&d->retry_timer);
	return true;
}

/* Commit */

static void on_build_layer_recorded(void *arg, const struct image *row, const struct cay_err *err)
{
	struct build *b = arg;

	b->call_pending = false;
	if (b->state != BUILD_COMMITTING)
		return;
	if (row) {
		build_finish(b, row, err);
		return;
	}
	(void)layer_cleanup_start(b->sandbox, /* cut_off= */ false);
	build_fail(b, err);
}

static void on_build_committed(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct build *b = arg;
	struct verb_image_commit_reply made;

	cay_closep(&fd);
	if (b->state == BUILD_COMMITTING && !outcome->code &&
	    image_find_layer(b->cayd->images, b->hash)) {
		/* a build with another policy was faster */
		b->call_pending = false;
		(void)layer_cleanup_start(b->sandbox, /* cut_off= */ false);
		build_finish(b, image_find_layer(b->cayd->images, b->hash), outcome);
		return;
	}
	if (b->state == BUILD_COMMITTING && !outcome->code) {
		memcpy(&made, reply, sizeof(made));
		image_register_layer(b->cayd->images,
				     &(struct image_layer_entry){ .parent = b->parent,
								  .digest = made.digest,
								  .hash = b->hash,
								  .tenant = b->tenant,
								  .bytes = b->bytes },
				     on_build_layer_recorded, b);
		return;
	}
	b->call_pending = false;
	if (outcome->code == CAY_E_UNAVAILABLE && b->commits < COMMITS_MAX)
		return; /* repeated when the keeper is connected again */
	if (b->state == BUILD_COMMITTING)
		on_build_layer_recorded(b, NULL, outcome);
}

static void build_commit_send(struct build *b)
{
	struct verb_image_commit q = { .sandbox = b->sandbox->info.id,
				       .generation = b->sandbox->life.generation };

	memcpy(q.parent, b->parent, sizeof(q.parent));
	b->state = BUILD_COMMITTING;
	b->call_pending = true;
	b->commits++;
	keeper_call_for(b->cayd->keeper, &b->tenant, VERB_IMAGE_COMMIT, &q, on_build_committed, b);
}

/* Without a quota its own size is unknown: count its parent's. */
static void on_build_disk_usage(void *arg, const struct cay_err *outcome, const void *reply, int fd)
{
	struct build *b = arg;
	struct verb_usage_reply now;

	cay_closep(&fd);
	b->call_pending = false;
	if (b->state != BUILD_COMMITTING)
		return;
	if (!outcome->code) {
		memcpy(&now, reply, sizeof(now));
		b->bytes = now.disk_bytes == UINT64_MAX ? 0 : now.disk_bytes;
	}
	build_commit_send(b);
}

void build_commit(struct build *b)
{
	struct verb_sandbox q = { .sandbox = b->sandbox->info.id,
				  .generation = b->sandbox->life.generation };

	if (b->state == BUILD_COMMITTING) { /* try again */
		build_commit_send(b);
		return;
	}
	b->state = BUILD_COMMITTING;
	b->call_pending = true;
	keeper_call(b->cayd->keeper, VERB_USAGE, &q, -EBADF, on_build_disk_usage, b);
}

static void build_fail_sandbox_ended(struct build *b)
{
	struct sandbox *sb = b->sandbox;
	struct cay_err err = sb->failure;

	if (sb->life.reason == END_TTL)
		(void)cay_fail(&err, CAY_E_TIMEOUT, "the build took longer than %llu s",
			       (unsigned long long)(BUILD_TTL_MS / 1000));
	if (!err.code)
		(void)cay_fail(&err, CAY_E_BUILD, "the sandbox of the build ended: %s",
			       sb->info.end.detail ? sb->info.end.detail : "");
	build_fail(b, &err);
}

/* A tenant's build without a waiter for BUILD_ALONE_NS. */
static bool build_is_abandoned(struct build *b)
{
	uint64_t now = clk_boot_ns(b->cayd->clk);

	if (b->waiters || b->tenant.noun == ID_NONE || b->state == BUILD_COMMITTING)
		b->unwaited_since_ns = now;
	return now - b->unwaited_since_ns > BUILD_ALONE_NS;
}

static void on_build_timer(uv_timer_t *t)
{
	struct build *b = t->data;
	unsigned state = b->sandbox->life.state;
	struct cay_err err = {};

	if (build_is_abandoned(b)) {
		(void)cay_fail(&err, CAY_E_BUILD, "no client waits for it any more");
		build_fail(b, &err);
		return;
	}
	if (b->call_pending)
		return;
	if (b->state == BUILD_COMMITTING) {
		if (keeper_is_up(b->cayd->keeper))
			build_commit(b);
		return;
	}
	if (b->state == BUILD_STARTING && state == SB_RUNNING)
		b->state = BUILD_RUNNING;
	if (state == SB_RUNNING)
		build_continue(b);
	else if (state != SB_PENDING)
		build_fail_sandbox_ended(b);
}

/* Requests */

/* A sorted copy: the order of packages does not change the hash. */
static int field_map_copy_sorted(struct arena *arena, struct field_map *map)
{
	struct field_map from = *map;

	map->keys = arena_alloc(arena, from.n + 1, sizeof(*map->keys));
	map->values = arena_alloc(arena, from.n + 1, sizeof(*map->values));
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

/* Copy the inputs and compute their hash. */
static int build_set_spec(struct build *b, const struct layer_spec *spec, struct cay_err *err)
{
	static const struct json_limits limits = { SPEC_MAX, 8, 100000 };
	auto_buf text = BUF_INIT(SPEC_MAX);
	struct jw w = jw_to(&text);
	uint8_t hash[KEY_HASH_LEN];
	struct layer_spec s = *spec;
	struct field_map *maps[] = { &s.env, &s.packages.python, &s.packages.node, &s.packages.r };
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		if (field_map_copy_sorted(&b->arena, maps[i]) < 0)
			return cay_no_memory(err);
	field_encode(&layer_spec_table, NULL, &s, &w);
	r = jw_finish(&w);
	if (r < 0)
		return cay_fail(err, CAY_E_TOO_LARGE, "the build is too large for one layer");
	key_hash((struct slice){ text.data, text.len }, hash);
	hex_encode(hash, sizeof(hash), b->hash);
	return field_decode_text(&layer_spec_table, (struct slice){ text.data, text.len }, &limits,
				 &b->arena, &b->spec, err);
}

static int build_start_sandbox(struct build *b, const struct sandbox_create *like,
			       struct cay_err *err)
{
	struct sandbox_create spec = { .image = b->spec.image,
				       .layer = b->spec.image,
				       .env = b->spec.env,
				       .limits = like->limits,
				       .runtime = like->runtime,
				       .ttl_ms = BUILD_TTL_MS,
				       .has_ttl = true };
	struct idempotency_key key = {};
	int r;

	/* the build is on disk, so limits of in-memory files do not apply */
	if (like->storage == STORAGE_MEMORY)
		spec.limits.has_disk_bytes = spec.limits.has_disk_inodes = false;
	if (quota_bound_create(b->cayd, &build_tenant, &spec, err) < 0 ||
	    build_egress_apply(b, like, &spec, err) < 0)
		return -EINVAL;
	r = admit_and_create(b->cayd, &build_tenant, &spec, &key, NULL, &b->sandbox, err);
	if (r < 0)
		return r;
	b->sandbox->holds++;
	b->timer = calloc(1, sizeof(*b->timer));
	if (!b->timer)
		return cay_no_memory(err);
	(void)uv_timer_init(&b->cayd->loop, b->timer);
	b->timer->data = b;
	return uv_timer_start(b->timer, on_build_timer, TICK_MS, TICK_MS);
}

static int build_add_waiter(struct build *b, build_fn *fn, void *arg, struct cay_err *err)
{
	struct build_waiter *w = malloc(sizeof(*w));

	if (!w)
		return cay_no_memory(err);
	*w = (struct build_waiter){ b->waiters, fn, arg };
	b->waiters = w;
	return 0;
}

static unsigned builds_count_live_of(const struct builds *all, const struct id *tenant)
{
	unsigned n = 0;

	for (const struct build *b = all->first; b; b = b->next)
		n += b->state != BUILD_FINISHED && id_eq(&b->tenant, tenant);
	return n;
}

static int builds_check_room(struct cayd *c, const struct build_request *order, struct cay_err *err)
{
	const struct builds *all = c->builds;
	unsigned n = order->tenant ? builds_count_live_of(all, order->tenant) : 0;

	if (all->live >= BUILDS_LIVE)
		return cay_fail(err, CAY_E_OVERLOADED, "%d builds are running already",
				BUILDS_LIVE);
	if (!order->by_operator && n >= BUILDS_TENANT)
		return cay_fail(err, CAY_E_OVERLOADED,
				"%d builds of this tenant are running already", BUILDS_TENANT);
	return layers_make_room(c, order->tenant, n, all->live, err);
}

static int build_start(struct build *b, const struct build_request *order, struct cay_err *err)
{
	const struct image *image = image_find_chosen(b->cayd->images, b->spec.image);
	struct builds *all = b->cayd->builds;
	int r = build_plan(b, err);

	if (r < 0)
		return r;
	if (!image)
		return cay_fail_field(err, CAY_E_NOT_FOUND, "image", "there is no image '%s'",
				      b->spec.image);
	memcpy(b->parent, image->digest, sizeof(b->parent));
	r = builds_check_room(b->cayd, order, err);
	if (r < 0)
		return r;
	if (order->tenant)
		b->tenant = *order->tenant;
	b->unwaited_since_ns = clk_boot_ns(b->cayd->clk);
	r = build_start_sandbox(b, order->sandbox, err);
	if (r >= 0) {
		b->next = all->first;
		all->first = b;
		all->live++;
	} else if (b->sandbox) {
		sandbox_end(b->sandbox, END_KILLED, "its build could not start");
		sandbox_release(b->sandbox);
	}
	return r;
}

/* A finished build is started again: it failed, or its layer has been removed. */
static struct build *build_find_live(const struct build *like)
{
	struct build *b = like->cayd->builds->first;

	while (b && (b->state == BUILD_FINISHED || !str_eq(b->hash, like->hash) ||
		     memcmp(b->egress_hash, like->egress_hash, KEY_HASH_LEN) != 0))
		b = b->next;
	return b;
}

int build_start_or_join(struct cayd *c, const struct build_request *order, build_fn *fn, void *arg,
			const struct image **ret_layer, struct build **ret_build,
			struct cay_err *err)
{
	struct build *b = calloc(1, sizeof(*b)), *live;
	int r;

	*ret_layer = NULL;
	*ret_build = NULL;
	if (!b)
		return cay_no_memory(err);
	*b = (struct build){ .cayd = c, .arena = ARENA_INIT(POOL_MAX) };
	b->log = BUF_INIT(BUILD_LOG_MAX);
	b->stdin_pending = BUF_INIT(MIB(2));
	r = build_set_spec(b, &order->spec, err);
	if (r >= 0 && build_egress_get_hash(order->sandbox, b->egress_hash) < 0)
		r = cay_no_memory(err);
	*ret_layer = r < 0 ? NULL : image_find_layer(c->images, b->hash);
	live = r < 0 || *ret_layer ? NULL : build_find_live(b);
	if (r < 0 || *ret_layer || live) {
		build_free(b);
		b = live;
	} else {
		r = build_start(b, order, err);
		if (r < 0) {
			if (b->timer)
				uv_close((uv_handle_t *)b->timer, on_handle_closed);
			build_free(b);
		}
	}
	if (r < 0 || *ret_layer)
		return r;
	*ret_build = b;
	return build_add_waiter(b, fn, arg, err);
}

void build_remove_waiter(struct build *b, const void *arg)
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

int builds_recover(struct cayd *c, struct cay_err *)
{
	for (struct sandbox *sb = sandboxes_newest(c->sandboxes), *next; sb; sb = next) {
		next = sb->older;
		if (!tenant_is_for_builds(&sb->info.tenant))
			continue;
		if (!layer_cleanup_start(sb, /* cut_off= */ true))
			build_sandbox_end(sb);
	}
	return 0;
}
