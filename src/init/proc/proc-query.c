/* SPDX-License-Identifier: Apache-2.0 */
#include "init/proc/proc-query.h"

#include <signal.h>

#include "init/core/signals.h"
#include "init/exec/exec.h"
#include "init/proc/port-connect.h"
#include "init/proc/ports.h"
#include "init/proc/processes.h"

#define BODY_MAX MIB(1)
#define TICK_MS 20        /* how often a port is looked for, at first */
#define TICK_LATER_MS 100 /* after TICKS_SOON of them */
#define TICKS_SOON 50

struct proc_query {
	struct init *init;
	struct request *rq; /* NULL: nobody waits */
	struct exec *exec;
	int (*child_main)(const struct proc_query *p);
	void (*on_done)(struct proc_query *p, struct buf *body);
	uint64_t pid;
	int sig;
};

static void proc_query_fail(struct proc_query *p, const struct cay_err *err)
{
	struct request *rq = cay_take(p->rq);

	free(p);
	if (!rq)
		return;
	rq->events = NULL;
	request_fail(rq, err);
}

static void on_proc_query_exit(struct exec *exec, void *arg)
{
	struct proc_query *p = arg;
	const struct output *o = &exec->out[0];
	auto_buf body = BUF_INIT(BODY_MAX);
	struct cay_err err = {};

	if (exec->timed_out)
		(void)cay_fail(&err, CAY_E_TIMEOUT, "looking took longer than %d ms",
			       PROC_QUERY_MS);
	else if (exec->status || output_lost_bytes(o, 0) ||
		 buf_reserve(&body, (size_t)output_end_offset(o)) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "the sandbox could not be looked at");
	else
		body.len = output_read(o, 0, body.data, (size_t)output_end_offset(o));
	if (err.code || !p->rq) {
		proc_query_fail(p, &err);
		return;
	}
	p->rq->events = NULL;
	p->on_done(p, &body);
	free(p);
}

static void on_proc_query_started(struct exec *, const struct cay_err *err, void *arg)
{
	if (err)
		proc_query_fail(arg, err);
}

static void on_proc_query_client_gone(struct request *rq)
{
	struct proc_query *p = rq->data;

	p->rq = NULL;
	exec_kill(p->exec);
}

static int child_proc_query(void *arg)
{
	const struct proc_query *p = arg;

	return p->child_main(p);
}

static void proc_query_start(const struct proc_query *plan, const char *user)
{
	static const struct request_events events = { .gone = on_proc_query_client_gone };
	struct exec_run req = { .cwd = "/", .user = user, .timeout_ms = PROC_QUERY_MS };
	struct exec_internal own = { .output_fd = -EBADF,
				     .child_main = child_proc_query,
				     .on_started = on_proc_query_started,
				     .on_ended = on_proc_query_exit };
	struct request *rq = plan->rq;
	struct proc_query *p = malloc(sizeof(*p));
	struct cay_err err = {};

	if (!p) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory to look");
		return;
	}
	*p = *plan;
	own.arg = p;
	if (exec_start_internal(p->init, &req, &own, &p->exec, &err) < 0) {
		free(p);
		request_fail(rq, &err);
		return;
	}
	rq->data = p;
	rq->events = &events;
}

static void proc_query_reply_json(struct proc_query *p, struct buf *body)
{
	request_reply(p->rq, 200, "application/json", body);
}

/* Processes */

static int proc_query_list_processes(const struct proc_query *p)
{
	return child_process_list(p->init);
}

/* As root, who sees what everybody does; nobody of the sandbox's users can change what
 * such a child says. */
static void op_process_list(struct init *in, struct request *rq)
{
	proc_query_start(&(struct proc_query){ .init = in,
					       .rq = rq,
					       .child_main = proc_query_list_processes,
					       .on_done = proc_query_reply_json },
			 "0");
}

static int proc_query_list_descendants(const struct proc_query *p)
{
	return child_process_descendants(p->pid);
}

/* The first is who was asked for: if that is gone there is no tree of it. */
static void proc_query_signal_tree(struct proc_query *p, struct buf *body)
{
	struct process_signalled told = {};
	struct process_ref one;

	for (size_t at = 0; at + sizeof(one) <= body->len; at += sizeof(one)) {
		memcpy(&one, body->data + at, sizeof(one));
		told.signalled += process_send_signal(one.pid, &one.start, p->sig) >= 0;
	}
	if (told.signalled)
		request_reply_json(p->rq, &process_signalled_table, &told);
	else
		request_refuse(p->rq, CAY_E_NOT_FOUND, "there is no such process");
}

static int process_signal_parse(const struct process_signal *q, struct cay_err *err)
{
	int sig = signal_parse(q->signal ? slice_of(q->signal) : SLICE("TERM"));

	if (sig < 0)
		return cay_fail_field(err, CAY_E_INVALID, "signal", "there is no signal '%s'",
				      q->signal);
	return sig;
}

