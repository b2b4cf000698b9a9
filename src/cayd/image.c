/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/image.h"

#include <fcntl.h>

#include "base/path.h"
#include "text/hex.h"

#define FILE_NAME "images.json"
#define FILE_MAX MIB(64)
#define POOL_MAX KIB(256)

struct images {
	struct cayd *cayd;
	struct image_row *rows[IMAGES_MAX];
	size_t n;
};

/* A row as the file has it. */
struct stored {
	struct image info;
	struct image_config config;
};

static const struct field stored_rows[] = {
	{ .name = "image",
	  .type = FIELD_OBJECT,
	  .offset = offsetof(struct stored, info),
	  .required = true,
	  .sub = &image_table },
	{ .name = "config",
	  .type = FIELD_OBJECT,
	  .offset = offsetof(struct stored, config),
	  .required = true,
	  .sub = &image_config_table },
};
static const struct field_table stored_table = { "StoredImage", "", sizeof(struct stored),
						 stored_rows, ARRAY_SIZE(stored_rows) };

struct file {
	struct field_list images;
};

static const struct field file_rows[] = {
	{ .name = "images",
	  .type = FIELD_LIST,
	  .required = true,
	  .max = IMAGES_MAX,
	  .sub = &stored_table },
};
static const struct field_table file_table = { "ImageFile", "", sizeof(struct file), file_rows,
					       ARRAY_SIZE(file_rows) };

static void row_free(struct image_row *r)
{
	if (!r)
		return;
	pool_fini(&r->pool);
	free(r);
}
CAY_DEFINE_FREEP(image_row, row_free)

static int digest_parse(const char *text, uint8_t ret[static 32])
{
	if (strncmp(text, "sha256:", 7) != 0)
		return -EINVAL;
	return hex_read(text + 7, strlen(text + 7), ret, 32);
}

static char *digest_text(struct pool *pool, const uint8_t digest[static 32])
{
	char text[7 + 64 + 1] = "sha256:";

	hex_write(digest, 32, text + 7);
	return pool_strn(pool, text, sizeof(text) - 1);
}

static char *copy_text(struct pool *pool, const char *s)
{
	return s ? pool_strn(pool, s, strlen(s)) : NULL;
}

/* A row of its own from a decoded one. */
static int add_row(struct images *all, const struct stored *s, struct cay_err *err)
{
	auto_ptr(image_row) r = all->n < IMAGES_MAX ? calloc(1, sizeof(*r)) : NULL;
	const struct field_map *env = &s->config.env;

	if (all->n == IMAGES_MAX)
		return cay_fail(err, CAY_E_LIMIT, "there are %d images already", IMAGES_MAX);
	if (!r)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	r->pool = POOL_INIT(POOL_MAX);
	r->info = s->info;
	r->info.name = copy_text(&r->pool, s->info.name);
	r->info.digest = copy_text(&r->pool, s->info.digest);
	r->config.user = copy_text(&r->pool, s->config.user);
	r->config.cwd = copy_text(&r->pool, s->config.cwd);
	r->config.env.keys = env->n ? pool_take(&r->pool, env->n, sizeof(char *)) : NULL;
	r->config.env.values = env->n ? pool_take(&r->pool, env->n, sizeof(char *)) : NULL;
	for (size_t i = 0; r->config.env.keys && r->config.env.values && i < env->n; i++) {
		r->config.env.keys[i] = copy_text(&r->pool, env->keys[i]);
		r->config.env.values[i] = copy_text(&r->pool, env->values[i]);
		r->config.env.n += r->config.env.keys[i] && r->config.env.values[i];
	}
	if (!r->info.digest || r->config.env.n != env->n || r->pool.full)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	if (digest_parse(r->info.digest, r->digest) < 0)
		return cay_fail(err, CAY_E_INVALID, "'%s' is not a digest", r->info.digest);
	all->rows[all->n++] = cay_take(r);
	return 0;
}

static int save(const struct images *all, struct cay_err *err)
{
	auto_buf text = BUF_INIT(FILE_MAX);
	struct jw w = jw_to(&text);
	int r;

	jw_object(&w, NULL);
	jw_array(&w, "images");
	for (size_t i = 0; i < all->n; i++) {
		struct stored s = { all->rows[i]->info, all->rows[i]->config };

		field_encode(&stored_table, NULL, &s, &w);
	}
	jw_end(&w);
	jw_end(&w);
	r = jw_done(&w);
	if (r >= 0)
		r = path_write(all->cayd->db_dir, FILE_NAME, text.data, text.len, 0600);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "write db/" FILE_NAME) : 0;
}

