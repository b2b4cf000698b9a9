/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/session.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cli/exec/stdin-forward.h"
#include "cli/print/print.h"
#include "wire/frame-reader.h"

#define OUT STREAM_BIT(FRAME_STDOUT)
#define ERR STREAM_BIT(FRAME_STDERR)
#define SIGNAL_MS 5000
#define BACKOFF_MS 100

/* A connection that carries one or both output streams. */
struct session_line {
	unsigned mask; /* STREAM_BIT()s; 0: unused */
	bool finished;
	bool broken; /* reopen it at retry_ns */
	struct http_client http;
	struct frame_reader stream;
	size_t at;                              /* bytes of http.body already read */
	struct frame_reader_item pending_write; /* output to write; n = 0: none */
};

struct session {
	struct api *api;
	const struct session_spec *spec;
	struct session_result *ret;
	struct id exec;
	struct session_line lines[2];
	struct stdin_forward input;
	bool has_end;
	bool is_regular_file[FRAME_NUM_STREAMS]; /* may be written to in one piece */
	unsigned tries;
	uint64_t retry_ns;  /* boot time */
	struct cay_err why; /* of the last break */
};

unsigned session_tries_max(const struct api *a)
{
	return dial_is_remote(&a->dial) ? SESSION_TRIES_FAR : SESSION_TRIES;
}

uint64_t session_backoff_ns(unsigned tries)
{
	return tries > 1 ? (UINT64_C(1) << (tries - 2)) * BACKOFF_MS * NS_PER_MS : 0;
}

bool session_can_reconnect(int r, const struct cay_err *why)
{
	return r == -ECONNRESET || r == -EPIPE || why->code == CAY_E_UNAVAILABLE;
}

static int session_send_signal(struct session *s, const char *name)
{
	struct exec_signal request = { .signal = name };
	struct api_call c = { .op = OP_EXEC_SIGNAL,
			      .ids = { s->spec->sandbox, s->exec },
			      .request = &request };
	uint64_t before = s->api->timeout_ms;
	struct cay_err why = {};
	int r;

	if (before > SIGNAL_MS)
		s->api->timeout_ms = SIGNAL_MS;
	r = api_call(s->api, &c, &(struct exec_info){}, &why);
	s->api->timeout_ms = before;
	s->api->hint[0] = 0;
	/* the command may have ended meanwhile */
	if (r < 0 && why.code != CAY_E_STATE && why.code != CAY_E_NOT_FOUND)
		print_note("could not send %s: %s", name, why.msg);
	return r;
}

/* Send a request whose reply must be a stream of frames, and read the reply's head. */
static int session_line_open(struct session *s, struct session_line *l, const struct api_call *c,
			     struct cay_err *err)
{
	struct http_client *h = &l->http;
	int r = api_call_open(s->api, c, h, err);

	if (r >= 0)
		r = api_call_receive_head(s->api, c->op, h, err);
	if (r < 0 || (h->status == 200 && str_eq(h->reply_headers.type, FRAME_MEDIA_TYPE)))
		return r;
	r = h->status >= 400 ? api_call_finish(s->api, c->op, h, NULL, err) : 0;
	return r < 0 ? r
		     : cay_fail(err, CAY_E_MISBEHAVED, "%s: the reply is not a stream of frames",
				ops[c->op].name);
}

/* The reply must name the exec: reconnecting needs its id. */
static int session_start_exec(struct session *s, struct cay_err *err)
{
	struct session_line *l = &s->lines[0];
	struct api_call c = { .op = OP_EXEC_RUN,
			      .ids = { s->spec->sandbox },
			      .request = &s->spec->request,
			      .accept = FRAME_MEDIA_TYPE };
	int r;

	if (s->spec->start) {
		c = *s->spec->start;
		c.accept = FRAME_MEDIA_TYPE;
	}
	r = session_line_open(s, l, &c, err);
	if (r < 0)
		return r;
	if (id_parse(ID_EXEC, slice_of(l->http.reply_headers.exec), &s->exec) < 0)
		return cay_fail(err, CAY_E_MISBEHAVED, "%s: the reply lacks the id of the exec",
				ops[c.op].name);
	l->mask = OUT | ERR;
	l->stream = frame_reader_create(OUT | ERR);
	s->ret->exec = s->exec;
	return 0;
}

