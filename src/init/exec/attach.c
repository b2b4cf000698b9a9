/* SPDX-License-Identifier: Apache-2.0 */
#include "init/exec/attach.h"

#include <assert.h>
#include <poll.h>

#include "base/endian.h"
#include "init/exec/pty.h"
#include "net/conn.h"
#include "wire/attach.h"

#define PIECE KIB(32)
#define OUT_MAX (ATTACH_MARK + PIECE + KIB(8)) /* and a last frame */
#define IN_MAX (2 * CONN_READ)
#define WATCH_MS 1000
#define LINGER_MS 5000

static_assert(PIECE <= ATTACH_FRAME_MAX);

struct exec_attach {
	struct input_writer writer; /* first: the input has its address */
	struct exec *exec;          /* NULL after the last frame */
	struct conn *conn;
	uv_timer_t timer;
	unsigned open; /* the connection and the timer, while not closed */
	bool closing, pumping;
	/* out */
	struct output_reader readers[2];
	uint64_t sent[2]; /* with acks a reader stays at the bytes the client has confirmed */
	bool uses_acks;
	uint64_t stdin_reported; /* offset last sent */
	bool stdin_was_reported, eof_was_reported;
	bool role_was_reported, reported_role; /* of a terminal: last sent */
	uint16_t cols, rows;                   /* last sent */
	/* in */
	uint8_t head[FRAME_HEAD];
	size_t n_head;
	struct frame control; /* its content is gathered in small_bytes */
	uint8_t control_bytes[FRAME_SIZE_LENGTH];
	size_t n_control;
	uint32_t left;      /* of a stdin frame, still to come */
	bool discard_stdin; /* and they are discarded */
	struct buf in;      /* waits for room in the pipe */
};

static void attach_unref(struct exec_attach *a)
{
	if (--a->open == 0)
		free(a);
}

static void on_attach_timer_closed(uv_handle_t *h)
{
	attach_unref(h->data);
}

static void on_attach_conn_closed(struct conn *c)
{
	attach_unref(conn_data(c));
}

static void attach_detach_exec(struct exec_attach *a)
{
	a->pumping = true; /* removing a reader may call back */
	if (a->exec)
		input_clear_owner(&a->exec->in, &a->writer);
	a->exec = NULL;
	input_unlock(&a->writer);
	for (size_t i = 0; i < ARRAY_SIZE(a->readers); i++)
		output_remove_reader(&a->readers[i]);
	buf_fini(&a->in);
}

static void attach_close(struct exec_attach *a)
{
	if (a->closing)
		return;
	a->closing = true;
	attach_detach_exec(a);
	conn_close(a->conn);
	uv_close((uv_handle_t *)&a->timer, on_attach_timer_closed);
}

static bool attach_is_backlogged(const struct exec_attach *a)
{
	return conn_queued_bytes(a->conn) > ATTACH_MARK;
}

/* False: the connection is closed. */
static bool attach_send_frame(struct exec_attach *a, const struct frame *f)
{
	uint8_t head[FRAME_HEAD];
	uv_buf_t v[2] = { uv_buf_init((char *)head, sizeof(head)),
			  uv_buf_init((char *)(uintptr_t)f->content, f->length) };

	frame_encode_head(f, head);
	if (conn_write(a->conn, v, f->length ? 2 : 1) >= 0)
		return true;
	attach_close(a);
	return false;
}

static void on_attach_linger_timeout(uv_timer_t *t)
{
	attach_close(t->data);
}

/* After the last frame the client gets a moment to read it. */
static void attach_start_linger(struct exec_attach *a)
{
	if (!conn_queued_bytes(a->conn))
		(void)uv_timer_start(&a->timer, on_attach_linger_timeout, LINGER_MS, 0);
}

