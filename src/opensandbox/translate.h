/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPENSANDBOX_TRANSLATE_H
#define CAY_OPENSANDBOX_TRANSLATE_H
/* translate - texts of OpenSandbox in Cay's spelling */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

/* RFC 3339 with any offset: nanoseconds since 1970.  -EINVAL. */
[[nodiscard]] int translate_time(struct slice s, uint64_t *ret_wall_ns);
/* A pair or list of metadata, "a=b&c=d" whose parts may be percent-encoded, as a selector of
 * labels. */
[[nodiscard]] int translate_filter(const char *filter, struct buf *selector, struct cay_err *err);
/* Decode a parameter of a query, where '+' is a space: `in` has n bytes, `out` room for n + 1.
 * -EINVAL. */
[[nodiscard]] int translate_query(const char *in, size_t n, char *out);
/* 644, whose decimal digits read as octal, as "0644".  -EINVAL. */
#define TRANSLATE_MODE_TEXT 5
[[nodiscard]] int translate_mode(int64_t digits, char ret[static TRANSLATE_MODE_TEXT]);
/* Whether a pattern with *, ?, [a-z], [^a-z] and \ is for the whole name.  Time is the product of
 * their lengths at most; the caller bounds both. */
#define TRANSLATE_PATTERN_MAX 100
bool translate_name_matches(const char *pattern, const char *name);
#endif
