/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"

#define PIPE_PRESET KIB(64) /* capacity of a new pipe */

int input_lock(struct input *in, struct input_writer *w)
{
	if (in->fd < 0)
		return -EPIPE;
	if (in->writer && in->writer != w)
		return -EBUSY;
	if (in->owner && in->owner != w)
		return -EBUSY;
	in->writer = w;
	w->input = in;
	return 0;
}

void input_unlock(struct input_writer *w)
{
	struct input *in = cay_take(w->input);

	if (!in)
		return;
	in->writer = NULL;
	if (in->poll)
		(void)uv_poll_stop(in->poll);
}

void input_set_owner(struct input *in, struct input_writer *w)
{
	struct input_writer *before = in->writer;

	in->owner = w;
	if (!before || before == w)
		return;
	input_unlock(before);
	before->on_cut(before);
}

void input_clear_owner(struct input *in, const struct input_writer *w)
{
	if (in->owner == w)
		in->owner = NULL;
}

int input_write(struct input *in, struct slice *bytes)
{
	while (bytes->n) {
		ssize_t n = write(in->fd, bytes->p, bytes->n);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return 0;
		if (n < 0)
			return -EPIPE;
		in->written += (uint64_t)n;
		bytes->p += n;
		bytes->n -= (size_t)n;
	}
	return 0;
}

static void on_input_writable(uv_poll_t *p, int, int)
{
	struct input *in = p->data;

	(void)uv_poll_stop(p);
	if (in->writer)
		in->writer->on_room(in->writer);
}

int input_wait_room(struct input *in)
{
	if (!in->poll) {
		auto_free uv_poll_t *p = malloc(sizeof(*p));
		int r;

		if (!p)
			return -ENOMEM;
		r = uv_poll_init(in->loop, p, in->fd);
		if (r < 0)
			return r;
		p->data = in;
		in->poll = cay_take(p);
	}
	return uv_poll_start(in->poll, UV_WRITABLE | UV_DISCONNECT, on_input_writable);
}

static void on_input_poll_closed(uv_handle_t *h)
{
	free(h);
}

void input_close(struct input *in)
{
	struct input_writer *w = in->writer;

	if (in->fd < 0)
		return;
	/* before its fd: another file may get the number */
	if (in->poll)
		uv_close((uv_handle_t *)cay_take(in->poll), on_input_poll_closed);
	(void)close(cay_take_fd(&in->fd));
	if (!w)
		return;
	input_unlock(w);
	w->on_cut(w);
}

/* The pipe becomes as large as the text, up to the 1 MiB that fs.pipe-max-size allows, unless
 * the sandbox has so many pipes that the kernel makes them small. */
int input_write_text(struct input *in, const char *text, struct cay_err *err)
{
	size_t n = text ? strlen(text) : 0;
	int r;

	if (n > PIPE_PRESET)
		(void)fcntl(in->fd, F_SETPIPE_SZ, (int)n);
	r = n ? fd_write_all(in->fd, text, n) : 0;
	if (r < 0)
		return cay_fail_field(err, CAY_E_LIMIT, "stdin",
				      "stdin of %zu bytes does not fit in a pipe of this sandbox; "
				      "set stdin_open and send it with exec.stdin",
				      n);
	in->written = n;
	return 0;
}
