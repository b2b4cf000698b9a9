/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_SPOOL_H
#define CAY_INIT_EXEC_SPOOL_H
/*
 * spool - what of an output has no room in memory, in a file without a name
 *
 *	PID 1                        the spooler, a child of PID 1
 *	ring      -> WRITE ->        pwrite()
 *	spooled   <- WROTE <-
 *	window    <- DATA  <-        pread()
 *
 * A disk may stall for as long as it likes, so PID 1 neither opens nor reads nor writes
 * these files: one child does, in straight blocking code, for all outputs.  While it
 * waits, what was not written fills half of a ring, and then the command waits in its
 * pipe; nobody else does.
 *
 * PID 1 holds a second descriptor of a file, if closing it cannot wait for anybody, so that
 * whoever kills the spooler loses nothing: the next one is born with all of them.
 *
 * Bounded: one child while there is an output that spools; SPOOL_PIECE for a reader that
 * goes back to what is only in the file; what is under way is in the socket's buffer.
 */
#include "init/exec/output.h"

struct init;

/* All this output reads is kept in a file.  -errno, and it is as before. */
[[nodiscard]] int spool_add(struct init *in, struct output *o);
/* The output is forgotten, and its file with it. */
void spool_remove(struct output *o);
/* There is more in the ring. */
void spool_write_pending(struct output *o);
/* Copy from pos, which is in the file and not in the ring; 0: it was asked for, and the reader
 * is told when it is here. */
size_t spool_read(struct output_reader *r, uint64_t pos, void *to, size_t n);
/* It was asked for and is not here yet. */
bool spool_reader_is_waiting(const struct output_reader *r);
#endif
