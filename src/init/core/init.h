/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_INIT_H
#define CAY_INIT_CORE_INIT_H
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

#include "base/arena.h"
#include "base/clock.h"
#include "init/core/memory.h"
#include "init/core/ring.h"
#include "net/server.h"
#include "wire/entrypoint.h"
#include "wire/start.h"

#define EXECS_LIVE_MAX 64
#define EXECS_FINISHED_MAX 256
#define SERVICES_MAX 64       /* beside the jobs: each has at most one process tree */
#define OUTPUT_BUDGET MIB(16) /* unless the claim says otherwise */
#define CLAIM_POOL KIB(512)
/* Connections, five fds a live job, two for each that left a writer behind, two for each
 * that spooled, five a service. */
#define FDS_WANTED 2048

struct exec;
struct service;
struct start_scripts;
struct child_op;
struct child_op_shared;
struct shell;
struct spool;
struct spooler;

/* What is written to /proc/meminfo (meminfo.c). */
struct meminfo {
	int fd; /* -EBADF: there is none */
	uv_timer_t timer;
	uint64_t interval_ms, written_ms, last_used;
};

/* The files of outputs that spool (spool.c). */
struct spools {
	struct spool *first;
	struct spooler *spooler; /* NULL while there is no child */
	unsigned failed_starts;
	uv_timer_t timer; /* restarts the spooler; initialised with the first output */
	int cgroup;       /* created by the first spooler, or -EBADF */
	uint64_t last_id, last_tag;
};

/* The services (service.c). */
struct services {
	struct service *first;   /* in the order they are started */
	struct service *deleted; /* deleted, and somebody still reads the log */
	unsigned n;              /* of both */
	uint64_t left_out;
	struct service *awaited; /* the one whose start is waited for before the next */
	void (*on_all_up)(void *arg);
	void *cb_arg;
};

/* The operations that children do (child-op.c). */
struct child_ops {
	struct child_op *first;
	unsigned n;
	int cgroup;                     /* of all of them, made by the first; or -EBADF */
	struct child_op_shared *shared; /* WORKS_MAX, in memory that is theirs too */
};

/* The shells (shell.c). */
struct shells {
	struct shell *first; /* oldest first; deleted ones, too, while somebody reads them */
	unsigned n;
};

struct init {
	uv_loop_t loop;
	uv_signal_t child;
	const struct clk *clk;
	int cgroup; /* our own directory; -EBADF with --no-cgroup */
	struct memory memory;
	struct meminfo meminfo;
	struct rlimit nofile; /* as it was when we started; programs get it back */
	struct ring_budget budget;
	struct exec *oldest_exec, *newest_exec;
	unsigned n_live_execs, n_finished_execs;
	bool has_strays; /* of a job that was forgotten somebody lives on */
	bool claimed;
	bool usable; /* claimed, and what the image has for its start has run */
	struct start_scripts *start_scripts; /* while its start scripts run (start-scripts.c) */
	bool start_failed;                   /* one of them failed; how: */
	uint8_t start_failure[START_SIZE];
	struct services services;
	struct child_ops child_ops;
	struct shells shells;
	struct spools spools;
	uint64_t born_ns;                    /* on the clock of the boot */
	struct buf info_cache;               /* the last Info with versions */
	uint64_t info_cached_ns;             /* and when that was */
	struct entrypoint_status entrypoint; /* the main program, once it was started */
	struct claim claim;                  /* in claim_pool */
	struct arena claim_arena;
	unsigned n_port_connections; /* to ports, being made or there (port-connect.c) */
	struct server *server;
};
#endif
