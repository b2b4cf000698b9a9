/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/feed.h"

#include <poll.h>

#include "cli/show.h"

#define MEDIA "application/octet-stream"

/* -EAGAIN: nothing now; 0: end of file, which a terminal that is gone is too. */
static ssize_t read_stdin(char *to, size_t n)
{
	ssize_t got = read(STDIN_FILENO, to, n);

	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? -EAGAIN : 0;
	return got;
}

bool feed_begin(struct feed *f, struct api *a)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	ssize_t n = -EAGAIN;

	*f = (struct feed){ .api = a, .http = HTTP_INIT };
	if (poll(&p, 1, 0) > 0)
		n = p.revents & POLLNVAL ? 0 : read_stdin(f->first, sizeof(f->first));
	if (n > 0)
		f->n_first = (size_t)n;
	return n != 0;
}

void feed_start(struct feed *f, const struct id *sandbox, const struct id *exec)
{
	f->sandbox = *sandbox;
	f->exec = *exec;
	f->state = FEED_READ;
}

void feed_fini(struct feed *f)
{
	http_fini(&f->http);
}

void feed_events(const struct feed *f, short *ret_stdin, short *ret_http)
{
	bool sending = http_sending(&f->http);

	*ret_stdin = f->state == FEED_READ && !sending && !f->n_first ? POLLIN : 0;
	*ret_http = http_events(&f->http, (short)(sending ? POLLIN | POLLOUT : POLLIN));
}

static int begin_request(struct feed *f, bool close, struct cay_err *err)
{
	struct exec_stdin_query query = { .close = close };
	struct api_call c = {
		.op = OP_EXEC_STDIN,
		.ids = { f->sandbox, f->exec },
		.query = &query,
		.media = MEDIA,
		.length = close ? 0 : HTTP_CHUNKED,
	};

	f->in_body = 0;
	return api_open(f->api, &c, &f->http, err);
}

static int queue(struct feed *f, const char *p, size_t n, struct cay_err *err)
{
	int r = f->http.fd < 0 ? begin_request(f, /* close= */ false, err) : 0;

	if (r < 0)
		return r;
	f->in_body += n;
	if (http_chunk(&f->http, p, n) < 0)
		return cay_fail(err, CAY_E_NO_MEMORY, "no memory for standard input");
	return 0;
}

/* This request is complete but for its reply. */
static int end_body(struct feed *f, struct cay_err *err)
{
	f->state = FEED_REPLY;
	return http_chunk(&f->http, NULL, 0) < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory") : 0;
}

static int end_of_file(struct feed *f, struct cay_err *err)
{
	f->eof = true;
	if (f->http.fd >= 0)
		return end_body(f, err);
	f->state = FEED_CLOSE;
	return begin_request(f, /* close= */ true, err);
}

static int take_bytes(struct feed *f, struct cay_err *err)
{
	char piece[FEED_PIECE];
	ssize_t n = (ssize_t)f->n_first;
	const char *p = f->first;
	int r;

	if (!n) {
		n = read_stdin(piece, sizeof(piece));
		p = piece;
	}
	f->n_first = 0;
	if (n == -EAGAIN)
		return 0;
	if (n == 0)
		return end_of_file(f, err);
	r = queue(f, p, (size_t)n, err);
	if (r >= 0 && f->in_body + FEED_PIECE > ops[OP_EXEC_STDIN].body_max)
		r = end_body(f, err);
	return r;
}

/* The reply is here.  A command that reads no more is not a failure. */
static int finish_request(struct feed *f, struct cay_err *err)
{
	struct cay_err why = {};
	bool early = f->state == FEED_READ;
	int r = api_finish(f->api, OP_EXEC_STDIN, &f->http, &(struct exec){}, &why);

	http_fini(&f->http);
	if (r < 0 || early || f->state == FEED_CLOSE) {
		f->state = FEED_OVER;
		if (r < 0 && why.code != CAY_E_STATE && why.code != CAY_E_NOT_FOUND)
			show_note("standard input is cut off: %s", why.msg);
		f->api->hint[0] = 0;
		return 0;
	}
	f->state = FEED_READ;
	return f->eof ? end_of_file(f, err) : 0;
}

int feed_step(struct feed *f, bool readable, bool readable_http, struct cay_err *err)
{
	struct cay_err why = {};
	int r = 0;

	if (f->state == FEED_OVER)
		return 0;
	if (f->state == FEED_READ && (readable || f->n_first) && !http_sending(&f->http))
		r = take_bytes(f, err);
	if (r < 0)
		return r;
	if (f->http.fd >= 0 && http_sending(&f->http)) {
		r = http_flush(&f->http);
		/* the reply may say why nobody reads; without one, the pull below fails */
		if (r < 0 && r != -EAGAIN)
			f->http.sent = f->http.out.len;
	}
	if (f->http.fd < 0 || (!readable_http && !http_ready(&f->http)))
		return 0;
	r = http_pull(&f->http, &why);
	if (r < 0 && r != -EAGAIN) {
		http_fini(&f->http);
		f->state = FEED_OVER;
		show_note("standard input is cut off: %s", why.msg);
		return 0;
	}
	return f->http.head ? finish_request(f, err) : 0;
}
