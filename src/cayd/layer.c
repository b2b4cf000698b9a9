/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/layer.h"

#include "cayd/build.h"
#include "cayd/create.h"
#include "cayd/link.h"
#include "cayd/prune.h"
#include "ops/package.h"

static const char *const prefixes[] = {
	"PIP_",        "UV_",      "NPM_CONFIG_", "npm_config_", "R_",       "HTTP_PROXY",
	"HTTPS_PROXY", "NO_PROXY", "http_proxy",  "https_proxy", "no_proxy",
};

struct layering {
	struct cayd *cayd;
	struct request *rq;
	struct build *build;
};

bool layer_needed(const struct sandbox_create *spec)
{
	return packages_any(&spec->packages) && !spec->layered;
}

static bool is_of_managers(const char *key)
{
	for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
		if (strncmp(key, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	return false;
}

static int choose_env(struct pool *pool, const struct field_map *from, struct field_map *ret)
{
	*ret = (struct field_map){ pool_take(pool, from->n + 1, sizeof(*ret->keys)),
				   pool_take(pool, from->n + 1, sizeof(*ret->values)), 0 };
	if (!ret->keys || !ret->values)
		return -ENOMEM;
	for (size_t i = 0; i < from->n; i++)
		if (is_of_managers(from->keys[i])) {
			ret->keys[ret->n] = from->keys[i];
			ret->values[ret->n++] = from->values[i];
		}
	return 0;
}

/* The create goes on with the layer as its image. */
static void go_on(struct cayd *c, struct request *rq, const struct image_row *layer)
{
	const struct sandbox_create *asked = rq->body;
	struct sandbox_create *spec = pool_take(&rq->pool, 1, sizeof(*spec));

	if (spec) {
		*spec = *asked;
		image_used(c->images, layer->digest); /* until it is its turn */
		spec->layered = true;
		spec->layer = pool_strn(&rq->pool, layer->info.digest, strlen(layer->info.digest));
	}
	if (!spec || !spec->layer) {
		request_refuse(rq, CAY_E_NO_MEMORY, "out of memory");
		return;
	}
	rq->body = spec;
	create_ask(c, rq);
}

static void on_layer(void *arg, const struct image_row *layer, const struct cay_err *err)
{
	struct layering *l = arg;
	struct request *rq = l->rq;
	struct cayd *c = l->cayd;

	free(l);
	rq->events = NULL;
	if (layer)
		go_on(c, rq, layer);
	else
		request_fail(rq, err);
}

static void on_gone(struct request *rq)
{
	struct layering *l = rq->data;

	build_leave(l->build, l);
	free(l);
}

void layer_ask(struct cayd *c, struct request *rq, const struct sandbox_create *spec)
{
	static const struct request_events events = { .gone = on_gone };
	const char *below = spec->layer ? spec->layer : spec->image;
	const struct image_row *image = image_find(c->images, below), *layer = NULL;
	struct build_order want = { .spec = { .tenant = rq->actor.tenant,
					      .packages = spec->packages },
				    .box = spec,
				    .tenant = &rq->actor.tenant,
				    .by_operator = rq->actor.scope == SCOPE_OPERATOR };
	struct layering *l = malloc(sizeof(*l));
	struct cay_err err = {};

	if (!l || choose_env(&rq->pool, &spec->env, &want.spec.env) < 0) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
	} else if (!image) {
		(void)cay_fail_field(&err, CAY_E_NOT_FOUND, "image", "there is no image '%s'",
				     spec->image);
	} else {
		*l = (struct layering){ c, rq, NULL };
		want.spec.image = image->info.digest;
		(void)build_ask(c, &want, on_layer, l, &layer, &l->build, &err);
	}
	if (!err.code && !layer) {
		rq->data = l;
		rq->events = &events;
		return;
	}
	free(l);
	if (err.code == CAY_E_OVERLOADED)
		(void)request_header(rq, "Retry-After", "1");
	if (layer)
		go_on(c, rq, layer);
	else
		request_fail(rq, &err);
}

/* How many there may be */

struct trim {
	struct cayd *cayd;
	struct id tenant; /* nothing: of all */
	size_t keep;
	uint64_t behind_ns; /* those used before were looked at */
	bool went;          /* one did, and another may have stood on it */
	struct id going;
};

/* Used longest ago, and by nothing now. */
static const struct image_row *oldest(struct cayd *c, const struct id *tenant, uint64_t behind_ns)
{
	const struct image_row *row, *found = NULL;

	for (size_t i = 0; (row = image_at(c->images, i)); i++)
		if (image_layer_of(row, tenant) && !row->going && image_last_ns(row) > behind_ns &&
		    (!found || image_last_ns(row) < image_last_ns(found)) && !prune_kept(c, row))
			found = row;
	return found;
}

static void trim(struct trim *t);

static void on_forgotten(void *arg, const struct cay_err *)
{
	trim(arg);
}

static void on_removed(void *arg, const struct cay_err *outcome, const void *, int fd)
{
	struct trim *t = arg;

	cay_closep(&fd);
	if (!outcome->code || outcome->code == CAY_E_NOT_FOUND) {
		t->went = true;
		image_forget(t->cayd->images, &t->going, on_forgotten, t);
		return;
	}
	image_going(t->cayd->images, &t->going, false);
	trim(t);
}

static void trim(struct trim *t)
{
	struct verb_image_remove q = {};
	const struct image_row *row = NULL;

	if (image_layers(t->cayd->images, &t->tenant) > t->keep)
		row = oldest(t->cayd, &t->tenant, t->behind_ns);
	if (!row && t->went && t->behind_ns) {
		t->went = false;
		t->behind_ns = 0;
		trim(t);
		return;
	}
	if (!row) {
		free(t);
		return;
	}
	t->behind_ns = image_last_ns(row);
	t->going = row->info.id;
	image_going(t->cayd->images, &t->going, true);
	memcpy(q.digest, row->digest, sizeof(q.digest));
	link_call(t->cayd->link, VERB_IMAGE_REMOVE, &q, -EBADF, on_removed, t);
}

static void trim_to(struct cayd *c, const struct id *tenant, size_t keep)
{
	struct trim *t = calloc(1, sizeof(*t));

	if (!t)
		return; /* who needs the room will be refused */
	*t = (struct trim){ .cayd = c, .tenant = *tenant, .keep = keep };
	trim(t);
}

/* making: how many of them are on the way */
static int make_room(struct cayd *c, const struct id *tenant, size_t making, size_t max,
		     struct cay_err *err)
{
	if (image_layers(c->images, tenant) + making < max)
		return 0;
	if (!oldest(c, tenant, 0))
		return cay_fail(err, CAY_E_LIMIT, "there are %zu layers already, and all are used",
				max);
	trim_to(c, tenant, making < max ? max - making - 1 : 0);
	return 0;
}

int layer_room(struct cayd *c, const struct id *tenant, size_t of_tenant, size_t in_all,
	       struct cay_err *err)
{
	static const struct id all = {};
	int r = tenant ? make_room(c, tenant, of_tenant, LAYERS_TENANT, err) : 0;

	return r < 0 ? r : make_room(c, &all, in_all, LAYERS_MAX, err);
}

void layers_forget(struct cayd *c, const struct id *tenant)
{
	trim_to(c, tenant, 0);
}
