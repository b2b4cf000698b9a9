/* SPDX-License-Identifier: Apache-2.0 */
#include "init/svc.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>

#include "init/pipes.h"

#define QUICK_NS NS_PER_S  /* who lived less long than this ended quickly */
#define RETRY_FIRST_MS 500 /* after a start that failed */
#define AGAIN_FIRST_MS 10  /* after the second quick end */
#define LATER_MAX_MS 10000
#define SHIFT_MAX 16
static_assert(sizeof(((struct svc *)0)->detail) == sizeof(((struct job *)0)->detail));

struct svc_waiter {
	struct svc_waiter *next;
	struct svc *svc;
	struct request *rq;
};

static void spawn(struct svc *s);
static void start_next(struct init *in);

/* Who waits */

static bool is_settled(const struct svc *s)
{
	return s->state != SERVICE_STARTING && s->state != SERVICE_STOPPING;
}

static void reply(const struct svc *s, struct request *rq)
{
	struct service told;

	svc_describe(s, &told);
	request_reply_json(rq, &service_table, &told);
}

static void on_gone(struct request *rq)
{
	struct svc_waiter *w = rq->data, **at = &w->svc->waiters;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	free(w);
}

void svc_answer(struct svc *s, struct request *rq)
{
	static const struct request_events events = { .gone = on_gone };
	struct svc_waiter *w;

	w = is_settled(s) ? NULL : malloc(sizeof(*w));
	if (!w) { /* without memory it is told of as it is */
		reply(s, rq);
		return;
	}
	*w = (struct svc_waiter){ s->waiters, s, rq };
	s->waiters = w;
	rq->data = w;
	rq->events = &events;
}

static void tell(struct svc *s)
{
	while (s->waiters) {
		struct svc_waiter *w = s->waiters;
		struct request *rq = w->rq;

		s->waiters = w->next;
		free(w);
		rq->events = NULL;
		reply(s, rq);
	}
}

/* States */

static void become(struct svc *s, enum service_state state)
{
	struct init *in = s->init;

	s->state = state;
	s->changed_ns = clk_wall_ns(in->clk);
	if (!is_settled(s))
		return;
	tell(s);
	if (in->svcs.awaited == s)
		start_next(in);
}

static void on_timer(uv_timer_t *t)
{
	struct svc *s = t->data;

	if (s->state == SERVICE_STARTING) {
		s->retries = 0;
		become(s, SERVICE_RUNNING);
	} else if (s->state == SERVICE_BACKOFF) {
		spawn(s);
	} else if (s->state == SERVICE_STOPPING && s->job) {
		job_kill(s->job);
	}
}

static uint64_t later(uint64_t first_ms, unsigned times)
{
	uint64_t ms = first_ms << (times < SHIFT_MAX ? times : SHIFT_MAX);

	return ms < LATER_MAX_MS ? ms : LATER_MAX_MS;
}

static void wait_for(struct svc *s, uint64_t ms)
{
	(void)uv_timer_start(&s->timer, on_timer, ms, 0);
}

/* It did not stay up. */
static void back_off(struct svc *s, const char *why)
{
	size_t n = strnlen(why, sizeof(s->error) - 1);

	memcpy(s->error, why, n);
	s->error[n] = 0;
	s->retries++;
	if (s->retries > s->p.start_retries) {
		become(s, SERVICE_FATAL);
		return;
	}
	wait_for(s, later(RETRY_FIRST_MS, s->retries - 1));
	become(s, SERVICE_BACKOFF);
}

static bool comes_back(const struct svc *s)
{
	if (s->p.autorestart != SERVICE_UNEXPECTED)
		return s->p.autorestart == SERVICE_ALWAYS;
	return !s->end.has_exit_code || !program_expects(&s->p, (unsigned)s->end.exit_code);
}

/* It was up, and ended by itself. */
static void exited(struct svc *s)
{
	uint64_t lived = clk_boot_ns(s->init->clk) - s->started_boot;

	s->quick = lived < QUICK_NS ? s->quick + 1 : 0;
	if (!comes_back(s)) {
		become(s, SERVICE_EXITED);
	} else if (s->quick < 2) {
		spawn(s);
	} else {
		wait_for(s, later(AGAIN_FIRST_MS, s->quick - 2));
		become(s, SERVICE_BACKOFF);
	}
}

static void stopped(struct svc *s)
{
	if (s->again)
		spawn(s);
	else
		become(s, SERVICE_STOPPED);
}

