/* SPDX-License-Identifier: Apache-2.0 */
#include "init/stream.h"

#include <assert.h>
#include <stdio.h>

#include "base/le.h"
#include "init/tell.h"
#include "wire/frame.h"

#define PIECE KIB(32)

struct stream {
	struct job *job;            /* or NULL: */
	struct output *log;         /* of a service, which ends when it is forgotten */
	struct stream_bound *bound; /* or the part of an output that is a run's */
	struct request *rq;
	enum stream_form form;
	struct reader readers[2];
	enum frame_stream names[2];
	unsigned n;
	bool detached; /* reply as soon as it runs */
	bool follow;   /* go on until the job ended */
	bool ends;     /* the job goes with its client */
	bool full;     /* the connection takes no more now */
	bool pumping;
	uint64_t left; /* bytes still wanted */

	/* who waits: what is wanted of the outputs, and the beginning of each */
	struct run_query part;
	size_t head_max;
	struct buf heads[2];
};

static const char *const media[] = {
	[STREAM_WAIT] = "application/json",
	[STREAM_FRAMES] = FRAME_MEDIA_TYPE,
	[STREAM_SSE] = "text/event-stream",
	[STREAM_RAW] = "application/octet-stream",
};

enum stream_form stream_form(const struct http_head *h, enum stream_form otherwise)
{
	if (http_accepts(h, media[STREAM_FRAMES]))
		return STREAM_FRAMES;
	return http_accepts(h, media[STREAM_SSE]) ? STREAM_SSE : otherwise;
}

static void stream_free(struct stream *s)
{
	s->pumping = true; /* detaching may wake us once more */
	for (unsigned i = 0; i < s->n; i++)
		output_detach(&s->readers[i]);
	if (s->job && s->job->arg == s)
		s->job->started = NULL;
	if (s->bound)
		s->bound->users--;
	buf_fini(&s->heads[0]);
	buf_fini(&s->heads[1]);
	free(s);
}

/* Nothing more will ever come. */
static bool is_over(const struct stream *s)
{
	if (s->bound)
		return s->bound->over;
	return s->job ? s->job->state == JOB_ENDED : s->log->complete;
}

/* JSON */

static void reply_ended(struct job *j, struct request *rq, const struct run_query *q,
			const struct buf heads[static 2])
{
	auto_told out = TOLD_INIT, errs = TOLD_INIT;
	struct cay_err err = {};
	struct exec told;

	job_describe(j, &told);
	if (tell(&j->out[0], 0, output_end(&j->out[0]), q, &heads[0], &out, &told.out) < 0 ||
	    tell(&j->out[1], 0, output_end(&j->out[1]), q, &heads[1], &errs, &told.err) < 0) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for the reply; read exec.output");
		request_fail(rq, &err);
		return;
	}
	request_reply_json(rq, &exec_table, &told);
}

/* The head goes to who waits before the ring has no room for it. */
static void keep_head(struct stream *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		struct buf *b = &s->heads[i];
		const struct output *o = s->readers[i].output;
		uint64_t end = output_end(o);
		size_t n = end < s->head_max ? (size_t)end : s->head_max;

		if (n <= b->len || buf_reserve(b, n - b->len) < 0)
			continue;
		while (b->len < n) {
			size_t some = output_read(o, b->len, b->data + b->len, n - b->len);

			if (!some)
				break; /* told as a gap, as what is lost always is */
			b->len += some;
		}
	}
}

/* Frames, SSE, raw */

/* Over: an honest end, or a connection closed in the middle. */
/* Who asked will not hear of it: what was to end with them does. */
static void left(const struct stream *s)
{
	if (s->ends)
		job_kill(s->job);
	if (s->bound && s->bound->left)
		s->bound->left(s->bound->arg);
}

static void finish(struct stream *s, bool honest)
{
	struct request *rq = s->rq;

	s->pumping = true; /* it may wake us once more */
	if (!honest)
		left(s);
	stream_free(s);
	if (honest)
		request_end(rq);
	else
		request_abort(rq);
}

/* False when memory ran out. */
static bool send_frame(struct stream *s, const struct frame *f)
{
	auto_buf b = BUF_INIT(FRAME_SSE_MAX);
	int r = s->form == STREAM_SSE ? frame_to_sse(f, &b) : frame_encode(f, &b);

	if (r >= 0)
		s->full = request_write(s->rq, b.data, b.len);
	return r >= 0;
}

static bool send_end(struct stream *s)
{
	static const struct end forgotten = { .reason = END_KILLED };
	auto_buf json = BUF_INIT(FRAME_JSON_MAX);
	struct jw w = jw_to(&json);
	struct frame f = { .type = FRAME_END };

	field_encode(&end_table, NULL,
		     s->bound ? s->bound->end
		     : s->job ? &s->job->end
			      : &forgotten,
		     &w);
	if (jw_done(&w) < 0)
		return false;
	f.length = (uint32_t)json.len;
	f.content = (const uint8_t *)json.data;
	return send_frame(s, &f);
}

