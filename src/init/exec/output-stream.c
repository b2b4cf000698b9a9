/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/output-stream.h"

#include <assert.h>
#include <stdio.h>

#include "base/endian.h"
#include "init/exec/output-excerpt.h"
#include "init/exec/spool.h"
#include "wire/frame.h"

#define PIECE KIB(32)
#define OUTPUT_EVENT_MAX MIB(32) /* the text of one, six bytes a character at worst */

struct output_stream {
	struct exec *exec;          /* or NULL: */
	struct output *log;         /* of a service or shell, which ends when it is complete */
	struct output_range *range; /* or the part of an output that a run wrote */
	struct request *rq;
	enum output_stream_form form;
	struct output_reader readers[2];
	enum frame_stream names[2];
	unsigned n;
	bool detached;         /* reply as soon as it runs */
	bool follow;           /* until the exec has ended */
	bool kill_with_client; /* kill the exec when the client leaves */
	bool full;             /* the connection takes no more now */
	bool pumping;
	uint64_t bytes_left; /* still requested */

	/* of a range with events */
	struct output_event **next_event; /* points to where the next one is, or will be */
	struct buf event;                 /* its text, while frames of it are left to send */
	size_t event_sent;
	uint64_t event_offset; /* bytes of events sent so far, as frames */
	struct ring tails[2];  /* of a range that is finished: what its client has not read yet */

	/* form wait: the requested part of the outputs, and the beginning of each */
	struct run_query output_query;
	size_t head_max;
	struct buf heads[2];
};

static const char *const output_stream_media_types[] = {
	[STREAM_WAIT] = "application/json",
	[STREAM_FRAMES] = FRAME_MEDIA_TYPE,
	[STREAM_SSE] = "text/event-stream",
	[STREAM_RAW] = "application/octet-stream",
};

enum output_stream_form output_stream_choose_form(const struct http_head *h,
						  enum output_stream_form otherwise)
{
	if (http_accepts_media_type(h, output_stream_media_types[STREAM_FRAMES]))
		return STREAM_FRAMES;
	return http_accepts_media_type(h, output_stream_media_types[STREAM_SSE]) ? STREAM_SSE
										 : otherwise;
}

static void output_stream_free(struct output_stream *s)
{
	s->pumping = true; /* removing a reader may call back */
	for (unsigned i = 0; i < s->n; i++)
		output_remove_reader(&s->readers[i]);
	if (s->exec && s->exec->cb_arg == s)
		s->exec->on_started = NULL;
	if (s->range)
		s->range->users--;
	buf_fini(&s->heads[0]);
	buf_fini(&s->heads[1]);
	buf_fini(&s->event);
	ring_free_data(&s->tails[0]);
	ring_free_data(&s->tails[1]);
	free(s);
}

static bool output_stream_is_finished(const struct output_stream *s)
{
	if (s->range)
		return s->range->finished;
	return s->exec ? s->exec->state == EXEC_PHASE_ENDED : s->log->complete;
}

static void exec_reply_with_output(struct exec *exec, struct request *rq, const struct run_query *q,
				   const struct buf heads[static 2])
{
	auto_output_excerpt out = OUTPUT_EXCERPT_INIT, errs = OUTPUT_EXCERPT_INIT;
	struct exec_info reply;

	exec_describe(exec, &reply);
	if (output_excerpt_fill(&exec->out[0], 0, output_end_offset(&exec->out[0]), q, &heads[0],
				&out, &reply.out) < 0 ||
	    output_excerpt_fill(&exec->out[1], 0, output_end_offset(&exec->out[1]), q, &heads[1],
				&errs, &reply.err) < 0) {
		request_no_memory(rq);
		return;
	}
	request_reply_json(rq, &exec_info_table, &reply);
}

/* Keep the head before the ring overwrites it. */
static void output_stream_keep_head(struct output_stream *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		struct buf *b = &s->heads[i];
		const struct output *o = s->readers[i].output;
		uint64_t end = output_end_offset(o);
		size_t n = end < s->head_max ? (size_t)end : s->head_max;

		if (n <= b->len || buf_reserve(b, n - b->len) < 0)
			continue;
		while (b->len < n) {
			size_t some = output_read(o, b->len, b->data + b->len, n - b->len);

			if (!some)
				break; /* reported as a gap, like all lost bytes */
			b->len += some;
		}
	}
}

