/* SPDX-License-Identifier: Apache-2.0 */
#include "init/job.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/path.h"
#include "init/cgroup.h"
#include "init/child.h"
#include "init/memory.h"
#include "init/shell.h"
#include "init/signals.h"
#include "init/term.h"
#include "init/work.h"

static void link_last(struct job *j)
{
	struct init *in = j->init;

	j->prev = in->newest;
	if (in->newest)
		in->newest->next = j;
	else
		in->oldest = j;
	in->newest = j;
}

static void unlink_job(struct job *j)
{
	struct init *in = j->init;

	*(j->prev ? &j->prev->next : &in->oldest) = j->next;
	*(j->next ? &j->next->prev : &in->newest) = j->prev;
}

static void on_closed(uv_handle_t *h)
{
	struct job *j = h->data;

	if (--j->handles == 0)
		free(j);
}

/* Cgroups */

static void remove_cgroup(struct job *j);
static void forget(struct job *j);

/* Nobody asks for one that never was, or for one of our own: only its cgroup keeps it. */
static bool is_over(const struct job *j)
{
	return j->state == JOB_FAILED || (j->own && j->state == JOB_ENDED);
}

static void on_cgroup_event(uv_poll_t *p, int, int)
{
	struct job *j = p->data;

	remove_cgroup(j);
	if (!j->watching && is_over(j))
		forget(j);
}

/* Be told when the last process of it is gone: no timer ticks in ten thousand
 * sandboxes for a daemon in each. */
