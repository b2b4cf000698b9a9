/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes, any length up to 40: inside, canonical, and the version chosen is
 * one both sides named.
 *
 * sources: wire/hello.c
 * unwind: 41
 */
#include <errno.h>

#include "proof.h"
#include "wire/hello.h"

int main(void)
{
	uint8_t *in, out[HELLO_SIZE];
	size_t n = nondet_size(), low = nondet_size(), high = nondet_size();
	struct hello h;
	int v;

	assume(n <= 40 && low >= 1 && low <= high && high <= UINT16_MAX);
	in = bytes_of(n);
	if (hello_decode(in, n, &h) < 0)
		return 0;
	prove(n == HELLO_SIZE);
	prove(h.proto_min >= 1 && h.proto_min <= h.proto_max);
	hello_encode(&h, out);
	for (size_t i = 0; i < HELLO_SIZE; i++)
		prove(out[i] == in[i]);
	v = hello_choose_version(&h, (uint16_t)low, (uint16_t)high);
	prove(v == -EPROTONOSUPPORT ||
	      (v >= h.proto_min && v <= h.proto_max && v >= (int)low && v <= (int)high));
	if (h.proto_max >= low && h.proto_min <= high)
		prove(v > 0);
	return 0;
}
