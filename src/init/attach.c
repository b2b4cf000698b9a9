/* SPDX-License-Identifier: Apache-2.0 */
#include "init/attach.h"

#include <assert.h>
#include <poll.h>

#include "base/le.h"
#include "init/term.h"
#include "net/conn.h"
#include "wire/attach.h"

#define PIECE KIB(32)
#define OUT_MAX (ATTACH_MARK + PIECE + KIB(8)) /* a last frame on top */
#define IN_MAX (2 * CONN_READ)
#define WATCH_MS 1000
#define LINGER_MS 5000

static_assert(PIECE <= ATTACH_FRAME_MAX);

struct attach {
	struct writer writer; /* first: it is how the input knows us */
	struct job *job;      /* NULL once the last frame was said */
	struct conn *conn;
	uv_timer_t timer;
	unsigned open; /* the connection and the timer, while they are not closed */
	bool closing, pumping;
	/* out */
	struct reader readers[2];
	uint64_t sent[2]; /* with acks a reader stays behind, at what the client has */
	bool acks;
	uint64_t told; /* how much of stdin was taken */
	bool told_once, told_eof;
	bool told_role, writes; /* of a terminal: what it was told last */
	uint16_t cols, rows;    /* the same */
	/* in */
	uint8_t head[FRAME_HEAD];
	size_t n_head;
	struct frame small; /* its content comes to small_bytes */
	uint8_t small_bytes[FRAME_SIZE_LENGTH];
	size_t n_small;
	uint32_t left; /* bytes of a frame of stdin still to come */
	bool nowhere;  /* and nobody takes them */
	struct buf in; /* what waits for room in the pipe */
};

static const uint8_t names[2] = { FRAME_STDOUT, FRAME_STDERR };

static void unref(struct attach *a)
{
	if (--a->open == 0)
		free(a);
}

static void on_timer_closed(uv_handle_t *h)
{
	unref(h->data);
}

static void on_conn_closed(struct conn *c)
{
	unref(conn_data(c));
}

/* The job hears no more of us, nor we of it. */
static void leave(struct attach *a)
{
	a->pumping = true; /* detaching may wake us once more */
	if (a->job)
		input_disown(&a->job->in, &a->writer);
	a->job = NULL;
	input_leave(&a->writer);
	for (size_t i = 0; i < ARRAY_SIZE(a->readers); i++)
		output_detach(&a->readers[i]);
	buf_fini(&a->in);
}

static void shut(struct attach *a)
{
	if (a->closing)
		return;
	a->closing = true;
	leave(a);
	conn_close(a->conn);
	uv_close((uv_handle_t *)&a->timer, on_timer_closed);
}

/* Out */

static bool full(const struct attach *a)
{
	return conn_queued(a->conn) > ATTACH_MARK;
}

/* False when the conversation is over. */
static bool send_frame(struct attach *a, const struct frame *f)
{
	uint8_t head[FRAME_HEAD];
	uv_buf_t v[2] = { uv_buf_init((char *)head, sizeof(head)),
			  uv_buf_init((char *)(uintptr_t)f->content, f->length) };

	frame_encode_head(f, head);
	if (conn_write(a->conn, v, f->length ? 2 : 1) >= 0)
		return true;
	shut(a);
	return false;
}

static void on_linger(uv_timer_t *t)
{
	shut(t->data);
}

/* All is said: whoever is there has a moment to read it. */
static void linger(struct attach *a)
{
	if (!conn_queued(a->conn))
		(void)uv_timer_start(&a->timer, on_linger, LINGER_MS, 0);
}

static void say_last(struct attach *a, enum frame_type type, const struct buf *json)
{
	struct frame f = { .type = (uint8_t)type,
			   .length = (uint32_t)json->len,
			   .content = (const uint8_t *)json->data };

	if (!send_frame(a, &f))
		return;
	leave(a);
	conn_shutdown(a->conn);
	conn_read(a->conn, true); /* and thrown away */
	linger(a);
}

static void say_end(struct attach *a)
{
	auto_buf json = BUF_INIT(FRAME_JSON_MAX);
	struct jw w = jw_to(&json);

	field_encode(&end_table, NULL, &a->job->end, &w);
	if (jw_done(&w) < 0)
		shut(a);
	else
		say_last(a, FRAME_END, &json);
}

