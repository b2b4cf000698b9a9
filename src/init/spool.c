/* SPDX-License-Identifier: Apache-2.0 */
/* PID 1's part of the files of outputs; spool-child.c is the other one */
#include "init/spool.h"

#include <string.h>
#include <sys/socket.h>

#include "init/cgroup.h"
#include "init/child.h"
#include "init/init.h"
#include "init/spool-internal.h"

#define CGROUP_NAME "spool"
#define PASSES 16    /* messages before others get their turn */
#define STILLBORN 16 /* in a row that had something to do and did nothing, until none is tried */
#define RETRY_MS 100 /* before the next one then */

struct spooler {
	struct init *init;
	uv_poll_t poll;
	int fd;
	bool full; /* its socket takes no more now */
};

static int start(struct init *in);

/* Sending */

static void on_ready(uv_poll_t *p, int, int);

static void set_full(struct spooler *w, bool full)
{
	w->full = full;
	(void)uv_poll_start(&w->poll, UV_READABLE | UV_DISCONNECT | (full ? UV_WRITABLE : 0),
			    on_ready);
}

/* False: not now.  When its socket is broken, reading from it will tell. */
static bool send_msg(struct spools *all, const struct spool_msg *m, const void *bytes)
{
	struct iovec parts[2] = {
		{ (void *)(uintptr_t)m, sizeof(*m) },
		{ (void *)(uintptr_t)bytes, bytes ? m->n : 0 },
	};
	struct msghdr msg = { .msg_iov = parts, .msg_iovlen = 2 };

	if (!all->now || all->now->full)
		return false;
	if (sendmsg(all->now->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return true;
	if (errno == EAGAIN)
		set_full(all->now, true);
	else
		(void)shutdown(all->now->fd, SHUT_RDWR);
	return false;
}

static struct spools *spools_of(const struct output *o)
{
	return &o->spool->init->spools;
}

/* One piece; false when there is none, or it does not go. */
static bool push_piece(struct output *o)
{
	struct spool *s = o->spool;
	struct spool_msg m = { .what = SPOOL_WRITE, .id = s->id, .pos = s->sent };
	uint8_t bytes[SPOOL_PIECE];

	if (o->mode != OUTPUT_SPOOL || s->sent >= o->ring.end)
		return false;
	m.n = (uint32_t)ring_read(&o->ring, s->sent, bytes, sizeof(bytes));
	if (!send_msg(spools_of(o), &m, bytes))
		return false;
	s->sent += m.n;
	return true;
}

/* While the socket has room nobody waits for it: say_rest() was before us. */
void spool_push(struct output *o)
{
	while (push_piece(o))
		;
}

static void ask(struct output *o, struct window *w)
{
	struct spool_msg m = { .what = SPOOL_READ,
			       .n = SPOOL_PIECE,
			       .id = o->spool->id,
			       .pos = w->pos,
			       .tag = w->tag };

	w->sent = send_msg(spools_of(o), &m, NULL);
}

/* The records of those that are forgotten go with the word to their spooler, if it knows them. */
static void close_forgotten(struct spools *all)
{
	struct spool **p = &all->first;

	while (*p) {
		struct spool *s = *p;
		struct spool_msg m = { .what = SPOOL_CLOSE, .id = s->id };

		if (s->output || (all->now && (s->sent || s->opened) && !send_msg(all, &m, NULL))) {
			p = &s->next;
			continue;
		}
		*p = s->next;
		free(s);
	}
}

static void stop(struct spools *all);

/* The first becomes the last. */
static struct spool *next_in_turn(struct spools *all)
{
	struct spool *s = all->first, **last = &all->first;

	while (*last)
		last = &(*last)->next;
	*last = s;
	all->first = s->next;
	s->next = NULL;
	return s;
}

/* What could not be said before: who reads first, and then a piece of each in turn, going on
 * next time where it ends now, so that one that writes without end holds up nobody. */
static void say_rest(struct spools *all)
{
	unsigned n = 0, idle = 0;

	close_forgotten(all);
	if (!all->first)
		stop(all);
	for (struct spool *s = all->first; s; s = s->next, n++)
		for (struct reader *r = s->output ? s->output->readers : NULL; r; r = r->next)
			if (r->window && r->window->asked && !r->window->sent)
				ask(s->output, r->window);
	while (idle < n && all->now && !all->now->full) {
		struct spool *s = next_in_turn(all);

		idle = s->output && push_piece(s->output) ? 0 : idle + 1;
	}
}

/* Hearing */

static struct spool *find(struct spools *all, uint64_t id)
{
	struct spool *s = all->first;

	while (s && s->id != id)
		s = s->next;
	return s;
}

/* Nothing of what was in its file can be read. */
static void lose(struct output *o)
{
	for (struct reader *r = o->readers; r; r = r->next)
		if (r->window)
			r->window->asked = false;
	output_unspool(o, /* lost= */ true);
}

static void on_data(struct output *o, const struct spool_msg *m, const uint8_t *bytes)
{
	struct reader *r = o->readers;

	while (r && !(r->window && r->window->asked && r->window->tag == m->tag))
		r = r->next;
	if (!r)
		return; /* it left, or went elsewhere */
	r->window->asked = false;
	r->window->n = m->n;
	memcpy(r->window->data, bytes, m->n);
	if (m->n)
		r->more(r);
	else
		lose(o);
}

bool spool_hear(struct spools *all, const struct spool_msg *m, const uint8_t *bytes, size_t n,
		int *fd)
{
	struct spool *s = find(all, m->id);
	struct output *o = s ? s->output : NULL;

	if (m->what < SPOOL_READY || m->what > SPOOL_DATA ||
	    n != (m->what == SPOOL_DATA ? m->n : 0))
		return false;
	if (!o)
		return true; /* forgotten meanwhile */
	if (m->what == SPOOL_OPENED) {
		if (s->opened)
			return false;
		s->opened = true;
		s->fd = cay_take_fd(fd);
	} else if (m->what == SPOOL_DATA) {
		on_data(o, m, bytes);
	} else if (!s->opened && m->what == SPOOL_WROTE) {
		return false;
	} else if (o->mode == OUTPUT_SPOOL) {
		if (m->pos < o->spooled || m->pos > s->sent)
			return false;
		if (m->what == SPOOL_WROTE)
			output_spooled(o, m->pos);
		else
			output_unspool(o, /* lost= */ false);
	}
	return true;
}

/* One message: 1, 0 when there is none, -errno when there is no spooler. */
static int receive(struct spools *all)
{
	static uint8_t bytes[SPOOL_PIECE]; /* one loop, and nobody in between */
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
	ssize_t n = recvmsg(all->now->fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	auto_close int fd = -EBADF;
	struct cmsghdr *c;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	c = CMSG_FIRSTHDR(&msg);
	/* of a second one the kernel keeps what has no room here */
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	if (n < (ssize_t)sizeof(m) || (msg.msg_flags & MSG_TRUNC))
		return -EPIPE;
	if (m.what != SPOOL_READY)
		all->stillborn = 0;
	return spool_hear(all, &m, bytes, (size_t)n - sizeof(m), &fd) ? 1 : -EPROTO;
}

/* Its end */

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

/* It ends with its socket, and is waited for as anybody is. */
static void stop(struct spools *all)
{
	struct spooler *w = all->now;

	if (!w)
		return;
	all->now = NULL;
	uv_close((uv_handle_t *)&w->poll, on_closed);
	(void)close(cay_take_fd(&w->fd));
}

static bool lose_one(struct spools *all)
{
	struct spool *s = all->first;

	while (s && !(s->lost && s->output))
		s = s->next;
	if (!s)
		return false;
	s->lost = false;
	lose(s->output);
	return true;
}

/* All, or those that went with their spooler.  Whoever is told may forget others. */
static void lose_some(struct spools *all, bool every)
{
	for (struct spool *s = all->first; s; s = s->next)
		s->lost = every || (s->opened && s->fd < 0);
	while (lose_one(all))
		;
}

static bool has_work(const struct spools *all)
{
	for (const struct spool *s = all->first; s; s = s->next) {
		if (!s->output)
			continue;
		if (output_unsaved(s->output))
			return true;
		for (const struct reader *r = s->output->readers; r; r = r->next)
			if (spool_awaits(r))
				return true;
	}
	return false;
}

static void on_retry(uv_timer_t *t);

static void retry(struct spools *all)
{
	if (all->stillborn++ < STILLBORN)
		(void)uv_timer_start(&all->timer, on_retry, RETRY_MS, 0);
	else
		lose_some(all, /* every= */ true);
}

static void on_retry(uv_timer_t *t)
{
	struct init *in = t->data;

	if (in->spools.now || !in->spools.first)
		return;
	if (start(in) >= 0)
		say_rest(&in->spools);
	else
		retry(&in->spools);
}

/* Somebody killed it.  The next one has the files of which we have a descriptor; what was on
 * its way is sent again.  Who does not keep to the rules has no successor. */
static void begin_anew(struct init *in, bool again)
{
	struct spools *all = &in->spools;
	bool had_work = has_work(all);

	stop(all);
	close_forgotten(all);
	for (struct spool *s = all->first; s; s = s->next) {
		s->sent = s->output->spooled;
		for (struct reader *r = s->output->readers; r; r = r->next)
			if (r->window)
				r->window->sent = false;
	}
	lose_some(all, !again);
	if (!again || !all->first || all->now)
		return;
	/* the first at once: somebody may wait for it */
	if (had_work && all->stillborn)
		retry(all);
	else if (start(in) < 0)
		retry(all);
	else
		all->stillborn += had_work;
	say_rest(all);
}

static void on_ready(uv_poll_t *p, int, int)
{
	struct spooler *w = p->data;
	struct init *in = w->init;
	int r = 1;

	for (int i = 0; i < PASSES && r > 0 && in->spools.now == w; i++)
		r = receive(&in->spools);
	if (in->spools.now != w)
		return;
	if (r < 0) {
		begin_anew(in, r != -EPROTO);
		return;
	}
	if (w->full)
		set_full(w, false);
	say_rest(&in->spools);
}

/* Its beginning */

/* A cgroup below PID 1's, as everybody has but PID 1; made by the first. */
static int share_cgroup(struct init *in)
{
	if (in->cgroup < 0 || in->spools.cgroup >= 0)
		return 0;
	return cgroup_make(in->cgroup, CGROUP_NAME, &in->spools.cgroup);
}

static int fork_spooler(struct init *in, int socket)
{
	int cgroup = in->spools.cgroup;
	pid_t pid = child_fork(&cgroup);

	if (pid == 0)
		spool_serve(in, socket, cgroup);
	return pid < 0 ? -errno : 0;
}

static int start(struct init *in)
{
	struct spooler *w = calloc(1, sizeof(*w));
	int fds[2] = { -EBADF, -EBADF }, r;

	if (!w)
		return -ENOMEM;
	r = share_cgroup(in);
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
	in->spools.now = w;
	r = fork_spooler(in, fds[1]);
	(void)close(fds[1]);
	if (r < 0)
		stop(&in->spools);
	else
		set_full(w, false);
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
	if (!in->spools.now)
		r = start(in);
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
	say_rest(&in->spools); /* there may be others that waited for one */
	return 0;
}

void spool_drop(struct output *o)
{
	struct spools *all = spools_of(o);
	struct spool *s = o->spool;

	o->spool = NULL;
	s->output = NULL;
	/* not the last one while there is a spooler: it does not wait for a disk */
	if (s->fd >= 0)
		(void)close(cay_take_fd(&s->fd));
	close_forgotten(all);
	if (!all->first)
		stop(all);
}

/* Reading */

bool spool_awaits(const struct reader *r)
{
	return r->window && r->window->asked;
}

size_t spool_read(struct reader *r, uint64_t pos, void *to, size_t n)
{
	struct output *o = r->output;
	struct window *w = r->window;
	size_t have;

	if (!w)
		w = r->window = calloc(1, sizeof(*w));
	r->broken = !w;
	if (!w)
		return 0;
	if (w->asked && w->pos == pos)
		return 0;
	if (n > o->spooled - pos)
		n = (size_t)(o->spooled - pos);
	have = 0;
	if (!w->asked && pos >= w->pos && pos - w->pos < w->n)
		have = w->n - (size_t)(pos - w->pos);
	/* less than was asked for only from its beginning: who needs more than is left of it
	 * to go on would not */
	if (have && (have >= n || pos == w->pos)) {
		n = n < have ? n : have;
		memcpy(to, w->data + (pos - w->pos), n);
		return n;
	}
	w->pos = pos;
	w->tag = ++spools_of(o)->last_tag;
	w->n = 0;
	w->asked = true;
	ask(o, w);
	return 0;
}
