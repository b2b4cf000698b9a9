/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox says, for a client without frames: a Close that is said can be sent, and
 * input that goes in between are frames a sandbox takes. */
#include "edge/attach-raw.h"
#include "fuzz.h"

static void check_close(const struct attach_raw_output *said)
{
	static const struct ws_conf conf = { .message_max = 1, .fragments_max = 1, .out_max = 256 };
	struct ws w;

	ws_init(&w, &conf);
	CHECK(ws_close(&w, said->close_code, said->reason) == 0);
	ws_fini(&w);
}

static void check_in(struct attach_raw *r, struct slice data, bool more)
{
	auto_buf to = BUF_INIT(FRAME_HEAD + ATTACH_FRAME_MAX);
	struct ws_event ev = { .data = data, .more = more };
	uint64_t at = r->stdin_offset;
	struct frame f;

	CHECK(attach_raw_convert_message(r, &ev, &to) == 0);
	if (!to.len)
		return;
	CHECK(attach_frame_decode(ATTACH_IN, (uint8_t *)to.data, to.len, &f) == (int)to.len);
	CHECK(f.offset == at && r->stdin_offset == at + f.length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in = fuzz_copy(data, size), *at = in;
	struct attach_raw r = {};
	struct frame f;
	int n;

	while ((n = attach_frame_decode(ATTACH_OUT, at, size, &f)) > 0) {
		struct attach_raw_output said = attach_raw_convert_frame(&r, &f);

		CHECK(!said.close_code || !said.bytes.n);
		CHECK(!said.bytes.n || (f.type == FRAME_DATA && f.stream == FRAME_STDOUT));
		if (said.close_code) {
			check_close(&said);
			break;
		}
		if (r.offset_known)
			check_in(&r, (struct slice){ (char *)f.content, f.length % WS_PART_MAX },
				 f.offset & 1);
		at += n;
		size -= (size_t)n;
	}
	free(in);
	return 0;
}
