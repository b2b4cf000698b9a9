/* SPDX-License-Identifier: Apache-2.0 */
/*
 * answer-tcp - questions of DNS over TCP, at port 53 of any address
 *
 * A question is two bytes of length and the message of answer.c; so is its answer.  The next is
 * read when the one before is answered.  Bounded: QUESTION_CONNS_MAX connections of a sandbox, a
 * question of DNS_PAYLOAD, and IDLE_MS without one.
 */
#include <stdlib.h>
#include <sys/socket.h>

#include "egress/dns-message.h"
#include "egress/egress.h"

#define QUESTION_CONNS_MAX 16
#define IDLE_MS 10000

struct question_conn {
	struct egress_sandbox *sandbox;
	uv_poll_t poll;
	uv_timer_t timer;
	int fd;
	unsigned open_handles;
	bool busy; /* a question waits for its answer */
	bool closing;
	size_t n;
	uint8_t in[2 + DNS_PAYLOAD];
};

static void question_conn_free_if_unused(struct question_conn *c)
{
	struct egress_sandbox *sb = c->sandbox;
	struct egress *e = sb->egress;

	if (c->open_handles || c->busy)
		return;
	cay_closep(&c->fd);
	free(c);
	sb->n_question_conns--;
	e->n_flows--;
	e->tenants[egress_sandbox_tenant_slot(sb)].n_flows--;
	egress_sandbox_release(sb);
}

static void on_question_conn_closed(uv_handle_t *h)
{
	struct question_conn *c = h->data;

	c->open_handles--;
	question_conn_free_if_unused(c);
}

static void question_conn_close(struct question_conn *c)
{
	if (c->closing)
		return;
	c->closing = true;
	uv_close((uv_handle_t *)&c->poll, on_question_conn_closed);
	uv_close((uv_handle_t *)&c->timer, on_question_conn_closed);
}

static void on_question_conn_idle(uv_timer_t *t)
{
	question_conn_close(t->data);
}

static void on_question_conn_readable(uv_poll_t *p, int status, int);

/* Answer a question that is whole, or read on. */
static void question_conn_next(struct question_conn *c)
{
	const size_t want = c->n < 2 ? SIZE_MAX : (size_t)c->in[0] << 8 | c->in[1];
	uint8_t question[DNS_PAYLOAD];

	if (c->n >= 2 && (!want || want > sizeof(question))) {
		question_conn_close(c);
		return;
	}
	if (c->n < 2 || c->n - 2 < want) {
		(void)uv_poll_start(&c->poll, UV_READABLE, on_question_conn_readable);
		return;
	}
	(void)uv_poll_stop(&c->poll);
	(void)uv_timer_start(&c->timer, on_question_conn_idle, IDLE_MS, 0);
	memcpy(question, c->in + 2, want);
	c->n -= 2 + want;
	memmove(c->in, c->in + 2 + want, c->n);
	c->busy = true;
	egress_sandbox_answer_question(c->sandbox, c, question, want);
}

static void on_question_conn_readable(uv_poll_t *p, int, int)
{
	struct question_conn *c = p->data;
	ssize_t n;

	if (c->closing || c->busy)
		return;
	n = recv(c->fd, c->in + c->n, sizeof(c->in) - c->n, MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		question_conn_close(c);
		return;
	}
	c->n += (size_t)n;
	question_conn_next(c);
}

void question_conn_answer(struct question_conn *c, const uint8_t *p, size_t n)
{
	uint8_t out[2 + DNS_ANSWER_MAX];

	c->busy = false;
	if (c->closing) {
		question_conn_free_if_unused(c);
		return;
	}
	if (!n || n > DNS_ANSWER_MAX) {
		question_conn_close(c);
		return;
	}
	out[0] = (uint8_t)(n >> 8);
	out[1] = (uint8_t)n;
	memcpy(out + 2, p, n);
	if (send(c->fd, out, 2 + n, MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)(2 + n))
		question_conn_close(c); /* a client that does not read */
	else
		question_conn_next(c);
}

void egress_sandbox_answer_connection(struct egress_sandbox *sb, int fd)
{
	struct egress *e = sb->egress;
	struct question_conn *c =
		sb->n_question_conns < QUESTION_CONNS_MAX ? calloc(1, sizeof(*c)) : NULL;

	if (!c || uv_poll_init(&e->loop, &c->poll, fd) < 0) {
		free(c);
		cay_closep(&fd);
		return;
	}
	(void)uv_timer_init(&e->loop, &c->timer);
	c->sandbox = sb;
	c->fd = fd;
	c->open_handles = 2;
	c->poll.data = c->timer.data = c;
	sb->n_question_conns++;
	e->n_flows++;
	e->tenants[egress_sandbox_tenant_slot(sb)].n_flows++;
	egress_sandbox_hold(sb);
	(void)uv_timer_start(&c->timer, on_question_conn_idle, IDLE_MS, 0);
	(void)uv_poll_start(&c->poll, UV_READABLE, on_question_conn_readable);
}
