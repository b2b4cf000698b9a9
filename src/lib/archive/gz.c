/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/gz.h"

#include <limits.h>
#include <string.h>

#define GZIP_ONLY (16 + MAX_WBITS)
/* It is for the way, not for keeping. */
#define LEVEL 3

int gz_reader_init(struct gz_reader *g, tar_read_fn *read, void *arg, struct cay_err *err)
{
	memset(&g->z, 0, sizeof(g->z));
	g->read = read;
	g->arg = arg;
	g->inside = g->ended = false;
	g->ready = inflateInit2(&g->z, GZIP_ONLY) == Z_OK;
	return g->ready ? 0 : cay_no_memory(err);
}

void gz_reader_fini(struct gz_reader *g)
{
	if (g->ready)
		(void)inflateEnd(&g->z);
	g->ready = false;
}

static int gz_reader_refill(struct gz_reader *g, struct cay_err *err)
{
	ssize_t n;

	if (g->z.avail_in || g->ended)
		return 0;
	n = g->read(g->arg, g->in, sizeof(g->in), err);
	if (n < 0)
		return (int)n;
	g->ended = n == 0;
	g->z.next_in = g->in;
	g->z.avail_in = (unsigned)n;
	return 0;
}

ssize_t gz_read(void *arg, void *p, size_t n, struct cay_err *err)
{
	struct gz_reader *g = arg;
	unsigned want = n < INT_MAX ? (unsigned)n : INT_MAX;

	g->z.next_out = p;
	g->z.avail_out = want;
	while (g->z.avail_out == want && want) {
		int r = gz_reader_refill(g, err);

		if (r < 0)
			return r;
		if (g->ended && !g->z.avail_in) {
			/* between two members, but not before the first */
			if (!g->inside && g->z.total_in)
				return 0;
			return cay_fail(err, CAY_E_INVALID,
					"the compressed data ends in the middle");
		}
		g->inside = true;
		r = inflate(&g->z, Z_NO_FLUSH);
		if (r == Z_STREAM_END) {
			uLong seen = g->z.total_in;

			g->inside = false;
			r = inflateReset(&g->z);
			g->z.total_in = seen;
		}
		if (r != Z_OK)
			return cay_fail(err, CAY_E_INVALID, "this is not gzip, or broken: %s",
					g->z.msg ? g->z.msg : "wrong data");
	}
	return (ssize_t)(want - g->z.avail_out);
}

int gz_writer_init(struct gz_writer *g, tar_write_fn *write, void *arg, struct cay_err *err)
{
	memset(&g->z, 0, sizeof(g->z));
	g->write = write;
	g->arg = arg;
	g->ready = deflateInit2(&g->z, LEVEL, Z_DEFLATED, GZIP_ONLY, 8, Z_DEFAULT_STRATEGY) == Z_OK;
	return g->ready ? 0 : cay_no_memory(err);
}

void gz_writer_fini(struct gz_writer *g)
{
	if (g->ready)
		(void)deflateEnd(&g->z);
	g->ready = false;
}

static int gz_writer_deflate(struct gz_writer *g, int flush, struct cay_err *err)
{
	int z, r = 0;

	do {
		g->z.next_out = g->out;
		g->z.avail_out = sizeof(g->out);
		z = deflate(&g->z, flush);
		if (z == Z_STREAM_ERROR)
			return cay_fail(err, CAY_E_INTERNAL, "cannot compress");
		if (g->z.avail_out < sizeof(g->out))
			r = g->write(g->arg, g->out, sizeof(g->out) - g->z.avail_out, err);
	} while (r >= 0 && (flush == Z_FINISH ? z != Z_STREAM_END : !g->z.avail_out));
	return r;
}

int gz_write(void *arg, const void *p, size_t n, struct cay_err *err)
{
	struct gz_writer *g = arg;
	const uint8_t *at = p;
	int r = 0;

	while (n && r >= 0) {
		unsigned some = n < INT_MAX ? (unsigned)n : INT_MAX;

		g->z.next_in = (uint8_t *)(uintptr_t)at; /* zlib only reads it */
		g->z.avail_in = some;
		r = gz_writer_deflate(g, Z_NO_FLUSH, err);
		at += some;
		n -= some;
	}
	return r;
}

int gz_finish(struct gz_writer *g, struct cay_err *err)
{
	g->z.next_in = NULL;
	g->z.avail_in = 0;
	return gz_writer_deflate(g, Z_FINISH, err);
}
