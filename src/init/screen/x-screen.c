/* SPDX-License-Identifier: Apache-2.0 */
#include "init/screen/x-screen.h"

#include "base/clock.h"
#include "base/endian.h"

#define HEAD 32
#define CURSOR_EDGE_MAX 256
#define STRIP_BYTES MIB(4) /* read at once */
#define SMALL_CHANGE 32    /* pixels: a text cursor that blinks */
#define DAMAGE_NOTIFY_SIZE 32

enum { REQUEST_QUERY_POINTER = 38, REQUEST_GET_IMAGE = 73, GET_IMAGE_Z_PIXMAP = 2 };
enum { XFIXES_QUERY_VERSION = 0, XFIXES_GET_CURSOR_IMAGE = 4 };
enum { DAMAGE_QUERY_VERSION = 0, DAMAGE_CREATE = 1 };
enum { XTEST_FAKE_INPUT = 2 };

static int x_read_strip(struct x_conn *c, const struct x_region *at, uint32_t y, uint32_t rows,
			uint8_t *rgb, struct cay_err *err)
{
	size_t pixels = (size_t)at->width * rows;
	uint8_t request[20] = { REQUEST_GET_IMAGE, GET_IMAGE_Z_PIXMAP };
	const uint8_t *from;
	int r;

	le32_put(request + 4, c->root);
	le16_put(request + 8, (uint16_t)at->x);
	le16_put(request + 10, (uint16_t)(at->y + y));
	le16_put(request + 12, (uint16_t)at->width);
	le16_put(request + 14, (uint16_t)rows);
	le32_put(request + 16, UINT32_MAX);
	r = x_require(c, request, sizeof(request), HEAD + pixels * 4, HEAD + pixels * 4, err);
	if (r < 0)
		return r;
	from = x_reply(c) + HEAD;
	for (size_t i = 0; i < pixels; i++) {
		uint32_t pixel = le32_get(from + i * 4);

		rgb[i * 3] = (uint8_t)(pixel >> c->red);
		rgb[i * 3 + 1] = (uint8_t)(pixel >> c->green);
		rgb[i * 3 + 2] = (uint8_t)(pixel >> c->blue);
	}
	return 0;
}

int x_read_pixels(struct x_conn *c, const struct x_region *at, struct picture *ret,
		  struct cay_err *err)
{
	uint32_t rows = (uint32_t)(STRIP_BYTES / ((size_t)at->width * 4)), n;
	int r = picture_init(ret, at->width, at->height);

	if (r == -EFBIG)
		return cay_fail(err, CAY_E_TOO_LARGE, "a picture has at most %u pixels",
				PICTURE_PIXELS_MAX);
	if (r < 0)
		return cay_no_memory(err);
	for (uint32_t y = 0; r >= 0 && y < at->height; y += n) {
		n = at->height - y < rows ? at->height - y : rows;
		r = x_read_strip(c, at, y, n, ret->rgb + (size_t)y * at->width * 3, err);
	}
	return r;
}

static int x_ask_version(struct x_conn *c, uint8_t extension, uint8_t minor, uint32_t major_version,
			 struct cay_err *err)
{
	uint8_t request[12] = { extension, minor };

	le32_put(request + 4, major_version);
	return x_require(c, request, sizeof(request), HEAD, HEAD, err);
}

/* A pixel of a cursor is already multiplied by its alpha. */
static void pixel_blend(uint8_t *to, uint32_t argb)
{
	uint32_t rest = 255 - (argb >> 24);

	for (unsigned k = 0; k < 3; k++) {
		uint32_t v = (argb >> (16 - 8 * k) & 0xff) + (to[k] * rest + 127) / 255;

		to[k] = (uint8_t)(v > 255 ? 255 : v);
	}
}

int x_draw_cursor(struct x_conn *c, const struct x_region *at, struct picture *p,
		  struct cay_err *err)
{
	uint8_t request[4] = { c->xfixes, XFIXES_GET_CURSOR_IMAGE };
	uint32_t width, height;
	int32_t left, top;
	const uint8_t *in;
	int r;

