/* SPDX-License-Identifier: Apache-2.0 */
#include "net/request-turns.h"

#include <malloc.h>

#include "net/server-internal.h"

#define TRIM_MS 10000
#define TRIM_ABOVE MIB(4)

struct request_turns {
	struct tenant_shares *shares;
	uv_idle_t idle;      /* runs while requests wait */
	uv_timer_t refusals; /* runs while there are refusals */
	uv_timer_t trim;
	uint64_t round_ms; /* loop time of the round that spent_ns is of */
	uint64_t spent_ns;
};

static struct server_conn *server_conn_of_turn(struct tenant_turn *t)
{
	return (struct server_conn *)(void *)((char *)t - offsetof(struct server_conn, turn));
}

/* After a flood the allocator keeps what it freed; the node needs it for sandboxes. */
static void on_request_turns_trim(uv_timer_t *)
{
	if (mallinfo2().fordblks > TRIM_ABOVE)
		(void)malloc_trim(0);
}

int request_turns_start(uv_loop_t *loop, struct request_turns **ret, struct cay_err *err)
{
	struct request_turns *t = calloc(1, sizeof(*t));

	if (t)
		t->shares = tenant_shares_new();
	if (!t || !t->shares) {
		free(t);
		return cay_no_memory(err);
	}
	(void)uv_idle_init(loop, &t->idle);
	(void)uv_timer_init(loop, &t->refusals);
	(void)uv_timer_init(loop, &t->trim);
	(void)uv_timer_start(&t->trim, on_request_turns_trim, TRIM_MS, TRIM_MS);
	uv_unref((uv_handle_t *)&t->trim);
	t->idle.data = t->refusals.data = t;
	*ret = t;
	return 0;
}

void server_conn_leave_share(struct server_conn *c)
{
	if (!c->share)
		return;
	tenant_share_forget(c->share, &c->turn);
	tenant_share_count_unread(c->share, &c->unread_counted, 0);
	tenant_share_leave(c->share);
	c->share = NULL;
	c->held_by_handler = 0;
}

void server_conn_count_unread(struct server_conn *c)
{
	if (!c->share || c->closing)
		return;
	tenant_share_count_unread(c->share, &c->unread_counted,
				  request_queued_bytes(&c->rq) + c->held_by_handler);
	if (c->unread_counted && tenant_shares_are_full(c->share))
		server_conn_close(c);
}

bool request_count_held(struct request *rq, size_t n)
{
	struct server_conn *c = server_conn_of_request(rq);

	if (!c->share)
		return true;
	c->held_by_handler = n;
	tenant_share_count_unread(c->share, &c->unread_counted, request_queued_bytes(rq) + n);
	return !tenant_share_is_full(c->share, 0);
}

bool server_conn_can_buffer(const struct server_conn *c, size_t n)
{
	return !c->share || n <= UNREAD_SMALL || !tenant_share_is_full(c->share, n);
}

static int request_check_unread(const struct server_conn *c, struct cay_err *err)
{
	if (!tenant_share_is_full(c->share, 0))
		return 0;
	return cay_fail(err, CAY_E_RATE,
			"the tenant has %zu KiB of replies that its clients have not read",
			c->share->unread / KIB(1));
}

int request_charge_tenant(struct request *rq, const struct id *tenant, unsigned most,
			  struct cay_err *err)
{
	struct server_conn *c = server_conn_of_request(rq);

	if (!c->conf->turns || c->share)
		return 0;
	c->share = tenant_share_enter(c->conf->turns->shares, tenant);
	if (!c->share)
		return cay_no_memory(err);
	if (most && c->share->requests > most)
		return cay_fail(err, CAY_E_RATE,
				"too many requests of this tenant are in progress");
	return request_check_unread(c, err);
}

/* Serve it, and charge its tenant what it took. */
static void request_serve_charged(struct server_conn *c)
{
	struct request_turns *t = c->conf->turns;
	struct tenant_share *s = c->share;
	uint64_t begun = uv_hrtime(), took;

	s->requests++; /* the connection may leave it meanwhile */
	server_conn_call_handler(c);
	took = uv_hrtime() - begun;
	tenant_share_charge(s, took);
	tenant_share_leave(s);
	t->spent_ns += took;
}

