/* SPDX-License-Identifier: Apache-2.0 */
#include "init/screen/x-property.h"

#include "base/endian.h"

#define HEAD 32

enum {
	REQUEST_INTERN_ATOM = 16,
	REQUEST_GET_PROPERTY = 20,
	REQUEST_SEND_EVENT = 25,
};

int x_intern(struct x_conn *c, const char *name, uint32_t *ret, struct cay_err *err)
{
	struct slice text = slice_of(name);
	uint8_t request[40] = { REQUEST_INTERN_ATOM };
	int r;

	*ret = 0;
	le16_put(request + 4, (uint16_t)text.n);
	memcpy(request + 8, text.p, text.n);
	r = x_require(c, request, 8 + (text.n + 3) / 4 * 4, HEAD, HEAD, err);
	if (r >= 0)
		*ret = le32_get(x_reply(c) + 8);
	return r;
}

int x_read_property(struct x_conn *c, uint32_t window, uint32_t atom, bool and_delete, size_t max,
		    struct x_property *ret, struct cay_err *err)
{
	uint8_t request[24] = { REQUEST_GET_PROPERTY, and_delete };
	uint64_t n;
	int r;

	*ret = (struct x_property){};
	le32_put(request + 4, window);
	le32_put(request + 8, atom);
	le32_put(request + 20, (uint32_t)(max / 4));
	r = x_ask(c, request, sizeof(request), HEAD, HEAD + max, err);
	if (r == -ENOENT)
		return 0; /* a window that was closed meanwhile */
	if (r < 0)
		return r;
	ret->format = x_reply(c)[1];
	ret->type = le32_get(x_reply(c) + 8);
	ret->left = le32_get(x_reply(c) + 12);
	n = (uint64_t)le32_get(x_reply(c) + 16) * (ret->format / 8);
	if (n > c->reply.len - HEAD)
		return x_fail(err, "sent a property that is shorter than it says");
	ret->value = (struct slice){ c->reply.data + HEAD, (size_t)n };
	return 0;
}

int x_get_property(struct x_conn *c, uint32_t window, uint32_t atom, uint8_t format,
		   struct slice *ret, struct cay_err *err)
{
	struct x_property property;
	int r = x_read_property(c, window, atom, false, X_PROPERTY_MAX, &property, err);

	*ret = r >= 0 && property.format == format ? property.value : (struct slice){};
	return r;
}

int x_send_event(struct x_conn *c, uint32_t window, uint32_t mask, const struct x_event *e,
		 struct cay_err *err)
{
	uint8_t request[12 + sizeof(e->bytes)] = { REQUEST_SEND_EVENT };

	le32_put(request + 4, window);
	le32_put(request + 8, mask);
	memcpy(request + 12, e->bytes, sizeof(e->bytes));
	return x_send(c, request, sizeof(request), err);
}
