/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_STREAM_H
#define CAY_INIT_STREAM_H
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
 * its stream with it, never the job.  Takes the request.
 */
#include "init/job.h"

enum stream_form { STREAM_WAIT, STREAM_FRAMES, STREAM_SSE, STREAM_RAW };

/* The form a client asked for; otherwise what it gets. */
enum stream_form stream_form(const struct http_head *h, enum stream_form otherwise);
/* The reply to exec.run, from the first byte of both outputs.  The job may still
 * be starting. */
void stream_run(struct job *j, struct request *rq, enum stream_form form);
/* The reply to exec.run when nobody waits. */
void stream_detach(struct job *j, struct request *rq);
/* The reply to exec.output. */
void stream_output(struct job *j, struct request *rq, const struct exec_output_query *q,
		   enum stream_form form);
#endif
