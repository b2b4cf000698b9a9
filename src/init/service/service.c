/* SPDX-License-Identifier: Apache-2.0 */
#include "init/service/service.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>

#include "init/exec/pipes.h"

#define QUICK_NS NS_PER_S  /* a run shorter than this is quick */
#define RETRY_FIRST_MS 500 /* after a failed start */
#define AGAIN_FIRST_MS 10  /* after the second quick exit */
#define LATER_MAX_MS 10000
#define SHIFT_MAX 16

struct service_waiter {
	struct service_waiter *next;
	struct service *service;
	struct request *rq;
};

static void service_spawn(struct service *s);
static void services_start_next(struct init *in);

static bool service_is_settled(const struct service *s)
{
	return s->state != SERVICE_STARTING && s->state != SERVICE_STOPPING;
}

void service_reply_info(const struct service *s, struct request *rq)
{
	struct service_info reply;

	service_describe(s, &reply);
	request_reply_json(rq, &service_info_table, &reply);
}

static void on_service_waiter_gone(struct request *rq)
{
	struct service_waiter *w = rq->data, **at = &w->service->waiters;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	free(w);
}

void service_reply_when_settled(struct service *s, struct request *rq, const struct cay_err *err)
{
	static const struct request_events events = { .gone = on_service_waiter_gone };
	struct service_waiter *w;

	if (err->code) {
		request_fail(rq, err);
		return;
	}
	w = service_is_settled(s) ? NULL : malloc(sizeof(*w));
	if (!w) { /* without memory the reply has the current state */
		service_reply_info(s, rq);
		return;
	}
	*w = (struct service_waiter){ s->waiters, s, rq };
	s->waiters = w;
	rq->data = w;
	rq->events = &events;
}

static void service_notify_waiters(struct service *s)
{
	while (s->waiters) {
		struct service_waiter *w = s->waiters;
		struct request *rq = w->rq;

		s->waiters = w->next;
		free(w);
		rq->events = NULL;
		service_reply_info(s, rq);
	}
}

static void service_set_state(struct service *s, enum service_state state)
{
	struct init *in = s->init;

	s->state = state;
	s->changed_ns = clk_wall_ns(in->clk);
	if (!service_is_settled(s))
		return;
	service_notify_waiters(s);
	if (in->services.awaited == s)
		services_start_next(in);
}

static void on_service_timer(uv_timer_t *t)
{
	struct service *s = t->data;

	if (s->state == SERVICE_STARTING) {
		s->retries = 0;
		service_set_state(s, SERVICE_RUNNING);
	} else if (s->state == SERVICE_BACKOFF) {
		service_spawn(s);
	} else if (s->state == SERVICE_STOPPING && s->exec) {
		exec_kill(s->exec);
	}
}

static uint64_t service_backoff_ms(uint64_t first_ms, unsigned times)
{
	uint64_t ms = first_ms << (times < SHIFT_MAX ? times : SHIFT_MAX);

	return ms < LATER_MAX_MS ? ms : LATER_MAX_MS;
}

static void service_start_timer(struct service *s, uint64_t ms)
{
	(void)uv_timer_start(&s->timer, on_service_timer, ms, 0);
}

/* It did not stay up for start_ms. */
static void service_start_failed(struct service *s, const char *why)
{
	size_t n = strnlen(why, sizeof(s->error) - 1);

	memcpy(s->error, why, n);
	s->error[n] = 0;
	s->retries++;
	if (s->retries > s->config.start_retries) {
		service_set_state(s, SERVICE_FATAL);
		return;
	}
	service_start_timer(s, service_backoff_ms(RETRY_FIRST_MS, s->retries - 1));
	service_set_state(s, SERVICE_BACKOFF);
}

static bool service_is_to_restart(const struct service *s)
{
	if (s->config.autorestart != SERVICE_UNEXPECTED)
		return s->config.autorestart == SERVICE_ALWAYS;
	return !s->end.has_exit_code ||
	       !service_config_expects_exit(&s->config, (unsigned)s->end.exit_code);
}

/* It was up, and ended by itself. */
static void service_handle_exit(struct service *s)
{
	uint64_t lived = clk_boot_ns(s->init->clk) - s->started_boot;

	s->quick_exits = lived < QUICK_NS ? s->quick_exits + 1 : 0;
	if (!service_is_to_restart(s)) {
		service_set_state(s, SERVICE_EXITED);
	} else if (s->quick_exits < 2) {
		service_spawn(s);
	} else {
		service_start_timer(s, service_backoff_ms(AGAIN_FIRST_MS, s->quick_exits - 2));
		service_set_state(s, SERVICE_BACKOFF);
	}
}

