/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A WebSocket on one side, frames of wire/attach.h on the other; a frame is a message, or
 * bare bytes are (raw.h).
 *
 *	opening -> open -> ending -> closed
 *
 * Opening: the sandbox is asked first, so that a command that is not there is an
 * ordinary 404.  Open: a side that does not read stops the other from being read, and
 * only that direction.  Ending: the sandbox's connection is closed, what was queued and
 * a Close behind it go out, and the client has END_MS from then to answer.
 *
 * What a sandbox sends is looked at no further than a frame's header and braces, but for the
 * last word to who knows no frames.  Held
 * while both sides stall: less than 1 MiB; while nothing moves, no buffer at all.
 */
#include <poll.h>

#include "edge/edge.h"
#include "edge/raw.h"

#define FRAME_WHOLE (FRAME_HEAD + ATTACH_FRAME_MAX)
#define THERE_MARK KIB(64) /* more than this waits for the sandbox: stop reading the client */
#define IN_MAX (FRAME_WHOLE + CONN_READ)
#define WS_OUT_MAX KIB(192) /* WS_OUT_MARK, a frame, a pong and a Close */
#define FRAGMENTS_MAX 64
#define WATCH_MS 1000
#define END_MS 3000
#define UNREAD_MS 60000 /* for a client to read the last of it */

#define GATHERED_MAX (THERE_MARK + FRAME_WHOLE)

static_assert(WS_OUT_MARK + FRAME_WHOLE + KIB(1) < WS_OUT_MAX);

struct attach {
	struct edge *edge;
	struct attach *prev, *next;
	struct conn *client, *there; /* NULL once they are closed */
	uv_timer_t timer;            /* a client that is not read from; then the end's deadline */
	unsigned open;               /* those three, while they are not closed */
	bool closing, ending, flushed, cut_off;
	bool paused; /* the client is not read */
	bool deaf;   /* the sandbox takes no more; what it has said is still to be read */
	bool bare;   /* the client knows no frames */
	struct raw raw;
	struct ws ws;
	struct buf from_client, from_there; /* read and not moved on */
	struct buf gathered;                /* frames of one read of the client's, for one write */
	void (*done)(void *arg);
	void *arg;
};

static const struct conn_events nobody = {};

static void unref(struct attach *a)
{
	if (--a->open)
		return;
	if (a->prev)
		a->prev->next = a->next;
	else
		a->edge->attached = a->next;
	if (a->next)
		a->next->prev = a->prev;
	ws_fini(&a->ws);
	buf_fini(&a->from_client);
	buf_fini(&a->from_there);
	buf_fini(&a->gathered);
	a->done(a->arg);
	free(a);
}

static void on_timer_closed(uv_handle_t *h)
{
	unref(h->data);
}

static void on_client_closed(struct conn *c)
{
	struct attach *a = conn_data(c);

	a->client = NULL;
	unref(a);
}

static void on_there_closed(struct conn *c)
{
	struct attach *a = conn_data(c);

	a->there = NULL;
	unref(a);
}

static void cut(struct attach *a)
{
	if (a->closing)
		return;
	a->closing = a->ending = true;
	conn_close(a->client);
	if (a->there)
		conn_close(a->there);
	uv_close((uv_handle_t *)&a->timer, on_timer_closed);
}

static void on_deadline(uv_timer_t *t)
{
	cut(t->data);
}

/* All that waits goes out as the socket takes it: ws holds the queue, because it knows
 * which pong of many is worth sending. */
static void flush(struct attach *a)
{
	struct slice out;

	while (!a->closing && !conn_queued(a->client) && (out = ws_out(&a->ws)).n) {
		uv_buf_t v = uv_buf_init((char *)(uintptr_t)out.p, (unsigned)out.n);

		if (conn_write(a->client, &v, 1) < 0)
			cut(a);
		else
			ws_sent(&a->ws, out.n);
	}
	if (a->closing || !a->ending || a->flushed || conn_queued(a->client))
		return;
	/* our Close is out; a moment for the client's, and to read what we sent */
	a->flushed = true;
	(void)uv_timer_start(&a->timer, on_deadline, END_MS, 0);
	if (ws_over(&a->ws))
		conn_shutdown(a->client);
}

/* A write costs the same for a frame as for all there are. */
static void pass_in(struct attach *a)
{
	uv_buf_t v = uv_buf_init(a->gathered.data, (unsigned)a->gathered.len);

	if (v.len && !a->ending && conn_write(a->there, &v, 1) < 0)
		a->deaf = true;
	buf_fini(&a->gathered);
	a->gathered = BUF_INIT(GATHERED_MAX);
}

