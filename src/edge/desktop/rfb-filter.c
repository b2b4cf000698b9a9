/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/desktop/rfb-filter.h"

#include <errno.h>
#include <string.h>

#include "base/endian.h"
#include "base/mem.h"

#define VERSION "RFB 003.008\n"
#define VERSION_LEN (sizeof(VERSION) - 1)
#define SECURITY_NONE 1
#define FENCE_MAX 64 /* more is against its description */

enum rfb_message {
	RFB_SET_PIXEL_FORMAT = 0,
	RFB_SET_ENCODINGS = 2,
	RFB_UPDATE_REQUEST = 3,
	RFB_KEY = 4,
	RFB_POINTER = 5,
	RFB_CUT_TEXT = 6,
	RFB_CONTINUOUS_UPDATES = 150,
	RFB_FENCE = 248,
	RFB_XVP = 250, /* shut down, reboot */
	RFB_SET_DESKTOP_SIZE = 251,
	RFB_QEMU = 255, /* keys */
};

static_assert(VERSION_LEN <= RFB_HEAD_MAX);

/* A message: bytes of it that say how long it is, and whether who watches may send it. */
struct rfb_kind {
	uint8_t type, head;
	bool watches;
};

static const struct rfb_kind rfb_kinds[] = {
	{ RFB_SET_PIXEL_FORMAT, 1, true },
	{ RFB_SET_ENCODINGS, 4, true },
	{ RFB_UPDATE_REQUEST, 1, true },
	{ RFB_KEY, 1, false },
	{ RFB_POINTER, 2, false },
	{ RFB_CUT_TEXT, 8, false },
	{ RFB_CONTINUOUS_UPDATES, 1, true },
	{ RFB_FENCE, 9, true },
	{ RFB_XVP, 1, false },
	{ RFB_SET_DESKTOP_SIZE, 7, false },
	{ RFB_QEMU, 2, false },
};

static const struct rfb_kind *rfb_find_kind(uint8_t type)
{
	for (size_t i = 0; i < ARRAY_SIZE(rfb_kinds); i++)
		if (rfb_kinds[i].type == type)
			return &rfb_kinds[i];
	return NULL;
}

/* Of the whole message, from its head; 0: it is none. */
static uint64_t rfb_message_length(const uint8_t *head)
{
	switch ((enum rfb_message)head[0]) {
	case RFB_SET_PIXEL_FORMAT:
		return 20;
	case RFB_SET_ENCODINGS:
		return 4 + UINT64_C(4) * be16_get(head + 2);
	case RFB_UPDATE_REQUEST:
	case RFB_CONTINUOUS_UPDATES:
		return 10;
	case RFB_KEY:
		return 8;
	case RFB_POINTER: /* with the highest bit another byte of buttons follows */
		return head[1] & 0x80 ? 7 : 6;
	case RFB_CUT_TEXT: { /* negative: of the extended clipboard */
		int64_t n = (int32_t)be32_get(head + 4);

		return 8 + (uint64_t)(n < 0 ? -n : n);
	}
	case RFB_FENCE:
		return head[8] <= FENCE_MAX ? UINT64_C(9) + head[8] : 0;
	case RFB_XVP:
		return 4;
	case RFB_SET_DESKTOP_SIZE:
		return 8 + UINT64_C(16) * head[6];
	case RFB_QEMU: /* only keys; what QEMU has beside them is sound */
		return head[1] == 0 ? 12 : 0;
	}
	return 0;
}

static int rfb_refuse(const char **why, const char *what)
{
	*why = what;
	return -EPROTO;
}

/* Collect up to n bytes of head; true: it has them. */
static bool rfb_collect(struct rfb_filter *f, struct slice *in, size_t n)
{
	while (f->n_head < n && in->n) {
		f->head[f->n_head++] = (uint8_t)*in->p++;
		in->n--;
	}
	return f->n_head == n;
}

static int rfb_pass_head(struct rfb_filter *f, enum rfb_state next, struct buf *to)
{
	int r = buf_append(to, f->head, f->n_head);

	f->n_head = 0;
	f->state = next;
	return r;
}

static int rfb_push_version(struct rfb_filter *f, struct slice *in, struct buf *to,
			    const char **why)
{
	if (!rfb_collect(f, in, VERSION_LEN))
		return 0;
	if (memcmp(f->head, VERSION, VERSION_LEN) != 0)
		return rfb_refuse(why, "the client must speak RFB 3.8");
	return rfb_pass_head(f, RFB_SECURITY, to);
}

static int rfb_push_security(struct rfb_filter *f, struct slice *in, struct buf *to,
			     const char **why)
{
	if (!rfb_collect(f, in, 1))
		return 0;
	if (f->head[0] != SECURITY_NONE)
		return rfb_refuse(why, "the client must choose the security type None");
	return rfb_pass_head(f, RFB_SHARED, to);
}

static int rfb_push_shared(struct rfb_filter *f, struct slice *in, struct buf *to)
{
	if (!rfb_collect(f, in, 1))
		return 0;
	f->head[0] = 1;
	return rfb_pass_head(f, RFB_HEAD, to);
}

static int rfb_push_head(struct rfb_filter *f, struct slice *in, struct buf *to, const char **why)
{
	const struct rfb_kind *kind;
	uint64_t length;

	if (!rfb_collect(f, in, f->n_head ? f->n_head : 1))
		return 0;
	kind = rfb_find_kind(f->head[0]);
	if (!kind)
		return rfb_refuse(why, "the client sent a message that is not known");
	if (!rfb_collect(f, in, kind->head))
		return 0;
	length = rfb_message_length(f->head);
	if (!length)
		return rfb_refuse(why, "the client sent a message that is not valid");
	f->left = length - kind->head;
	f->passes = kind->watches;
	if (f->passes)
		return rfb_pass_head(f, RFB_BODY, to);
	f->n_head = 0;
	f->state = RFB_BODY;
	return 0;
}

static int rfb_push_body(struct rfb_filter *f, struct slice *in, struct buf *to)
{
	size_t n = f->left < in->n ? (size_t)f->left : in->n;
	int r = f->passes ? buf_append(to, in->p, n) : 0;

	in->p += n;
	in->n -= n;
	f->left -= n;
	if (!f->left)
		f->state = RFB_HEAD;
	return r;
}

int rfb_filter_push(struct rfb_filter *f, struct slice in, struct buf *to, const char **why)
{
	int r = 0;

	while (in.n && r >= 0) {
		if (f->state == RFB_VERSION)
			r = rfb_push_version(f, &in, to, why);
		else if (f->state == RFB_SECURITY)
			r = rfb_push_security(f, &in, to, why);
		else if (f->state == RFB_SHARED)
			r = rfb_push_shared(f, &in, to);
		else if (f->controls)
			return buf_append(to, in.p, in.n);
		else if (f->state == RFB_HEAD)
			r = rfb_push_head(f, &in, to, why);
		else
			r = rfb_push_body(f, &in, to);
	}
	return r;
}
