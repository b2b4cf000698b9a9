/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox says, for a client without frames: a Close that is said can be sent, and
 * input that goes in between are frames a sandbox takes. */
#include "edge/raw.h"
#include "fuzz.h"

static void check_close(const struct raw_said *said)
{
	static const struct ws_conf conf = { .message_max = 1, .fragments_max = 1, .out_max = 256 };
	struct ws w;

	ws_init(&w, &conf);
	CHECK(ws_close(&w, said->code, said->reason) == 0);
	ws_fini(&w);
}

static void check_in(struct raw *r, struct slice data, bool more)
{
	auto_buf to = BUF_INIT(FRAME_HEAD + ATTACH_FRAME_MAX);
	struct ws_event ev = { .data = data, .more = more };
	uint64_t at = r->at;
	struct frame f;

	CHECK(raw_in(r, &ev, &to) == 0);
	if (!to.len)
		return;
	CHECK(attach_cut(ATTACH_IN, (uint8_t *)to.data, to.len, &f) == (int)to.len);
	CHECK(f.offset == at && r->at == at + f.length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *in = fuzz_copy(data, size), *at = in;
	struct raw r = {};
	struct frame f;
	int n;

	while ((n = attach_cut(ATTACH_OUT, at, size, &f)) > 0) {
		struct raw_said said = raw_out(&r, &f);

		CHECK(!said.code || !said.bytes.n);
		CHECK(!said.bytes.n || (f.type == FRAME_DATA && f.stream == FRAME_STDOUT));
		if (said.code) {
			check_close(&said);
			break;
		}
		if (r.known)
			check_in(&r, (struct slice){ (char *)f.content, f.length % WS_PART_MAX },
				 f.offset & 1);
		at += n;
		size -= (size_t)n;
	}
	free(in);
	return 0;
}
