/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tunnel.h"

#include <poll.h>

#define OUT_MAX (TUNNEL_MARK + CONN_READ)

struct tunnel {
	struct conn *side[2];
	bool ended[2]; /* it sends no more */
	bool closing;
	unsigned open; /* sides and the timer, while they are not closed */
	uv_timer_t timer;
	void (*done)(void *arg);
	void *arg;
};

static void unref(struct tunnel *t)
{
	if (--t->open)
		return;
	if (t->done)
		t->done(t->arg);
	free(t);
}

static void on_timer_closed(uv_handle_t *h)
{
	unref(h->data);
}

static void on_closed(struct conn *c)
{
	struct tunnel *t = conn_data(c);

	t->side[c == t->side[1]] = NULL;
	unref(t);
}

void tunnel_cut(struct tunnel *t)
{
	if (t->closing)
		return;
	t->closing = true;
	for (unsigned i = 0; i < 2; i++)
		conn_close(t->side[i]);
	uv_close((uv_handle_t *)&t->timer, on_timer_closed);
}

static void on_silence(uv_timer_t *timer)
{
	tunnel_cut(timer->data);
}

static void close_when_done(struct tunnel *t)
{
	if (t->ended[0] && t->ended[1] && !conn_queued(t->side[0]) && !conn_queued(t->side[1]))
		tunnel_cut(t);
}

static void pass(struct tunnel *t, unsigned from, struct slice bytes)
{
	struct conn *to = t->side[!from];
	uv_buf_t v = uv_buf_init((char *)(uintptr_t)bytes.p, (unsigned)bytes.n);

	if (bytes.n && conn_write(to, &v, 1) < 0)
		tunnel_cut(t);
	else
		conn_read(t->side[from], conn_queued(to) <= TUNNEL_MARK);
}

static void on_read(struct conn *c, struct slice bytes)
{
	struct tunnel *t = conn_data(c);
	unsigned from = c == t->side[1];

	if (t->ended[!from])
		(void)uv_timer_again(&t->timer);
	pass(t, from, bytes);
}

static void on_sent(struct conn *c)
{
	struct tunnel *t = conn_data(c);
	unsigned to = c == t->side[1];

	if (conn_queued(c) <= TUNNEL_MARK / 2 && !t->ended[!to])
		conn_read(t->side[!to], true);
	close_when_done(t);
}

/* It has closed both ways: nobody will read what the other side still says. */
static bool has_left(const struct conn *c)
{
	struct pollfd p = { .fd = conn_fd(c) };

	return p.fd >= 0 && poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

static void on_end(struct conn *c, const struct cay_err *err)
{
	struct tunnel *t = conn_data(c);
	unsigned from = c == t->side[1];

	if (err) {
		tunnel_cut(t);
		return;
	}
	t->ended[from] = true;
	t->ended[!from] |= has_left(c);
	conn_shutdown(t->side[!from]);
	(void)uv_timer_start(&t->timer, on_silence, TUNNEL_HALF_MS, TUNNEL_HALF_MS);
	close_when_done(t);
}

static void on_stuck(struct conn *c)
{
	tunnel_cut(conn_data(c));
}

struct tunnel *tunnel_new(uv_loop_t *loop, void (*done)(void *arg), void *arg)
{
	struct tunnel *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->done = done;
	t->arg = arg;
	t->open = 1;
	(void)uv_timer_init(loop, &t->timer);
	t->timer.data = t;
	return t;
}

void tunnel_free(struct tunnel *t)
{
	t->done = NULL;
	uv_close((uv_handle_t *)&t->timer, on_timer_closed);
}

void tunnel_start(struct tunnel *t, struct conn *a, struct slice from_a, struct conn *b,
		  struct slice from_b)
{
	static const struct conn_events events = { .read = on_read,
						   .end = on_end,
						   .sent = on_sent,
						   .stuck = on_stuck,
						   .closed = on_closed };

	t->side[0] = a;
	t->side[1] = b;
	t->open += 2;
	conn_give(a, &events, t, OUT_MAX);
	conn_give(b, &events, t, OUT_MAX);
	pass(t, 0, from_a);
	if (!t->closing)
		pass(t, 1, from_b);
}
