/* SPDX-License-Identifier: Apache-2.0 */
#include "text/base64.h"

#include <errno.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

void base64_encode(const uint8_t *in, size_t n, char *out)
{
	for (; n >= 3; n -= 3, in += 3, out += 4) {
		out[0] = alphabet[in[0] >> 2];
		out[1] = alphabet[(in[0] & 3) << 4 | in[1] >> 4];
		out[2] = alphabet[(in[1] & 15) << 2 | in[2] >> 6];
		out[3] = alphabet[in[2] & 63];
	}
	if (!n)
		return;
	out[0] = alphabet[in[0] >> 2];
	out[1] = alphabet[(in[0] & 3) << 4 | (n == 2 ? in[1] >> 4 : 0)];
	out[2] = n == 2 ? alphabet[(in[1] & 15) << 2] : '=';
	out[3] = '=';
}

/* Four characters to three bytes; pad is how many '=' end them. */
static int group(const char *in, unsigned pad, uint8_t *out)
{
	uint32_t acc = 0;

	for (unsigned i = 0; i < 4 - pad; i++) {
		int v = value(in[i]);

		if (v < 0)
			return -EINVAL;
		acc |= (uint32_t)v << (18 - 6 * i);
	}
	if (pad && acc & ((1u << 8 * pad) - 1))
		return -EINVAL;
	for (unsigned i = 0; i < 3 - pad; i++)
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
		r = group(in, pad, out + done);
		if (r < 0)
			return r;
		done += 3 - pad;
	}
	*ret = done;
	return 0;
}
