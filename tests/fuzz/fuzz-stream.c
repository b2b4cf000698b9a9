/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of frames cut at any place gives the same bytes, losses and verdict
 * as one that comes whole; its offsets only grow. */
#include "fuzz.h"
#include "wire/frame-reader.h"

struct seen {
	uint64_t bytes[FRAME_NUM_STREAMS], lost, sum;
	size_t json;
	bool refused;
};

static void note(struct seen *to, const struct frame_reader_item *i)
{
	if (i->event == STREAM_DATA) {
		CHECK(i->n > 0 && i->stream != FRAME_STDIN);
		to->bytes[i->stream] += i->n;
		for (size_t k = 0; k < i->n; k++)
			to->sum = to->sum * 31 + i->p[k];
	} else if (i->event == STREAM_GAP) {
		CHECK(i->lost > 0);
		to->lost += i->lost;
	} else if (i->event != STREAM_MORE) {
		CHECK(i->n >= 2 && i->n <= FRAME_JSON_MAX && i->p[0] == '{');
		to->json += i->n;
	}
}

static struct seen feed(const uint8_t *in, size_t n, size_t step)
{
	struct frame_reader s =
		frame_reader_create(STREAM_BIT(FRAME_STDOUT) | STREAM_BIT(FRAME_STDERR));
	struct seen seen = {};

	while (n && !seen.refused) {
		size_t part = step && step < n ? step : n;
		uint8_t *copy = fuzz_copy(in, part);
		struct frame_reader before = s;
		struct frame_reader_item item;
		ssize_t r = frame_reader_feed(&s, copy, part, &item);

		seen.refused = r < 0;
		if (r >= 0) {
			CHECK((size_t)r <= part && (r > 0 || item.event != STREAM_MORE));
			for (unsigned i = 0; i < FRAME_NUM_STREAMS; i++)
				CHECK(s.next[i] >= before.next[i]);
			note(&seen, &item);
			in += r;
			n -= (size_t)r;
		}
		free(copy);
	}
	return seen;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seen whole, parts;

	if (size < 1)
		return 0;
	whole = feed(data + 1, size - 1, 0);
	parts = feed(data + 1, size - 1, data[0]);
	CHECK(whole.refused == parts.refused && whole.lost == parts.lost &&
	      whole.json == parts.json && whole.sum == parts.sum);
	return 0;
}
