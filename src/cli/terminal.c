/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>

#include "base/clock.h"
#include "cli/session.h"
#include "cli/show.h"
#include "cli/talk.h"
#include "cli/tty.h"

#define PIECE KIB(16)
#define BACKOFF_MS 100
#define LEAVE_MS 1000 /* for what was typed in front of the keys */
#define CTRL_C 3
#define CTRL_D 4

struct terminal {
	struct api *api;
	const struct terminal_spec *spec;
	struct terminal_result *ret;
	struct talk talk;
	struct keys keys;
	int signals; /* of the terminal's own */
	bool raw, asked;
	/* out */
	uint64_t next[FRAME_NUM_STREAMS];
	struct slice write; /* waits for its fd */
	int write_fd;
	bool ended;
	bool starved; /* all that came was looked at */
	/* in: held begins at base, and up to sent was sent on this connection */
	struct buf held;
	uint64_t base, sent;
	bool known; /* where it stands, on this connection */
	bool told;  /* whether we write; what is typed before waits in the terminal */
	bool writes, closed, eof, eof_sent;
	uint16_t cols, rows; /* as the other side has them */
	unsigned tries;
	uint64_t leave_ns; /* when it is left, whatever was not sent */
};

/* Raw terminals do not return the carriage by themselves. */
#define note(t, ...) \
	do { \
		if ((t)->raw && write(STDERR_FILENO, "\r\n", 2) < 0) \
			break; \
		show_note(__VA_ARGS__); \
		if ((t)->raw && write(STDERR_FILENO, "\r", 1) < 0) \
			break; \
	} while (false)

/* In */

/* Standard input stands here: what is before it need not be held, what is behind it is
 * sent again. */
static void settle(struct terminal *t, uint64_t at)
{
	if (at < t->base || at > t->base + t->held.len) {
		buf_clear(&t->held); /* somebody else wrote */
		t->base = at;
	}
	buf_consume(&t->held, (size_t)(at - t->base));
	t->base = t->sent = at;
	t->known = true;
}

static int taken(struct terminal *t, uint64_t at, struct cay_err *err)
{
	if (!t->known && !t->spec->tty) {
		settle(t, at);
		return 0;
	}
	if (!t->known || (t->spec->tty && !t->writes) || at < t->base)
		return 0;
	if (at > t->sent)
		return cay_fail(err, CAY_E_MISBEHAVED, "more input was taken than was sent");
	buf_consume(&t->held, (size_t)(at - t->base));
	t->base = at;
	return 0;
}

static int send_size(struct terminal *t, struct cay_err *err)
{
	uint8_t bytes[FRAME_SIZE_LENGTH];
	uint16_t cols, rows;
	struct frame f = { .type = FRAME_SIZE, .length = sizeof(bytes), .content = bytes };

	if (!t->spec->tty || !t->writes || !tty_size(&cols, &rows) ||
	    (cols == t->cols && rows == t->rows))
		return 0;
	t->cols = cols;
	t->rows = rows;
	frame_put_size(cols, rows, bytes);
	return talk_send(&t->talk, &f, err);
}

static int take_role(struct terminal *t, const struct frame *f, struct cay_err *err)
{
	bool before = t->writes;

	if (frame_role(f, &t->writes) < 0)
		return cay_fail(err, CAY_E_MISBEHAVED, "a role that is none");
	t->told = true;
	if (t->writes) {
		settle(t, f->offset);
		return send_size(t, err);
	}
	t->known = false;
	buf_clear(&t->held);
	if (before || t->spec->role != ROLE_WATCH)
		note(t, "somebody else writes to it; you watch (cay attach --take takes over)");
	return 0;
}

static bool may_send(const struct terminal *t)
{
	return t->known && !t->closed && (t->writes || !t->spec->tty);
}

static int send_input(struct terminal *t, struct cay_err *err)
{
	uint64_t end = t->base + t->held.len;
	struct frame f = { .type = FRAME_DATA, .stream = FRAME_STDIN, .offset = t->sent };

	if (!may_send(t) || http_sending(&t->talk.http))
		return 0;
	if (t->sent < end) {
		f.content = (const uint8_t *)t->held.data + (t->sent - t->base);
		f.length = (uint32_t)(end - t->sent < PIECE ? end - t->sent : PIECE);
		t->sent += f.length;
		return talk_send(&t->talk, &f, err);
	}
	if (!t->eof || t->eof_sent || t->spec->tty)
		return 0;
	t->eof_sent = true;
	f.type = FRAME_EOF;
	return talk_send(&t->talk, &f, err);
}

static bool wants_input(const struct terminal *t)
{
	return !t->eof && !t->ret->detached && (t->raw || t->spec->feed) &&
	       (t->told || !t->spec->tty) && t->held.len + PIECE <= TERMINAL_HELD;
}

static int hold(struct terminal *t, const void *p, size_t n, struct cay_err *err)
{
	/* who only watches types into nothing */
	if (t->closed || (t->spec->tty && !t->writes))
		return 0;
	return buf_add(&t->held, p, n) < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : 0;
}

