/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A WebSocket on one side, frames of wire/attach.h on the other; a message is a frame, or bytes
 * (attach-raw.h).  Or bytes on both sides, for the screen: those of its server pass unread, those
 * of a client pass a filter (desktop/rfb-filter.h).
 *
 *	opening -> open -> ending -> closed
 *
 * Opening: the sandbox is connected first, so that an unknown command is an ordinary 404.  Open: a
 * side that does not read stops only its own direction.  Ending: the sandbox's connection is
 * closed, queued output and a Close are sent, and the client has END_MS from then to reply.
 *
 * Only headers and braces of a sandbox's frames are inspected, except for the last one to a client
 * without frames.  Less than 1 MiB is held while both sides stall, no buffer while idle.
 */
#include <poll.h>

#include "edge/attach-raw.h"
#include "edge/desktop/rfb-filter.h"
#include "edge/edge.h"
#include "wire/hello.h"

#define FRAME_WHOLE (FRAME_HEAD + ATTACH_FRAME_MAX)
#define THERE_MARK KIB(64) /* stop reading the client when more is queued */
#define IN_MAX (FRAME_WHOLE + CONN_READ)
#define WS_OUT_MAX KIB(192) /* WS_OUT_MARK, a frame, a pong and a Close */
#define FRAGMENTS_MAX 64
#define SCREEN_PROTOCOL "binary" /* as VNC clients call it */
#define SCREEN_PIECE KIB(32)     /* of a message to the client */
#define WATCH_MS 1000
#define END_MS 3000
#define UNREAD_MS 60000 /* for a client to read the end */

#define GATHERED_MAX (THERE_MARK + FRAME_WHOLE)

static_assert(WS_OUT_MARK + FRAME_WHOLE + KIB(1) < WS_OUT_MAX);

struct edge_attach {
	struct edge *edge;
	struct edge_attach *prev, *next;
	struct conn *client, *sandbox; /* NULL once closed */
	uv_timer_t timer;              /* polls a paused client; then the deadline of the end */
	unsigned open;                 /* these three, while not closed */
	bool closing, ending, flushed, terminated;
	bool paused;        /* the client is not read */
	bool sandbox_stuck; /* the sandbox reads no more; its output is still read */
	bool is_raw;        /* the client uses no frames */
	bool is_screen;     /* the sandbox uses none, either */
	struct attach_raw raw;
	struct rfb_filter rfb;
	struct ws ws;
	struct buf from_client, from_sandbox; /* read, not passed on */
	struct buf to_sandbox;                /* frames of one read of the client, for one write */
	void (*done)(void *arg);
	void *arg;
};

static void edge_attach_unref(struct edge_attach *a)
{
	if (--a->open)
		return;
	*(a->prev ? &a->prev->next : &a->edge->attaches) = a->next;
	if (a->next)
		a->next->prev = a->prev;
	ws_fini(&a->ws);
	buf_fini(&a->from_client);
	buf_fini(&a->from_sandbox);
	buf_fini(&a->to_sandbox);
	a->done(a->arg);
	free(a);
}

static void on_edge_attach_timer_closed(uv_handle_t *h)
{
	edge_attach_unref(h->data);
}

static void on_edge_attach_conn_closed(struct conn *c)
{
	struct edge_attach *a = conn_data(c);

	*(c == a->client ? &a->client : &a->sandbox) = NULL;
	edge_attach_unref(a);
}

static void edge_attach_abort(struct edge_attach *a)
{
	if (a->closing)
		return;
	a->closing = a->ending = true;
	conn_close(a->client);
	if (a->sandbox)
		conn_close(a->sandbox);
	uv_close((uv_handle_t *)&a->timer, on_edge_attach_timer_closed);
}

static void on_edge_attach_deadline(uv_timer_t *t)
{
	edge_attach_abort(t->data);
}

/* ws holds the queue, because it decides which of many pongs is worth sending. */
static void edge_attach_flush_to_client(struct edge_attach *a)
{
	struct slice out;

	while (!a->closing && !conn_queued_bytes(a->client) &&
	       (out = ws_pending_output(&a->ws)).n) {
		uv_buf_t v = uv_buf_init((char *)(uintptr_t)out.p, (unsigned)out.n);

		if (conn_write(a->client, &v, 1) < 0)
			edge_attach_abort(a);
		else
			ws_consume_output(&a->ws, out.n);
	}
	if (a->closing || !a->ending || a->flushed || conn_queued_bytes(a->client))
		return;
	/* our Close is sent; wait a moment for the client's */
	a->flushed = true;
	(void)uv_timer_start(&a->timer, on_edge_attach_deadline, END_MS, 0);
	if (ws_is_over(&a->ws))
		conn_shutdown(a->client);
}

