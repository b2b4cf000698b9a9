/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/image/image-internal.h"
#include "text/hex.h"

#define POOL_MAX KIB(256)

const struct id image_owner_node = {};

static void image_row_free(struct image *r)
{
	if (!r)
		return;
	arena_fini(&r->arena);
	free(r);
}
CAY_DEFINE_FREEP(image, image_row_free)

static int image_digest_parse(const char *text, uint8_t ret[static 32])
{
	if (strncmp(text, "sha256:", 7) != 0)
		return -EINVAL;
	return hex_decode(text + 7, strlen(text + 7), ret, 32);
}

static char *image_digest_format(struct arena *arena, const uint8_t digest[static 32])
{
	char text[7 + 64 + 1] = "sha256:";

	hex_encode(digest, 32, text + 7);
	return arena_strndup(arena, text, sizeof(text) - 1);
}

static char *image_text_copy(struct arena *arena, const char *s)
{
	return s ? arena_strndup(arena, s, strlen(s)) : NULL;
}

static int image_row_copy_config(struct image *r, const struct image_config *from)
{
	const struct field_map *env = &from->env;
	const struct field_texts *argv = &from->argv;

	r->config = (struct image_config){ .user = image_text_copy(&r->arena, from->user),
					   .cwd = image_text_copy(&r->arena, from->cwd),
					   .has_argv = argv->n };
	r->config.argv.v = argv->n ? arena_alloc(&r->arena, argv->n, sizeof(char *)) : NULL;
	for (size_t i = 0; r->config.argv.v && i < argv->n; i++) {
		r->config.argv.v[i] = image_text_copy(&r->arena, argv->v[i]);
		r->config.argv.n += r->config.argv.v[i] != NULL;
	}
	r->config.env.keys = env->n ? arena_alloc(&r->arena, env->n, sizeof(char *)) : NULL;
	r->config.env.values = env->n ? arena_alloc(&r->arena, env->n, sizeof(char *)) : NULL;
	for (size_t i = 0; r->config.env.keys && r->config.env.values && i < env->n; i++) {
		r->config.env.keys[i] = image_text_copy(&r->arena, env->keys[i]);
		r->config.env.values[i] = image_text_copy(&r->arena, env->values[i]);
		r->config.env.n += r->config.env.keys[i] && r->config.env.values[i];
	}
	return r->config.env.n != env->n || r->config.argv.n != argv->n || r->arena.full ? -ENOMEM
											 : 0;
}

/* Add a copy of a decoded row. */
int images_add(struct images *all, const struct image_stored *s, struct cay_err *err)
{
	auto_ptr(image) r = all->n < IMAGE_ROWS_MAX ? calloc(1, sizeof(*r)) : NULL;

	if (all->n == IMAGE_ROWS_MAX)
		return cay_fail(err, CAY_E_LIMIT, "there are %d images already", IMAGE_ROWS_MAX);
	if (!r)
		return cay_no_memory(err);
	r->arena = ARENA_INIT(POOL_MAX);
	r->info = s->info;
	r->info.name = image_text_copy(&r->arena, s->info.name);
	r->info.digest = image_text_copy(&r->arena, s->info.digest);
	r->layer = image_text_copy(&r->arena, s->layer);
	r->tenant = s->tenant;
	if (image_row_copy_config(r, &s->config) < 0 || !r->info.digest)
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): its cleanup frees it */
		return cay_no_memory(err);
	r->snapshot = s->snapshot_parent;
	if (r->snapshot && hex_decode(s->snapshot_parent, 64, r->parent, sizeof(r->parent)) < 0)
		return cay_fail(err, CAY_E_INVALID, "'%s' is not a digest", s->snapshot_parent);
	if (image_digest_parse(r->info.digest, r->digest) < 0)
		return cay_fail(err, CAY_E_INVALID, "'%s' is not a digest", r->info.digest);
	all->rows[all->n++] = cay_take(r);
	return 0;
}

