/* SPDX-License-Identifier: Apache-2.0 */
/* frame_codec: encode and decode a frame of 4 KiB, against copying its bytes. */
#include <assert.h>
#include <string.h>

#include "bench.h"
#include "wire/frame.h"

static uint8_t content[4096];

static void ours(void *arg)
{
	struct buf *b = arg;
	struct frame f = { .type = FRAME_DATA,
			   .stream = FRAME_STDOUT,
			   .length = sizeof(content),
			   .content = content };
	struct frame back;
	int n;

	buf_clear(b);
	n = frame_encode(&f, b);
	assert(n == 0);
	n = frame_decode((const uint8_t *)b->data, b->len, &back);
	assert(n == FRAME_HEAD + (int)sizeof(content) && back.content[0] == content[0]);
}

static void copy(void *arg)
{
	struct buf *b = arg;
	int r;

	buf_clear(b);
	r = buf_append(b, content, sizeof(content));
	assert(r == 0);
	/* or the compiler sees that nobody reads it */
	__asm__ volatile("" : : "r"(b->data) : "memory");
}

int main(void)
{
	auto_buf b = BUF_INIT(KIB(64));

	memset(content, 'x', sizeof(content));
	return bench_run(&(struct bench){ .name = "frame_codec",
					  .ours = ours,
					  .baseline_name = "memcpy of the content",
					  .baseline = copy,
					  .arg = &b,
					  .note = "4096 bytes, encode and decode" }) < 0;
}
