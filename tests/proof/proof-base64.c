/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text of up to 12 characters: no byte outside the buffers is touched, and
 * what decodes is canonical: encoding it gives the same characters.
 *
 * sources: text/base64.c
 * unwind: 14
 */
#include "proof.h"
#include "text/base64.h"

int main(void)
{
	char *in, again[12];
	uint8_t out[BASE64_BYTES(12)];
	size_t n = nondet_size(), got;

	assume(n <= sizeof(again));
	in = bytes_of(n);
	if (base64_decode(in, n, out, &got) == 0) {
		prove(got <= BASE64_BYTES(n));
		prove(BASE64_TEXT(got) == n);
		base64_encode(out, got, again);
		for (size_t i = 0; i < n; i++)
			prove(again[i] == in[i]);
	}
	return 0;
}
