/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TEXT_BASE64_H
#define CAY_TEXT_BASE64_H
/* base64 - RFC 4648 section 4, and section 5 for URLs, one spelling per value.  Padding is required
 * in the first and refused in the second, and unused bits must be zero, so that two texts are equal
 * exactly when their bytes are; white space is refused. */
#include <stddef.h>
#include <stdint.h>

/* How many characters n bytes take, and how many bytes n characters can give. */
#define BASE64_TEXT(n) (((n) + 2) / 3 * 4)
#define BASE64_BYTES(n) ((n) / 4 * 3)
#define BASE64URL_TEXT(n) (((n) * 4 + 2) / 3)
#define BASE64URL_BYTES(n) ((n) * 3 / 4)

/* out has room for BASE64_TEXT(n); no 0 is added. */
void base64_encode(const uint8_t *in, size_t n, char *out);
/* out has room for BASE64_BYTES(n); *ret is how many were written.  -EINVAL. */
[[nodiscard]] int base64_decode(const char *in, size_t n, uint8_t *out, size_t *ret);
/* The same with '-' and '_', without padding. */
void base64url_encode(const uint8_t *in, size_t n, char *out);
[[nodiscard]] int base64url_decode(const char *in, size_t n, uint8_t *out, size_t *ret);
#endif