int images_inherit_configs(struct images *all, struct cay_err *err)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct image *below = all->rows[i];

		/* as many steps as there are rows: the file may have a circle */
		for (size_t n = 0; below && below->snapshot && n < all->n; n++)
			below = image_by_digest(all, below->parent);
		if (below && !below->snapshot && below != all->rows[i] &&
		    image_row_copy_config(all->rows[i], &below->config) < 0)
			return cay_no_memory(err);
	}
	return 0;
}

const struct image *image_at(const struct images *all, size_t i)
{
	return i < all->n ? all->rows[i] : NULL;
}

static struct image *image_row_find(const struct images *all, const struct id *id)
{
	for (size_t i = 0; i < all->n; i++)
		if (id_eq(&all->rows[i]->info.id, id))
			return all->rows[i];
	return NULL;
}

const struct image *image_by_id(const struct images *all, const struct id *id)
{
	return image_row_find(all, id);
}

const struct image *image_by_digest(const struct images *all, const uint8_t digest[static 32])
{
	for (size_t i = 0; i < all->n; i++)
		if (memcmp(all->rows[i]->digest, digest, 32) == 0)
			return all->rows[i];
	return NULL;
}

static bool image_is_owned_by(const struct image *row, const struct id *owner)
{
	return owner->noun == ID_NONE ? row->info.tenant.noun == ID_NONE
				      : id_eq(&row->info.tenant, owner);
}

static bool image_is_usable_by(const struct image *row, const struct id *tenant)
{
	return row->info.tenant.noun == ID_NONE || image_is_owned_by(row, tenant);
}

/* The owner's image of this name, not the node's. */
static struct image *image_find_by_name(const struct images *all, const struct id *owner,
					const char *name)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->rows[i]->info.name && image_is_owned_by(all->rows[i], owner) &&
		    str_eq(all->rows[i]->info.name, name))
			return all->rows[i];
	return NULL;
}

size_t image_count_names(const struct images *all, const uint8_t digest[static 32])
{
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		n += memcmp(all->rows[i]->digest, digest, 32) == 0;
	return n;
}

const struct image *image_find(const struct images *all, const struct id *tenant, const char *ref)
{
	const struct image *row = image_find_by_name(all, tenant, ref);
	uint8_t digest[32];
	struct id id;

	if (!row)
		row = image_find_by_name(all, &image_owner_node, ref);
	if (row)
		return row;
	if (image_digest_parse(ref, digest) == 0) {
		for (size_t i = 0; i < all->n; i++)
			if (memcmp(all->rows[i]->digest, digest, 32) == 0 &&
			    image_is_usable_by(all->rows[i], tenant))
				return all->rows[i];
		return NULL;
	}
	if (id_parse(ID_IMAGE, slice_of(ref), &id) == 0)
		row = image_by_id(all, &id);
	return row && image_is_usable_by(row, tenant) ? row : NULL;
}

const struct image *image_find_chosen(const struct images *all, const char *digest)
{
	uint8_t bytes[32];

	return image_digest_parse(digest, bytes) == 0 ? image_by_digest(all, bytes) : NULL;
}

const struct image *image_find_for_create(const struct images *all, const struct id *tenant,
					  const struct sandbox_create *spec)
{
	/* a layer, or of a build the image below it */
	if (spec->layer)
		return image_find_chosen(all, spec->layer);
	return image_find(all, spec->template ? &image_owner_node : tenant, spec->image);
}

int image_check_create(const struct images *all, const struct id *tenant,
		       const struct sandbox_create *spec, struct cay_err *err)
{
	const struct image *row = image_find_for_create(all, tenant, spec);

	if (!row)
		return cay_fail_field(err, CAY_E_NOT_FOUND, "image", "there is no image '%s'",
				      spec->image);
	if (row->removing || row->unsaved)
		return cay_fail_field(err, CAY_E_UNAVAILABLE, "image", "image '%s' is being %s",
				      spec->image, row->removing ? "removed" : "saved");
	if (spec->image_entrypoint && spec->has_entrypoint)
		return cay_fail_field(err, CAY_E_INVALID, "image_entrypoint",
				      "give one of entrypoint and image_entrypoint");
	if (spec->image_entrypoint && !row->config.argv.n)
		return cay_fail_field(err, CAY_E_INVALID, "image_entrypoint",
				      "image '%s' has no entrypoint", spec->image);
	return 0;
}

