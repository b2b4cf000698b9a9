/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/terminal.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>

#include "base/clock.h"
#include "cli/exec/attach-client.h"
#include "cli/exec/session.h"
#include "cli/exec/tty.h"
#include "cli/print/print.h"

#define PIECE KIB(16)
#define LEAVE_MS 1000 /* to send input typed before the detach keys */
#define CTRL_C 3
#define CTRL_D 4

struct terminal {
	struct api *api;
	const struct terminal_spec *spec;
	struct terminal_result *ret;
	struct attach_client attach;
	struct detach_keys detach_keys;
	int signals; /* signalfd for SIGWINCH, SIGCONT, SIGQUIT */
	bool raw, may_have_queried;
	uint64_t next[FRAME_NUM_STREAMS];
	struct slice pending_write; /* output for write_fd */
	int write_fd;
	bool ended;
	bool needs_bytes; /* no complete frame is buffered */
	/* input: held begins at offset base; up to sent was sent on this connection */
	struct buf held;
	uint64_t base, sent;
	bool offset_known; /* base is the server's, on this connection */
	bool role_known;   /* until then input stays unread in the terminal */
	bool writes, closed, eof, eof_sent;
	uint16_t cols, rows; /* last known at the other end */
	unsigned tries;
	uint64_t leave_ns; /* deadline for unsent input after detaching */
};

/* A raw terminal does not add carriage returns. */
#define note(t, ...) \
	do { \
		if ((t)->raw && write(STDERR_FILENO, "\r\n", 2) < 0) \
			break; \
		print_note(__VA_ARGS__); \
		if ((t)->raw && write(STDERR_FILENO, "\r", 1) < 0) \
			break; \
	} while (false)

/* The server has input up to here: drop it from held, send the rest again. */
static void terminal_set_input_offset(struct terminal *t, uint64_t at)
{
	if (at < t->base || at > t->base + t->held.len) {
		buf_clear(&t->held); /* another client wrote */
		t->base = at;
	}
	buf_consume(&t->held, (size_t)(at - t->base));
	t->base = t->sent = at;
	t->offset_known = true;
}

static int terminal_acknowledge_input(struct terminal *t, uint64_t at, struct cay_err *err)
{
	if (!t->offset_known && !t->spec->tty) {
		terminal_set_input_offset(t, at);
		return 0;
	}
	if (!t->offset_known || (t->spec->tty && !t->writes) || at < t->base)
		return 0;
	if (at > t->sent)
		return cay_fail(err, CAY_E_MISBEHAVED,
				"the server acknowledged more input than was sent");
	buf_consume(&t->held, (size_t)(at - t->base));
	t->base = at;
	return 0;
}

static int terminal_send_size(struct terminal *t, struct cay_err *err)
{
	uint8_t bytes[FRAME_SIZE_LENGTH];
	uint16_t cols, rows;
	struct frame f = { .type = FRAME_SIZE, .length = sizeof(bytes), .content = bytes };

	if (!t->spec->tty || !t->writes || !tty_read_size(&cols, &rows) ||
	    (cols == t->cols && rows == t->rows))
		return 0;
	t->cols = cols;
	t->rows = rows;
	frame_size_encode(cols, rows, bytes);
	return attach_client_send_frame(&t->attach, &f, err);
}

static int terminal_handle_role(struct terminal *t, const struct frame *f, struct cay_err *err)
{
	bool before = t->writes;

	if (frame_role_decode(f, &t->writes) < 0)
		return cay_fail(err, CAY_E_MISBEHAVED, "invalid role");
	t->role_known = true;
	if (t->writes) {
		terminal_set_input_offset(t, f->offset);
		return terminal_send_size(t, err);
	}
	t->offset_known = false;
	buf_clear(&t->held);
	if (before || t->spec->role != ROLE_WATCH)
		note(t, "another client has the input; you are watching (use 'cay attach --take' "
			"to take over)");
	return 0;
}

