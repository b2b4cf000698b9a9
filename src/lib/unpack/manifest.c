/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/manifest.h"

#include <inttypes.h>
#include <string.h>

#include "base/jsonw.h"
#include "ops/types.h"
#include "text/json.h"

/* As OCI calls it. */
#ifdef __aarch64__
#define OUR_ARCH "arm64"
#else
#define OUR_ARCH "amd64"
#endif

static const struct json_limits manifest_limits = {
	.bytes = LAYOUT_JSON_MAX,
	.depth = 16,
	.values = 20000,
};
static const struct json_limits config_limits = {
	.bytes = MANIFEST_CONFIG_MAX,
	.depth = 32,
	.values = 65536,
};

static const struct {
	const char *name;
	enum media media;
} media_names[] = {
	{ "application/vnd.oci.image.index.v1+json", MEDIA_INDEX },
	{ "application/vnd.docker.distribution.manifest.list.v2+json", MEDIA_INDEX },
	{ "application/vnd.oci.image.manifest.v1+json", MEDIA_MANIFEST },
	{ "application/vnd.docker.distribution.manifest.v2+json", MEDIA_MANIFEST },
	{ "application/vnd.oci.image.config.v1+json", MEDIA_CONFIG },
	{ "application/vnd.docker.container.image.v1+json", MEDIA_CONFIG },
	{ "application/vnd.oci.image.layer.v1.tar", MEDIA_TAR },
	{ "application/vnd.oci.image.layer.v1.tar+gzip", MEDIA_TAR_GZIP },
	{ "application/vnd.oci.image.layer.v1.tar+zstd", MEDIA_TAR_ZSTD },
	{ "application/vnd.docker.image.rootfs.diff.tar", MEDIA_TAR },
	{ "application/vnd.docker.image.rootfs.diff.tar.gzip", MEDIA_TAR_GZIP },
	{ "application/vnd.docker.image.rootfs.diff.tar.zstd", MEDIA_TAR_ZSTD },
};

static enum media manifest_media_type(const json_t *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(media_names); i++)
		if (json_text_eq(name, media_names[i].name))
			return media_names[i].media;
	return MEDIA_UNKNOWN;
}

static int manifest_parse_descriptor(const json_t *j, const char *what, struct descriptor *ret,
				     struct cay_err *err)
{
	const json_t *digest = json_object_get(j, "digest"), *size = json_object_get(j, "size");

	if (!json_is_string(digest) ||
	    digest_parse(json_string_value(digest), json_string_length(digest), &ret->digest) < 0)
		return cay_fail(err, CAY_E_INVALID, "%s: 'digest' is not sha256: and 64 digits",
				what);
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return cay_fail(err, CAY_E_INVALID, "%s: 'size' is not a number of bytes", what);
	ret->size = (uint64_t)json_integer_value(size);
	ret->media = manifest_media_type(json_object_get(j, "mediaType"));
	return 0;
}

/* schemaVersion 2, and both its mediaType and its members are of the expected kind. */
static int manifest_parse_kind(struct slice text, enum media want, const char *what, json_t **ret,
			       struct cay_err *err)
{
	const char *other = want == MEDIA_INDEX ? "layers" : "manifests";
	const json_t *j, *media;
	int r = json_parse(text, &manifest_limits, ret, err);

	if (r < 0)
		return cay_err_wrap(err, r, "%s", what);
	j = *ret;
	media = json_object_get(j, "mediaType");
	if (!json_is_object(j))
		return cay_fail(err, CAY_E_INVALID, "%s is not a JSON object", what);
	if (json_integer_value(json_object_get(j, "schemaVersion")) != 2)
		return cay_fail(err, CAY_E_INVALID, "%s: 'schemaVersion' is not 2", what);
	if ((media && manifest_media_type(media) != want) || json_object_get(j, other))
		return cay_fail(err, CAY_E_INVALID, "%s says that it is something else", what);
	return 0;
}

/* Whether it is for this machine; *ret_silent if it does not say. */
static bool manifest_is_our_platform(const json_t *descriptor, bool *ret_silent)
{
	const json_t *p = json_object_get(descriptor, "platform");

	*ret_silent = !p;
	return json_text_eq(json_object_get(p, "os"), "linux") &&
	       json_text_eq(json_object_get(p, "architecture"), OUR_ARCH);
}

