/* SPDX-License-Identifier: Apache-2.0 */
#include "init/kernel/kernel-frame.h"

#include <errno.h>
#include <string.h>

#include "base/endian.h"

void kernel_frame_reader_fini(struct kernel_frame_reader *r)
{
	buf_fini(&r->payload);
	*r = (struct kernel_frame_reader){};
}

static ssize_t kernel_frame_read_head(struct kernel_frame_reader *r, const uint8_t *in, size_t n)
{
	size_t part = KERNEL_FRAME_HEAD - r->n_head;

	part = n < part ? n : part;
	memcpy(r->head + r->n_head, in, part);
	r->n_head += part;
	if (r->n_head < KERNEL_FRAME_HEAD)
		return (ssize_t)part;
	r->length = le32_get(r->head);
	if (r->length > KERNEL_FRAME_MAX || !strchr("HCREUD", r->head[4]) || !r->head[4])
		return -EPROTO;
	buf_fini(&r->payload); /* of the frame before */
	r->payload = BUF_INIT(KERNEL_FRAME_MAX);
	return (ssize_t)part;
}

ssize_t kernel_frame_read(struct kernel_frame_reader *r, const uint8_t *in, size_t n,
			  struct kernel_frame *ret)
{
	ssize_t taken = 0;
	size_t part;

	*ret = (struct kernel_frame){};
	if (r->n_head < KERNEL_FRAME_HEAD) {
		taken = kernel_frame_read_head(r, in, n);
		if (taken < 0 || r->n_head < KERNEL_FRAME_HEAD)
			return taken;
	}
	part = r->length - r->payload.len;
	part = n - (size_t)taken < part ? n - (size_t)taken : part;
	if (part && buf_append(&r->payload, in + taken, part) < 0)
		return -ENOMEM;
	if (r->payload.len == r->length) {
		ret->type = (char)r->head[4];
		ret->payload = (struct slice){ r->payload.data, r->payload.len };
		r->n_head = 0;
	}
	return taken + (ssize_t)part;
}

int kernel_frame_append(struct buf *b, char type, struct slice payload)
{
	uint8_t head[KERNEL_FRAME_HEAD];
	int r = buf_reserve(b, sizeof(head) + payload.n);

	if (r < 0)
		return r;
	le32_put(head, (uint32_t)payload.n);
	head[4] = (uint8_t)type;
	r = buf_append(b, head, sizeof(head));
	return r < 0 || !payload.n ? r : buf_append(b, payload.p, payload.n);
}
