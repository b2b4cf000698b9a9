/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/exec.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/path.h"
#include "init/core/init-cgroup.h"
#include "init/core/trust.h"
#include "init/exec/exec-child.h"
#include "init/exec/meminfo.h"
#include "init/exec/pty.h"
#include "init/exec/script-args.h"
#include "init/exec/spool.h"

static void exec_list_append(struct exec *exec)
{
	struct init *in = exec->init;

	exec->prev = in->newest_exec;
	*(in->newest_exec ? &in->newest_exec->next : &in->oldest_exec) = exec;
	in->newest_exec = exec;
}

static void exec_list_remove(struct exec *exec)
{
	struct init *in = exec->init;

	*(exec->prev ? &exec->prev->next : &in->oldest_exec) = exec->next;
	*(exec->next ? &exec->next->prev : &in->newest_exec) = exec->prev;
}

static void on_exec_handle_closed(uv_handle_t *h)
{
	struct exec *exec = h->data;

	if (--exec->handles == 0)
		free(exec);
}

static void exec_cgroup_remove(struct exec *exec);
static void exec_forget(struct exec *exec);

/* No client sees a failed or internal exec, so only its cgroup keeps it. */
static void on_exec_cgroup_event(uv_poll_t *p, int, int)
{
	struct exec *exec = p->data;

	exec_cgroup_remove(exec);
	if (!exec->watching_cgroup && (exec->state == EXEC_PHASE_FAILED ||
				       (exec->internal && exec->state == EXEC_PHASE_ENDED)))
		exec_forget(exec);
}