/* From here on only the two Closes matter. */
static void end(struct attach *a)
{
	if (a->ending)
		return;
	pass_in(a); /* what came in front of whatever ends it */
	a->ending = true;
	conn_close(a->there);
	buf_fini(&a->from_there);
	(void)uv_timer_start(&a->timer, on_deadline, UNREAD_MS, 0);
	a->paused = false;
	conn_read(a->client, true);
	flush(a);
}

static void end_with(struct attach *a, unsigned code, const char *why)
{
	if (!a->ending)
		(void)ws_close(&a->ws, code, why); /* it is open, or over already */
	end(a);
}

/* What is left of some bytes that lie in b, or must be put there. */
static void keep(struct attach *a, struct buf *b, bool copied, struct slice rest)
{
	if (copied)
		buf_consume(b, b->len - rest.n);
	else if (buf_add(b, rest.p, rest.n) < 0)
		cut(a);
	if (!b->len) {
		buf_fini(b);
		b->max = IN_MAX;
	}
}

/* Out of the sandbox */

static int pass_frame(struct attach *a, const struct frame *f, struct slice whole)
{
	int r = ws_send(&a->ws, WS_BINARY, whole.p, whole.n);

	if (r >= 0 && f->type == FRAME_END)
		end_with(a, WS_NORMAL, "");
	else if (r >= 0 && f->type == FRAME_ERROR)
		end_with(a, ATTACH_REFUSED, "the error frame says why");
	return r;
}

static int pass_bytes(struct attach *a, const struct frame *f)
{
	struct raw_said said = raw_out(&a->raw, f);
	int r = said.bytes.n ? ws_send(&a->ws, WS_BINARY, said.bytes.p, said.bytes.n) : 0;

	if (r >= 0 && said.code)
		end_with(a, said.code, said.reason);
	return r;
}

/* One frame, if there is a whole one; false when no more can be done now. */
static bool frame_out(struct attach *a, struct slice *in)
{
	struct frame f;
	int n = attach_cut(ATTACH_OUT, (const uint8_t *)in->p, in->n, &f);

	if (n == 0)
		return false;
	if (n < 0) {
		end_with(a, ATTACH_BROKEN, "the sandbox sent what is no frame");
		return false;
	}
	if ((a->bare ? pass_bytes(a, &f) : pass_frame(a, &f, (struct slice){ in->p, (size_t)n })) <
	    0) {
		end_with(a, WS_INTERNAL, "out of memory");
		return false;
	}
	in->p += n;
	in->n -= (size_t)n;
	return !a->ending;
}

static void move_out(struct attach *a, struct slice fresh)
{
	bool copied = a->from_there.len;
	struct slice in = fresh;
	bool full;

	if (copied && buf_add(&a->from_there, fresh.p, fresh.n) < 0) {
		end_with(a, WS_INTERNAL, "out of memory");
		return;
	}
	if (copied)
		in = (struct slice){ a->from_there.data, a->from_there.len };
	do {
		while (!ws_full(&a->ws) && frame_out(a, &in))
			;
		full = ws_full(&a->ws);
		flush(a);
	} while (full && !a->ending && !ws_full(&a->ws));
	if (a->ending)
		return;
	keep(a, &a->from_there, copied, in);
	if (!a->ending)
		conn_read(a->there, !ws_full(&a->ws));
}

static void on_there_end(struct conn *c, const struct cay_err *)
{
	end_with(conn_data(c), ATTACH_GONE, "the sandbox closed the connection");
}

/* Out of the client */

static void on_watch(uv_timer_t *t)
{
	struct attach *a = t->data;
	struct pollfd p = { .fd = conn_fd(a->client), .events = POLLRDHUP };

	if (p.fd >= 0 && poll(&p, 1, 0) > 0)
		cut(a);
}

/* Who is not read from is looked at now and then: it may have left. */
static void pause_client(struct attach *a, bool on)
{
	if (on == a->paused || a->ending)
		return;
	a->paused = on;
	conn_read(a->client, !on);
	if (on)
		(void)uv_timer_start(&a->timer, on_watch, WATCH_MS, WATCH_MS);
	else
		(void)uv_timer_stop(&a->timer);
}

