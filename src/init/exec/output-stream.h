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
 * The events of a run come at their place between the bytes: as events of their own names in sse,
 * as lines of JSON in a stream `events` of frames.
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

/* Something that a run tells between bytes of its outputs: a result of a kernel. */
struct output_event {
	struct output_event *next;
	uint64_t at[2]; /* bytes of the outputs before it */
};

/* The output of a run: a part of outputs that continue after it. */
struct output_range {
	bool finished;
	uint64_t output_end[2]; /* set when it is finished */
	const struct end *end;
	struct output_event *events; /* in order; not freed while there are users */
	/* Its name, and its text as one JSON object; needed when there are events. */
	const char *(*event_name)(const struct output_event *e);
	void (*event_write)(const struct output_event *e, struct jw *w);
	unsigned users; /* streams that use it */
	/* A stream's client left; or NULL. */
	void (*on_client_left)(void *arg);
	void *arg;
};
/* The reply to shell.run or kernel.run, as frames or events.  The outputs wait for its client until
 * the caller sets another awaited reader; the caller notifies them when the run has finished. */
void output_stream_reply_session_run(struct output out[static 2], const uint64_t from[static 2],
				     struct output_range *bound, struct request *rq,
				     enum output_stream_form form);
#endif