/* The last frame: the end of the exec, or the error. */
static void attach_send_last_frame(struct exec_attach *a, const struct cay_err *err)
{
	auto_buf json = BUF_INIT(FRAME_JSON_MAX);
	struct jw w = jw_to(&json);
	struct frame f = { .type = err ? FRAME_ERROR : FRAME_END };

	if (err)
		error_body_write(err, NULL, NULL, &w);
	else
		field_encode(&end_table, NULL, &a->exec->end, &w);
	if (jw_finish(&w) < 0) {
		attach_close(a);
		return;
	}
	f.length = (uint32_t)json.len;
	f.content = (const uint8_t *)json.data;
	if (!attach_send_frame(a, &f))
		return;
	attach_detach_exec(a);
	conn_shutdown(a->conn);
	conn_set_reading(a->conn, true); /* and discard */
	attach_start_linger(a);
}

/* The offset of standard input, if it has changed. */
static bool attach_report_stdin(struct exec_attach *a)
{
	const struct input *in = &a->exec->in;
	struct frame f = { .type = in->fd < 0 ? FRAME_EOF : FRAME_TAKEN,
			   .stream = FRAME_STDIN,
			   .offset = in->written };

	if (a->eof_was_reported ||
	    (in->fd >= 0 && a->stdin_was_reported && a->stdin_reported == in->written))
		return true;
	a->stdin_was_reported = true;
	a->eof_was_reported = in->fd < 0;
	a->stdin_reported = in->written;
	return attach_send_frame(a, &f);
}

static bool attach_owns_input(const struct exec_attach *a)
{
	return a->exec && a->exec->in.owner == &a->writer; /* it may have left meanwhile */
}

/* Of a terminal: its size and the client's role, if changed. */
static bool attach_report_terminal(struct exec_attach *a)
{
	const struct exec *exec = a->exec;
	uint8_t size[FRAME_SIZE_LENGTH], role = attach_owns_input(a);
	struct frame f = { .type = FRAME_SIZE, .length = sizeof(size), .content = size };

	if (!exec->tty)
		return true;
	if (a->cols != exec->cols || a->rows != exec->rows) {
		a->cols = exec->cols;
		a->rows = exec->rows;
		frame_size_encode(a->cols, a->rows, size);
		if (!attach_send_frame(a, &f))
			return false;
	}
	if (a->role_was_reported && a->reported_role == role)
		return true;
	a->role_was_reported = true;
	a->reported_role = role;
	f = (struct frame){ .type = FRAME_ROLE,
			    .offset = exec->in.written,
			    .length = sizeof(role),
			    .content = &role };
	return attach_send_frame(a, &f);
}

static void attach_count_sent(struct exec_attach *a, unsigned i, uint64_t n)
{
	a->sent[i] += n;
	if (!a->uses_acks)
		output_reader_advance(&a->readers[i], n);
}

/* 1: sent, 0: there was nothing, -1: closed. */
static int attach_send_output_piece(struct exec_attach *a, unsigned i)
{
	struct output *o = a->readers[i].output;
	uint64_t lost = output_lost_bytes(o, a->sent[i]);
	uint8_t bytes[PIECE];
	struct frame f = { .type = FRAME_DATA,
			   .stream = i ? FRAME_STDERR : FRAME_STDOUT,
			   .offset = a->sent[i],
			   .content = bytes };
	size_t n;

	if (lost) {
		le64_put(bytes, lost);
		f.type = FRAME_GAP;
		f.length = sizeof(lost);
	} else {
		n = output_read_for_reader(&a->readers[i], a->sent[i], bytes, sizeof(bytes));
		if (!n && a->readers[i].no_memory) {
			attach_close(a);
			return -1;
		}
		if (!n)
			return 0;
		f.length = (uint32_t)n;
	}
	if (!attach_send_frame(a, &f))
		return -1;
	attach_count_sent(a, i, lost ? lost : f.length);
	return 1;
}

static bool attach_output_is_complete(const struct exec_attach *a)
{
	for (size_t i = 0; i < ARRAY_SIZE(a->readers); i++)
		if (a->sent[i] < output_end_offset(a->readers[i].output))
			return false;
	return a->exec->state == EXEC_PHASE_ENDED;
}