/* Continue at the offset where the line stopped. */
static int session_line_reopen(struct session *s, struct session_line *l, struct cay_err *err)
{
	bool out = l->mask == OUT;
	struct exec_output_query query = {
		.stream = out ? 0 : 1,
		.offset = l->stream.next[out ? FRAME_STDOUT : FRAME_STDERR],
		.limit = INT64_MAX,
		.follow = !s->spec->once,
	};
	struct api_call c = { .op = OP_EXEC_OUTPUT,
			      .ids = { s->spec->sandbox, s->exec },
			      .query = &query,
			      .accept = FRAME_MEDIA_TYPE };
	struct frame_reader at = frame_reader_create(l->mask);
	int r = session_line_open(s, l, &c, err);

	if (r < 0)
		return r;
	memcpy(at.next, l->stream.next, sizeof(at.next));
	l->stream = at;
	l->at = 0;
	l->broken = false;
	return 0;
}

/* Schedule a reconnect.  A connection that carried both streams becomes two. */
static int session_line_note_break(struct session *s, struct session_line *l, struct cay_err *err)
{
	unsigned most = session_tries_max(s->api);

	if (++s->tries > most) {
		char id[ID_TEXT_LEN + 1];

		id_format(&s->exec, id);
		return cay_fail(err, CAY_E_UNAVAILABLE,
				"the connection broke %u times (%.100s); exec %s may still run",
				most + 1, s->why.msg[0] ? s->why.msg : "no reason given", id);
	}
	l->broken = true;
	if (l->mask == (OUT | ERR)) {
		s->lines[1] = (struct session_line){
			.mask = ERR, .broken = true, .http = HTTP_INIT, .stream = l->stream
		};
		l->mask = OUT;
	}
	http_client_fini(&l->http);
	s->retry_ns = clk_boot_ns(&clk_system) + session_backoff_ns(s->tries);
	return 0;
}

/* Reconnect after failure r, which s->why describes, unless it is of the exec. */
static int session_line_handle_break(struct session *s, struct session_line *l, int r,
				     struct cay_err *err)
{
	if (session_can_reconnect(r, &s->why))
		return session_line_note_break(s, l, err);
	*err = s->why;
	return r;
}

int session_end_decode(struct api *a, struct slice json, struct end *ret, struct cay_err *err)
{
	struct cay_err why = {};
	struct end end = {};

	if (field_decode_text(&end_table, json, &json_control_limits, &a->arena, &end, &why) < 0)
		return cay_fail(err, CAY_E_MISBEHAVED, "invalid end of an exec: %s", why.msg);
	/* an exit without a code must not look like success */
	if ((end.reason == END_EXIT && !end.has_exit_code) ||
	    (end.reason == END_SIGNAL && !end.signal))
		return cay_fail(err, CAY_E_MISBEHAVED,
				"invalid end of an exec: no exit code or signal");
	*ret = end;
	return 0;
}

static int session_read_end(struct session *s, const struct frame_reader_item *i,
			    struct cay_err *err)
{
	struct end end;
	int r = session_end_decode(s->api, (struct slice){ (const char *)i->p, i->n }, &end, err);

	if (r >= 0 && !s->has_end)
		s->ret->end = end;
	s->has_end |= r >= 0;
	return r;
}

static int session_line_handle_item(struct session *s, struct session_line *l,
				    const struct frame_reader_item *i, struct cay_err *err)
{
	switch (i->event) {
	case STREAM_MORE:
		return 0;
	case STREAM_DATA:
		s->tries = 0;
		if (!s->ret->first_ns)
			s->ret->first_ns = clk_boot_ns(&clk_system);
		if (!s->spec->discard)
			l->pending_write = *i;
		return 0;
	case STREAM_GAP:
		print_note("%llu bytes of %s were lost", (unsigned long long)i->lost,
			   frame_stream_name(i->stream));
		return 0;
	case STREAM_END:
		l->finished = true;
		return session_read_end(s, i, err);
	case STREAM_ERROR:
		return api_error_decode(s->api, (struct slice){ (const char *)i->p, i->n }, err);
	}
	return 0;
}

