/* SPDX-License-Identifier: Apache-2.0 */
#include "init/look.h"

#include <sys/wait.h>

#include "init/facts.h"
#include "init/job.h"

#define INFO_MS 10000
#define KEPT_NS (60 * NS_PER_S)

/* Info */

struct looking {
	struct facts facts; /* first: the child gets us as these */
	struct init *init;
	struct request *rq; /* NULL: nobody waits */
	struct job *job;
};

static void done(struct looking *l, struct buf *body, const struct cay_err *err)
{
	struct request *rq = l->rq;

	free(l);
	if (!rq)
		return;
	rq->events = NULL;
	if (err)
		request_fail(rq, err);
	else
		request_reply(rq, 200, "application/json", body);
}

static void keep(struct init *in, const struct buf *body)
{
	buf_clear(&in->info);
	if (buf_add(&in->info, body->data, body->len) >= 0)
		in->info_ns = clk_boot_ns(in->clk);
}

static void on_ended(struct job *j, void *arg)
{
	struct looking *l = arg;
	const struct output *o = &j->out[0];
	auto_buf body = BUF_INIT(FACTS_MAX);
	struct cay_err err = {};
	bool late = WIFEXITED(j->status) && WEXITSTATUS(j->status) == FACTS_LATE;

	if ((j->status && !late) || output_lost(o, 0) ||
	    buf_reserve(&body, (size_t)output_end(o)) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "the sandbox could not be looked at");
	else
		body.len = output_read(o, 0, body.data, (size_t)output_end(o));
	if (!err.code && !late && l->facts.versions)
		keep(l->init, &body);
	done(l, &body, err.code ? &err : NULL);
}

static void on_started(struct job *, const struct cay_err *err, void *arg)
{
	if (err)
		done(arg, NULL, err);
}

static void on_info_gone(struct request *rq)
{
	struct looking *l = rq->data;

	l->rq = NULL;
	job_kill(l->job);
}

static bool reply_kept(struct init *in, struct request *rq)
{
	auto_buf body = BUF_INIT(FACTS_MAX);

	if (!in->info.len || clk_boot_ns(in->clk) - in->info_ns > KEPT_NS ||
	    buf_add(&body, in->info.data, in->info.len) < 0)
		return false;
	request_reply(rq, 200, "application/json", &body);
	return true;
}

void look_info(struct init *in, struct request *rq)
{
	static const struct request_events events = { .gone = on_info_gone };
	const struct info_query *q = rq->query;
	struct exec_run req = { .cwd = "/", .timeout_ms = INFO_MS };
	struct job_own own = {
		.out = -EBADF, .inside = facts_inside, .started = on_started, .ended = on_ended
	};
	struct cay_err err = {};
	struct looking *l;

	if (q->versions && reply_kept(in, rq))
		return;
	in->info.max = FACTS_MAX;
	l = calloc(1, sizeof(*l));
	if (!l) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory to look");
		return;
	}
	*l = (struct looking){ { in->claim.cwd ? in->claim.cwd : "/", q->versions }, in, rq, NULL };
	own.arg = l;
	if (job_start_own(in, &req, &own, &l->job, &err) < 0) {
		free(l);
		request_fail(rq, &err);
		return;
	}
	rq->data = l;
	rq->events = &events;
}

/* Health */

struct probe {
	struct init *init;
	struct request *rq;
	uv_tcp_t tcp;
	uv_timer_t timer;
	uv_connect_t connect;
	unsigned handles;
	bool v6, late, over;
	uint64_t port;
};

static void reply(struct init *in, struct request *rq, uint64_t port, const char *wrong)
{
	struct sandbox_health told = {
		.ok = !wrong,
		.uptime_ms = (clk_boot_ns(in->clk) - in->born_ns) / NS_PER_MS,
		.port = port,
		.has_port = port,
		.detail = wrong,
	};

	request_reply_json(rq, &sandbox_health_table, &told);
}

static void dial(struct probe *p);

static void on_closed(uv_handle_t *h)
{
	struct probe *p = h->data;

	if (--p->handles)
		return;
	free(p);
}

static void on_tcp_closed(uv_handle_t *h)
{
	struct probe *p = h->data;

	if (p->over) {
		on_closed(h);
	} else {
		p->v6 = true;
		dial(p);
	}
}

static void over(struct probe *p, const char *wrong)
{
	struct request *rq = p->rq;

	p->over = true;
	if (!uv_is_closing((uv_handle_t *)&p->tcp))
		uv_close((uv_handle_t *)&p->tcp, on_tcp_closed);
	uv_close((uv_handle_t *)&p->timer, on_closed);
	if (!rq)
		return;
	rq->events = NULL;
	reply(p->init, rq, p->port, wrong);
}

static void on_connect(uv_connect_t *c, int status)
{
	struct probe *p = c->data;

	if (p->over)
		return;
	if (status >= 0)
		over(p, NULL);
	else if (p->v6)
		over(p, "nothing answers on that port");
	else /* it may be there for IPv6 alone */
		uv_close((uv_handle_t *)&p->tcp, on_tcp_closed);
}

static void dial(struct probe *p)
{
	struct sockaddr_storage to = {};
	int r = uv_tcp_init(&p->init->loop, &p->tcp);

	p->tcp.data = p;
	if (r >= 0 && p->v6)
		r = uv_ip6_addr("::1", (int)p->port, (struct sockaddr_in6 *)&to);
	else if (r >= 0)
		r = uv_ip4_addr("127.0.0.1", (int)p->port, (struct sockaddr_in *)&to);
	if (r >= 0)
		r = uv_tcp_connect(&p->connect, &p->tcp, (const struct sockaddr *)&to, on_connect);
	if (r < 0)
		on_connect(&p->connect, r);
}

/* If it was we who stood still, the answer is there already and is seen first. */
static void on_late(uv_timer_t *t)
{
	struct probe *p = t->data;

	if (p->late) {
		over(p, "nothing answered in time");
		return;
	}
	p->late = true;
	(void)uv_timer_start(t, on_late, 1, 0);
}

static void on_probe_gone(struct request *rq)
{
	struct probe *p = rq->data;

	p->rq = NULL;
	over(p, NULL);
}

void look_health(struct init *in, struct request *rq)
{
	static const struct request_events events = { .gone = on_probe_gone };
	const struct sandbox_health_query *q = rq->query;
	struct probe *p;

	if (!q->has_port) {
		reply(in, rq, 0, NULL);
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory to look");
		return;
	}
	*p = (struct probe){ .init = in, .rq = rq, .port = q->port, .handles = 2 };
	p->connect.data = p;
	(void)uv_timer_init(&in->loop, &p->timer);
	p->timer.data = p;
	rq->data = p;
	rq->events = &events;
	(void)uv_timer_start(&p->timer, on_late, q->timeout_ms, 0);
	dial(p);
}