static int load(struct images *all, struct cay_err *err)
{
	static const struct json_limits limits = { FILE_MAX, 8, 2000000 };
	auto_buf text = BUF_INIT(FILE_MAX);
	auto_pool pool = POOL_INIT(FILE_MAX);
	auto_json json = NULL;
	struct file f = {};
	int r = path_read(all->cayd->db_dir, FILE_NAME, &text);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read db/" FILE_NAME);
	r = jr_read((struct slice){ buf_str(&text), text.len }, &limits, &json, err);
	if (r >= 0)
		r = field_decode(&file_table, json, &pool, &f, err);
	for (size_t i = 0; r >= 0 && i < f.images.n; i++)
		r = add_row(all, &((const struct stored *)f.images.v)[i], err);
	return r < 0 ? cay_wrap(err, r, "db/" FILE_NAME) : 0;
}

int images_open(struct cayd *c, struct cay_err *err)
{
	c->images = calloc(1, sizeof(*c->images));
	if (!c->images)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	c->images->cayd = c;
	return load(c->images, err);
}

const struct image_row *image_at(const struct images *all, size_t i)
{
	return i < all->n ? all->rows[i] : NULL;
}

const struct image_row *image_by_id(const struct images *all, const struct id *id)
{
	for (size_t i = 0; i < all->n; i++)
		if (id_eq(&all->rows[i]->info.id, id))
			return all->rows[i];
	return NULL;
}

const struct image_row *image_by_digest(const struct images *all, const uint8_t digest[static 32])
{
	for (size_t i = 0; i < all->n; i++)
		if (memcmp(all->rows[i]->digest, digest, 32) == 0)
			return all->rows[i];
	return NULL;
}

static struct image_row *find_name(const struct images *all, const char *name)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->rows[i]->info.name && str_eq(all->rows[i]->info.name, name))
			return all->rows[i];
	return NULL;
}

size_t image_names(const struct images *all, const uint8_t digest[static 32])
{
	size_t n = 0;

	for (size_t i = 0; i < all->n; i++)
		n += memcmp(all->rows[i]->digest, digest, 32) == 0;
	return n;
}

const struct image_row *image_find(const struct images *all, const char *ref)
{
	const struct image_row *named = find_name(all, ref);
	uint8_t digest[32];
	struct id id;

	if (named)
		return named;
	if (digest_parse(ref, digest) == 0)
		return image_by_digest(all, digest);
	if (id_parse(ID_IMAGE, slice_of(ref), &id) == 0)
		return image_by_id(all, &id);
	return NULL;
}

int image_note(struct images *all, const char *name, const uint8_t digest[static 32],
	       uint64_t bytes, struct slice config, const struct image_row **ret,
	       struct cay_err *err)
{
	auto_pool pool = POOL_INIT(POOL_MAX);
	auto_json json = NULL;
	struct stored s = { .info = { .name = name, .size_bytes = bytes } };
	struct image_row *old;
	int r = jr_read(config, &json_control_limits, &json, err);

	if (r >= 0)
		r = field_decode(&image_config_table, json, &pool, &s.config, err);
	if (r >= 0)
		r = id_new(ID_IMAGE, 0, 0, &s.info.id);
	if (r < 0)
		return cay_wrap(err, r, "what the image says of itself");
	s.info.created_ns = clk_wall_ns(all->cayd->clk);
	s.info.digest = digest_text(&pool, digest);
	if (!s.info.digest)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	old = find_name(all, name);
	if (old && memcmp(old->digest, digest, 32) == 0) {
		*ret = old; /* the same again is the same */
		return 0;
	}
	r = add_row(all, &s, err);
	if (r >= 0 && old)
		old->info.name = NULL;
	if (r >= 0)
		r = save(all, err);
	if (r >= 0)
		*ret = all->rows[all->n - 1];
	return r;
}

int image_forget(struct images *all, const struct id *id, struct cay_err *err)
{
	for (size_t i = 0; i < all->n; i++)
		if (id_eq(&all->rows[i]->info.id, id)) {
			row_free(all->rows[i]);
			memmove(&all->rows[i], &all->rows[i + 1],
				(all->n - i - 1) * sizeof(all->rows[0]));
			all->n--;
			return save(all, err);
		}
	return cay_fail(err, CAY_E_NOT_FOUND, "there is no such image");
}
