/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/carry.h"

#include <poll.h>

int carry_open(struct carry *c, struct api *a, const struct api_call *call, uint64_t total,
	       struct cay_err *err)
{
	bool terminal = isatty(STDERR_FILENO);

	c->api = a;
	c->op = call->op;
	c->h = HTTP_INIT;
	c->bar = progress_of(&clk_system, terminal, total);
	c->shown = terminal;
	c->moved = 0;
	c->n = 0;
	return api_open(a, call, &c->h, err);
}

void carry_fini(struct carry *c)
{
	if (c->shown)
		progress_word(&c->bar, "");
	c->shown = false;
	http_fini(&c->h);
}

static uint64_t patience(const struct carry *c)
{
	return clk_boot_ns(&clk_system) + c->api->timeout_ms * NS_PER_MS;
}

static int lost(const struct carry *c, int r, struct cay_err *err)
{
	if (r == -EINTR)
		return cay_fail(err, CAY_E_UNAVAILABLE, "interrupted");
	if (r == -ETIMEDOUT)
		return cay_fail(err, CAY_E_TIMEOUT, "nothing moved for %llu s",
				(unsigned long long)(c->api->timeout_ms + 999) / 1000);
	return cay_wrap(err, cay_fail_sys(err, CAY_E_UNAVAILABLE, -r, "connection"), "%s",
			ops[c->op].name);
}

/* What is queued; -ECANCELED when there is an answer already, or will never be room. */
static int flush(struct carry *c, struct cay_err *err)
{
	struct http *h = &c->h;

	while (http_sending(h)) {
		int r = http_flush(h);

		if (r == 0)
			break;
		if (r != -EAGAIN)
			return -ECANCELED;
		r = http_wait(h, POLLIN | POLLOUT, patience(c), &c->api->intr);
		if (r < 0)
			return lost(c, r, err);
		r = http_pull(h, err);
		if (r < 0 && r != -EAGAIN)
			return r;
		if (h->head)
			return -ECANCELED;
	}
	return 0;
}

static int send_piece(struct carry *c, struct cay_err *err)
{
	size_t n = c->n;

	c->n = 0;
	c->moved += n;
	progress_draw(&c->bar, c->moved);
	if (http_chunk(&c->h, c->piece, n) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
	return flush(c, err);
}

int carry_write(void *arg, const void *p, size_t n, struct cay_err *err)
{
	struct carry *c = arg;

	while (n) {
		size_t some = n < CARRY_PIECE - c->n ? n : CARRY_PIECE - c->n;

		memcpy(c->piece + c->n, p, some);
		c->n += some;
		p = (const char *)p + some;
		n -= some;
		if (c->n == CARRY_PIECE) {
			int r = send_piece(c, err);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

int carry_answer(struct carry *c, void *ret, struct cay_err *err)
{
	int r = 0;

	if (c->n && !c->h.head)
		r = send_piece(c, err);
	if (r >= 0 && !c->h.head) /* the piece of nothing, which ends it */
		r = send_piece(c, err);
	if (r < 0 && r != -ECANCELED)
		return r;
	r = api_head(c->api, c->op, &c->h, err);
	return r < 0 ? r : api_finish(c->api, c->op, &c->h, ret, err);
}

int carry_begin(struct carry *c, struct cay_err *err)
{
	int r = api_head(c->api, c->op, &c->h, err);

	if (r >= 0 && c->h.status != ops[c->op].status) {
		r = api_finish(c->api, c->op, &c->h, NULL, err);
		return r < 0 ? r
			     : cay_fail(err, CAY_E_MISBEHAVED, "%s: status %d", ops[c->op].name,
					c->h.status);
	}
	return r;
}

ssize_t carry_read(void *arg, void *p, size_t n, struct cay_err *err)
{
	struct carry *c = arg;
	struct http *h = &c->h;

	while (!h->body.len && !h->done) {
		int r = http_ready(h) ? 0 : http_wait(h, POLLIN, patience(c), &c->api->intr);

		if (r < 0)
			return lost(c, r, err);
		r = http_pull(h, err);
		if (r == -ECONNRESET)
			return cay_fail(err, CAY_E_UNAVAILABLE, "it ended in the middle");
		if (r < 0 && r != -EAGAIN)
			return r;
	}
	n = n < h->body.len ? n : h->body.len;
	if (n)
		memcpy(p, h->body.data, n);
	buf_consume(&h->body, n);
	c->moved += n;
	progress_draw(&c->bar, c->moved);
	return (ssize_t)n;
}
