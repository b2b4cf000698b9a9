/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/output.h"

#include <assert.h>
#include <sys/ioctl.h>

#include "init/exec/spool.h"

#define PASSES 8 /* reads before other handles get their turn */
#define SCRATCH KIB(32)
#define TTY_TAIL KIB(64) /* more than a terminal holds */

static void output_pump(struct output *o);

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

/* The handle first: libuv removes its fd from the loop by number when the handle is closed,
 * and another file may have that number as soon as the fd is closed. */
static void output_close_pipe(struct output *o)
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
	output_close_pipe(o);
	ring_free_data(&o->ring);
	if (o->spool)
		spool_remove(o);
}

uint64_t output_end_offset(const struct output *o)
{
	return o->ring.end;
}

uint64_t output_lost_bytes(const struct output *o, uint64_t pos)
{
	return pos >= o->spooled ? output_bytes_not_in_memory(o, pos) : 0;
}

bool output_has_unspooled(const struct output *o)
{
	return o->mode == OUTPUT_SPOOL && o->spooled < o->ring.end;
}

uint64_t output_bytes_not_in_memory(const struct output *o, uint64_t pos)
{
	return pos < o->ring.start ? o->ring.start - pos : 0;
}

size_t output_read(const struct output *o, uint64_t pos, void *to, size_t n)
{
	return output_bytes_not_in_memory(o, pos) ? 0 : ring_read(&o->ring, pos, to, n);
}

int output_copy(const struct output *o, uint64_t from, uint64_t to, struct ring *ret)
{
	struct ring copy;

	from += output_bytes_not_in_memory(o, from);
	copy = ring_empty(o->ring.budget, from < to ? from : to);
	copy.max = o->ring.max;
	while (copy.end < to) {
		uint8_t *at;
		size_t n = ring_reserve(&copy, copy.start, false, &at);

		n = n < to - copy.end ? n : (size_t)(to - copy.end);
		n = n ? output_read(o, copy.end, at, n) : 0;
		if (!n) {
			ring_free_data(&copy);
			return -ENOMEM;
		}
		ring_commit(&copy, n);
	}
	*ret = copy;
	return 0;
}

size_t output_read_for_reader(struct output_reader *r, uint64_t pos, void *to, size_t n)
{
	const struct output *o = r->output;

	if (output_bytes_not_in_memory(o, pos) && pos < o->spooled)
		return spool_read(r, pos, to, n);
	return output_read(o, pos, to, n);
}

void output_read_last_line(const struct output *o, char *to, size_t size)
{
	char text[1024];
	uint64_t end = output_end_offset(o);
	size_t n = output_read(o, end > sizeof(text) / 2 ? end - sizeof(text) / 2 : 0, text,
			       sizeof(text) / 2);
	ssize_t more = o->fd < 0 ? 0 : read(o->fd, text + n, sizeof(text) - n - 1);
	char *line;

	n += more > 0 ? (size_t)more : 0;
	while (n && text[n - 1] == '\n')
		n--;
	text[n] = 0;
	line = memrchr(text, '\n', n);
	line = line ? line + 1 : text;
	if (!*line || !utf8_is_valid(line, strlen(line)) || strlen(line) >= size)
		line = text + n;
	memcpy(to, line, strlen(line) + 1);
}

/* Bytes from here on must not be overwritten. */
static uint64_t output_keep_offset(const struct output *o)
{
	uint64_t slowest = UINT64_MAX;

	if (o->mode == OUTPUT_SPOOL)
		return o->spooled;
	if (o->awaited_reader)
		return o->awaited_reader->pos < o->ring.end ? o->awaited_reader->pos : o->ring.end;
	if (o->mode != OUTPUT_BLOCK || o->tty)
		return o->ring.end;
	if (!o->readers)
		return o->furthest_read;
	for (const struct output_reader *r = o->readers; r; r = r->next)
		if (!r->greedy && r->pos < slowest)
			slowest = r->pos;
	return slowest < o->ring.end ? slowest : o->ring.end;
}

/* One read: the number of bytes, 0 at the end of the pipe, -EAGAIN when it is empty, -ENOBUFS
 * when the output must wait. */
static ssize_t output_read_pipe(struct output *o)
{
	uint8_t scratch[SCRATCH], *to = scratch;
	size_t room = sizeof(scratch);
	ssize_t n;

	if (!o->complete)
		room = ring_reserve(&o->ring, output_keep_offset(o),
				    (o->mode != OUTPUT_DROP || o->awaited_reader) && !o->finishing,
				    &to);
	if (!room)
		return -ENOBUFS;
	if (o->finishing && !o->complete && room > (size_t)o->tail_left)
		room = (size_t)o->tail_left;
	n = read(o->fd, to, room);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : 0;
	if (o->complete)
		return n; /* not written by the process */
	ring_commit(&o->ring, (size_t)n);
	if (o->mode == OUTPUT_SPOOL)
		spool_write_pending(o);
	if (o->finishing)
		o->tail_left -= (int)n;
	return n;
}