static void watch_cgroup(struct job *j)
{
	if (j->watching)
		return;
	j->events_fd = openat(j->cgroup, "cgroup.events", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (j->events_fd < 0)
		return;
	if (uv_poll_init(&j->init->loop, &j->events, j->events_fd) < 0) {
		(void)close(cay_take_fd(&j->events_fd));
		return;
	}
	j->events.data = j;
	j->handles++;
	j->watching = true;
	(void)uv_poll_start(&j->events, UV_PRIORITIZED, on_cgroup_event);
}

/* The handle in front of its fd, here and below: see output.c. */
static void unwatch_cgroup(struct job *j)
{
	if (!j->watching)
		return;
	j->watching = false;
	uv_close((uv_handle_t *)&j->events, on_closed);
	(void)close(cay_take_fd(&j->events_fd));
}

static void remove_cgroup(struct job *j)
{
	char text[64];
	int r;

	if (j->cgroup < 0)
		return;
	/* reading it is what makes the next change an event */
	if (j->watching && pread(j->events_fd, text, sizeof(text), 0) < 0)
		(void)uv_poll_stop(&j->events);
	r = cgroup_remove(j->init->cgroup, j->name);
	if (r < 0 && r != -ENOENT) {
		watch_cgroup(j);
		return;
	}
	(void)close(cay_take_fd(&j->cgroup));
	unwatch_cgroup(j);
}

/* First the program itself: it may not have entered its cgroup yet, and then it has
 * started nobody; if it has, whoever it started is in there too. */
static void kill_all(struct job *j)
{
	(void)kill(j->pid, SIGKILL);
	if (j->cgroup < 0 || cgroup_kill(j->cgroup) < 0)
		(void)kill(-j->pid, SIGKILL);
}

/* Forgetting */

/* An output's handle leads to the output. */
static void on_output_closed(uv_handle_t *h)
{
	struct output *o = h->data;
	struct job *j = o->data;

	if (--j->handles == 0)
		free(j);
}

static void close_report(struct job *j)
{
	if (j->report_fd < 0)
		return;
	uv_close((uv_handle_t *)&j->report, on_closed);
	(void)close(cay_take_fd(&j->report_fd));
}

static void job_free(struct job *j)
{
	unlink_job(j);
	/* if somebody lives on in it, it goes with the sandbox */
	if (j->cgroup >= 0 && cgroup_remove(j->init->cgroup, j->name) >= 0)
		(void)close(cay_take_fd(&j->cgroup));
	unwatch_cgroup(j);
	if (j->cgroup >= 0) {
		j->init->strays = true;
		(void)close(j->cgroup);
	}
	input_close(&j->in);
	close_report(j);
	for (size_t i = 0; i < ARRAY_SIZE(j->out); i++)
		output_close(&j->out[i]);
	uv_close((uv_handle_t *)&j->timer, on_closed);
}

/* One that never was is one of the JOBS_LIVE until here, so that they are bounded. */
static void forget(struct job *j)
{
	if (j->state == JOB_FAILED)
		j->init->live -= !j->own;
	job_free(j);
}

static bool in_use(const struct job *j)
{
	return j->out[0].readers || j->out[1].readers || j->in.writer || j->out[0].pumping ||
	       j->out[1].pumping;
}

/* Make room for one more: the oldest that nobody reads, and of those rather one
 * whose pipes are closed than one that left a writer behind. */
static bool forget_one(struct init *in)
{
	struct job *candidate = NULL;

	for (struct job *j = in->oldest; j; j = j->next) {
		if (j->own || j->state != JOB_ENDED || in_use(j))
			continue;
		if (!candidate)
			candidate = j;
		if (j->out[0].fd < 0 && j->out[1].fd < 0) {
			candidate = j;
			break;
		}
	}
	if (!candidate)
		return false;
	in->finished--;
	job_free(candidate);
	return true;
}

bool job_reclaim(struct ring_budget *b)
{
	struct init *in = (struct init *)(void *)((char *)b - offsetof(struct init, budget));

	for (struct job *j = in->oldest; j; j = j->next)
		for (size_t i = 0; i < ARRAY_SIZE(j->out); i++)
			if (j->state == JOB_ENDED && !in_use(j) && j->out[i].ring.cap &&
			    !output_unsaved(&j->out[i])) {
				ring_drop(&j->out[i].ring);
				return true;
			}
	return shell_reclaim(in);
}

/* Ending */

/* Jobs are forgotten, how the main program ended is not. */
static void note_entry(const struct job *j)
{
	struct entry *e = &j->init->entry;

	if (e->state != ENTRY_RUNNING || !id_eq(&e->exec, &j->id))
		return;
	e->state = ENTRY_ENDED;
	if (WIFSIGNALED(j->status))
		e->signal = (uint8_t)WTERMSIG(j->status);
	else
		e->exit_code = (uint8_t)WEXITSTATUS(j->status);
}

static void on_complete(struct output *o)
{
	struct job *j = o->data;

	if (j->state != JOB_DYING || !j->out[0].complete || !j->out[1].complete)
		return;
	j->state = JOB_ENDED;
	note_entry(j);
	if (j->ended)
		j->ended(j, j->arg);
	if (j->own) {
		/* else on_cgroup_event() does, when the last of it is gone */
		if (!j->watching)
			forget(j);
		return;
	}
	j->init->live--;
	j->init->finished++;
	for (size_t i = 0; i < ARRAY_SIZE(j->out); i++)
		output_notify(&j->out[i]);
	while (j->init->finished > JOBS_FINISHED && forget_one(j->init))
		;
}

static void on_report(struct job *j);

static void job_died(struct job *j, int status)
{
	if (j->state == JOB_STARTING)
		on_report(j); /* it is dead, so what it had to say is there */
	(void)uv_timer_stop(&j->timer);
	j->pid = 0;
	if (j->state == JOB_FAILED) {
		remove_cgroup(j);
		if (!j->watching)
			forget(j);
		return;
	}
	j->status = status;
	j->ended_ns = clk_wall_ns(j->init->clk);
	j->state = JOB_DYING;
	memory_verdict(j);
	input_close(&j->in);
	/* nobody asked for what our own leave behind */
	if (j->own && j->cgroup >= 0)
		(void)cgroup_kill(j->cgroup);
	remove_cgroup(j);
	for (size_t i = 0; i < ARRAY_SIZE(j->out); i++)
		output_finish(&j->out[i]);
}

void job_reap(struct init *in)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | __WALL)) > 0) {
		struct job *j = in->newest;

		while (j && j->pid != pid)
			j = j->prev;
		if (j)
			job_died(j, status);
		else
			(void)work_reaped(in, pid, status);
	}
}

static void on_timeout(uv_timer_t *t)
{
	struct job *j = t->data;

	j->timed_out = true;
	kill_all(j);
}

int job_signal(struct job *j, int sig, struct cay_err *err)
{
	if (j->state != JOB_RUNNING)
		return cay_fail(err, CAY_E_STATE, "the command ended already");
	if (sig == SIGKILL) {
		j->killed = true;
		kill_all(j);
		return 0;
	}
	/* not waited for yet, so the number is still its own */
	if (kill(-j->pid, sig) < 0)
		return cay_fail_sys(err, CAY_E_STATE, errno, "signal");
	return 0;
}

/* Starting */

static void tell_started(struct job *j, const struct cay_err *err)
{
	if (!j->started)
		return;
	j->started(j, err, j->arg);
	j->started = NULL;
}

