/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_FILE_CHILD_OP_H
#define CAY_INIT_FILE_CHILD_OP_H
/*
 * work - an operation done by a child that is the user, on the connection itself
 *
 *	loop: request -> child_op_start() -> fork -> forget the connection, watch for the end
 *	child: become the user, go to the workspace -> fn() -> reply -> exit
 *
 * What the child does is straight blocking code: a FIFO, a stalled disk or a
 * directory of a million entries holds up nobody else.  PID 1 keeps a way to see
 * that the client left, and a deadline; either ends the child, and so does the
 * end of the sandbox: SIGTERM, and a moment later SIGKILL for its whole session, unless it
 * says that it gets on with taking away what it made (child_op_report_progress()).  What was
 *decoded (the body, the query) is the child's by fork, and so is the parser.
 *
 * The deadline is the longest time in which no byte moves on the connection while it is
 * not the client that is waited for.  Who begins the answer is settled in memory that
 * both see: past the deadline, or when the child was killed, PID 1 says so if nothing was
 * said yet, and otherwise cuts the connection.
 *
 * Bounded: WORKS_MAX children, one connection each; KIB(64) of buffers in a child.
 * All of them live in one cgroup, so none costs one of its own.
 */
#include "init/core/init.h"

#define CHILD_OPS_MAX 64

struct child_op;

/* In the child, as the user, in the workspace.  It answers by exactly one of the calls
 * below; returning without an answer is an internal error, told as one.  SIGPIPE is
 * ignored: who executes a program puts it back (base/spawn.h does). */
typedef void child_op_fn(struct child_op *w);

/* In PID 1.  Takes the request in every case: what cannot be started is answered. */
void child_op_start(struct init *in, struct request *rq, child_op_fn *fn, uint64_t deadline_ms);
/* Was this child one of ours?  Called by on_child_exit_signal(). */
bool child_op_handle_exit(struct init *in, pid_t pid, int status);

/* In the child. */
const struct http_head *child_op_http_head(const struct child_op *w);
const struct op *child_op_operation(const struct child_op *w);
const void *child_op_body(const struct child_op *w);  /* decoded, or NULL */
const void *child_op_query(const struct child_op *w); /* decoded, or NULL */
struct arena *child_op_arena(struct child_op *w);
/* Of a raw body: how much, 0 at its end, -errno (-EPIPE: the client left in the middle,
 * -EBADMSG: it is not a body, -EFBIG: it is too long, -ETIMEDOUT: nothing comes). */
[[nodiscard]] ssize_t child_op_read(struct child_op *w, void *p, size_t n);
/* The same without a copy: *ret is good until the next call. */
[[nodiscard]] ssize_t child_op_read_piece(struct child_op *w, const void **ret);
/* How to say that child_op_read() failed: an error, unless the client is gone anyway. */
void child_op_fail_body(struct child_op *w, ssize_t r);
/* Add a header to the reply to come; both must be printable ASCII. */
[[nodiscard]] int child_op_add_header(struct child_op *w, const char *name, const char *value);
/* A whole reply. */
void child_op_reply_json(struct child_op *w, const struct field_table *t, const void *value);
void child_op_fail(struct child_op *w, const struct cay_err *err);
/* A reply whose body follows; length or REQUEST_LENGTH_UNKNOWN (then chunked).  Blocks while the
 * client does not read; when it left, -EPIPE. */
[[nodiscard]] int child_op_start_stream(struct child_op *w, int status, const char *media,
					uint64_t length);
[[nodiscard]] int child_op_write(struct child_op *w, const void *p, size_t n);
/* The file's bytes, without a copy where the kernel can; what is short is an error (-ENODATA).
 * Only in a reply whose length is known. */
[[nodiscard]] int child_op_send_file(struct child_op *w, int fd, uint64_t offset, uint64_t n);
/* All was written; without it the connection just ends, and the client sees that. */
void child_op_end_stream(struct child_op *w);
/* Something moved that is not a byte of the connection: the deadline begins anew.  For
 * work that is long because there is much of it. */
void child_op_report_progress(struct child_op *w);
#endif
