/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_WORK_INTERNAL_H
#define CAY_INIT_WORK_INTERNAL_H
/*
 * What work.c (PID 1) and work-child.c (the child) share.  A struct work is made by PID 1
 * and copied by the fork; from then on each has its own, but for *told.
 */
#include <stdatomic.h>

#include "init/work.h"

#define WORK_OUT KIB(4)
#define WORK_IN KIB(60)

/* Memory of both.  The child is the sandbox's: what it writes here can mislead PID 1 about
 * this one connection, which the child has anyway, and about nothing else. */
struct work_shared {
	atomic_bool begun;   /* who sets it answers */
	atomic_bool waiting; /* for the client */
	atomic_uint moved;
};

struct work {
	struct init *init;
	struct work *next;
	struct work_shared *told;
	struct request *rq; /* PID 1: until the fork */
	struct request_wire wire;
	char id[REQUEST_ID_LEN + 1];
	work_fn *fn;

	/* in PID 1 */
	pid_t pid;
	unsigned slot, handles;
	int fd; /* the connection once more: to see its end, and to say why it ends */
	uv_poll_t poll;
	uv_timer_t timer;
	uint64_t deadline_ms;
	unsigned moved, graces;
	bool ending, ended;

	/* in the child */
	bool begun, chunked, over;
	uint64_t left;      /* of a reply whose length is known */
	uint64_t taken;     /* of the body */
	struct slice piece; /* of it, parsed and not handed out */
	struct buf extra;
};

/* The child. */
int work_inside(void *arg);
void work_not_inside(void *arg, int fd, const struct cay_err *err);
/* A whole error reply as bytes. */
[[nodiscard]] int work_error_bytes(const char *id, const struct cay_err *err, const char *extra,
				   struct buf *ret);
#endif