static bool terminal_can_send(const struct terminal *t)
{
	return t->offset_known && !t->closed && (t->writes || !t->spec->tty);
}

static int terminal_send_input(struct terminal *t, struct cay_err *err)
{
	uint64_t end = t->base + t->held.len;
	struct frame f = { .type = FRAME_DATA, .stream = FRAME_STDIN, .offset = t->sent };

	if (!terminal_can_send(t) || http_client_has_unsent(&t->attach.http))
		return 0;
	if (t->sent < end) {
		f.content = (const uint8_t *)t->held.data + (t->sent - t->base);
		f.length = (uint32_t)(end - t->sent < PIECE ? end - t->sent : PIECE);
		t->sent += f.length;
		return attach_client_send_frame(&t->attach, &f, err);
	}
	if (!t->eof || t->eof_sent || t->spec->tty)
		return 0;
	t->eof_sent = true;
	f.type = FRAME_EOF;
	return attach_client_send_frame(&t->attach, &f, err);
}

static bool terminal_wants_input(const struct terminal *t)
{
	return !t->eof && !t->ret->detached && (t->raw || t->spec->forward_stdin) &&
	       (t->role_known || !t->spec->tty) && t->held.len + PIECE <= TERMINAL_HELD;
}

static int terminal_hold_input(struct terminal *t, const void *p, size_t n, struct cay_err *err)
{
	/* input of a watcher is dropped */
	if (t->closed || (t->spec->tty && !t->writes))
		return 0;
	return buf_append(&t->held, p, n) < 0 ? cay_no_memory(err) : 0;
}

static int terminal_read_input(struct terminal *t, struct cay_err *err)
{
	uint8_t bytes[PIECE];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
	size_t pass;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		t->eof = true;
		/* a terminal has no other end of file */
		return t->spec->tty ? terminal_hold_input(t, &(char){ CTRL_D }, 1, err) : 0;
	}
	pass = t->raw ? detach_keys_scan(&t->detach_keys, bytes, (size_t)n) : (size_t)n;
	if (pass < (size_t)n ||
	    (t->raw && t->spec->role == ROLE_WATCH && memchr(bytes, CTRL_C, (size_t)n)))
		t->ret->detached = true;
	t->leave_ns = clk_boot_ns(&clk_system) + LEAVE_MS * NS_PER_MS;
	return terminal_hold_input(t, bytes, pass, err);
}

static int terminal_handle_output(struct terminal *t, const struct frame *f, struct cay_err *err)
{
	bool gap = f->type == FRAME_GAP;
	uint64_t n = gap ? frame_gap_decode(f) : f->length;

	if (f->offset != t->next[f->stream] || !n)
		return cay_fail(err, CAY_E_MISBEHAVED,
				"output frames are out of order; the rest is not shown");
	t->next[f->stream] += n;
	t->tries = 0;
	if (gap) {
		note(t, "%llu bytes of output were lost", (unsigned long long)n);
		return 0;
	}
	t->may_have_queried |=
		memchr(f->content, 0x1b, f->length) || memchr(f->content, 0x05, f->length) ||
		memchr(f->content, 0x9b, f->length) || memchr(f->content, 0x9d, f->length);
	t->pending_write = (struct slice){ (const char *)f->content, f->length };
	t->write_fd = f->stream == FRAME_STDERR ? STDERR_FILENO : STDOUT_FILENO;
	return 0;
}

static int terminal_handle_frame(struct terminal *t, const struct frame *f, struct cay_err *err)
{
	struct slice json = { (const char *)f->content, f->length };

	switch ((enum frame_type)f->type) {
	case FRAME_DATA:
	case FRAME_GAP:
		return terminal_handle_output(t, f, err);
	case FRAME_TAKEN:
		return terminal_acknowledge_input(t, f->offset, err);
	case FRAME_EOF:
		t->closed = true;
		buf_clear(&t->held);
		t->base = t->sent; /* acknowledgements may still arrive */
		return 0;
	case FRAME_SIZE:
		return frame_size_decode(f, &t->cols, &t->rows);
	case FRAME_ROLE:
		return terminal_handle_role(t, f, err);
	case FRAME_END:
		t->ended = true;
		return session_end_decode(t->api, json, &t->ret->end, err);
	case FRAME_ERROR:
		return api_error_decode(t->api, json, err);
	case FRAME_NUM_TYPES:
		break;
	}
	return 0;
}

