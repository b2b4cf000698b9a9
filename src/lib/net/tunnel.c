/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tunnel.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "net/splice.h"

#define OUT_MAX (TUNNEL_MARK + 2 * CONN_READ) /* one read, and bytes that a filter kept */

/* The bytes of one side on their way to the other, in the kernel. */
struct tunnel_splice {
	struct tunnel *tunnel;
	struct splice *splice; /* NULL: they are read and written here */
	bool allowed;
};

struct tunnel {
	struct conn *side[2];
	struct tunnel_splice splices[2];
	bool ended[2]; /* its input has ended */
	bool closing;
	uint64_t moved[2];                /* bytes from this side */
	const struct tunnel_meter *meter; /* or NULL */
	void *meter_arg;
	bool held[2];  /* it is not read: the meter has no room */
	unsigned open; /* handles not closed yet: sides, splices and the timer */
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
	for (unsigned i = 0; i < 2; i++) {
		if (t->splices[i].splice)
			splice_close(t->splices[i].splice);
		conn_close(t->side[i]);
	}
	uv_close((uv_handle_t *)&t->timer, on_tunnel_timer_closed);
}

/* At once: a close takes effect at the end of the loop's round, and until then the kernel would
 * send the queued bytes. */
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

/* It has closed both directions: it will not read data of the other side. */
static bool tunnel_side_has_left(const struct conn *c)
{
	struct pollfd p = { .fd = conn_fd(c) };

	return p.fd >= 0 && poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

static void tunnel_end_side(struct tunnel *t, unsigned from)
{
	struct conn *c = t->side[from];

	t->ended[from] = true;
	t->ended[!from] = t->ended[!from] || tunnel_side_has_left(c);
	if (!t->ended[!from] || conn_is_filtered(t->side[!from])) /* else its close is the end */
		conn_shutdown(t->side[!from]);
	(void)uv_timer_start(&t->timer, on_tunnel_silence_timer, TUNNEL_HALF_MS, TUNNEL_HALF_MS);
	tunnel_close_if_done(t);
}

static void on_tunnel_splice_moved(void *arg, size_t n)
{
	struct tunnel_splice *s = arg;
	struct tunnel *t = s->tunnel;
	unsigned from = s == &t->splices[1];

	t->moved[from] += n;
	if (t->meter)
		(void)t->meter->pass(t->meter_arg, from, n);
	if (t->ended[!from])
		(void)uv_timer_again(&t->timer);
}

static size_t on_tunnel_splice_room(void *arg)
{
	const struct tunnel_splice *s = arg;
	const struct tunnel *t = s->tunnel;

	return t->meter ? t->meter->room(t->meter_arg, s == &t->splices[1]) : SIZE_MAX;
}

static void on_tunnel_splice_end(void *arg, int r)
{
	struct tunnel_splice *s = arg;
	struct tunnel *t = s->tunnel;
	unsigned from = s == &t->splices[1];

	splice_close(s->splice);
	s->splice = NULL;
	if (r == -EAGAIN) { /* no pipe is free, and nothing is lost */
		s->allowed = false;
		conn_set_reading(t->side[from], true);
	} else if (r < 0) {
		tunnel_close(t);
	} else {
		tunnel_end_side(t, from);
	}
}

static void on_tunnel_splice_closed(void *arg)
{
	struct tunnel_splice *s = arg;

	tunnel_unref(s->tunnel);
}

/* Once nothing is queued: spliced bytes must not get ahead of queued ones. */
static void tunnel_splice_side(struct tunnel *t, unsigned from)
{
	static const struct splice_events events = { .room = on_tunnel_splice_room,
						     .moved = on_tunnel_splice_moved,
						     .end = on_tunnel_splice_end,
						     .closed = on_tunnel_splice_closed };
	struct tunnel_splice *s = &t->splices[from];
	struct conn *to = t->side[!from];

	conn_set_reading(t->side[from], false);
	if (conn_queued_bytes(to))
		return;
	if (splice_open(t->timer.loop, conn_fd(t->side[from]), conn_fd(to), &events, s,
			&s->splice) >= 0) {
		t->open++;
		return;
	}
	s->allowed = false;
	conn_set_reading(t->side[from], true);
}

/* Read on while at most so much is queued for the other side, or splice.  Between half the mark and
 * the mark a side that reads goes on, and one that waits waits. */
static void tunnel_pace_reading(struct tunnel *t, unsigned from, size_t mark)
{
	const struct tunnel_splice *s = &t->splices[from];

	if (s->splice)
		return;
	t->held[from] = t->meter && !t->meter->room(t->meter_arg, from);
	if (t->held[from]) {
		conn_set_reading(t->side[from], false);
		return;
	}
	if (s->allowed && t->moved[from] > TUNNEL_SPLICE_AFTER)
		tunnel_splice_side(t, from);
	else if (conn_queued_bytes(t->side[!from]) <= mark)
		conn_set_reading(t->side[from], true);
	else if (mark == TUNNEL_MARK)
		conn_set_reading(t->side[from], false);
}

static void tunnel_move_bytes(struct tunnel *t, unsigned from, struct slice bytes)
{
	struct conn *to = t->side[!from];
	uv_buf_t v;

	if (t->meter && bytes.n)
		bytes.n = t->meter->pass(t->meter_arg, from, bytes.n);
	v = uv_buf_init((char *)(uintptr_t)bytes.p, (unsigned)bytes.n);
	t->moved[from] += bytes.n;
	if (bytes.n && conn_write(to, &v, 1) < 0)
		tunnel_close(t);
	else
		tunnel_pace_reading(t, from, TUNNEL_MARK);
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

	if (!t->ended[!to])
		tunnel_pace_reading(t, !to, TUNNEL_MARK / 2);
	tunnel_close_if_done(t);
}

static void on_tunnel_side_end(struct conn *c, const struct cay_err *err)
{
	struct tunnel *t = conn_data(c);

	if (err)
		tunnel_close(t);
	else
		tunnel_end_side(t, c == t->side[1]);
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
	t->splices[0].tunnel = t->splices[1].tunnel = t;
	return t;
}

void tunnel_allow_splice(struct tunnel *t)
{
	t->splices[0].allowed = t->splices[1].allowed = true;
}

void tunnel_set_meter(struct tunnel *t, const struct tunnel_meter *meter, void *arg)
{
	t->meter = meter;
	t->meter_arg = arg;
}

void tunnel_go_on(struct tunnel *t)
{
	for (unsigned from = 0; from < 2 && !t->closing; from++) {
		if (t->splices[from].splice)
			splice_go_on(t->splices[from].splice);
		else if (t->held[from] && !t->ended[from])
			tunnel_pace_reading(t, from, TUNNEL_MARK / 2);
	}
}

static bool tunnel_side_is_drained(const struct tunnel *t, unsigned to)
{
	const struct splice *s = t->splices[!to].splice;
	int unacknowledged = 0;

	if (conn_queued_bytes(t->side[to]) || (s && splice_queued_bytes(s)))
		return false;
	return ioctl(conn_fd(t->side[to]), SIOCOUTQ, &unacknowledged) < 0 || !unacknowledged;
}

bool tunnel_is_drained(const struct tunnel *t)
{
	return t->closing || (tunnel_side_is_drained(t, 0) && tunnel_side_is_drained(t, 1));
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