/* One write for all gathered frames. */
static void edge_attach_flush_to_sandbox(struct edge_attach *a)
{
	uv_buf_t v = uv_buf_init(a->to_sandbox.data, (unsigned)a->to_sandbox.len);

	if (v.len && !a->ending && conn_write(a->sandbox, &v, 1) < 0)
		a->sandbox_stuck = true;
	buf_fini(&a->to_sandbox);
	a->to_sandbox = BUF_INIT(GATHERED_MAX);
}

/* From here on only the two Close frames matter. */
static void edge_attach_end(struct edge_attach *a)
{
	if (a->ending)
		return;
	edge_attach_flush_to_sandbox(a); /* input received before the end */
	a->ending = true;
	conn_close(a->sandbox);
	buf_fini(&a->from_sandbox);
	(void)uv_timer_start(&a->timer, on_edge_attach_deadline, UNREAD_MS, 0);
	a->paused = false;
	conn_set_reading(a->client, true);
	edge_attach_flush_to_client(a);
}

static void edge_attach_end_with_code(struct edge_attach *a, unsigned code, const char *why)
{
	if (!a->ending)
		(void)ws_close(&a->ws, code, why); /* fails only when over already */
	edge_attach_end(a);
}

static void edge_attach_end_for_drain(struct edge_attach *a)
{
	edge_attach_end_with_code(a, WS_GOING_AWAY, "the server is stopping; reconnect by offset");
}

static void edge_attach_end_no_memory(struct edge_attach *a)
{
	edge_attach_end_with_code(a, WS_INTERNAL, "out of memory");
}

/* Keep the unparsed rest in b, where it may be already. */
static void edge_attach_keep_unparsed(struct edge_attach *a, struct buf *b, bool copied,
				      struct slice rest)
{
	if (copied)
		buf_consume(b, b->len - rest.n);
	else if (buf_append(b, rest.p, rest.n) < 0)
		edge_attach_abort(a);
	if (!b->len) {
		buf_fini(b);
		b->max = IN_MAX;
	}
}

static int edge_attach_send_frame(struct edge_attach *a, const struct frame *f, struct slice whole)
{
	int r = ws_send(&a->ws, WS_BINARY, whole.p, whole.n);

	if (r >= 0 && f->type == FRAME_END)
		edge_attach_end_with_code(a, WS_NORMAL, "");
	else if (r >= 0 && f->type == FRAME_ERROR)
		edge_attach_end_with_code(a, ATTACH_REFUSED, "the error frame says why");
	return r;
}

static int edge_attach_send_raw_bytes(struct edge_attach *a, const struct frame *f)
{
	struct attach_raw_output said = attach_raw_convert_frame(&a->raw, f);
	int r = said.bytes.n ? ws_send(&a->ws, WS_BINARY, said.bytes.p, said.bytes.n) : 0;

	if (r >= 0 && said.close_code)
		edge_attach_end_with_code(a, said.close_code, said.reason);
	return r;
}

/* Move one whole frame; false when no more can be done now. */
static bool edge_attach_move_frame_out(struct edge_attach *a, struct slice *in)
{
	struct frame f;
	int n = attach_frame_decode(ATTACH_OUT, (const uint8_t *)in->p, in->n, &f);

	if (n == 0)
		return false;
	if (n < 0) {
		edge_attach_end_with_code(a, ATTACH_BROKEN, "the sandbox sent an invalid frame");
		return false;
	}
	if ((a->is_raw ? edge_attach_send_raw_bytes(a, &f)
		       : edge_attach_send_frame(a, &f, (struct slice){ in->p, (size_t)n })) < 0) {
		edge_attach_end_no_memory(a);
		return false;
	}
	in->p += n;
	in->n -= (size_t)n;
	return !a->ending;
}

/* The same for bytes of a screen. */
static bool edge_attach_move_screen_out(struct edge_attach *a, struct slice *in)
{
	size_t n = in->n < SCREEN_PIECE ? in->n : SCREEN_PIECE;

	if (!n)
		return false;
	if (ws_send(&a->ws, WS_BINARY, in->p, n) < 0) {
		edge_attach_end_no_memory(a);
		return false;
	}
	in->p += n;
	in->n -= n;
	return true;
}

static bool edge_attach_move_out(struct edge_attach *a, struct slice *in)
{
	return a->is_screen ? edge_attach_move_screen_out(a, in)
			    : edge_attach_move_frame_out(a, in);
}

