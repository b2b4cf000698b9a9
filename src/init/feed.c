/* SPDX-License-Identifier: Apache-2.0 */
#include "init/feed.h"

#include <errno.h>

#include "init/job.h"

#define PENDING_MAX KIB(128) /* one piece of a body */

struct feed {
	struct writer writer; /* first: it is how the input knows us */
	struct job *job;
	struct request *rq;
	struct buf pending;
	bool ended, close;
};

/* Over; the request is not touched. */
static void feed_free(struct feed *f)
{
	input_leave(&f->writer);
	buf_fini(&f->pending);
	free(f);
}

static void fail(struct feed *f, enum cay_code code, const char *why)
{
	struct request *rq = f->rq;
	struct cay_err err = {};

	(void)cay_fail(&err, code, "%s", why);
	feed_free(f);
	request_fail(rq, &err);
}

static void done(struct feed *f)
{
	struct request *rq = f->rq;
	struct job *j = f->job;
	bool close = f->close;
	struct exec told;

	feed_free(f);
	if (close)
		input_close(&j->in);
	job_describe(j, &told);
	request_reply_json(rq, &exec_table, &told);
}

static void on_cut(struct writer *w)
{
	fail((struct feed *)w, CAY_E_STATE, "its standard input was closed, or taken over");
}

/* Returns false when the feed is no more. */
static bool write_some(struct feed *f, struct slice *bytes)
{
	if (input_write(&f->job->in, bytes) == 0)
		return true;
	on_cut(&f->writer);
	return false;
}

static void wait_for_room(struct feed *f)
{
	request_pause(f->rq);
	if (input_wait(&f->job->in) < 0)
		fail(f, CAY_E_INTERNAL, "cannot wait for standard input");
}

static void on_room(struct writer *w)
{
	struct feed *f = (struct feed *)w;
	struct slice rest = { f->pending.data, f->pending.len };

	if (!write_some(f, &rest))
		return;
	buf_consume(&f->pending, f->pending.len - rest.n);
	if (f->pending.len)
		wait_for_room(f);
	else if (f->ended)
		done(f);
	else
		request_resume(f->rq);
}

static void on_body(struct request *rq, struct slice bytes)
{
	struct feed *f = rq->data;

	if (!f->pending.len && !write_some(f, &bytes))
		return;
	if (!bytes.n)
		return;
	if (buf_add(&f->pending, bytes.p, bytes.n) < 0)
		fail(f, CAY_E_NO_MEMORY, "no memory for standard input");
	else
		wait_for_room(f);
}

static void on_body_end(struct request *rq)
{
	struct feed *f = rq->data;

	f->ended = true;
	if (!f->pending.len)
		done(f);
}

static void on_gone(struct request *rq)
{
	feed_free(rq->data);
}

void feed_start(struct job *j, struct request *rq, bool close)
{
	static const struct request_events events = { .body = on_body,
						      .body_end = on_body_end,
						      .gone = on_gone };
	struct cay_err err = {};
	struct feed *f = calloc(1, sizeof(*f));
	int r;

	if (!f) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for standard input");
		request_fail(rq, &err);
		return;
	}
	*f = (struct feed){ .writer = { .room = on_room, .cut = on_cut },
			    .job = j,
			    .rq = rq,
			    .close = close,
			    .pending = BUF_INIT(PENDING_MAX) };
	r = input_hold(&j->in, &f->writer);
	if (r < 0) {
		fail(f, CAY_E_STATE,
		     r == -EPIPE ? "the command's standard input is closed"
				 : "another request is writing to it");
		return;
	}
	rq->data = f;
	rq->events = &events;
}