/* Watch for the end of the last process.  A timer would tick in thousands of sandboxes. */
static void exec_cgroup_watch(struct exec *exec)
{
	if (exec->watching_cgroup)
		return;
	exec->cgroup_events_fd =
		openat(exec->cgroup, "cgroup.events", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (exec->cgroup_events_fd < 0)
		return;
	if (uv_poll_init(&exec->init->loop, &exec->cgroup_events, exec->cgroup_events_fd) < 0) {
		(void)close(cay_take_fd(&exec->cgroup_events_fd));
		return;
	}
	exec->cgroup_events.data = exec;
	exec->handles++;
	exec->watching_cgroup = true;
	(void)uv_poll_start(&exec->cgroup_events, UV_PRIORITIZED, on_exec_cgroup_event);
}

/* The handle before its fd, here and below: see output.c. */
static void exec_cgroup_unwatch(struct exec *exec)
{
	if (!exec->watching_cgroup)
		return;
	exec->watching_cgroup = false;
	uv_close((uv_handle_t *)&exec->cgroup_events, on_exec_handle_closed);
	(void)close(cay_take_fd(&exec->cgroup_events_fd));
}

static void exec_cgroup_remove(struct exec *exec)
{
	char text[64];
	int r;

	if (exec->cgroup < 0)
		return;
	/* the next change is an event only after a read */
	if (exec->watching_cgroup && pread(exec->cgroup_events_fd, text, sizeof(text), 0) < 0)
		(void)uv_poll_stop(&exec->cgroup_events);
	r = init_cgroup_remove(exec->init->cgroup, exec->name);
	if (r < 0 && r != -ENOENT) {
		exec_cgroup_watch(exec);
		return;
	}
	(void)close(cay_take_fd(&exec->cgroup));
	exec_cgroup_unwatch(exec);
}

/* First the program itself: if it has not entered its cgroup yet it has no children; if it
 * has, they are in the cgroup as well. */
static void exec_kill_processes(struct exec *exec)
{
	(void)kill(exec->pid, SIGKILL);
	if (exec->cgroup < 0 || init_cgroup_kill(exec->cgroup) < 0)
		(void)kill(-exec->pid, SIGKILL);
}

/* The handle's data is the output. */
static void on_exec_output_closed(uv_handle_t *h)
{
	struct output *o = h->data;
	struct exec *exec = o->data;

	if (--exec->handles == 0)
		free(exec);
}

static void exec_report_close(struct exec *exec)
{
	if (exec->report_fd < 0)
		return;
	uv_close((uv_handle_t *)&exec->report, on_exec_handle_closed);
	(void)close(cay_take_fd(&exec->report_fd));
}

static void exec_free(struct exec *exec)
{
	exec_list_remove(exec);
	/* a cgroup that still has processes is removed with the sandbox */
	if (exec->cgroup >= 0 && init_cgroup_remove(exec->init->cgroup, exec->name) >= 0)
		(void)close(cay_take_fd(&exec->cgroup));
	exec_cgroup_unwatch(exec);
	if (exec->cgroup >= 0) {
		exec->init->has_strays = true;
		(void)close(exec->cgroup);
	}
	input_close(&exec->in);
	exec_report_close(exec);
	for (size_t i = 0; i < ARRAY_SIZE(exec->out); i++)
		output_close(&exec->out[i]);
	uv_close((uv_handle_t *)&exec->timer, on_exec_handle_closed);
}

/* A failed exec counts as live until here, so that their number is bounded. */
static void exec_forget(struct exec *exec)
{
	if (exec->state == EXEC_PHASE_FAILED)
		exec->init->n_live_execs -= !exec->internal;
	exec_free(exec);
}

static bool exec_is_in_use(const struct exec *exec)
{
	return exec->out[0].readers || exec->out[1].readers || exec->in.writer ||
	       exec->out[0].pumping || exec->out[1].pumping;
}

/* Make room for one more: the oldest that no client reads, preferably one whose pipes are
 * closed. */
static bool exec_forget_oldest(struct init *in)
{
	struct exec *candidate = NULL;

	for (struct exec *exec = in->oldest_exec; exec; exec = exec->next) {
		if (exec->internal || exec->state != EXEC_PHASE_ENDED || exec_is_in_use(exec))
			continue;
		if (!candidate)
			candidate = exec;
		if (exec->out[0].fd < 0 && exec->out[1].fd < 0) {
			candidate = exec;
			break;
		}
	}
	if (!candidate)
		return false;
	in->n_finished_execs--;
	exec_free(candidate);
	return true;
}

bool exec_reclaim_output(struct init *in)
{
	for (struct exec *exec = in->oldest_exec; exec; exec = exec->next)
		for (size_t i = 0; i < ARRAY_SIZE(exec->out); i++)
			if (exec->state == EXEC_PHASE_ENDED && !exec_is_in_use(exec) &&
			    exec->out[i].ring.cap && !output_has_unspooled(&exec->out[i])) {
				ring_free_data(&exec->out[i].ring);
				return true;
			}
	return false;
}

void exec_free_rings(const struct init *in)
{
	for (struct exec *exec = in->oldest_exec; exec; exec = exec->next)
		for (size_t i = 0; i < ARRAY_SIZE(exec->out); i++)
			ring_free_data(&exec->out[i].ring);
}

/* An exec is freed some time after its end; the status of the entrypoint is kept. */
static void exec_record_entrypoint_end(const struct exec *exec)
{
	struct entrypoint_status *e = &exec->init->entrypoint;

	if (e->state != ENTRYPOINT_RUNNING || !id_eq(&e->exec, &exec->id))
		return;
	e->state = ENTRYPOINT_ENDED;
	if (WIFSIGNALED(exec->status))
		e->signal = (uint8_t)WTERMSIG(exec->status);
	else
		e->exit_code = (uint8_t)WEXITSTATUS(exec->status);
}

static void on_exec_output_complete(struct output *o)
{
	struct exec *exec = o->data;

	if (exec->state != EXEC_PHASE_DYING || !exec->out[0].complete || !exec->out[1].complete)
		return;
	exec->state = EXEC_PHASE_ENDED;
	exec_record_entrypoint_end(exec);
	if (exec->on_ended)
		exec->on_ended(exec, exec->cb_arg);
	if (exec->internal) {
		/* otherwise on_exec_cgroup_event() frees it when the cgroup is empty */
		if (!exec->watching_cgroup)
			exec_forget(exec);
		return;
	}
	exec->init->n_live_execs--;
	exec->init->n_finished_execs++;
	for (size_t i = 0; i < ARRAY_SIZE(exec->out); i++)
		output_notify_readers(&exec->out[i]);
	while (exec->init->n_finished_execs > EXECS_FINISHED_MAX && exec_forget_oldest(exec->init))
		;
}

static void exec_report_read(struct exec *exec, bool is_dead);

static void exec_set_exited(struct exec *exec, int status, const struct rusage *used)
{
	if (exec->state == EXEC_PHASE_STARTING)
		exec_report_read(exec, true);
	(void)uv_timer_stop(&exec->timer);
	exec->pid = 0;
	if (exec->state == EXEC_PHASE_FAILED) {
		exec_cgroup_remove(exec);
		if (!exec->watching_cgroup)
			exec_forget(exec);
		return;
	}
	exec->status = status;
	exec->ended_ns = clk_wall_ns(exec->init->clk);
	exec->state = EXEC_PHASE_DYING;
	exec_end_determine(exec, used);
	input_close(&exec->in);
	/* an internal exec leaves no process running */
	if (exec->internal && exec->cgroup >= 0)
		(void)init_cgroup_kill(exec->cgroup);
	exec_cgroup_remove(exec);
	for (size_t i = 0; i < ARRAY_SIZE(exec->out); i++)
		output_finish(&exec->out[i]);
}

bool exec_handle_exit(struct init *in, pid_t pid, int status, const struct rusage *used)
{
	struct exec *exec = in->newest_exec;

	while (exec && exec->pid != pid)
		exec = exec->prev;
	if (!exec)
		return false;
	exec_set_exited(exec, status, used);
	return true;
}

static void on_exec_timeout(uv_timer_t *t)
{
	struct exec *exec = t->data;

	exec->timed_out = true;
	exec_kill_processes(exec);
}

int exec_signal(struct exec *exec, int sig, struct cay_err *err)
{
	if (exec->state != EXEC_PHASE_RUNNING)
		return cay_fail(err, CAY_E_STATE, "the command has ended");
	if (sig == SIGKILL) {
		exec->killed = true;
		exec_kill_processes(exec);
		return 0;
	}
	/* not waited for yet, so the pid is still its own */
	if (kill(-exec->pid, sig) < 0)
		return cay_fail_sys(err, CAY_E_STATE, errno, "send the signal");
	exec->client_signal = sig;
	return 0;
}

static void exec_notify_started(struct exec *exec, const struct cay_err *err)
{
	if (!exec->on_started)
		return;
	exec->on_started(exec, err, exec->cb_arg);
	exec->on_started = NULL;
}

/* End of file: the program was executed.  Anything else is the reason why not.  A process that
 * was forked meanwhile has a copy of the pipe and can delay its end; of a dead one, an empty pipe
 * is enough. */
static void exec_report_read(struct exec *exec, bool is_dead)
{
	struct exec_child_report report;
	struct cay_err err = {};
	ssize_t n = read(exec->report_fd, &report, sizeof(report));
	bool empty = n < 0 && errno == EAGAIN;

	if (empty && !is_dead)
		return;
	exec_report_close(exec);
	if (n == 0 || empty) {
		exec->state = EXEC_PHASE_RUNNING;
		exec_notify_started(exec, NULL);
		return;
	}
	exec->state = EXEC_PHASE_FAILED;
	err.code = CAY_E_INTERNAL;
	if (n == (ssize_t)sizeof(report) && report.code > CAY_OK && report.code < CAY_NUM_CODES) {
		err.code = report.code;
		err.errnum = report.errnum;
		memcpy(err.field, report.field, sizeof(report.field) - 1);
		memcpy(err.msg, report.msg, sizeof(err.msg) - 1);
	}
	exec_notify_started(exec, &err);
}

static void on_exec_report_ready(uv_poll_t *p, int, int)
{
	exec_report_read(p->data, false);
}

static int exec_fork_child(struct exec *exec, const struct exec_run *req,
			   const struct exec_internal *own, const struct exec_pipes *p,
			   struct cay_err *err)
{
	int log = own ? own->output_fd : -EBADF;
	const struct claim *c = &exec->init->claim;
	const char *shell[] = { "/bin/sh", "-c", req->shell, NULL };
	struct exec_child_plan plan = {
		.argv = req->has_argv ? req->argv.v : shell,
		.user = req->user ? req->user
			: c->user ? c->user
				  : "0",
		.cwd = req->cwd ? req->cwd
		       : c->cwd ? c->cwd
				: "/",
		.env = { trust_env(), own ? own->env : NULL, &c->env, &req->env },
		.stdio = { p->in[0], log < 0 ? p->out[1] : log,
			   own && own->separate_stderr ? own->stderr_fd
			   : log < 0                   ? p->err[1]
						       : log },
		.pass_fds = own ? own->pass_fds : NULL,
		.n_pass = own ? own->n_pass : 0,
		.programs_get_them = own && own->programs_get_them,
		.child_main = own ? own->child_main : NULL,
		.arg = own ? own->arg : NULL,
		.report_fd = p->report[1],
		.cgroup = exec->cgroup,
		.nofile = &exec->init->nofile,
		.term_name = exec->tty ? exec->term : NULL,
	};
	pid_t pid = exec_child_fork(&plan.cgroup);

	if (pid == 0)
		exec_child_run(&plan);
	if (pid < 0)
		return cay_fail_sys(err, errno == EAGAIN ? CAY_E_LIMIT : CAY_E_NO_MEMORY, errno,
				    "cannot create a process");
	exec->pid = exec->first_pid = pid;
	return 0;
}

static int exec_check_request(const struct init *in, const struct exec_run *req,
			      struct cay_err *err)
{
	if (req->has_argv == (req->shell != NULL))
		return cay_fail_field(err, CAY_E_INVALID, "argv",
				      "exactly one of argv and shell is required");
	if (req->has_argv && !req->argv.v[0][0])
		return cay_fail_field(err, CAY_E_INVALID, "argv", "the program's name is empty");
	if (req->has_argv && script_args_check(req->argv.v, req->argv.n, err) < 0)
		return -E2BIG;
	if (in->n_live_execs >= EXECS_LIVE_MAX)
		return cay_fail(err, CAY_E_LIMIT, "%d commands are running already",
				EXECS_LIVE_MAX);
	if (req->has_tty && req->stdin_text)
		return cay_fail_field(err, CAY_E_INVALID, "stdin",
				      "not allowed with tty; write to the terminal once it runs");
	return 0;
}

/* Whether no process of an earlier exec is left. */
static bool exec_is_alone(const struct init *in)
{
	const struct exec *exec = in->newest_exec;

	while (exec && !exec->pid && exec->cgroup < 0)
		exec = exec->prev;
	return !exec && !in->has_strays && !in->child_ops.n;
}

/* Initialises every handle, so that exec_free() can close all of them. */
static int exec_prepare(struct exec *exec, struct exec_pipes *p, enum exec_output mode,
			bool outputs, struct cay_err *err)
{
	struct init *in = exec->init;
	int r = exec->tty ? pty_create(exec, p) : exec_pipes_create(p, outputs);

	if (r < 0)
		return cay_fail_sys(err, CAY_E_LIMIT, -r,
				    exec->tty ? "create a terminal" : "create pipes");
	for (size_t i = 0; i < ARRAY_SIZE(exec->out); i++) {
		int *fd = i ? &p->err[0] : &p->out[0];

		if (outputs && *fd >= 0)
			r = output_init(&exec->out[i], &in->loop, cay_take_fd(fd), mode,
					&in->budget);
		if (r >= 0 && exec->out[i].mode == OUTPUT_SPOOL)
			r = spool_add(in, &exec->out[i]);
		exec->out[i].tty = exec->tty;
		exec->out[i].data = exec;
		exec->out[i].poll.data = &exec->out[i];
		exec->out[i].on_complete = on_exec_output_complete;
		exec->out[i].on_closed = on_exec_output_closed;
		exec->handles += exec->out[i].open;
		if (r < 0)
			return cay_fail_sys(err, CAY_E_LIMIT, -r, "prepare the output");
	}
	exec->in.fd = cay_take_fd(&p->in[1]);
	exec->report_fd = cay_take_fd(&p->report[0]);
	r = uv_poll_init(&in->loop, &exec->report, exec->report_fd);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "poll the report");
	(void)uv_timer_init(&in->loop, &exec->timer);
	exec->report.data = exec->timer.data = exec;
	exec->handles += 2;
	exec->handles_open = true;
	if (in->cgroup >= 0) {
		r = init_cgroup_create(in->cgroup, exec->name, &exec->cgroup);
		if (r < 0)
			return cay_fail_sys(err, CAY_E_INTERNAL, -r, "create a cgroup");
	}
	return 0;
}

