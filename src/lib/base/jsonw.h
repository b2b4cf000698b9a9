/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BASE_JSONW_H
#define CAY_BASE_JSONW_H
/* jsonw - the only way Cay writes JSON
 *
 *	struct jw w = jw_to(&buf);
 *	jw_object_begin(&w, NULL);
 *	jw_str(&w, "name", name);
 *	jw_end(&w);
 *	r = jw_finish(&w);
 *
 * A key is required inside an object and forbidden elsewhere; opening, closing and keys out of
 * order are bugs and assert.  Run-time failures, the buffer's limit and memory, are recorded and
 * returned by jw_finish(), so calls in between need no checks.  Text that is not UTF-8 is written
 * with U+FFFD in place of each bad byte: the output is always valid JSON.  Where bytes matter,
 * callers send base64 instead. */
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

#define JW_DEPTH_MAX 32

struct jw {
	struct buf *out;
	int err;                   /* the first failure, or 0 */
	uint8_t depth;             /* open brackets */
	char open[JW_DEPTH_MAX];   /* '{' or '[' */
	bool filled[JW_DEPTH_MAX]; /* something was written at this level */
	bool complete;             /* the one top-level value is written */
};

static inline struct jw jw_to(struct buf *out)
{
	return (struct jw){ .out = out };
}

void jw_object_begin(struct jw *w, const char *key);
void jw_array_begin(struct jw *w, const char *key);
void jw_end(struct jw *w);
void jw_str(struct jw *w, const char *key, const char *s); /* NULL is null */
void jw_slice(struct jw *w, const char *key, struct slice s);
void jw_u64(struct jw *w, const char *key, uint64_t v);
void jw_i64(struct jw *w, const char *key, int64_t v);
/* At most 15 digits, so that 0.1 is 0.1; not finite: -EDOM. */
void jw_real(struct jw *w, const char *key, double v);
void jw_bool(struct jw *w, const char *key, bool v);
/* A value that is JSON already, written by this module: it is not checked. */
void jw_json(struct jw *w, const char *key, struct slice json);
void jw_null(struct jw *w, const char *key);

/* 0 when exactly one whole value was written and nothing failed. */
[[nodiscard]] int jw_finish(struct jw *w);
#endif
