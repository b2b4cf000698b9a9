/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buf.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static constexpr size_t FIRST_CAP = 64;

void buf_fini(struct buf *b)
{
	free(b->data);
	*b = (struct buf){};
}

int buf_reserve(struct buf *b, size_t n)
{
	size_t need, cap = b->cap ? b->cap : FIRST_CAP;
	char *p;

	if (n > b->max - b->len)
		return -ENOBUFS;
	need = b->len + n + 1;
	if (need <= b->cap)
		return 0;
	while (cap < need)
		cap = cap > b->max / 2 ? b->max + 1 : cap * 2;
	p = realloc(b->data, cap);
	if (!p)
		return -ENOMEM;
	b->data = p;
	b->cap = cap;
	b->data[b->len] = 0;
	return 0;
}

int buf_append(struct buf *b, const void *p, size_t n)
{
	int r = buf_reserve(b, n);

	if (r < 0)
		return r;
	if (n)
		memcpy(b->data + b->len, p, n);
	b->len += n;
	b->data[b->len] = 0;
	return 0;
}

int buf_puts(struct buf *b, const char *s)
{
	return buf_append(b, s, strlen(s));
}

int buf_putc(struct buf *b, char c)
{
	return buf_append(b, &c, 1);
}

int buf_vprintf(struct buf *b, const char *fmt, va_list ap)
{
	size_t room = b->cap ? b->cap - b->len : 0; /* with the 0 */
	va_list again;
	int n, r;

	/* where there is room, once is enough */
	va_copy(again, ap);
	n = vsnprintf(room ? b->data + b->len : NULL, room, fmt, ap);
	r = n < 0 ? -EINVAL : buf_reserve(b, (size_t)n);
	if (r >= 0 && (size_t)n >= room)
		r = vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again) == n ? 0 : -EINVAL;
	if (r >= 0)
		b->len += (size_t)n;
	else if (room)
		b->data[b->len] = 0;
	va_end(again);
	return r;
}

int buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int r;

	va_start(ap, fmt);
	r = buf_vprintf(b, fmt, ap);
	va_end(ap);
	return r;
}

void buf_consume(struct buf *b, size_t n)
{
	assert(n <= b->len);
	if (!n)
		return;
	b->len -= n;
	memmove(b->data, b->data + n, b->len + 1);
}

void buf_truncate(struct buf *b, size_t len)
{
	assert(len <= b->len);
	b->len = len;
	if (b->data)
		b->data[len] = 0;
}

void buf_clear(struct buf *b)
{
	buf_truncate(b, 0);
}

void buf_wipe(struct buf *b)
{
	if (b->data)
		explicit_bzero(b->data, b->cap);
	buf_clear(b);
}

const char *buf_str(const struct buf *b)
{
	return b->data ? b->data : "";
}