static void say_error(struct attach *a, const struct cay_err *err)
{
	auto_buf json = BUF_INIT(FRAME_JSON_MAX);
	struct jw w = jw_to(&json);

	op_write_error(err, NULL, NULL, &w);
	if (jw_done(&w) < 0)
		shut(a);
	else
		say_last(a, FRAME_ERROR, &json);
}

/* Where standard input stands, when that is news. */
static bool say_stdin(struct attach *a)
{
	const struct input *in = &a->job->in;
	struct frame f = { .type = in->fd < 0 ? FRAME_EOF : FRAME_TAKEN,
			   .stream = FRAME_STDIN,
			   .offset = in->taken };

	if (a->told_eof || (in->fd >= 0 && a->told_once && a->told == in->taken))
		return true;
	a->told_once = true;
	a->told_eof = in->fd < 0;
	a->told = in->taken;
	return send_frame(a, &f);
}

static bool owns(const struct attach *a)
{
	return a->job && a->job->in.owner == &a->writer; /* it may have left meanwhile */
}

/* Of a terminal: its size and who writes to it, when that is news. */
static bool say_terminal(struct attach *a)
{
	const struct job *j = a->job;
	uint8_t size[FRAME_SIZE_LENGTH], role = owns(a);
	struct frame f = { .type = FRAME_SIZE, .length = sizeof(size), .content = size };

	if (!j->tty)
		return true;
	if (a->cols != j->cols || a->rows != j->rows) {
		a->cols = j->cols;
		a->rows = j->rows;
		frame_put_size(a->cols, a->rows, size);
		if (!send_frame(a, &f))
			return false;
	}
	if (a->told_role && a->writes == role)
		return true;
	a->told_role = true;
	a->writes = role;
	f = (struct frame){
		.type = FRAME_ROLE, .offset = j->in.taken, .length = sizeof(role), .content = &role
	};
	return send_frame(a, &f);
}

static void went(struct attach *a, unsigned i, uint64_t n)
{
	a->sent[i] += n;
	if (!a->acks)
		output_moved(&a->readers[i], n);
}

/* 1: something went, 0: there was nothing, -1: it is over. */
static int send_piece(struct attach *a, unsigned i)
{
	struct output *o = a->readers[i].output;
	uint64_t lost = output_lost(o, a->sent[i]);
	uint8_t bytes[PIECE];
	struct frame f = {
		.type = FRAME_DATA, .stream = names[i], .offset = a->sent[i], .content = bytes
	};
	size_t n;

	if (lost) {
		le64_put(bytes, lost);
		f.type = FRAME_GAP;
		f.length = sizeof(lost);
	} else {
		n = output_read_for(&a->readers[i], a->sent[i], bytes, sizeof(bytes));
		if (!n && a->readers[i].broken) {
			shut(a);
			return -1;
		}
		if (!n)
			return 0;
		f.length = (uint32_t)n;
	}
	if (!send_frame(a, &f))
		return -1;
	went(a, i, lost ? lost : f.length);
	return 1;
}

static bool at_end(const struct attach *a)
{
	for (size_t i = 0; i < ARRAY_SIZE(a->readers); i++)
		if (a->sent[i] < output_end(a->readers[i].output))
			return false;
	return a->job->state == JOB_ENDED;
}

static void pump(struct attach *a)
{
	int some = 1;

	if (a->pumping || a->closing)
		return;
	a->pumping = true;
	while (some > 0 && !full(a)) {
		if (!say_stdin(a) || !say_terminal(a))
			return;
		some = 0;
		for (unsigned i = 0; i < ARRAY_SIZE(a->readers) && some >= 0 && !full(a); i++) {
			int r = send_piece(a, i);

			some = r ? r : some;
		}
	}
	if (some < 0)
		return;
	a->pumping = false;
	if (!full(a) && at_end(a))
		say_end(a);
}

static void on_more(struct reader *r)
{
	pump(r->data);
}

/* In */

__attribute__((format(printf, 3, 4))) static void refuse(struct attach *a, enum cay_code code,
							 const char *fmt, ...)
{
	struct cay_err err = { .code = code };
	va_list ap;

	va_start(ap, fmt);
	if (vsnprintf(err.msg, sizeof(err.msg), fmt, ap) < 0)
		err.msg[0] = 0;
	va_end(ap);
	say_error(a, &err);
}

/* May this frame go in?  What is sent while standard input is being closed goes
 * nowhere, and its sender is told by eof. */
