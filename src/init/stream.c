/* SPDX-License-Identifier: Apache-2.0 */
#include "init/stream.h"

#include <assert.h>
#include <stdio.h>

#include "base/le.h"
#include "text/base64.h"
#include "wire/frame.h"

#define PIECE KIB(32)
#define TELL_MAX MIB(1) /* of each output in a JSON reply */

struct stream {
	struct job *job;
	struct request *rq;
	enum stream_form form;
	struct reader readers[2];
	enum frame_stream names[2];
	unsigned n;
	bool detached; /* reply as soon as it runs */
	bool follow;   /* go on until the job ended */
	bool full;     /* the connection takes no more now */
	bool pumping;
	uint64_t left; /* bytes still wanted */
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
	if (s->job->arg == s)
		s->job->started = NULL;
	free(s);
}

/* JSON */

/* Text when it is that and not mostly escapes; the reply stays bounded. */
static bool is_text(const char *p, size_t n)
{
	size_t escapes = 0;

	for (size_t i = 0; i < n; i++) {
		if (!p[i])
			return false;
		escapes +=
			(unsigned char)p[i] < 0x20 && p[i] != '\n' && p[i] != '\t' && p[i] != '\r';
	}
	return escapes <= n / 8 && utf8_valid(p, n);
}

/* The last bytes of an output, as a member of struct exec. */
static int tell(const struct output *o, struct buf *raw, struct buf *b64, const char **ret_text,
		const char **ret_b64, uint64_t *ret_offset)
{
	uint64_t end = output_end(o), pos = end > TELL_MAX ? end - TELL_MAX : 0;
	size_t n;
	int r;

	/* it may be lost in two places when a spool ran out of disk */
	while (output_lost(o, pos))
		pos += output_lost(o, pos);
	*ret_offset = pos;
	r = buf_reserve(raw, (size_t)(end - pos));
	if (r < 0)
		return r;
	while (pos < end && (n = output_read(o, pos, raw->data + raw->len, (size_t)(end - pos)))) {
		raw->len += n;
		raw->data[raw->len] = 0;
		pos += n;
	}
	/* a reply that begins in the middle of a letter is text all the same */
	for (int cut = 0; cut < 4 && *ret_offset && raw->len && (raw->data[0] & 0xC0) == 0x80;
	     cut++) {
		buf_consume(raw, 1);
		(*ret_offset)++;
	}
	if (is_text(buf_str(raw), raw->len)) {
		*ret_text = buf_str(raw);
		return 0;
	}
	r = buf_reserve(b64, BASE64_TEXT(raw->len));
	if (r < 0)
		return r;
	base64_encode((const uint8_t *)raw->data, raw->len, b64->data);
	b64->len = BASE64_TEXT(raw->len);
	b64->data[b64->len] = 0;
	*ret_b64 = b64->data;
	return 0;
}

static void reply_ended(struct job *j, struct request *rq)
{
	auto_buf out = BUF_INIT(TELL_MAX), out_b64 = BUF_INIT(2 * TELL_MAX);
	auto_buf errs = BUF_INIT(TELL_MAX), errs_b64 = BUF_INIT(2 * TELL_MAX);
	struct cay_err err = {};
	struct exec told;

	job_describe(j, &told);
	if (tell(&j->out[0], &out, &out_b64, &told.stdout_text, &told.stdout_b64,
		 &told.stdout_offset) < 0 ||
	    tell(&j->out[1], &errs, &errs_b64, &told.stderr_text, &told.stderr_b64,
		 &told.stderr_offset) < 0) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory for the reply; read exec.output");
		request_fail(rq, &err);
		return;
	}
	told.has_stdout = told.has_stderr = true;
	request_reply_json(rq, &exec_table, &told);
}

/* Frames, SSE, raw */

/* Over: an honest end, or a connection closed in the middle. */
static void finish(struct stream *s, bool honest)
{
	struct request *rq = s->rq;

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
	auto_buf json = BUF_INIT(FRAME_JSON_MAX);
	struct jw w = jw_to(&json);
	struct frame f = { .type = FRAME_END };

	field_encode(&end_table, NULL, &s->job->end, &w);
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
	if (s->form != STREAM_SSE || s->job->state == JOB_ENDED)
		return n;
	return utf8_whole((const char *)p, n);
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
	size_t n = s->left < sizeof(bytes) ? (size_t)s->left : sizeof(bytes);

	if (lost) {
		/* raw bytes cannot say what is missing between them */
		if (s->form == STREAM_RAW || !send_gap(s, i, lost))
			return SENT_FAILED;
		output_moved(r, lost);
		return SENT_SOME;
	}
	n = output_read(r->output, r->pos, bytes, n);
	n = whole(s, bytes, n);
	if (!n)
		return SENT_NOTHING;
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
		if (s->readers[i].pos < output_end(s->readers[i].output))
			return false;
	return s->job->state == JOB_ENDED;
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
	if (!s->full && (!s->left || s->job->state == JOB_ENDED || !s->follow))
		end_stream(s);
}

static void on_more(struct reader *r)
{
	struct stream *s = r->data;

	if (s->form != STREAM_WAIT) {
		pump(s);
	} else if (s->job->state == JOB_ENDED && !s->pumping) {
		struct request *rq = s->rq;
		struct job *j = s->job;

		stream_free(s);
		reply_ended(j, rq);
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
	stream_free(rq->data);
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

static void attach(struct stream *s, unsigned output, uint64_t pos)
{
	unsigned i = s->n++;

	s->names[i] = output ? FRAME_STDERR : FRAME_STDOUT;
	s->readers[i] =
		(struct reader){ .greedy = s->form == STREAM_WAIT, .more = on_more, .data = s };
	output_attach(&s->job->out[output], &s->readers[i], pos);
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
	attach(s, 0, 0);
	attach(s, 1, 0);
	s->pumping = false;
	on_more(&s->readers[0]);
}

void stream_run(struct job *j, struct request *rq, enum stream_form form)
{
	struct stream *s = stream_new(j, rq, form);

	if (!s)
		return;
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

void stream_output(struct job *j, struct request *rq, const struct exec_output_query *q,
		   enum stream_form form)
{
	const struct output *o = &j->out[q->stream];
	uint64_t pos = q->offset, end = output_end(o), length = REQUEST_LENGTH_UNKNOWN;
	struct stream *s = stream_new(j, rq, form);
	char text[24];
	int n;

	if (!s)
		return;
	s->follow = q->follow;
	s->left = q->limit;
	if (form == STREAM_RAW) {
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
	request_stream(rq, 200, media[form], length);
	s->pumping = true;
	attach(s, q->stream, pos);
	s->pumping = false;
	pump(s);
}
