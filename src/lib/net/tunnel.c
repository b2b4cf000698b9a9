/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tunnel.h"

#include <poll.h>
#include <sys/socket.h>

#define OUT_MAX (TUNNEL_MARK + CONN_READ)

struct tunnel {
	struct conn *side[2];
	bool ended[2]; /* its input has ended */
	bool closing;
	uint64_t moved[2]; /* bytes from this side */
	unsigned open;     /* handles not closed yet: sides and the timer */
	uv_timer_t timer;
	void (*done)(void *arg);
	void *arg;
};

static void tunnel_unref(struct tunnel *t)
{
	if (--t->open)
		return;
	if (t->done)
		t->done(t->arg);
	free(t);
}

static void on_tunnel_timer_closed(uv_handle_t *h)
{
	tunnel_unref(h->data);
}

static void on_tunnel_side_closed(struct conn *c)
{
	struct tunnel *t = conn_data(c);

	t->side[c == t->side[1]] = NULL;
	tunnel_unref(t);
}

void tunnel_close(struct tunnel *t)
{
	if (t->closing)
		return;
	t->closing = true;
	for (unsigned i = 0; i < 2; i++)
		conn_close(t->side[i]);
	uv_close((uv_handle_t *)&t->timer, on_tunnel_timer_closed);
}

/* At once: a close takes effect at the end of the loop's round, and until then the kernel would
 * send what is queued. */
void tunnel_reset(struct tunnel *t)
{
	static const struct sockaddr nowhere = { .sa_family = AF_UNSPEC };

	for (unsigned i = 0; i < 2 && !t->closing; i++)
		if (connect(conn_fd(t->side[i]), &nowhere, sizeof(nowhere)) < 0)
			continue; /* its peer has ended it already */
	tunnel_close(t);
}

static void on_tunnel_silence_timer(uv_timer_t *timer)
{
	tunnel_close(timer->data);
}

static void tunnel_close_if_done(struct tunnel *t)
{
	if (t->ended[0] && t->ended[1] && !conn_queued_bytes(t->side[0]) &&
	    !conn_queued_bytes(t->side[1]))
		tunnel_close(t);
}

static void tunnel_move_bytes(struct tunnel *t, unsigned from, struct slice bytes)
{
	struct conn *to = t->side[!from];
	uv_buf_t v = uv_buf_init((char *)(uintptr_t)bytes.p, (unsigned)bytes.n);

	t->moved[from] += bytes.n;
	if (bytes.n && conn_write(to, &v, 1) < 0)
		tunnel_close(t);
	else
		conn_set_reading(t->side[from], conn_queued_bytes(to) <= TUNNEL_MARK);
}

static void on_tunnel_side_read(struct conn *c, struct slice bytes)
{
	struct tunnel *t = conn_data(c);
	unsigned from = c == t->side[1];

	if (t->ended[!from])
		(void)uv_timer_again(&t->timer);
	tunnel_move_bytes(t, from, bytes);
}

static void on_tunnel_side_sent(struct conn *c)
{
	struct tunnel *t = conn_data(c);
	unsigned to = c == t->side[1];

	if (conn_queued_bytes(c) <= TUNNEL_MARK / 2 && !t->ended[!to])
		conn_set_reading(t->side[!to], true);
	tunnel_close_if_done(t);
}

/* It has closed both directions: it will not read data of the other side. */
static bool tunnel_side_has_left(const struct conn *c)
{
	struct pollfd p = { .fd = conn_fd(c) };

	return p.fd >= 0 && poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

static void on_tunnel_side_end(struct conn *c, const struct cay_err *err)
{
	struct tunnel *t = conn_data(c);
	unsigned from = c == t->side[1];

	if (err) {
		tunnel_close(t);
		return;
	}
	t->ended[from] = true;
	t->ended[!from] |= tunnel_side_has_left(c);
	conn_shutdown(t->side[!from]);
	(void)uv_timer_start(&t->timer, on_tunnel_silence_timer, TUNNEL_HALF_MS, TUNNEL_HALF_MS);
	tunnel_close_if_done(t);
}

static void on_tunnel_side_stuck(struct conn *c)
{
	tunnel_close(conn_data(c));
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

void tunnel_get_moved(const struct tunnel *t, uint64_t *from_a, uint64_t *from_b)
{
	*from_a = t->moved[0];
	*from_b = t->moved[1];
}

void tunnel_free(struct tunnel *t)
{
	t->done = NULL;
	uv_close((uv_handle_t *)&t->timer, on_tunnel_timer_closed);
}

void tunnel_start(struct tunnel *t, struct conn *a, struct slice from_a, struct conn *b,
		  struct slice from_b)
{
	static const struct conn_events events = { .read = on_tunnel_side_read,
						   .end = on_tunnel_side_end,
						   .sent = on_tunnel_side_sent,
						   .stuck = on_tunnel_side_stuck,
						   .closed = on_tunnel_side_closed };

	t->side[0] = a;
	t->side[1] = b;
	t->open += 2;
	conn_set_owner(a, &events, t, OUT_MAX);
	conn_set_owner(b, &events, t, OUT_MAX);
	tunnel_move_bytes(t, 0, from_a);
	if (!t->closing)
		tunnel_move_bytes(t, 1, from_b);
}
