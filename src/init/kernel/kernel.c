/* SPDX-License-Identifier: Apache-2.0 */
#include "init/kernel/kernel.h"

#include <signal.h>

#define READ_PIECE KIB(64)
#define ANSWERS_MAX 64    /* that wait to be read */
#define INTERRUPT_MS 2000 /* for the code to end after an interrupt, */
#define TERMINATE_MS 3000 /* and after its processes were told to */
#define ENDING_MS 5000    /* for a process that is ending to be gone */
#define LEFT_MAX 64       /* processes of a stopped run, which its interpreter may not wait for */

static void kernel_write_requests(struct kernel *k);

static void on_kernel_requests_writable(uv_poll_t *p, int, int)
{
	const struct kernel_channel *c = p->data;

	(void)uv_poll_stop(p);
	kernel_write_requests(c->kernel);
}

/* A channel has ended: the process is ending, and its end says why; or it has closed its end. */
static void kernel_handle_closed(struct kernel *k)
{
	struct exec *exec = k->session.exec;

	if (!exec)
		return;
	if (!exec->awaits_process && (exec->pid <= 0 || proc_is_ending(exec->pid)))
		exec_kill_later(exec, ENDING_MS); /* a thread of it may live on */
	else
		session_kill(&k->session, "its runner closed the channel to PID 1");
}

static void kernel_write_requests(struct kernel *k)
{
	size_t left = k->requests.len - k->requests_written;
	ssize_t n = write(k->to_runner->fd, k->requests.data + k->requests_written, left);

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		kernel_close_channel(&k->to_runner);
		kernel_handle_closed(k);
		return;
	}
	k->requests_written += n > 0 ? (size_t)n : 0;
	if (k->requests_written < k->requests.len) {
		(void)uv_poll_start(&k->to_runner->poll, UV_WRITABLE, on_kernel_requests_writable);
		return;
	}
	/* a long one is freed: a kernel may wait for its next run for hours */
	k->requests_written = k->n_answers = 0;
	if (k->requests.cap > KIB(4)) {
		size_t max = k->requests.max;

		buf_fini(&k->requests);
		k->requests = BUF_INIT(max);
	} else {
		buf_clear(&k->requests);
	}
}

void kernel_send(struct kernel *k, char type, struct slice payload)
{
	bool waiting = k->requests.len;

	if (!k->to_runner)
		return;
	if (kernel_frame_append(&k->requests, type, payload) < 0)
		session_kill(&k->session, "no memory for a message to its runner");
	else if (!waiting)
		kernel_write_requests(k);
}

void kernel_start_run(struct session *session)
{
	struct kernel *k = kernel_of(session);

	kernel_send(k, 'X', slice_of(session->current_run->text));
}

static void code_run_drop_events(struct code_run *r)
{
	struct output_event *e = r->run.range.events;

	while (e) {
		struct output_event *next = e->next;

		r->dropped += ((struct kernel_event *)e)->type == KERNEL_EVENT_RESULT;
		kernel_event_free((struct kernel_event *)e);
		e = next;
	}
	r->run.range.events = NULL;
	r->last_event = &r->run.range.events;
	r->run.session->list->result_bytes -= r->event_bytes;
	r->event_bytes = 0;
}

void kernel_free_run(struct run *r)
{
	code_run_drop_events(code_run_of(r));
}

/* Drop the results of ended runs, so that n bytes more can be kept. */
static bool kernel_make_room(struct sessions *list, const struct init *in, size_t n)
{
	for (struct session *s = list->first; s; s = s->next)
		for (struct run *r = s->first_run; r; r = r->next) {
			if (list->result_bytes + n <= in->budget.max)
				return true;
			if (r->state == RUN_ENDED && !r->range.users && !r->rq)
				code_run_drop_events(code_run_of(r));
		}
	return list->result_bytes + n <= in->budget.max;
}

/* Its channel holds something that no runner of ours sends. */
static void kernel_break(struct kernel *k, const char *why)
{
	session_kill(&k->session, why);
	kernel_close_channel(&k->from_runner);
}

static void kernel_keep_event(struct kernel *k, struct code_run *r, struct kernel_event *e)
{
	struct sessions *list = k->session.list;

	if (!kernel_make_room(list, k->session.init, e->size)) {
		r->dropped += e->type == KERNEL_EVENT_RESULT;
		kernel_event_free(e);
		return;
	}
	session_output_written(&k->session, e->base.at);
	if (e->type == KERNEL_EVENT_COUNT) /* the runner goes on at once after it */
		memcpy(e->base.at, r->run.output_start, sizeof(e->base.at));
	r->event_bytes += e->size;
	list->result_bytes += e->size;
	*r->last_event = &e->base;
	r->last_event = &e->base.next;
	output_notify_readers(&k->session.out[0]);
}

/* A runner drops an interrupt that comes before it has begun. */
static void kernel_interrupt(struct kernel *k)
{
	if (k->language->interrupt_by_frame)
		kernel_send(k, 'I', (struct slice){});
	else
		(void)kill(k->session.exec->pid, SIGINT);
	(void)kill(k->session.exec->pid, SIGCONT);
}

