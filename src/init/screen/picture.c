/* SPDX-License-Identifier: Apache-2.0 */
#include "init/screen/picture.h"

#include <assert.h>
#include <string.h>
#include <zlib.h>

#include "base/endian.h"

#define LEVEL 3 /* of a desktop: more takes longer and saves little */

void picture_fini(struct picture *p)
{
	free(p->rgb);
	*p = (struct picture){};
}

int picture_init(struct picture *p, uint32_t width, uint32_t height)
{
	if (!width || !height || (uint64_t)width * height > PICTURE_PIXELS_MAX)
		return -EFBIG;
	*p = (struct picture){ width, height, calloc((size_t)width * height, 3) };
	return p->rgb ? 0 : -ENOMEM;
}

void picture_fit(uint32_t width, uint32_t height, uint64_t max_width, uint64_t max_height,
		 uint32_t *ret_width, uint32_t *ret_height)
{
	uint64_t w = width, h = height;

	if (max_width && w > max_width) {
		h = h * max_width / w;
		w = max_width;
	}
	if (max_height && h > max_height) {
		w = (uint64_t)width * max_height / height;
		h = max_height;
	}
	*ret_width = w ? (uint32_t)w : 1;
	*ret_height = h ? (uint32_t)h : 1;
}

uint32_t picture_coordinate_enlarge(uint32_t i, uint32_t n_reduced, uint32_t n)
{
	return (uint32_t)((2 * (uint64_t)i + 1) * n / (2 * (uint64_t)n_reduced));
}

uint32_t picture_coordinate_reduce(uint32_t i, uint32_t n, uint32_t n_reduced)
{
	return (uint32_t)((2 * (uint64_t)i + 1) * n_reduced / (2 * (uint64_t)n));
}

uint32_t picture_edge(uint32_t i, uint32_t n, uint32_t n_other)
{
	return (uint32_t)((uint64_t)i * n_other / n);
}

/* How much of pixel i of n lies in pixel j of n_reduced, in units of which a pixel of n has
 * n_reduced, and a pixel of n_reduced has n. */
static uint64_t overlap_of(uint32_t i, uint32_t j, uint32_t n, uint32_t n_reduced)
{
	uint64_t a = (uint64_t)i * n_reduced, b = (uint64_t)j * n;
	uint64_t a_end = a + n_reduced, b_end = b + n;

	return (a_end < b_end ? a_end : b_end) - (a > b ? a : b);
}

static void pixel_reduce(const struct picture *p, const struct picture *to, uint32_t x, uint32_t y)
{
	uint32_t x0 = picture_edge(x, to->width, p->width);
	uint32_t y0 = picture_edge(y, to->height, p->height);
	uint64_t all = (uint64_t)p->width * p->height, sum[3] = {};

	for (uint32_t sy = y0; (uint64_t)sy * to->height < ((uint64_t)y + 1) * p->height; sy++) {
		uint64_t dy = overlap_of(sy, y, p->height, to->height);
		const uint8_t *row = p->rgb + (size_t)sy * p->width * 3;

		for (uint32_t sx = x0; (uint64_t)sx * to->width < ((uint64_t)x + 1) * p->width;
		     sx++) {
			uint64_t part = dy * overlap_of(sx, x, p->width, to->width);

			for (unsigned k = 0; k < 3; k++)
				sum[k] += part * row[(size_t)sx * 3 + k];
		}
	}
	for (unsigned k = 0; k < 3; k++)
		to->rgb[((size_t)y * to->width + x) * 3 + k] = (uint8_t)((sum[k] + all / 2) / all);
}

int picture_reduce(const struct picture *p, uint32_t width, uint32_t height, struct picture *ret)
{
	int r = picture_init(ret, width, height);

	assert(width <= p->width && height <= p->height);
	for (uint32_t y = 0; r >= 0 && y < height; y++)
		for (uint32_t x = 0; x < width; x++)
			pixel_reduce(p, ret, x, y);
	return r;
}

/* A chunk: length, type, data and the checksum of the last two. */
static int png_append_chunk(struct buf *out, const char type[static 4], const void *data, size_t n)
{
	uint8_t length[4], sum[4];
	uLong crc =
		crc32(crc32(0, (const Bytef *)type, 4), data ? data : (const void *)"", (uInt)n);
	int r;

	be32_put(length, (uint32_t)n);
	be32_put(sum, (uint32_t)crc);
	r = buf_append(out, length, 4);
	if (r >= 0)
		r = buf_append(out, type, 4);
	if (r >= 0)
		r = buf_append(out, data, n);
	return r < 0 ? r : buf_append(out, sum, 4);
}

/* Deflate the rows, each after its filter, which is none, into *z's output. */
static int png_deflate_rows(const struct picture *p, z_stream *z)
{
	static uint8_t none;
	int r = Z_OK;

	for (uint32_t y = 0; y < p->height && r == Z_OK; y++) {
		z->next_in = &none;
		z->avail_in = 1;
		r = deflate(z, Z_NO_FLUSH);
		z->next_in = p->rgb + (size_t)y * p->width * 3;
		z->avail_in = p->width * 3;
		if (r == Z_OK)
			r = deflate(z, y + 1 == p->height ? Z_FINISH : Z_NO_FLUSH);
	}
	return r == Z_STREAM_END ? 0 : -ENOBUFS;
}

static int png_append_pixels(struct buf *out, const struct picture *p)
{
	z_stream z = {};
	auto_buf data = BUF_INIT(PICTURE_PNG_MAX);
	int r;

	if (deflateInit(&z, LEVEL) != Z_OK)
		return -ENOMEM;
	r = buf_reserve(&data, deflateBound(&z, (uLong)p->height * (p->width * 3 + 1)));
	if (r >= 0) {
		z.next_out = (Bytef *)data.data;
		z.avail_out = (uInt)(data.cap - 1);
		r = png_deflate_rows(p, &z);
		data.len = z.total_out;
	}
	(void)deflateEnd(&z);
	return r < 0 ? r : png_append_chunk(out, "IDAT", data.data, data.len);
}

int picture_write_png(const struct picture *p, struct buf *out)
{
	static const char magic[] = "\x89PNG\r\n\x1a\n";
	uint8_t head[13] = { [8] = 8, [9] = 2 }; /* eight bits each of red, green and blue */
	int r;

	be32_put(head, p->width);
	be32_put(head + 4, p->height);
	r = buf_append(out, magic, sizeof(magic) - 1);
	if (r >= 0)
		r = png_append_chunk(out, "IHDR", head, sizeof(head));
	if (r >= 0)
		r = png_append_pixels(out, p);
	return r < 0 ? r : png_append_chunk(out, "IEND", NULL, 0);
}