static void attach_pump_output(struct exec_attach *a)
{
	int some = 1;

	if (a->pumping || a->closing)
		return;
	a->pumping = true;
	while (some > 0 && !attach_is_backlogged(a)) {
		if (!attach_report_stdin(a) || !attach_report_terminal(a))
			return;
		some = 0;
		for (unsigned i = 0;
		     i < ARRAY_SIZE(a->readers) && some >= 0 && !attach_is_backlogged(a); i++) {
			int r = attach_send_output_piece(a, i);

			some = r ? r : some;
		}
	}
	if (some < 0)
		return;
	a->pumping = false;
	if (!attach_is_backlogged(a) && attach_output_is_complete(a))
		attach_send_last_frame(a, NULL);
}

static void on_attach_output(struct output_reader *r)
{
	attach_pump_output(r->data);
}

[[gnu::format(printf, 3, 4)]]
static void attach_refuse(struct exec_attach *a, enum cay_code code, const char *fmt, ...)
{
	struct cay_err err = {};
	va_list ap;

	va_start(ap, fmt);
	(void)cay_vfail(&err, code, fmt, ap);
	va_end(ap);
	attach_send_last_frame(a, &err);
}

/* Whether this frame may be written.  Bytes sent while standard input is being closed are
 * discarded, and the eof frame reports that. */
static bool attach_can_write_stdin(struct exec_attach *a, const struct frame *f)
{
	struct input *in = &a->exec->in;
	int r;

	if (a->exec->tty && !attach_owns_input(a))
		return false; /* the role frame reports it */
	r = input_lock(in, &a->writer);
	if (r == -EBUSY)
		attach_refuse(a, CAY_E_STATE, "another request is writing to standard input");
	else if (r >= 0 && f->offset != in->written)
		attach_refuse(a, CAY_E_CONFLICT, "standard input is at %llu, not at %llu",
			      (unsigned long long)in->written, (unsigned long long)f->offset);
	return r >= 0 && a->exec;
}

/* Output waits for the client that writes, not for those that watch. */
static void attach_set_role(struct exec_attach *a, bool writes)
{
	struct exec *exec = a->exec;

	if (writes) {
		input_set_owner(&exec->in, &a->writer);
		if (attach_owns_input(a)) /* the former owner may have taken it back at once */
			output_set_awaited_reader(&exec->out[0], exec->out[0].mode == OUTPUT_BLOCK
									 ? &a->readers[0]
									 : NULL);
	} else if (attach_owns_input(a)) {
		input_unlock(&a->writer);
		input_clear_owner(&exec->in, &a->writer);
		output_set_awaited_reader(&exec->out[0], NULL);
	}
	output_notify_change(&exec->out[0]);
}

/* A whole control frame of a terminal. */
static void attach_handle_control_frame(struct exec_attach *a)
{
	uint16_t cols, rows;
	bool writes;

	a->control.content = a->control_bytes;
	a->n_control = 0;
	if (!a->exec->tty)
		attach_refuse(a, CAY_E_INVALID, "the command has no terminal");
	else if (a->control.type == FRAME_SIZE ? frame_size_decode(&a->control, &cols, &rows) < 0
					       : frame_role_decode(&a->control, &writes) < 0)
		attach_refuse(a, CAY_E_INVALID, "a terminal frame needs a size or a role");
	else if (a->control.type == FRAME_ROLE)
		attach_set_role(a, writes);
	else if (attach_owns_input(a))
		(void)exec_resize_pty(a->exec, cols, rows,
				      &(struct cay_err){}); /* it may have ended */
	a->control.length = 0;
}

static void attach_handle_ack(struct exec_attach *a, const struct frame *f)
{
	unsigned i = f->stream == FRAME_STDERR;
	struct output_reader *r = &a->readers[i];

	if (!a->uses_acks || f->offset < r->pos || f->offset > a->sent[i])
		attach_refuse(a, CAY_E_INVALID, "acknowledged %llu bytes, more than were sent",
			      (unsigned long long)f->offset);
	else
		output_reader_advance(r, f->offset - r->pos);
}

