/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/live-request.h"

#include "edge/edge.h"

static bool credential_is_valid(const struct edge *e, const struct credential *p, uint64_t now_ms)
{
	const struct control_state_key *k;
	const struct control_state_signer *s;

	if (now_ms >= p->until_ms)
		return false;
	switch (p->kind) {
	case CREDENTIAL_KEY:
		k = control_state_find_key(e->control_state, p->hash);
		return k && now_ms < k->until;
	case CREDENTIAL_TOKEN:
		s = control_state_find_signer(e->control_state, p->signer);
		return s && s->generation == p->signer_generation && now_ms < s->until &&
		       p->epoch >= control_state_epoch(e->control_state) &&
		       !control_state_token_is_revoked(e->control_state, &p->sandbox, p->epoch,
						       p->nonce);
	case CREDENTIAL_EXPORT:
		return control_state_has_export(e->control_state, &p->sandbox, p->hash);
	case CREDENTIAL_NONE:
	case CREDENTIAL_JWT:
	case CREDENTIAL_KINDS:
		break;
	}
	return true;
}

void live_requests_check_all(struct edge *e)
{
	uint64_t now_ms = clk_wall_ns(e->clk) / NS_PER_MS;
	struct cay_err over = {}, gone = {};

	(void)cay_fail(&over, CAY_E_UNAUTHENTICATED, "the credential has expired or was revoked");
	(void)cay_fail(&gone, CAY_E_NOT_FOUND, "the sandbox has ended");
	for (struct live_request *g = e->live_requests, *next; g; g = next) {
		bool here = !g->sandbox || !g->sandbox->gone,
		     good = credential_is_valid(e, &g->credential, now_ms);

		next = g->next;
		if (here && good) {
			g->suspect = false;
		} else if (!g->suspect) {
			g->suspect = true;
		} else {
			e->counters.now.cut += !g->was_ended;
			g->was_ended = true;
			g->end(g, good ? &gone : &over);
		}
	}
}

static void on_live_request_check_timer(uv_timer_t *t)
{
	live_requests_check_all(t->data);
}

int live_requests_start_timer(struct edge *e, struct cay_err *err)
{
	int r = uv_timer_init(&e->loop, &e->live_requests_timer);

	e->live_requests_timer.data = e;
	if (r >= 0)
		r = uv_timer_start(&e->live_requests_timer, on_live_request_check_timer,
				   LIVE_REQUEST_CHECK_MS, LIVE_REQUEST_CHECK_MS);
	return r < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, -r, "start a timer") : 0;
}

void live_request_add(struct edge *e, struct live_request *g, const struct request *rq,
		      const struct control_state_sandbox *to,
		      void (*cut)(struct live_request *g, const struct cay_err *why))
{
	const struct credential *p = rq->data;

	*g = (struct live_request){
		.next = e->live_requests, .edge = e, .credential = *p, .sandbox = to, .end = cut
	};
	if (g->next)
		g->next->prev = g;
	e->live_requests = g;
	e->n_live_requests++;
}

void live_request_remove(struct live_request *g)
{
	*(g->prev ? &g->prev->next : &g->edge->live_requests) = g->next;
	if (g->next)
		g->next->prev = g->prev;
	g->edge->n_live_requests--;
}
