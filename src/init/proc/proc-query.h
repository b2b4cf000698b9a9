/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_PROC_PROC_QUERY_H
#define CAY_INIT_PROC_PROC_QUERY_H
/*
 * proc-query - an operation whose answer a child gathers
 *
 * The child is an internal exec (exec.h): reading /proc or files of the sandbox may block, and
 * a sandbox's user must not be able to stop PID 1.  It writes the answer to standard output
 * within PROC_QUERY_MS; when the client leaves it is killed.
 */
#include "init/core/init.h"

#define PROC_QUERY_MS 10000
#define PROC_QUERY_MAX MIB(1)
/* Exit status of a child whose answer is valid but lacks something; any other than 0 fails. */
#define PROC_QUERY_INCOMPLETE 2

struct proc_query {
	struct init *init;
	struct request *rq; /* in PID 1 NULL once the client has left */
	struct exec *exec;
	const char *user;             /* of the child; NULL: the sandbox's */
	int (*child_main)(void *arg); /* in the child; arg is the query, with its request */
	/* Replies, from what the child wrote. */
	void (*on_done)(struct proc_query *q, struct buf *body, bool incomplete);
	uint64_t pid; /* of process.signal */
	int sig;
};

/* Copies the query; the request is answered in every case. */
void proc_query_start(const struct proc_query *query);
/* In the child: write the reply, of at most max bytes; its exit status. */
[[nodiscard]] int proc_query_write_json(const struct field_table *t, const void *value, size_t max);
/* For on_done: the child wrote the reply. */
void proc_query_reply_json(struct proc_query *q, struct buf *body, bool incomplete);
#endif
