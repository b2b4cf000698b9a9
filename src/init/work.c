/* SPDX-License-Identifier: Apache-2.0 */
/* PID 1's part of an operation done by a child; work-child.c is the other one */
#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "init/cgroup.h"
#include "init/child.h"
#include "init/work-internal.h"

#define CGROUP_NAME "work"
#define GRACE_MS 1000 /* from SIGTERM to SIGKILL */
#define GRACES_MAX 60 /* for who still takes away what it made, and gets on with it */

static void unlink_work(struct work *w)
{
	struct work **p = &w->init->works.first;

	while (*p != w)
		p = &(*p)->next;
	*p = w->next;
	w->init->works.n--;
}

static void on_closed(uv_handle_t *h)
{
	struct work *w = h->data;

	if (--w->handles == 0)
		free(w);
}

/* The handle in front of its fd: see output.c. */
static void close_conn(struct work *w)
{
	if (w->fd < 0)
		return;
	uv_close((uv_handle_t *)&w->poll, on_closed);
	(void)close(cay_take_fd(&w->fd));
}

/* Say what happened, if nobody has said anything yet; otherwise the client must see that
 * what it got is not all. */
static void answer(struct work *w, const struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(8));

	if (w->fd < 0)
		return;
	if (!atomic_exchange(&w->told->begun, true) &&
	    work_error_bytes(w->id, err, NULL, &out) >= 0)
		(void)send(w->fd, out.data, out.len, MSG_DONTWAIT | MSG_NOSIGNAL);
	(void)shutdown(w->fd, SHUT_RDWR);
	close_conn(w);
}

/* It is waited for only in job_reap(), so the number is still its own.  It may not have a
 * session yet. */
static void kill_work(const struct work *w, int sig)
{
	(void)kill(w->pid, sig);
	(void)kill(-w->pid, sig);
}

static void on_grace(uv_timer_t *t)
{
	struct work *w = t->data;
	unsigned moved = atomic_load(&w->told->moved);

	if (moved != w->moved && w->graces++ < GRACES_MAX)
		w->moved = moved;
	else
		kill_work(w, SIGKILL);
}

static void end_work(struct work *w)
{
	if (w->ending)
		return;
	w->ending = true;
	w->moved = atomic_load(&w->told->moved);
	kill_work(w, SIGTERM);
	(void)uv_timer_start(&w->timer, on_grace, GRACE_MS, GRACE_MS);
}

static void on_left(uv_poll_t *p, int, int)
{
	struct work *w = p->data;

	close_conn(w);
	end_work(w);
}

static void on_deadline(uv_timer_t *t)
{
	struct work *w = t->data;
	unsigned moved = atomic_load(&w->told->moved);
	struct cay_err err = {};

	if (moved != w->moved || atomic_load(&w->told->waiting)) {
		w->moved = moved;
		return;
	}
	(void)cay_fail(&err, CAY_E_TIMEOUT, "it did not come to an end within %llu ms",
		       (unsigned long long)w->deadline_ms);
	answer(w, &err);
	end_work(w);
}

bool work_reaped(struct init *in, pid_t pid, int status)
{
	struct work *w = in->works.first;
	struct cay_err err = {};

	while (w && w->pid != pid)
		w = w->next;
	if (!w)
		return false;
	if (WIFSIGNALED(status)) {
		(void)cay_fail(&err, CAY_E_UNAVAILABLE,
			       "the process that did this was killed by signal %d",
			       WTERMSIG(status));
		answer(w, &err);
	}
	/* which had a whole reply from it, or sees that it is none */
	close_conn(w);
	unlink_work(w);
	uv_close((uv_handle_t *)&w->timer, on_closed);
	return true;
}

/* Starting */