/* The client does not get the reply: end what was to end with it. */
static void output_stream_client_left(const struct output_stream *s)
{
	if (s->kill_with_client)
		exec_kill(s->exec);
	if (s->range && s->range->on_client_left)
		s->range->on_client_left(s->range->arg);
}

static void output_stream_finish(struct output_stream *s, bool honest)
{
	struct request *rq = s->rq;

	s->pumping = true; /* ending may call back */
	if (!honest)
		output_stream_client_left(s);
	output_stream_free(s);
	if (honest)
		request_end_stream(rq);
	else
		request_abort(rq);
}

/* False: no memory. */
static bool output_stream_send_frame(struct output_stream *s, const struct frame *f)
{
	auto_buf b = BUF_INIT(FRAME_SSE_MAX);
	int r = s->form == STREAM_SSE ? frame_to_sse(f, &b) : frame_encode(f, &b);

	if (r >= 0)
		s->full = request_write_stream(s->rq, b.data, b.len);
	return r >= 0;
}

static bool output_stream_send_end(struct output_stream *s)
{
	static const struct end forgotten = { .reason = END_KILLED,
					      .blame = BLAME_CALLER,
					      .has_blame = true,
					      .has_retryable = true };
	auto_buf json = BUF_INIT(FRAME_JSON_MAX);
	struct jw w = jw_to(&json);
	struct frame f = { .type = FRAME_END };

	field_encode(&end_table, NULL,
		     s->range  ? s->range->end
		     : s->exec ? &s->exec->end
			       : &forgotten,
		     &w);
	if (jw_finish(&w) < 0)
		return false;
	f.length = (uint32_t)json.len;
	f.content = (const uint8_t *)json.data;
	return output_stream_send_frame(s, &f);
}

static bool output_stream_send_gap(struct output_stream *s, unsigned i, uint64_t lost)
{
	uint8_t content[sizeof(uint64_t)];
	struct frame f = { .type = FRAME_GAP,
			   .stream = (uint8_t)s->names[i],
			   .offset = s->readers[i].pos,
			   .length = sizeof(content),
			   .content = content };

	le64_put(content, lost);
	return output_stream_send_frame(s, &f);
}

/* How many of n bytes at p can be sent now: a character is not cut between two events unless
 * nothing can complete it. */
static size_t output_stream_whole_bytes(const struct output_stream *s, const uint8_t *p, size_t n)
{
	if (s->form != STREAM_SSE || output_stream_is_finished(s))
		return n;
	return utf8_whole_prefix_len((const char *)p, n);
}

/* The end of an output as far as it is known. */
static uint64_t output_stream_end_offset(const struct output_stream *s, unsigned i)
{
	return s->range && s->range->finished ? s->range->output_end[i]
					      : output_end_offset(s->readers[i].output);
}

/* The next event, or NULL: there is none yet. */
static const struct output_event *output_stream_next_event(const struct output_stream *s)
{
	return s->next_event ? *s->next_event : NULL;
}

/* How far an output can be sent now: to its end, or to the next event.  A process inside may have
 * read bytes that were before the event: then the event comes at the end. */
static uint64_t output_stream_stop_offset(const struct output_stream *s, unsigned i)
{
	uint64_t end = output_stream_end_offset(s, i);
	const struct output_event *e = output_stream_next_event(s);

	return e && (e->at[i] < end || !s->range->finished) ? e->at[i] : end;
}

static uint64_t output_stream_lost_bytes(const struct output_stream *s, unsigned i, uint64_t pos)
{
	const struct ring *tail = &s->tails[i];

	if (!tail->cap)
		return output_lost_bytes(s->readers[i].output, pos);
	return pos < tail->start ? tail->start - pos : 0;
}

static size_t output_stream_read(struct output_stream *s, unsigned i, void *to, size_t n)
{
	struct output_reader *r = &s->readers[i];

	return s->tails[i].cap ? ring_read(&s->tails[i], r->pos, to, n)
			       : output_read_for_reader(r, r->pos, to, n);
}

/* The next run overwrites what a slow client has not read of this one, so that is copied.  Without
 * memory for it the client gets a gap. */