static bool may_write(struct attach *a, const struct frame *f)
{
	struct input *in = &a->job->in;
	int r;

	if (a->job->tty && !owns(a))
		return false; /* it has been told, or will be */
	r = input_hold(in, &a->writer);
	if (r == -EBUSY)
		refuse(a, CAY_E_STATE, "another request is writing to it");
	else if (r >= 0 && f->offset != in->taken)
		refuse(a, CAY_E_CONFLICT, "standard input is at %llu, not at %llu",
		       (unsigned long long)in->taken, (unsigned long long)f->offset);
	return r >= 0 && a->job;
}

/* Who writes is waited for, who watches is not. */
static void set_role(struct attach *a, bool writes)
{
	struct job *j = a->job;

	if (writes) {
		input_own(&j->in, &a->writer);
		if (owns(a)) /* who had it may have taken it back at once */
			output_hold(&j->out[0], &a->readers[0]);
	} else if (owns(a)) {
		input_leave(&a->writer);
		input_disown(&j->in, &a->writer);
		output_hold(&j->out[0], NULL);
	}
	output_tell(&j->out[0]);
}

/* A frame of a terminal's, whole. */
static void take_small(struct attach *a)
{
	uint16_t cols, rows;
	bool writes;

	a->small.content = a->small_bytes;
	a->n_small = 0;
	if (!a->job->tty)
		refuse(a, CAY_E_INVALID, "the command has no terminal");
	else if (a->small.type == FRAME_SIZE ? frame_size(&a->small, &cols, &rows) < 0
					     : frame_role(&a->small, &writes) < 0)
		refuse(a, CAY_E_INVALID, "neither a size nor a role");
	else if (a->small.type == FRAME_ROLE)
		set_role(a, writes);
	else if (owns(a))
		(void)term_resize(a->job, cols, rows, &(struct cay_err){}); /* it may have ended */
	a->small.length = 0;
}

static void take_ack(struct attach *a, const struct frame *f)
{
	unsigned i = f->stream == FRAME_STDERR;
	struct reader *r = &a->readers[i];

	if (!a->acks || f->offset < r->pos || f->offset > a->sent[i])
		refuse(a, CAY_E_INVALID, "nobody can have %llu bytes of it",
		       (unsigned long long)f->offset);
	else
		output_moved(r, f->offset - r->pos);
}

static void take_head(struct attach *a)
{
	struct frame f;
	bool ok;

	a->n_head = 0;
	if (frame_decode_head(a->head, &f) < 0 || attach_check(ATTACH_IN, &f) < 0) {
		refuse(a, CAY_E_INVALID, "a frame that a client does not send");
		return;
	}
	if (f.type == FRAME_TAKEN) {
		take_ack(a, &f);
		return;
	}
	if (f.type == FRAME_SIZE || f.type == FRAME_ROLE) {
		a->small = f;
		return;
	}
	if (f.type == FRAME_EOF && a->job->tty) {
		refuse(a, CAY_E_INVALID, "a terminal's input has no end; send it the character");
		return;
	}
	ok = may_write(a, &f);
	if (!a->job)
		return;
	a->left = f.length;
	a->nowhere = !ok;
	if (f.type == FRAME_EOF && ok) {
		input_leave(&a->writer);
		input_close(&a->job->in);
	}
}

/* Bytes of a frame of stdin; false when they must wait. */
static bool take_content(struct attach *a, struct slice *in)
{
	struct slice part = { in->p, in->n < a->left ? in->n : a->left };
	size_t n = part.n;

	if (!a->nowhere && input_write(&a->job->in, &part) < 0) {
		a->nowhere = true;
		input_leave(&a->writer);
		input_close(&a->job->in);
	}
	if (a->nowhere)
		part.n = 0;
	n -= part.n;
	in->p += n;
	in->n -= n;
	a->left -= (uint32_t)n;
	if (!a->left)
		input_leave(&a->writer);
	return !part.n;
}

static void on_watch(uv_timer_t *t)
{
	struct attach *a = t->data;
	struct pollfd p = { .fd = conn_fd(a->conn), .events = POLLRDHUP };

	if (p.fd >= 0 && poll(&p, 1, 0) > 0)
		shut(a);
}

/* A connection that is not read from may have ended. */
static void hold_back(struct attach *a, struct slice rest)
{
	if (buf_add(&a->in, rest.p, rest.n) < 0 || input_wait(&a->job->in) < 0) {
		shut(a);
		return;
	}
	conn_read(a->conn, false);
	(void)uv_timer_start(&a->timer, on_watch, WATCH_MS, WATCH_MS);
}