static int share_memory(struct works *all)
{
	void *p;

	if (all->told)
		return 0;
	p = mmap(NULL, WORKS_MAX * sizeof(*all->told), PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	all->told = p;
	return 0;
}

static int share_cgroup(struct init *in)
{
	if (in->cgroup < 0 || in->works.cgroup >= 0)
		return 0;
	return cgroup_make(in->cgroup, CGROUP_NAME, &in->works.cgroup);
}

static unsigned free_slot(const struct works *all)
{
	uint64_t used = 0;
	unsigned slot = 0;

	for (const struct work *w = all->first; w; w = w->next)
		used |= UINT64_C(1) << w->slot;
	while (used >> slot & 1)
		slot++;
	assert(slot < WORKS_MAX);
	return slot;
}

static int prepare(struct init *in, struct request *rq, struct work *w, struct cay_err *err)
{
	int r = request_wire(rq, &w->wire);

	if (r >= 0)
		r = share_memory(&in->works);
	if (r >= 0)
		r = share_cgroup(in);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "prepare a child");
	w->fd = fcntl(w->wire.fd, F_DUPFD_CLOEXEC, 3);
	if (w->fd < 0)
		return cay_fail_sys(err, CAY_E_LIMIT, errno, "one more connection");
	r = uv_poll_init(&in->loop, &w->poll, w->fd);
	if (r < 0) {
		(void)close(cay_take_fd(&w->fd));
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "poll");
	}
	(void)uv_timer_init(&in->loop, &w->timer);
	w->poll.data = w->timer.data = w;
	w->handles = 2;
	w->slot = free_slot(&in->works);
	w->told = &in->works.told[w->slot];
	atomic_store(&w->told->begun, false);
	atomic_store(&w->told->waiting, false);
	w->moved = atomic_load(&w->told->moved);
	return 0;
}

static int fork_work(struct work *w, struct cay_err *err)
{
	static const struct field_map nothing = {};
	struct init *in = w->init;
	const struct claim *c = &in->claim;
	struct child_plan plan = {
		.user = c->user ? c->user : "0",
		.cwd = c->cwd ? c->cwd : "/",
		.env = { &c->env, &nothing },
		.stdio = { w->wire.fd, w->wire.fd, STDERR_FILENO },
		.report = w->wire.fd,
		.cgroup = in->works.cgroup,
		.nofile = &in->nofile,
		.inside = work_inside,
		.fail = work_not_inside,
		.arg = w,
	};

	w->pid = child_fork(&plan.cgroup);
	if (w->pid == 0)
		child_run(&plan);
	if (w->pid < 0)
		return cay_fail_sys(err, errno == EAGAIN ? CAY_E_LIMIT : CAY_E_NO_MEMORY, errno,
				    "no more processes");
	return 0;
}

static void watch(struct work *w)
{
	struct works *all = &w->init->works;

	w->next = all->first;
	all->first = w;
	all->n++;
	(void)uv_poll_start(&w->poll, UV_DISCONNECT, on_left);
	if (w->deadline_ms)
		(void)uv_timer_start(&w->timer, on_deadline, w->deadline_ms, w->deadline_ms);
}

void work_start(struct init *in, struct request *rq, work_fn *fn, uint64_t deadline_ms)
{
	struct cay_err err = {};
	struct work *w = NULL;

	if (in->works.n >= WORKS_MAX) {
		(void)request_header(rq, "Retry-After", "1");
		(void)cay_fail(&err, CAY_E_OVERLOADED,
			       "%d operations are under way in this sandbox", WORKS_MAX);
	} else if (!(w = calloc(1, sizeof(*w)))) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for a child");
	} else {
		*w = (struct work){
			.init = in, .rq = rq, .fn = fn, .fd = -EBADF, .deadline_ms = deadline_ms
		};
		memcpy(w->id, rq->id, sizeof(w->id));
		if (prepare(in, rq, w, &err) >= 0 && fork_work(w, &err) >= 0) {
			request_detach(rq);
			w->rq = NULL;
			watch(w);
			return;
		}
	}
	if (w && w->handles) {
		close_conn(w);
		uv_close((uv_handle_t *)&w->timer, on_closed);
	} else {
		free(w);
	}
	request_fail(rq, &err);
}
