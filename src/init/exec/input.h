/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_INPUT_H
#define CAY_INIT_EXEC_INPUT_H
/*
 * input - an exec's standard input: its pipe, how much went in, who writes to it
 *
 * One writer at a time, so that what two send is not mixed; it holds the pipe for
 * as long as it has something to write.  A full pipe is waited for and nothing piles
 * up here.
 *
 * A terminal has an owner besides, the one connection that writes to it, until it
 * leaves or another takes over.
 */
#include <uv.h>

#include "base/str.h"

struct input;

struct input_writer {
	struct input *input; /* NULL while it does not hold one */
	/* There is room again. */
	void (*on_room)(struct input_writer *w);
	/* It is closed or another's; the writer does not hold it any more. */
	void (*on_cut)(struct input_writer *w);
};

struct input {
	int fd; /* -EBADF once it is closed */
	uv_loop_t *loop;
	uv_poll_t *poll;  /* made when it was full for the first time */
	uint64_t written; /* bytes that are in the pipe, or were */
	struct input_writer *writer;
	struct input_writer *owner; /* nobody else may hold it */
};

/* 0, -EPIPE when it is closed, -EBUSY when somebody else holds it. */
[[nodiscard]] int input_lock(struct input *in, struct input_writer *w);
void input_unlock(struct input_writer *w);
/* Take it over from whoever has it. */
void input_set_owner(struct input *in, struct input_writer *w);
void input_clear_owner(struct input *in, const struct input_writer *w);
/* As much as there is room for, off the front of bytes; -EPIPE when nobody reads it. */
[[nodiscard]] int input_write(struct input *in, struct slice *bytes);
/* Have `room` told. */
[[nodiscard]] int input_wait_room(struct input *in);
void input_close(struct input *in);
#endif