/* After POLLOUT, up to PIPE_BUF bytes can be written without blocking. */
static int terminal_write_output(struct terminal *t, struct cay_err *err)
{
	ssize_t n = write(t->write_fd, t->pending_write.p,
			  t->pending_write.n < 4096 ? t->pending_write.n : 4096);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0 && (errno == EPIPE || errno == EIO)) {
		t->ret->quit = 128 + SIGPIPE;
		return 0;
	}
	if (n < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "write the output");
	t->pending_write.p += n;
	t->pending_write.n -= (size_t)n;
	return 0;
}

static int terminal_connect(struct terminal *t, struct cay_err *err)
{
	struct exec_attach_query q = {
		.stdout_offset = t->next[FRAME_STDOUT],
		.stderr_offset = t->next[FRAME_STDERR],
		/* our broken connection may still hold the writer's role */
		.role = t->writes ? ROLE_TAKE : t->spec->role,
		.acks = !t->spec->tty,
	};

	t->offset_known = t->eof_sent = false;
	t->cols = t->rows = 0;
	return attach_client_open(&t->attach, t->api, &t->spec->sandbox, &t->spec->exec, &q, err);
}

static int terminal_reconnect(struct terminal *t, int r, struct cay_err *err)
{
	while (r < 0 && session_can_reconnect(r, err)) {
		if (++t->tries > session_tries_max(t->api))
			return r;
		*err = (struct cay_err){};
		t->api->hint[0] = 0;
		(void)interrupt_wait(&t->api->intr, -1, 0,
				     clk_boot_ns(&clk_system) + session_backoff_ns(t->tries));
		if (interrupt_take_signal(&t->api->intr)) {
			t->ret->quit = 128 + t->api->intr.signo;
			return 0;
		}
		r = terminal_connect(t, err);
	}
	return r;
}