static void edge_attach_move_output(struct edge_attach *a, struct slice fresh)
{
	bool copied = a->from_sandbox.len;
	struct slice in = fresh;
	bool full;

	if (copied && buf_append(&a->from_sandbox, fresh.p, fresh.n) < 0) {
		edge_attach_end_no_memory(a);
		return;
	}
	if (copied)
		in = (struct slice){ a->from_sandbox.data, a->from_sandbox.len };
	do {
		while (!ws_output_is_full(&a->ws) && edge_attach_move_out(a, &in))
			;
		full = ws_output_is_full(&a->ws);
		edge_attach_flush_to_client(a);
	} while (full && !a->ending && !ws_output_is_full(&a->ws));
	if (a->ending)
		return;
	edge_attach_keep_unparsed(a, &a->from_sandbox, copied, in);
	if (!a->ending)
		conn_set_reading(a->sandbox, !ws_output_is_full(&a->ws));
}

static void on_edge_attach_sandbox_end(struct conn *c, const struct cay_err *)
{
	edge_attach_end_with_code(conn_data(c), ATTACH_GONE, "the sandbox closed the connection");
}

static void on_edge_attach_paused_timer(uv_timer_t *t)
{
	struct edge_attach *a = t->data;
	struct pollfd p = { .fd = conn_fd(a->client), .events = POLLRDHUP };

	if (p.fd >= 0 && poll(&p, 1, 0) > 0)
		edge_attach_abort(a);
}

/* While paused a client that leaves goes unnoticed, so poll. */
static void edge_attach_pause_client(struct edge_attach *a, bool on)
{
	if (on == a->paused || a->ending)
		return;
	a->paused = on;
	conn_set_reading(a->client, !on);
	if (on)
		(void)uv_timer_start(&a->timer, on_edge_attach_paused_timer, WATCH_MS, WATCH_MS);
	else
		(void)uv_timer_stop(&a->timer);
}

static void edge_attach_accept_frame(struct edge_attach *a, struct slice msg)
{
	struct frame f;
	int n = attach_frame_decode(ATTACH_IN, (const uint8_t *)msg.p, msg.n, &f);

	if (n <= 0 || (size_t)n != msg.n)
		edge_attach_end_with_code(
			a, WS_POLICY, "a message must be one whole frame that a client may send");
	else if (!a->sandbox_stuck && buf_append(&a->to_sandbox, msg.p, msg.n) < 0)
		edge_attach_end_no_memory(a);
}

static void edge_attach_accept_raw_bytes(struct edge_attach *a, const struct ws_event *ev)
{
	if (!a->ending && !a->sandbox_stuck &&
	    attach_raw_convert_message(&a->raw, ev, &a->to_sandbox) < 0)
		edge_attach_end_no_memory(a);
}

static void edge_attach_accept_rfb(struct edge_attach *a, struct slice bytes)
{
	const char *why = NULL;
	int r = a->ending || a->sandbox_stuck
			? 0
			: rfb_filter_push(&a->rfb, bytes, &a->to_sandbox, &why);

	if (r == -EPROTO)
		edge_attach_end_with_code(a, WS_POLICY, why);
	else if (r < 0)
		edge_attach_end_no_memory(a);
}

static void edge_attach_accept_message(struct edge_attach *a, enum ws_event_type type,
				       const struct ws_event *ev)
{
	if (type == WS_CLOSED)
		edge_attach_end(a);
	else if (a->is_raw && type != WS_PONG)
		edge_attach_accept_raw_bytes(a, ev);
	else if (type == WS_TEXT)
		edge_attach_end_with_code(a, WS_KIND, "messages must be binary");
	else if (type == WS_BINARY && a->is_screen)
		edge_attach_accept_rfb(a, ev->data);
	else if (type == WS_BINARY && !a->ending)
		edge_attach_accept_frame(a, ev->data);
}

static bool edge_attach_can_move_input(const struct edge_attach *a)
{
	if (a->is_raw && !a->raw.offset_known && !a->ending && !a->sandbox_stuck)
		return false;
	return a->ending || a->sandbox_stuck ||
	       conn_queued_bytes(a->sandbox) + a->to_sandbox.len <= THERE_MARK;
}

