/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes, any length up to 40: the decoder stays inside, consumes what it
 * says, points inside what it was given, and the header it accepts is one the
 * encoder writes back to the same bytes.
 *
 * sources: wire/frame.c base/str.c
 * unwind: 18
 */
#include "proof.h"
#include "wire/frame.h"

int main(void)
{
	uint8_t *in, head[FRAME_HEAD];
	size_t n = nondet_size();
	struct frame f;
	int r;

	assume(n <= 40);
	in = bytes_of(n);
	r = frame_decode(in, n, &f);
	prove(r == 0 || r == -EPROTO || (r >= FRAME_HEAD && (size_t)r <= n));
	if (r > 0) {
		prove(f.length <= FRAME_MAX);
		prove(f.content == in + FRAME_HEAD);
		prove((size_t)r == FRAME_HEAD + (size_t)f.length);
		prove(f.offset <= UINT64_MAX - f.length);
		if (f.type == FRAME_GAP)
			prove(f.offset <= UINT64_MAX - frame_gap_decode(&f));
		frame_encode_head(&f, head);
		for (size_t i = 0; i < FRAME_HEAD; i++)
			prove(head[i] == in[i]);
	}
	return 0;
}
