/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_SPOOL_H
#define CAY_INIT_EXEC_SPOOL_H
/*
 * spool - output that has no room in memory, in an unnamed file
 *
 *	PID 1                        the spooler, a child of PID 1
 *	ring      -> WRITE ->        pwrite()
 *	spooled   <- WROTE <-
 *	window    <- DATA  <-        pread()
 *
 * A disk may stall for any time, so PID 1 neither opens nor reads nor writes these files: one
 * child does so for all outputs, in blocking code.  While it waits, unwritten output fills half
 * of a ring, and then only the command waits, in its pipe.
 *
 * PID 1 holds a second descriptor of each file that it can close without blocking.  If the
 * spooler is killed, the next one inherits these and nothing is lost.
 *
 * Bounded: one child while an output spools; SPOOL_PIECE for each reader of bytes that are
 * only in the file; messages in transit fill at most the socket's buffer.
 */
#include "init/exec/output.h"

struct init;

/* Keep all output read from now on in a file.  On failure the output is unchanged. */
[[nodiscard]] int spool_add(struct init *in, struct output *o);
/* The output is closed: forget its file. */
void spool_remove(struct output *o);
/* The ring has new bytes. */
void spool_write_pending(struct output *o);
/* Copy from pos, which is in the file and not in the ring; 0: requested, and the reader is
 * notified when it arrives. */
size_t spool_read(struct output_reader *r, uint64_t pos, void *to, size_t n);
/* Requested, and not arrived yet. */
bool spool_reader_is_waiting(const struct output_reader *r);
#endif
