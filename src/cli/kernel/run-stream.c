/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/kernel/run-stream.h"

#include <poll.h>
#include <signal.h>

#include "cli/exec/session.h"
#include "cli/print/print.h"
#include "http/http.h"
#include "wire/frame-reader.h"

#define INTERRUPT_MS 5000
#define STREAMS (STREAM_BIT(FRAME_STDOUT) | STREAM_BIT(FRAME_STDERR) | STREAM_BIT(FRAME_EVENTS))

struct run_stream {
	struct api *api;
	const struct run_stream_spec *spec;
	struct run_stream_result *ret;
	struct http_client http;
	struct frame_reader reader;
	bool finished;
};

static void run_stream_interrupt(struct run_stream *s)
{
	struct api_call c = { .op = OP_KERNEL_INTERRUPT,
			      .ids = { s->spec->sandbox, s->spec->kernel } };
	uint64_t before = s->api->timeout_ms;
	struct cay_err why = {};

	if (before > INTERRUPT_MS)
		s->api->timeout_ms = INTERRUPT_MS;
	run_view_note_echo(s->spec->view);
	/* wrong_state: the code has ended meanwhile */
	if (api_call(s->api, &c, &(struct kernel_info){}, &why) < 0 && why.code != CAY_E_STATE)
		print_note("could not interrupt the code: %s", why.msg);
	s->api->timeout_ms = before;
	s->api->hint[0] = 0;
}

/* Before the head has come, runs of other clients may be running, and those are not interrupted:
 * leaving cancels this one. */
static void run_stream_handle_signal(struct run_stream *s)
{
	struct interrupt *intr = &s->api->intr;
	int signo;

	interrupt_read_signals(intr);
	if (s->spec->stays && intr->signo == SIGINT)
		intr->quit = false;
	signo = interrupt_take_signal(intr);
	if (!signo)
		return;
	if (intr->quit || signo != SIGINT || !s->spec->view || !s->http.head_complete)
		s->ret->quit = 128 + signo;
	else
		run_stream_interrupt(s);
}

/* Send queued bytes and receive a piece, or handle a signal. */
static int run_stream_wait(struct run_stream *s, struct cay_err *err)
{
	struct http_client *h = &s->http;
	int r = http_client_flush(h);
	short events = (short)(r == -EAGAIN ? POLLIN | POLLOUT : POLLIN);
	struct pollfd p[2] = { { h->fd, http_client_poll_events(h, events), 0 },
			       { s->api->intr.fd, POLLIN, 0 } };

	/* a peer that stopped reading may have sent a reply */
	if (r == -EPIPE || r == -ECONNRESET)
		h->sent = h->out.len;
	if (poll(p, ARRAY_SIZE(p), http_client_has_buffered(h) ? 0 : -1) < 0)
		return errno == EINTR ? 0 : cay_fail_sys(err, CAY_E_INTERNAL, errno, "poll");
	/* also one that a call between the polls has read */
	run_stream_handle_signal(s);
	if (s->ret->quit || (!p[0].revents && !http_client_has_buffered(h)))
		return 0;
	r = http_client_receive(h, err);
	return r == -EAGAIN ? 0 : r;
}

static int run_stream_read_end(struct run_stream *s, struct slice json, struct cay_err *err)
{
	s->finished = true;
	return session_end_decode(s->api, json, &s->ret->end, err);
}

static int run_stream_handle_item(struct run_stream *s, const struct frame_reader_item *i,
				  struct cay_err *err)
{
	struct slice bytes = { (const char *)i->p, i->n };

	switch (i->event) {
	case STREAM_MORE:
		return 0;
	case STREAM_DATA:
		return i->stream == FRAME_EVENTS
			       ? run_view_add_events(s->spec->view, bytes, err)
			       : run_view_add_output(s->spec->view, i->stream == FRAME_STDERR,
						     bytes, err);
	case STREAM_GAP:
		print_note("%llu bytes of %s were lost", (unsigned long long)i->lost,
			   frame_stream_name(i->stream));
		return 0;
	case STREAM_END:
		return run_stream_read_end(s, bytes, err);
	case STREAM_ERROR:
		return api_error_decode(s->api, bytes, err);
	}
	return 0;
}

static int run_stream_read_items(struct run_stream *s, struct cay_err *err)
{
	struct buf *body = &s->http.body;
	size_t at = 0;
	int r = 0;

	while (r >= 0 && at < body->len) {
		struct frame_reader_item item;
		ssize_t n = frame_reader_feed(&s->reader, (const uint8_t *)body->data + at,
					      body->len - at, &item);

		if (n < 0)
			return cay_fail(err, CAY_E_MISBEHAVED,
					"output frames are out of order; the rest is not shown");
		at += (size_t)n;
		r = run_stream_handle_item(s, &item, err);
	}
	buf_clear(body);
	if (r < 0 || s->finished || !s->http.reply_complete)
		return r;
	return cay_fail(err, CAY_E_UNAVAILABLE, "the stream stopped before the end of the run");
}

static int run_stream_loop(struct run_stream *s, struct cay_err *err)
{
	int r = 0;

	while (r >= 0 && !s->ret->quit && !s->http.head_complete)
		r = run_stream_wait(s, err);
	if (r < 0 || s->ret->quit)
		return r;
	if (!s->spec->view || s->http.status != 200 ||
	    !str_eq(s->http.reply_headers.type, FRAME_MEDIA_TYPE))
		return 1;
	r = run_stream_read_items(s, err);
	while (r >= 0 && !s->ret->quit && !s->finished) {
		r = run_stream_wait(s, err);
		if (r >= 0)
			r = run_stream_read_items(s, err);
	}
	return r;
}

int run_stream_run(struct api *a, const struct run_stream_spec *spec, struct run_stream_result *ret,
		   struct run_info *ret_info, struct cay_err *err)
{
	struct run_stream s = {
		.api = a,
		.spec = spec,
		.ret = ret,
		.http = HTTP_INIT,
		.reader = frame_reader_create(STREAMS),
	};
	struct api_call c = { .op = OP_KERNEL_RUN,
			      .ids = { spec->sandbox, spec->kernel },
			      .request = spec->request,
			      .prefer = HTTP_END_WITH_CALLER,
			      .accept = spec->view ? FRAME_MEDIA_TYPE : NULL };
	int r;

	*ret = (struct run_stream_result){};
	s.reader.unplaced = STREAMS;
	r = api_call_open(a, &c, &s.http, err);
	if (r >= 0)
		r = run_stream_loop(&s, err);
	if (r > 0) { /* a reply in one piece: the run, or an error */
		r = api_call_finish(a, c.op, &s.http, ret_info, err);
		if (r >= 0 && spec->view)
			r = cay_fail(err, CAY_E_MISBEHAVED,
				     "kernel.run: the reply is not a stream of frames");
		if (r >= 0 && (!ret_info->has_end ||
			       (ret_info->end.reason == END_EXIT && !ret_info->end.has_exit_code)))
			r = cay_fail(err, CAY_E_MISBEHAVED, "kernel.run: the run has no end");
		if (r >= 0)
			ret->end = ret_info->end;
	}
	if (r == -EPIPE && !err->code) { /* no program reads our output */
		ret->quit = 128 + SIGPIPE;
		r = 0;
	}
	http_client_fini(&s.http);
	return r;
}
