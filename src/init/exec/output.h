/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_OUTPUT_H
#define CAY_INIT_EXEC_OUTPUT_H
/*
 * output - one stream an exec writes: its pipe, what is kept of it, who reads it
 *
 *	block  the pipe is read while what readers have not taken fills no more
 *	       than half of the ring; then the process waits, as with any pipe
 *	drop   the pipe is always read; readers that fell behind see a gap
 *	spool  as block, but it is a file that is waited for (spool.h), and what is there can
 *	       be read again
 *
 * A terminal's output never waits for who only watches: in block it waits for its
 * writer (holder), and while there is none for nobody.
 *
 * Block without a reader waits for what was handed out last, so a reader that
 * lost its connection comes back up to half a ring later and misses nothing.
 *
 * When the process ends, exactly what is in the pipe then is its last output
 * (output_finish); whatever a process it left behind writes later is read and
 * thrown away, so that such a process neither hangs nor dies of SIGPIPE.  A terminal
 * cannot tell how much is in it, but the read that finds nothing has waited for what
 * was on its way; then it is closed, and whoever is left has lost its terminal.
 */
#include <uv.h>

#include "init/core/ring.h"
#include "ops/types.h"

struct output;
struct spool;
struct spool_window;

struct output_reader {
	struct output_reader *prev, *next;
	struct output *output; /* NULL while it reads nothing */
	uint64_t pos;
	bool greedy; /* takes everything at once, for the reply at the end */
	/* There may be more to read, or the end was reached.  It may detach itself. */
	void (*on_more)(struct output_reader *r);
	void *data;
	struct spool_window *window; /* what it has of a file, or NULL */
	bool no_memory;              /* there was no memory for that */
};

struct output {
	int fd; /* the pipe; -EBADF once it is closed */
	uv_poll_t poll;
	bool open, polling, pumping; /* open: the poll handle is */
	enum exec_output mode;       /* BLOCK, DROP or SPOOL */
	struct ring ring;
	struct spool *spool;    /* its file, or NULL */
	uint64_t spooled;       /* what is in the file, from 0 on */
	uint64_t furthest_read; /* the furthest any reader got */
	bool finishing;         /* the process is dead; tail bytes of it are in the pipe */
	bool complete;          /* all it wrote is here */
	bool tty;               /* fd is the master of a terminal */
	struct output_reader *awaited_reader; /* of a terminal: who is waited for, or NULL */
	int tail_left;
	struct output_reader *readers;
	void (*on_complete)(struct output *o);
	uv_close_cb
		on_closed; /* of the poll handle: with its fd, at output_close() at the latest */
	void *data;
};

/* Takes the fd.  If it made the handle (open), on_closed will be told. */
[[nodiscard]] int output_init(struct output *o, uv_loop_t *loop, int fd, enum exec_output mode,
			      struct ring_budget *budget);
/* Start reading. */
void output_start(struct output *o);
/* The process is dead: on_complete follows once its last byte is here. */
void output_finish(struct output *o);
/* Read no more; forget what is kept. */
void output_close(struct output *o);

uint64_t output_end_offset(const struct output *o); /* bytes so far */
/* How many bytes from pos on are gone. */
uint64_t output_lost_bytes(const struct output *o, uint64_t pos);
/* Some of it is on its way to a file. */
bool output_has_unspooled(const struct output *o);
/* How many bytes from pos on are not in memory: lost, or in a file. */
uint64_t output_bytes_not_in_memory(const struct output *o, uint64_t pos);
/* Copy from pos; 0 when those are not in memory. */
size_t output_read(const struct output *o, uint64_t pos, void *to, size_t n);
/* The same for a reader, who is told when what is in a file is here (output_reader_is_waiting()).
 */
size_t output_read_for_reader(struct output_reader *r, uint64_t pos, void *to, size_t n);
bool output_reader_is_waiting(const struct output_reader *r);

void output_add_reader(struct output *o, struct output_reader *r, uint64_t pos);
void output_remove_reader(struct output_reader *r);
/* The reader took bytes, or gave them up as lost. */
void output_reader_advance(struct output_reader *r, uint64_t n);
void output_notify_readers(struct output *o);
/* Of a terminal: wait for this reader from now on, or for nobody. */
void output_set_awaited_reader(struct output *o, struct output_reader *r);
/* All before upto is in its file. */
void output_set_spooled(struct output *o, uint64_t upto);
/* No more goes to its file, which has no room, or (lost) is gone: the ring goes on, and readers
 * see what was lost in between. */
void output_stop_spooling(struct output *o, bool lost);
/* Something is news that is not output. */
void output_notify_change(struct output *o);
#endif
