/* SPDX-License-Identifier: Apache-2.0 */
/* The child's part of an operation: blocking reads and writes on the connection */
#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>

#include "init/file/child-op-internal.h"

#define BODY_MS 60000 /* between pieces of a body, as on other routes */
#define LINGER_MS 2000
#define STUCK_MS 300000 /* a client that reads nothing for so long counts as gone */
#define LINGER_BYTES MIB(4)
#define EXTRA_MAX 1024
#define JSON_MAX (SERVER_OUT_MAX - KIB(4))
#define CHUNK_HEAD_MAX 20
#define SEND_MAX KIB(128) /* of a file at once, about as much as a writable socket takes */

const struct init *child_op_init(const struct child_op *w)
{
	return w->init;
}

void child_op_report_progress(struct child_op *w)
{
	atomic_fetch_add(&w->shared->progress, 1);
}

void child_op_wait_begin(struct child_op *w)
{
	atomic_store(&w->shared->waits_for_client, true);
}

static void child_op_wait_end(struct child_op *w)
{
	child_op_report_progress(w);
	atomic_store(&w->shared->waits_for_client, false);
}

static ssize_t child_op_receive(struct child_op *w)
{
	static char in[CHILD_OP_IN]; /* static: the process is its own */
	ssize_t n;

	child_op_wait_begin(w);
	do
		n = recv(STDIN_FILENO, in, sizeof(in), 0);
	while (n < 0 && errno == EINTR);
	child_op_wait_end(w);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -EPIPE;
	w->wire.rest = (struct slice){ in, (size_t)n };
	return n ? n : -EPIPE;
}

ssize_t child_op_read_piece(struct child_op *w, const void **ret)
{
	struct cay_err err = {};
	struct slice body;

	while (!http_parser_has_ended(w->wire.http)) {
		int e = http_parser_next(w->wire.http, &w->wire.rest, &body, &err);

		if (e < 0)
			return -EBADMSG;
		if (e == HTTP_BODY) {
			w->body_taken += body.n;
			*ret = body.p;
			return w->body_taken > w->wire.body_max ? -EFBIG : (ssize_t)body.n;
		}
		if (e == HTTP_MORE) {
			ssize_t n = child_op_receive(w);

			if (n < 0)
				return n;
		}
	}
	return 0;
}

ssize_t child_op_read(struct child_op *w, void *p, size_t n)
{
	if (!w->piece.n) {
		const void *at = NULL;
		ssize_t got = child_op_read_piece(w, &at);

		if (got <= 0)
			return got;
		w->piece = (struct slice){ at, (size_t)got };
	}
	n = n < w->piece.n ? n : w->piece.n;
	memcpy(p, w->piece.p, n);
	w->piece.p += n;
	w->piece.n -= n;
	return (ssize_t)n;
}

void child_op_fail_body(struct child_op *w, ssize_t r)
{
	struct cay_err err = {};

	if (r == -EFBIG)
		(void)cay_fail(&err, CAY_E_TOO_LARGE, "the body is larger than %zu bytes",
			       w->wire.body_max);
	else if (r == -EBADMSG)
		(void)cay_fail(&err, CAY_E_INVALID, "the body is not valid HTTP");
	else if (r == -ETIMEDOUT)
		(void)cay_fail(&err, CAY_E_TIMEOUT, "no byte of the body arrived for %d s",
			       BODY_MS / 1000);
	else
		(void)cay_fail(&err, CAY_E_UNAVAILABLE, "the client left");
	child_op_fail(w, &err);
}

static int child_op_send_all(struct child_op *w, struct iovec *v, unsigned n)
{
	struct msghdr m = { .msg_iov = v, .msg_iovlen = n };
	int r = 0;

	child_op_wait_begin(w);
	while (m.msg_iovlen) {
		ssize_t done = sendmsg(STDOUT_FILENO, &m, MSG_NOSIGNAL);

		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0) {
			r = -EPIPE;
			break;
		}
		while (m.msg_iovlen && (size_t)done >= m.msg_iov->iov_len) {
			done -= (ssize_t)m.msg_iov->iov_len;
			m.msg_iov++;
			m.msg_iovlen--;
		}
		if (m.msg_iovlen) {
			m.msg_iov->iov_base = (char *)m.msg_iov->iov_base + done;
			m.msg_iov->iov_len -= (size_t)done;
		}
	}
	child_op_wait_end(w);
	return r;
}

static struct iovec iovec_from_bytes(const void *p, size_t n)
{
	return (struct iovec){ (void *)(uintptr_t)p, n };
}

void child_op_claim_reply(struct child_op *w)
{
	assert(!w->reply_started);
	if (atomic_exchange(&w->shared->reply_claimed, true))
		_exit(0);
	w->reply_started = true;
}

