/* SPDX-License-Identifier: Apache-2.0 */
#include "file/tmpfile.h"
#include "init/core/handlers.h"
#include "init/screen/screen.h"
#include "init/service/service.h"
#include "text/base64.h"

#define DEADLINE_MS 30000
#define SERVICE "screen"
#define STILL_MAX_MS 2000
#define PNG_IN_JSON_MAX (MIB(6) - KIB(64))

bool screen_is_starting(const struct init *in)
{
	for (const struct service *s = in->services.first; s; s = s->next)
		if (str_eq(s->config.name, SERVICE))
			return s->state == SERVICE_STARTING || s->state == SERVICE_RUNNING ||
			       s->state == SERVICE_BACKOFF;
	return false;
}

int screen_open(const struct init *in, struct x_conn *c, struct cay_err *err)
{
	return x_conn_open(c, screen_is_starting(in), err);
}

/* The region of the query, in pixels of the screen. */
static int region_of_query(const struct x_conn *c, const struct screen_shot_query *q,
			   struct x_region *ret, struct cay_err *err)
{
	uint32_t width, height;
	uint64_t right, bottom;

	picture_fit(c->width, c->height, q->max_width, q->max_height, &width, &height);
	right = q->width ? q->x + q->width : width;
	bottom = q->height ? q->y + q->height : height;
	if (q->x >= right || right > width)
		return cay_fail_field(err, CAY_E_INVALID, q->width ? "width" : "x",
				      "outside of the picture, which is %ux%u", width, height);
	if (q->y >= bottom || bottom > height)
		return cay_fail_field(err, CAY_E_INVALID, q->height ? "height" : "y",
				      "outside of the picture, which is %ux%u", width, height);
	ret->x = picture_edge((uint32_t)q->x, width, c->width);
	ret->y = picture_edge((uint32_t)q->y, height, c->height);
	ret->width = picture_edge((uint32_t)right, width, c->width) - ret->x;
	ret->height = picture_edge((uint32_t)bottom, height, c->height) - ret->y;
	return 0;
}

int screen_write_png(struct x_conn *c, const struct screen_shot_query *q, struct buf *ret,
		     struct cay_err *err)
{
	auto_picture whole = {}, reduced = {};
	struct x_region at;
	uint32_t width, height;
	int r = region_of_query(c, q, &at, err);

	if (r >= 0)
		r = x_read_pixels(c, &at, &whole, err);
	if (r >= 0 && q->cursor)
		r = x_draw_cursor(c, &at, &whole, err);
	if (r < 0)
		return r;
	picture_fit(at.width, at.height, q->max_width, q->max_height, &width, &height);
	if (width == at.width && height == at.height)
		r = picture_write_png(&whole, ret);
	else if ((r = picture_reduce(&whole, width, height, &reduced)) >= 0)
		r = picture_write_png(&reduced, ret);
	return r < 0 ? cay_no_memory(err) : 0;
}

static void child_screen_info(struct child_op *w, struct request *rq)
{
	auto_x_conn c = X_CONN_INIT;
	struct screen_info reply = {};
	struct cay_err err = {};
	uint32_t x = 0, y = 0;

	if (screen_open(child_op_init(w), &c, &err) >= 0 &&
	    x_read_cursor_place(&c, &x, &y, &err) >= 0 &&
	    x_list_windows(&c, &rq->arena, &reply.windows, &err) >= 0) {
		reply.width = c.width;
		reply.height = c.height;
		reply.cursor_x = x;
		reply.cursor_y = y;
	}
	child_op_reply_json(w, &screen_info_table, &reply, &err);
}

static void child_screen_shot(struct child_op *w, struct request *rq)
{
	auto_buf png = BUF_INIT(PICTURE_PNG_MAX + KIB(1));
	auto_x_conn c = X_CONN_INIT;
	struct cay_err err = {};

	if (screen_open(child_op_init(w), &c, &err) < 0 ||
	    screen_write_png(&c, rq->query, &png, &err) < 0)
		child_op_fail(w, &err);
	else if (child_op_start_stream(w, 200, "image/png", png.len) >= 0 &&
		 child_op_write(w, png.data, png.len) >= 0)
		child_op_end_stream(w);
}

/* The picture after actions, in base64. */
static int screen_encode_after(struct x_conn *c, const struct screen_act *q, struct buf *ret,
			       struct cay_err *err)
{
	struct screen_shot_query shot = { .max_width = q->max_width,
					  .max_height = q->max_height,
					  .cursor = q->cursor };
	auto_buf png = BUF_INIT(PICTURE_PNG_MAX + KIB(1));
	int r = x_watch_drawing(c, err);

	if (r >= 0)
		r = x_wait_until_still(c, q->settle_ms, STILL_MAX_MS, err);
	if (r >= 0)
		r = screen_write_png(c, &shot, &png, err);
	if (r < 0)
		return r;
	if (png.len > PNG_IN_JSON_MAX) {
		r = cay_fail(err, CAY_E_TOO_LARGE,
			     "the picture has %zu bytes, too many for this reply", png.len);
		cay_err_hint(err,
			     "reduce it by max_width and max_height, or get it by screen.shot");
		return r;
	}
	if (buf_reserve(ret, BASE64_TEXT(png.len) + 1) < 0)
		return cay_no_memory(err);
	base64_encode((const uint8_t *)png.data, png.len, ret->data);
	ret->data[ret->len = BASE64_TEXT(png.len)] = 0;
	return 0;
}

static int screen_act(struct child_op *w, const struct screen_act *q, struct x_conn *c,
		      struct screen_done *ret, struct cay_err *err)
{
	struct hand a = { .conn = c, .op = w };
	uint32_t x, y;
	int r = screen_open(child_op_init(w), c, err);

	if (r < 0)
		return r;
	picture_fit(c->width, c->height, q->max_width, q->max_height, &a.width, &a.height);
	r = screen_actions_check_places(q, a.width, a.height, err);
	if (r >= 0)
		r = hand_run(&a, q, err);
	if (r >= 0)
		r = x_read_cursor_place(c, &x, &y, err);
	if (r < 0)
		return r;
	*ret = (struct screen_done){
		.width = a.width,
		.height = a.height,
		.cursor_x = picture_coordinate_reduce(x, c->width, a.width),
		.cursor_y = picture_coordinate_reduce(y, c->height, a.height),
	};
	return 0;
}

static void child_screen_act(struct child_op *w, struct request *rq)
{
	auto_buf text = BUF_INIT(MIB(8));
	const struct screen_act *q = rq->body;
	auto_x_conn c = X_CONN_INIT;
	struct screen_done reply = {};
	struct cay_err err = {};

	tmpfile_defer_sigterm(); /* the hand releases its keys */
	if (screen_actions_check(q, &err) >= 0 && screen_act(w, q, &c, &reply, &err) >= 0 &&
	    q->screenshot == AFTER_SHOT && screen_encode_after(&c, q, &text, &err) >= 0)
		reply.png = buf_str(&text);
	child_op_reply_json(w, &screen_done_table, &reply, &err);
}

void op_screen_info(struct request *rq, void *arg)
{
	child_op_start(arg, rq, child_screen_info, DEADLINE_MS);
}

void op_screen_shot(struct request *rq, void *arg)
{
	child_op_start(arg, rq, child_screen_shot, DEADLINE_MS);
}

void op_screen_act(struct request *rq, void *arg)
{
	child_op_start(arg, rq, child_screen_act, DEADLINE_MS);
}
