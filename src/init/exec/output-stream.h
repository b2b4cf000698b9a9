/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_OUTPUT_STREAM_H
#define CAY_INIT_EXEC_OUTPUT_STREAM_H
/*
 * output-stream - the output of an exec, sent to one client
 *
 *	wait    nothing until the exec has ended, then one JSON object
 *	frames  wire/frame.h
 *	sse     the same as text/event-stream
 *	raw     the bytes of one output
 *
 * When the client's connection is full the stream stops reading, which affects the exec as
 * the output's mode says.  When the client leaves, its stream ends, and the exec only if the
 * request said so.  Takes the request.
 */
#include "init/exec/exec.h"

enum output_stream_form { STREAM_WAIT, STREAM_FRAMES, STREAM_SSE, STREAM_RAW };

/* The form the client accepts, or `otherwise`. */
enum output_stream_form output_stream_choose_form(const struct http_head *h,
						  enum output_stream_form otherwise);
/* The reply to exec.run, from the first byte of both outputs.  The exec may still be starting.
 * part: of a JSON reply; NULL: reply as soon as it runs. */
void output_stream_reply_run(struct exec *exec, struct request *rq, const struct run_query *part);
/* The reply to exec.output; without an exec to shell.output and service.log, which end when o
 * is `complete`. */
void output_stream_reply_output(struct exec *exec, struct output *o, struct request *rq,
				const struct exec_output_query *q);

/* The output of a run: a part of outputs that continue after it. */
struct output_range {
	bool finished;
	uint64_t output_end[2]; /* set when it is finished */
	const struct end *end;
	unsigned users; /* streams that use it */
	/* A stream's client left; or NULL. */
	void (*on_client_left)(void *arg);
	void *arg;
};
/* The reply to shell.run, as frames or events.  The caller notifies the outputs when the run
 * has finished. */
void output_stream_reply_shell_run(struct output out[static 2], const uint64_t from[static 2],
				   struct output_range *bound, struct request *rq,
				   enum output_stream_form form);
#endif
