/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_TEXT_HEX_H
#define CAY_TEXT_HEX_H
/* hex - bytes as lower-case digits, and back; one spelling only */
#include <stddef.h>
#include <stdint.h>

/* ret has room for 2 * n + 1. */
void hex_encode(const uint8_t *in, size_t n, char *ret);
/* -EINVAL unless text is exactly 2 * n lower-case digits; ret is touched only then. */
[[nodiscard]] int hex_decode(const char *text, size_t len, uint8_t *ret, size_t n);
#endif
