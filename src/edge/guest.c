/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/guest.h"

#include "edge/edge.h"

static bool is_good(const struct edge *e, const struct pass *p, uint64_t now_ms)
{
	const struct table_key *k;
	const struct table_sign *s;

	if (now_ms >= p->until_ms)
		return false;
	switch (p->kind) {
	case PASS_KEY:
		k = table_key(e->table, p->hash);
		return k && now_ms < k->until;
	case PASS_TOKEN:
		s = table_sign(e->table, p->sign);
		return s && s->born == p->born && now_ms < s->until &&
		       p->epoch >= table_epoch(e->table) &&
		       !table_revoked(e->table, &p->sandbox, p->epoch, p->nonce);
	case PASS_NONE:
	case PASS_JWT:
	case PASS_KINDS:
		break;
	}
	return true;
}

static void end(struct edge *e, struct guest *g, const struct cay_err *why)
{
	e->counts.now.cut += !g->was_cut;
	g->was_cut = true;
	g->cut(g, why);
}

void guests_look(struct edge *e)
{
	uint64_t now_ms = clk_wall_ns(e->clk) / NS_PER_MS;
	struct cay_err over = {}, gone = {};

	(void)cay_fail(&over, CAY_E_UNAUTHENTICATED, "it is over with this credential");
	(void)cay_fail(&gone, CAY_E_NOT_FOUND, "the sandbox has ended");
	for (struct guest *g = e->guests, *next; g; g = next) {
		bool here = !g->to || !g->to->gone, good = is_good(e, &g->pass, now_ms);

		next = g->next;
		if (here && good)
			g->doubted = false;
		else if (!g->doubted)
			g->doubted = true;
		else
			end(e, g, good ? &gone : &over);
	}
}

static void on_look(uv_timer_t *t)
{
	guests_look(t->data);
}

int guests_open(struct edge *e, struct cay_err *err)
{
	int r = uv_timer_init(&e->loop, &e->look);

	e->look.data = e;
	if (r >= 0)
		r = uv_timer_start(&e->look, on_look, GUEST_LOOK_MS, GUEST_LOOK_MS);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "a timer") : 0;
}

void guest_enter(struct edge *e, struct guest *g, const struct request *rq,
		 const struct table_sandbox *to,
		 void (*cut)(struct guest *g, const struct cay_err *why))
{
	const struct pass *p = rq->data;

	*g = (struct guest){ .next = e->guests, .edge = e, .pass = *p, .to = to, .cut = cut };
	if (g->next)
		g->next->prev = g;
	e->guests = g;
	e->n_guests++;
}

void guest_leave(struct guest *g)
{
	*(g->prev ? &g->prev->next : &g->edge->guests) = g->next;
	if (g->next)
		g->next->prev = g->prev;
	g->edge->n_guests--;
}
