/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TEXT_PERCENT_H
#define CAY_TEXT_PERCENT_H
/* percent - RFC 3986 percent-encoding, decoded once and strictly.  A '%' without two hex digits, a
 * NUL in either form, control characters and bytes above 0x7E that were not encoded are refused.
 * '+' is itself. */
#include <stddef.h>

/* out has room for n bytes; *ret is how many were written.  -EINVAL. */
[[nodiscard]] int percent_decode(const char *in, size_t n, char *out, size_t *ret);
/* Everything but RFC 3986's unreserved characters is encoded.  out has room for
 * 3 * n; returns how many were written. */
size_t percent_encode(const char *in, size_t n, char *out);
#endif