static int read_input(struct terminal *t, struct cay_err *err)
{
	uint8_t bytes[PIECE];
	ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
	size_t pass;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0) {
		t->eof = true;
		/* a terminal has no end of file but this */
		return t->spec->tty ? hold(t, &(char){ CTRL_D }, 1, err) : 0;
	}
	pass = t->raw ? keys_scan(&t->keys, bytes, (size_t)n) : (size_t)n;
	if (pass < (size_t)n ||
	    (t->raw && t->spec->role == ROLE_WATCH && memchr(bytes, CTRL_C, (size_t)n)))
		t->ret->detached = true;
	t->leave_ns = clk_boot_ns(&clk_system) + LEAVE_MS * NS_PER_MS;
	return hold(t, bytes, pass, err);
}

/* Out */

static int take_output(struct terminal *t, const struct frame *f, struct cay_err *err)
{
	bool gap = f->type == FRAME_GAP;
	uint64_t n = gap ? frame_gap(f) : f->length;

	if (f->offset != t->next[f->stream] || !n)
		return cay_fail(err, CAY_E_MISBEHAVED,
				"the output is not in order; the rest is not shown");
	t->next[f->stream] += n;
	t->tries = 0;
	if (gap) {
		note(t, "%llu bytes of its output were lost", (unsigned long long)n);
		return 0;
	}
	t->asked |= memchr(f->content, 0x1b, f->length) || memchr(f->content, 0x05, f->length) ||
		    memchr(f->content, 0x9b, f->length) || memchr(f->content, 0x9d, f->length);
	t->write = (struct slice){ (const char *)f->content, f->length };
	t->write_fd = f->stream == FRAME_STDERR ? STDERR_FILENO : STDOUT_FILENO;
	return 0;
}

static int take_frame(struct terminal *t, const struct frame *f, struct cay_err *err)
{
	struct slice json = { (const char *)f->content, f->length };

	switch ((enum frame_type)f->type) {
	case FRAME_DATA:
	case FRAME_GAP:
		return take_output(t, f, err);
	case FRAME_TAKEN:
		return taken(t, f->offset, err);
	case FRAME_EOF:
		t->closed = true;
		buf_clear(&t->held);
		t->base = t->sent; /* news of it may still come */
		return 0;
	case FRAME_SIZE:
		return frame_size(f, &t->cols, &t->rows);
	case FRAME_ROLE:
		return take_role(t, f, err);
	case FRAME_END:
		t->ended = true;
		return session_end(t->api, json, &t->ret->end, err);
	case FRAME_ERROR:
		return api_error(t->api, json, err);
	case FRAME_NUM_TYPES:
		break;
	}
	return 0;
}

/* poll() said there is room: PIPE_BUF bytes go into a pipe without blocking. */
static int write_some(struct terminal *t, struct cay_err *err)
{
	ssize_t n = write(t->write_fd, t->write.p, t->write.n < 4096 ? t->write.n : 4096);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0 && (errno == EPIPE || errno == EIO)) {
		t->ret->quit = 128 + SIGPIPE;
		return 0;
	}
	if (n < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "write its output");
	t->write.p += n;
	t->write.n -= (size_t)n;
	return 0;
}

/* The connection */

static int connect_once(struct terminal *t, struct cay_err *err)
{
	struct exec_attach_query q = {
		.stdout_offset = t->next[FRAME_STDOUT],
		.stderr_offset = t->next[FRAME_STDERR],
		/* our own dead connection may still be its writer */
		.role = t->writes ? ROLE_TAKE : t->spec->role,
		.acks = !t->spec->tty,
	};

	t->known = t->eof_sent = false;
	t->cols = t->rows = 0;
	return talk_open(&t->talk, t->api, &t->spec->sandbox, &t->spec->exec, &q, err);
}

static bool can_go_on(int r, const struct cay_err *why)
{
	return r == -ECONNRESET || r == -EPIPE || why->code == CAY_E_UNAVAILABLE;
}

static int connect_again(struct terminal *t, int r, struct cay_err *err)
{
	unsigned most = dial_far(&t->api->to) ? SESSION_TRIES_FAR : SESSION_TRIES;

	while (r < 0 && can_go_on(r, err)) {
		uint64_t ms = t->tries ? (UINT64_C(1) << (t->tries - 1)) * BACKOFF_MS : 0;

		if (++t->tries > most)
			return r;
		*err = (struct cay_err){};
		t->api->hint[0] = 0;
		(void)interrupt_wait(&t->api->intr, -1, 0,
				     clk_boot_ns(&clk_system) + ms * NS_PER_MS);
		if (interrupt_take(&t->api->intr)) {
			t->ret->quit = 128 + t->api->intr.signo;
			return 0;
		}
		r = connect_once(t, err);
	}
	return r;
}