/* The end of file says that the program was executed; anything else, that not. */
static void on_report(struct job *j)
{
	struct child_report report;
	struct cay_err err = {};
	ssize_t n = read(j->report_fd, &report, sizeof(report));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	close_report(j);
	if (n == 0) {
		j->state = JOB_RUNNING;
		tell_started(j, NULL);
		return;
	}
	j->state = JOB_FAILED;
	err.code = CAY_E_INTERNAL;
	if (n == (ssize_t)sizeof(report) && report.code > CAY_OK && report.code < CAY_NUM_CODES) {
		err.code = report.code;
		err.errnum = report.errnum;
		memcpy(err.field, report.field, sizeof(report.field) - 1);
		memcpy(err.msg, report.msg, sizeof(err.msg) - 1);
	}
	tell_started(j, &err);
}

static void on_report_ready(uv_poll_t *p, int, int)
{
	on_report(p->data);
}

static int fork_child(struct job *j, const struct exec_run *req, const struct job_own *own,
		      const struct pipes *p, struct cay_err *err)
{
	int log = own ? own->out : -EBADF;
	const struct claim *c = &j->init->claim;
	const char *shell[] = { "/bin/sh", "-c", req->shell, NULL };
	struct child_plan plan = {
		.argv = req->has_argv ? req->argv.v : shell,
		.user = req->user ? req->user
			: c->user ? c->user
				  : "0",
		.cwd = req->cwd ? req->cwd
		       : c->cwd ? c->cwd
				: "/",
		.env = { own ? own->env : NULL, &c->env, &req->env },
		.stdio = { p->in[0], log < 0 ? p->out[1] : log,
			   own && own->apart ? own->err
			   : log < 0         ? p->err[1]
					     : log },
		.pass = own ? own->pass : NULL,
		.n_pass = own ? own->n_pass : 0,
		.inside = own ? own->inside : NULL,
		.arg = own ? own->arg : NULL,
		.report = p->report[1],
		.cgroup = j->cgroup,
		.nofile = &j->init->nofile,
		.term = j->tty ? j->term : NULL,
	};
	pid_t pid = child_fork(&plan.cgroup);

	if (pid == 0)
		child_run(&plan);
	if (pid < 0)
		return cay_fail_sys(err, errno == EAGAIN ? CAY_E_LIMIT : CAY_E_NO_MEMORY, errno,
				    "no more processes");
	j->pid = j->born = pid;
	return 0;
}

static int check(const struct init *in, const struct exec_run *req, struct cay_err *err)
{
	if (req->has_argv == (req->shell != NULL))
		return cay_fail_field(err, CAY_E_INVALID, "argv", "give one of argv and shell");
	if (req->has_argv && !req->argv.v[0][0])
		return cay_fail_field(err, CAY_E_INVALID, "argv", "the program has no name");
	if (in->live >= JOBS_LIVE)
		return cay_fail(err, CAY_E_LIMIT, "%d commands run already", JOBS_LIVE);
	return term_check(req, err);
}

/* Whether no process is left of any exec before. */
static bool nobody_else(const struct init *in)
{
	const struct job *j = in->newest;

	while (j && !j->pid && j->cgroup < 0)
		j = j->prev;
	return !j && !in->strays && !in->works.n;
}

/* Every handle is made here, so that job_free() can close every one. */
static int job_prepare(struct job *j, struct pipes *p, enum exec_output mode, bool outputs,
		       struct cay_err *err)
{
	struct init *in = j->init;
	int r = j->tty ? term_make(j, p) : pipes_make(p, outputs);

	if (r < 0)
		return cay_fail_sys(err, CAY_E_LIMIT, -r, j->tty ? "a terminal" : "pipes");
	for (size_t i = 0; i < ARRAY_SIZE(j->out); i++) {
		int *fd = i ? &p->err[0] : &p->out[0];

		if (outputs && *fd >= 0)
			r = output_init(&j->out[i], &in->loop, cay_take_fd(fd), mode, &in->budget);
		if (r >= 0 && j->out[i].mode == OUTPUT_SPOOL)
			r = spool_add(in, &j->out[i]);
		j->out[i].tty = j->tty;
		j->out[i].data = j;
		j->out[i].poll.data = &j->out[i];
		j->out[i].on_complete = on_complete;
		j->out[i].on_closed = on_output_closed;
		j->handles += j->out[i].open;
		if (r < 0)
			return cay_fail_sys(err, CAY_E_LIMIT, -r, "a place for the output");
	}
	j->in.fd = cay_take_fd(&p->in[1]);
	j->report_fd = cay_take_fd(&p->report[0]);
	r = uv_poll_init(&in->loop, &j->report, j->report_fd);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "poll");
	(void)uv_timer_init(&in->loop, &j->timer);
	j->report.data = j->timer.data = j;
	j->handles += 2;
	j->made = true;
	if (in->cgroup >= 0) {
		r = cgroup_make(in->cgroup, j->name, &j->cgroup);
		if (r < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, -r, "make a cgroup");
	}
	return 0;
}