static void attach_handle_stdin_frame(struct exec_attach *a, const struct frame *f)
{
	bool ok = attach_can_write_stdin(a, f);

	if (!a->exec)
		return;
	a->left = f->length;
	a->discard_stdin = !ok;
	if (f->type == FRAME_EOF && ok) {
		input_unlock(&a->writer);
		input_close(&a->exec->in);
	}
}

static void attach_handle_frame_head(struct exec_attach *a)
{
	struct frame f;

	a->n_head = 0;
	if (frame_decode_head(a->head, &f) < 0 || attach_frame_check(ATTACH_IN, &f) < 0)
		attach_refuse(a, CAY_E_INVALID, "unexpected frame type");
	else if (f.type == FRAME_TAKEN)
		attach_handle_ack(a, &f);
	else if (f.type == FRAME_SIZE || f.type == FRAME_ROLE)
		a->control = f;
	else if (f.type == FRAME_EOF && a->exec->tty)
		attach_refuse(a, CAY_E_INVALID,
			      "a terminal's input cannot be closed; send ctrl-d (0x04) instead");
	else
		attach_handle_stdin_frame(a, &f);
}

/* Bytes of a stdin frame; false when they must wait. */
static bool attach_write_stdin(struct exec_attach *a, struct slice *in)
{
	struct slice part = { in->p, in->n < a->left ? in->n : a->left };
	size_t n = part.n;

	if (!a->discard_stdin && input_write(&a->exec->in, &part) < 0) {
		a->discard_stdin = true;
		input_unlock(&a->writer);
		input_close(&a->exec->in);
	}
	if (a->discard_stdin)
		part.n = 0;
	n -= part.n;
	in->p += n;
	in->n -= n;
	a->left -= (uint32_t)n;
	if (!a->left)
		input_unlock(&a->writer);
	return !part.n;
}

static void on_attach_paused_timer(uv_timer_t *t)
{
	struct exec_attach *a = t->data;
	struct pollfd p = { .fd = conn_fd(a->conn), .events = POLLRDHUP };

	if (p.fd >= 0 && poll(&p, 1, 0) > 0)
		attach_close(a);
}

/* While the connection is not read, its end is not seen, so check now. */
static void attach_pause_client(struct exec_attach *a, struct slice rest)
{
	if (buf_append(&a->in, rest.p, rest.n) < 0 || input_wait_room(&a->exec->in) < 0) {
		attach_close(a);
		return;
	}
	conn_set_reading(a->conn, false);
	(void)uv_timer_start(&a->timer, on_attach_paused_timer, WATCH_MS, WATCH_MS);
}

/* Copy from the front of in; true when there are `want` bytes. */
static bool attach_fill_bytes(uint8_t *to, size_t *n, size_t want, struct slice *in)
{
	size_t take = want - *n < in->n ? want - *n : in->n;

	memcpy(to + *n, in->p, take);
	*n += take;
	in->p += take;
	in->n -= take;
	return *n == want;
}

static void attach_parse_input(struct exec_attach *a, struct slice in)
{
	while (in.n && a->exec) {
		if (a->left) {
			if (attach_write_stdin(a, &in))
				continue;
			attach_pause_client(a, in);
			break;
		}
		if (a->control.length) {
			if (attach_fill_bytes(a->control_bytes, &a->n_control, a->control.length,
					      &in))
				attach_handle_control_frame(a);
		} else if (attach_fill_bytes(a->head, &a->n_head, FRAME_HEAD, &in)) {
			attach_handle_frame_head(a);
		}
	}
	if (a->exec)
		attach_pump_output(a);
}

