/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_INIT_H
#define CAY_INIT_INIT_H
/*
 * init - PID 1 of a sandbox: its one loop and what it holds
 *
 * It listens on the socket it was born with and never dials, holds no secret, and
 * after start-up never exits: whatever fails is a reply.  What runs inside is
 * hostile to it; what asks from outside is bounded by tables (JOBS_*, the
 * server's limits, one memory budget for all output).
 */
#include <sys/resource.h>
#include <uv.h>

#include "base/clock.h"
#include "base/pool.h"
#include "init/ring.h"
#include "net/server.h"
#include "wire/entry.h"

#define JOBS_LIVE 64
#define JOBS_FINISHED 256
#define OUTPUT_BUDGET MIB(16)
#define CLAIM_POOL KIB(512)
/* Connections, five fds a live job, two for each that left a writer behind. */
#define FDS_WANTED 2048

struct job;

struct init {
	uv_loop_t loop;
	uv_signal_t child;
	const struct clk *clk;
	int cgroup;           /* our own directory; -EBADF with --no-cgroup */
	struct rlimit nofile; /* as it was when we started; programs get it back */
	struct ring_budget budget;
	struct job *oldest, *newest;
	unsigned live, finished;
	bool claimed;
	struct entry entry; /* the main program, once it was started */
	struct claim claim; /* in claim_pool */
	struct pool claim_pool;
	struct server *server;
};

/* The handlers of everything cay-init serves (api.c). */
extern const struct server_route init_routes[];
extern const size_t init_n_routes;
void init_handle(struct request *rq, void *arg);
#endif