bool image_is_layer_of(const struct image *row, const struct id *tenant)
{
	return row->layer && !row->snapshot &&
	       (tenant->noun == ID_NONE || id_eq(&row->tenant, tenant));
}

size_t image_count_layers(const struct images *all, const struct id *tenant)
{
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		n += !all->rows[i]->removing && image_is_layer_of(all->rows[i], tenant);
	return n;
}

static size_t image_count_all_layers(const struct images *all, bool snapshot)
{
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		n += all->rows[i]->layer && all->rows[i]->snapshot == snapshot;
	return n;
}

static size_t image_count_snapshot_layers(const struct images *all, const struct id *tenant)
{
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		n += all->rows[i]->snapshot && id_eq(&all->rows[i]->tenant, tenant);
	return n;
}

uint64_t image_count_snapshot_bytes(const struct images *all, const struct id *tenant)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < all->n; i++) {
		const struct image *row = all->rows[i], *below;

		if (!row->snapshot || (tenant && !id_eq(&row->tenant, tenant)))
			continue;
		below = image_by_digest(all, row->parent); /* whose size is in the row's */
		bytes += row->info.size_bytes - (below ? below->info.size_bytes : 0);
	}
	return bytes;
}

static int image_check_counts(const struct images *all, const struct id *owner, struct cay_err *err)
{
	size_t owned = 0;

	for (size_t i = 0; i < all->n; i++)
		owned += image_is_owned_by(all->rows[i], owner);
	if (all->n - image_count_all_layers(all, false) - image_count_all_layers(all, true) >=
	    IMAGES_MAX)
		return cay_fail(err, CAY_E_LIMIT, "there are %d images already", IMAGES_MAX);
	if (owner->noun != ID_NONE && owned >= IMAGES_TENANT)
		return cay_fail(err, CAY_E_LIMIT, "this tenant has %d images already",
				IMAGES_TENANT);
	return 0;
}

int image_check_room(const struct images *all, const struct id *owner, const char *name,
		     struct cay_err *err)
{
	if (image_find_by_name(all, owner, name)) /* it may be an import of the same image again */
		return 0;
	return image_check_counts(all, owner, err);
}

bool image_is_hidden(const struct image *row, const struct actor *who)
{
	return who->scope != SCOPE_OPERATOR &&
	       (row->layer || !image_is_usable_by(row, &who->tenant));
}

uint64_t image_last_used_ns(const struct image *row)
{
	return row->info.has_used && row->info.used_ns > row->info.created_ns
		       ? row->info.used_ns
		       : row->info.created_ns;
}

struct image_registration {
	struct images *all;
	struct id id;
	bool added;
	image_fn *fn;
	void *arg;
};

static bool image_lost_name(const struct image *row, const struct id *owner, const char *name)
{
	return row->displaced_name && image_is_owned_by(row, owner) &&
	       str_eq(row->displaced_name, name);
}

/* Give the name back to the last remaining row that had it. */
static void image_name_restore(struct images *all, const struct id *owner, const char *name)
{
	for (size_t i = all->n; i-- > 0;)
		if (image_lost_name(all->rows[i], owner, name)) {
			all->rows[i]->info.name = cay_take(all->rows[i]->displaced_name);
			return;
		}
}

/* It is saved, and with it that earlier rows have lost its name; a later row may have taken the
 * name again. */
static void image_row_mark_saved(struct images *all, struct image *row)
{
	const char *name = row->info.name ? row->info.name : row->displaced_name;

	row->unsaved = false;
	for (size_t i = 0; name && all->rows[i] != row; i++)
		if (image_lost_name(all->rows[i], &row->info.tenant, name))
			all->rows[i]->displaced_name = NULL;
}

/* A row that was never saved gives its name back. */
static void image_row_remove(struct images *all, const struct id *id)
{
	for (size_t i = 0; i < all->n; i++)
		if (id_eq(&all->rows[i]->info.id, id)) {
			if (all->rows[i]->unsaved && all->rows[i]->info.name)
				image_name_restore(all, &all->rows[i]->info.tenant,
						   all->rows[i]->info.name);
			image_row_free(all->rows[i]);
			memmove(&all->rows[i], &all->rows[i + 1],
				(all->n - i - 1) * sizeof(all->rows[0]));
			all->n--;
			return;
		}
}