/* Handle frames until there is output to write. */
static int terminal_handle_frames(struct terminal *t, struct cay_err *err)
{
	while (!t->pending_write.n && !t->ended) {
		struct frame f;
		int r = attach_client_next_frame(&t->attach, &f, err);

		t->needs_bytes = r == 0;
		if (r <= 0)
			return r;
		if (f.type == FRAME_DATA && !t->spec->tty) {
			/* the server keeps unacknowledged output for a reconnect */
			struct frame ack = { .type = FRAME_TAKEN,
					     .stream = f.stream,
					     .offset = f.offset + f.length };

			r = attach_client_send_frame(&t->attach, &ack, err);
		}
		if (r >= 0)
			r = terminal_handle_frame(t, &f, err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int terminal_exchange_bytes(struct terminal *t, const struct pollfd *p, struct cay_err *err)
{
	int r = 0;

	if (http_client_has_unsent(&t->attach.http)) {
		r = http_client_flush(&t->attach.http);
		/* the reason may still be readable */
		if (r < 0 && r != -EAGAIN)
			t->attach.http.sent = t->attach.http.out.len;
		r = 0;
	}
	if (t->needs_bytes && (p->revents || http_client_has_buffered(&t->attach.http)))
		r = http_client_receive(&t->attach.http, err);
	return r == -EAGAIN ? 0 : r;
}

static void terminal_read_signals(struct terminal *t)
{
	struct signalfd_siginfo info;

	while (read(t->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGQUIT)
			t->ret->quit = 128 + SIGQUIT;
		if (info.ssi_signo == SIGCONT && t->raw)
			tty_set_raw_again();
	}
}

enum { P_INTR, P_SIGNALS, P_STDIN, P_LINE, P_WRITE, P_NUM };

static bool terminal_is_leaving(const struct terminal *t)
{
	if (!t->ret->detached)
		return t->ret->quit;
	return !t->held.len || !terminal_can_send(t) || clk_boot_ns(&clk_system) >= t->leave_ns;
}

static int terminal_poll_once(struct terminal *t, struct cay_err *err)
{
	const struct http_client *h = &t->attach.http;
	short line =
		(short)((t->needs_bytes ? POLLIN : 0) | (http_client_has_unsent(h) ? POLLOUT : 0));
	struct pollfd p[P_NUM] = {
		[P_INTR] = { .fd = t->api->intr.fd, .events = POLLIN },
		[P_SIGNALS] = { .fd = t->signals, .events = POLLIN },
		[P_STDIN] = { .fd = terminal_wants_input(t) ? STDIN_FILENO : -1, .events = POLLIN },
		[P_LINE] = { .fd = line ? h->fd : -1, .events = http_client_poll_events(h, line) },
		[P_WRITE] = { .fd = t->pending_write.n ? t->write_fd : -1, .events = POLLOUT },
	};
	uint64_t deadline = t->ret->detached ? t->leave_ns : UINT64_MAX;
	int r = 0;

	if (t->needs_bytes && http_client_has_buffered(h))
		deadline = 0;
	if (poll(p, P_NUM, deadline_to_poll_ms(deadline)) < 0)
		return errno == EINTR ? 0 : cay_fail_sys(err, CAY_E_INTERNAL, errno, "poll");
	if (p[P_INTR].revents) {
		interrupt_read_signals(&t->api->intr);
		t->ret->quit = 128 + t->api->intr.signo;
	}
	if (p[P_SIGNALS].revents) {
		terminal_read_signals(t);
		r = terminal_send_size(t, err);
	}
	if (r >= 0 && p[P_WRITE].revents)
		r = terminal_write_output(t, err);
	if (r >= 0 && p[P_STDIN].revents)
		r = terminal_read_input(t, err);
	if (r >= 0)
		r = terminal_exchange_bytes(t, &p[P_LINE], err);
	return r;
}

static int terminal_run_loop(struct terminal *t, struct cay_err *err)
{
	int r = terminal_connect(t, err);

	for (;;) {
		if (r >= 0)
			r = terminal_handle_frames(t, err);
		if (r >= 0)
			r = terminal_send_input(t, err);
		if (r >= 0 && t->ended && !t->pending_write.n)
			return 0;
		if (terminal_is_leaving(t))
			return 0;
		if (r >= 0 && !t->ended)
			r = terminal_poll_once(t, err);
		else if (r >= 0)
			r = terminal_write_output(t, err);
		if (r < 0)
			r = terminal_reconnect(t, r, err);
		if (r < 0)
			return r;
	}
}

int terminal_run(struct api *a, const struct terminal_spec *spec, struct terminal_result *ret,
		 struct cay_err *err)
{
	struct terminal t = { .api = a,
			      .spec = spec,
			      .ret = ret,
			      .attach = ATTACH_CLIENT_INIT,
			      .detach_keys = spec->detach_keys,
			      .signals = -EBADF,
			      .held = BUF_INIT(TERMINAL_HELD + 1) };
	static const int signals[] = { SIGWINCH, SIGCONT, SIGQUIT };
	int r = interrupt_open_signalfd(signals, ARRAY_SIZE(signals), &t.signals, err);

	*ret = (struct terminal_result){};
	if (r >= 0 && spec->tty && isatty(STDIN_FILENO)) {
		r = tty_set_raw(err);
		t.raw = r >= 0;
	}
	if (r >= 0)
		r = terminal_run_loop(&t, err);
	if (t.raw)
		tty_restore(t.may_have_queried);
	attach_client_fini(&t.attach);
	buf_fini(&t.held);
	cay_closep(&t.signals);
	return r;
}
