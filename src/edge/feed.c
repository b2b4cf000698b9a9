/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "edge/edge.h"
#include "net/dial.h"

#define AGAIN_MS 200
#define NEWS_MS 250
#define SUMS_MS 1000 /* how often control hears of refusals and counts; a multiple */
/* Control says something every second; one that does not hangs. */
#define SILENCE_MS 10000
#define HANGS_MS 3000
#define NEWS_MAX 512 /* of who is busy in one write */
#define OUT_MAX 1024 /* records in it: sums have room of their own */

struct feed {
	struct edge *edge;
	uv_pipe_t pipe;
	uv_timer_t again, news, silence;
	uv_connect_t connect;
	uv_write_t write;
	char path[108];
	bool up, greeted, writing, told_away;
	bool silent; /* it was given up because it said nothing, and has not come back */
	unsigned beat;
	uint64_t heard_ns;
	uint8_t in[PUSH_SIZE * 64];
	size_t n_in;
	uint8_t out[PUSH_SIZE * OUT_MAX];
};

static void dial_control(struct feed *f);

static void on_again(uv_timer_t *t)
{
	dial_control(t->data);
}

static void on_closed(uv_handle_t *h)
{
	struct feed *f = h->data;

	(void)uv_timer_start(&f->again, on_again, AGAIN_MS, 0);
}

static void lose(struct feed *f, const char *why)
{
	if (uv_is_closing((uv_handle_t *)&f->pipe))
		return;
	if (!f->told_away)
		log_warn(&f->edge->log, "control is away (%s): going on with what it said", why);
	f->told_away = true;
	f->up = f->greeted = f->silent = false;
	f->n_in = 0;
	(void)uv_timer_stop(&f->silence);
	uv_close((uv_handle_t *)&f->pipe, on_closed);
}

static void on_silence(uv_timer_t *t)
{
	struct feed *f = t->data;

	lose(f, "it says nothing");
	f->silent = true;
}

static void hear(struct feed *f, const uint8_t *bytes)
{
	struct edge *e = f->edge;
	struct push p;
	int r = push_decode(bytes, &p);

	if (r >= 0 && !f->greeted)
		r = p.kind == PUSH_HELLO && p.number == PUSH_ABI ? 0 : -EPROTO;
	else if (r >= 0)
		r = table_apply(e->table, &p);
	explicit_bzero(p.secret, sizeof(p.secret));
	if (r < 0) {
		lose(f, r == -EPROTO ? "it speaks another protocol" : strerror(-r));
		return;
	}
	f->greeted = true;
	f->silent = false;
	if (p.kind == PUSH_END) {
		f->told_away = false;
		log_info(&e->log, "control has said all: %u sandboxes, %u keys",
			 table_sandboxes(e->table), table_keys(e->table));
	}
}

static void on_alloc(uv_handle_t *h, size_t, uv_buf_t *ret)
{
	struct feed *f = h->data;

	*ret = uv_buf_init((char *)f->in + f->n_in, (unsigned)(sizeof(f->in) - f->n_in));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *)
{
	struct feed *f = s->data;
	size_t at = 0;

	if (n < 0) {
		lose(f, uv_strerror((int)n));
		return;
	}
	(void)uv_timer_start(&f->silence, on_silence, SILENCE_MS, 0);
	f->heard_ns = clk_boot_ns(f->edge->clk);
	f->n_in += (size_t)n;
	for (; f->up && f->n_in - at >= PUSH_SIZE; at += PUSH_SIZE)
		hear(f, f->in + at);
	if (!f->up)
		return;
	memmove(f->in, f->in + at, f->n_in - at);
	f->n_in -= at;
}

static void on_written(uv_write_t *w, int status)
{
	struct feed *f = w->data;

	f->writing = false;
	if (status < 0)
		lose(f, uv_strerror(status));
}

static void send_out(struct feed *f, size_t n)
{
	uv_buf_t b = uv_buf_init((char *)f->out, (unsigned)(n * PUSH_SIZE));

	f->writing = true;
	if (uv_write(&f->write, (uv_stream_t *)&f->pipe, &b, 1, on_written) < 0) {
		f->writing = false;
		lose(f, "it cannot be written to");
	}
}

static void on_news(uv_timer_t *t)
{
	struct feed *f = t->data;
	struct push p;
	size_t n = 0;

	if (!f->greeted || f->writing)
		return;
	while (n < NEWS_MAX && table_news(f->edge->table, &p))
		push_encode(&p, f->out + PUSH_SIZE * n++);
	if (++f->beat % (SUMS_MS / NEWS_MS) == 0) {
		while (n < OUT_MAX && refusal_take(&f->edge->refusals, &p))
			push_encode(&p, f->out + PUSH_SIZE * n++);
		counts_look(f->edge);
		while (n < OUT_MAX && counts_next(&f->edge->counts, &p))
			push_encode(&p, f->out + PUSH_SIZE * n++);
	}
	if (n)
		send_out(f, n);
}

static void on_connect(uv_connect_t *c, int status)
{
	struct feed *f = c->data;
	struct push hello = { .kind = PUSH_HELLO, .number = PUSH_ABI, .secret = CAY_VERSION };

	if (status < 0 || uv_read_start((uv_stream_t *)&f->pipe, on_alloc, on_read) < 0) {
		lose(f, uv_strerror(status));
		return;
	}
	f->up = true;
	(void)uv_timer_start(&f->silence, on_silence, SILENCE_MS, 0);
	table_untold(f->edge->table);
	counts_untold(&f->edge->counts);
	push_encode(&hello, f->out);
	send_out(f, 1);
}

static void dial_control(struct feed *f)
{
	int r;

	(void)uv_pipe_init(&f->edge->loop, &f->pipe, 0);
	f->pipe.data = f;
	r = dial(&f->pipe, f->path, &f->connect, on_connect);
	if (r < 0)
		lose(f, uv_strerror(r));
}

bool feed_hangs(const struct edge *e)
{
	const struct feed *f = e->feed;

	/* whoever listens and does not come to accepting hangs on */
	if (!f->greeted)
		return f->silent;
	return clk_boot_ns(e->clk) - f->heard_ns > HANGS_MS * NS_PER_MS;
}

int feed_open(struct edge *e, struct cay_err *err)
{
	struct feed *f = calloc(1, sizeof(*f));
	int n;

	if (!f)
		return cay_fail(err, CAY_E_NO_MEMORY, "out of memory");
	f->edge = e;
	n = snprintf(f->path, sizeof(f->path), "%s/edge/" PUSH_SOCKET, e->settings.run_dir);
	if (n < 0 || n >= (int)sizeof(f->path)) {
		free(f);
		return cay_fail(err, CAY_E_INVALID, "paths.run is too long");
	}
	(void)uv_timer_init(&e->loop, &f->again);
	(void)uv_timer_init(&e->loop, &f->news);
	(void)uv_timer_init(&e->loop, &f->silence);
	f->again.data = f->news.data = f->silence.data = f->connect.data = f->write.data = f;
	(void)uv_timer_start(&f->news, on_news, NEWS_MS, NEWS_MS);
	e->feed = f;
	dial_control(f);
	return 0;
}
