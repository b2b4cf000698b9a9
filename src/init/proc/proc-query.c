/* SPDX-License-Identifier: Apache-2.0 */
#include "init/proc/proc-query.h"

#include <sys/wait.h>

#include "base/path.h"
#include "init/core/handlers.h"
#include "init/core/signals.h"
#include "init/exec/exec.h"
#include "init/proc/ports.h"
#include "init/proc/processes.h"

#define TICK_MS 20        /* between checks of a port, at first */
#define TICK_LATER_MS 100 /* after TICKS_SOON checks */
#define TICKS_SOON 50

static void proc_query_fail(struct proc_query *q, const struct cay_err *err)
{
	struct request *rq = q->rq;

	free(q);
	if (!rq)
		return;
	rq->events = NULL;
	request_fail(rq, err);
}

static void on_proc_query_exit(struct exec *exec, void *arg)
{
	struct proc_query *q = arg;
	const struct output *o = &exec->out[0];
	auto_buf body = BUF_INIT(PROC_QUERY_MAX);
	struct cay_err err = {};
	bool incomplete =
		WIFEXITED(exec->status) && WEXITSTATUS(exec->status) == PROC_QUERY_INCOMPLETE;

	if (exec->timed_out)
		(void)cay_fail(&err, CAY_E_TIMEOUT, "the query took longer than %d ms",
			       PROC_QUERY_MS);
	else if ((exec->status && !incomplete) || output_lost_bytes(o, 0) ||
		 buf_reserve(&body, (size_t)output_end_offset(o)) < 0)
		(void)cay_fail(&err, CAY_E_INTERNAL, "the query failed inside the sandbox");
	else
		body.len = output_read(o, 0, body.data, (size_t)output_end_offset(o));
	if (err.code || !q->rq) {
		proc_query_fail(q, &err);
		return;
	}
	q->rq->events = NULL;
	q->on_done(q, &body, incomplete);
	free(q);
}

static void on_proc_query_started(struct exec *, const struct cay_err *err, void *arg)
{
	if (err)
		proc_query_fail(arg, err);
}

static void on_proc_query_client_gone(struct request *rq)
{
	struct proc_query *q = rq->data;

	q->rq = NULL;
	exec_kill(q->exec);
}

void proc_query_start(const struct proc_query *query)
{
	static const struct request_events events = { .gone = on_proc_query_client_gone };
	struct exec_run req = { .cwd = "/", .user = query->user, .timeout_ms = PROC_QUERY_MS };
	struct exec_internal own = { .output_fd = -EBADF,
				     .child_main = query->child_main,
				     .on_started = on_proc_query_started,
				     .on_ended = on_proc_query_exit };
	struct request *rq = query->rq;
	struct proc_query *q = malloc(sizeof(*q));
	struct cay_err err = {};

	if (!q) {
		request_no_memory(rq);
		return;
	}
	*q = *query;
	own.arg = q;
	if (exec_start_internal(q->init, &req, &own, &q->exec, &err) < 0) {
		free(q);
		request_fail(rq, &err);
		return;
	}
	rq->data = q;
	rq->events = &events;
}

int proc_query_write_json(const struct field_table *t, const void *value, size_t max)
{
	auto_buf out = BUF_INIT(max);
	struct jw w = jw_to(&out);

	field_encode(t, NULL, value, &w);
	return jw_finish(&w) < 0 || fd_write_all(STDOUT_FILENO, out.data, out.len) < 0;
}

void proc_query_reply_json(struct proc_query *q, struct buf *body, bool)
{
	request_reply(q->rq, 200, "application/json", body);
}

/* As root, which sees the processes of every user; no user of the sandbox can change what such
 * a child writes. */
void op_process_list(struct request *rq, void *arg)
{
	proc_query_start(&(struct proc_query){ .init = arg,
					       .rq = rq,
					       .user = "0",
					       .child_main = child_process_list,
					       .on_done = proc_query_reply_json });
}

