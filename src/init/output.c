/* SPDX-License-Identifier: Apache-2.0 */
#include "init/output.h"

#include <assert.h>
#include <sys/ioctl.h>

#include "init/spool.h"

#define PASSES 8 /* reads before others get their turn */
#define SCRATCH KIB(32)
#define TTY_TAIL KIB(64) /* more than a terminal holds */

static void pump(struct output *o);

int output_init(struct output *o, uv_loop_t *loop, int fd, enum exec_output mode,
		struct ring_budget *budget)
{
	int r;

	*o = (struct output){ .fd = fd, .mode = mode };
	o->ring = ring_empty(budget, 0);
	r = uv_poll_init(loop, &o->poll, fd);
	o->open = r >= 0;
	return r;
}

/* The handle first: libuv takes its fd out of the loop when it is closed, by number, and
 * the number is somebody else's as soon as ours is closed. */
static void close_pipe(struct output *o)
{
	if (o->open)
		uv_close((uv_handle_t *)&o->poll, o->on_closed);
	o->open = o->polling = false;
	if (o->fd >= 0)
		(void)close(cay_take_fd(&o->fd));
}

void output_close(struct output *o)
{
	assert(!o->readers);
	close_pipe(o);
	ring_drop(&o->ring);
	if (o->spool)
		spool_drop(o);
}

uint64_t output_end(const struct output *o)
{
	return o->ring.end;
}

uint64_t output_lost(const struct output *o, uint64_t pos)
{
	return pos >= o->spooled ? output_away(o, pos) : 0;
}

bool output_unsaved(const struct output *o)
{
	return o->mode == OUTPUT_SPOOL && o->spooled < o->ring.end;
}

uint64_t output_away(const struct output *o, uint64_t pos)
{
	return pos < o->ring.start ? o->ring.start - pos : 0;
}

size_t output_read(const struct output *o, uint64_t pos, void *to, size_t n)
{
	return output_away(o, pos) ? 0 : ring_read(&o->ring, pos, to, n);
}

size_t output_read_for(struct reader *r, uint64_t pos, void *to, size_t n)
{
	const struct output *o = r->output;

	if (output_away(o, pos) && pos < o->spooled)
		return spool_read(r, pos, to, n);
	return output_read(o, pos, to, n);
}

bool output_awaits(const struct reader *r)
{
	return spool_awaits(r);
}

/* From here on nothing may be overwritten. */
static uint64_t keep(const struct output *o)
{
	uint64_t slowest = UINT64_MAX;

	if (o->mode == OUTPUT_SPOOL)
		return o->spooled;
	if (o->mode != OUTPUT_BLOCK || (o->tty && !o->holder))
		return o->ring.end;
	if (o->holder)
		return o->holder->pos < o->ring.end ? o->holder->pos : o->ring.end;
	if (!o->readers)
		return o->handed;
	for (const struct reader *r = o->readers; r; r = r->next)
		if (!r->greedy && r->pos < slowest)
			slowest = r->pos;
	return slowest < o->ring.end ? slowest : o->ring.end;
}

/* One read: how many bytes came, 0 at the end of the pipe, -EAGAIN when it is
 * empty, -ENOBUFS when nothing more may be taken now. */
static ssize_t take(struct output *o)
{
	uint8_t scratch[SCRATCH], *to = scratch;
	size_t room = sizeof(scratch);
	ssize_t n;

	if (!o->complete)
		room = ring_space(&o->ring, keep(o), o->mode != OUTPUT_DROP && !o->finishing, &to);
	if (!room)
		return -ENOBUFS;
	if (o->finishing && !o->complete && room > (size_t)o->tail)
		room = (size_t)o->tail;
	n = read(o->fd, to, room);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : 0;
	if (o->complete)
		return n; /* not the process's any more */
	ring_wrote(&o->ring, (size_t)n);
	if (o->mode == OUTPUT_SPOOL)
		spool_push(o);
	if (o->finishing)
		o->tail -= (int)n;
	return n;
}

void output_notify(struct output *o)
{
	struct reader *next;

	for (struct reader *r = o->readers; r; r = next) {
		next = r->next;
		r->more(r);
	}
}

