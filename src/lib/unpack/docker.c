/* SPDX-License-Identifier: Apache-2.0 */
#include "unpack/docker.h"

#include <string.h>

#include "text/json.h"
#include "unpack/manifest.h"

static const struct json_limits limits = { .bytes = LAYOUT_JSON_MAX, .depth = 16, .values = 20000 };

static const char *docker_manifest_read_name(const json_t *j, struct arena *arena)
{
	const char *name = json_string_value(j);

	if (!name || !name[0] || json_string_length(j) > LAYOUT_NAME_MAX ||
	    strlen(name) != json_string_length(j))
		return NULL;
	return arena_strndup(arena, name, strlen(name));
}

static int docker_manifest_read_layers(const json_t *list, struct arena *arena,
				       struct docker_image *ret, struct cay_err *err)
{
	size_t i;
	json_t *j;

	if (manifest_check_layers(list, err) < 0)
		return -EINVAL;
	json_array_foreach(list, i, j)
	{
		ret->layers[i] = docker_manifest_read_name(j, arena);
		if (!ret->layers[i])
			return cay_fail(err, CAY_E_INVALID, "layer %zu is not a file's name",
					i + 1);
		ret->n_layers++;
	}
	return 0;
}

static void docker_manifest_take_tags(const json_t *image, struct image_choice *choice)
{
	size_t i;
	json_t *j;

	json_array_foreach(json_object_get(image, "RepoTags"), i, j)
	{
		const char *name = json_string_value(j);

		if (name && strlen(name) == json_string_length(j))
			image_choice_add_name(choice, name);
	}
}

int docker_manifest_parse(struct slice text, struct image_choice *choice, struct arena *arena,
			  struct docker_image *ret, struct cay_err *err)
{
	auto_json j = NULL;
	const json_t *one;
	int r = json_parse(text, &limits, &j, err);

	*ret = (struct docker_image){};
	if (r < 0)
		return r;
	if (!json_is_array(j) || !json_array_size(j))
		return cay_fail(err, CAY_E_INVALID, "holds no image");
	r = image_choice_check(choice, json_array_size(j), err);
	if (r < 0)
		return r;
	one = json_array_get(j, choice->which ? choice->which - 1 : 0);
	docker_manifest_take_tags(one, choice);
	ret->config = docker_manifest_read_name(json_object_get(one, "Config"), arena);
	if (!ret->config)
		return cay_fail(err, CAY_E_INVALID, "'Config' is not a file's name");
	return docker_manifest_read_layers(json_object_get(one, "Layers"), arena, ret, err);
}

static const struct oci_layout_file *docker_archive_find_file(const struct oci_layout *l,
							      const char *name, struct cay_err *err)
{
	const struct oci_layout_file *f = oci_layout_find_file(l, name);

	if (!f)
		(void)cay_fail(err, CAY_E_INVALID, "'%.200s' is not in the archive", name);
	return f;
}

static int docker_archive_add_layers(struct oci_layout *l, const struct docker_image *image,
				     struct manifest *m, struct cay_err *err)
{
	for (size_t i = 0; i < image->n_layers; i++) {
		const struct oci_layout_file *f =
			docker_archive_find_file(l, image->layers[i], err);
		int r = f ? oci_layout_add_blob(l, f, &m->layers[i], err) : -EINVAL;

		if (r >= 0 && !f->size)
			r = cay_fail(err, CAY_E_INVALID, "has no bytes, not even a tar's end");
		if (r < 0)
			return cay_err_wrap(err, r, "layer %zu", i + 1);
		m->n_layers++;
	}
	return 0;
}

static int docker_manifest_read_text(const struct oci_layout *l, struct buf *ret,
				     struct cay_err *err)
{
	const struct oci_layout_file *f = oci_layout_find_file(l, "manifest.json");

	return f ? oci_layout_read_file(l, f, ret, err)
		 : cay_fail(err, CAY_E_INVALID, "is not in the archive");
}

/* Whether "blobs/sha256/HEX" or "HEX.json" names the config with this digest. */
static bool docker_config_is(const json_t *image, const struct digest *config)
{
	const char *name = json_string_value(json_object_get(image, "Config"));
	char hex[DIGEST_HEX_LEN + 1];

	digest_format_hex(config, hex);
	return name && strstr(name, hex);
}

void docker_archive_read_names(const struct oci_layout *l, const struct digest *config,
			       struct image_choice *choice)
{
	auto_buf text = BUF_INIT(LAYOUT_JSON_MAX);
	struct image_choice named = {};
	auto_json j = NULL;
	json_t *image;
	size_t i;

	if (docker_manifest_read_text(l, &text, NULL) < 0 ||
	    json_parse((struct slice){ text.data, text.len }, &limits, &j, NULL) < 0)
		return;
	json_array_foreach(j, i, image)
	{
		if (docker_config_is(image, config))
			docker_manifest_take_tags(image, &named);
	}
	if (!named.n_names)
		return;
	memcpy(choice->names, named.names, sizeof(named.names));
	choice->n_names = named.n_names;
}

int docker_archive_read(struct oci_layout *l, struct image_choice *choice, struct manifest *ret,
			struct buf *ret_config, struct cay_err *err)
{
	const struct oci_layout_file *f;
	auto_buf text = BUF_INIT(LAYOUT_JSON_MAX);
	auto_arena arena = ARENA_INIT(KIB(256));
	struct docker_image image;
	int r = docker_manifest_read_text(l, &text, err);

	if (r >= 0)
		r = docker_manifest_parse((struct slice){ text.data, text.len }, choice, &arena,
					  &image, err);
	if (r < 0)
		return cay_err_wrap(err, r, "manifest.json");
	*ret = (struct manifest){};
	f = docker_archive_find_file(l, image.config, err);
	r = f ? oci_layout_read_file(l, f, ret_config, err) : -EINVAL;
	ret->config = (struct descriptor){ .size = ret_config->len, .media = MEDIA_CONFIG };
	if (r >= 0 && digest_compute(ret_config->data, ret_config->len, &ret->config.digest) < 0)
		r = cay_fail(err, CAY_E_INTERNAL, "cannot hash it");
	if (r < 0)
		return cay_err_wrap(err, r, "config");
	return docker_archive_add_layers(l, &image, ret, err);
}