static void service_handle_stopped(struct service *s)
{
	if (s->restart_pending)
		service_spawn(s);
	else
		service_set_state(s, SERVICE_STOPPED);
}

static void on_service_exit(struct exec *exec, void *arg)
{
	struct service *s = arg;

	s->exec = NULL;
	s->has_end = true;
	exec_end_copy(exec, &s->end, s->signal_name, s->detail);
	(void)uv_timer_stop(&s->timer);
	if (s->state == SERVICE_STOPPING)
		service_handle_stopped(s);
	else if (s->state == SERVICE_STARTING)
		service_start_failed(s, "it ended before start_ms had passed");
	else
		service_handle_exit(s);
}

static void on_service_started(struct exec *, const struct cay_err *err, void *arg)
{
	struct service *s = arg;

	if (err)
		s->exec = NULL;
	if (err && s->state == SERVICE_STOPPING) {
		(void)uv_timer_stop(&s->timer);
		service_handle_stopped(s);
	} else if (err) {
		service_start_failed(s, err->msg);
	} else if (s->state == SERVICE_STARTING && s->config.start_ms) {
		service_start_timer(s, s->config.start_ms);
	} else if (s->state == SERVICE_STARTING) {
		s->retries = 0;
		service_set_state(s, SERVICE_RUNNING);
	}
}

static void service_spawn(struct service *s)
{
	struct exec_run run = { .argv = s->config.argv,
				.has_argv = true,
				.cwd = s->config.cwd,
				.user = s->config.user,
				.env = s->config.env };
	struct exec_internal own = { .output_fd = s->log_write_fd,
				     .on_started = on_service_started,
				     .on_ended = on_service_exit,
				     .arg = s };
	struct cay_err err = {};

	s->restart_pending = false;
	s->error[0] = 0;
	s->starts++;
	s->started_ns = clk_wall_ns(s->init->clk);
	s->started_boot = clk_boot_ns(s->init->clk);
	service_set_state(s, SERVICE_STARTING);
	/* the last process may have made it non-blocking */
	(void)fcntl(s->log_write_fd, F_SETFL, 0);
	if (exec_start_internal(s->init, &run, &own, &s->exec, &err) < 0) {
		s->exec = NULL;
		service_start_failed(s, err.msg);
	}
}

int service_start(struct service *s, struct cay_err *err)
{
	if (s->config.refused_why[0])
		return cay_fail(err, CAY_E_STATE, "%s", s->config.refused_why);
	if (s->state == SERVICE_STOPPING)
		s->restart_pending = true;
	if (s->exec || !service_is_settled(s))
		return 0;
	(void)uv_timer_stop(&s->timer);
	s->retries = s->quick_exits = 0;
	service_spawn(s);
	return 0;
}

void service_stop(struct service *s)
{
	s->restart_pending = false;
	if (s->state == SERVICE_STOPPING)
		return;
	(void)uv_timer_stop(&s->timer);
	if (!s->exec) {
		if (!s->config.refused_why[0])
			service_set_state(s, SERVICE_STOPPED);
		return;
	}
	service_start_timer(s, s->config.stop_ms);
	service_set_state(s, SERVICE_STOPPING);
	/* before it is executed it takes only SIGKILL */
	if (exec_signal(s->exec, s->config.stop_signal, NULL) < 0)
		exec_kill(s->exec);
}

int service_restart(struct service *s, struct cay_err *err)
{
	if (!s->exec)
		return service_start(s, err);
	service_stop(s);
	s->restart_pending = true;
	s->retries = s->quick_exits = 0;
	return 0;
}

void service_describe(const struct service *s, struct service_info *ret)
{
	const char *error = s->config.refused_why[0] ? s->config.refused_why : s->error;

	*ret = (struct service_info){
		.name = s->config.name,
		.source = s->config.source,
		.error = error[0] ? error : NULL,
		.state = s->state,
		.autorestart = s->config.autorestart,
		.autostart = s->config.autostart,
		.argv = s->config.argv,
		.has_argv = s->config.argv.n > 0,
		.priority = s->config.priority,
		.pid = s->exec ? (uint64_t)s->exec->pid : 0,
		.has_pid = s->exec && s->exec->pid > 0,
		.starts = s->starts,
		.changed_ns = s->changed_ns,
		.started_ns = s->started_ns,
		.log_start = s->log.ring.start,
		.log_bytes = output_end_offset(&s->log),
		.end = s->end,
		.has_end = s->has_end,
	};
}

static void service_release_handle(struct service *s)
{
	if (--s->handles == 0)
		free(s);
}

static void on_service_timer_closed(uv_handle_t *h)
{
	service_release_handle(h->data);
}