static void edge_attach_move_input(struct edge_attach *a, struct slice fresh)
{
	uint64_t now = uv_now(a->timer.loop);
	bool copied = a->from_client.len;
	struct slice in = fresh;
	struct ws_event ev;
	struct cay_err err = {};
	int r = WS_PONG;

	if (copied && buf_append(&a->from_client, fresh.p, fresh.n) < 0) {
		edge_attach_abort(a);
		return;
	}
	if (copied)
		in = (struct slice){ a->from_client.data, a->from_client.len };
	do {
		while (r > WS_MORE && !a->closing && edge_attach_can_move_input(a)) {
			r = ws_next_event(&a->ws, &in, now, &ev, &err);
			if (r > WS_MORE)
				edge_attach_accept_message(a, (enum ws_event_type)r, &ev);
		}
		if (!a->closing)
			edge_attach_flush_to_sandbox(a);
	} while (r > WS_MORE && !a->closing && edge_attach_can_move_input(a));
	if (r < 0)
		edge_attach_end(a); /* ws queued the Close with the reason */
	if (a->closing)
		return;
	edge_attach_keep_unparsed(a, &a->from_client, copied, in);
	edge_attach_pause_client(a, r != WS_MORE);
	edge_attach_flush_to_client(a);
	if (a->flushed && ws_is_over(&a->ws))
		conn_shutdown(a->client);
}

static void edge_attach_resume_input(struct edge_attach *a)
{
	if (!a->ending && a->paused && conn_queued_bytes(a->sandbox) <= THERE_MARK / 2)
		edge_attach_move_input(a, (struct slice){});
}

static void on_edge_attach_sandbox_read(struct conn *c, struct slice bytes)
{
	struct edge_attach *a = conn_data(c);

	edge_attach_move_output(a, bytes);
	edge_attach_resume_input(a); /* the frame may have set the offset of stdin */
}

/* A write failed.  The sandbox may have ended before, with its last output still to be read. */
static void on_edge_attach_sandbox_stuck(struct conn *c)
{
	struct edge_attach *a = conn_data(c);

	a->sandbox_stuck = true;
	if (!a->ending && a->paused)
		edge_attach_move_input(a, (struct slice){});
}

static void on_edge_attach_client_read(struct conn *c, struct slice bytes)
{
	edge_attach_move_input(conn_data(c), bytes);
}

static void on_edge_attach_client_end(struct conn *c, const struct cay_err *)
{
	edge_attach_abort(conn_data(c));
}

/* Also how server_stop() ends it. */
static void on_edge_attach_client_stuck(struct conn *c)
{
	edge_attach_abort(conn_data(c));
}

static void on_edge_attach_client_sent(struct conn *c)
{
	struct edge_attach *a = conn_data(c);

	edge_attach_flush_to_client(a);
	if (!a->ending && !ws_output_is_full(&a->ws))
		edge_attach_move_output(a, (struct slice){});
	edge_attach_resume_input(a);
}

static void on_edge_attach_sandbox_sent(struct conn *c)
{
	edge_attach_resume_input(conn_data(c));
}

struct edge_attach_opening {
	struct edge *edge;
	struct ws_answer answer;
	struct edge_attach **hold;
	void (*done)(void *arg);
	void *arg;
};

static void on_edge_attach_not_opened(void *arg)
{
	struct edge_attach_opening *o = arg;

	o->done(o->arg);
	free(o);
}

static struct edge_attach *edge_attach_new(const struct edge_attach_opening *o,
					   const struct request *rq, uv_loop_t *loop)
{
	const char *protocol = o->answer.protocol;
	bool screen = rq->match.op == &ops[OP_SCREEN_VNC];
	bool bare = protocol && str_eq(protocol, ATTACH_RAW);
	struct ws_conf conf = { .message_max = FRAME_WHOLE,
				.fragments_max = FRAGMENTS_MAX,
				.out_max = WS_OUT_MAX,
				.parts = bare || screen };
	struct edge *e = o->edge;
	struct edge_attach *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	*a = (struct edge_attach){ .edge = e,
				   .next = e->attaches,
				   .open = 3,
				   .is_raw = bare,
				   .is_screen = screen,
				   .rfb = { .controls = rq->actor.scope >= SCOPE_WRITE },
				   .from_client = BUF_INIT(IN_MAX),
				   .from_sandbox = BUF_INIT(IN_MAX),
				   .to_sandbox = BUF_INIT(GATHERED_MAX),
				   .done = o->done,
				   .arg = o->arg };
	ws_init(&a->ws, &conf);
	(void)uv_timer_init(loop, &a->timer);
	a->timer.data = a;
	if (e->attaches)
		e->attaches->prev = a;
	e->attaches = a;
	return a;
}

