/* SPDX-License-Identifier: Apache-2.0 */
#include "init/peek.h"

#include <signal.h>

#include "init/connect.h"
#include "init/job.h"
#include "init/ports.h"
#include "init/procs.h"
#include "init/signals.h"

#define BODY_MAX MIB(1)
#define TICK_MS 20        /* how often a port is looked for, at first */
#define TICK_LATER_MS 100 /* after TICKS_SOON of them */
#define TICKS_SOON 50

struct peek {
	struct init *init;
	struct request *rq; /* NULL: nobody waits */
	struct job *job;
	int (*inside)(const struct peek *p);
	void (*done)(struct peek *p, struct buf *body);
	uint64_t pid;
	int sig;
};

static void over(struct peek *p, const struct cay_err *err)
{
	struct request *rq = cay_take(p->rq);

	free(p);
	if (!rq)
		return;
	rq->events = NULL;
	request_fail(rq, err);
}

static void on_ended(struct job *j, void *arg)
{
	struct peek *p = arg;
	const struct output *o = &j->out[0];
	auto_buf body = BUF_INIT(BODY_MAX);
	struct cay_err err = {};

	if (j->timed_out)
		(void)cay_fail(&err, CAY_E_TIMEOUT, "looking took longer than %d ms", PEEK_MS);
	else if (j->status || output_lost(o, 0) || buf_reserve(&body, (size_t)output_end(o)) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "the sandbox could not be looked at");
	else
		body.len = output_read(o, 0, body.data, (size_t)output_end(o));
	if (err.code || !p->rq) {
		over(p, &err);
		return;
	}
	p->rq->events = NULL;
	p->done(p, &body);
	free(p);
}

static void on_started(struct job *, const struct cay_err *err, void *arg)
{
	if (err)
		over(arg, err);
}

static void on_gone(struct request *rq)
{
	struct peek *p = rq->data;

	p->rq = NULL;
	job_kill(p->job);
}

static int in_child(void *arg)
{
	const struct peek *p = arg;

	return p->inside(p);
}

static void start(const struct peek *plan, const char *user)
{
	static const struct request_events events = { .gone = on_gone };
	struct exec_run req = { .cwd = "/", .user = user, .timeout_ms = PEEK_MS };
	struct job_own own = {
		.out = -EBADF, .inside = in_child, .started = on_started, .ended = on_ended
	};
	struct request *rq = plan->rq;
	struct peek *p = malloc(sizeof(*p));
	struct cay_err err = {};

	if (!p) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory to look");
		return;
	}
	*p = *plan;
	own.arg = p;
	if (job_start_own(p->init, &req, &own, &p->job, &err) < 0) {
		free(p);
		request_fail(rq, &err);
		return;
	}
	rq->data = p;
	rq->events = &events;
}

static void reply_text(struct peek *p, struct buf *body)
{
	request_reply(p->rq, 200, "application/json", body);
}

/* Processes */

static int processes_inside(const struct peek *p)
{
	return procs_inside(p->init);
}

/* As root, who sees what everybody does; nobody of the sandbox's users can change what
 * such a child says. */
static void list_processes(struct init *in, struct request *rq)
{
	start(
		&(struct peek){
			.init = in, .rq = rq, .inside = processes_inside, .done = reply_text },
		"0");
}

static int below_inside(const struct peek *p)
{
	return procs_below(p->pid);
}

/* The first is who was asked for: if that is gone there is no tree of it. */
static void signal_all(struct peek *p, struct buf *body)
{
	struct process_signalled told = {};
	struct procs_one one;

	for (size_t at = 0; at + sizeof(one) <= body->len; at += sizeof(one)) {
		memcpy(&one, body->data + at, sizeof(one));
		told.signalled += procs_signal(one.pid, &one.start, p->sig) >= 0;
	}
	if (told.signalled)
		request_reply_json(p->rq, &process_signalled_table, &told);
	else
		request_refuse(p->rq, CAY_E_NOT_FOUND, "there is no such process");
}

static int signal_of(const struct process_signal *q, struct cay_err *err)
{
	int sig = signal_parse(q->signal ? slice_of(q->signal) : SLICE("TERM"));

	if (sig < 0)
		return cay_fail_field(err, CAY_E_INVALID, "signal", "there is no signal '%s'",
				      q->signal);
	return sig;
}

