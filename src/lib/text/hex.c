/* SPDX-License-Identifier: Apache-2.0 */
#include "text/hex.h"

#include <errno.h>
#include <string.h>

static const char digits[] = "0123456789abcdef";

void hex_encode(const uint8_t *in, size_t n, char *ret)
{
	for (size_t i = 0; i < n; i++) {
		ret[2 * i] = digits[in[i] >> 4];
		ret[2 * i + 1] = digits[in[i] & 15];
	}
	ret[2 * n] = 0;
}

static int hex_digit_value(char c)
{
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

int hex_decode(const char *text, size_t len, uint8_t *ret, size_t n)
{
	if (len != 2 * n)
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		if (hex_digit_value(text[i]) < 0)
			return -EINVAL;
	for (size_t i = 0; i < n; i++)
		ret[i] = (uint8_t)(hex_digit_value(text[2 * i]) << 4 |
				   hex_digit_value(text[2 * i + 1]));
	return 0;
}