static void op_process_signal(struct init *in, struct request *rq)
{
	const struct process_signal *q = rq->body;
	struct proc_query plan = { .init = in,
				   .rq = rq,
				   .child_main = proc_query_list_descendants,
				   .on_done = proc_query_signal_tree };
	struct cay_err err = {};
	int r = process_signal_parse(q, &err);

	plan.sig = r;
	if (r >= 0 && str_parse_u64(rq->match.name, 1, INT32_MAX, &plan.pid) < 0)
		r = cay_fail(&err, CAY_E_NOT_FOUND, "there is no such process");
	else if (r >= 0 && plan.pid == 1)
		r = cay_fail(&err, CAY_E_FORBIDDEN, "PID 1 is Cay's; delete the sandbox instead");
	if (r < 0) {
		request_fail(rq, &err);
		return;
	}
	/* with 0 nothing is sent, but it is looked whether it could be */
	r = process_send_signal(plan.pid, q->has_start ? &q->start : NULL, q->tree ? 0 : plan.sig);
	if (r == -ESRCH)
		request_refuse(rq, CAY_E_NOT_FOUND, "there is no such process");
	else if (r < 0)
		request_refuse(rq, CAY_E_FORBIDDEN, "the kernel does not let it be signalled");
	else if (q->tree)
		proc_query_start(&plan, "0");
	else
		request_reply_json(rq, &process_signalled_table,
				   &(struct process_signalled){ .signalled = 1 });
}

/* Ports */

static int proc_query_list_ports(const struct proc_query *p)
{
	return child_port_list(p->init);
}

/* As the user, whose processes' files it can see. */
static void op_port_list(struct init *in, struct request *rq)
{
	proc_query_start(&(struct proc_query){ .init = in,
					       .rq = rq,
					       .child_main = proc_query_list_ports,
					       .on_done = proc_query_reply_json },
			 NULL);
}

struct port_wait {
	struct request *rq;
	uv_timer_t timer;
	uint16_t port;
	uint64_t begun, wait_ms;
	unsigned ticks;
};

static void on_port_wait_closed(uv_handle_t *h)
{
	free(h->data);
}

static bool port_wait_reply_if_done(struct port_wait *w)
{
	uint64_t waited = uv_now(w->timer.loop) - w->begun;
	struct port_open told = { .port = w->port,
				  .open = port_is_open(w->port),
				  .waited_ms = waited };

	if (!told.open && waited < w->wait_ms)
		return false;
	w->rq->events = NULL;
	request_reply_json(w->rq, &port_open_table, &told);
	uv_close((uv_handle_t *)&w->timer, on_port_wait_closed);
	return true;
}

static void on_port_wait_tick(uv_timer_t *t)
{
	struct port_wait *w = t->data;

	if (!port_wait_reply_if_done(w) && ++w->ticks == TICKS_SOON)
		uv_timer_set_repeat(t, TICK_LATER_MS);
}

static void on_port_wait_client_gone(struct request *rq)
{
	struct port_wait *w = rq->data;

	uv_close((uv_handle_t *)&w->timer, on_port_wait_closed);
}

static void op_port_wait(struct init *in, struct request *rq)
{
	static const struct request_events events = { .gone = on_port_wait_client_gone };
	const struct port_wait_query *q = rq->query;
	struct port_wait *w;
	uint64_t port;

	if (str_parse_u64(rq->match.name, 1, UINT16_MAX, &port) < 0) {
		request_refuse(rq, CAY_E_NOT_FOUND, "ports are 1 to 65535");
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		request_refuse(rq, CAY_E_NO_MEMORY, "no memory to wait");
		return;
	}
	*w = (struct port_wait){ .rq = rq, .port = (uint16_t)port, .wait_ms = q->wait_ms };
	(void)uv_timer_init(&in->loop, &w->timer);
	w->timer.data = w;
	w->begun = uv_now(&in->loop);
	if (port_wait_reply_if_done(w))
		return;
	rq->data = w;
	rq->events = &events;
	(void)uv_timer_start(&w->timer, on_port_wait_tick, TICK_MS, TICK_MS);
}

static void (*const proc_op_handlers[OP_NUM])(struct init *in, struct request *rq) = {
	[OP_PROCESS_LIST] = op_process_list, [OP_PROCESS_SIGNAL] = op_process_signal,
	[OP_PORT_LIST] = op_port_list,       [OP_PORT_WAIT] = op_port_wait,
	[OP_PORT_CONNECT] = op_port_connect,
};

bool proc_handle_operation(struct init *in, struct request *rq)
{
	ptrdiff_t op = rq->match.op - ops;

	if (!proc_op_handlers[op])
		return false;
	proc_op_handlers[op](in, rq);
	return true;
}
