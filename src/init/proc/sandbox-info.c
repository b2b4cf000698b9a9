/* SPDX-License-Identifier: Apache-2.0 */
#include "init/proc/sandbox-info.h"

#include <sys/wait.h>

#include "init/exec/exec.h"
#include "init/proc/info-child.h"

#define INFO_MS 10000
#define KEPT_NS (60 * NS_PER_S)

/* Info */

struct sandbox_info_call {
	struct info_request request; /* first: the child gets us as these */
	struct init *init;
	struct request *rq; /* NULL: nobody waits */
	struct exec *exec;
};

static void sandbox_info_finish(struct sandbox_info_call *l, struct buf *body,
				const struct cay_err *err)
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

static void sandbox_info_cache(struct init *in, const struct buf *body)
{
	buf_clear(&in->info_cache);
	if (buf_append(&in->info_cache, body->data, body->len) >= 0)
		in->info_cached_ns = clk_boot_ns(in->clk);
}

static void on_sandbox_info_exit(struct exec *exec, void *arg)
{
	struct sandbox_info_call *l = arg;
	const struct output *o = &exec->out[0];
	auto_buf body = BUF_INIT(INFO_JSON_MAX);
	struct cay_err err = {};
	bool late = WIFEXITED(exec->status) && WEXITSTATUS(exec->status) == INFO_EXIT_INCOMPLETE;

	if ((exec->status && !late) || output_lost_bytes(o, 0) ||
	    buf_reserve(&body, (size_t)output_end_offset(o)) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "the sandbox could not be looked at");
	else
		body.len = output_read(o, 0, body.data, (size_t)output_end_offset(o));
	if (!err.code && !late && l->request.versions)
		sandbox_info_cache(l->init, &body);
	sandbox_info_finish(l, &body, err.code ? &err : NULL);
}

static void on_sandbox_info_started(struct exec *, const struct cay_err *err, void *arg)
{
	if (err)
		sandbox_info_finish(arg, NULL, err);
}

static void on_sandbox_info_client_gone(struct request *rq)
{
	struct sandbox_info_call *l = rq->data;

	l->rq = NULL;
	exec_kill(l->exec);
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

void op_sandbox_info(struct init *in, struct request *rq)
{
	static const struct request_events events = { .gone = on_sandbox_info_client_gone };
	const struct info_query *q = rq->query;
	struct exec_run req = { .cwd = "/", .timeout_ms = INFO_MS };
	struct exec_internal own = { .output_fd = -EBADF,
				     .child_main = child_sandbox_info,
				     .on_started = on_sandbox_info_started,
				     .on_ended = on_sandbox_info_exit };
	struct cay_err err = {};
	struct sandbox_info_call *l;

	if (q->versions && sandbox_info_reply_cached(in, rq))
		return;
	in->info_cache.max = INFO_JSON_MAX;
	l = calloc(1, sizeof(*l));
	if (!l) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory to look");
		return;
	}
	*l = (struct sandbox_info_call){
		{ in->claim.cwd ? in->claim.cwd : "/", q->versions }, in, rq, NULL
	};
	own.arg = l;
	if (exec_start_internal(in, &req, &own, &l->exec, &err) < 0) {
		free(l);
		request_fail(rq, &err);
		return;
	}
	rq->data = l;
	rq->events = &events;
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
				 const char *wrong)
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

static void health_probe_finish(struct health_probe *p, const char *wrong)
{
	struct request *rq = p->rq;

	p->finished = true;
	if (!uv_is_closing((uv_handle_t *)&p->tcp))
		uv_close((uv_handle_t *)&p->tcp, on_health_probe_tcp_closed);
	uv_close((uv_handle_t *)&p->timer, on_health_probe_closed);
	if (!rq)
		return;
	rq->events = NULL;
	sandbox_health_reply(p->init, rq, p->port, wrong);
}

static void on_health_probe_connect(uv_connect_t *c, int status)
{
	struct health_probe *p = c->data;

	if (p->finished)
		return;
	if (status >= 0)
		health_probe_finish(p, NULL);
	else if (p->v6)
		health_probe_finish(p, "nothing answers on that port");
	else /* it may be there for IPv6 alone */
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

/* If it was we who stood still, the answer is there already and is seen first. */
static void on_health_probe_timeout(uv_timer_t *t)
{
	struct health_probe *p = t->data;

	if (p->timed_out) {
		health_probe_finish(p, "nothing answered in time");
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

void op_sandbox_health(struct init *in, struct request *rq)
{
	static const struct request_events events = { .gone = on_health_probe_client_gone };
	const struct sandbox_health_query *q = rq->query;
	struct health_probe *p;

	if (!q->has_port) {
		sandbox_health_reply(in, rq, 0, NULL);
		return;
	}
	p = calloc(1, sizeof(*p));
	if (!p) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory to look");
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