/* NAME:TAG of letters, digits and "._-/:", as docker has them. */
static bool image_choice_name_is_valid(const char *name)
{
	size_t n = strlen(name);

	if (!n || n > MANIFEST_NAME_MAX || !strchr(name, ':') || !ascii_is_alnum(name[0]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!ascii_is_alnum(name[i]) && !strchr("._-/:", name[i]))
			return false;
	return true;
}

void image_choice_add_name(struct image_choice *c, const char *name)
{
	if (!image_choice_name_is_valid(name) || c->n_names == MANIFEST_NAMES_MAX)
		return;
	for (size_t i = 0; i < c->n_names; i++)
		if (str_eq(c->names[i], name))
			return;
	memcpy(c->names[c->n_names++], name, strlen(name) + 1);
}

int image_choice_check(struct image_choice *c, size_t n, struct cay_err *err)
{
	c->n_images = n;
	if (n > MANIFEST_IMAGES_MAX)
		return cay_fail(err, CAY_E_TOO_LARGE, "holds %zu images, at most %d may be", n,
				MANIFEST_IMAGES_MAX);
	if (!c->which && n > 1)
		return cay_fail(err, CAY_E_INVALID,
				"holds several images; import them without a name, or one at a "
				"time");
	if (c->which > n)
		return cay_fail(err, CAY_E_INVALID, "holds %zu images", n);
	return 0;
}

/* The names that builders give in annotations: containerd's is whole, OCI's may be a tag alone. */
static void manifest_take_annotations(const json_t *descriptor, struct image_choice *choice)
{
	static const char *const keys[] = { "io.containerd.image.name",
					    "org.opencontainers.image.ref.name" };
	const json_t *all = json_object_get(descriptor, "annotations");

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *name = json_string_value(json_object_get(all, keys[i]));

		if (name)
			image_choice_add_name(choice, name);
		if (choice->n_names)
			return;
	}
}

/* Several names of one image are one image.  The number found; the chosen one in *ret. */
static int manifest_pick_from_list(const json_t *list, bool any_platform,
				   struct image_choice *choice, struct descriptor *ret,
				   struct cay_err *err)
{
	struct digest found[MANIFEST_IMAGES_MAX + 1];
	size_t n = 0, at, i;
	json_t *j;

	json_array_foreach(list, i, j)
	{
		struct descriptor d = {};
		bool silent, ours = manifest_is_our_platform(j, &silent);
		int r = manifest_parse_descriptor(j, "index", &d, err);

		if (r < 0)
			return r;
		if ((d.media != MEDIA_INDEX && d.media != MEDIA_MANIFEST) ||
		    (!ours && !(any_platform && silent)))
			continue;
		for (at = 0; at < n && !digest_eq(&d.digest, &found[at]); at++)
			;
		if (at == ARRAY_SIZE(found))
			continue; /* too many already */
		if (at == n)
			found[n++] = d.digest;
		if (at + 1 != (choice->which ? choice->which : 1))
			continue;
		*ret = d;
		manifest_take_annotations(j, choice);
	}
	return (int)n;
}

int manifest_pick_platform(struct slice index, struct image_choice *choice, struct descriptor *ret,
			   struct cay_err *err)
{
	auto_json j = NULL;
	const json_t *list;
	int r = manifest_parse_kind(index, MEDIA_INDEX, "index", &j, err);

	if (r < 0)
		return r;
	list = json_object_get(j, "manifests");
	if (!json_is_array(list) || !json_array_size(list))
		return cay_fail(err, CAY_E_INVALID, "the index holds no image");
	/* one that names our platform before those that name none */
	r = manifest_pick_from_list(list, /* any_platform= */ false, choice, ret, err);
	if (r == 0)
		r = manifest_pick_from_list(list, /* any_platform= */ true, choice, ret, err);
	if (r == 0)
		return cay_fail(err, CAY_E_INVALID, "the index holds no image for linux/" OUR_ARCH);
	if (r > 0)
		r = image_choice_check(choice, (size_t)r, err);
	return r < 0 ? cay_err_wrap(err, r, "index.json") : 0;
}

int manifest_check_layers(const json_t *list, struct cay_err *err)
{
	if (!json_is_array(list) || !json_array_size(list))
		return cay_fail(err, CAY_E_INVALID, "the image has no layers");
	if (json_array_size(list) > MANIFEST_LAYERS_MAX)
		return cay_fail(err, CAY_E_INVALID, "the image has %zu layers, at most %d may be",
				json_array_size(list), MANIFEST_LAYERS_MAX);
	return 0;
}

static int manifest_parse_layers(const json_t *list, struct manifest *m, struct cay_err *err)
{
	size_t i;
	json_t *j;

	if (manifest_check_layers(list, err) < 0)
		return -EINVAL;
	json_array_foreach(list, i, j)
	{
		struct descriptor *d = &m->layers[m->n_layers];
		int r = manifest_parse_descriptor(j, "layer", d, err);

		if (r < 0)
			return r;
		if (d->media != MEDIA_TAR && d->media != MEDIA_TAR_GZIP &&
		    d->media != MEDIA_TAR_ZSTD)
			return cay_fail(err, CAY_E_INVALID,
					"layer %zu is not a tar, plain or by gzip or zstd", i + 1);
		if (!d->size)
			return cay_fail(err, CAY_E_INVALID,
					"layer %zu has no bytes, not even a tar's end", i + 1);
		m->n_layers++;
	}
	return 0;
}

