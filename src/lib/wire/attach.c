/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/attach.h"

#include <errno.h>

#define BIT(s) (1u << (s))
#define OUTPUTS (BIT(FRAME_STDOUT) | BIT(FRAME_STDERR))

/* The table in attach.h: which streams a frame of that type may be of. */
static const unsigned streams[][FRAME_NUM_TYPES] = {
	[ATTACH_OUT] = {
		[FRAME_DATA] = OUTPUTS,
		[FRAME_GAP] = OUTPUTS,
		[FRAME_END] = BIT(0),
		[FRAME_ERROR] = BIT(0),
		[FRAME_TAKEN] = BIT(FRAME_STDIN),
		[FRAME_EOF] = BIT(FRAME_STDIN),
		[FRAME_SIZE] = BIT(0),
		[FRAME_ROLE] = BIT(0),
	},
	[ATTACH_IN] = {
		[FRAME_DATA] = BIT(FRAME_STDIN),
		[FRAME_TAKEN] = OUTPUTS,
		[FRAME_EOF] = BIT(FRAME_STDIN),
		[FRAME_SIZE] = BIT(0),
		[FRAME_ROLE] = BIT(0),
	},
};

int attach_frame_check(enum attach_direction way, const struct frame *f)
{
	if (f->length > ATTACH_FRAME_MAX)
		return -EPROTO;
	return streams[way][f->type] & BIT(f->stream) ? 0 : -EPROTO;
}

int attach_frame_decode(enum attach_direction way, const uint8_t *in, size_t n, struct frame *ret)
{
	struct frame head;

	if (n < FRAME_HEAD)
		return 0;
	if (frame_decode_head(in, &head) < 0 || attach_frame_check(way, &head) < 0)
		return -EPROTO;
	return frame_decode(in, n, ret);
}