static void on_ended(struct job *j, void *arg)
{
	struct svc *s = arg;

	s->job = NULL;
	s->end = j->end;
	s->has_end = true;
	memcpy(s->signal_name, j->signal_name, sizeof(s->signal_name));
	memcpy(s->detail, j->detail, sizeof(s->detail));
	if (s->end.signal)
		s->end.signal = s->signal_name;
	if (s->end.detail)
		s->end.detail = s->detail;
	(void)uv_timer_stop(&s->timer);
	if (s->state == SERVICE_STOPPING)
		stopped(s);
	else if (s->state == SERVICE_STARTING)
		back_off(s, "it ended before it counted as started");
	else
		exited(s);
}

static void on_started(struct job *, const struct cay_err *err, void *arg)
{
	struct svc *s = arg;

	if (err)
		s->job = NULL;
	if (err && s->state == SERVICE_STOPPING) {
		(void)uv_timer_stop(&s->timer);
		stopped(s);
	} else if (err) {
		back_off(s, err->msg);
	} else if (s->state == SERVICE_STARTING && s->p.start_ms) {
		wait_for(s, s->p.start_ms);
	} else if (s->state == SERVICE_STARTING) {
		s->retries = 0;
		become(s, SERVICE_RUNNING);
	}
}

static void spawn(struct svc *s)
{
	struct exec_run run = { .argv = s->p.argv,
				.has_argv = true,
				.cwd = s->p.cwd,
				.user = s->p.user,
				.env = s->p.env };
	struct job_own own = {
		.out = s->log_in, .started = on_started, .ended = on_ended, .arg = s
	};
	struct cay_err err = {};

	s->again = false;
	s->error[0] = 0;
	s->starts++;
	s->started_ns = clk_wall_ns(s->init->clk);
	s->started_boot = clk_boot_ns(s->init->clk);
	become(s, SERVICE_STARTING);
	/* the one before may have made it one that does not wait */
	(void)fcntl(s->log_in, F_SETFL, 0);
	if (job_start_own(s->init, &run, &own, &s->job, &err) < 0) {
		s->job = NULL;
		back_off(s, err.msg);
	}
}

/* What is asked of it */

int svc_start(struct svc *s, struct cay_err *err)
{
	if (s->p.refused[0])
		return cay_fail(err, CAY_E_STATE, "%s", s->p.refused);
	if (s->state == SERVICE_STOPPING)
		s->again = true;
	if (s->job || !is_settled(s))
		return 0;
	(void)uv_timer_stop(&s->timer);
	s->retries = s->quick = 0;
	spawn(s);
	return 0;
}

void svc_stop(struct svc *s)
{
	s->again = false;
	if (s->state == SERVICE_STOPPING)
		return;
	(void)uv_timer_stop(&s->timer);
	if (!s->job) {
		if (!s->p.refused[0])
			become(s, SERVICE_STOPPED);
		return;
	}
	wait_for(s, s->p.stop_ms);
	become(s, SERVICE_STOPPING);
	/* one that was not executed yet takes no signal but the last */
	if (job_signal(s->job, s->p.stop_signal, NULL) < 0)
		job_kill(s->job);
}

int svc_restart(struct svc *s, struct cay_err *err)
{
	if (!s->job)
		return svc_start(s, err);
	svc_stop(s);
	s->again = true;
	s->retries = s->quick = 0;
	return 0;
}

void svc_describe(const struct svc *s, struct service *ret)
{
	const char *error = s->p.refused[0] ? s->p.refused : s->error;

	*ret = (struct service){
		.name = s->p.name,
		.source = s->p.source,
		.error = error[0] ? error : NULL,
		.state = s->state,
		.autorestart = s->p.autorestart,
		.autostart = s->p.autostart,
		.argv = s->p.argv,
		.has_argv = s->p.argv.n > 0,
		.priority = s->p.priority,
		.pid = s->job ? (uint64_t)s->job->pid : 0,
		.has_pid = s->job && s->job->pid > 0,
		.starts = s->starts,
		.changed_ns = s->changed_ns,
		.started_ns = s->started_ns,
		.log_start = s->log.ring.start,
		.log_bytes = output_end(&s->log),
		.end = s->end,
		.has_end = s->has_end,
	};
}

/* The table */

static void on_closed(struct svc *s)
{
	if (--s->handles == 0)
		free(s);
}

static void on_timer_closed(uv_handle_t *h)
{
	on_closed(h->data);
}

