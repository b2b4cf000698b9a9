/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_FILE_CHILD_OP_H
#define CAY_INIT_FILE_CHILD_OP_H
/*
 * child-op - an operation carried out by a child that is the user, on the connection itself
 *
 *	PID 1: request -> child_op_start() -> fork -> detach the connection, watch for its end
 *	child: become the user, chdir to the workspace -> fn() -> reply -> exit
 *
 * The child runs blocking code: a FIFO, a stalled disk or a directory of a million entries
 * delays no other request.  It inherits the decoded body and query, and the parser, by fork.
 * PID 1 ends the child when the client leaves and at a deadline: SIGTERM, and a moment later
 * SIGKILL for its whole session, unless it reports progress in cleaning up
 * (child_op_report_progress()).
 *
 * The deadline limits the time in which no byte moves on the connection, except while the
 * child waits for the client.  The child and PID 1 settle in shared memory which of them
 * replies: at the deadline, or when the child was killed, PID 1 replies with the error, or
 * closes the connection if the reply has begun.
 *
 * Bounded: CHILD_OPS_MAX children, one connection each; KIB(64) of buffers in a child, and what
 * operations on screens and browsers say.  One
 * cgroup holds all of them.
 */
#include "init/core/init.h"

#define CHILD_OPS_MAX 64

struct child_op;

/* In the child, as the user, in the workspace.  rq is the child's copy.  It replies by exactly
 * one of the calls below; returning without a reply is an internal error.  SIGPIPE is ignored: code
 * that executes a program must reset it (base/spawn.h does). */
typedef void child_op_fn(struct child_op *w, struct request *rq);

/* In PID 1.  Takes the request, and replies if the child cannot be started. */
void child_op_start(struct init *in, struct request *rq, child_op_fn *fn, uint64_t deadline_ms);
/* How many of them carry out fn. */
[[nodiscard]] unsigned child_op_count(const struct init *in, child_op_fn *fn);
/* A child exited; false: it is none of these. */
bool child_op_handle_exit(struct init *in, pid_t pid, int status);

/* In the child. */
/* PID 1's state as it was at the fork: a copy, to read. */
const struct init *child_op_init(const struct child_op *w);
/* Of a raw body: the number of bytes, 0 at its end, -EPIPE: the client left, -EBADMSG: not a
 * valid body, -EFBIG: too long, -ETIMEDOUT: no byte came. */
[[nodiscard]] ssize_t child_op_read(struct child_op *w, void *p, size_t n);
/* The same without a copy: *ret is valid until the next call. */
[[nodiscard]] ssize_t child_op_read_piece(struct child_op *w, const void **ret);
/* Reply for a child_op_read() that failed with r. */
void child_op_fail_body(struct child_op *w, ssize_t r);
/* Add a header to the reply to come; both must be printable ASCII. */
[[nodiscard]] int child_op_add_header(struct child_op *w, const char *name, const char *value);
/* A whole reply: the value, or the error if err has one. */
void child_op_reply_json(struct child_op *w, const struct field_table *t, const void *value,
			 struct cay_err *err);
void child_op_fail(struct child_op *w, const struct cay_err *err);
/* Start a reply whose body follows; length may be REQUEST_LENGTH_UNKNOWN (then chunked).
 * Blocks while the client does not read; -EPIPE when it has left. */
[[nodiscard]] int child_op_start_stream(struct child_op *w, int status, const char *media,
					uint64_t length);
[[nodiscard]] int child_op_write(struct child_op *w, const void *p, size_t n);
/* Send bytes of a file, without a copy where the kernel can; -ENODATA when it is shorter. Only
 * in a reply of known length. */
[[nodiscard]] int child_op_send_file(struct child_op *w, int fd, uint64_t offset, uint64_t n);
/* Without it the connection ends early, which the client detects. */
void child_op_end_stream(struct child_op *w);
/* Reply 101 with that Upgrade, then copy bytes between the client and fd until one of them ends. */
void child_op_join(struct child_op *w, const char *protocol, int fd);
/* Restart the deadline, for long work that moves no byte on the connection. */
void child_op_report_progress(struct child_op *w);
#endif