/* Read items until there is output to write or no more bytes. */
static int session_line_read_items(struct session *s, struct session_line *l, struct cay_err *err)
{
	while (!l->pending_write.n && l->at < l->http.body.len) {
		struct frame_reader_item item;
		ssize_t n =
			frame_reader_feed(&l->stream, (const uint8_t *)l->http.body.data + l->at,
					  l->http.body.len - l->at, &item);
		int r;

		if (n < 0)
			return cay_fail(err, CAY_E_MISBEHAVED,
					"output frames are out of order; the rest is not shown");
		l->at += (size_t)n;
		r = session_line_handle_item(s, l, &item, err);
		if (r < 0)
			return r;
	}
	if (l->pending_write.n)
		return 0;
	buf_clear(&l->http.body);
	l->at = 0;
	if (!l->http.reply_complete || l->finished)
		return 0;
	l->finished = s->spec->once;
	if (l->finished)
		return 0;
	s->why = (struct cay_err){};
	(void)cay_fail(&s->why, CAY_E_UNAVAILABLE, "the stream stopped before the end of the exec");
	return session_line_note_break(s, l, err);
}

static int session_line_receive(struct session *s, struct session_line *l, struct cay_err *err)
{
	int r;

	s->why = (struct cay_err){};
	r = http_client_receive(&l->http, &s->why);
	if (r == -EAGAIN || (r < 0 && l->finished))
		return 0;
	return r < 0 ? session_line_handle_break(s, l, r, err) : session_line_read_items(s, l, err);
}