/* As after a restart, which would not find it. */
static void image_registration_undo(const struct image_registration *n)
{
	if (n->added)
		image_row_remove(n->all, &n->id);
}

static void on_image_registration_saved(void *arg, const struct cay_err *outcome)
{
	struct image_registration *n = arg;
	struct image *row;
	struct cay_err err = *outcome;

	if (err.code)
		image_registration_undo(n);
	row = err.code ? NULL : image_row_find(n->all, &n->id);
	if (row)
		image_row_mark_saved(n->all, row);
	if (!err.code && !row)
		(void)cay_fail(&err, CAY_E_NOT_FOUND, "it was removed meanwhile");
	n->fn(n->arg, row, &err);
	free(n);
}

static void image_registration_save(struct images *all, const struct image_registration *like)
{
	struct image_registration *n = malloc(sizeof(*n));
	struct cay_err err = {};

	if (n) {
		*n = *like;
		images_save(all, on_image_registration_saved, n);
		return;
	}
	image_registration_undo(like);
	(void)cay_no_memory(&err);
	like->fn(like->arg, NULL, &err);
}

/* Add a row, or reuse the one with the same owner, name and digest. */
static int image_row_add_or_reuse(struct images *all, const struct image_stored *s,
				  struct image_registration *n, struct cay_err *err)
{
	struct image *old = image_find_by_name(all, &s->info.tenant, s->info.name);
	uint8_t digest[32];
	int r;

	if (image_digest_parse(s->info.digest, digest) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "a digest");
	if (old && memcmp(old->digest, digest, 32) == 0) { /* imported again */
		old->info.pulled &= s->info.pulled;
		n->id = old->info.id;
		return 0;
	}
	r = image_check_counts(all, &s->info.tenant, err);
	if (r >= 0)
		r = images_add(all, s, err);
	if (r < 0)
		return r;
	all->rows[all->n - 1]->unsaved = true;
	n->added = true;
	n->id = s->info.id;
	if (old)
		old->displaced_name = cay_take(old->info.name);
	return 0;
}

void image_register(struct images *all, const struct image_entry *as,
		    const uint8_t digest[static 32], uint64_t bytes, struct slice config,
		    image_fn *fn, void *arg)
{
	auto_arena arena = ARENA_INIT(POOL_MAX);
	struct image_stored s = { .info = { .name = as->name,
					    .tenant = as->owner,
					    .size_bytes = bytes,
					    .pulled = as->pulled } };
	struct image_registration n = { .all = all, .fn = fn, .arg = arg };
	struct cay_err err = {};
	int r = field_decode_text(&image_config_table, config, &json_control_limits, &arena,
				  &s.config, &err);

	if (r >= 0)
		r = id_generate(ID_IMAGE, 0, 0, &s.info.id);
	s.info.created_ns = clk_wall_ns(all->cayd->clk);
	s.config.has_names = s.config.has_images = false; /* of the tar, not of the image */
	s.info.digest = image_digest_format(&arena, digest);
	if (r < 0)
		(void)cay_err_wrap(&err, r, "read the image's config");
	else if (!s.info.digest)
		(void)cay_no_memory(&err);
	else
		(void)image_row_add_or_reuse(all, &s, &n, &err);
	if (err.code)
		fn(arg, NULL, &err);
	else
		image_registration_save(all, &n);
}

/* The limit holds even if the removal that should make room failed. */
int image_check_snapshot_layers(const struct images *all, const struct id *tenant, size_t own,
				size_t more, struct cay_err *err)
{
	if (image_count_snapshot_layers(all, tenant) + own >= SNAPSHOT_LAYERS_TENANT)
		return cay_fail(err, CAY_E_LIMIT,
				"this tenant has %d layers of snapshots already, with those that "
				"sandboxes keep",
				SNAPSHOT_LAYERS_TENANT);
	if (image_count_all_layers(all, true) + more >= SNAPSHOT_LAYERS_MAX)
		return cay_fail(err, CAY_E_CAPACITY, "this node has %d layers of snapshots already",
				SNAPSHOT_LAYERS_MAX);
	return 0;
}

