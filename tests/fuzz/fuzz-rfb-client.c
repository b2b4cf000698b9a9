/* SPDX-License-Identifier: Apache-2.0 */
/* What a viewer may send: the same however it is cut, and a server that reads only by the list
 * below finds nothing in it but harmless messages, whole but for the last. */
#include "edge/desktop/rfb-filter.h"

#include "fuzz.h"

#define START 14 /* version, security type, shared */
#define ROOM MIB(1)

static uint64_t be(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

/* As a server has it, written apart from the filter; 0: its length is not here yet. */
static uint64_t server_length(const uint8_t *p, size_t n)
{
	switch (p[0]) {
	case 0:
		return 20;
	case 2:
		return n < 4 ? 0 : 4 + 4 * be(p + 2, 2);
	case 3:
	case 150:
		return 10;
	case 248:
		CHECK(n < 9 || p[8] <= 64);
		return n < 9 ? 0 : 9u + p[8];
	default:
		CHECK(false); /* a message that changes something */
		return 0;
	}
}

static void check_harmless(const struct buf *out)
{
	const uint8_t *p = (const uint8_t *)out->data;
	size_t n = out->len;

	CHECK(n < 12 || memcmp(p, "RFB 003.008\n", 12) == 0);
	CHECK(n < 13 || p[12] == 1);
	CHECK(n < START || p[13] == 1);
	if (n <= START)
		return;
	p += START;
	n -= START;
	while (n) {
		uint64_t whole = server_length(p, n);

		if (!whole || whole > n)
			return;
		p += whole;
		n -= (size_t)whole;
	}
}

/* piece 0: all at once. */
static int run(const uint8_t *data, size_t size, size_t piece, struct buf *out)
{
	struct rfb_filter f = {};
	const char *why = NULL;
	int r = 0;

	while (size && r >= 0) {
		size_t n = piece && piece < size ? piece : size;
		size_t before = out->len;

		r = rfb_filter_push(&f, (struct slice){ (const char *)data, n }, out, &why);
		CHECK(out->len - before <= n + RFB_HEAD_MAX);
		data += n;
		size -= n;
	}
	CHECK(r >= 0 || (r == -EPROTO && why));
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_buf whole = BUF_INIT(ROOM), cut = BUF_INIT(ROOM);
	uint8_t *in;
	int r;

	if (!size || size > ROOM / 2)
		return 0;
	in = (uint8_t *)fuzz_copy(data, size);
	r = run(in + 1, size - 1, 0, &whole);
	CHECK(run(in + 1, size - 1, in[0] % 32 + 1u, &cut) == r);
	CHECK(whole.len == cut.len && (!cut.len || memcmp(whole.data, cut.data, cut.len) == 0));
	check_harmless(&whole);
	free(in);
	return 0;
}
