/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/ask.h"

#include "net/dial.h"

#define REQUEST_MAX (KIB(256) + 1024)
#define READ_MAX KIB(4)

struct asking {
	ask_fn *fn;
	void *arg;
	uv_pipe_t pipe;
	uv_timer_t deadline;
	uv_connect_t connect;
	uv_write_t write;
	struct buf out, body;
	struct http_parser parser;
	struct cay_err failed; /* before there was anything to wait for */
	unsigned open;         /* handles */
	char in[READ_MAX];
};

static void on_close(uv_handle_t *h)
{
	struct asking *a = h->data;

	if (--a->open)
		return;
	buf_fini(&a->out);
	buf_fini(&a->body);
	http_fini(&a->parser);
	free(a);
}

static void finish(struct asking *a, unsigned status, const struct cay_err *err)
{
	ask_fn *fn = a->fn;

	if (!fn)
		return;
	a->fn = NULL;
	uv_close((uv_handle_t *)&a->pipe, on_close);
	uv_close((uv_handle_t *)&a->deadline, on_close);
	fn(a->arg, status, (struct slice){ buf_str(&a->body), a->body.len }, err);
}

static void fail(struct asking *a, enum cay_code code, const char *what)
{
	struct cay_err err = {};

	(void)cay_fail(&err, code, "cay-init of the sandbox %s", what);
	finish(a, 0, &err);
}

static void on_deadline(uv_timer_t *t)
{
	struct asking *a = t->data;

	if (a->failed.code)
		finish(a, 0, &a->failed);
	else
		fail(a, CAY_E_TIMEOUT, "did not answer");
}

static void on_alloc(uv_handle_t *h, size_t, uv_buf_t *ret)
{
	struct asking *a = h->data;

	*ret = uv_buf_init(a->in, sizeof(a->in));
}

/* One event of the answer; false when more must be read. */
static bool step(struct asking *a, struct slice *in)
{
	struct slice piece;
	int r = http_next(&a->parser, in, &piece, NULL);

	if (r < 0) {
		fail(a, CAY_E_MISBEHAVED, "does not speak HTTP");
		return false;
	}
	switch ((enum http_event)r) {
	case HTTP_MORE:
		return false;
	case HTTP_HEAD_DONE:
		return true;
	case HTTP_BODY:
		if (buf_add(&a->body, piece.p, piece.n) >= 0)
			return true;
		fail(a, CAY_E_MISBEHAVED, "says too much");
		return false;
	case HTTP_END:
		finish(a, a->parser.head.status, NULL);
		return false;
	}
	return false;
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct asking *a = s->data;
	struct slice in = { b->base, n > 0 ? (size_t)n : 0 };

	if (n == 0)
		return;
	if (n < 0) {
		fail(a, CAY_E_MISBEHAVED, "hung up");
		return;
	}
	while (a->fn && step(a, &in))
		;
}

static void on_written(uv_write_t *w, int status)
{
	struct asking *a = w->data;

	if (status < 0)
		fail(a, CAY_E_UNAVAILABLE, "hung up");
}

static void on_connect(uv_connect_t *q, int status)
{
	struct asking *a = q->data;
	uv_buf_t out = uv_buf_init(a->out.data, (unsigned)a->out.len);

	if (!a->fn)
		return; /* closed meanwhile */
	if (status < 0 || uv_read_start((uv_stream_t *)&a->pipe, on_alloc, on_read) < 0 ||
	    uv_write(&a->write, (uv_stream_t *)&a->pipe, &out, 1, on_written) < 0)
		fail(a, CAY_E_UNAVAILABLE, "cannot be reached");
}

static int write_request(struct asking *a, const char *method, const char *target,
			 struct slice body)
{
	int r = buf_printf(&a->out, "%s %s HTTP/1.1\r\nHost: cay-init\r\nConnection: close\r\n",
			   method, target);

	if (r >= 0 && body.n)
		r = buf_printf(&a->out,
			       "Prefer: respond-async\r\nContent-Type: application/json\r\n"
			       "Content-Length: %zu\r\n",
			       body.n);
	if (r >= 0)
		r = buf_puts(&a->out, "\r\n");
	return r < 0 ? r : buf_add(&a->out, body.p, body.n);
}

void ask(struct cayd *c, const struct id *sandbox, const char *method, const char *target,
	 struct slice body, ask_fn *fn, void *arg)
{
	ask_within(c, sandbox, method, target, body, ASK_MS, fn, arg);
}

void ask_within(struct cayd *c, const struct id *sandbox, const char *method, const char *target,
		struct slice body, uint64_t ms, ask_fn *fn, void *arg)
{
	auto_buf path = BUF_INIT(128);
	char name[ID_TEXT_LEN + 1];
	struct asking *a = calloc(1, sizeof(*a));
	struct cay_err err = {};
	int r;

	if (!a) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		fn(arg, 0, (struct slice){}, &err);
		return;
	}
	*a = (struct asking){ .fn = fn, .arg = arg, .open = 2, .out = BUF_INIT(REQUEST_MAX) };
	a->body = BUF_INIT(ASK_BODY_MAX);
	http_init(&a->parser, HTTP_KIND_RESPONSE);
	(void)uv_pipe_init(&c->loop, &a->pipe, 0);
	(void)uv_timer_init(&c->loop, &a->deadline);
	a->pipe.data = a->deadline.data = a->connect.data = a->write.data = a;
	id_format(sandbox, name);
	r = write_request(a, method, target, body);
	if (r >= 0)
		r = buf_printf(&path, "%s/box/%s", c->settings.run_dir, name);
	if (r >= 0)
		r = dial(&a->pipe, path.data, &a->connect, on_connect);
	if (r < 0)
		(void)cay_fail_sys(&a->failed, CAY_E_UNAVAILABLE, -r,
				   "cay-init of the sandbox cannot be reached");
	(void)uv_timer_start(&a->deadline, on_deadline, r < 0 ? 0 : ms, 0);
}
