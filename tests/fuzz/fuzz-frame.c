/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of frames: each takes what it says, encodes back to the same bytes,
 * and its SSE form is UTF-8 without a stray line. */
#include "base/str.h"
#include "fuzz.h"
#include "wire/frame.h"

static void check(const struct frame *f, const uint8_t *in, int n)
{
	auto_buf wire = BUF_INIT(FRAME_MAX + FRAME_HEAD), sse = BUF_INIT(MIB(8));

	CHECK(frame_encode(f, &wire) == 0);
	CHECK(wire.len == (size_t)n && memcmp(wire.data, in, wire.len) == 0);
	if (frame_to_sse(f, &sse) == 0) {
		CHECK(utf8_is_valid(sse.data, sse.len));
		CHECK(sse.len > 2 && strstr(sse.data, "\n\n") == sse.data + sse.len - 2);
	} else {
		CHECK(f->type > FRAME_GAP && sse.len == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in = fuzz_copy(data, size), *at = in;
	struct frame f;
	int n;

	while ((n = frame_decode(at, size, &f)) > 0) {
		CHECK((size_t)n <= size && (uint32_t)n == FRAME_HEAD + f.length);
		check(&f, at, n);
		at += n;
		size -= (size_t)n;
	}
	free(in);
	return 0;
}
