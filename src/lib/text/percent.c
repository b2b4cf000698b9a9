/* SPDX-License-Identifier: Apache-2.0 */
#include "text/percent.h"

#include <errno.h>

static int percent_hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int percent_decode(const char *in, size_t n, char *out, size_t *ret)
{
	size_t done = 0;

	for (size_t i = 0; i < n; i++) {
		int v = (unsigned char)in[i];

		if (v <= 0x20 || v >= 0x7F)
			return -EINVAL;
		if (v == '%') {
			int hi, lo;

			if (n - i < 3)
				return -EINVAL;
			hi = percent_hex_value(in[i + 1]);
			lo = percent_hex_value(in[i + 2]);
			if (hi < 0 || lo < 0 || (hi == 0 && lo == 0))
				return -EINVAL;
			v = hi * 16 + lo;
			i += 2;
		}
		out[done++] = (char)v;
	}
	*ret = done;
	return 0;
}

static int percent_is_unreserved(unsigned char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

size_t percent_encode(const char *in, size_t n, char *out)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t done = 0;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)in[i];

		if (percent_is_unreserved(c)) {
			out[done++] = (char)c;
			continue;
		}
		out[done++] = '%';
		out[done++] = digits[c >> 4];
		out[done++] = digits[c & 15];
	}
	return done;
}
