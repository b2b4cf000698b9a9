/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/stdin-forward.h"

#include <poll.h>

#include "cli/print/print.h"

/* -EAGAIN: nothing now; 0: end of file, or a terminal that hung up. */
static ssize_t stdin_forward_read(char *to, size_t n)
{
	ssize_t got = read(STDIN_FILENO, to, n);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : 0;
	return got;
}

bool stdin_forward_init(struct stdin_forward *f, struct api *a)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	ssize_t n = -EAGAIN;

	*f = (struct stdin_forward){ .api = a, .http = HTTP_INIT };
	if (poll(&p, 1, 0) > 0)
		n = p.revents & POLLNVAL ? 0 : stdin_forward_read(f->early, sizeof(f->early));
	if (n > 0)
		f->n_early = (size_t)n;
	return n != 0;
}

void stdin_forward_start(struct stdin_forward *f, const struct id *sandbox, const struct id *exec)
{
	f->sandbox = *sandbox;
	f->exec = *exec;
	f->state = STDIN_READ;
}

void stdin_forward_poll_events(const struct stdin_forward *f, short *ret_stdin, short *ret_http)
{
	bool sending = http_client_has_unsent(&f->http);

	*ret_stdin = f->state == STDIN_READ && !sending && !f->n_early ? POLLIN : 0;
	*ret_http = http_client_poll_events(&f->http, (short)(sending ? POLLIN | POLLOUT : POLLIN));
}

static int stdin_forward_open_request(struct stdin_forward *f, bool close, struct cay_err *err)
{
	struct exec_stdin_query query = { .close = close };
	struct api_call c = { .op = OP_EXEC_STDIN,
			      .ids = { f->sandbox, f->exec },
			      .query = &query,
			      .content_type = "application/octet-stream",
			      .body_length = close ? 0 : HTTP_CLIENT_CHUNKED };

	f->in_body = 0;
	return api_call_open(f->api, &c, &f->http, err);
}

static int stdin_forward_add(struct stdin_forward *f, const char *p, size_t n, struct cay_err *err)
{
	int r = f->http.fd < 0 ? stdin_forward_open_request(f, /* close= */ false, err) : 0;

	if (r < 0)
		return r;
	f->in_body += n;
	return http_client_queue_chunk(&f->http, p, n) < 0 ? cay_no_memory(err) : 0;
}

static int stdin_forward_end_body(struct stdin_forward *f, struct cay_err *err)
{
	f->state = STDIN_REPLY;
	return http_client_queue_chunk(&f->http, NULL, 0) < 0 ? cay_no_memory(err) : 0;
}

static int stdin_forward_send_eof(struct stdin_forward *f, struct cay_err *err)
{
	f->eof = true;
	if (f->http.fd >= 0)
		return stdin_forward_end_body(f, err);
	f->state = STDIN_CLOSE;
	return stdin_forward_open_request(f, /* close= */ true, err);
}

static int stdin_forward_read_piece(struct stdin_forward *f, struct cay_err *err)
{
	char piece[STDIN_PIECE];
	ssize_t n = (ssize_t)f->n_early;
	const char *p = f->early;
	int r;

	if (!n) {
		n = stdin_forward_read(piece, sizeof(piece));
		p = piece;
	}
	f->n_early = 0;
	if (n == -EAGAIN)
		return 0;
	if (n == 0)
		return stdin_forward_send_eof(f, err);
	r = stdin_forward_add(f, p, (size_t)n, err);
	if (r >= 0 && f->in_body + STDIN_PIECE > ops[OP_EXEC_STDIN].body_max)
		r = stdin_forward_end_body(f, err);
	return r;
}

/* A command that stopped reading its input is not a failure. */
static int stdin_forward_finish_request(struct stdin_forward *f, struct cay_err *err)
{
	struct cay_err why = {};
	bool early = f->state == STDIN_READ;
	int r = api_call_finish(f->api, OP_EXEC_STDIN, &f->http, &(struct exec_info){}, &why);

	http_client_fini(&f->http);
	if (r < 0 || early || f->state == STDIN_CLOSE) {
		f->state = STDIN_FINISHED;
		if (r < 0 && why.code != CAY_E_STATE && why.code != CAY_E_NOT_FOUND)
			print_note("standard input is cut off: %s", why.msg);
		f->api->hint[0] = 0;
		return 0;
	}
	f->state = STDIN_READ;
	return f->eof ? stdin_forward_send_eof(f, err) : 0;
}

int stdin_forward_continue(struct stdin_forward *f, bool readable, bool readable_http,
			   struct cay_err *err)
{
	struct cay_err why = {};
	int r = 0;

	if (f->state == STDIN_FINISHED)
		return 0;
	if (f->state == STDIN_READ && (readable || f->n_early) && !http_client_has_unsent(&f->http))
		r = stdin_forward_read_piece(f, err);
	if (r < 0)
		return r;
	if (f->http.fd >= 0 && http_client_has_unsent(&f->http)) {
		r = http_client_flush(&f->http);
		/* a reply may say why; without one, the receive below fails */
		if (r < 0 && r != -EAGAIN)
			f->http.sent = f->http.out.len;
	}
	if (f->http.fd < 0 || (!readable_http && !http_client_has_buffered(&f->http)))
		return 0;
	r = http_client_receive(&f->http, &why);
	if (r < 0 && r != -EAGAIN) {
		http_client_fini(&f->http);
		f->state = STDIN_FINISHED;
		print_note("standard input is cut off: %s", why.msg);
		return 0;
	}
	return f->http.head_complete ? stdin_forward_finish_request(f, err) : 0;
}