void output_notify_readers(struct output *o)
{
	struct output_reader *next;

	for (struct output_reader *r = o->readers; r; r = next) {
		next = r->next;
		r->on_more(r);
	}
}

static void on_output_readable(uv_poll_t *p, int, int)
{
	struct output *o = p->data;

	/* an error stops the poll; the read reports which */
	o->polling = uv_is_active((uv_handle_t *)p);
	output_pump(o);
}

static void output_set_polling(struct output *o, bool on)
{
	if (o->fd < 0 || on == o->polling)
		return;
	o->polling = on;
	if (on)
		(void)uv_poll_start(&o->poll, UV_READABLE | UV_DISCONNECT, on_output_readable);
	else
		(void)uv_poll_stop(&o->poll);
}

static void output_complete(struct output *o)
{
	o->complete = true;
	if (o->tty)
		output_close_pipe(o);
	if (o->ring.start == o->ring.end)
		ring_free_data(&o->ring); /* reserved and not used */
	o->on_complete(o);
}

/* n: the result of the last read. */
static bool output_tail_is_read(const struct output *o, ssize_t n)
{
	return o->tail_left <= 0 || o->fd < 0 || (o->tty && n == -EAGAIN);
}

static void output_pump(struct output *o)
{
	ssize_t n = 1;

	if (o->pumping)
		return;
	o->pumping = true;
	for (int i = 0; i < PASSES && n > 0; i++) {
		if (o->finishing && !o->complete && output_tail_is_read(o, n))
			output_complete(o);
		if (o->fd < 0)
			break;
		n = output_read_pipe(o);
		if (n == 0)
			output_close_pipe(o);
		if (n > 0 && !o->complete)
			output_notify_readers(o);
	}
	if (o->finishing && !o->complete && output_tail_is_read(o, n))
		output_complete(o);
	output_set_polling(o, n != -ENOBUFS);
	o->pumping = false;
}

void output_start(struct output *o)
{
	o->poll.data = o;
	output_set_polling(o, true);
}

void output_finish(struct output *o)
{
	/* the process is dead, so all it wrote is in the pipe; more may come from processes it
	 * left running, but only this much counts as its output */
	o->finishing = true;
	/* its end must not wait for a disk */
	o->ring.ignore_budget = o->mode == OUTPUT_SPOOL;
	if (o->tty)
		o->tail_left = TTY_TAIL;
	else if (o->fd < 0 || ioctl(o->fd, FIONREAD, &o->tail_left) < 0)
		o->tail_left = 0;
	output_pump(o);
}

void output_add_reader(struct output *o, struct output_reader *r, uint64_t pos)
{
	r->output = o;
	r->pos = pos;
	r->prev = NULL;
	r->next = o->readers;
	if (o->readers)
		o->readers->prev = r;
	o->readers = r;
	if (!o->polling)
		output_pump(o);
}

void output_remove_reader(struct output_reader *r)
{
	struct output *o = r->output;

	if (!o)
		return;
	/* give up the bytes kept for a greedy reader */
	if (r->greedy && o->furthest_read < output_end_offset(o))
		o->furthest_read = output_end_offset(o);
	if (o->awaited_reader == r)
		o->awaited_reader = NULL;
	*(r->prev ? &r->prev->next : &o->readers) = r->next;
	if (r->next)
		r->next->prev = r->prev;
	r->output = NULL;
	r->prev = r->next = NULL;
	free(r->window);
	r->window = NULL;
	if (!o->polling)
		output_pump(o);
}

void output_reader_advance(struct output_reader *r, uint64_t n)
{
	struct output *o = r->output;

	r->pos += n;
	if (o->furthest_read < r->pos)
		o->furthest_read = r->pos;
	if (!o->polling)
		output_pump(o);
}

void output_set_awaited_reader(struct output *o, struct output_reader *r)
{
	o->awaited_reader = r;
	if (!o->polling)
		output_pump(o);
}

void output_set_spooled(struct output *o, uint64_t upto)
{
	o->spooled = upto;
	if (!o->polling)
		output_pump(o);
}

void output_stop_spooling(struct output *o, bool lost)
{
	o->mode = OUTPUT_DROP;
	if (lost)
		o->spooled = 0;
	output_notify_change(o);
}

/* Readers that leave must not start another round meanwhile. */
void output_notify_change(struct output *o)
{
	bool before = o->pumping;

	o->pumping = true;
	output_notify_readers(o);
	o->pumping = before;
	if (!o->polling)
		output_pump(o);
}