static void output_stream_keep_tails(struct output_stream *s)
{
	for (unsigned i = 0; i < s->n; i++)
		if (!s->tails[i].cap && output_copy(s->readers[i].output, s->readers[i].pos,
						    s->range->output_end[i], &s->tails[i]) < 0)
			s->tails[i] = (struct ring){};
}

enum output_stream_sent { SENT_NOTHING, SENT_SOME, SENT_FAILED };

static enum output_stream_sent output_stream_send_piece(struct output_stream *s, unsigned i)
{
	struct output_reader *r = &s->readers[i];
	uint64_t lost = output_stream_lost_bytes(s, i, r->pos);
	uint8_t bytes[PIECE];
	struct frame f = { .type = FRAME_DATA,
			   .stream = (uint8_t)s->names[i],
			   .offset = r->pos,
			   .content = bytes };
	uint64_t stop = output_stream_stop_offset(s, i), there = stop > r->pos ? stop - r->pos : 0;
	size_t n = s->bytes_left < sizeof(bytes) ? (size_t)s->bytes_left : sizeof(bytes);

	n = n < there ? n : (size_t)there;
	if (lost > there)
		lost = there;
	if (lost) {
		/* raw bytes cannot express a gap */
		if (s->form == STREAM_RAW || !output_stream_send_gap(s, i, lost))
			return SENT_FAILED;
		output_reader_advance(r, lost);
		return SENT_SOME;
	}
	n = output_stream_read(s, i, bytes, n);
	/* nothing completes a character whose rest is lost, or comes after an event */
	if (!output_stream_lost_bytes(s, i, r->pos + n) &&
	    !(output_stream_next_event(s) && r->pos + n == stop))
		n = output_stream_whole_bytes(s, bytes, n);
	if (!n)
		return r->no_memory ? SENT_FAILED : SENT_NOTHING;
	f.length = (uint32_t)n;
	if (s->form == STREAM_RAW)
		s->full = request_write_stream(s->rq, bytes, n);
	else if (!output_stream_send_frame(s, &f))
		return SENT_FAILED;
	s->bytes_left -= n;
	output_reader_advance(r, n);
	return SENT_SOME;
}

/* Sent when all bytes before it are, or were lost. */
static bool output_stream_event_is_due(const struct output_stream *s)
{
	const struct output_event *e = output_stream_next_event(s);

	return e && (s->event.len || (s->readers[0].pos >= output_stream_stop_offset(s, 0) &&
				      s->readers[1].pos >= output_stream_stop_offset(s, 1)));
}

static int output_stream_write_event(struct output_stream *s, const struct output_event *e)
{
	struct jw w = jw_to(&s->event);
	int r = 0;

	s->event = BUF_INIT(OUTPUT_EVENT_MAX);
	s->event_sent = 0;
	if (s->form == STREAM_SSE) {
		r = buf_puts(&s->event, "event: ");
		if (r >= 0)
			r = buf_puts(&s->event, s->range->event_name(e));
		if (r >= 0)
			r = buf_puts(&s->event, "\ndata: ");
	}
	s->range->event_write(e, &w);
	if (jw_finish(&w) < 0)
		return -ENOMEM;
	return r < 0 ? r : buf_puts(&s->event, s->form == STREAM_SSE ? "\n\n" : "\n");
}

/* A piece of its text; true: it could be written. */
static bool output_stream_send_event(struct output_stream *s)
{
	const struct output_event *e = *s->next_event;
	struct frame f = { .type = FRAME_DATA, .stream = FRAME_EVENTS, .offset = s->event_offset };
	size_t left;

	if (!s->event.len && output_stream_write_event(s, e) < 0)
		return false;
	left = s->event.len - s->event_sent;
	if (s->form == STREAM_SSE) {
		s->full = request_write_stream(s->rq, s->event.data, s->event.len);
	} else {
		f.length = (uint32_t)(left < PIECE ? left : PIECE);
		f.content = (const uint8_t *)s->event.data + s->event_sent;
		if (!output_stream_send_frame(s, &f))
			return false;
		left -= f.length;
		s->event_sent += f.length;
		s->event_offset += f.length;
	}
	if (s->form == STREAM_SSE || !left) {
		buf_fini(&s->event);
		s->event = (struct buf){};
		s->next_event = &(*s->next_event)->next;
	}
	return true;
}