static void kernel_run_begun(struct kernel *k, struct code_run *r)
{
	r->begun = true;
	if (k->session.stop_step == 1 && k->session.exec && k->session.exec->pid > 0)
		kernel_interrupt(k);
}

static void kernel_handle_event(struct kernel *k, const struct kernel_frame *f)
{
	struct run *current = k->session.settling ? NULL : k->session.current_run;
	struct kernel_event *e;
	struct code_run *r;
	int code;

	if (!current)
		return; /* it came too late for its run */
	r = code_run_of(current);
	r->frame_bytes += f->payload.n;
	if (++r->n_events > EVENTS_MAX || r->frame_bytes > RESULTS_MAX) {
		kernel_break(k, "its runner sent more results than it may");
		return;
	}
	code = kernel_event_new(f, &e);
	if (code == -ENOMEM || code == -EINVAL)
		r->dropped++;
	else if (code < 0)
		kernel_break(k, "its runner sent something that is no event");
	if (code < 0)
		return;
	if (e->type == KERNEL_EVENT_COUNT)
		kernel_run_begun(k, r);
	if (e->type == KERNEL_EVENT_COUNT && !e->execution_count)
		kernel_event_free(e); /* a silent run has begun */
	else
		kernel_keep_event(k, r, e);
}

static void kernel_handle_ready(struct kernel *k, const struct kernel_frame *f)
{
	struct kernel_report report;

	if (k->session.state != SESSION_STARTING || kernel_report_read(f, &report) < 0) {
		kernel_break(k, "its runner said twice that it is ready");
		return;
	}
	memcpy(k->version, report.version, sizeof(k->version));
	memcpy(k->implementation, report.implementation, sizeof(k->implementation));
	session_ready(&k->session);
}

static void kernel_handle_done(struct kernel *k, const struct kernel_frame *f)
{
	struct session *s = &k->session;
	struct kernel_report report;

	if (!s->current_run || s->settling || kernel_report_read(f, &report) < 0) {
		kernel_break(k, "its runner ended a run that was not there");
		return;
	}
	if (s->stop_step && session_kill_rest_of_run(s) > LEFT_MAX) {
		session_kill(s, "a run that was stopped left more than 64 processes");
		return;
	}
	if (report.cwd[0] == '/') {
		free(s->cwd);
		s->cwd = strdup(report.cwd);
	}
	session_run_judge(s->current_run, report.is_error);
	session_settle_run(s);
}

/* A runner reads each before its next event. */
static void kernel_send_answer(struct kernel *k)
{
	if (++k->n_answers > ANSWERS_MAX)
		kernel_break(k, "its runner does not read answers");
	else
		kernel_send(k, 'A', (struct slice){});
}

static void kernel_handle_frame(struct kernel *k, const struct kernel_frame *f)
{
	switch (f->type) {
	case 'H':
		kernel_handle_ready(k, f);
		break;
	case 'D':
		kernel_handle_done(k, f);
		break;
	case 'C':
		kernel_handle_event(k, f);
		break;
	default:
		kernel_handle_event(k, f);
		kernel_send_answer(k);
		break;
	}
	buf_fini(&k->reader.payload); /* it may be large, and the next may come in hours */
	k->reader.payload = (struct buf){};
}

void on_kernel_events_readable(uv_poll_t *p, int, int)
{
	const struct kernel_channel *c = p->data;
	struct kernel *k = c->kernel;
	uint8_t bytes[READ_PIECE];
	ssize_t n = read(c->fd, bytes, sizeof(bytes)), taken = 0;
	struct kernel_frame f;

	if (n < 0)
		return;
	if (n == 0) {
		kernel_close_channel(&k->from_runner);
		kernel_handle_closed(k);
		return;
	}
	while (taken < n && k->from_runner == c) {
		ssize_t some =
			kernel_frame_read(&k->reader, bytes + taken, (size_t)(n - taken), &f);

		if (some < 0) {
			kernel_break(k, "its runner sent something that is no frame");
			return;
		}
		taken += some;
		if (f.type)
			kernel_handle_frame(k, &f);
	}
}

static void on_kernel_stop_step(uv_timer_t *t)
{
	kernel_stop_run(t->data);
}

/* First an interrupt, which keeps the variables; then an end of the processes that the run started;
 * then an end of the kernel. */
void kernel_stop_run(struct session *s)
{
	struct kernel *k = kernel_of(s);

	if (!s->current_run || !s->exec || s->exec->pid <= 0 || s->settling)
		return;
	if (s->stop_step >= 2) {
		session_kill(s, "a run did not end when it was stopped");
		return;
	}
	if (s->stop_step || code_run_of(s->current_run)->begun)
		kernel_interrupt(k);
	session_signal_run(s, s->stop_step ? SIGTERM : SIGINT);
	(void)uv_timer_start(&s->timer, on_kernel_stop_step,
			     s->stop_step++ ? TERMINATE_MS : INTERRUPT_MS, 0);
}
