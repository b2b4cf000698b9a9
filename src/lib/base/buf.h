/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_BUF_H
#define CAY_BASE_BUF_H
/* buf - bytes that grow, up to a limit they were born with.  Appending past the limit fails with
 * -ENOBUFS and changes nothing: no cut text, no surprise.  data[len] is always 0, so a buffer that
 * holds text is a C string.  A zeroed struct buf is a valid empty one with limit 0. */
#include <stdarg.h>
#include <stddef.h>

#include "base/mem.h"

struct buf {
	char *data; /* NULL while cap is 0 */
	size_t len;
	size_t cap;
	size_t max; /* of len */
};

#define auto_buf CAY_CLEANUP(buf_fini) struct buf
#define BUF_INIT(max_) ((struct buf){ .max = (max_) })

void buf_fini(struct buf *b);

/* Room for n more bytes at data + len; the caller then adds to len itself. */
[[nodiscard]] int buf_reserve(struct buf *b, size_t n);

[[nodiscard]] int buf_append(struct buf *b, const void *p, size_t n);
[[nodiscard]] int buf_puts(struct buf *b, const char *s);
[[nodiscard]] int buf_putc(struct buf *b, char c);
[[nodiscard]] __attribute__((format(printf, 2, 3))) int buf_printf(struct buf *b, const char *fmt,
								   ...);
[[nodiscard]] __attribute__((format(printf, 2, 0))) int buf_vprintf(struct buf *b, const char *fmt,
								    va_list ap);

/* Drop n bytes from the front.  It moves the rest: consume once per batch, not once per item. */
void buf_consume(struct buf *b, size_t n);
/* Drop everything after the first len bytes. */
void buf_truncate(struct buf *b, size_t len);
/* Forget the content, keep the memory. */
void buf_clear(struct buf *b);
/* Forget the content and overwrite its memory.  A buffer of a secret is reserved whole first: when
 * it grows, the memory it had before keeps a copy. */
void buf_wipe(struct buf *b);
/* The content as a C string, "" when empty.  Valid until the next change. */
const char *buf_str(const struct buf *b);
#endif
