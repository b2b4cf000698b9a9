/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Index, manifest and config of an image, or docker's manifest.json; the first byte
 * says which.  What is
 * accepted is within its limits, and a config that is written is one that the
 * table of image_config accepts.
 */
#include "fuzz.h"
#include "ops/types.h"
#include "unpack/docker.h"
#include "unpack/unpack.h"

static void check_config(const struct buf *json)
{
	auto_arena arena = ARENA_INIT(MIB(1));
	struct image_config c = {};
	struct cay_err err = {};
	auto_json j = NULL;

	CHECK(json->len <= UNPACK_CONFIG_MAX);
	CHECK(json_parse((struct slice){ json->data, json->len }, &json_control_limits, &j, &err) ==
	      0);
	CHECK(field_decode(&image_config_table, j, &arena, &c, &err) == 0);
}

static void check_choice(const struct image_choice *c, int r)
{
	CHECK(r < 0 ||
	      (c->n_images && c->n_images <= MANIFEST_IMAGES_MAX && c->which <= c->n_images));
	CHECK(r < 0 || c->which || c->n_images == 1);
	CHECK(c->n_names <= MANIFEST_NAMES_MAX);
	for (size_t i = 0; i < c->n_names; i++)
		CHECK(strchr(c->names[i], ':') && strlen(c->names[i]) <= MANIFEST_NAME_MAX);
}

static int read_config(struct slice text, size_t n_layers, struct cay_err *err)
{
	struct image_choice choice = {};
	struct digest ids[MANIFEST_LAYERS_MAX];
	auto_buf json = BUF_INIT(UNPACK_CONFIG_MAX);
	int r = manifest_parse_config(text, n_layers, &choice, ids, &json, err);

	if (r >= 0)
		check_config(&json);
	return r;
}

static int read_manifest(struct slice text, struct cay_err *err)
{
	struct manifest m;
	int r = manifest_parse(text, &m, err);

	CHECK(r < 0 || (m.n_layers >= 1 && m.n_layers <= MANIFEST_LAYERS_MAX));
	for (size_t i = 0; r >= 0 && i < m.n_layers; i++)
		CHECK(m.layers[i].media >= MEDIA_TAR && m.layers[i].size <= INT64_MAX);
	return r;
}

static int pick(struct slice text, struct cay_err *err)
{
	struct image_choice choice = { .which = text.n % 4 };
	struct descriptor d;
	int r = manifest_pick_platform(text, &choice, &d, err);

	CHECK(r < 0 || d.media == MEDIA_INDEX || d.media == MEDIA_MANIFEST);
	check_choice(&choice, r);
	return r;
}

static int read_docker(struct slice text, struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(KIB(256));
	struct image_choice choice = { .which = text.n % 4 };
	struct docker_image image;
	int r = docker_manifest_parse(text, &choice, &arena, &image, err);

	CHECK(r < 0 || (image.n_layers >= 1 && image.n_layers <= MANIFEST_LAYERS_MAX));
	check_choice(&choice, r);
	for (size_t i = 0; r >= 0 && i < image.n_layers; i++)
		CHECK(image.layers[i][0] && strlen(image.layers[i]) <= LAYOUT_NAME_MAX);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cay_err err = {};
	struct slice text;
	char *in;
	int r;

	if (!size)
		return 0;
	in = fuzz_copy(data + 1, size - 1);
	text = (struct slice){ in, size - 1 };
	switch (data[0] == 0xFF ? 3 : data[0] % 3) {
	case 3:
		r = read_docker(text, &err);
		break;
	case 0:
		r = pick(text, &err);
		break;
	case 1:
		r = read_manifest(text, &err);
		break;
	default:
		r = read_config(text, 1 + data[0] / 3 % MANIFEST_LAYERS_MAX, &err);
	}
	CHECK(r >= 0 || (err.code != CAY_OK && err.msg[0]));
	free(in);
	return 0;
}