static void request_refuse_late(struct server_conn *c, const struct cay_err *err)
{
	(void)request_add_reply_header(&c->rq, "Retry-After", "1");
	request_fail(&c->rq, err);
}

static void request_serve_turn(struct tenant_turn *turn)
{
	struct server_conn *c = server_conn_of_turn(turn);
	struct cay_err err = {};

	if (c->closing)
		return;
	if (uv_hrtime() - turn->since_ns > TURNS_WAIT_NS)
		(void)cay_fail(&err, CAY_E_OVERLOADED, "requests of this tenant wait for too long");
	if (err.code || request_check_unread(c, &err) < 0)
		request_refuse_late(c, &err);
	else
		request_serve_charged(c);
}

static void on_request_turns_round(uv_idle_t *h)
{
	struct request_turns *t = h->data;

	t->round_ms = uv_now(h->loop);
	t->spent_ns = 0;
	while (t->spent_ns < TURNS_SLICE_NS) {
		struct tenant_turn *turn = tenant_shares_next(t->shares);

		if (!turn) {
			(void)uv_idle_stop(h);
			return;
		}
		t->spent_ns += TURN_LEAST_NS;
		request_serve_turn(turn);
	}
}

void server_conn_take_turn(struct server_conn *c)
{
	struct request_turns *t = c->conf->turns;

	if (!t || !c->share) {
		server_conn_call_handler(c);
		return;
	}
	if (uv_now(t->idle.loop) != t->round_ms) {
		t->round_ms = uv_now(t->idle.loop);
		t->spent_ns = 0;
	}
	if (c->raw || (t->spent_ns < TURNS_SLICE_NS && !tenant_shares_wait(t->shares))) {
		request_serve_charged(c);
		return;
	}
	tenant_share_wait(c->share, &c->turn, uv_hrtime());
	(void)uv_idle_start(&t->idle, on_request_turns_round);
}

void request_take_turn_again(struct request *rq)
{
	rq->events = NULL;
	rq->data = NULL;
	server_conn_take_turn(server_conn_of_request(rq));
}

static void request_send_refusal(struct server_conn *c, const struct cay_err *err, uint64_t begun)
{
	server_conn_reply_error(c, err, 0);
	if (err->code == CAY_E_OVERLOADED)
		c->server->refusing_ns += uv_hrtime() - begun;
}

static void on_request_refusal_due(struct tenant_turn *turn)
{
	struct server_conn *c = server_conn_of_turn(turn);
	struct cay_err err;

	if (c->closing)
		return;
	err = *c->refusal; /* the reply frees the request's arena */
	c->paused = false;
	c->refusal = NULL;
	request_send_refusal(c, &err, uv_hrtime());
	if (!c->closing)
		server_conn_continue(c);
}

static void on_request_refusals_tick(uv_timer_t *h)
{
	struct request_turns *t = h->data;

	if (!tenant_shares_tick(t->shares, on_request_refusal_due))
		(void)uv_timer_stop(h);
}

void server_conn_refuse(struct server_conn *c, const struct cay_err *err)
{
	struct request_turns *t = c->conf->turns;
	const struct id *tenant = &c->rq.actor.tenant;

	if (t && !c->share && tenant->noun != ID_NONE)
		c->share = tenant_share_enter(t->shares, tenant);
	if (!c->share || !cay_error_row(err->code)->retryable) {
		request_send_refusal(c, err, c->rq.begun_ns);
		return;
	}
	if (!uv_is_active((uv_handle_t *)&t->refusals))
		(void)uv_timer_start(&t->refusals, on_request_refusals_tick, TURNS_TICK_MS,
				     TURNS_TICK_MS);
	c->refusal = arena_alloc(&c->rq.arena, 1, sizeof(*c->refusal));
	if (!c->refusal || tenant_share_try_refuse(c->share, &c->turn)) {
		request_send_refusal(c, err, c->rq.begun_ns);
		return;
	}
	*c->refusal = *err;
	/* nothing more of it is read or decoded until then */
	c->paused = true;
}