static void send_signal(struct init *in, struct request *rq)
{
	const struct process_signal *q = rq->body;
	struct peek plan = { .init = in, .rq = rq, .inside = below_inside, .done = signal_all };
	struct cay_err err = {};
	int r = signal_of(q, &err);

	plan.sig = r;
	if (r >= 0 && str_u64(rq->match.name, 1, INT32_MAX, &plan.pid) < 0)
		r = cay_fail(&err, CAY_E_NOT_FOUND, "there is no such process");
	else if (r >= 0 && plan.pid == 1)
		r = cay_fail(&err, CAY_E_FORBIDDEN, "PID 1 is Cay's; delete the sandbox instead");
	if (r < 0) {
		request_fail(rq, &err);
		return;
	}
	/* with 0 nothing is sent, but it is looked whether it could be */
	r = procs_signal(plan.pid, q->has_start ? &q->start : NULL, q->tree ? 0 : plan.sig);
	if (r == -ESRCH)
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such process");
	else if (r < 0)
		request_refuse(rq, CAY_E_FORBIDDEN, "the kernel does not let it be signalled");
	else if (q->tree)
		start(&plan, "0");
	else
		request_reply_json(rq, &process_signalled_table,
				   &(struct process_signalled){ .signalled = 1 });
}

/* Ports */

static int listening_inside(const struct peek *p)
{
	return ports_inside(p->init);
}

/* As the user, whose processes' files it can see. */
static void list_ports(struct init *in, struct request *rq)
{
	start(
		&(struct peek){
			.init = in, .rq = rq, .inside = listening_inside, .done = reply_text },
		NULL);
}

struct waiting {
	struct request *rq;
	uv_timer_t timer;
	uint16_t port;
	uint64_t begun, wait_ms;
	unsigned ticks;
};

static void on_wait_closed(uv_handle_t *h)
{
	free(h->data);
}

static bool tell_open(struct waiting *w)
{
	uint64_t waited = uv_now(w->timer.loop) - w->begun;
	struct port_open told = { .port = w->port,
				  .open = ports_open(w->port),
				  .waited_ms = waited };

	if (!told.open && waited < w->wait_ms)
		return false;
	w->rq->events = NULL;
	request_reply_json(w->rq, &port_open_table, &told);
	uv_close((uv_handle_t *)&w->timer, on_wait_closed);
	return true;
}

static void on_tick(uv_timer_t *t)
{
	struct waiting *w = t->data;

	if (!tell_open(w) && ++w->ticks == TICKS_SOON)
		uv_timer_set_repeat(t, TICK_LATER_MS);
}

static void on_wait_gone(struct request *rq)
{
	struct waiting *w = rq->data;

	uv_close((uv_handle_t *)&w->timer, on_wait_closed);
}

static void wait_port(struct init *in, struct request *rq)
{
	static const struct request_events events = { .gone = on_wait_gone };
	const struct port_wait_query *q = rq->query;
	struct waiting *w;
	uint64_t port;

	if (str_u64(rq->match.name, 1, UINT16_MAX, &port) < 0) {
		request_refuse(rq, CAY_E_NOT_FOUND, "ports are 1 to 65535");
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory to wait");
		return;
	}
	*w = (struct waiting){ .rq = rq, .port = (uint16_t)port, .wait_ms = q->wait_ms };
	(void)uv_timer_init(&in->loop, &w->timer);
	w->timer.data = w;
	w->begun = uv_now(&in->loop);
	if (tell_open(w))
		return;
	rq->data = w;
	rq->events = &events;
	(void)uv_timer_start(&w->timer, on_tick, TICK_MS, TICK_MS);
}

static void (*const handlers[OP_NUM])(struct init *in, struct request *rq) = {
	[OP_PROCESS_LIST] = list_processes, [OP_PROCESS_SIGNAL] = send_signal,
	[OP_PORT_LIST] = list_ports,        [OP_PORT_WAIT] = wait_port,
	[OP_PORT_CONNECT] = connect_port,
};

bool peek_api(struct init *in, struct request *rq)
{
	ptrdiff_t op = rq->match.op - ops;

	if (!handlers[op])
		return false;
	handlers[op](in, rq);
	return true;
}