static bool output_stream_is_at_end(const struct output_stream *s)
{
	if (output_stream_next_event(s))
		return false;
	for (unsigned i = 0; i < s->n; i++)
		if (s->readers[i].pos < output_stream_end_offset(s, i))
			return false;
	return output_stream_is_finished(s);
}

/* The next bytes are being read from a file. */
static bool output_stream_is_waiting(const struct output_stream *s)
{
	for (unsigned i = 0; i < s->n; i++)
		if (spool_reader_is_waiting(&s->readers[i]))
			return true;
	return false;
}

static void output_stream_end(struct output_stream *s)
{
	bool ok = !s->bytes_left || !s->follow;

	if (output_stream_is_at_end(s))
		ok = s->form == STREAM_RAW || output_stream_send_end(s);
	output_stream_finish(s, ok);
}

static void output_stream_pump(struct output_stream *s)
{
	bool some = true;

	if (s->pumping)
		return;
	s->pumping = true;
	while (some && !s->full && s->bytes_left) {
		some = false;
		for (unsigned i = 0; i < s->n && !s->full && s->bytes_left; i++) {
			enum output_stream_sent sent = output_stream_send_piece(s, i);

			if (sent == SENT_FAILED) {
				/* a gap ends raw output normally: the reply to the next
				 * request has the offset where it continues */
				output_stream_finish(s, s->form == STREAM_RAW && s->follow);
				return;
			}
			some |= sent == SENT_SOME;
		}
		if (!some && !s->full && output_stream_event_is_due(s)) {
			some = true;
			if (!output_stream_send_event(s)) {
				output_stream_finish(s, false);
				return;
			}
		}
	}
	s->pumping = false;
	if (!s->full && (!s->bytes_left || ((output_stream_is_finished(s) || !s->follow) &&
					    !output_stream_is_waiting(s))))
		output_stream_end(s);
	else if (s->range && s->range->finished)
		output_stream_keep_tails(s);
}

static void on_output_stream_more(struct output_reader *r)
{
	struct output_stream *s = r->data;

	if (s->form != STREAM_WAIT) {
		output_stream_pump(s);
		return;
	}
	if (s->head_max)
		output_stream_keep_head(s);
	if (output_stream_is_finished(s) && !s->pumping) {
		struct buf heads[2] = { s->heads[0], s->heads[1] };
		struct run_query part = s->output_query;
		struct request *rq = s->rq;
		struct exec *exec = s->exec;

		s->heads[0] = s->heads[1] = (struct buf){};
		output_stream_free(s);
		exec_reply_with_output(exec, rq, &part, heads);
		buf_fini(&heads[0]);
		buf_fini(&heads[1]);
	}
}

static void on_output_stream_drain(struct request *rq)
{
	struct output_stream *s = rq->data;

	s->full = false;
	output_stream_pump(s);
}

static void on_output_stream_client_gone(struct request *rq)
{
	struct output_stream *s = rq->data;

	output_stream_client_left(s);
	output_stream_free(s);
}

static struct output_stream *output_stream_new(struct exec *exec, struct request *rq,
					       enum output_stream_form form)
{
	static const struct request_events events = { .drain = on_output_stream_drain,
						      .gone = on_output_stream_client_gone };
	struct output_stream *s = calloc(1, sizeof(*s));

	if (!s) {
		request_no_memory(rq);
		return NULL;
	}
	*s = (struct output_stream){
		.exec = exec, .rq = rq, .form = form, .follow = true, .bytes_left = UINT64_MAX
	};
	rq->data = s;
	rq->events = &events;
	return s;
}

static void output_stream_add_output(struct output_stream *s, struct output *o,
				     enum frame_stream name, uint64_t pos)
{
	unsigned i = s->n++;

	s->names[i] = name;
	s->readers[i] = (struct output_reader){ .greedy = s->form == STREAM_WAIT,
						.on_more = on_output_stream_more,
						.data = s };
	output_add_reader(o, &s->readers[i], pos);
}

static void output_stream_add_both(struct output_stream *s, struct output out[static 2],
				   const uint64_t from[static 2])
{
	s->pumping = true; /* until both readers are added */
	output_stream_add_output(s, &out[0], FRAME_STDOUT, from[0]);
	output_stream_add_output(s, &out[1], FRAME_STDERR, from[1]);
	s->pumping = false;
}