static void on_ready(uv_poll_t *p, int, int)
{
	struct output *o = p->data;

	/* an error stops the poll; the read will tell what it was */
	o->polling = uv_is_active((uv_handle_t *)p);
	pump(o);
}

static void set_polling(struct output *o, bool on)
{
	if (o->fd < 0 || on == o->polling)
		return;
	o->polling = on;
	if (on)
		(void)uv_poll_start(&o->poll, UV_READABLE | UV_DISCONNECT, on_ready);
	else
		(void)uv_poll_stop(&o->poll);
}

static void complete(struct output *o)
{
	o->complete = true;
	if (o->tty)
		close_pipe(o);
	if (o->ring.start == o->ring.end)
		ring_drop(&o->ring); /* asked for room, never used it */
	o->on_complete(o);
}

/* n: what the last read brought, or why nothing. */
static bool all_here(const struct output *o, ssize_t n)
{
	return o->tail <= 0 || o->fd < 0 || (o->tty && n == -EAGAIN);
}

static void pump(struct output *o)
{
	ssize_t n = 1;

	if (o->pumping)
		return;
	o->pumping = true;
	for (int i = 0; i < PASSES && n > 0; i++) {
		if (o->finishing && !o->complete && all_here(o, n))
			complete(o);
		if (o->fd < 0)
			break;
		n = take(o);
		if (n == 0)
			close_pipe(o);
		if (n > 0 && !o->complete)
			output_notify(o);
	}
	if (o->finishing && !o->complete && all_here(o, n))
		complete(o);
	set_polling(o, n != -ENOBUFS);
	o->pumping = false;
}

void output_start(struct output *o)
{
	o->poll.data = o;
	set_polling(o, true);
}

void output_finish(struct output *o)
{
	/* what it wrote is in the pipe by now: it is dead.  More may come from those
	 * it left behind, but this much and no more is counted as its own. */
	o->finishing = true;
	/* its end is not to wait for a disk */
	o->ring.due = o->mode == OUTPUT_SPOOL;
	if (o->tty)
		o->tail = TTY_TAIL;
	else if (o->fd < 0 || ioctl(o->fd, FIONREAD, &o->tail) < 0)
		o->tail = 0;
	pump(o);
}

void output_attach(struct output *o, struct reader *r, uint64_t pos)
{
	r->output = o;
	r->pos = pos;
	r->prev = NULL;
	r->next = o->readers;
	if (o->readers)
		o->readers->prev = r;
	o->readers = r;
	if (!o->polling)
		pump(o);
}

void output_detach(struct reader *r)
{
	struct output *o = r->output;

	if (!o)
		return;
	/* what it was promised without having been handed it goes with it */
	if (r->greedy && o->handed < output_end(o))
		o->handed = output_end(o);
	if (o->holder == r)
		o->holder = NULL;
	if (r->prev)
		r->prev->next = r->next;
	else
		o->readers = r->next;
	if (r->next)
		r->next->prev = r->prev;
	r->output = NULL;
	r->prev = r->next = NULL;
	free(r->window);
	r->window = NULL;
	if (!o->polling)
		pump(o);
}

void output_moved(struct reader *r, uint64_t n)
{
	struct output *o = r->output;

	r->pos += n;
	if (o->handed < r->pos)
		o->handed = r->pos;
	if (!o->polling)
		pump(o);
}

void output_hold(struct output *o, struct reader *r)
{
	o->holder = r;
	if (!o->polling)
		pump(o);
}

void output_spooled(struct output *o, uint64_t upto)
{
	o->spooled = upto;
	if (!o->polling)
		pump(o);
}

void output_unspool(struct output *o, bool lost)
{
	o->mode = OUTPUT_DROP;
	if (lost)
		o->spooled = 0;
	output_tell(o);
}

/* Readers that leave are not to start another round meanwhile. */
void output_tell(struct output *o)
{
	bool before = o->pumping;

	o->pumping = true;
	output_notify(o);
	o->pumping = before;
	if (!o->polling)
		pump(o);
}
