/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/core/init-call.h"

#include "net/dial.h"
#include "text/percent.h"

#define REQUEST_MAX (KIB(256) + 1024)
#define READ_MAX KIB(4)

struct init_call_state {
	init_call_fn *fn;
	void *arg;
	uv_pipe_t pipe;
	uv_timer_t deadline;
	uv_connect_t connect;
	uv_write_t write;
	struct buf out, body;
	struct http_parser parser;
	struct cay_err failed; /* before a handle was open */
	unsigned open;         /* handles */
	char in[READ_MAX];
};

static void on_init_call_closed(uv_handle_t *h)
{
	struct init_call_state *a = h->data;

	if (--a->open)
		return;
	buf_fini(&a->out);
	buf_fini(&a->body);
	http_parser_fini(&a->parser);
	free(a);
}

static void init_call_finish(struct init_call_state *a, unsigned status, const struct cay_err *err)
{
	init_call_fn *fn = a->fn;

	if (!fn)
		return;
	a->fn = NULL;
	uv_close((uv_handle_t *)&a->pipe, on_init_call_closed);
	uv_close((uv_handle_t *)&a->deadline, on_init_call_closed);
	fn(a->arg, status, (struct slice){ buf_str(&a->body), a->body.len }, err);
}

static void init_call_fail(struct init_call_state *a, enum cay_code code, const char *what)
{
	struct cay_err err = {};

	(void)cay_fail(&err, code, "cay-init of the sandbox %s", what);
	init_call_finish(a, 0, &err);
}

static void on_init_call_deadline(uv_timer_t *t)
{
	struct init_call_state *a = t->data;

	if (a->failed.code)
		init_call_finish(a, 0, &a->failed);
	else
		init_call_fail(a, CAY_E_TIMEOUT, "did not answer");
}

static void on_init_call_alloc(uv_handle_t *h, size_t, uv_buf_t *ret)
{
	struct init_call_state *a = h->data;

	*ret = uv_buf_init(a->in, sizeof(a->in));
}

/* One event of the reply; false when more must be read. */
static bool init_call_parse_next(struct init_call_state *a, struct slice *in)
{
	struct slice piece;
	int r = http_parser_next(&a->parser, in, &piece, NULL);

	if (r < 0) {
		init_call_fail(a, CAY_E_MISBEHAVED, "does not speak HTTP");
		return false;
	}
	switch ((enum http_event)r) {
	case HTTP_MORE:
		return false;
	case HTTP_HEAD_DONE:
		return true;
	case HTTP_BODY:
		if (buf_append(&a->body, piece.p, piece.n) >= 0)
			return true;
		init_call_fail(a, CAY_E_MISBEHAVED, "sent too much");
		return false;
	case HTTP_END:
		init_call_finish(a, a->parser.head.status, NULL);
		return false;
	}
	return false;
}

static void on_init_call_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct init_call_state *a = s->data;
	struct slice in = { b->base, n > 0 ? (size_t)n : 0 };

	if (n == 0)
		return;
	if (n < 0) {
		init_call_fail(a, CAY_E_MISBEHAVED, "hung up");
		return;
	}
	while (a->fn && init_call_parse_next(a, &in))
		;
}

static void on_init_call_written(uv_write_t *w, int status)
{
	struct init_call_state *a = w->data;

	if (status < 0)
		init_call_fail(a, CAY_E_UNAVAILABLE, "hung up");
}

static void on_init_call_connect(uv_connect_t *q, int status)
{
	struct init_call_state *a = q->data;
	uv_buf_t out = uv_buf_init(a->out.data, (unsigned)a->out.len);

	if (!a->fn)
		return; /* closed meanwhile */
	if (status < 0 ||
	    uv_read_start((uv_stream_t *)&a->pipe, on_init_call_alloc, on_init_call_read) < 0 ||
	    uv_write(&a->write, (uv_stream_t *)&a->pipe, &out, 1, on_init_call_written) < 0)
		init_call_fail(a, CAY_E_UNAVAILABLE, "cannot be reached");
}

static int init_call_format_request(struct init_call_state *a, const char *method,
				    const char *target, struct slice body)
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
	return r < 0 ? r : buf_append(&a->out, body.p, body.n);
}

int tree_target_format(const struct id *sandbox, const char *format, const char *path,
		       const char *path_b64, struct buf *ret)
{
	const char *at = path_b64 ? path_b64 : path ? path : ".";
	char id[ID_TEXT_LEN + 1];
	int r;

	id_format(sandbox, id);
	r = format ? buf_printf(ret, "/v1/sandboxes/%s/files/tree?format=%s&", id, format)
		   : buf_printf(ret, "/v1/sandboxes/%s/files/content?", id);
	if (r >= 0)
		r = buf_printf(ret, "%s=", path_b64 ? "path_b64" : "path");
	if (r >= 0)
		r = buf_reserve(ret, 3 * strlen(at));
	if (r < 0)
		return r;
	ret->len += percent_encode(at, strlen(at), ret->data + ret->len);
	ret->data[ret->len] = 0;
	return 0;
}

void init_call(struct cayd *c, const struct id *sandbox, const char *method, const char *target,
	       struct slice body, init_call_fn *fn, void *arg)
{
	init_call_with_deadline(c, sandbox, method, target, body, INIT_CALL_MS, fn, arg);
}

void init_call_with_deadline(struct cayd *c, const struct id *sandbox, const char *method,
			     const char *target, struct slice body, uint64_t ms, init_call_fn *fn,
			     void *arg)
{
	auto_buf path = BUF_INIT(128);
	char name[ID_TEXT_LEN + 1];
	struct init_call_state *a = calloc(1, sizeof(*a));
	struct cay_err err = {};
	int r;

	if (!a) {
		(void)cay_no_memory(&err);
		fn(arg, 0, (struct slice){}, &err);
		return;
	}
	*a = (struct init_call_state){
		.fn = fn, .arg = arg, .open = 2, .out = BUF_INIT(REQUEST_MAX)
	};
	a->body = BUF_INIT(INIT_CALL_BODY_MAX);
	http_parser_init(&a->parser, HTTP_KIND_RESPONSE);
	(void)uv_pipe_init(&c->loop, &a->pipe, 0);
	(void)uv_timer_init(&c->loop, &a->deadline);
	a->pipe.data = a->deadline.data = a->connect.data = a->write.data = a;
	id_format(sandbox, name);
	r = init_call_format_request(a, method, target, body);
	if (r >= 0)
		r = buf_printf(&path, "%s/box/%s", c->settings.run_dir, name);
	if (r >= 0)
		r = dial_unix_async(&a->pipe, path.data, &a->connect, on_init_call_connect);
	if (r < 0)
		(void)cay_fail_sys(&a->failed, CAY_E_UNAVAILABLE, -r,
				   "cay-init of the sandbox cannot be reached");
	(void)uv_timer_start(&a->deadline, on_init_call_deadline, r < 0 ? 0 : ms, 0);
}
