/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_OUTPUT_STREAM_H
#define CAY_INIT_EXEC_OUTPUT_STREAM_H
/*
 * stream - a job's output on its way to one client
 *
 *	wait    nothing until the job ended, then one JSON object
 *	frames  wire/frame.h
 *	sse     the same as text/event-stream
 *	raw     the bytes of one output and nothing else
 *
 * The client's pace decides: when its connection is full the stream stops taking,
 * and what that does to the job is the output's mode.  A client that leaves takes
 * its stream with it, and the job only if it asked for that.  Takes the request.
 */
#include "init/exec/exec.h"

enum output_stream_form { STREAM_WAIT, STREAM_FRAMES, STREAM_SSE, STREAM_RAW };

/* The form a client asked for; otherwise what it gets. */
enum output_stream_form output_stream_choose_form(const struct http_head *h,
						  enum output_stream_form otherwise);
/* The reply to exec.run, from the first byte of both outputs.  The job may still
 * be starting.  part: of a JSON reply.  ends: the job is killed when the client leaves. */
void output_stream_reply_run(struct exec *exec, struct request *rq, const struct run_query *part,
			     enum output_stream_form form, bool ends);
/* The reply to exec.run when nobody waits. */
void exec_reply_when_started(struct exec *exec, struct request *rq);
/* The reply to exec.output. */
void output_stream_reply_output(struct exec *exec, struct request *rq,
				const struct exec_output_query *q, enum output_stream_form form);
/* The reply to service.log.  The log outlives its readers; `complete` ends them. */
void output_stream_reply_log(struct output *log, struct request *rq,
			     const struct service_log_query *q, enum output_stream_form form);
/* The reply to shell.output: one output of a shell, which is `complete` when that has ended. */
void output_stream_reply_shell(struct output *o, struct request *rq,
			       const struct exec_output_query *q, enum output_stream_form form);

/* What a run wrote: a part of outputs that go on behind it. */
struct output_range {
	bool finished;
	uint64_t output_end[2]; /* once it is over */
	const struct end *end;
	unsigned users; /* streams that look at this */
	/* The client of one has left, or NULL. */
	void (*on_client_left)(void *arg);
	void *arg;
};
/* The reply to shell.run, as frames or events.  Notify the outputs when it is over. */
void output_stream_reply_shell_run(struct output out[static 2], const uint64_t from[static 2],
				   struct output_range *bound, struct request *rq,
				   enum output_stream_form form);
#endif