/* Undo exec_prepare(), which may have failed half-way. */
static void exec_undo_prepare(struct exec *exec)
{
	if (exec->handles_open) {
		exec_list_append(exec);
		exec_free(exec);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(exec->out); i++)
		if (exec->out[i].fd >= 0)
			output_close(&exec->out[i]);
	input_close(&exec->in);
	if (exec->report_fd >= 0)
		(void)close(exec->report_fd);
	if (!exec->handles)
		free(exec);
}

static int exec_start_any(struct init *in, const struct exec_run *req,
			  const struct exec_internal *own, const struct id *sandbox,
			  enum exec_output mode, struct exec **ret, struct cay_err *err)
{
	auto_pipes p = PIPES_INIT;
	struct exec *exec = calloc(1, sizeof(*exec));
	int r;

	if (!exec)
		return cay_no_memory(err);
	exec->init = in;
	exec->cgroup = exec->in.fd = exec->report_fd = exec->cgroup_events_fd = -EBADF;
	exec->in.loop = &in->loop;
	exec->out[0].fd = exec->out[1].fd = -EBADF;
	exec_set_pty(exec, req);
	if (own) {
		exec->internal = !own->visible;
		exec->awaits_process = own->adopts_process;
		exec->on_started = own->on_started;
		exec->on_ended = own->on_ended;
		exec->cb_arg = own->arg;
	}
	r = id_generate(ID_EXEC, id_cell(sandbox), id_node(sandbox), &exec->id);
	if (r < 0) {
		free(exec);
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "generate an id");
	}
	id_format(&exec->id, exec->name);
	exec->started_ns = clk_wall_ns(in->clk);
	exec->kills_before = memory_count_kills(&in->memory);
	exec->started_alone = exec_is_alone(in);
	r = exec_prepare(exec, &p, mode, !own || own->output_fd < 0, err);
	if (r >= 0)
		r = input_write_text(&exec->in, req->stdin_text, err);
	if (r >= 0 && !exec->awaits_process)
		r = exec_fork_child(exec, req, own, &p, err);
	if (r < 0) {
		exec_undo_prepare(exec);
		return r;
	}
	exec_list_append(exec);
	in->n_live_execs += !exec->internal;
	meminfo_wake(in);
	if (!req->stdin_open && !exec->tty)
		input_close(&exec->in);
	output_start(&exec->out[0]);
	output_start(&exec->out[1]);
	if (!exec->awaits_process)
		(void)uv_poll_start(&exec->report, UV_READABLE | UV_DISCONNECT,
				    on_exec_report_ready);
	if (req->timeout_ms)
		(void)uv_timer_start(&exec->timer, on_exec_timeout, req->timeout_ms, 0);
	*ret = exec;
	return 0;
}

