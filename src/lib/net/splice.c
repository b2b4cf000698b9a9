/* SPDX-License-Identifier: Apache-2.0 */
#include "net/splice.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"

#define ROUNDS 4 /* before others get their turn */

struct splice_pipe {
	int out, in; /* the end that is read, and the one that is written */
};

/* Those that no direction uses now. */
static struct splice_pipe free_pipes[SPLICE_PIPES_MAX];
static unsigned n_free_pipes, n_pipes, n_splices;

struct splice {
	const struct splice_events *events;
	void *arg;
	uv_poll_t from, to;
	int from_fd, to_fd;
	unsigned open_handles;
	bool closing, ended;
	bool held;               /* there is no room */
	struct splice_pipe pipe; /* out is negative: none */
	size_t n;                /* bytes in it */
};

static int splice_take_pipe(struct splice *s)
{
	int fds[2];

	if (s->pipe.out >= 0)
		return 0;
	if (n_free_pipes) {
		s->pipe = free_pipes[--n_free_pipes];
		return 0;
	}
	if (n_pipes == SPLICE_PIPES_MAX)
		return -EAGAIN;
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
		return -errno;
	/* a smaller one is slower, and right */
	(void)fcntl(fds[0], F_SETPIPE_SZ, SPLICE_PIPE_BYTES);
	s->pipe = (struct splice_pipe){ fds[0], fds[1] };
	n_pipes++;
	return 0;
}

/* One that is not empty belongs to its bytes, and is closed. */
static void splice_return_pipe(struct splice *s)
{
	if (s->pipe.out < 0)
		return;
	if (s->n) {
		cay_closep(&s->pipe.out);
		cay_closep(&s->pipe.in);
		n_pipes--;
	} else {
		free_pipes[n_free_pipes++] = s->pipe;
	}
	s->pipe = (struct splice_pipe){ -EBADF, -EBADF };
}

static void splice_free(struct splice *s)
{
	splice_return_pipe(s);
	cay_closep(&s->from_fd);
	cay_closep(&s->to_fd);
	n_splices--;
	s->events->closed(s->arg);
	free(s);
}

static void on_splice_poll_closed(uv_handle_t *h)
{
	struct splice *s = h->data;

	if (!--s->open_handles)
		splice_free(s);
}

void splice_close(struct splice *s)
{
	if (s->closing)
		return;
	s->closing = true;
	if (s->open_handles > 1)
		uv_close((uv_handle_t *)&s->to, on_splice_poll_closed);
	if (s->open_handles > 0)
		uv_close((uv_handle_t *)&s->from, on_splice_poll_closed);
	else
		splice_free(s);
}

static void splice_end(struct splice *s, int r)
{
	(void)uv_poll_stop(&s->from);
	(void)uv_poll_stop(&s->to);
	s->events->end(s->arg, r);
}

static ssize_t splice_once(int from, int to, size_t n)
{
	ssize_t done = splice(from, NULL, to, NULL, n, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);

	return done < 0 ? -errno : done;
}

/* Into the pipe, which is empty.  0: there is nothing now, or the socket has ended. */
static ssize_t splice_fill(struct splice *s)
{
	size_t room = s->events->room ? s->events->room(s->arg) : SPLICE_PIPE_BYTES;
	ssize_t n;

	s->held = !room;
	if (!room)
		return 0;
	n = splice_once(s->from_fd, s->pipe.in,
			room < SPLICE_PIPE_BYTES ? room : SPLICE_PIPE_BYTES);
	if (n == 0)
		s->ended = true;
	if (n == -EAGAIN || n == -EINTR)
		return 0;
	if (n > 0) {
		s->n = (size_t)n;
		s->events->moved(s->arg, s->n);
	}
	return n;
}

static int splice_drain(struct splice *s)
{
	while (s->n) {
		ssize_t n = splice_once(s->pipe.out, s->to_fd, s->n);

		if (n == -EAGAIN || n == -EINTR)
			return 0;
		if (n <= 0)
			return n < 0 ? (int)n : -EPIPE;
		s->n -= (size_t)n;
	}
	return 0;
}

static void on_splice_ready(uv_poll_t *p, int status, int);

/* Wait for the receiver while it has not taken all, else for the sender. */
static void splice_wait(struct splice *s)
{
	if (s->n) {
		(void)uv_poll_stop(&s->from);
		(void)uv_poll_start(&s->to, UV_WRITABLE, on_splice_ready);
	} else {
		splice_return_pipe(s);
		(void)uv_poll_stop(&s->to);
		if (s->held)
			(void)uv_poll_stop(&s->from);
		else
			(void)uv_poll_start(&s->from, UV_READABLE, on_splice_ready);
	}
}

void splice_go_on(struct splice *s)
{
	if (s->closing || !s->held)
		return;
	s->held = false;
	splice_wait(s);
}

size_t splice_queued_bytes(const struct splice *s)
{
	return s->n;
}

static void splice_move(struct splice *s)
{
	ssize_t r = splice_take_pipe(s);

	for (unsigned i = 0; i < ROUNDS && r >= 0; i++) {
		if (!s->n)
			r = splice_fill(s);
		if (r < 0 || !s->n || s->closing)
			break;
		r = splice_drain(s);
		if (s->n)
			break;
	}
	if (s->closing)
		return;
	if (r < 0 || (s->ended && !s->n))
		splice_end(s, r < 0 ? (int)r : 0);
	else
		splice_wait(s);
}

static void on_splice_ready(uv_poll_t *p, int status, int)
{
	struct splice *s = p->data;

	if (s->closing)
		return;
	if (status < 0)
		splice_end(s, -ECONNRESET);
	else
		splice_move(s);
}

static int splice_init(struct splice *s, uv_loop_t *loop, int from, int to)
{
	s->from_fd = fcntl(from, F_DUPFD_CLOEXEC, 3);
	s->to_fd = s->from_fd < 0 ? -EBADF : fcntl(to, F_DUPFD_CLOEXEC, 3);
	if (s->to_fd < 0)
		return -errno;
	if (uv_poll_init(loop, &s->from, s->from_fd) < 0)
		return -EIO;
	s->open_handles++;
	s->from.data = s->to.data = s;
	if (uv_poll_init(loop, &s->to, s->to_fd) < 0)
		return -EIO;
	s->open_handles++;
	return 0;
}

static void on_splice_unused(void *) {}

int splice_open(uv_loop_t *loop, int from, int to, const struct splice_events *events, void *arg,
		struct splice **ret)
{
	static const struct splice_events none = { .closed = on_splice_unused };
	struct splice *s = n_splices < SPLICES_MAX ? calloc(1, sizeof(*s)) : NULL;
	int r;

	if (!s)
		return -EAGAIN;
	*s = (struct splice){ .events = &none, .pipe = { -EBADF, -EBADF } };
	n_splices++;
	r = splice_init(s, loop, from, to);
	if (r >= 0)
		r = uv_poll_start(&s->from, UV_READABLE, on_splice_ready);
	if (r < 0) {
		splice_close(s);
		return r;
	}
	s->events = events;
	s->arg = arg;
	*ret = s;
	return 0;
}
