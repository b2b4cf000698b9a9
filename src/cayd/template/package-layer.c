/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/template/package-layer.h"

#include "cayd/core/keeper-link.h"
#include "cayd/image/prune.h"
#include "cayd/template/build.h"
#include "ops/package.h"

static const char *const package_env_prefixes[] = {
	"PIP_",        "UV_",      "NPM_CONFIG_", "npm_config_", "R_",       "HTTP_PROXY",
	"HTTPS_PROXY", "NO_PROXY", "http_proxy",  "https_proxy", "no_proxy",
};

struct package_layer_wait {
	struct cayd *cayd;
	struct request *rq;
	struct build *build;
	void (*again)(struct cayd *c, struct request *rq);
};

bool package_layer_is_needed(const struct sandbox_create *spec)
{
	return packages_has_any(&spec->packages) && !spec->layered;
}

static bool package_env_is_relevant(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(package_env_prefixes); i++)
		if (strncmp(key, package_env_prefixes[i], strlen(package_env_prefixes[i])) == 0)
			return true;
	return false;
}

static int package_env_select(struct arena *arena, const struct field_map *from,
			      struct field_map *ret)
{
	*ret = (struct field_map){ arena_alloc(arena, from->n + 1, sizeof(*ret->keys)),
				   arena_alloc(arena, from->n + 1, sizeof(*ret->values)), 0 };
	if (!ret->keys || !ret->values)
		return -ENOMEM;
	for (size_t i = 0; i < from->n; i++)
		if (package_env_is_relevant(from->keys[i])) {
			ret->keys[ret->n] = from->keys[i];
			ret->values[ret->n++] = from->values[i];
		}
	return 0;
}

/* Continue the create with the layer as its image. */
static void package_layer_continue_create(struct cayd *c, struct request *rq,
					  const struct image *layer,
					  void (*again)(struct cayd *c, struct request *rq))
{
	const struct sandbox_create *asked = rq->body;
	struct sandbox_create *spec = arena_alloc(&rq->arena, 1, sizeof(*spec));

	if (spec) {
		*spec = *asked;
		/* so that it is not pruned while the create waits in the queue */
		image_mark_used(c->images, layer->digest);
		spec->layered = true;
		spec->layer =
			arena_strndup(&rq->arena, layer->info.digest, strlen(layer->info.digest));
	}
	if (!spec || !spec->layer) {
		request_no_memory(rq);
		return;
	}
	rq->body = spec;
	again(c, rq);
}

static void on_package_layer_built(void *arg, const struct image *layer, const struct cay_err *err)
{
	struct package_layer_wait *l = arg;
	struct request *rq = l->rq;
	void (*again)(struct cayd *c, struct request *rq) = l->again;
	struct cayd *c = l->cayd;

	free(l);
	rq->events = NULL;
	if (layer)
		package_layer_continue_create(c, rq, layer, again);
	else
		request_fail(rq, err);
}

static void on_package_layer_client_gone(struct request *rq)
{
	struct package_layer_wait *l = rq->data;

	build_remove_waiter(l->build, l);
	free(l);
}

void package_layer_request(struct cayd *c, struct request *rq, const struct sandbox_create *spec,
			   void (*again)(struct cayd *c, struct request *rq))
{
	static const struct request_events events = { .gone = on_package_layer_client_gone };
	const struct image *image = image_find_for_create(c->images, &rq->actor.tenant, spec);
	const struct image *layer = NULL;
	struct build_request want = { .spec = { .tenant = rq->actor.tenant,
						.packages = spec->packages },
				      .sandbox = spec,
				      .tenant = &rq->actor.tenant,
				      .by_operator = rq->actor.scope == SCOPE_OPERATOR };
	struct package_layer_wait *l = malloc(sizeof(*l));
	struct cay_err err = {};

	if (!l || package_env_select(&rq->arena, &spec->env, &want.spec.env) < 0) {
		(void)cay_no_memory(&err);
	} else if (!image) {
		(void)cay_fail_field(&err, CAY_E_NOT_FOUND, "image", "there is no image '%s'",
				     spec->image);
	} else {
		*l = (struct package_layer_wait){ c, rq, NULL, again };
		want.spec.image = image->info.digest;
		(void)build_start_or_join(c, &want, on_package_layer_built, l, &layer, &l->build,
					  &err);
	}
	if (!err.code && !layer) {
		rq->data = l;
		rq->events = &events;
		return;
	}
	free(l);
	if (err.code == CAY_E_OVERLOADED)
		(void)request_add_reply_header(rq, "Retry-After", "1");
	if (layer)
		package_layer_continue_create(c, rq, layer, again);
	else
		request_fail(rq, &err);
}

