/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of a program that connects to a.example:80.  Whole and byte by byte the same of them pass,
 * in order and nothing else. */
#include <stdlib.h>

#include "egress/host-guard.h"
#include "fuzz.h"

struct passed {
	struct buf bytes;
	bool refused;
};

static void on_read(struct conn *c, struct slice bytes)
{
	struct passed *p = c->data;

	CHECK(!p->refused);
	CHECK(buf_append(&p->bytes, bytes.p, bytes.n) >= 0);
}

static void on_end(struct conn *, const struct cay_err *) {}

static void on_refused(void *arg, const char *why)
{
	struct conn *c = arg;
	struct passed *p = c->data;

	CHECK(why && !p->refused);
	p->refused = true;
	c->closing = true;
}

static void guard_feed(const uint8_t *data, size_t size, size_t step, struct passed *ret)
{
	static const struct conn_events events = { .read = on_read, .end = on_end };
	static struct host_name name;
	struct conn c = { .events = &events, .data = ret };
	struct host_guard_layer layer = { { host_guard_attach }, &name, on_refused, &c };

	CHECK(host_name_parse(SLICE("a.example"), &name) == 0);
	*ret = (struct passed){ .bytes = BUF_INIT(size + 1) };
	CHECK(host_guard_attach(&layer.layer, &c) == 0);
	for (size_t i = 0; i < size && !c.closing; i += step) {
		char *piece = malloc(step);
		size_t n = step < size - i ? step : size - i;

		CHECK(piece);
		memcpy(piece, data + i, n);
		c.filter->input(&c, (struct slice){ piece, n });
		free(piece);
	}
	c.filter->free(&c);
}

/* What passed is the beginning of the input, and its first head has a Host. */
static void passed_check(const struct passed *p, const uint8_t *data, size_t size)
{
	CHECK(p->bytes.len <= size);
	if (!p->bytes.len)
		return;
	CHECK(memcmp(p->bytes.data, data, p->bytes.len) == 0);
	CHECK(memmem(p->bytes.data, p->bytes.len, ".", 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct passed whole, pieces;

	if (!size || size > KIB(32))
		return 0;
	guard_feed(data, size, size, &whole);
	guard_feed(data, size, 1, &pieces);
	passed_check(&whole, data, size);
	passed_check(&pieces, data, size);
	CHECK(whole.refused == pieces.refused);
	/* of a piece with an error nothing passes */
	CHECK(whole.refused ? whole.bytes.len <= pieces.bytes.len
			    : whole.bytes.len == pieces.bytes.len);
	buf_fini(&whole.bytes);
	buf_fini(&pieces.bytes);
	return 0;
}
