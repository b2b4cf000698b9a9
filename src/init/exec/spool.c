/* SPDX-License-Identifier: Apache-2.0 */
/* PID 1's part of the files of outputs; spool-child.c is the spooler */
#include "init/exec/spool.h"

#include <string.h>
#include <sys/socket.h>

#include "init/core/init-cgroup.h"
#include "init/core/init.h"
#include "init/exec/exec-child.h"
#include "init/exec/spool-internal.h"

#define CGROUP_NAME "spool"
#define PASSES 16    /* messages before other handles get their turn */
#define STILLBORN 16 /* idle starts in a row until none is tried */
#define RETRY_MS 100 /* before the next start then */

struct spooler {
	struct init *init;
	uv_poll_t poll;
	int fd;
	bool full; /* the socket takes no more now */
};

static int spooler_start(struct init *in);

static void on_spooler_ready(uv_poll_t *p, int, int);

static void spooler_set_full(struct spooler *w, bool full)
{
	w->full = full;
	(void)uv_poll_start(&w->poll, UV_READABLE | UV_DISCONNECT | (full ? UV_WRITABLE : 0),
			    on_spooler_ready);
}

/* False: not now.  Reading reports a broken socket. */
static bool spool_send_message(struct spools *all, const struct spool_msg *m, const void *bytes)
{
	struct iovec parts[2] = {
		{ (void *)(uintptr_t)m, sizeof(*m) },
		{ (void *)(uintptr_t)bytes, bytes ? m->n : 0 },
	};
	struct msghdr msg = { .msg_iov = parts, .msg_iovlen = 2 };

	if (!all->spooler || all->spooler->full)
		return false;
	if (sendmsg(all->spooler->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return true;
	if (errno == EAGAIN)
		spooler_set_full(all->spooler, true);
	else
		(void)shutdown(all->spooler->fd, SHUT_RDWR);
	return false;
}

static struct spools *spools_of_output(const struct output *o)
{
	return &o->spool->init->spools;
}

/* One piece; false when there is none, or the socket is full. */
static bool spool_send_piece(struct output *o)
{
	struct spool *s = o->spool;
	struct spool_msg m = { .type = SPOOL_WRITE, .id = s->id, .pos = s->sent };
	uint8_t bytes[SPOOL_PIECE];

	if (o->mode != OUTPUT_SPOOL || s->sent >= o->ring.end)
		return false;
	m.n = (uint32_t)ring_read(&o->ring, s->sent, bytes, sizeof(bytes));
	if (!spool_send_message(spools_of_output(o), &m, bytes))
		return false;
	s->sent += m.n;
	return true;
}

/* While the socket has room nothing is pending: spools_send_pending() ran before. */
void spool_write_pending(struct output *o)
{
	while (spool_send_piece(o))
		;
}

static void spool_request_window(struct output *o, struct spool_window *w)
{
	struct spool_msg m = { .type = SPOOL_READ,
			       .n = SPOOL_PIECE,
			       .id = o->spool->id,
			       .pos = w->pos,
			       .tag = w->tag };

	w->request_sent = spool_send_message(spools_of_output(o), &m, NULL);
}

/* Free the records of closed outputs, once the spooler has been told to close their files. */
static void spools_close_forgotten(struct spools *all)
{
	struct spool **p = &all->first;

	while (*p) {
		struct spool *s = *p;
		struct spool_msg m = { .type = SPOOL_CLOSE, .id = s->id };

		if (s->output || (all->spooler && (s->sent || s->opened) &&
				  !spool_send_message(all, &m, NULL))) {
			p = &s->next;
			continue;
		}
		*p = s->next;
		free(s);
	}
}

static void spooler_stop(struct spools *all);

/* Move the first to the end. */
static struct spool *spools_rotate(struct spools *all)
{
	struct spool *s = all->first, **last = &all->first;

	while (*last)
		last = &(*last)->next;
	*last = s;
	all->first = s->next;
	s->next = NULL;
	return s;
}

/* Send pending messages: requests of readers, then a piece of each output in turn, starting
 * next time where this time ends, so that an output that never stops delays no other. */
static void spools_send_pending(struct spools *all)
{
	unsigned n = 0, idle = 0;

	spools_close_forgotten(all);
	if (!all->first)
		spooler_stop(all);
	for (struct spool *s = all->first; s; s = s->next, n++)
		for (struct output_reader *r = s->output ? s->output->readers : NULL; r;
		     r = r->next)
			if (r->window && r->window->requested && !r->window->request_sent)
				spool_request_window(s->output, r->window);
	while (idle < n && all->spooler && !all->spooler->full) {
		struct spool *s = spools_rotate(all);

		idle = s->output && spool_send_piece(s->output) ? 0 : idle + 1;
	}
}

static struct spool *spools_find(struct spools *all, uint64_t id)
{
	struct spool *s = all->first;

	while (s && s->id != id)
		s = s->next;
	return s;
}

/* Nothing in its file can be read any more. */
static void spool_output_lost(struct output *o)
{
	for (struct output_reader *r = o->readers; r; r = r->next)
		if (r->window)
			r->window->requested = false;
	output_stop_spooling(o, /* lost= */ true);
}

static void spool_handle_data(struct output *o, const struct spool_msg *m, const uint8_t *bytes)
{
	struct output_reader *r = o->readers;

	while (r && !(r->window && r->window->requested && r->window->tag == m->tag))
		r = r->next;
	if (!r)
		return; /* the reader left, or moved */
	r->window->requested = false;
	r->window->n = m->n;
	memcpy(r->window->data, bytes, m->n);
	if (m->n)
		r->on_more(r);
	else
		spool_output_lost(o);
}

bool spool_handle_message(struct spools *all, const struct spool_msg *m, const uint8_t *bytes,
			  size_t n, int *fd)
{
	struct spool *s = spools_find(all, m->id);
	struct output *o = s ? s->output : NULL;

	if (m->type < SPOOL_READY || m->type > SPOOL_DATA ||
	    n != (m->type == SPOOL_DATA ? m->n : 0))
		return false;
	if (!o)
		return true; /* closed meanwhile */
	if (m->type == SPOOL_OPENED) {
		if (s->opened)
			return false;
		s->opened = true;
		s->fd = cay_take_fd(fd);
	} else if (m->type == SPOOL_DATA) {
		spool_handle_data(o, m, bytes);
	} else if (!s->opened && m->type == SPOOL_WROTE) {
		return false;
	} else if (o->mode == OUTPUT_SPOOL) {
		if (m->pos < o->spooled || m->pos > s->sent)
			return false;
		if (m->type == SPOOL_WROTE)
			output_set_spooled(o, m->pos);
		else
			output_stop_spooling(o, /* lost= */ false);
	}
	return true;
}

/* One message: 1; 0 when there is none; -errno when there is no spooler. */
static int spools_receive_message(struct spools *all)
{
	static uint8_t bytes[SPOOL_PIECE]; /* not reentered */
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control;
	struct spool_msg m;
	struct iovec parts[2] = { { &m, sizeof(m) }, { bytes, sizeof(bytes) } };
	struct msghdr msg = { .msg_iov = parts,
			      .msg_iovlen = 2,
			      .msg_control = &control,
			      .msg_controllen = CMSG_LEN(sizeof(int)) };
	ssize_t n = recvmsg(all->spooler->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	auto_close int fd = -EBADF;
	struct cmsghdr *c;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	c = CMSG_FIRSTHDR(&msg);
	/* the kernel closes a second descriptor, which has no room here */
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (n < (ssize_t)sizeof(m) || (msg.msg_flags & MSG_TRUNC))
		return -EPIPE;
	if (m.type != SPOOL_READY)
		all->failed_starts = 0;
	return spool_handle_message(all, &m, bytes, (size_t)n - sizeof(m), &fd) ? 1 : -EPROTO;
}

/* It ends with its socket, and is waited for like any child. */
static void spooler_stop(struct spools *all)
{
	struct spooler *w = all->spooler;

	if (!w)
		return;
	all->spooler = NULL;
	uv_close((uv_handle_t *)&w->poll, on_handle_closed_free);
	(void)close(cay_take_fd(&w->fd));
}

static bool spools_lose_next(struct spools *all)
{
	struct spool *s = all->first;

	while (s && !(s->lost && s->output))
		s = s->next;
	if (!s)
		return false;
	s->lost = false;
	spool_output_lost(s->output);
	return true;
}

/* Of all outputs, or of those whose spooler took the file with it.  A callback may close
 * others. */
static void spools_lose_files(struct spools *all, bool every)
{
	for (struct spool *s = all->first; s; s = s->next)
		s->lost = every || (s->opened && s->fd < 0);
	while (spools_lose_next(all))
		;
}

static bool spools_have_work(const struct spools *all)
{
	for (const struct spool *s = all->first; s; s = s->next) {
		if (!s->output)
			continue;
		if (output_has_unspooled(s->output))
			return true;
		for (const struct output_reader *r = s->output->readers; r; r = r->next)
			if (spool_reader_is_waiting(r))
				return true;
	}
	return false;
}

static void on_spooler_retry_timer(uv_timer_t *t);

static void spooler_schedule_retry(struct spools *all)
{
	if (all->failed_starts++ < STILLBORN)
		(void)uv_timer_start(&all->timer, on_spooler_retry_timer, RETRY_MS, 0);
	else
		spools_lose_files(all, /* every= */ true);
}

static void on_spooler_retry_timer(uv_timer_t *t)
{
	struct init *in = t->data;

	if (in->spools.spooler || !in->spools.first)
		return;
	if (spooler_start(in) >= 0)
		spools_send_pending(&in->spools);
	else
		spooler_schedule_retry(&in->spools);
}

/* The spooler was killed.  The next one has the files of which PID 1 has a descriptor, and
 * unconfirmed bytes are sent again.  One that broke the protocol has no successor. */
static void spooler_restart(struct init *in, bool again)
{
	struct spools *all = &in->spools;
	bool had_work = spools_have_work(all);

	spooler_stop(all);
	spools_close_forgotten(all);
	for (struct spool *s = all->first; s; s = s->next) {
		s->sent = s->output->spooled;
		for (struct output_reader *r = s->output->readers; r; r = r->next)
			if (r->window)
				r->window->request_sent = false;
	}
	spools_lose_files(all, !again);
	if (!again || !all->first || all->spooler)
		return;
	/* the first restart is immediate: readers may be waiting */
	if (had_work && all->failed_starts)
		spooler_schedule_retry(all);
	else if (spooler_start(in) < 0)
		spooler_schedule_retry(all);
	else
		all->failed_starts += had_work;
	spools_send_pending(all);
}

static void on_spooler_ready(uv_poll_t *p, int, int)
{
	struct spooler *w = p->data;
	struct init *in = w->init;
	int r = 1;

	for (int i = 0; i < PASSES && r > 0 && in->spools.spooler == w; i++)
		r = spools_receive_message(&in->spools);
	if (in->spools.spooler != w)
		return;
	if (r < 0) {
		spooler_restart(in, r != -EPROTO);
		return;
	}
	if (w->full)
		spooler_set_full(w, false);
	spools_send_pending(&in->spools);
}

static int spooler_fork(struct init *in, int socket)
{
	int cgroup = in->spools.cgroup;
	pid_t pid = exec_child_fork(&cgroup);

	if (pid == 0)
		child_spooler_run(in, socket, cgroup);
	return pid < 0 ? -errno : 0;
}

static int spooler_start(struct init *in)
{
	struct spooler *w = calloc(1, sizeof(*w));
	int fds[2] = { -EBADF, -EBADF }, r;

	if (!w)
		return -ENOMEM;
	r = init_cgroup_ensure(in->cgroup, CGROUP_NAME, &in->spools.cgroup);
	if (r >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
		r = -errno;
	if (r >= 0)
		r = uv_poll_init(&in->loop, &w->poll, fds[0]);
	if (r < 0) {
		if (fds[0] >= 0) {
			(void)close(fds[0]);
			(void)close(fds[1]);
		}
		free(w);
		return r;
	}
	w->init = in;
	w->fd = fds[0];
	w->poll.data = w;
	in->spools.spooler = w;
	r = spooler_fork(in, fds[1]);
	(void)close(fds[1]);
	if (r < 0)
		spooler_stop(&in->spools);
	else
		spooler_set_full(w, false);
	return r;
}

int spool_add(struct init *in, struct output *o)
{
	struct spool *s = calloc(1, sizeof(*s));
	int r = 0;

	if (!s)
		return -ENOMEM;
	if (!in->spools.last_id) {
		(void)uv_timer_init(&in->loop, &in->spools.timer);
		in->spools.timer.data = in;
	}
	if (!in->spools.spooler)
		r = spooler_start(in);
	if (r < 0) {
		free(s);
		return r;
	}
	*s = (struct spool){ .next = in->spools.first,
			     .id = ++in->spools.last_id,
			     .fd = -EBADF,
			     .init = in,
			     .output = o };
	in->spools.first = s;
	o->spool = s;
	spools_send_pending(&in->spools); /* others may have waited for a spooler */
	return 0;
}

void spool_remove(struct output *o)
{
	struct spools *all = spools_of_output(o);
	struct spool *s = o->spool;

	o->spool = NULL;
	s->output = NULL;
	/* never the last reference while there is a spooler, so this does not wait for a disk */
	if (s->fd >= 0)
		(void)close(cay_take_fd(&s->fd));
	spools_close_forgotten(all);
	if (!all->first)
		spooler_stop(all);
}

bool spool_reader_is_waiting(const struct output_reader *r)
{
	return r->window && r->window->requested;
}

size_t spool_read(struct output_reader *r, uint64_t pos, void *to, size_t n)
{
	struct output *o = r->output;
	struct spool_window *w = r->window;
	size_t have;

	if (!w)
		w = r->window = calloc(1, sizeof(*w));
	r->no_memory = !w;
	if (!w)
		return 0;
	if (w->requested && w->pos == pos)
		return 0;
	if (n > o->spooled - pos)
		n = (size_t)(o->spooled - pos);
	have = 0;
	if (!w->requested && pos >= w->pos && pos - w->pos < w->n)
		have = w->n - (size_t)(pos - w->pos);
	/* less than requested only from its beginning: a reader that needs more than the rest
	 * of the window would never continue */
	if (have && (have >= n || pos == w->pos)) {
		n = n < have ? n : have;
		memcpy(to, w->data + (pos - w->pos), n);
		return n;
	}
	w->pos = pos;
	w->tag = ++spools_of_output(o)->last_tag;
	w->n = 0;
	w->requested = true;
	spool_request_window(o, w);
	return 0;
}