static int http_reply_head_append(struct buf *b, int status, const char *id, const char *extra,
				  const char *media)
{
	int r = buf_printf(b, "HTTP/1.1 %d %s\r\nCay-Request: %s\r\n", status,
			   status < 300   ? "OK"
			   : status < 500 ? "Refused"
					  : "Failed",
			   id);

	if (r >= 0 && extra)
		r = buf_puts(b, extra);
	if (r >= 0 && media)
		r = buf_printf(b, "Content-Type: %s\r\n", media);
	return r < 0 ? r : buf_puts(b, "Connection: close\r\n");
}

int child_op_format_error(const char *id, const struct cay_err *err, const char *extra,
			  struct buf *ret)
{
	auto_buf body = BUF_INIT(KIB(4));
	struct jw w = jw_to(&body);
	enum cay_code code = err->code == CAY_OK ? CAY_E_INTERNAL : err->code;
	int r;

	error_body_write(err, id, NULL, &w);
	r = jw_finish(&w);
	if (r >= 0)
		r = buf_putc(&body, '\n');
	if (r >= 0)
		r = http_reply_head_append(ret, cay_error_row(code)->http, id, extra,
					   "application/json");
	if (r >= 0)
		r = buf_printf(ret, "Content-Length: %zu\r\n\r\n", body.len);
	return r < 0 ? r : buf_append(ret, body.data, body.len);
}

int child_op_add_header(struct child_op *w, const char *name, const char *value)
{
	w->extra.max = EXTRA_MAX;
	return buf_printf(&w->extra, "%s: %s\r\n", name, value);
}

static const char *child_op_extra_headers(const struct child_op *w)
{
	return w->extra.len ? buf_str(&w->extra) : NULL;
}

void child_op_fail(struct child_op *w, const struct cay_err *err)
{
	auto_buf out = BUF_INIT(KIB(8));
	struct iovec v;

	child_op_claim_reply(w);
	if (child_op_format_error(w->id, err, child_op_extra_headers(w), &out) >= 0) {
		v = iovec_from_bytes(out.data, out.len);
		(void)child_op_send_all(w, &v, 1);
	}
	w->reply_finished = true;
}

/* The head of a reply with the body so far: one write wakes the reader once. */
static int child_op_send_head(struct child_op *w, int status, const char *media, uint64_t length,
			      struct slice body)
{
	auto_buf out = BUF_INIT(KIB(8));
	struct iovec v[2];
	int r;

	child_op_claim_reply(w);
	w->reply_left = length;
	w->chunked = length == REQUEST_LENGTH_UNKNOWN && w->rq->head->minor == 1;
	r = http_reply_head_append(&out, status, w->id, child_op_extra_headers(w), media);
	if (r >= 0 && w->chunked)
		r = buf_puts(&out, "Transfer-Encoding: chunked\r\n");
	else if (r >= 0 && length != REQUEST_LENGTH_UNKNOWN)
		r = buf_printf(&out, "Content-Length: %llu\r\n", (unsigned long long)length);
	if (r >= 0)
		r = buf_puts(&out, "\r\n");
	if (r < 0)
		return r;
	v[0] = iovec_from_bytes(out.data, out.len);
	v[1] = iovec_from_bytes(body.p, body.n);
	return child_op_send_all(w, v, body.n ? 2 : 1);
}

int child_op_start_stream(struct child_op *w, int status, const char *media, uint64_t length)
{
	return child_op_send_head(w, status, media, length, (struct slice){});
}

/* Never more than Content-Length. */
static void child_op_count_sent(struct child_op *w, uint64_t n)
{
	assert(w->reply_started && !w->reply_finished);
	if (w->reply_left == REQUEST_LENGTH_UNKNOWN)
		return;
	assert(n <= w->reply_left);
	w->reply_left -= n;
}

int child_op_write(struct child_op *w, const void *p, size_t n)
{
	char head[CHUNK_HEAD_MAX];
	struct iovec v[3] = { {}, iovec_from_bytes(p, n), iovec_from_bytes("\r\n", 2) };
	int len;

	if (!n)
		return 0;
	child_op_count_sent(w, n);
	if (!w->chunked)
		return child_op_send_all(w, v + 1, 1);
	len = snprintf(head, sizeof(head), "%zx\r\n", n);
	assert(len > 0 && (size_t)len < sizeof(head));
	v[0] = iovec_from_bytes(head, (size_t)len);
	return child_op_send_all(w, v, 3);
}

/* Wait for the client before a call that may wait for the disk: only the latter has a
 * deadline. */
static int child_op_wait_writable(struct child_op *w)
{
	struct pollfd p = { .fd = STDOUT_FILENO, .events = POLLOUT };
	int r;

	child_op_wait_begin(w);
	r = poll(&p, 1, STUCK_MS);
	child_op_wait_end(w);
	return r == 0 ? -EPIPE : 0; /* a stuck client must not hold a child for ever */
}

