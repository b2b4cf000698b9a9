/* SPDX-License-Identifier: Apache-2.0 */
#include "init/feed.h"

#include <errno.h>

#include "init/job.h"

#define PENDING_MAX KIB(128) /* one piece of a body */

struct feed {
	struct job *job;
	struct request *rq;
	struct buf pending;
	uv_poll_t poll;
	bool has_poll, ended, close;
};

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

/* Over; the request is not touched. */
static void feed_free(struct feed *f)
{
	f->job->feed = NULL;
	buf_fini(&f->pending);
	if (f->has_poll)
		uv_close((uv_handle_t *)&f->poll, on_closed);
	else
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
		job_close_stdin(j);
	job_describe(j, &told);
	request_reply_json(rq, &exec_table, &told);
}

void feed_cut(struct feed *f)
{
	fail(f, CAY_E_STATE, "the command closed its standard input");
}

static void on_ready(uv_poll_t *p, int, int);

/* Returns false when the feed is no more. */
static bool write_some(struct feed *f, struct slice *bytes)
{
	while (bytes->n) {
		ssize_t n = write(f->job->stdin_fd, bytes->p, bytes->n);

		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return true;
		if (n < 0) {
			feed_cut(f);
			return false;
		}
		bytes->p += n;
		bytes->n -= (size_t)n;
	}
	return true;
}

static void wait_for_room(struct feed *f)
{
	if (!f->has_poll) {
		if (uv_poll_init(request_loop(f->rq), &f->poll, f->job->stdin_fd) < 0) {
			fail(f, CAY_E_INTERNAL, "cannot wait for standard input");
			return;
		}
		f->poll.data = f;
		f->has_poll = true;
	}
	request_pause(f->rq);
	(void)uv_poll_start(&f->poll, UV_WRITABLE | UV_DISCONNECT, on_ready);
}

static void on_ready(uv_poll_t *p, int, int)
{
	struct feed *f = p->data;
	struct slice rest = { f->pending.data, f->pending.len };

	if (!write_some(f, &rest))
		return;
	buf_consume(&f->pending, f->pending.len - rest.n);
	if (f->pending.len) {
		(void)uv_poll_start(p, UV_WRITABLE | UV_DISCONNECT, on_ready);
		return;
	}
	(void)uv_poll_stop(p);
	if (f->ended)
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
	struct feed *f = NULL;

	if (j->stdin_fd < 0)
		(void)cay_fail(&err, CAY_E_STATE, "the command's standard input is closed");
	else if (j->feed)
		(void)cay_fail(&err, CAY_E_STATE, "another request is writing to it");
	else if (!(f = calloc(1, sizeof(*f))))
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for standard input");
	if (!f) {
		request_fail(rq, &err);
		return;
	}
	*f = (struct feed){ .job = j, .rq = rq, .close = close, .pending = BUF_INIT(PENDING_MAX) };
	j->feed = f;
	rq->data = f;
	rq->events = &events;
}