int manifest_parse(struct slice text, struct manifest *ret, struct cay_err *err)
{
	auto_json j = NULL;
	const json_t *config;
	int r = manifest_parse_kind(text, MEDIA_MANIFEST, "manifest", &j, err);

	if (r < 0)
		return r;
	*ret = (struct manifest){};
	config = json_object_get(j, "config");
	r = manifest_parse_descriptor(config, "config", &ret->config, err);
	if (r >= 0 && ret->config.media != MEDIA_CONFIG)
		r = cay_fail(err, CAY_E_INVALID,
			     "its config is no container's: an artifact, not an image");
	if (r >= 0)
		r = manifest_parse_layers(json_object_get(j, "layers"), ret, err);
	return r;
}

static void manifest_write_digest(struct jw *w, const char *name, const struct digest *d)
{
	char text[sizeof(DIGEST_PREFIX) + DIGEST_HEX_LEN] = DIGEST_PREFIX;

	digest_format_hex(d, text + strlen(DIGEST_PREFIX));
	jw_str(w, name, text);
}

static void manifest_write_descriptor(struct jw *w, const char *name, const struct descriptor *d)
{
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(media_names) && media_names[i].media != d->media)
		i++;
	jw_object_begin(w, name);
	jw_str(w, "mediaType", media_names[i].name);
	manifest_write_digest(w, "digest", &d->digest);
	jw_u64(w, "size", d->size);
	jw_end(w);
}

int manifest_write(const struct manifest *m, struct buf *ret, struct cay_err *err)
{
	struct jw w = jw_to(ret);

	jw_object_begin(&w, NULL);
	jw_u64(&w, "schemaVersion", 2);
	manifest_write_descriptor(&w, "config", &m->config);
	jw_array_begin(&w, "layers");
	for (size_t i = 0; i < m->n_layers; i++)
		manifest_write_descriptor(&w, NULL, &m->layers[i]);
	jw_end(&w);
	jw_end(&w);
	return jw_finish(&w) < 0 ? cay_no_memory(err) : 0;
}

int manifest_write_config(const struct digest *diff_id, struct buf *ret, struct cay_err *err)
{
	struct jw w = jw_to(ret);

	jw_object_begin(&w, NULL);
	jw_str(&w, "architecture", OUR_ARCH);
	jw_str(&w, "os", "linux");
	jw_object_begin(&w, "rootfs");
	jw_str(&w, "type", "layers");
	jw_array_begin(&w, "diff_ids");
	manifest_write_digest(&w, NULL, diff_id);
	jw_end(&w);
	jw_end(&w);
	jw_end(&w);
	return jw_finish(&w) < 0 ? cay_no_memory(err) : 0;
}

static int manifest_parse_diff_ids(const json_t *config, size_t n_layers,
				   struct digest diff_ids[static MANIFEST_LAYERS_MAX],
				   struct cay_err *err)
{
	const json_t *rootfs = json_object_get(config, "rootfs");
	const json_t *ids = json_object_get(rootfs, "diff_ids");

	if (!json_text_eq(json_object_get(rootfs, "type"), "layers") || !json_is_array(ids))
		return cay_fail(err, CAY_E_INVALID, "config: 'rootfs' is not a list of layers");
	if (json_array_size(ids) != n_layers)
		return cay_fail(err, CAY_E_INVALID, "config: %zu diff_ids for %zu layers",
				json_array_size(ids), n_layers);
	for (size_t i = 0; i < n_layers; i++) {
		const json_t *id = json_array_get(ids, i);

		if (!json_is_string(id) ||
		    digest_parse(json_string_value(id), json_string_length(id), &diff_ids[i]) < 0)
			return cay_fail(err, CAY_E_INVALID,
					"config: diff_id %zu is not sha256: and 64 digits", i + 1);
	}
	return 0;
}

/* An environment entry alone, through the table every client's goes through. */
static bool manifest_env_is_valid(const char *key, json_t *value)
{
	auto_arena arena = ARENA_INIT(MIB(1));
	auto_json j = json_pack("{s:{s:O}}", "env", key, value);
	struct image_config one = {};

	return j && field_decode(&image_config_table, j, &arena, &one, NULL) == 0;
}

