/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_CORE_INIT_H
#define CAY_INIT_CORE_INIT_H
/*
 * init - the state of PID 1 of a sandbox, which runs one loop
 *
 * PID 1 listens on the socket it inherits, connects only to loopback of the sandbox, holds no
 * secret and never exits after start-up: every failure is a reply.  Programs inside are
 * hostile to it.  Requests are bounded by EXECS_*, the server's limits and one memory budget
 * for all output.
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
#define SERVICES_MAX 64       /* not counted as execs; each has at most one process tree */
#define OUTPUT_BUDGET MIB(16) /* unless the claim has another */
#define CLAIM_POOL KIB(512)
/* Connections, five fds per live exec, two per exec whose output a process still holds open,
 * two per spooled exec, five per service. */
#define FDS_WANTED 2048

struct exec;
struct service;
struct start_scripts;
struct child_op;
struct kernel_parent;
struct child_op_shared;
struct session;
struct spool;
struct spooler;

/* Of meminfo.c. */
struct meminfo {
	int fd; /* -EBADF: there is none */
	uv_timer_t timer;
	uint64_t interval_ms, written_ms, last_used;
};

/* Of spool.c: the files of outputs that spool. */
struct spools {
	struct spool *first;
	struct spooler *spooler; /* NULL while there is no child */
	unsigned failed_starts;
	uv_timer_t timer; /* restarts the spooler; initialised with the first output */
	int cgroup;       /* created by the first spooler, or -EBADF */
	uint64_t last_id, last_tag;
};

/* Of service.c. */
struct services {
	struct service *first;   /* in start order */
	struct service *deleted; /* deleted while a client reads the log */
	unsigned n;              /* of both */
	uint64_t left_out;
	struct service *awaited; /* must be up, or have failed, before the next starts */
	void (*on_all_up)(void *arg);
	void *cb_arg;
};

/* Of child-op.c: operations that a forked child carries out. */
struct child_ops {
	struct child_op *first;
	unsigned n;
	int cgroup;                     /* of all of them, created by the first; or -EBADF */
	struct child_op_shared *shared; /* CHILD_OPS_MAX, shared with the children */
};

/* Of session.h: all shells, or all kernels. */
struct sessions {
	struct session *first; /* oldest first; includes deleted ones that a client reads */
	unsigned n;
	size_t run_texts;    /* bytes of the runs that have not ended */
	size_t result_bytes; /* of kernels: of all results kept */
};

struct init {
	uv_loop_t loop;
	uv_signal_t child;
	const struct clk *clk;
	int cgroup; /* PID 1's own; -EBADF with --no-cgroup */
	struct memory memory;
	struct meminfo meminfo;
	struct rlimit nofile; /* the original limit, which programs get */
	struct ring_budget budget;
	struct exec *oldest_exec, *newest_exec;
	unsigned n_live_execs, n_finished_execs;
	bool has_strays; /* processes of an exec that was freed may live on */
	bool claimed;
	bool usable; /* claimed, and the start scripts and services of the image have run */
	struct start_scripts *start_scripts; /* while they run (start-scripts.c) */
	bool start_failed;                   /* a start script failed: */
	uint8_t start_failure[START_SIZE];
	struct services services;
	struct child_ops child_ops;
	struct sessions shells, kernels;
	struct kernel_parent *kernel_parent; /* NULL: no claim asked for one */
	struct spools spools;
	uint64_t born_ns;      /* CLOCK_BOOTTIME */
	struct buf info_cache; /* the last complete Info with versions */
	uint64_t info_cached_ns;
	struct entrypoint_status entrypoint; /* the main program, once started */
	struct claim claim;                  /* in claim_arena */
	struct arena claim_arena;
	unsigned n_port_connections; /* connecting or connected (port-connect.c) */
	struct server *server;
};

/* For uv_close(): the handle's data is allocated, and contains the handle. */
static inline void on_handle_closed_free(uv_handle_t *h)
{
	free(h->data);
}
#endif