static bool send_gap(struct stream *s, unsigned i, uint64_t lost)
{
	uint8_t content[sizeof(uint64_t)];
	struct frame f = { .type = FRAME_GAP,
			   .stream = (uint8_t)s->names[i],
			   .offset = s->readers[i].pos,
			   .length = sizeof(content),
			   .content = content };

	le64_put(content, lost);
	return send_frame(s, &f);
}

/* How much of n bytes at p may go out now: a letter is not torn between two
 * events unless nothing will ever complete it. */
static size_t whole(const struct stream *s, const uint8_t *p, size_t n)
{
	if (s->form != STREAM_SSE || is_over(s))
		return n;
	return utf8_whole((const char *)p, n);
}

/* Where a stream's output ends as far as it is known. */
static uint64_t known_end(const struct stream *s, unsigned i)
{
	return s->bound && s->bound->over ? s->bound->upto[i] : output_end(s->readers[i].output);
}

enum sent { SENT_NOTHING, SENT_SOME, SENT_FAILED };

static enum sent send_piece(struct stream *s, unsigned i)
{
	struct reader *r = &s->readers[i];
	uint64_t lost = output_lost(r->output, r->pos);
	uint8_t bytes[PIECE];
	struct frame f = { .type = FRAME_DATA,
			   .stream = (uint8_t)s->names[i],
			   .offset = r->pos,
			   .content = bytes };
	uint64_t end = known_end(s, i), there = end > r->pos ? end - r->pos : 0;
	size_t n = s->left < sizeof(bytes) ? (size_t)s->left : sizeof(bytes);

	n = n < there ? n : (size_t)there;
	if (lost > there)
		lost = there;
	if (lost) {
		/* raw bytes cannot say what is missing between them */
		if (s->form == STREAM_RAW || !send_gap(s, i, lost))
			return SENT_FAILED;
		output_moved(r, lost);
		return SENT_SOME;
	}
	n = output_read_for(r, r->pos, bytes, n);
	/* nothing completes a letter of which the rest is lost */
	if (!output_lost(r->output, r->pos + n))
		n = whole(s, bytes, n);
	if (!n)
		return r->broken ? SENT_FAILED : SENT_NOTHING;
	f.length = (uint32_t)n;
	if (s->form == STREAM_RAW)
		s->full = request_write(s->rq, bytes, n);
	else if (!send_frame(s, &f))
		return SENT_FAILED;
	s->left -= n;
	output_moved(r, n);
	return SENT_SOME;
}

static bool at_end(const struct stream *s)
{
	for (unsigned i = 0; i < s->n; i++)
		if (s->readers[i].pos < known_end(s, i))
			return false;
	return is_over(s);
}

/* What there is of it is on its way here from a file. */
static bool awaits(const struct stream *s)
{
	for (unsigned i = 0; i < s->n; i++)
		if (output_awaits(&s->readers[i]))
			return true;
	return false;
}

static void end_stream(struct stream *s)
{
	bool ok = !s->left || !s->follow;

	if (at_end(s))
		ok = s->form == STREAM_RAW || send_end(s);
	finish(s, ok);
}

static void pump(struct stream *s)
{
	bool some = true;

	if (s->pumping)
		return;
	s->pumping = true;
	while (some && !s->full && s->left) {
		some = false;
		for (unsigned i = 0; i < s->n && !s->full && s->left; i++) {
			enum sent sent = send_piece(s, i);

			if (sent == SENT_FAILED) {
				/* a gap in raw output ends it well: who asks again is told
				 * where it goes on */
				finish(s, s->form == STREAM_RAW && s->follow);
				return;
			}
			some |= sent == SENT_SOME;
		}
	}
	s->pumping = false;
	if (!s->full && (!s->left || ((is_over(s) || !s->follow) && !awaits(s))))
		end_stream(s);
}

static void on_more(struct reader *r)
{
	struct stream *s = r->data;

	if (s->form != STREAM_WAIT) {
		pump(s);
		return;
	}
	if (s->head_max)
		keep_head(s);
	if (is_over(s) && !s->pumping) {
		struct buf heads[2] = { s->heads[0], s->heads[1] };
		struct run_query part = s->part;
		struct request *rq = s->rq;
		struct job *j = s->job;

		s->heads[0] = s->heads[1] = (struct buf){};
		stream_free(s);
		reply_ended(j, rq, &part, heads);
		buf_fini(&heads[0]);
		buf_fini(&heads[1]);
	}
}

static void on_drain(struct request *rq)
{
	struct stream *s = rq->data;

	s->full = false;
	pump(s);
}

static void on_gone(struct request *rq)
{
	struct stream *s = rq->data;

	left(s);
	stream_free(s);
}

static struct stream *stream_new(struct job *j, struct request *rq, enum stream_form form)
{
	static const struct request_events events = { .drain = on_drain, .gone = on_gone };
	struct stream *s = calloc(1, sizeof(*s));
	struct cay_err err = {};

