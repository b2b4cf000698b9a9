/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_OUTPUT_H
#define CAY_INIT_EXEC_OUTPUT_H
/*
 * output - one output stream of an exec: its pipe, the bytes kept of it, its readers
 *
 *	block  the pipe is read while bytes that readers have not taken fill at most half of
 *	       the ring; then the process waits, as with any pipe
 *	drop   the pipe is always read; slow readers see a gap
 *	spool  like block, but output waits for a file (spool.h) instead of readers, and can be
 *	       read again
 *
 * A terminal's output never waits for clients that only watch: in block mode it waits for the
 * client that writes (awaited_reader), if there is one.  The output of a session is in drop mode
 * and waits for the client that streams the current run.
 *
 * In block mode without a reader, output waits from the last byte handed out, so that a reader
 * that lost its connection can return up to half a ring later and misses nothing.
 *
 * When the process ends, exactly the bytes in the pipe at that moment are its last output
 * (output_finish).  Bytes that processes it left running write later are read and discarded,
 * so that those neither hang nor die of SIGPIPE.  A terminal does not report how much it
 * holds, but a read that finds nothing has waited for pending bytes; then the terminal is
 * closed, and processes that are left lose it.
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
	bool greedy; /* takes everything at once, for a reply at the end */
	/* There may be more to read, or the end is reached.  It may remove itself. */
	void (*on_more)(struct output_reader *r);
	void *data;
	struct spool_window *window; /* its piece of the file, or NULL */
	bool no_memory;              /* for the window */
};

struct output {
	int fd; /* the pipe; -EBADF once it is closed */
	uv_poll_t poll;
	bool open, polling, pumping; /* open: the poll handle is */
	enum exec_output mode;       /* BLOCK, DROP or SPOOL */
	struct ring ring;
	struct spool *spool;    /* its file, or NULL */
	uint64_t spooled;       /* bytes in the file, from 0 on */
	uint64_t furthest_read; /* by any reader */
	bool finishing;         /* the process is dead; tail_left bytes of it are in the pipe */
	bool complete;          /* all its bytes have been read */
	bool tty;               /* fd is the master of a terminal */
	struct output_reader *awaited_reader; /* output waits for it alone, or NULL */
	int tail_left;
	struct output_reader *readers;
	void (*on_complete)(struct output *o);
	uv_close_cb on_closed; /* of the poll handle: with its fd, or in output_close() */
	void *data;
};

/* Takes the fd.  If it initialised the handle (open), on_closed will be called. */
[[nodiscard]] int output_init(struct output *o, uv_loop_t *loop, int fd, enum exec_output mode,
			      struct ring_budget *budget);
void output_start(struct output *o);
/* The process is dead: on_complete follows once its last byte has been read. */
void output_finish(struct output *o);
/* Stop reading and free the bytes kept. */
void output_close(struct output *o);

uint64_t output_end_offset(const struct output *o); /* bytes so far */
/* How many bytes from pos on are lost. */
uint64_t output_lost_bytes(const struct output *o, uint64_t pos);
/* Some bytes are not in the file yet. */
bool output_has_unspooled(const struct output *o);
/* How many bytes from pos on are not in memory: lost, or in a file. */
uint64_t output_bytes_not_in_memory(const struct output *o, uint64_t pos);
/* Copy from pos; 0 when those bytes are not in memory. */
size_t output_read(const struct output *o, uint64_t pos, void *to, size_t n);
/* The same for a reader, which is notified when bytes have arrived from the file
 * (spool_reader_is_waiting()). */
size_t output_read_for_reader(struct output_reader *r, uint64_t pos, void *to, size_t n);
/* Copy the bytes from `from` to `to` that are still in memory to a ring of their own, which is in
 * the same budget.  -ENOMEM: they do not fit. */
[[nodiscard]] int output_copy(const struct output *o, uint64_t from, uint64_t to, struct ring *ret);
/* The last line in it, also if it is still in the pipe; empty: there is none, or it is too long. */
void output_read_last_line(const struct output *o, char *to, size_t size);

void output_add_reader(struct output *o, struct output_reader *r, uint64_t pos);
void output_remove_reader(struct output_reader *r);
/* The reader took bytes, or skipped lost ones. */
void output_reader_advance(struct output_reader *r, uint64_t n);
void output_notify_readers(struct output *o);
/* Wait for this reader alone from now on; NULL: as the mode says. */
void output_set_awaited_reader(struct output *o, struct output_reader *r);
/* All bytes before upto are in the file. */
void output_set_spooled(struct output *o, uint64_t upto);
/* Nothing more goes to the file, which has no room or (lost) is gone.  The ring continues, and
 * readers see a gap. */
void output_stop_spooling(struct output *o, bool lost);
/* Notify readers of a change other than output. */
void output_notify_change(struct output *o);
#endif