/* Give back what job_prepare() did before it failed. */
static void job_unprepare(struct job *j)
{
	if (j->made) {
		link_last(j);
		job_free(j);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(j->out); i++)
		if (j->out[i].fd >= 0)
			output_close(&j->out[i]);
	input_close(&j->in);
	if (j->report_fd >= 0)
		(void)close(j->report_fd);
	if (!j->handles)
		free(j);
}

/* At most half of what a pipe holds, unless the sandbox has so many pipes that the
 * kernel makes new ones small. */
static int put_stdin(struct job *j, const char *text, struct cay_err *err)
{
	int r = text ? path_write_all(j->in.fd, text, strlen(text)) : 0;

	if (r < 0)
		return cay_fail_sys(err, CAY_E_LIMIT, -r, "the pipe does not hold stdin");
	j->in.taken = text ? strlen(text) : 0;
	return 0;
}

static int start(struct init *in, const struct exec_run *req, const struct job_own *own,
		 const struct id *sandbox, enum exec_output mode, struct job **ret,
		 struct cay_err *err)
{
	auto_pipes p = PIPES_INIT;
	struct job *j;
	int r;

	j = calloc(1, sizeof(*j));
	if (!j)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for a command");
	j->init = in;
	j->cgroup = j->in.fd = j->report_fd = j->events_fd = -EBADF;
	j->in.loop = &in->loop;
	j->out[0].fd = j->out[1].fd = -EBADF;
	term_set(j, req);
	if (own) {
		j->own = true;
		j->started = own->started;
		j->ended = own->ended;
		j->arg = own->arg;
	}
	r = id_new(ID_EXEC, id_cell(sandbox), id_node(sandbox), &j->id);
	if (r < 0) {
		free(j);
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "random bits");
	}
	id_format(&j->id, j->name);
	j->started_ns = clk_wall_ns(in->clk);
	j->oom_kills = memory_kills(&in->memory);
	j->alone = nobody_else(in);
	r = job_prepare(j, &p, mode, !own || own->out < 0, err);
	if (r >= 0)
		r = put_stdin(j, req->stdin_text, err);
	if (r >= 0)
		r = fork_child(j, req, own, &p, err);
	if (r < 0) {
		job_unprepare(j);
		return r;
	}
	link_last(j);
	in->live += !own;
	view_wake(in);
	if (!req->stdin_open && !j->tty)
		input_close(&j->in);
	output_start(&j->out[0]);
	output_start(&j->out[1]);
	(void)uv_poll_start(&j->report, UV_READABLE | UV_DISCONNECT, on_report_ready);
	if (req->timeout_ms)
		(void)uv_timer_start(&j->timer, on_timeout, req->timeout_ms, 0);
	*ret = j;
	return 0;
}

int job_start(struct init *in, const struct exec_run *req, const struct id *sandbox,
	      enum exec_output mode, struct job **ret, struct cay_err *err)
{
	int r = check(in, req, err);

	return r < 0 ? r : start(in, req, NULL, sandbox, mode, ret, err);
}

int job_start_own(struct init *in, const struct exec_run *req, const struct job_own *own,
		  struct job **ret, struct cay_err *err)
{
	return start(in, req, own, &(struct id){}, OUTPUT_DROP, ret, err);
}

void job_kill(struct job *j)
{
	if (j->pid <= 0)
		return;
	j->killed = true;
	kill_all(j);
}

struct job *job_find(struct init *in, const struct id *id)
{
	for (struct job *j = in->newest; j; j = j->prev)
		if (id_eq(&j->id, id) && job_visible(j))
			return j;
	return NULL;
}

void job_describe(const struct job *j, struct exec *ret)
{
	*ret = (struct exec){
		.id = j->id,
		.state = j->state == JOB_ENDED ? EXEC_ENDED : EXEC_RUNNING,
		.started_ns = j->started_ns,
		.ended_ns = j->state == JOB_ENDED ? j->ended_ns : 0,
		.stdout_bytes = output_end(&j->out[0]),
		.stderr_bytes = output_end(&j->out[1]),
		.end = j->end,
		.has_end = j->state == JOB_ENDED,
		.tty = { j->cols, j->rows, j->term },
		.has_tty = j->tty,
	};
}
