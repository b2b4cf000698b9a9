/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_WORK_H
#define CAY_INIT_WORK_H
/*
 * work - an operation done by a child that is the user, on the connection itself
 *
 *	loop: request -> work_start() -> fork -> forget the connection, watch for the end
 *	child: become the user, go to the workspace -> fn() -> reply -> exit
 *
 * What the child does is straight blocking code: a FIFO, a stalled disk or a
 * directory of a million entries holds up nobody else.  PID 1 keeps a way to see
 * that the client left, and a deadline; either ends the child, and so does the
 * end of the sandbox: SIGTERM, and a moment later SIGKILL for its whole session, unless it
 * says that it gets on with taking away what it made (work_alive()).  What was decoded (the
 * body, the query) is the child's by fork, and so is the parser.
 *
 * The deadline is the longest time in which no byte moves on the connection while it is
 * not the client that is waited for.  Who begins the answer is settled in memory that
 * both see: past the deadline, or when the child was killed, PID 1 says so if nothing was
 * said yet, and otherwise cuts the connection.
 *
 * Bounded: WORKS_MAX children, one connection each; KIB(64) of buffers in a child.
 * All of them live in one cgroup, so none costs one of its own.
 */
#include "init/init.h"

#define WORKS_MAX 64

struct work;

/* In the child, as the user, in the workspace.  It answers by exactly one of the calls
 * below; returning without an answer is an internal error, told as one.  SIGPIPE is
 * ignored: who executes a program puts it back (base/spawn.h does). */
typedef void work_fn(struct work *w);

/* In PID 1.  Takes the request in every case: what cannot be started is answered. */
void work_start(struct init *in, struct request *rq, work_fn *fn, uint64_t deadline_ms);
/* Was this child one of ours?  Called by job_reap(). */
bool work_reaped(struct init *in, pid_t pid, int status);

/* In the child. */
const struct http_head *work_head(const struct work *w);
const struct op *work_op(const struct work *w);
const void *work_body(const struct work *w);  /* decoded, or NULL */
const void *work_query(const struct work *w); /* decoded, or NULL */
struct pool *work_pool(struct work *w);
/* Of a raw body: how much, 0 at its end, -errno (-EPIPE: the client left in the middle,
 * -EBADMSG: it is not a body, -EFBIG: it is too long, -ETIMEDOUT: nothing comes). */
[[nodiscard]] ssize_t work_read(struct work *w, void *p, size_t n);
/* The same without a copy: *ret is good until the next call. */
[[nodiscard]] ssize_t work_read_piece(struct work *w, const void **ret);
/* How to say that work_read() failed: an error, unless the client is gone anyway. */
void work_fail_body(struct work *w, ssize_t r);
/* Add a header to the reply to come; both must be printable ASCII. */
[[nodiscard]] int work_header(struct work *w, const char *name, const char *value);
/* A whole reply. */
void work_reply_json(struct work *w, const struct field_table *t, const void *value);
void work_fail(struct work *w, const struct cay_err *err);
/* A reply whose body follows; length or REQUEST_LENGTH_UNKNOWN (then chunked).  Blocks while the
 * client does not read; when it left, -EPIPE. */
[[nodiscard]] int work_stream(struct work *w, int status, const char *media, uint64_t length);
[[nodiscard]] int work_write(struct work *w, const void *p, size_t n);
/* The file's bytes, without a copy where the kernel can; what is short is an error (-ENODATA).
 * Only in a reply whose length is known. */
[[nodiscard]] int work_send_file(struct work *w, int fd, uint64_t offset, uint64_t n);
/* All was written; without it the connection just ends, and the client sees that. */
void work_end(struct work *w);
/* Something moved that is not a byte of the connection: the deadline begins anew.  For
 * work that is long because there is much of it. */
void work_alive(struct work *w);
#endif
