/* SPDX-License-Identifier: Apache-2.0 */
#include "init/screen/x-conn.h"

#include <assert.h>
#include <poll.h>

#include "base/endian.h"

#define HEAD 32
#define GENERIC_EVENT 35
#define GENERIC_MAX KIB(64) /* of an event that nobody asked for */

enum { REQUEST_GET_INPUT_FOCUS = 43 };

void x_conn_fini(struct x_conn *c)
{
	buf_fini(&c->reply);
	cay_closep(&c->in);
	c->in = c->out = -EBADF;
}

int x_fail(struct cay_err *err, const char *what)
{
	int r = cay_fail(err, CAY_E_UNAVAILABLE, "the X server of the sandbox %s", what);

	cay_err_hint(err, "restart the screen: `cay service restart SANDBOX screen`");
	cay_err_set_blame(err, BLAME_TASK);
	return r;
}

static int x_write(struct x_conn *c, const void *p, size_t n, struct cay_err *err)
{
	const char *at = p;

	while (n) {
		ssize_t done = write(c->out, at, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return x_fail(err, errno == EAGAIN ? "does not read" : "has ended");
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

static int x_read(struct x_conn *c, void *p, size_t n, struct cay_err *err)
{
	char *at = p;

	while (n) {
		ssize_t done = read(c->in, at, n);

		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return x_fail(err, done < 0 && errno == EAGAIN ? "does not answer"
								       : "has ended");
		at += done;
		n -= (size_t)done;
	}
	return 0;
}

int x_send(struct x_conn *c, uint8_t *request, size_t n, struct cay_err *err)
{
	assert(n % 4 == 0 && n / 4 <= UINT16_MAX);
	if (n / 4 > c->max_request)
		return x_fail(err, "takes no request of that size");
	le16_put(request + 2, (uint16_t)(n / 4));
	c->last_request++;
	return x_write(c, request, n, err);
}

/* One message: a reply, an event or an error.  Only a reply has a body that is kept. */
static int x_read_message(struct x_conn *c, size_t max, struct cay_err *err)
{
	uint64_t more = 0;
	uint8_t *head;

	buf_clear(&c->reply);
	if (buf_reserve(&c->reply, HEAD) < 0)
		return cay_no_memory(err);
	head = (uint8_t *)c->reply.data;
	if (x_read(c, head, HEAD, err) < 0)
		return -EPROTO;
	c->reply.len = HEAD;
	if (head[0] == 1 || (head[0] & 0x7f) == GENERIC_EVENT)
		more = (uint64_t)le32_get(head + 4) * 4;
	if (head[0] != 1)
		max = GENERIC_MAX;
	if (more > max - HEAD)
		return x_fail(err, "sent a reply that is too long");
	if (!more)
		return 0;
	if (buf_reserve(&c->reply, (size_t)more) < 0)
		return cay_no_memory(err);
	if (x_read(c, c->reply.data + HEAD, (size_t)more, err) < 0)
		return -EPROTO;
	c->reply.len = HEAD + (size_t)more;
	return 0;
}

int x_receive(struct x_conn *c, size_t min, size_t max, struct cay_err *err)
{
	assert(min >= HEAD && max >= min && max <= X_REPLY_MAX);
	for (;;) {
		if (x_read_message(c, max, err) < 0)
			return -EPROTO;
		if (x_reply(c)[0] > 1)
			continue; /* an event */
		/* an error of an earlier request, which has no reply */
		if (x_reply(c)[0] == 0 && le16_get(x_reply(c) + 2) != c->last_request)
			continue;
		if (x_reply(c)[0] == 0)
			return -ENOENT;
		if (le16_get(x_reply(c) + 2) != c->last_request || c->reply.len < min)
			return x_fail(err, "sent a reply that fits no request");
		return 0;
	}
}

int x_ask(struct x_conn *c, uint8_t *request, size_t n, size_t min, size_t max, struct cay_err *err)
{
	int r = x_send(c, request, n, err);

	return r < 0 ? r : x_receive(c, min, max, err);
}

int x_require(struct x_conn *c, uint8_t *request, size_t n, size_t min, size_t max,
	      struct cay_err *err)
{
	int r = x_ask(c, request, n, min, max, err);

	return r == -ENOENT ? x_fail(err, "refused a request") : r;
}

int x_sync(struct x_conn *c, struct cay_err *err)
{
	uint8_t request[4] = { REQUEST_GET_INPUT_FOCUS };

	return x_require(c, request, sizeof(request), HEAD, HEAD, err);
}

int x_wait_event(struct x_conn *c, uint64_t ms, uint8_t ret[static 32], struct cay_err *err)
{
	struct pollfd p = { .fd = c->in, .events = POLLIN };

	if (poll(&p, 1, (int)ms) <= 0)
		return 0;
	if (x_read_message(c, HEAD, err) < 0)
		return -EPROTO;
	memcpy(ret, x_reply(c), HEAD);
	return 1;
}
