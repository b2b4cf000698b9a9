/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/claim.h"

#include <stdio.h>

#include "cayd/image.h"
#include "net/dial.h"
#include "wire/hello.h"

#define BODY_MAX KIB(256)
#define READ_MAX KIB(4)

struct claiming {
	struct box *box;
	claim_fn *done;
	uv_pipe_t pipe;
	uv_timer_t deadline;
	uv_connect_t connect;
	uv_write_t write;
	struct buf out;
	struct http_parser parser;
	unsigned open; /* handles */
	char in[READ_MAX];
};

static void on_close(uv_handle_t *h)
{
	struct claiming *c = h->data;

	if (--c->open)
		return;
	buf_fini(&c->out);
	http_fini(&c->parser);
	free(c);
}

static void finish(struct claiming *c, const struct cay_err *outcome)
{
	claim_fn *done = c->done;

	if (!done)
		return;
	c->done = NULL;
	uv_close((uv_handle_t *)&c->pipe, on_close);
	uv_close((uv_handle_t *)&c->deadline, on_close);
	done(c->box, outcome);
}

static void fail(struct claiming *c, enum cay_code code, const char *what)
{
	struct cay_err err = {};

	(void)cay_fail(&err, code, "cay-init of the new sandbox %s", what);
	finish(c, &err);
}

static void on_deadline(uv_timer_t *t)
{
	fail(t->data, CAY_E_TIMEOUT, "did not answer");
}

static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *ret)
{
	struct claiming *c = h->data;

	(void)hint;
	*ret = uv_buf_init(c->in, sizeof(c->in));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct claiming *c = s->data;
	struct slice in = { b->base, n > 0 ? (size_t)n : 0 }, body;
	struct cay_err ok = {};
	int r;

	if (n == 0)
		return;
	if (n < 0) {
		fail(c, CAY_E_MISBEHAVED, "hung up");
		return;
	}
	r = http_next(&c->parser, &in, &body, NULL);
	if (r == HTTP_MORE)
		return;
	if (r == HTTP_HEAD_DONE && c->parser.head.status == 204)
		finish(c, &ok);
	else
		fail(c, CAY_E_MISBEHAVED, r < 0 ? "does not speak HTTP" : "refused its claim");
}

static void on_written(uv_write_t *w, int status)
{
	struct claiming *c = w->data;

	if (status < 0)
		fail(c, CAY_E_UNAVAILABLE, "hung up");
}

static void on_connect(uv_connect_t *q, int status)
{
	struct claiming *c = q->data;
	uv_buf_t out = uv_buf_init(c->out.data, (unsigned)c->out.len);

	if (!c->done)
		return; /* closed meanwhile */
	if (status < 0 || uv_read_start((uv_stream_t *)&c->pipe, on_alloc, on_read) < 0 ||
	    uv_write(&c->write, (uv_stream_t *)&c->pipe, &out, 1, on_written) < 0)
		fail(c, CAY_E_UNAVAILABLE, "cannot be reached");
}

/* The image's variables, then those of the request over them. */
static int merge_env(struct box *b, const struct field_map *image, struct pool *pool,
		     struct field_map *ret)
{
	size_t max = image->n + b->env.n;

	*ret = (struct field_map){};
	if (!max)
		return 0;
	ret->keys = pool_take(pool, max, sizeof(*ret->keys));
	ret->values = pool_take(pool, max, sizeof(*ret->values));
	if (!ret->keys || !ret->values)
		return -ENOMEM;
	for (size_t i = 0; i < max; i++) {
		const struct field_map *from = i < image->n ? image : &b->env;
		size_t at = i < image->n ? i : i - image->n, k = 0;

		while (k < ret->n && !str_eq(ret->keys[k], from->keys[at]))
			k++;
		ret->keys[k] = from->keys[at];
		ret->values[k] = from->values[at];
		if (k == ret->n)
			ret->n++;
	}
	return 0;
}

static int write_request(struct box *b, struct buf *out)
{
	auto_pool pool = POOL_INIT(KIB(64));
	auto_buf body = BUF_INIT(BODY_MAX);
	const struct image_row *image = image_by_digest(b->cayd->images, b->image);
	struct claim q = {};
	struct jw w = jw_to(&body);
	int r;

	if (!image)
		return -ENOENT;
	r = merge_env(b, &image->config.env, &pool, &q.env);
	if (r < 0)
		return r;
	q.user = image->config.user;
	q.cwd = image->config.cwd;
	field_encode(&claim_table, NULL, &q, &w);
	r = jw_done(&w);
	if (r >= 0)
		r = buf_printf(out,
			       "POST " INIT_PATH_CLAIM " HTTP/1.1\r\nHost: cay-init\r\n"
			       "Content-Type: application/json\r\nContent-Length: %zu\r\n"
			       "Connection: close\r\n\r\n",
			       body.len);
	return r < 0 ? r : buf_add(out, body.data, body.len);
}

void claim_start(struct box *b, claim_fn *done)
{
	struct cay_err err = {};
	auto_buf path = BUF_INIT(128);
	char name[ID_TEXT_LEN + 1];
	struct claiming *c = calloc(1, sizeof(*c));
	int r;

	if (!c) {
		(void)cay_fail(&err, CAY_E_NO_MEMORY, "out of memory");
		done(b, &err);
		return;
	}
	*c = (struct claiming){
		.box = b, .done = done, .open = 2, .out = BUF_INIT(BODY_MAX + 1024)
	};
	http_init(&c->parser, HTTP_KIND_RESPONSE);
	(void)uv_pipe_init(&b->cayd->loop, &c->pipe, 0);
	(void)uv_timer_init(&b->cayd->loop, &c->deadline);
	c->pipe.data = c->deadline.data = c->connect.data = c->write.data = c;
	id_format(&b->info.id, name);
	r = write_request(b, &c->out);
	if (r >= 0)
		r = buf_printf(&path, "%s/box/%s", b->cayd->settings.run_dir, name);
	if (r < 0) {
		fail(c, r == -ENOENT ? CAY_E_NOT_FOUND : CAY_E_NO_MEMORY,
		     r == -ENOENT ? "has lost its image" : "cannot be told whose it is");
		return;
	}
	(void)uv_timer_start(&c->deadline, on_deadline, CLAIM_MS, 0);
	if (dial(&c->pipe, path.data, &c->connect, on_connect) < 0)
		fail(c, CAY_E_UNAVAILABLE, "cannot be reached");
}
