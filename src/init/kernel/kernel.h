/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_KERNEL_KERNEL_H
#define CAY_INIT_KERNEL_KERNEL_H
/*
 * kernel - an interpreter of Python, Node or R that keeps its variables; struct kernel_info is its
 * form in a reply
 *
 * A kernel is a session (session.h) of a runner (kernel-language.h).  PID 1 sends code on one pipe
 * and reads events from another (kernel-frame.h); stdout and stderr are those of any process.  The
 * runner flushes its outputs before an event, and waits for an answer after it, so the bytes that
 * were written at the event are exactly those before it: results and output keep their order
 * without a clock.
 *
 * A kernel that has ended is restarted by its next run, or by kernel.restart.
 *
 * Bounded: KERNELS_MAX kernels; RESULTS_MAX bytes and EVENTS_MAX events of a run, which the runner
 * respects and a kernel that does not is killed for; the results of all ended runs within the
 * budget of outputs, the oldest are dropped first.
 */
#include "init/kernel/kernel-event.h"
#include "init/kernel/kernel-frame.h"
#include "init/kernel/kernel-language.h"
#include "init/session/session.h"

#define KERNELS_MAX 16
#define RESULTS_MAX MIB(9)
#define EVENTS_MAX 10100

struct code_run {
	struct run run;
	struct output_event **last_event; /* where the next one goes */
	unsigned n_events;
	size_t event_bytes;    /* of the events that are kept */
	size_t frame_bytes;    /* of all events */
	uint64_t dropped;      /* results that are not kept */
	uint64_t reply_max;    /* bytes of results in a reply that was waited for */
	bool begun, restarted; /* begun: the runner has said so */
};

/* One end of a pipe; allocated, because its handle closes after the next one is open. */
struct kernel_channel {
	struct kernel *kernel;
	int fd;
	uv_poll_t poll;
};

struct kernel {
	struct session session;
	const struct kernel_language *language;
	/* for a restart, in arena: */
	const char *user, *start_cwd;
	struct field_map env;
	struct arena arena;
	struct kernel_channel *to_runner, *from_runner; /* NULL while it has no process */
	struct buf requests;                            /* frames that are not written yet */
	size_t requests_written;
	unsigned n_answers; /* since it was empty */
	struct kernel_frame_reader reader;
	char version[129], implementation[129], start_error[256];
	uint64_t restarts;
	int fork_fds[2]; /* its ends of the channels, while it waits to be forked; or -EBADF */
	bool forked;
	bool fork_failed;                /* so the next start is not a fork */
	struct request *restart_request; /* it is restarted when it has ended */
	bool restart;
};

static inline struct kernel *kernel_of(struct session *s)
{
	return (struct kernel *)s;
}

static inline const struct kernel *kernel_of_const(const struct session *s)
{
	return (const struct kernel *)s;
}

static inline struct code_run *code_run_of(struct run *r)
{
	return (struct code_run *)r;
}

/* kernel.c: its runs. */
void kernel_start_run(struct session *session);
void kernel_stop_run(struct session *session);
void kernel_free_run(struct run *r);
void on_kernel_events_readable(uv_poll_t *p, int status, int events);
/* Send a frame to its runner. */
void kernel_send(struct kernel *k, char type, struct slice payload);

/* kernel-open.c: its life. */
/* Start its interpreter; rq, or NULL, is replied to when it is ready. */
[[nodiscard]] int kernel_start(struct kernel *k, struct request *rq, struct cay_err *err);
void kernel_close_channel(struct kernel_channel **channel);
/* A new one, which is starting, for itself or in the place of another (session_add()); replies: rq
 * is replied to when it is ready.  NULL: it was. */
struct kernel *kernel_open(struct init *in, const struct kernel_create *q,
			   const struct session *replaced, struct request *rq, bool replies);
/* Copies from the arena; a text that does not fit sets *ok to false. */
const char *kernel_copy_text(struct arena *a, const char *text, bool *ok);
[[nodiscard]] bool kernel_copy_map(struct arena *a, const struct field_map *from,
				   struct field_map *to);
void kernel_close_fork_fds(struct kernel *k);
/* A file with the text of its runner. */
[[nodiscard]] int kernel_open_text(const struct kernel_language *l);
/* Variables of every kernel, with a low priority. */
extern const struct field_map kernel_env;

/* kernel-handlers.c */
void kernel_reply_info(const struct session *s, struct request *rq);
/* With the requested part of the output, and all results; NULL: without. */
void kernel_reply_run(struct run *r, struct request *rq, const struct run_query *q);

/* kernel-results.c: leave out of a reply the data and results that are more than `max` bytes of
 * JSON.  False: no memory. */
[[nodiscard]] bool kernel_limit_results(struct run_info *reply, uint64_t max, struct arena *arena);
#endif