static void on_attach_client_data(struct conn *c, struct slice bytes)
{
	struct exec_attach *a = conn_data(c);

	if (!a->exec)
		return; /* an error frame was sent */
	if (!a->in.len)
		attach_parse_input(a, bytes);
	else if (buf_append(&a->in, bytes.p, bytes.n) < 0)
		attach_close(a);
}

static void attach_resume_client(struct exec_attach *a)
{
	auto_buf held = a->in;

	a->in = BUF_INIT(IN_MAX);
	(void)uv_timer_stop(&a->timer);
	conn_set_reading(a->conn, true);
	attach_parse_input(a, (struct slice){ held.data, held.len });
}

static void on_attach_stdin_room(struct input_writer *w)
{
	attach_resume_client((struct exec_attach *)w);
}

/* Standard input was closed or taken over while bytes for it waited. */
static void on_attach_stdin_cut(struct input_writer *w)
{
	struct exec_attach *a = (struct exec_attach *)w;

	a->discard_stdin = true;
	if (a->in.len)
		attach_resume_client(a);
	else
		attach_pump_output(a);
}

static void on_attach_client_sent(struct conn *c)
{
	struct exec_attach *a = conn_data(c);

	if (!a->exec)
		attach_start_linger(a);
	else if (conn_queued_bytes(c) <= ATTACH_MARK / 2)
		attach_pump_output(a);
}

static void on_attach_client_end(struct conn *c, const struct cay_err *)
{
	attach_close(conn_data(c));
}

static void on_attach_client_stuck(struct conn *c)
{
	attach_close(conn_data(c));
}

static struct exec_attach *exec_attach_new(struct exec *exec, uv_loop_t *loop,
					   const struct exec_attach_query *q)
{
	struct exec_attach *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	*a = (struct exec_attach){ .writer = { .on_room = on_attach_stdin_room,
					       .on_cut = on_attach_stdin_cut },
				   .exec = exec,
				   .open = 2,
				   .sent = { q->stdout_offset, q->stderr_offset },
				   .uses_acks = q->acks,
				   .in = BUF_INIT(IN_MAX) };
	(void)uv_timer_init(loop, &a->timer);
	a->timer.data = a;
	return a;
}

void exec_attach_start(struct exec *exec, struct request *rq, const struct exec_attach_query *q)
{
	static const struct conn_events events = { .read = on_attach_client_data,
						   .end = on_attach_client_end,
						   .sent = on_attach_client_sent,
						   .stuck = on_attach_client_stuck,
						   .closed = on_attach_conn_closed };
	auto_buf early = BUF_INIT(IN_MAX);
	struct cay_err err = {};
	struct exec_attach *a = NULL;

	if (!http_equals_nocase(rq->head->upgrade, ATTACH_UPGRADE))
		(void)cay_fail(&err, CAY_E_UPGRADE, "this endpoint needs 'Upgrade: %s'",
			       ATTACH_UPGRADE);
	else if (!(a = exec_attach_new(exec, request_loop(rq), q)))
		(void)cay_no_memory(&err);
	if (!a) {
		request_fail(rq, &err);
		return;
	}
	a->conn = request_upgrade(rq, &early);
	if (!a->conn) {
		a->open = 1;
		uv_close((uv_handle_t *)&a->timer, on_attach_timer_closed);
		return;
	}
	conn_set_owner(a->conn, &events, a, OUT_MAX);
	conn_set_reading(a->conn, true);
	a->pumping = true; /* until both readers are added */
	for (unsigned i = 0; i < ARRAY_SIZE(a->readers); i++) {
		a->readers[i] = (struct output_reader){ .on_more = on_attach_output, .data = a };
		output_add_reader(&exec->out[i], &a->readers[i], a->sent[i]);
	}
	a->pumping = false;
	if (exec->tty && (q->role == ROLE_TAKE || (q->role == ROLE_AUTO && !exec->in.owner)))
		attach_set_role(a, true);
	attach_pump_output(a);
	if (a->exec)
		attach_parse_input(a, (struct slice){ early.data, early.len });
}