static void frame_in(struct attach *a, struct slice msg)
{
	struct frame f;
	int n = attach_cut(ATTACH_IN, (const uint8_t *)msg.p, msg.n, &f);

	if (n <= 0 || (size_t)n != msg.n)
		end_with(a, WS_POLICY, "a message is one whole frame that a client may send");
	else if (!a->deaf && buf_add(&a->gathered, msg.p, msg.n) < 0)
		end_with(a, WS_INTERNAL, "out of memory");
}

static void bytes_in(struct attach *a, const struct ws_event *ev)
{
	if (!a->ending && !a->deaf && raw_in(&a->raw, ev, &a->gathered) < 0)
		end_with(a, WS_INTERNAL, "out of memory");
}

static void message(struct attach *a, enum ws_event_type type, const struct ws_event *ev)
{
	if (type == WS_CLOSED)
		end(a);
	else if (a->bare && type != WS_PONG)
		bytes_in(a, ev);
	else if (type == WS_TEXT)
		end_with(a, WS_KIND, "frames are binary");
	else if (type == WS_BINARY && !a->ending)
		frame_in(a, ev->data);
}

static bool may_move_in(const struct attach *a)
{
	if (a->bare && !a->raw.known && !a->ending && !a->deaf)
		return false;
	return a->ending || a->deaf || conn_queued(a->there) + a->gathered.len <= THERE_MARK;
}

static void move_in(struct attach *a, struct slice fresh)
{
	uint64_t now = uv_now(a->timer.loop);
	bool copied = a->from_client.len;
	struct slice in = fresh;
	struct ws_event ev;
	struct cay_err err = {};
	int r = WS_PONG;

	if (copied && buf_add(&a->from_client, fresh.p, fresh.n) < 0) {
		cut(a);
		return;
	}
	if (copied)
		in = (struct slice){ a->from_client.data, a->from_client.len };
	do {
		while (r > WS_MORE && !a->closing && may_move_in(a)) {
			r = ws_next(&a->ws, &in, now, &ev, &err);
			if (r > WS_MORE)
				message(a, (enum ws_event_type)r, &ev);
		}
		if (!a->closing)
			pass_in(a);
	} while (r > WS_MORE && !a->closing && may_move_in(a));
	if (r < 0)
		end(a); /* with the Close that says what was wrong */
	if (a->closing)
		return;
	keep(a, &a->from_client, copied, in);
	pause_client(a, r != WS_MORE);
	flush(a);
	if (a->flushed && ws_over(&a->ws))
		conn_shutdown(a->client);
}

static void go_on_in(struct attach *a)
{
	if (!a->ending && a->paused && conn_queued(a->there) <= THERE_MARK / 2)
		move_in(a, (struct slice){});
}

static void on_there_read(struct conn *c, struct slice bytes)
{
	struct attach *a = conn_data(c);

	move_out(a, bytes);
	go_on_in(a); /* it may have been about where stdin stands */
}

/* What was written has not arrived, or never will.  It may have ended before, and what it
 * said last is on its way to us. */
static void on_there_stuck(struct conn *c)
{
	struct attach *a = conn_data(c);

	a->deaf = true;
	if (!a->ending && a->paused)
		move_in(a, (struct slice){});
}

static void on_client_read(struct conn *c, struct slice bytes)
{
	move_in(conn_data(c), bytes);
}

static void on_client_end(struct conn *c, const struct cay_err *)
{
	cut(conn_data(c));
}

/* Also how the server says that it stops. */
static void on_client_stuck(struct conn *c)
{
	cut(conn_data(c));
}

static void on_client_sent(struct conn *c)
{
	struct attach *a = conn_data(c);

	flush(a);
	if (!a->ending && !ws_full(&a->ws))
		move_out(a, (struct slice){});
	go_on_in(a);
}

static void on_there_sent(struct conn *c)
{
	go_on_in(conn_data(c));
}

/* Opening */

struct opening {
	struct edge *edge;
	struct ws_answer answer;
	struct attach **hold;
	void (*done)(void *arg);
	void *arg;
};

static void on_not_opened(void *arg)
{
	struct opening *o = arg;

	o->done(o->arg);
	free(o);
}

static struct attach *attach_new(const struct opening *o, uv_loop_t *loop)
{
	const char *protocol = o->answer.protocol;
	bool bare = protocol && str_eq(protocol, ATTACH_RAW);
	struct ws_conf conf = { .message_max = FRAME_WHOLE,
				.fragments_max = FRAGMENTS_MAX,
				.out_max = WS_OUT_MAX,
				.parts = bare };
	struct edge *e = o->edge;
	struct attach *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	*a = (struct attach){ .edge = e,
			      .next = e->attached,
			      .open = 3,
			      .bare = bare,
			      .from_client = BUF_INIT(IN_MAX),
			      .from_there = BUF_INIT(IN_MAX),
			      .gathered = BUF_INIT(GATHERED_MAX),
			      .done = o->done,
			      .arg = o->arg };
	ws_init(&a->ws, &conf);
	(void)uv_timer_init(loop, &a->timer);
	a->timer.data = a;
	if (e->attached)
		e->attached->prev = a;
	e->attached = a;
	return a;
}