	if (!c->xfixes)
		return 0;
	r = x_ask_version(c, c->xfixes, XFIXES_QUERY_VERSION, 1, err);
	if (r >= 0)
		r = x_ask(c, request, sizeof(request), HEAD,
			  HEAD + CURSOR_EDGE_MAX * CURSOR_EDGE_MAX * 4, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r; /* an X server may have no cursor */
	in = x_reply(c);
	width = le16_get(in + 12);
	height = le16_get(in + 14);
	if (c->reply.len != HEAD + (size_t)width * height * 4)
		return x_fail(err, "sent a cursor of another size");
	left = (int16_t)le16_get(in + 8) - le16_get(in + 16) - (int32_t)at->x;
	top = (int16_t)le16_get(in + 10) - le16_get(in + 18) - (int32_t)at->y;
	for (uint32_t i = 0; i < width * height; i++) {
		int64_t x = left + (int64_t)(i % width), y = top + (int64_t)(i / width);

		if (x >= 0 && y >= 0 && x < p->width && y < p->height)
			pixel_blend(p->rgb + ((size_t)y * p->width + (size_t)x) * 3,
				    le32_get(in + HEAD + (size_t)i * 4));
	}
	return 0;
}

int x_read_cursor_place(struct x_conn *c, uint32_t *ret_x, uint32_t *ret_y, struct cay_err *err)
{
	uint8_t request[8] = { REQUEST_QUERY_POINTER };
	int r;

	le32_put(request + 4, c->root);
	r = x_require(c, request, sizeof(request), HEAD, HEAD, err);
	if (r < 0)
		return r;
	*ret_x = le16_get(x_reply(c) + 16);
	*ret_y = le16_get(x_reply(c) + 18);
	if (*ret_x >= c->width || *ret_y >= c->height)
		return x_fail(err, "has its cursor outside of the screen");
	return 0;
}

int x_watch_drawing(struct x_conn *c, struct cay_err *err)
{
	uint8_t request[16] = { c->damage, DAMAGE_CREATE }; /* of level 0: every rectangle */
	int r;

	if (!c->damage)
		return 0;
	r = x_ask_version(c, c->damage, DAMAGE_QUERY_VERSION, 1, err);
	if (r < 0)
		return r;
	le32_put(request + 4, c->id_base);
	le32_put(request + 8, c->root);
	return x_send(c, request, sizeof(request), err);
}

int x_wait_until_still(struct x_conn *c, uint64_t quiet_ms, uint64_t max_ms, struct cay_err *err)
{
	uint64_t now = clk_boot_ns(&clk_system) / NS_PER_MS, end = now + max_ms;
	uint64_t still = now + quiet_ms;
	uint8_t event[DAMAGE_NOTIFY_SIZE];

	while (now < end && now < still) {
		uint64_t until = still < end ? still : end;
		int r = x_wait_event(c, until - now, event, err);

		if (r < 0)
			return r;
		now = clk_boot_ns(&clk_system) / NS_PER_MS;
		/* the area is where a DamageNotify has it */
		if (r && event[0] > 1 && le16_get(event + 20) >= SMALL_CHANGE &&
		    le16_get(event + 22) >= SMALL_CHANGE)
			still = now + quiet_ms;
	}
	return 0;
}

int x_fake_input(struct x_conn *c, enum x_input what, uint8_t detail, uint32_t x, uint32_t y,
		 struct cay_err *err)
{
	uint8_t request[36] = { c->xtest, XTEST_FAKE_INPUT, [4] = (uint8_t)what, [5] = detail };

	if (!c->xtest)
		return cay_fail(err, CAY_E_UNSUPPORTED,
				"the X server of the sandbox has no extension XTEST");
	le32_put(request + 12, c->root);
	le16_put(request + 24, (uint16_t)x);
	le16_put(request + 26, (uint16_t)y);
	return x_send(c, request, sizeof(request), err);
}