static void on_service_log_closed(uv_handle_t *h)
{
	struct output *o = h->data;

	service_release_handle(o->data);
}

static void on_service_log_complete(struct output *)
{
	/* service_delete() completes the log */
}

static void service_free(struct service *s)
{
	s->init->services.n--;
	service_config_fini(&s->config);
	output_close(&s->log);
	(void)close(s->log_write_fd);
	uv_close((uv_handle_t *)&s->timer, on_service_timer_closed);
}

/* Free those whose last reader has left. */
static void services_sweep_deleted(struct init *in)
{
	struct service **at = &in->services.deleted;

	while (*at) {
		struct service *s = *at;

		if (s->log.readers || s->log.pumping) {
			at = &s->next;
			continue;
		}
		*at = s->next;
		service_free(s);
	}
}

static void service_list_remove(struct service *s)
{
	struct service **at = &s->init->services.first;

	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
}

static bool service_config_is_before(const struct service_config *a, const struct service_config *b)
{
	return a->priority != b->priority ? a->priority < b->priority
					  : strcmp(a->name, b->name) < 0;
}

static void service_list_insert(struct service *s)
{
	struct service **at = &s->init->services.first;

	while (*at && !service_config_is_before(&s->config, &(*at)->config))
		at = &(*at)->next;
	s->next = *at;
	*at = s;
}

struct service *service_find(struct init *in, struct slice name)
{
	struct service *s = in->services.first;

	while (s && !slice_eq(slice_of(s->config.name), name))
		s = s->next;
	return s;
}

bool service_is_idle(const struct service *s)
{
	return !s->exec && s->state != SERVICE_BACKOFF && service_is_settled(s);
}

void service_delete(struct service *s)
{
	assert(service_is_idle(s));
	service_list_remove(s);
	s->next = s->init->services.deleted;
	s->init->services.deleted = s;
	s->log.complete = true;
	output_notify_readers(&s->log);
	services_sweep_deleted(s->init);
}

static int service_create(struct init *in, struct service **ret, struct cay_err *err)
{
	struct service *s;
	int fds[2] = { -1, -1 }, r;

	services_sweep_deleted(in);
	if (in->services.n >= SERVICES_MAX)
		return cay_fail(err, CAY_E_LIMIT, "the sandbox has %d services already",
				SERVICES_MAX);
	s = calloc(1, sizeof(*s));
	if (!s)
		return cay_no_memory(err);
	r = pipe_create(fds, 0);
	if (r >= 0)
		r = output_init(&s->log, &in->loop, fds[0], OUTPUT_DROP, &in->budget);
	if (r < 0) { /* the handle was not initialised */
		for (int i = 0; i < 2; i++)
			cay_closep(&fds[i]);
		free(s);
		return cay_fail_sys(err, CAY_E_LIMIT, -r, "create a pipe for the log");
	}
	s->init = in;
	s->log_write_fd = fds[1];
	s->log.ring.max = SERVICE_LOG_MAX;
	s->log.data = s;
	s->log.on_complete = on_service_log_complete;
	s->log.on_closed = on_service_log_closed;
	(void)uv_timer_init(&in->loop, &s->timer);
	s->timer.data = s;
	s->handles = 2;
	output_start(&s->log);
	in->services.n++;
	*ret = s;
	return 0;
}

int service_put(struct init *in, struct service_config *p, struct service **ret,
		struct cay_err *err)
{
	struct service *s = service_find(in, slice_of(p->name));
	int r;

	if (s) {
		service_list_remove(s);
		service_config_fini(&s->config);
	} else {
		r = service_create(in, &s, err);
		if (r < 0) {
			service_config_fini(p);
			return r;
		}
		assert(s);
		s->changed_ns = clk_wall_ns(in->clk);
	}
	if (service_is_idle(s))
		s->state = p->refused_why[0] ? SERVICE_FATAL : SERVICE_STOPPED;
	s->config = *p;
	*p = (struct service_config){};
	service_list_insert(s);
	*ret = s;
	return 0;
}

static void services_start_next(struct init *in)
{
	struct services *all = &in->services;
	void (*up)(void *) = all->on_all_up;

	for (struct service *s = all->awaited ? all->awaited->next : all->first; s; s = s->next) {
		if (!s->config.autostart || s->config.refused_why[0] || s->state != SERVICE_STOPPED)
			continue;
		all->awaited = s;
		(void)service_start(s, NULL);
		return; /* service_set_state() continues */
	}
	all->awaited = NULL;
	all->on_all_up = NULL;
	if (up)
		up(all->cb_arg);
}

void services_start(struct init *in, void (*up)(void *arg), void *arg)
{
	in->services.on_all_up = up;
	in->services.cb_arg = arg;
	services_start_next(in);
}