/* The first is the requested process: if it is gone there is no tree. */
static void proc_query_signal_tree(struct proc_query *q, struct buf *body, bool)
{
	struct process_signalled reply = {};
	struct process_ref one;

	for (size_t at = 0; at + sizeof(one) <= body->len; at += sizeof(one)) {
		memcpy(&one, body->data + at, sizeof(one));
		reply.signalled += process_send_signal(one.pid, &one.start, q->sig) >= 0;
	}
	if (reply.signalled)
		request_reply_json(q->rq, &process_signalled_table, &reply);
	else
		request_refuse(q->rq, CAY_E_NOT_FOUND, "no such process");
}

static int process_signal_parse(const struct process_signal *q, struct cay_err *err)
{
	int sig = signal_parse(q->signal ? slice_of(q->signal) : SLICE("TERM"));

	return sig >= 0 ? sig
			: cay_fail_field(err, CAY_E_INVALID, "signal", "unknown signal '%s'",
					 q->signal);
}

void op_process_signal(struct request *rq, void *arg)
{
	const struct process_signal *q = rq->body;
	struct proc_query plan = { .init = arg,
				   .rq = rq,
				   .user = "0",
				   .child_main = child_process_descendants,
				   .on_done = proc_query_signal_tree };
	struct cay_err err = {};
	int r = process_signal_parse(q, &err);

	plan.sig = r;
	if (r >= 0 && str_parse_u64(rq->match.name, 1, INT32_MAX, &plan.pid) < 0)
		r = cay_fail(&err, CAY_E_NOT_FOUND, "no such process");
	else if (r >= 0 && plan.pid == 1)
		r = cay_fail(&err, CAY_E_FORBIDDEN,
			     "PID 1 is reserved; delete the sandbox instead");
	if (err.code == CAY_E_FORBIDDEN)
		cay_err_hint(&err, "delete the sandbox to end its PID 1");
	if (r < 0) {
		request_fail(rq, &err);
		return;
	}
	/* signal 0 only checks that the process can be signalled */
	r = process_send_signal(plan.pid, q->has_start ? &q->start : NULL, q->tree ? 0 : plan.sig);
	if (r == -ESRCH)
		request_refuse(rq, CAY_E_NOT_FOUND, "no such process");
	else if (r < 0)
		request_refuse_hinted(rq, CAY_E_FORBIDDEN,
				      "the kernel does not permit signalling this process",
				      "the sandbox's user may signal its own processes only");
	else if (q->tree)
		proc_query_start(&plan);
	else
		request_reply_json(rq, &process_signalled_table,
				   &(struct process_signalled){ .signalled = 1 });
}

/* As the sandbox's user, whose processes' open files it may read. */
void op_port_list(struct request *rq, void *arg)
{
	proc_query_start(&(struct proc_query){ .init = arg,
					       .rq = rq,
					       .child_main = child_port_list,
					       .on_done = proc_query_reply_json });
}

struct port_wait {
	struct request *rq;
	uv_timer_t timer;
	uint16_t port;
	uint64_t begun, wait_ms;
	unsigned ticks;
};

static bool port_wait_reply_if_done(struct port_wait *w)
{
	uint64_t waited = uv_now(w->timer.loop) - w->begun;
	struct port_open reply = { .port = w->port,
				   .open = port_is_open(w->port),
				   .waited_ms = waited };

	if (!reply.open && waited < w->wait_ms)
		return false;
	w->rq->events = NULL;
	request_reply_json(w->rq, &port_open_table, &reply);
	uv_close((uv_handle_t *)&w->timer, on_handle_closed_free);
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

	uv_close((uv_handle_t *)&w->timer, on_handle_closed_free);
}

void op_port_wait(struct request *rq, void *arg)
{
	struct init *in = arg;
	static const struct request_events events = { .gone = on_port_wait_client_gone };
	const struct port_wait_query *q = rq->query;
	struct port_wait *w;
	uint64_t port;

	if (str_parse_u64(rq->match.name, 1, UINT16_MAX, &port) < 0) {
		request_refuse(rq, CAY_E_NOT_FOUND, "a port is a number from 1 to 65535");
		return;
	}
	w = calloc(1, sizeof(*w));
	if (!w) {
		request_no_memory(rq);
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
