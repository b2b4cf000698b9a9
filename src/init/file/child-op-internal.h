/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_FILE_CHILD_OP_INTERNAL_H
#define CAY_INIT_FILE_CHILD_OP_INTERNAL_H
/*
 * Shared by child-op.c (PID 1) and child-op-child.c (the child).  PID 1 creates a struct
 * child_op and the fork copies it; from then on each process has its own, but for *shared.
 */
#include <stdatomic.h>

#include "init/file/child-op.h"

#define CHILD_OP_OUT KIB(4)
#define CHILD_OP_IN KIB(60)

/* Shared memory.  The child belongs to the sandbox: what it writes here can mislead PID 1
 * about this one connection, which the child has anyway, and about nothing else. */
struct child_op_shared {
	atomic_bool reply_claimed; /* the process that sets it replies */
	atomic_bool waits_for_client;
	atomic_uint progress;
};

struct child_op {
	struct init *init;
	struct child_op *next;
	struct child_op_shared *shared;
	struct request *rq; /* in PID 1 until the fork */
	struct request_wire wire;
	char id[REQUEST_ID_LEN + 1];
	child_op_fn *fn;

	/* in PID 1 */
	pid_t pid;
	unsigned slot, handles;
	int fd; /* a duplicate of the connection: to see its end, and to reply */
	uv_poll_t poll;
	uv_timer_t timer;
	uint64_t deadline_ms;
	unsigned last_progress, graces;
	bool ending, ended;

	/* in the child */
	bool reply_started, chunked, reply_finished;
	uint64_t reply_left; /* of a reply whose length is known */
	uint64_t body_taken;
	struct slice piece; /* of the body, parsed and not handed out */
	struct buf extra;
};

/* In the child. */
int child_op_main(void *arg);
void child_op_setup_failed(void *arg, int fd, const struct cay_err *err);
/* Before anything of a reply is sent: past the deadline PID 1 replies instead, and the child ends.
 */
void child_op_claim_reply(struct child_op *w);
/* While the child waits for the client there is no deadline. */
void child_op_wait_begin(struct child_op *w);
/* A whole error reply as bytes. */
[[nodiscard]] int child_op_format_error(const char *id, const struct cay_err *err,
					const char *extra, struct buf *ret);
#endif
