/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image-store - the table of images in db/images.json
 *
 * Written whole by a worker, one write at a time, so that the loop does not wait for a disk.
 * Changes during a write go into the next one, which all their callers share.
 */
#include <fcntl.h>

#include "base/path.h"
#include "cayd/image/image-internal.h"
#include "text/hex.h"

#define FILE_NAME "images.json"
#define FILE_MAX MIB(64)

static const struct field image_stored_fields[] = {
	{ .name = "image",
	  .type = FIELD_OBJECT,
	  .offset = offsetof(struct image_stored, info),
	  .required = true,
	  .sub = &image_info_table },
	{ .name = "config",
	  .type = FIELD_OBJECT,
	  .offset = offsetof(struct image_stored, config),
	  .required = true,
	  .sub = &image_config_table },
	{ .name = "layer",
	  .type = FIELD_TEXT,
	  .offset = offsetof(struct image_stored, layer),
	  .check = CHECK_WORD,
	  .min = 64,
	  .max = 64 },
	{ .name = "tenant",
	  .type = FIELD_ID,
	  .offset = offsetof(struct image_stored, tenant),
	  .noun = ID_TENANT },
	{ .name = "snapshot_parent",
	  .type = FIELD_TEXT,
	  .offset = offsetof(struct image_stored, snapshot_parent),
	  .check = CHECK_WORD,
	  .min = 64,
	  .max = 64 },
};
static const struct field_table image_stored_table = { "StoredImage", "",
						       sizeof(struct image_stored),
						       image_stored_fields,
						       ARRAY_SIZE(image_stored_fields) };

struct image_table_file {
	struct field_list images;
};

static const struct field image_file_fields[] = {
	{ .name = "images",
	  .type = FIELD_LIST,
	  .required = true,
	  .max = IMAGE_ROWS_MAX,
	  .sub = &image_stored_table },
};
static const struct field_table image_file_table = { "ImageFile", "",
						     sizeof(struct image_table_file),
						     image_file_fields,
						     ARRAY_SIZE(image_file_fields) };

struct image_save_waiter {
	struct image_save_waiter *next;
	images_fn *fn;
	void *arg;
};

struct image_file_write {
	uv_work_t work;
	struct images *all;
	int dir; /* owned by cayd */
	struct buf text;
	int r;
};

static void image_file_write_start(struct images *all);

/* Callbacks may undo their change and save again: the next write begins after all of them ran. */
static void image_file_notify_waiters(struct images *all, const struct cay_err *outcome)
{
	struct image_save_waiter *w = cay_take(all->current_waiters);

	if (outcome->code)
		log_error(&all->cayd->log, "%s", outcome->msg);
	all->unsaved |= outcome->code != CAY_OK;
	while (w) {
		struct image_save_waiter *next = w->next;

		w->fn(w->arg, outcome);
		free(w);
		w = next;
	}
}

static void image_file_write_finish(struct images *all, int r)
{
	struct cay_err err = {};

	if (r < 0)
		(void)cay_fail_sys(&err, CAY_E_INTERNAL, -r, "write db/" FILE_NAME);
	image_file_notify_waiters(all, &err);
	all->writing = false;
	if (all->next_waiters)
		image_file_write_start(all);
}

static void on_image_file_written(uv_work_t *work, int)
{
	struct image_file_write *g = work->data;
	struct images *all = g->all;
	int r = g->r;

	buf_fini(&g->text);
	free(g);
	image_file_write_finish(all, r);
}

static void image_file_write_work(uv_work_t *work)
{
	struct image_file_write *g = work->data;

	g->r = path_write_atomic(g->dir, FILE_NAME, g->text.data, g->text.len, 0600);
}

static int image_file_encode(const struct images *all, struct buf *text)
{
	struct jw w = jw_to(text);

	jw_object_begin(&w, NULL);
	jw_array_begin(&w, "images");
	for (size_t i = 0; i < all->n; i++) {
		const struct image *row = all->rows[i];
		struct image_stored s = { row->info, row->config, row->layer, row->tenant, NULL };
		char parent[65];

		hex_encode(row->parent, sizeof(row->parent), parent);
		if (row->snapshot) {
			s.snapshot_parent = parent;
			s.config = (struct image_config){}; /* images_inherit_configs() */
		}
		field_encode(&image_stored_table, NULL, &s, &w);
	}
	jw_end(&w);
	jw_end(&w);
	return jw_finish(&w);
}

static void image_file_write_start(struct images *all)
{
	struct image_file_write *g = calloc(1, sizeof(*g));
	int r = -ENOMEM;

	all->current_waiters = cay_take(all->next_waiters);
	all->writing = true;
	all->unsaved = false;
	if (g) {
		*g = (struct image_file_write){ .all = all,
						.dir = all->cayd->db_dir,
						.text = BUF_INIT(FILE_MAX) };
		g->work.data = g;
		r = image_file_encode(all, &g->text);
	}
	if (r >= 0)
		r = uv_queue_work(&all->cayd->loop, &g->work, image_file_write_work,
				  on_image_file_written);
	if (r >= 0)
		return;
	if (g)
		buf_fini(&g->text);
	free(g);
	image_file_write_finish(all, r);
}

void images_save(struct images *all, images_fn *fn, void *arg)
{
	struct image_save_waiter *w = fn ? malloc(sizeof(*w)) : NULL, **last = &all->next_waiters;
	struct cay_err err = {};

	if (fn && !w) {
		(void)cay_no_memory(&err);
		all->unsaved = true;
		fn(arg, &err);
		return;
	}
	if (w) {
		*w = (struct image_save_waiter){ NULL, fn, arg };
		while (*last)
			last = &(*last)->next;
		*last = w;
	}
	if (!all->writing)
		image_file_write_start(all);
}

void images_flush(struct images *all)
{
	if (all->unsaved)
		images_save(all, NULL, NULL);
}

static int image_file_load(struct images *all, struct cay_err *err)
{
	static const struct json_limits limits = { FILE_MAX, 8, 2000000 };
	auto_buf text = BUF_INIT(FILE_MAX);
	auto_arena arena = ARENA_INIT(FILE_MAX);
	struct image_table_file f = {};
	int r = path_read(all->cayd->db_dir, FILE_NAME, &text);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "read db/" FILE_NAME);
	r = field_decode_text(&image_file_table, (struct slice){ buf_str(&text), text.len },
			      &limits, &arena, &f, err);
	for (size_t i = 0; r >= 0 && i < f.images.n; i++)
		r = images_add(all, &((const struct image_stored *)f.images.v)[i], err);
	if (r >= 0)
		r = images_inherit_configs(all, err);
	return r < 0 ? cay_err_wrap(err, r, "db/" FILE_NAME) : 0;
}

int images_open(struct cayd *c, struct cay_err *err)
{
	c->images = calloc(1, sizeof(*c->images));
	if (!c->images)
		return cay_no_memory(err);
	c->images->cayd = c;
	return image_file_load(c->images, err);
}