/* Limits */

struct layer_trim {
	struct cayd *cayd;
	struct id tenant; /* none: all layers */
	size_t keep;
	uint64_t checked_until_ns; /* layers used before this have been considered */
	bool removed_any;          /* one was removed, and it may have kept another in use */
	struct id removing;
};

/* The least recently used layer that is not in use. */
static const struct image *layer_find_oldest_unused(struct cayd *c, const struct id *tenant,
						    uint64_t behind_ns)
{
	const struct image *row, *found = NULL;

	for (size_t i = 0; (row = image_at(c->images, i)); i++)
		if (image_is_layer_of(row, tenant) && !row->removing &&
		    image_last_used_ns(row) > behind_ns &&
		    (!found || image_last_used_ns(row) < image_last_used_ns(found)) &&
		    !image_is_in_use(c, row))
			found = row;
	return found;
}

static void layer_trim_next(struct layer_trim *t);

static void on_layer_trim_forgotten(void *arg, const struct cay_err *)
{
	layer_trim_next(arg);
}

static void on_layer_trim_removed(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct layer_trim *t = arg;

	cay_closep(&fd);
	if (!outcome->code || outcome->code == CAY_E_NOT_FOUND) {
		t->removed_any = true;
		image_unregister(t->cayd->images, &t->removing, on_layer_trim_forgotten, t);
		return;
	}
	image_set_removing(t->cayd->images, &t->removing, false);
	layer_trim_next(t);
}

static void layer_trim_next(struct layer_trim *t)
{
	struct verb_image_remove q = {};
	const struct image *row = NULL;

	if (image_count_layers(t->cayd->images, &t->tenant) > t->keep)
		row = layer_find_oldest_unused(t->cayd, &t->tenant, t->checked_until_ns);
	if (!row && t->removed_any && t->checked_until_ns) {
		t->removed_any = false;
		t->checked_until_ns = 0;
		layer_trim_next(t);
		return;
	}
	if (!row) {
		free(t);
		return;
	}
	t->checked_until_ns = image_last_used_ns(row);
	t->removing = row->info.id;
	image_set_removing(t->cayd->images, &t->removing, true);
	memcpy(q.digest, row->digest, sizeof(q.digest));
	keeper_call(t->cayd->keeper, VERB_IMAGE_REMOVE, &q, -EBADF, on_layer_trim_removed, t);
}

static void layer_trim_start(struct cayd *c, const struct id *tenant, size_t keep)
{
	struct layer_trim *t = calloc(1, sizeof(*t));

	if (!t)
		return; /* the build that needs room is refused */
	*t = (struct layer_trim){ .cayd = c, .tenant = *tenant, .keep = keep };
	layer_trim_next(t);
}

/* making: layers being built */
static int layers_make_room_of(struct cayd *c, const struct id *tenant, size_t making, size_t max,
			       struct cay_err *err)
{
	if (image_count_layers(c->images, tenant) + making < max)
		return 0;
	if (!layer_find_oldest_unused(c, tenant, 0))
		return cay_fail(err, CAY_E_LIMIT, "there are %zu layers already, all in use", max);
	layer_trim_start(c, tenant, making < max ? max - making - 1 : 0);
	return 0;
}

int layers_make_room(struct cayd *c, const struct id *tenant, size_t of_tenant, size_t in_all,
		     struct cay_err *err)
{
	static const struct id all = {};
	int r = tenant ? layers_make_room_of(c, tenant, of_tenant, LAYERS_TENANT, err) : 0;

	return r < 0 ? r : layers_make_room_of(c, &all, in_all, LAYERS_MAX, err);
}

void layers_remove_of_tenant(struct cayd *c, const struct id *tenant)
{
	layer_trim_start(c, tenant, 0);
}