static void on_output_stream_exec_started(struct exec *exec, const struct cay_err *err, void *arg)
{
	struct output_stream *s = arg;
	struct request *rq = s->rq;
	char pid[12];
	struct exec_info reply;

	if (err) {
		output_stream_free(s);
		request_fail(rq, err);
		return;
	}
	/* it fits: the reply's headers have room for several ids */
	(void)request_add_reply_header(rq, "Cay-Exec", exec->name);
	if (snprintf(pid, sizeof(pid), "%d", (int)exec->first_pid) > 0)
		(void)request_add_reply_header(rq, "Cay-Pid", pid);
	if (s->detached) {
		output_stream_free(s);
		exec_describe(exec, &reply);
		request_reply_json(rq, &exec_info_table, &reply);
		return;
	}
	if (s->form != STREAM_WAIT)
		request_start_stream(rq, 200, output_stream_media_types[s->form],
				     REQUEST_LENGTH_UNKNOWN);
	output_stream_add_both(s, exec->out, (const uint64_t[2]){});
	on_output_stream_more(&s->readers[0]);
}

void output_stream_reply_run(struct exec *exec, struct request *rq, const struct run_query *part)
{
	struct output_stream *s =
		output_stream_new(exec, rq, output_stream_choose_form(rq->head, STREAM_WAIT));

	if (!s)
		return;
	if (part) {
		s->kill_with_client = http_prefers(rq->head, HTTP_END_WITH_CALLER);
		s->output_query = *part;
		s->head_max = output_excerpt_head_max(part);
		s->heads[0] = s->heads[1] = BUF_INIT(TELL_MAX);
		for (size_t i = 0; s->form == STREAM_WAIT && i < ARRAY_SIZE(exec->out); i++)
			output_keep_excerpt(&exec->out[i], part);
	}
	s->detached = !part;
	if (exec->state != EXEC_PHASE_STARTING) { /* the request is repeated */
		on_output_stream_exec_started(exec, NULL, s);
		return;
	}
	exec->on_started = on_output_stream_exec_started;
	exec->cb_arg = s;
}

void output_stream_reply_output(struct exec *exec, struct output *o, struct request *rq,
				const struct exec_output_query *q)
{
	enum output_stream_form form = output_stream_choose_form(rq->head, STREAM_RAW);
	struct output_stream *s = output_stream_new(exec, rq, form);
	uint64_t pos = q->offset, end = output_end_offset(o), length = REQUEST_LENGTH_UNKNOWN;
	char text[24];
	int n;

	if (!s)
		return;
	s->log = o;
	s->follow = q->follow;
	s->bytes_left = q->limit;
	if (form == STREAM_RAW) {
		pos += output_lost_bytes(o, pos);
		if (!s->follow) {
			length = pos < end ? end - pos : 0;
			length = length < s->bytes_left ? length : s->bytes_left;
			s->bytes_left = length;
		}
	}
	n = snprintf(text, sizeof(text), "%llu", (unsigned long long)pos);
	assert(n > 0 && (size_t)n < sizeof(text));
	(void)request_add_reply_header(rq, "Cay-Offset", text);
	request_start_stream(rq, 200, output_stream_media_types[form], length);
	s->pumping = true;
	output_stream_add_output(s, o, q->stream ? FRAME_STDERR : FRAME_STDOUT, pos);
	s->pumping = false;
	output_stream_pump(s);
}

void output_stream_reply_session_run(struct output out[static 2], const uint64_t from[static 2],
				     struct output_range *bound, struct request *rq,
				     enum output_stream_form form)
{
	struct output_stream *s = output_stream_new(NULL, rq, form);

	if (!s)
		return;
	s->range = bound;
	s->next_event = &bound->events;
	bound->users++;
	request_start_stream(rq, 200, output_stream_media_types[form], REQUEST_LENGTH_UNKNOWN);
	output_stream_add_both(s, out, from);
	for (size_t i = 0; i < ARRAY_SIZE(s->readers); i++)
		output_set_awaited_reader(&out[i], &s->readers[i]);
	output_stream_pump(s);
}