static void on_log_closed(uv_handle_t *h)
{
	struct output *o = h->data;

	on_closed(o->data);
}

static void on_log_complete(struct output *)
{
	/* a log is complete when its service is forgotten: forget() */
}

static void svc_free(struct svc *s)
{
	s->init->svcs.n--;
	program_fini(&s->p);
	output_close(&s->log);
	(void)close(s->log_in);
	uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}

/* Those whose last reader has left. */
static void sweep(struct init *in)
{
	struct svc **at = &in->svcs.gone;

	while (*at) {
		struct svc *s = *at;

		if (s->log.readers || s->log.pumping) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		svc_free(s);
	}
}

static void unlink_svc(struct svc *s)
{
	struct svc **at = &s->init->svcs.first;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
}

static bool goes_before(const struct program *a, const struct program *b)
{
	return a->priority != b->priority ? a->priority < b->priority
					  : strcmp(a->name, b->name) < 0;
}

static void link_svc(struct svc *s)
{
	struct svc **at = &s->init->svcs.first;

	while (*at && !goes_before(&s->p, &(*at)->p))
		at = &(*at)->next;
	s->next = *at;
	*at = s;
}

struct svc *svc_find(struct init *in, struct slice name)
{
	struct svc *s = in->svcs.first;

	while (s && !slice_eq(slice_of(s->p.name), name))
		s = s->next;
	return s;
}

bool svc_idle(const struct svc *s)
{
	return !s->job && s->state != SERVICE_BACKOFF && is_settled(s);
}

void svc_delete(struct svc *s)
{
	assert(svc_idle(s));
	unlink_svc(s);
	s->next = s->init->svcs.gone;
	s->init->svcs.gone = s;
	s->log.complete = true;
	output_notify(&s->log);
	sweep(s->init);
}

static int svc_make(struct init *in, struct svc **ret, struct cay_err *err)
{
	struct svc *s;
	int fds[2] = { -1, -1 }, r;

	sweep(in);
	if (in->svcs.n >= SERVICES_MAX)
		return cay_fail(err, CAY_E_LIMIT, "there are %d services already", SERVICES_MAX);
	s = calloc(1, sizeof(*s));
	if (!s)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for a service");
	r = pipe_make(fds, 0);
	if (r >= 0)
		r = output_init(&s->log, &in->loop, fds[0], OUTPUT_DROP, &in->budget);
	if (r < 0) { /* the handle, if it was tried, was not made */
		for (int i = 0; i < 2; i++)
			cay_closep(&fds[i]);
		free(s);
		return cay_fail_sys(err, CAY_E_LIMIT, -r, "a pipe for the log");
	}
	s->init = in;
	s->log_in = fds[1];
	s->log.ring.max = SVC_LOG_MAX;
	s->log.data = s;
	s->log.on_complete = on_log_complete;
	s->log.on_closed = on_log_closed;
	(void)uv_timer_init(&in->loop, &s->timer);
	s->timer.data = s;
	s->handles = 2;
	output_start(&s->log);
	in->svcs.n++;
	*ret = s;
	return 0;
}

int svc_put(struct init *in, struct program *p, struct svc **ret, struct cay_err *err)
{
	struct svc *s = svc_find(in, slice_of(p->name));
	int r;

	if (s) {
		unlink_svc(s);
		program_fini(&s->p);
	} else {
		r = svc_make(in, &s, err);
		if (r < 0) {
			program_fini(p);
			return r;
		}
		assert(s);
		s->changed_ns = clk_wall_ns(in->clk);
	}
	if (svc_idle(s))
		s->state = p->refused[0] ? SERVICE_FATAL : SERVICE_STOPPED;
	s->p = *p;
	*p = (struct program){};
	link_svc(s);
	*ret = s;
	return 0;
}

/* In order */

static void start_next(struct init *in)
{
	struct svcs *all = &in->svcs;
	void (*up)(void *) = all->up;

	for (struct svc *s = all->awaited ? all->awaited->next : all->first; s; s = s->next) {
		if (!s->p.autostart || s->p.refused[0] || s->state != SERVICE_STOPPED)
			continue;
		all->awaited = s;
		(void)svc_start(s, NULL);
		return; /* become() goes on */
	}
	all->awaited = NULL;
	all->up = NULL;
	if (up)
		up(all->arg);
}

void svcs_start(struct init *in, void (*up)(void *arg), void *arg)
{
	in->svcs.up = up;
	in->svcs.arg = arg;
	start_next(in);
}