static int image_check_layer_room(const struct images *all, const struct image_layer_entry *l,
				  struct cay_err *err)
{
	const struct id *tenant = &l->tenant;

	if (l->snapshot)
		return image_check_snapshot_layers(all, tenant, 0, 0, err);
	if (image_count_all_layers(all, false) >= LAYERS_MAX)
		return cay_fail(err, CAY_E_LIMIT, "there are %d layers already", LAYERS_MAX);
	if (tenant->noun != ID_NONE && image_count_layers(all, tenant) >= LAYERS_TENANT)
		return cay_fail(err, CAY_E_LIMIT, "this tenant has %d layers already",
				LAYERS_TENANT);
	return 0;
}

void image_register_layer(struct images *all, const struct image_layer_entry *l, image_fn *fn,
			  void *arg)
{
	auto_arena arena = ARENA_INIT(KIB(1));
	const struct image *below = image_by_digest(all, l->parent);
	struct image_stored s = { .layer = l->hash, .tenant = l->tenant };
	struct image_registration n = { .all = all, .added = true, .fn = fn, .arg = arg };
	char parent[65];
	struct cay_err err = {};
	int r = 0;

	hex_encode(l->parent, 32, parent);
	if (l->snapshot)
		s.snapshot_parent = parent;
	if (!below || below->removing)
		r = cay_fail(&err, CAY_E_NOT_FOUND, "the parent image of the layer was removed");
	if (r >= 0)
		r = image_check_layer_room(all, l, &err);
	if (below && r >= 0) {
		s.config = below->config;
		s.info = (struct image_info){ .size_bytes = below->info.size_bytes + l->bytes,
					      .created_ns = clk_wall_ns(all->cayd->clk),
					      .digest = image_digest_format(&arena, l->digest) };
		r = s.info.digest ? id_generate(ID_IMAGE, 0, 0, &s.info.id) : -ENOMEM;
	}
	if (r >= 0)
		r = images_add(all, &s, &err);
	if (r < 0) {
		(void)cay_fail_sys(&err, CAY_E_INTERNAL, -r,
				   "register a layer"); /* keeps an error that is already set */
		fn(arg, NULL, &err);
		return;
	}
	all->rows[all->n - 1]->unsaved = true;
	/* the parent is not pruned while a layer exists; of a snapshot, image_is_in_use() says so
	 */
	for (size_t i = 0; !l->snapshot && i < all->n; i++)
		if (memcmp(all->rows[i]->digest, l->parent, 32) == 0)
			all->rows[i]->info.pulled = false;
	n.id = s.info.id;
	image_registration_save(all, &n);
}

const struct image *image_find_layer(const struct images *all, const char *hash)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->rows[i]->layer && !all->rows[i]->unsaved &&
		    str_eq(all->rows[i]->layer, hash))
			return all->rows[i];
	return NULL;
}

bool image_has_snapshot(const struct images *all, const uint8_t digest[static 32])
{
	for (size_t i = 0; i < all->n; i++)
		if (all->rows[i]->snapshot && memcmp(all->rows[i]->parent, digest, 32) == 0)
			return true;
	return false;
}

void image_mark_used(struct images *all, const uint8_t digest[static 32])
{
	for (size_t i = 0; i < all->n; i++)
		if (memcmp(all->rows[i]->digest, digest, 32) == 0) {
			all->rows[i]->info.used_ns = clk_wall_ns(all->cayd->clk);
			all->rows[i]->info.has_used = all->unsaved = true;
		}
}

void image_set_removing(struct images *all, const struct id *id, bool going)
{
	for (size_t i = 0; i < all->n; i++)
		if (id_eq(&all->rows[i]->info.id, id))
			all->rows[i]->removing = going;
}

void image_unregister(struct images *all, const struct id *id, images_fn *fn, void *arg)
{
	image_row_remove(all, id);
	images_save(all, fn, arg);
}
