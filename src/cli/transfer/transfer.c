/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/transfer/transfer.h"

#include <poll.h>

int transfer_open(struct transfer *c, struct api *a, const struct api_call *call, uint64_t total,
		  struct cay_err *err)
{
	bool terminal = isatty(STDERR_FILENO);

	c->api = a;
	c->op = call->op;
	c->h = HTTP_INIT;
	c->bar = progress_start(&clk_system, terminal, total);
	c->shown = terminal;
	c->moved = 0;
	c->n = 0;
	return api_call_open(a, call, &c->h, err);
}

void transfer_fini(struct transfer *c)
{
	if (c->shown)
		progress_draw_word(&c->bar, "");
	c->shown = false;
	http_client_fini(&c->h);
}

static uint64_t transfer_idle_deadline(const struct transfer *c)
{
	return clk_boot_ns(&clk_system) + c->api->timeout_ms * NS_PER_MS;
}

static int transfer_fail_wait(const struct transfer *c, int r, struct cay_err *err)
{
	if (r == -EINTR)
		return cay_fail(err, CAY_E_UNAVAILABLE, "interrupted");
	if (r == -ETIMEDOUT)
		return cay_fail(err, CAY_E_TIMEOUT, "no data moved for %llu s",
				(unsigned long long)(c->api->timeout_ms + 999) / 1000);
	return cay_err_wrap(err, cay_fail_sys(err, CAY_E_UNAVAILABLE, -r, "connection"), "%s",
			    ops[c->op].name);
}

/* Send the queued bytes; -ECANCELED when the daemon has replied or reads no more. */
static int transfer_flush(struct transfer *c, struct cay_err *err)
{
	struct http_client *h = &c->h;

	while (http_client_has_unsent(h)) {
		int r = http_client_flush(h);

		if (r == 0)
			break;
		if (r != -EAGAIN)
			return -ECANCELED;
		r = http_client_wait(h, POLLIN | POLLOUT, transfer_idle_deadline(c), &c->api->intr);
		if (r < 0)
			return transfer_fail_wait(c, r, err);
		r = http_client_receive(h, err);
		if (r < 0 && r != -EAGAIN)
			return r;
		if (h->head_complete)
			return -ECANCELED;
	}
	return 0;
}

static int transfer_send_piece(struct transfer *c, struct cay_err *err)
{
	size_t n = c->n;

	c->n = 0;
	c->moved += n;
	progress_draw(&c->bar, c->moved);
	if (http_client_queue_chunk(&c->h, c->piece, n) < 0)
		return cay_no_memory(err);
	return transfer_flush(c, err);
}

int transfer_write(void *arg, const void *p, size_t n, struct cay_err *err)
{
	struct transfer *c = arg;

	while (n) {
		size_t some = n < TRANSFER_PIECE - c->n ? n : TRANSFER_PIECE - c->n;

		memcpy(c->piece + c->n, p, some);
		c->n += some;
		p = (const char *)p + some;
		n -= some;
		if (c->n == TRANSFER_PIECE) {
			int r = transfer_send_piece(c, err);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

int transfer_finish_send(struct transfer *c, void *ret, struct cay_err *err)
{
	int r = 0;

	if (c->n && !c->h.head_complete)
		r = transfer_send_piece(c, err);
	if (r >= 0 && !c->h.head_complete) /* an empty piece ends the body */
		r = transfer_send_piece(c, err);
	if (r < 0 && r != -ECANCELED)
		return r;
	r = api_call_receive_head(c->api, c->op, &c->h, err);
	return r < 0 ? r : api_call_finish(c->api, c->op, &c->h, ret, err);
}

int transfer_receive_head(struct transfer *c, struct cay_err *err)
{
	int r = api_call_receive_head(c->api, c->op, &c->h, err);

	if (r >= 0 && c->h.status != ops[c->op].status) {
		r = api_call_finish(c->api, c->op, &c->h, NULL, err);
		return r < 0 ? r
			     : cay_fail(err, CAY_E_MISBEHAVED, "%s: status %d", ops[c->op].name,
					c->h.status);
	}
	return r;
}

ssize_t transfer_read(void *arg, void *p, size_t n, struct cay_err *err)
{
	struct transfer *c = arg;
	struct http_client *h = &c->h;

	while (!h->body.len && !h->reply_complete) {
		int r = http_client_has_buffered(h)
				? 0
				: http_client_wait(h, POLLIN, transfer_idle_deadline(c),
						   &c->api->intr);

		if (r < 0)
			return transfer_fail_wait(c, r, err);
		r = http_client_receive(h, err);
		if (r == -ECONNRESET)
			return cay_fail(err, CAY_E_UNAVAILABLE,
					"the connection closed in the middle of the transfer");
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
