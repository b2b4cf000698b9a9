/* SPDX-License-Identifier: Apache-2.0 */
/* PID 1's part of an operation in a child; child-op-child.c is the child */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "init/core/init-cgroup.h"
#include "init/exec/exec-child.h"
#include "init/file/child-op-internal.h"

#define CGROUP_NAME "work"
#define GRACE_MS 1000 /* from SIGTERM to SIGKILL */
#define GRACES_MAX 60 /* while it reports progress in cleaning up */

static void child_op_list_remove(struct child_op *w)
{
	struct child_op **p = &w->init->child_ops.first;

	while (*p != w)
		p = &(*p)->next;
	*p = w->next;
	w->init->child_ops.n--;
}

static void on_child_op_handle_closed(uv_handle_t *h)
{
	struct child_op *w = h->data;

	if (--w->handles == 0)
		free(w);
}

/* The handle before its fd: see output.c. */
static void child_op_close_conn(struct child_op *w)
{
	if (w->fd < 0)
		return;
	uv_close((uv_handle_t *)&w->poll, on_child_op_handle_closed);
	(void)close(cay_take_fd(&w->fd));
}

/* Reply with the error if no reply has begun; otherwise close the connection, so that the
 * client sees that the reply is incomplete. */
static void child_op_reply_error(struct child_op *w, const struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(8));

	if (w->fd < 0)
		return;
	if (!atomic_exchange(&w->shared->reply_claimed, true) &&
	    child_op_format_error(w->id, err, NULL, &out) >= 0)
		(void)send(w->fd, out.data, out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)shutdown(w->fd, SHUT_RDWR);
	child_op_close_conn(w);
}

/* Only on_child_exit_signal() waits for it, so the pid is still its own.  It may not have a
 * session yet. */
static void child_op_signal(const struct child_op *w, int sig)
{
	(void)kill(w->pid, sig);
	(void)kill(-w->pid, sig);
}

static void on_child_op_grace_timer(uv_timer_t *t)
{
	struct child_op *w = t->data;
	unsigned moved = atomic_load(&w->shared->progress);

	if (moved != w->last_progress && w->graces++ < GRACES_MAX)
		w->last_progress = moved;
	else
		child_op_signal(w, SIGKILL);
}

static void child_op_terminate(struct child_op *w)
{
	if (w->ending)
		return;
	w->ending = true;
	w->last_progress = atomic_load(&w->shared->progress);
	child_op_signal(w, SIGTERM);
	(void)uv_timer_start(&w->timer, on_child_op_grace_timer, GRACE_MS, GRACE_MS);
}

static void on_child_op_client_left(uv_poll_t *p, int, int)
{
	struct child_op *w = p->data;

	child_op_close_conn(w);
	child_op_terminate(w);
}

static void on_child_op_deadline(uv_timer_t *t)
{
	struct child_op *w = t->data;
	unsigned moved = atomic_load(&w->shared->progress);
	struct cay_err err = {};

	if (moved != w->last_progress || atomic_load(&w->shared->waits_for_client)) {
		w->last_progress = moved;
		return;
	}
	(void)cay_fail(&err, CAY_E_TIMEOUT, "the operation did not finish within %llu ms",
		       (unsigned long long)w->deadline_ms);
	child_op_reply_error(w, &err);
	child_op_terminate(w);
}

bool child_op_handle_exit(struct init *in, pid_t pid, int status)
{
	struct child_op *w = in->child_ops.first;
	struct cay_err err = {};

	while (w && w->pid != pid)
		w = w->next;
	if (!w)
		return false;
	if (WIFSIGNALED(status)) {
		(void)cay_fail(&err, CAY_E_UNAVAILABLE,
			       "the process of this operation was killed by signal %d",
			       WTERMSIG(status));
		child_op_reply_error(w, &err);
	}
	/* the client has a whole reply, or sees that it is incomplete */
	child_op_close_conn(w);
	child_op_list_remove(w);
	uv_close((uv_handle_t *)&w->timer, on_child_op_handle_closed);
	return true;
}

unsigned child_op_count(const struct init *in, child_op_fn *fn)
{
	unsigned n = 0;

	for (const struct child_op *w = in->child_ops.first; w; w = w->next)
		n += w->fn == fn;
	return n;
}