int exec_start(struct init *in, const struct exec_run *req, const struct id *sandbox,
	       enum exec_output mode, struct exec **ret, struct cay_err *err)
{
	int r = exec_check_request(in, req, err);

	return r < 0 ? r : exec_start_any(in, req, NULL, sandbox, mode, ret, err);
}

int exec_start_internal(struct init *in, const struct exec_run *req,
			const struct exec_internal *own, struct exec **ret, struct cay_err *err)
{
	return exec_start_any(in, req, own, &(struct id){}, OUTPUT_DROP, ret, err);
}

int exec_adopt_process(struct exec *exec, pid_t pid)
{
	siginfo_t child;
	int r = 0;

	if (!exec->awaits_process || exec->killed)
		return -ESTALE;
	for (const struct exec *other = exec->init->newest_exec; other; other = other->prev)
		if (other->pid == pid)
			return -EBUSY;
	if (waitid(P_PID, (id_t)pid, &child, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0)
		return -errno;
	if (exec->cgroup >= 0)
		r = init_cgroup_move(exec->cgroup, pid);
	if (r < 0)
		return r;
	exec->awaits_process = false;
	exec->pid = exec->first_pid = pid;
	exec->state = EXEC_PHASE_RUNNING;
	exec_report_close(exec);
	exec_notify_started(exec, NULL);
	return 0;
}

static void on_exec_kill_due(uv_timer_t *t)
{
	exec_kill(t->data);
}

void exec_kill_later(struct exec *exec, uint64_t ms)
{
	(void)uv_timer_start(&exec->timer, on_exec_kill_due, ms, 0);
}

static void on_exec_never_adopted(uv_timer_t *t)
{
	exec_set_exited(t->data, SIGKILL, &(struct rusage){});
}

void exec_kill(struct exec *exec)
{
	if (exec->pid <= 0 && !exec->awaits_process)
		return;
	exec->killed = true;
	if (exec->awaits_process)
		(void)uv_timer_start(&exec->timer, on_exec_never_adopted, 0, 0);
	else
		exec_kill_processes(exec);
}
