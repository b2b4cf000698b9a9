/* SPDX-License-Identifier: Apache-2.0 */
/* sandbox.info and sandbox.health */
#include "init/core/handlers.h"
#include "init/proc/info-child.h"
#include "init/proc/proc-query.h"

#define KEPT_NS (60 * NS_PER_S)

/* Info */

/* Kept for KEPT_NS, unless a slow tool did not report its version. */
static void sandbox_info_reply(struct proc_query *q, struct buf *body, bool incomplete)
{
	const struct info_query *query = q->rq->query;
	struct init *in = q->init;

	if (query->versions && !incomplete) {
		buf_clear(&in->info_cache);
		if (buf_append(&in->info_cache, body->data, body->len) >= 0)
			in->info_cached_ns = clk_boot_ns(in->clk);
	}
	proc_query_reply_json(q, body, incomplete);
}

static bool sandbox_info_reply_cached(struct init *in, struct request *rq)
{
	auto_buf body = BUF_INIT(INFO_JSON_MAX);

	if (!in->info_cache.len || clk_boot_ns(in->clk) - in->info_cached_ns > KEPT_NS ||
	    buf_append(&body, in->info_cache.data, in->info_cache.len) < 0)
		return false;
	request_reply(rq, 200, "application/json", &body);
	return true;
}

void op_sandbox_info(struct request *rq, void *arg)
{
	const struct info_query *query = rq->query;
	struct init *in = arg;

	if (query->versions && sandbox_info_reply_cached(in, rq))
		return;
	in->info_cache.max = INFO_JSON_MAX;
	proc_query_start(&(struct proc_query){ .init = in,
					       .rq = rq,
					       .child_main = child_sandbox_info,
					       .on_done = sandbox_info_reply });
}

/* Health */

struct health_probe {
	struct init *init;
	struct request *rq;
	uv_tcp_t tcp;
	uv_timer_t timer;
	uv_connect_t connect;
	unsigned handles;
	bool v6, timed_out, finished;
	uint64_t port;
};

static void sandbox_health_reply(struct init *in, struct request *rq, uint64_t port,
				 const char *problem)
{
	struct sandbox_health reply = {
		.ok = !problem,
		.uptime_ms = (clk_boot_ns(in->clk) - in->born_ns) / NS_PER_MS,
		.port = port,
		.has_port = port,
		.detail = problem,
	};

	request_reply_json(rq, &sandbox_health_table, &reply);
}

static void health_probe_connect(struct health_probe *p);

static void on_health_probe_closed(uv_handle_t *h)
{
	struct health_probe *p = h->data;

	if (--p->handles)
		return;
	free(p);
}

static void on_health_probe_tcp_closed(uv_handle_t *h)
{
	struct health_probe *p = h->data;

	if (p->finished) {
		on_health_probe_closed(h);
	} else {
		p->v6 = true;
		health_probe_connect(p);
	}
}

static void health_probe_finish(struct health_probe *p, const char *problem)
{
	struct request *rq = p->rq;

	p->finished = true;
	if (!uv_is_closing((uv_handle_t *)&p->tcp))
		uv_close((uv_handle_t *)&p->tcp, on_health_probe_tcp_closed);
	uv_close((uv_handle_t *)&p->timer, on_health_probe_closed);
	if (!rq)
		return;
	rq->events = NULL;
	sandbox_health_reply(p->init, rq, p->port, problem);
}

static void on_health_probe_connect(uv_connect_t *c, int status)
{
	struct health_probe *p = c->data;

	if (p->finished)
		return;
	if (status >= 0)
		health_probe_finish(p, NULL);
	else if (p->v6)
		health_probe_finish(p, "nothing listens on that port");
	else /* it may listen on IPv6 only */
		uv_close((uv_handle_t *)&p->tcp, on_health_probe_tcp_closed);
}

static void health_probe_connect(struct health_probe *p)
{
	struct sockaddr_storage to = {};
	int r = uv_tcp_init(&p->init->loop, &p->tcp);

	p->tcp.data = p;
	if (r >= 0 && p->v6)
		r = uv_ip6_addr("::1", (int)p->port, (struct sockaddr_in6 *)&to);
	else if (r >= 0)
		r = uv_ip4_addr("127.0.0.1", (int)p->port, (struct sockaddr_in *)&to);
	if (r >= 0)
		r = uv_tcp_connect(&p->connect, &p->tcp, (const struct sockaddr *)&to,
				   on_health_probe_connect);
	if (r < 0)
		on_health_probe_connect(&p->connect, r);
}

/* If the loop itself was late, the connection's result is already there and handled first. */
static void on_health_probe_timeout(uv_timer_t *t)
{
	struct health_probe *p = t->data;

	if (p->timed_out) {
		health_probe_finish(p, "no answer in time");
		return;
	}
	p->timed_out = true;
	(void)uv_timer_start(t, on_health_probe_timeout, 1, 0);
}

static void on_health_probe_client_gone(struct request *rq)
{
	struct health_probe *p = rq->data;

	p->rq = NULL;
	health_probe_finish(p, NULL);
}

void op_sandbox_health(struct request *rq, void *arg)
{
	struct init *in = arg;
	static const struct request_events events = { .gone = on_health_probe_client_gone };
	const struct sandbox_health_query *q = rq->query;
	struct health_probe *p;

	if (!q->has_port) {
		sandbox_health_reply(in, rq, 0, NULL);
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory for the check");
		return;
	}
	*p = (struct health_probe){ .init = in, .rq = rq, .port = q->port, .handles = 2 };
	p->connect.data = p;
	(void)uv_timer_init(&in->loop, &p->timer);
	p->timer.data = p;
	rq->data = p;
	rq->events = &events;
	(void)uv_timer_start(&p->timer, on_health_probe_timeout, q->timeout_ms, 0);
	health_probe_connect(p);
}