int child_op_send_file(struct child_op *w, int fd, uint64_t offset, uint64_t n)
{
	off_t at = (off_t)offset;

	assert(!w->chunked);
	child_op_count_sent(w, n);
	while (n) {
		size_t most = n < SEND_MAX ? (size_t)n : SEND_MAX;
		ssize_t done;

		if (child_op_wait_writable(w) < 0)
			return -EPIPE;
		done = sendfile(STDOUT_FILENO, fd, &at, most);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return errno == EPIPE || errno == ECONNRESET ? -EPIPE : -errno;
		if (done == 0)
			return -ENODATA;
		n -= (uint64_t)done;
	}
	return 0;
}

void child_op_end_stream(struct child_op *w)
{
	struct iovec v = iovec_from_bytes("0\r\n\r\n", 5);

	assert(w->reply_started && !w->reply_finished);
	w->reply_finished = true;
	if (w->chunked)
		(void)child_op_send_all(w, &v, 1);
}

void child_op_reply_json(struct child_op *w, const struct field_table *t, const void *value,
			 struct cay_err *err)
{
	auto_buf body = BUF_INIT(JSON_MAX);
	struct jw jw = jw_to(&body);
	int r = 0;

	if (!err->code) {
		field_encode(t, NULL, value, &jw);
		r = jw_finish(&jw);
		if (r >= 0)
			r = buf_putc(&body, '\n');
	}
	if (r < 0)
		(void)cay_fail(err, r == -ENOMEM ? CAY_E_NO_MEMORY : CAY_E_INTERNAL,
			       "cannot write the reply");
	if (err->code)
		child_op_fail(w, err);
	else if (child_op_send_head(w, w->rq->match.op->status, "application/json", body.len,
				    (struct slice){ body.data, body.len }) >= 0)
		w->reply_finished = true;
}

void child_op_setup_failed(void *arg, int fd, const struct cay_err *err)
{
	(void)dup2(fd, STDOUT_FILENO);
	(void)fcntl(STDOUT_FILENO, F_SETFL, 0);
	child_op_fail(arg, err);
}

/* Programs executed from here must not write to PID 1's stderr. */
static void child_op_mute_stderr(void)
{
	int fd = open("/dev/null", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0)
		(void)dup2(fd, STDERR_FILENO);
	else
		(void)close(STDERR_FILENO);
	if (fd > STDERR_FILENO)
		(void)close(fd);
}

/* The reply was sent before all of the body came: closing now could discard the reply of a
 * client that is still sending, so it gets a moment to finish. */
static void child_op_linger(struct child_op *w)
{
	static char discarded[CHILD_OP_IN];
	struct timeval moment = { .tv_sec = LINGER_MS / 1000 };
	uint64_t n = 0, end = clk_boot_ns(&clk_system) + UINT64_C(2) * LINGER_MS * NS_PER_MS;
	ssize_t got;

	(void)shutdown(STDOUT_FILENO, SHUT_WR);
	(void)setsockopt(STDIN_FILENO, SOL_SOCKET, SO_RCVTIMEO, &moment, sizeof(moment));
	child_op_wait_begin(w);
	while (n < LINGER_BYTES && clk_boot_ns(&clk_system) < end &&
	       (got = recv(STDIN_FILENO, discarded, sizeof(discarded), 0)) > 0)
		n += (uint64_t)got;
}

int child_op_main(void *arg)
{
	struct timeval patience = { .tv_sec = BODY_MS / 1000 },
		       stuck = { .tv_sec = STUCK_MS / 1000 };
	struct child_op *w = arg;
	struct cay_err err = {};

	(void)signal(SIGPIPE, SIG_IGN);
	child_op_mute_stderr();
	/* the loop had made it non-blocking; PID 1 only watches it from now on */
	(void)fcntl(STDIN_FILENO, F_SETFL, 0);
	(void)setsockopt(STDIN_FILENO, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	(void)setsockopt(STDOUT_FILENO, SOL_SOCKET, SO_SNDTIMEO, &stuck, sizeof(stuck));
	w->fn(w, w->rq);
	if (!w->reply_started) {
		(void)cay_fail(&err, CAY_E_INTERNAL, "the operation sent no reply");
		child_op_fail(w, &err);
	}
	if (w->wire.http->head.framing != HTTP_EMPTY && !http_parser_has_ended(w->wire.http))
		child_op_linger(w);
	/* the client sees the end at once, though PID 1 still has the socket */
	(void)shutdown(STDOUT_FILENO, SHUT_RDWR);
	return w->reply_finished ? 0 : 1;
}