/* ["A=1", "B=2"] to {"A": "1", "B": "2"}; invalid variables are dropped. */
static int manifest_copy_env(const json_t *list, json_t *ret, struct cay_err *err)
{
	size_t i;
	json_t *j;

	json_array_foreach(list, i, j)
	{
		const char *text = json_string_value(j), *eq = text ? strchr(text, '=') : NULL;
		auto_buf key = BUF_INIT(MANIFEST_CONFIG_MAX);
		auto_json value = eq ? json_string(eq + 1) : NULL;

		if (!eq)
			continue;
		if (!value || buf_append(&key, text, (size_t)(eq - text)) < 0)
			return cay_no_memory(err);
		if (manifest_env_is_valid(buf_str(&key), value) &&
		    json_object_set(ret, buf_str(&key), value) < 0)
			return cay_no_memory(err);
	}
	return 0;
}

static int manifest_copy_text(const json_t *from, const char *name, json_t *to, const char *as,
			      struct cay_err *err)
{
	json_t *j = json_object_get(from, name);

	if (!j || json_is_null(j) || json_text_eq(j, ""))
		return 0;
	if (json_object_set(to, as, j) < 0)
		return cay_no_memory(err);
	return 0;
}

/* Append a list of texts to another; anything else is refused by the table. */
static int manifest_copy_words(const json_t *from, const char *name, json_t *to,
			       struct cay_err *err)
{
	json_t *list = json_object_get(from, name), *j;
	size_t i;

	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list))
		return cay_fail(err, CAY_E_INVALID, "'%s' is not a list of words", name);
	json_array_foreach(list, i, j)
	{
		if (json_array_append(to, j) < 0)
			return cay_no_memory(err);
	}
	return 0;
}

static int manifest_copy_argv(const json_t *config, json_t *to, struct cay_err *err)
{
	auto_json argv = json_array();
	int r = argv ? manifest_copy_words(config, "Entrypoint", argv, err) : -ENOMEM;

	if (r >= 0)
		r = manifest_copy_words(config, "Cmd", argv, err);
	if (r >= 0 && json_array_size(argv) && json_object_set(to, "argv", argv) < 0)
		r = -ENOMEM;
	return r == -ENOMEM ? cay_no_memory(err) : r;
}

static int manifest_encode_config(const json_t *config, const struct image_choice *choice,
				  struct buf *ret, struct cay_err *err)
{
	const char *names[MANIFEST_NAMES_MAX];
	auto_arena arena = ARENA_INIT(MIB(1));
	auto_json env = json_object();
	auto_json j = json_object();
	struct image_config c = {};
	struct jw w = jw_to(ret);
	int r;

	if (!env || !j || json_object_set(j, "env", env) < 0)
		return cay_no_memory(err);
	r = manifest_copy_env(json_object_get(config, "Env"), env, err);
	if (r >= 0)
		r = manifest_copy_text(config, "User", j, "user", err);
	if (r >= 0)
		r = manifest_copy_text(config, "WorkingDir", j, "cwd", err);
	if (r >= 0)
		r = manifest_copy_argv(config, j, err);
	if (r >= 0)
		r = field_decode(&image_config_table, j, &arena, &c, err);
	if (r < 0)
		return cay_err_wrap(err, r, "config");
	for (size_t i = 0; i < choice->n_names; i++)
		names[i] = choice->names[i];
	c.names = (struct field_texts){ .v = names, .n = choice->n_names };
	c.has_names = choice->n_names > 0;
	c.images = choice->n_images;
	c.has_images = choice->n_images > 1;
	field_encode(&image_config_table, NULL, &c, &w);
	r = jw_finish(&w);
	if (r == -ENOBUFS)
		return cay_fail(err, CAY_E_TOO_LARGE,
				"config: its variables are longer than %zu bytes", ret->max);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, r, "cannot write the config") : 0;
}

int manifest_parse_config(struct slice text, size_t n_layers, const struct image_choice *choice,
			  struct digest diff_ids[static MANIFEST_LAYERS_MAX], struct buf *ret,
			  struct cay_err *err)
{
	auto_json j = NULL;
	int r = json_parse(text, &config_limits, &j, err);

	if (r < 0)
		return cay_err_wrap(err, r, "config");
	if (!json_is_object(j))
		return cay_fail(err, CAY_E_INVALID, "config is not a JSON object");
	if (!json_text_eq(json_object_get(j, "os"), "linux") ||
	    !json_text_eq(json_object_get(j, "architecture"), OUR_ARCH))
		return cay_fail(err, CAY_E_INVALID, "the image is not for linux/" OUR_ARCH);
	r = manifest_parse_diff_ids(j, n_layers, diff_ids, err);
	return r < 0 ? r : manifest_encode_config(json_object_get(j, "config"), choice, ret, err);
}