/* Frames until output waits. */
static int take_frames(struct terminal *t, struct cay_err *err)
{
	int r = 1;

	while (r > 0 && !t->write.n && !t->ended) {
		struct frame f;

		r = talk_next(&t->talk, &f, err);
		t->starved = r == 0;
		if (r > 0 && f.type == FRAME_DATA && !t->spec->tty) {
			/* what is written below is had: acks keep what a broken line lost */
			struct frame ack = { .type = FRAME_TAKEN,
					     .stream = f.stream,
					     .offset = f.offset + f.length };
			int sent = talk_send(&t->talk, &ack, err);

			r = sent < 0 ? sent : r;
		}
		if (r > 0) {
			int taken_r = take_frame(t, &f, err);

			r = taken_r < 0 ? taken_r : r;
		}
	}
	return r < 0 ? r : 0;
}

static int exchange(struct terminal *t, const struct pollfd *p, struct cay_err *err)
{
	int r = 0;

	if (http_sending(&t->talk.http)) {
		r = http_flush(&t->talk.http);
		/* why it ended may be there to read */
		if (r < 0 && r != -EAGAIN)
			t->talk.http.sent = t->talk.http.out.len;
		r = 0;
	}
	/* what is here comes before news of the connection's end */
	if (t->starved && (p->revents || http_ready(&t->talk.http)))
		r = http_pull(&t->talk.http, err);
	return r == -EAGAIN ? 0 : r;
}

/* Signals */

static void own_signals(struct terminal *t)
{
	struct signalfd_siginfo info;

	while (read(t->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGQUIT)
			t->ret->quit = 128 + SIGQUIT;
		if (info.ssi_signo == SIGCONT && t->raw)
			tty_again();
	}
}

static int open_signals(struct terminal *t, struct cay_err *err)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGWINCH);
	(void)sigaddset(&set, SIGCONT);
	(void)sigaddset(&set, SIGQUIT);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "block signals");
	t->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return t->signals < 0 ? cay_fail_sys(err, CAY_E_INTERNAL, errno, "make a signalfd") : 0;
}

/* The loop */

enum { P_INTR, P_SIGNALS, P_STDIN, P_LINE, P_WRITE, P_NUM };

static bool leaves(const struct terminal *t)
{
	if (!t->ret->detached)
		return t->ret->quit;
	return !t->held.len || !may_send(t) || clk_boot_ns(&clk_system) >= t->leave_ns;
}

static int turn(struct terminal *t, struct cay_err *err)
{
	const struct http *h = &t->talk.http;
	short line = (short)((t->starved ? POLLIN : 0) | (http_sending(h) ? POLLOUT : 0));
	struct pollfd p[P_NUM] = {
		[P_INTR] = { .fd = t->api->intr.fd, .events = POLLIN },
		[P_SIGNALS] = { .fd = t->signals, .events = POLLIN },
		[P_STDIN] = { .fd = wants_input(t) ? STDIN_FILENO : -1, .events = POLLIN },
		[P_LINE] = { .fd = line ? h->fd : -1, .events = http_events(h, line) },
		[P_WRITE] = { .fd = t->write.n ? t->write_fd : -1, .events = POLLOUT },
	};
	uint64_t deadline = t->ret->detached ? t->leave_ns : UINT64_MAX;
	int r = 0;

	if (t->starved && http_ready(h))
		deadline = 0;
	if (poll(p, P_NUM, interrupt_poll_ms(deadline)) < 0)
		return errno == EINTR ? 0 : cay_fail_sys(err, CAY_E_INTERNAL, errno, "poll");
	if (p[P_INTR].revents) {
		interrupt_read(&t->api->intr);
		t->ret->quit = 128 + t->api->intr.signo;
	}
	if (p[P_SIGNALS].revents) {
		own_signals(t);
		r = send_size(t, err);
	}
	if (r >= 0 && p[P_WRITE].revents)
		r = write_some(t, err);
	if (r >= 0 && p[P_STDIN].revents)
		r = read_input(t, err);
	if (r >= 0)
		r = exchange(t, &p[P_LINE], err);
	return r;
}

static int loop(struct terminal *t, struct cay_err *err)
{
	int r = connect_once(t, err);

	for (;;) {
		if (r >= 0)
			r = take_frames(t, err);
		if (r >= 0)
			r = send_input(t, err);
		if (r >= 0 && t->ended && !t->write.n)
			return 0;
		if (leaves(t))
			return 0;
		if (r >= 0 && !t->ended)
			r = turn(t, err);
		else if (r >= 0)
			r = write_some(t, err);
		if (r < 0)
			r = connect_again(t, r, err);
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
			      .talk = TALK_INIT,
			      .keys = spec->keys,
			      .signals = -EBADF,
			      .held = BUF_INIT(TERMINAL_HELD + 1) };
	int r = open_signals(&t, err);

	*ret = (struct terminal_result){};
	if (r >= 0 && spec->tty && isatty(STDIN_FILENO)) {
		r = tty_raw(err);
		t.raw = r >= 0;
	}
	if (r >= 0)
		r = loop(&t, err);
	if (t.raw)
		tty_restore(t.asked);
	talk_fini(&t.talk);
	buf_fini(&t.held);
	cay_closep(&t.signals);
	return r;
}