static int child_ops_map_shared(struct child_ops *all)
{
	void *p;

	if (all->shared)
		return 0;
	p = mmap(NULL, CHILD_OPS_MAX * sizeof(*all->shared), PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	all->shared = p;
	return 0;
}

static unsigned child_ops_find_slot(const struct child_ops *all)
{
	uint64_t used = 0;
	unsigned slot = 0;

	for (const struct child_op *w = all->first; w; w = w->next)
		used |= UINT64_C(1) << w->slot;
	while (used >> slot & 1)
		slot++;
	assert(slot < CHILD_OPS_MAX);
	return slot;
}

static int child_op_prepare(struct init *in, struct request *rq, struct child_op *w,
			    struct cay_err *err)
{
	int r = request_get_wire(rq, &w->wire);

	if (r >= 0)
		r = child_ops_map_shared(&in->child_ops);
	if (r >= 0)
		r = init_cgroup_ensure(in->cgroup, CGROUP_NAME, &in->child_ops.cgroup);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "prepare a child");
	w->fd = fcntl(w->wire.fd, F_DUPFD_CLOEXEC, 3);
	if (w->fd < 0)
		return cay_fail_sys(err, CAY_E_LIMIT, errno, "duplicate the connection");
	r = uv_poll_init(&in->loop, &w->poll, w->fd);
	if (r < 0) {
		(void)close(cay_take_fd(&w->fd));
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "poll the connection");
	}
	(void)uv_timer_init(&in->loop, &w->timer);
	w->poll.data = w->timer.data = w;
	w->handles = 2;
	w->slot = child_ops_find_slot(&in->child_ops);
	w->shared = &in->child_ops.shared[w->slot];
	atomic_store(&w->shared->reply_claimed, false);
	atomic_store(&w->shared->waits_for_client, false);
	w->last_progress = atomic_load(&w->shared->progress);
	return 0;
}

static int child_op_fork(struct child_op *w, struct cay_err *err)
{
	static const struct field_map nothing = {};
	struct init *in = w->init;
	const struct claim *c = &in->claim;
	struct exec_child_plan plan = {
		.user = c->user ? c->user : "0",
		.cwd = c->cwd ? c->cwd : "/",
		.env = { &c->env, &nothing },
		.stdio = { w->wire.fd, w->wire.fd, STDERR_FILENO },
		.report_fd = w->wire.fd,
		.cgroup = in->child_ops.cgroup,
		.nofile = &in->nofile,
		.child_main = child_op_main,
		.on_fail = child_op_setup_failed,
		.arg = w,
	};

	w->pid = exec_child_fork(&plan.cgroup);
	if (w->pid == 0)
		exec_child_run(&plan);
	if (w->pid < 0)
		return cay_fail_sys(err, errno == EAGAIN ? CAY_E_LIMIT : CAY_E_NO_MEMORY, errno,
				    "cannot create a process");
	return 0;
}

static void child_op_watch(struct child_op *w)
{
	struct child_ops *all = &w->init->child_ops;

	w->next = all->first;
	all->first = w;
	all->n++;
	(void)uv_poll_start(&w->poll, UV_DISCONNECT, on_child_op_client_left);
	if (w->deadline_ms)
		(void)uv_timer_start(&w->timer, on_child_op_deadline, w->deadline_ms,
				     w->deadline_ms);
}

void child_op_start(struct init *in, struct request *rq, child_op_fn *fn, uint64_t deadline_ms)
{
	struct cay_err err = {};
	struct child_op *w = NULL;

	if (in->child_ops.n >= CHILD_OPS_MAX) {
		(void)request_add_reply_header(rq, "Retry-After", "1");
		(void)cay_fail(&err, CAY_E_OVERLOADED, "the sandbox is busy with %d operations",
			       CHILD_OPS_MAX);
	} else if (!(w = calloc(1, sizeof(*w)))) {
		(void)cay_no_memory(&err);
	} else {
		*w = (struct child_op){
			.init = in, .rq = rq, .fn = fn, .fd = -EBADF, .deadline_ms = deadline_ms
		};
		memcpy(w->id, rq->id, sizeof(w->id));
		if (child_op_prepare(in, rq, w, &err) >= 0 && child_op_fork(w, &err) >= 0) {
			request_detach(rq);
			w->rq = NULL;
			child_op_watch(w);
			return;
		}
	}
	if (w && w->handles) {
		child_op_close_conn(w);
		uv_close((uv_handle_t *)&w->timer, on_child_op_handle_closed);
	} else {
		free(w);
	}
	request_fail(rq, &err);
}