static int session_reopen_lines(struct session *s, struct cay_err *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->lines); i++) {
		struct session_line *l = &s->lines[i];
		int r;

		if (!l->mask || !l->broken || l->finished)
			continue;
		s->why = (struct cay_err){};
		r = session_line_reopen(s, l, &s->why);
		if (r < 0)
			return s->api->intr.quit ? 0 : session_line_handle_break(s, l, r, err);
		/* poll() does not report items that arrived with the head */
		r = session_line_read_items(s, l, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int session_line_write_fd(const struct session_line *l)
{
	return l->pending_write.stream == FRAME_STDOUT ? STDOUT_FILENO : STDERR_FILENO;
}

/* After POLLOUT, up to PIPE_BUF bytes can be written without blocking. */
static int session_line_write_output(struct session *s, struct session_line *l, struct cay_err *err)
{
	size_t n = l->pending_write.n;
	ssize_t done;

	if (!s->is_regular_file[l->pending_write.stream] && n > 4096)
		n = 4096;
	done = write(session_line_write_fd(l), l->pending_write.p, n);
	if (done < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (done < 0 && errno == EPIPE) {
		if (!s->spec->watch_existing)
			(void)session_send_signal(s, "SIGPIPE");
		s->ret->quit = 128 + SIGPIPE;
		return 0;
	}
	if (done < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "write the output");
	l->pending_write.p += done;
	l->pending_write.n -= (size_t)done;
	return l->pending_write.n ? 0 : session_line_read_items(s, l, err);
}

static void session_forward_signal(struct session *s)
{
	int sig = interrupt_take_signal(&s->api->intr);
	char name[16];

	if (s->api->intr.quit || (sig && s->spec->watch_existing))
		s->ret->quit = 128 + s->api->intr.signo;
	else if (sig && snprintf(name, sizeof(name), "SIG%s", sigabbrev_np(sig)) > 0)
		(void)session_send_signal(s, name);
}

enum { P_SIGNAL, P_STDIN, P_FEED, P_LINE, P_WRITE = P_LINE + 2, P_NUM = P_WRITE + 2 };

static uint64_t session_prepare_poll(const struct session *s, struct pollfd p[static P_NUM])
{
	uint64_t deadline = UINT64_MAX;

	for (size_t i = 0; i < P_NUM; i++)
		p[i] = (struct pollfd){ .fd = -1 };
	p[P_SIGNAL] = (struct pollfd){ .fd = s->api->intr.fd, .events = POLLIN };
	if (s->input.state != STDIN_FINISHED) {
		stdin_forward_poll_events(&s->input, &p[P_STDIN].events, &p[P_FEED].events);
		p[P_STDIN].fd = p[P_STDIN].events ? STDIN_FILENO : -1;
		p[P_FEED].fd = s->input.http.fd;
		if (s->input.n_early || http_client_has_buffered(&s->input.http))
			deadline = 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(s->lines); i++) {
		const struct session_line *l = &s->lines[i];

		if (!l->mask || l->finished)
			continue;
		if (l->broken)
			deadline = deadline < s->retry_ns ? deadline : s->retry_ns;
		else if (l->pending_write.n)
			p[P_WRITE + i] = (struct pollfd){ session_line_write_fd(l), POLLOUT, 0 };
		else
			p[P_LINE + i] =
				(struct pollfd){ l->http.fd,
						 http_client_poll_events(&l->http, POLLIN), 0 };
		/* poll() does not report buffered bytes */
		if (p[P_LINE + i].fd >= 0 && http_client_has_buffered(&l->http))
			deadline = 0;
	}
	return deadline;
}

static int session_poll_once(struct session *s, struct cay_err *err)
{
	struct pollfd p[P_NUM];
	uint64_t deadline;
	int r = 0, n;

	/* a signal may have arrived during a blocking call */
	session_forward_signal(s);
	if (s->ret->quit)
		return 0;
	deadline = session_prepare_poll(s, p);
	n = poll(p, P_NUM, deadline_to_poll_ms(deadline));
	if (n < 0)
		return errno == EINTR ? 0 : cay_fail_sys(err, CAY_E_INTERNAL, errno, "poll");
	if (p[P_SIGNAL].revents)
		interrupt_read_signals(&s->api->intr);
	for (size_t i = 0; r >= 0 && !s->ret->quit && i < ARRAY_SIZE(s->lines); i++) {
		if (p[P_WRITE + i].revents)
			r = session_line_write_output(s, &s->lines[i], err);
		else if (p[P_LINE + i].revents ||
			 (p[P_LINE + i].fd >= 0 && http_client_has_buffered(&s->lines[i].http)))
			r = session_line_receive(s, &s->lines[i], err);
	}
	if (r >= 0 && clk_boot_ns(&clk_system) >= s->retry_ns)
		r = session_reopen_lines(s, err);
	if (r >= 0 && s->input.state != STDIN_FINISHED)
		r = stdin_forward_continue(&s->input, p[P_STDIN].revents != 0,
					   p[P_FEED].revents != 0, err);
	return r;
}

static bool session_is_finished(const struct session *s)
{
	for (size_t i = 0; i < ARRAY_SIZE(s->lines); i++)
		if (s->lines[i].mask && !(s->lines[i].finished && !s->lines[i].pending_write.n))
			return false;
	return true;
}

/* Mark the lines broken, so that the loop opens them at their offsets. */
static int session_watch_exec(struct session *s)
{
	static const enum frame_stream both[] = { FRAME_STDOUT, FRAME_STDERR };

	s->exec = s->ret->exec = s->spec->exec;
	for (size_t i = 0; i < ARRAY_SIZE(both); i++) {
		struct session_line *l = &s->lines[i];

		l->mask = s->spec->streams & STREAM_BIT(both[i]);
		l->stream = frame_reader_create(STREAM_BIT(both[i]));
		l->stream.next[both[i]] = s->spec->offset;
		l->broken = true;
	}
	return 0;
}

static int session_run_loop(struct session *s, struct cay_err *err)
{
	int r = s->spec->watch_existing ? session_watch_exec(s) : session_start_exec(s, err);

	if (r < 0)
		return r;
	if (s->spec->request.stdin_open)
		stdin_forward_start(&s->input, &s->spec->sandbox, &s->exec);
	r = session_line_read_items(s, &s->lines[0], err);
	while (r >= 0 && !s->ret->quit && !session_is_finished(s))
		r = session_poll_once(s, err);
	return r;
}

int session_run(struct api *a, const struct session_spec *spec, struct session_result *ret,
		struct cay_err *err)
{
	struct session_spec mine = *spec;
	struct session s = { .api = a,
			     .spec = &mine,
			     .ret = ret,
			     .lines = { { .http = HTTP_INIT }, { .http = HTTP_INIT } },
			     .input = { .http = HTTP_INIT } };
	struct stat st;
	int r;

	*ret = (struct session_result){};
	mine.request.stdin_open = spec->forward_stdin && stdin_forward_init(&s.input, a);
	s.is_regular_file[FRAME_STDOUT] = fstat(STDOUT_FILENO, &st) == 0 && S_ISREG(st.st_mode);
	s.is_regular_file[FRAME_STDERR] = fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode);
	r = session_run_loop(&s, err);
	if (r < 0 && a->intr.quit) {
		ret->quit = 128 + a->intr.signo;
		r = 0;
	}
	http_client_fini(&s.input.http);
	for (size_t i = 0; i < ARRAY_SIZE(s.lines); i++)
		http_client_fini(&s.lines[i].http);
	return r;
}
