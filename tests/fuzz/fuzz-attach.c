/* SPDX-License-Identifier: Apache-2.0 */
/* A conversation of frames: what one side may say the other may not, but eof,
 * size and role; a frame
 * is never longer than allowed, and a header that is refused is refused at once. */
#include "fuzz.h"
#include "wire/attach.h"

static bool both_ways(const struct frame *f)
{
	return f->type == FRAME_EOF || f->type == FRAME_SIZE || f->type == FRAME_ROLE;
}

/* What was decoded whole is never wrong inside. */
static void look_inside(const struct frame *f)
{
	uint16_t cols, rows;
	uint8_t back[FRAME_SIZE_LENGTH];
	bool writes;

	if (f->type == FRAME_SIZE) {
		CHECK(frame_size_decode(f, &cols, &rows) == 0 && cols && rows);
		frame_size_encode(cols, rows, back);
		CHECK(memcmp(back, f->content, sizeof(back)) == 0);
	}
	if (f->type == FRAME_ROLE)
		CHECK(frame_role_decode(f, &writes) == 0 && f->content[0] == writes);
}

static void check(enum attach_direction way, const uint8_t *data, size_t size)
{
	uint8_t *in = fuzz_copy(data, size), *at = in;
	struct frame f;
	int n;

	while ((n = attach_frame_decode(way, at, size, &f)) > 0) {
		CHECK((size_t)n <= size && (uint32_t)n == FRAME_HEAD + f.length);
		CHECK(f.length <= ATTACH_FRAME_MAX && f.content == at + FRAME_HEAD);
		CHECK(attach_frame_check(way, &f) == 0);
		CHECK(both_ways(&f) || attach_frame_check(!way, &f) < 0);
		look_inside(&f);
		for (int part = 0; part < n; part += part < FRAME_HEAD ? 1 : 1 + n / 8)
			CHECK(attach_frame_decode(way, at, (size_t)part, &f) == 0);
		at += n;
		size -= (size_t)n;
	}
	if (n == 0 && size >= FRAME_HEAD)
		CHECK(attach_frame_decode(way, at, FRAME_HEAD, &f) == 0);
	free(in);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check(ATTACH_OUT, data, size);
	check(ATTACH_IN, data, size);
	return 0;
}
