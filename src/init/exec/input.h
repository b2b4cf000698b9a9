/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_INPUT_H
#define CAY_INIT_EXEC_INPUT_H
/*
 * input - an exec's standard input: its pipe, its offset, its writer
 *
 * One writer at a time, so that bytes of two clients do not mix; it holds the input while it
 * has bytes to write.  A full pipe makes the writer wait, and nothing is queued.
 *
 * A terminal also has an owner: the one connection that may write, until it leaves or another
 * takes over.
 */
#include <uv.h>

#include "base/err.h"
#include "base/str.h"

struct input;

struct input_writer {
	struct input *input; /* NULL while it does not hold one */
	void (*on_room)(struct input_writer *w);
	/* The input was closed or taken over; the writer does not hold it any more. */
	void (*on_cut)(struct input_writer *w);
};

struct input {
	int fd; /* -EBADF once it is closed */
	uv_loop_t *loop;
	uv_poll_t *poll;  /* created when the pipe is full for the first time */
	uint64_t written; /* bytes ever written to the pipe */
	struct input_writer *writer;
	struct input_writer *owner; /* only the owner may hold the input */
};

/* 0, -EPIPE when it is closed, -EBUSY when another writer holds it. */
[[nodiscard]] int input_lock(struct input *in, struct input_writer *w);
void input_unlock(struct input_writer *w);
/* Take it over from its owner, if any. */
void input_set_owner(struct input *in, struct input_writer *w);
void input_clear_owner(struct input *in, const struct input_writer *w);
/* Write as much as fits and cut it off the front of bytes; -EPIPE when it has no reader. */
[[nodiscard]] int input_write(struct input *in, struct slice *bytes);
/* Write all of a text, or NULL, to a new pipe, which becomes as large as that needs. */
[[nodiscard]] int input_write_text(struct input *in, const char *text, struct cay_err *err);
/* Have on_room called when the pipe has room. */
[[nodiscard]] int input_wait_room(struct input *in);
void input_close(struct input *in);
#endif