static void edge_attach_begin(struct edge_attach *a, struct slice from_client,
			      struct slice from_there)
{
	static const struct conn_events client = { .read = on_edge_attach_client_read,
						   .end = on_edge_attach_client_end,
						   .sent = on_edge_attach_client_sent,
						   .stuck = on_edge_attach_client_stuck,
						   .closed = on_edge_attach_conn_closed };
	static const struct conn_events there = { .read = on_edge_attach_sandbox_read,
						  .end = on_edge_attach_sandbox_end,
						  .sent = on_edge_attach_sandbox_sent,
						  .stuck = on_edge_attach_sandbox_stuck,
						  .closed = on_edge_attach_conn_closed };

	conn_set_owner(a->client, &client, a, WS_OUT_MAX);
	conn_set_owner(a->sandbox, &there, a, THERE_MARK + FRAME_WHOLE);
	conn_set_reading(a->client, true);
	if (a->edge->draining)
		edge_attach_end_for_drain(a);
	if (!a->ending)
		edge_attach_move_output(a, from_there);
	if (!a->closing && from_client.n)
		edge_attach_move_input(a, from_client);
}

static void on_edge_attach_upgraded(struct request *rq, struct conn *there, struct slice from_there,
				    void *arg)
{
	struct edge_attach_opening *o = arg;
	struct edge_attach *a = edge_attach_new(o, rq, request_loop(rq));
	auto_buf early = BUF_INIT(IN_MAX);

	if (!a) {
		request_no_memory(rq);
		conn_discard(there);
		on_edge_attach_not_opened(o);
		return;
	}
	(void)request_add_reply_header(rq, "Sec-WebSocket-Accept", o->answer.accept);
	if (o->answer.protocol)
		(void)request_add_reply_header(rq, "Sec-WebSocket-Protocol", o->answer.protocol);
	*o->hold = a;
	free(o);
	a->sandbox = there;
	a->client = request_upgrade(rq, &early);
	if (!a->client) {
		a->closing = a->ending = true;
		a->open = 1;
		conn_discard(there);
		uv_close((uv_handle_t *)&a->timer, on_edge_attach_timer_closed);
		return;
	}
	edge_attach_begin(a, (struct slice){ early.data, early.len }, from_there);
}

/* A client without frames cannot send acks. */
static int edge_attach_check_acks(struct request *rq, const char *protocol, struct cay_err *err)
{
	const struct exec_attach_query *q = rq->query;

	if (protocol && str_eq(protocol, ATTACH_RAW) && rq->match.op == &ops[OP_EXEC_ATTACH] && q &&
	    q->acks)
		return cay_fail(err, CAY_E_INVALID,
				"'acks' need frames; '" ATTACH_RAW "' has none");
	return 0;
}

int edge_attach_start(struct edge *e, struct request *rq, struct relay_conf *conf,
		      struct edge_attach **hold, struct cay_err *err)
{
	static const char *const protocols[] = { ATTACH_PROTOCOL, ATTACH_RAW, NULL };
	static const char *const of_screens[] = { SCREEN_PROTOCOL, NULL };
	bool screen = rq->match.op == &ops[OP_SCREEN_VNC];
	struct ws_answer answer;
	struct edge_attach_opening *o;
	int r = ws_accept(rq->head, screen ? of_screens : protocols, &answer, err);

	if (r >= 0)
		r = edge_attach_check_acks(rq, answer.protocol, err);
	if (r < 0)
		return r;
	o = malloc(sizeof(*o));
	if (!o)
		return cay_no_memory(err);
	*o = (struct edge_attach_opening){ e, answer, hold, conf->done, conf->arg };
	conf->upgrade = true;
	conf->protocol = screen ? HELLO_SCREEN_PROTOCOL : ATTACH_UPGRADE;
	conf->upgraded = on_edge_attach_upgraded;
	conf->done = on_edge_attach_not_opened;
	conf->arg = o;
	relay_start(rq, conf);
	return 0;
}

void edge_attach_terminate(struct edge_attach *a, const struct cay_err *why)
{
	bool gone = why->code == CAY_E_NOT_FOUND;

	edge_attach_end_with_code(a, gone ? (unsigned)ATTACH_GONE : (unsigned)WS_POLICY, why->msg);
	/* do not wait longer for a client that does not read */
	if (!a->closing && !a->flushed && !a->terminated)
		(void)uv_timer_start(&a->timer, on_edge_attach_deadline, END_MS, 0);
	a->terminated = true;
}

void edge_attach_drain_all(struct edge *e)
{
	e->draining = true;
	for (struct edge_attach *a = e->attaches; a; a = a->next)
		edge_attach_end_for_drain(a);
}