/* From the front of in up to want bytes; how many there are now. */
static size_t gather(uint8_t *to, size_t *n, size_t want, struct slice *in)
{
	size_t take = want - *n < in->n ? want - *n : in->n;

	memcpy(to + *n, in->p, take);
	*n += take;
	in->p += take;
	in->n -= take;
	return *n;
}

static void take(struct attach *a, struct slice in)
{
	while (in.n && a->job) {
		if (a->left) {
			if (take_content(a, &in))
				continue;
			hold_back(a, in);
			break;
		}
		if (a->small.length) {
			if (gather(a->small_bytes, &a->n_small, a->small.length, &in) ==
			    a->small.length)
				take_small(a);
			continue;
		}
		if (gather(a->head, &a->n_head, FRAME_HEAD, &in) == FRAME_HEAD)
			take_head(a);
	}
	if (a->job)
		pump(a);
}

static void on_read(struct conn *c, struct slice bytes)
{
	struct attach *a = conn_data(c);

	if (!a->job)
		return; /* it was told how this ended */
	if (!a->in.len)
		take(a, bytes);
	else if (buf_add(&a->in, bytes.p, bytes.n) < 0)
		shut(a);
}

static void go_on(struct attach *a)
{
	auto_buf held = a->in;

	a->in = BUF_INIT(IN_MAX);
	(void)uv_timer_stop(&a->timer);
	conn_read(a->conn, true);
	take(a, (struct slice){ held.data, held.len });
}

static void on_room(struct writer *w)
{
	go_on((struct attach *)w);
}

/* Closed by somebody else, in the middle of what we had for it. */
static void on_cut(struct writer *w)
{
	struct attach *a = (struct attach *)w;

	a->nowhere = true;
	if (a->in.len)
		go_on(a);
	else
		pump(a);
}

static void on_sent(struct conn *c)
{
	struct attach *a = conn_data(c);

	if (!a->job)
		linger(a);
	else if (conn_queued(c) <= ATTACH_MARK / 2)
		pump(a);
}

static void on_end(struct conn *c, const struct cay_err *)
{
	shut(conn_data(c));
}

static void on_stuck(struct conn *c)
{
	shut(conn_data(c));
}

/* Birth */

static struct attach *attach_new(struct job *j, uv_loop_t *loop, const struct exec_attach_query *q)
{
	struct attach *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	*a = (struct attach){ .writer = { .room = on_room, .cut = on_cut },
			      .job = j,
			      .open = 2,
			      .sent = { q->stdout_offset, q->stderr_offset },
			      .acks = q->acks,
			      .in = BUF_INIT(IN_MAX) };
	(void)uv_timer_init(loop, &a->timer);
	a->timer.data = a;
	return a;
}

void attach_start(struct job *j, struct request *rq, const struct exec_attach_query *q)
{
	static const struct conn_events events = { .read = on_read,
						   .end = on_end,
						   .sent = on_sent,
						   .stuck = on_stuck,
						   .closed = on_conn_closed };
	auto_buf early = BUF_INIT(IN_MAX);
	struct cay_err err = {};
	struct attach *a = NULL;

	if (!http_eq(rq->head->upgrade, ATTACH_UPGRADE))
		(void)cay_fail(&err, CAY_E_UPGRADE, "this path goes on in '%s' only",
			       ATTACH_UPGRADE);
	else if (!(a = attach_new(j, request_loop(rq), q)))
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "no memory to attach");
	if (!a) {
		request_fail(rq, &err);
		return;
	}
	a->conn = request_upgrade(rq, &early);
	if (!a->conn) {
		a->open = 1;
		uv_close((uv_handle_t *)&a->timer, on_timer_closed);
		return;
	}
	conn_give(a->conn, &events, a, OUT_MAX);
	conn_read(a->conn, true);
	a->pumping = true; /* until both are attached */
	for (unsigned i = 0; i < ARRAY_SIZE(a->readers); i++) {
		a->readers[i] = (struct reader){ .more = on_more, .data = a };
		output_attach(&j->out[i], &a->readers[i], a->sent[i]);
	}
	a->pumping = false;
	if (j->tty && (q->role == ROLE_TAKE || (q->role == ROLE_AUTO && !j->in.owner)))
		set_role(a, true);
	pump(a);
	if (a->job)
		take(a, (struct slice){ early.data, early.len });
}
