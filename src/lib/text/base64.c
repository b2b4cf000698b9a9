/* SPDX-License-Identifier: Apache-2.0 */
#include "text/base64.h"

#include <errno.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char for_urls[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static int base64_digit_value(char c, const char *digits)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == digits[62] ? 62 : c == digits[63] ? 63 : -1;
}

/* One to three bytes to two to four characters. */
static void base64_encode_group(const uint8_t *in, size_t n, const char *digits, char *out)
{
	uint32_t acc = (uint32_t)in[0] << 16;

	if (n > 1)
		acc |= (uint32_t)in[1] << 8;
	if (n > 2)
		acc |= in[2];
	for (unsigned i = 0; i <= n; i++)
		out[i] = digits[acc >> (18 - 6 * i) & 63];
}

void base64_encode(const uint8_t *in, size_t n, char *out)
{
	for (; n >= 3; n -= 3, in += 3, out += 4)
		base64_encode_group(in, 3, alphabet, out);
	if (!n)
		return;
	base64_encode_group(in, n, alphabet, out);
	if (n == 1)
		out[2] = '=';
	out[3] = '=';
}

/* Four characters to three bytes; pad is how many of the four are not there. */
static int base64_decode_group(const char *in, unsigned pad, const char *digits, uint8_t *out)
{
	uint32_t acc = 0;

	for (unsigned i = 0; i < 4 - pad; i++) {
		int v = base64_digit_value(in[i], digits);

		if (v < 0)
			return -EINVAL;
		acc |= (uint32_t)v << (18 - 6 * i);
	}
	if (pad && acc & ((1u << 8 * pad) - 1))
		return -EINVAL;
	for (unsigned i = 0; i + pad < 3; i++)
		out[i] = (uint8_t)(acc >> (16 - 8 * i));
	return 0;
}

int base64_decode(const char *in, size_t n, uint8_t *out, size_t *ret)
{
	size_t done = 0;

	if (n % 4)
		return -EINVAL;
	for (; n; n -= 4, in += 4) {
		unsigned pad = 0;
		int r;

		if (n == 4 && in[3] == '=')
			pad = in[2] == '=' ? 2 : 1;
		r = base64_decode_group(in, pad, alphabet, out + done);
		if (r < 0)
			return r;
		done += 3 - pad;
	}
	*ret = done;
	return 0;
}

void base64url_encode(const uint8_t *in, size_t n, char *out)
{
	for (; n >= 3; n -= 3, in += 3, out += 4)
		base64_encode_group(in, 3, for_urls, out);
	if (n)
		base64_encode_group(in, n, for_urls, out);
}

int base64url_decode(const char *in, size_t n, uint8_t *out, size_t *ret)
{
	size_t done = 0;

	if (n % 4 == 1)
		return -EINVAL;
	while (n) {
		unsigned pad = n < 4 ? 4 - (unsigned)n : 0;
		int r = base64_decode_group(in, pad, for_urls, out + done);

		if (r < 0)
			return r;
		done += 3 - pad;
		in += 4 - pad;
		n -= 4 - pad;
	}
	*ret = done;
	return 0;
}
