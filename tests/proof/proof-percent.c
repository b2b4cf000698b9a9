/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text of up to 6 characters: no byte outside, no NUL comes out, never
 * longer than it was; and whatever is encoded decodes to itself.
 *
 * sources: text/percent.c
 * unwind: 19
 */
#include "proof.h"
#include "text/percent.h"

int main(void)
{
	char *in, out[6], text[18], again[18];
	size_t n = nondet_size(), got, len, back;

	assume(n <= sizeof(out));
	in = bytes_of(n);
	if (percent_decode(in, n, out, &got) == 0) {
		prove(got <= n);
		for (size_t i = 0; i < got; i++)
			prove(out[i] != 0);
	}
	for (size_t i = 0; i < n; i++)
		assume(in[i] != 0);
	len = percent_encode(in, n, text);
	prove(len <= 3 * n);
	prove(percent_decode(text, len, again, &back) == 0);
	prove(back == n);
	for (size_t i = 0; i < n; i++)
		prove(again[i] == in[i]);
	return 0;
}