	if (!s) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for a stream; read exec.output");
		request_fail(rq, &err);
		return NULL;
	}
	*s = (struct stream){
		.job = j, .rq = rq, .form = form, .follow = true, .left = UINT64_MAX
	};
	rq->data = s;
	rq->events = &events;
	return s;
}

static void attach(struct stream *s, struct output *o, enum frame_stream name, uint64_t pos)
{
	unsigned i = s->n++;

	s->names[i] = name;
	s->readers[i] =
		(struct reader){ .greedy = s->form == STREAM_WAIT, .more = on_more, .data = s };
	output_attach(o, &s->readers[i], pos);
}

static void on_started(struct job *j, const struct cay_err *err, void *arg)
{
	struct stream *s = arg;
	struct request *rq = s->rq;
	struct exec told;

	if (err) {
		stream_free(s);
		request_fail(rq, err);
		return;
	}
	/* it fits: the headers of a reply have room for several ids */
	(void)request_header(rq, "Cay-Exec", j->name);
	if (s->detached) {
		stream_free(s);
		job_describe(j, &told);
		request_reply_json(rq, &exec_table, &told);
		return;
	}
	if (s->form != STREAM_WAIT)
		request_stream(rq, 200, media[s->form], REQUEST_LENGTH_UNKNOWN);
	s->pumping = true; /* until both are attached */
	attach(s, &j->out[0], FRAME_STDOUT, 0);
	attach(s, &j->out[1], FRAME_STDERR, 0);
	s->pumping = false;
	on_more(&s->readers[0]);
}

void stream_run(struct job *j, struct request *rq, const struct run_query *part,
		enum stream_form form, bool ends)
{
	struct stream *s = stream_new(j, rq, form);

	if (!s)
		return;
	s->ends = ends;
	s->part = *part;
	s->head_max = tell_head(part);
	s->heads[0] = s->heads[1] = BUF_INIT(TELL_MAX);
	j->started = on_started;
	j->arg = s;
}

void stream_detach(struct job *j, struct request *rq)
{
	struct stream *s = stream_new(j, rq, STREAM_WAIT);

	if (!s)
		return;
	s->detached = true;
	j->started = on_started;
	j->arg = s;
}

/* From an offset on: what there is, or also what comes. */
static void serve(struct stream *s, struct output *o, enum frame_stream name, uint64_t pos)
{
	uint64_t end = output_end(o), length = REQUEST_LENGTH_UNKNOWN;
	struct request *rq = s->rq;
	char text[24];
	int n;

	if (s->form == STREAM_RAW) {
		pos += output_lost(o, pos);
		if (!s->follow) {
			length = pos < end ? end - pos : 0;
			length = length < s->left ? length : s->left;
			s->left = length;
		}
	}
	n = snprintf(text, sizeof(text), "%llu", (unsigned long long)pos);
	assert(n > 0 && (size_t)n < sizeof(text));
	(void)request_header(rq, "Cay-Offset", text);
	request_stream(rq, 200, media[s->form], length);
	s->pumping = true;
	attach(s, o, name, pos);
	s->pumping = false;
	pump(s);
}

void stream_output(struct job *j, struct request *rq, const struct exec_output_query *q,
		   enum stream_form form)
{
	struct stream *s = stream_new(j, rq, form);

	if (!s)
		return;
	s->follow = q->follow;
	s->left = q->limit;
	serve(s, &j->out[q->stream], q->stream ? FRAME_STDERR : FRAME_STDOUT, q->offset);
}

void stream_log(struct output *log, struct request *rq, const struct service_log_query *q,
		enum stream_form form)
{
	struct stream *s = stream_new(NULL, rq, form);

	if (!s)
		return;
	s->log = log;
	s->follow = q->follow;
	s->left = q->limit;
	serve(s, log, FRAME_STDOUT, q->offset);
}

void stream_shell(struct output *o, struct request *rq, const struct exec_output_query *q,
		  enum stream_form form)
{
	struct stream *s = stream_new(NULL, rq, form);

	if (!s)
		return;
	s->log = o;
	s->follow = q->follow;
	s->left = q->limit;
	serve(s, o, q->stream ? FRAME_STDERR : FRAME_STDOUT, q->offset);
}

void stream_bound(struct output out[static 2], const uint64_t from[static 2],
		  struct stream_bound *bound, struct request *rq, enum stream_form form)
{
	struct stream *s = stream_new(NULL, rq, form);

	if (!s)
		return;
	s->bound = bound;
	bound->users++;
	request_stream(rq, 200, media[form], REQUEST_LENGTH_UNKNOWN);
	s->pumping = true; /* until both are attached */
	attach(s, &out[0], FRAME_STDOUT, from[0]);
	attach(s, &out[1], FRAME_STDERR, from[1]);
	s->pumping = false;
	pump(s);
}