static void begin(struct attach *a, struct slice from_client, struct slice from_there)
{
	static const struct conn_events client = { .read = on_client_read,
						   .end = on_client_end,
						   .sent = on_client_sent,
						   .stuck = on_client_stuck,
						   .closed = on_client_closed };
	static const struct conn_events there = { .read = on_there_read,
						  .end = on_there_end,
						  .sent = on_there_sent,
						  .stuck = on_there_stuck,
						  .closed = on_there_closed };

	conn_give(a->client, &client, a, WS_OUT_MAX);
	conn_give(a->there, &there, a, THERE_MARK + FRAME_WHOLE);
	conn_read(a->client, true);
	if (a->edge->draining)
		end_with(a, WS_GOING_AWAY, "the server stops; come back by offset");
	if (!a->ending)
		move_out(a, from_there);
	if (!a->closing && from_client.n)
		move_in(a, from_client);
}

static void on_upgraded(struct request *rq, struct conn *there, struct slice from_there, void *arg)
{
	struct opening *o = arg;
	struct attach *a = attach_new(o, request_loop(rq));
	auto_buf early = BUF_INIT(IN_MAX);
	struct cay_err err = {};

	if (!a) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory to attach");
		request_fail(rq, &err);
		conn_give(there, &nobody, NULL, 0);
		conn_close(there);
		on_not_opened(o);
		return;
	}
	(void)request_header(rq, "Sec-WebSocket-Accept", o->answer.accept);
	if (o->answer.protocol)
		(void)request_header(rq, "Sec-WebSocket-Protocol", o->answer.protocol);
	*o->hold = a;
	free(o);
	a->there = there;
	a->client = request_upgrade(rq, &early);
	if (!a->client) {
		a->closing = a->ending = true;
		a->open = 1;
		conn_give(there, &nobody, NULL, 0);
		conn_close(there);
		uv_close((uv_handle_t *)&a->timer, on_timer_closed);
		return;
	}
	begin(a, (struct slice){ early.data, early.len }, from_there);
}

/* Who has no frames has none to say with what it has. */
static int check_acks(const struct request *rq, const char *protocol, struct cay_err *err)
{
	const struct exec_attach_query *q = rq->query;

	if (protocol && str_eq(protocol, ATTACH_RAW) && rq->match.op == &ops[OP_EXEC_ATTACH] && q &&
	    q->acks)
		return cay_fail(err, CAY_E_INVALID, "'acks' are frames; '%s' has none", ATTACH_RAW);
	return 0;
}

int attach_start(struct edge *e, struct request *rq, struct relay_conf *conf, struct attach **hold,
		 struct cay_err *err)
{
	static const char *const protocols[] = { ATTACH_PROTOCOL, ATTACH_RAW, NULL };
	struct ws_answer answer;
	struct opening *o;
	int r = ws_accept(rq->head, protocols, &answer, err);

	if (r >= 0)
		r = check_acks(rq, answer.protocol, err);
	if (r < 0)
		return r;
	o = malloc(sizeof(*o));
	if (!o)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory to attach");
	*o = (struct opening){ e, answer, hold, conf->done, conf->arg };
	conf->upgrade = true;
	conf->protocol = ATTACH_UPGRADE;
	conf->upgraded = on_upgraded;
	conf->done = on_not_opened;
	conf->arg = o;
	relay_start(rq, conf);
	return 0;
}

void attach_cut_off(struct attach *a, const struct cay_err *why)
{
	bool gone = why->code == CAY_E_NOT_FOUND;

	end_with(a, gone ? (unsigned)ATTACH_GONE : (unsigned)WS_POLICY, why->msg);
	/* who does not read is not waited for any longer than who does */
	if (!a->closing && !a->flushed && !a->cut_off)
		(void)uv_timer_start(&a->timer, on_deadline, END_MS, 0);
	a->cut_off = true;
}

void attach_drain(struct edge *e)
{
	e->draining = true;
	for (struct attach *a = e->attached; a; a = a->next)
		end_with(a, WS_GOING_AWAY, "the server stops; come back by offset");
}
