/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setup-images - leave the images that --with names, each with a template of its name
 *
 * They come from --images, else they are built from Debian packages as base is.  What is there
 * stays, so a setup that stopped can be run again.
 */
#include <limits.h>

#include "base/clock.h"
#include "cli/print/progress.h"
#include "cli/setup/setup.h"

#define TEMPLATES_MAX 2

struct setup_image {
	const char *name;
	const char *templates[TEMPLATES_MAX]; /* or NULL */
};

static const struct setup_image setup_images[] = {
	{ "python", { "python" } },
	{ "node", { "node" } },
	{ "r", { "r" } },
	/* the second name is the one clients of E2B ask for */
	{ "code", { "code", "code-interpreter-v1" } },
	{ "desktop", { "desktop" } },
};

/* What the node has of one of them. */
struct setup_image_found {
	bool image, templates[TEMPLATES_MAX];
};

struct setup_images_found {
	struct setup_image_found rows[ARRAY_SIZE(setup_images)];
};

int setup_images_parse(const char *names, uint64_t *ret, struct cay_err *err)
{
	struct slice rest = slice_of(names);

	*ret = 0;
	while (rest.n) {
		struct slice name = slice_cut(&rest, ',');
		size_t i = 0;

		while (i < ARRAY_SIZE(setup_images) &&
		       !slice_eq(name, slice_of(setup_images[i].name)))
			i++;
		if (i == ARRAY_SIZE(setup_images))
			return cay_fail(err, CAY_E_INVALID,
					"setup: there is no image '%.*s' to build; there are "
					"python, node, r, code and desktop",
					name.n < 64 ? (int)name.n : 64, name.p);
		*ret |= UINT64_C(1) << i;
	}
	return 0;
}

static bool setup_images_wants(const struct setup *s, size_t i)
{
	return s->with & UINT64_C(1) << i;
}

static int setup_images_note_image(void *to, const void *row)
{
	const struct image_info *image = row;
	struct setup_images_found *found = to;

	for (size_t i = 0; image->name && i < ARRAY_SIZE(setup_images); i++)
		found->rows[i].image |= str_eq(image->name, setup_images[i].name);
	return 0;
}

static int setup_images_note_template(void *to, const void *row)
{
	const struct template_info *t = row;
	struct setup_images_found *found = to;

	for (size_t i = 0; i < ARRAY_SIZE(setup_images); i++)
		for (size_t j = 0; j < TEMPLATES_MAX && setup_images[i].templates[j]; j++)
			found->rows[i].templates[j] |=
				str_eq(t->name, setup_images[i].templates[j]);
	return 0;
}

static int setup_images_look(struct setup *s, struct setup_images_found *ret, struct cay_err *err)
{
	int r = api_list_each(s->api, OP_IMAGE_LIST, NULL, setup_images_note_image, ret, err);

	return r < 0 ? r
		     : api_list_each(s->api, OP_TEMPLATE_LIST, NULL, setup_images_note_template,
				     ret, err);
}

static bool setup_image_is_complete(size_t i, const struct setup_image_found *found)
{
	for (size_t j = 0; j < TEMPLATES_MAX && setup_images[i].templates[j]; j++)
		if (!found->templates[j])
			return false;
	return found->image;
}

bool setup_images_wanted(const struct setup *s)
{
	return s->with;
}

int setup_images_check(struct setup *s, struct cay_err *err)
{
	struct setup_images_found found = {};
	auto_buf missing = BUF_INIT(128);
	struct cay_err why = {};
	int r = setup_images_look(s, &found, &why);

	if (r < 0 && s->check) {
		s->api->hint[0] = 0;
		return setup_report(s, 0, "not known until cayd runs");
	}
	if (r < 0) {
		*err = why;
		return r;
	}
	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(setup_images); i++)
		if (setup_images_wants(s, i) && !setup_image_is_complete(i, &found.rows[i]))
			r = buf_printf(&missing, "%s%s", missing.len ? ", " : "",
				       setup_images[i].name);
	if (r < 0)
		return cay_no_memory(err);
	return missing.len ? setup_report(s, 0, "to be made: %s", buf_str(&missing))
			   : setup_report(s, 1, "exist");
}

/* From --images: a layout NAME, or a file NAME.tar. */
static int setup_image_take(struct setup *s, const char *name, struct image_info *ret,
			    struct cay_err *err)
{
	static const char *const suffixes[] = { "", ".tar" };

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
		auto_buf path = BUF_INIT(PATH_MAX);

		if (buf_printf(&path, "%s/%s%s", s->images, name, suffixes[i]) < 0)
			return cay_no_memory(err);
		if (access(buf_str(&path), F_OK) == 0)
			return image_import_send(s->cli, buf_str(&path), name, ret, err);
	}
	return cay_fail(err, CAY_E_NOT_FOUND, "'%s' has neither %s nor %s.tar", s->images, name,
			name);
}

static int setup_image_make(struct setup *s, size_t i, struct buf *report, struct cay_err *err)
{
	const char *name = setup_images[i].name;
	struct image_info made = {};
	int r = s->images ? setup_image_take(s, name, &made, err)
			  : setup_image_build(s, name, &made, err);

	if (r < 0)
		return r;
	r = buf_printf(report, "%s%s ", report->len ? ", " : "", name);
	if (r >= 0)
		r = byte_size_format(made.size_bytes, report);
	return r < 0 ? cay_no_memory(err) : 0;
}

static int setup_image_make_template(struct setup *s, const char *name, const char *image,
				     struct cay_err *err)
{
	struct template_create request = { .name = name };
	struct api_call call = { .op = OP_TEMPLATE_CREATE, .request = &request };

	create_request_init(&request.defaults);
	create_request_mark_given(&request.defaults);
	request.defaults.image = image;
	return api_call(s->api, &call, &(struct template_info){}, err);
}

static int setup_image_complete(struct setup *s, size_t i, const struct setup_image_found *found,
				struct buf *report, struct cay_err *err)
{
	const struct setup_image *row = &setup_images[i];
	int r = found->image ? 0 : setup_image_make(s, i, report, err);

	for (size_t j = 0; r >= 0 && j < TEMPLATES_MAX && row->templates[j]; j++)
		if (!found->templates[j])
			r = setup_image_make_template(s, row->templates[j], row->name, err);
	return r;
}

int setup_images_apply(struct setup *s, struct cay_err *err)
{
	uint64_t began = clk_boot_ns(&clk_system);
	struct setup_images_found found = {};
	auto_buf report = BUF_INIT(256);
	int r = setup_images_look(s, &found, err);

	for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(setup_images); i++)
		if (setup_images_wants(s, i))
			r = setup_image_complete(s, i, &found.rows[i], &report, err);
	if (r < 0)
		return r;
	return setup_report(s, 0, "%s%stemplates of the same names, in %llu s",
			    report.len ? buf_str(&report) : "", report.len ? "; " : "",
			    (unsigned long long)((clk_boot_ns(&clk_system) - began) / NS_PER_S));
}
