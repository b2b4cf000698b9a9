/* SPDX-License-Identifier: Apache-2.0 */
#include "edge/edge.h"
#include "net/dial.h"

#define AGAIN_MS 200
#define NEWS_MS 250
#define SUMS_MS 1000 /* between reports of refusals and counters; a multiple of NEWS_MS */
/* Control sends a heartbeat every second; a silent one hangs. */
#define SILENCE_MS 10000
#define HANGS_MS 3000
#define NEWS_MAX 512 /* records about busy sandboxes in one write */
#define OUT_MAX 1024 /* records in all: counters have room of their own */

struct control_feed {
	struct edge *edge;
	uv_pipe_t pipe;
	uv_timer_t retry_timer, report_timer, silence_timer;
	uv_connect_t connect;
	uv_write_t write;
	char path[108];
	bool up, greeted, writing, away_logged;
	bool hurry;  /* a sandbox is to be woken: report without waiting for the timer */
	bool silent; /* disconnected for its silence, and not reconnected yet */
	unsigned report_count;
	uint64_t heard_ns;
	uint8_t in[PUSH_SIZE * 64];
	size_t n_in;
	uint8_t out[PUSH_SIZE * OUT_MAX];
};

static void control_feed_connect(struct control_feed *f);
static void control_feed_report_now(struct control_feed *f);

static void on_control_feed_retry_timer(uv_timer_t *t)
{
	control_feed_connect(t->data);
}

static void on_control_feed_closed(uv_handle_t *h)
{
	struct control_feed *f = h->data;

	(void)uv_timer_start(&f->retry_timer, on_control_feed_retry_timer, AGAIN_MS, 0);
}

static void control_feed_disconnect(struct control_feed *f, const char *why)
{
	if (uv_is_closing((uv_handle_t *)&f->pipe))
		return;
	if (!f->away_logged)
		log_warn(&f->edge->log,
			 "control is not connected (%s): continuing with the last known state",
			 why);
	f->away_logged = true;
	f->up = f->greeted = f->silent = false;
	f->n_in = 0;
	(void)uv_timer_stop(&f->silence_timer);
	uv_close((uv_handle_t *)&f->pipe, on_control_feed_closed);
}

static void on_control_feed_silence_timer(uv_timer_t *t)
{
	struct control_feed *f = t->data;

	control_feed_disconnect(f, "no heartbeat");
	f->silent = true;
}

static void control_feed_apply_record(struct control_feed *f, const uint8_t *bytes)
{
	struct edge *e = f->edge;
	struct push p;
	int r = push_decode(bytes, &p);

	if (r >= 0 && !f->greeted)
		r = p.kind == PUSH_HELLO && p.number == PUSH_ABI ? 0 : -EPROTO;
	else if (r >= 0)
		r = control_state_apply(e->control_state, &p);
	explicit_bzero(p.secret, sizeof(p.secret));
	if (r < 0) {
		control_feed_disconnect(f, r == -EPROTO ? "incompatible protocol" : strerror(-r));
		return;
	}
	f->greeted = true;
	f->silent = false;
	/* requests may have come since it began to doze */
	if (p.kind == PUSH_END || (p.kind == PUSH_SANDBOX && p.value == PUSH_DOZING))
		control_feed_report_now(f);
	if (p.kind == PUSH_END) {
		f->away_logged = false;
		log_info(&e->log, "synchronised with control: %u sandboxes, %u keys",
			 control_state_count_sandboxes(e->control_state),
			 control_state_count_keys(e->control_state));
	}
}

static void on_control_feed_alloc(uv_handle_t *h, size_t, uv_buf_t *ret)
{
	struct control_feed *f = h->data;

	*ret = uv_buf_init((char *)f->in + f->n_in, (unsigned)(sizeof(f->in) - f->n_in));
}

static void on_control_feed_read(uv_stream_t *s, ssize_t n, const uv_buf_t *)
{
	struct control_feed *f = s->data;
	size_t at = 0;

	if (n < 0) {
		control_feed_disconnect(f, uv_strerror((int)n));
		return;
	}
	(void)uv_timer_start(&f->silence_timer, on_control_feed_silence_timer, SILENCE_MS, 0);
	f->heard_ns = clk_boot_ns(f->edge->clk);
	f->n_in += (size_t)n;
	for (; f->up && f->n_in - at >= PUSH_SIZE; at += PUSH_SIZE)
		control_feed_apply_record(f, f->in + at);
	if (!f->up)
		return;
	memmove(f->in, f->in + at, f->n_in - at);
	f->n_in -= at;
}

static void on_control_feed_written(uv_write_t *w, int status)
{
	struct control_feed *f = w->data;

	f->writing = false;
	if (status < 0)
		control_feed_disconnect(f, uv_strerror(status));
	else if (f->hurry)
		control_feed_report_now(f);
}

static void control_feed_send(struct control_feed *f, size_t n)
{
	uv_buf_t b = uv_buf_init((char *)f->out, (unsigned)(n * PUSH_SIZE));

	f->writing = true;
	if (uv_write(&f->write, (uv_stream_t *)&f->pipe, &b, 1, on_control_feed_written) < 0) {
		f->writing = false;
		control_feed_disconnect(f, "write failed");
	}
}

/* How many records were put into f->out. */
static size_t control_feed_collect_news(struct control_feed *f)
{
	struct push p;
	size_t n = 0;

	while (n < NEWS_MAX && control_state_next_report(f->edge->control_state, &p))
		push_encode(&p, f->out + PUSH_SIZE * n++);
	f->hurry = n == NEWS_MAX;
	return n;
}

static void control_feed_report_now(struct control_feed *f)
{
	size_t n;

	f->hurry = true;
	if (!f->greeted || f->writing)
		return;
	n = control_feed_collect_news(f);
	if (n)
		control_feed_send(f, n);
}

void control_feed_enter_sandbox(struct edge *e, struct control_state_sandbox *s)
{
	control_state_enter_sandbox(e->control_state, s);
	if (s->dozes)
		control_feed_report_now(e->control_feed);
}

static void on_control_feed_report_timer(uv_timer_t *t)
{
	struct control_feed *f = t->data;
	struct push p;
	size_t n;

	if (!f->greeted || f->writing)
		return;
	n = control_feed_collect_news(f);
	if (++f->report_count % (SUMS_MS / NEWS_MS) == 0) {
		while (n < OUT_MAX && refusal_remove_next(&f->edge->refusals, &p))
			push_encode(&p, f->out + PUSH_SIZE * n++);
		edge_counters_update(f->edge);
		while (n < OUT_MAX && edge_counters_next_report(&f->edge->counters, &p))
			push_encode(&p, f->out + PUSH_SIZE * n++);
	}
	if (n)
		control_feed_send(f, n);
}

static void on_control_feed_connect(uv_connect_t *c, int status)
{
	struct control_feed *f = c->data;
	struct push hello = { .kind = PUSH_HELLO, .number = PUSH_ABI, .secret = CAY_VERSION };

	if (status < 0 || uv_read_start((uv_stream_t *)&f->pipe, on_control_feed_alloc,
					on_control_feed_read) < 0) {
		control_feed_disconnect(f, uv_strerror(status));
		return;
	}
	f->up = true;
	(void)uv_timer_start(&f->silence_timer, on_control_feed_silence_timer, SILENCE_MS, 0);
	control_state_mark_unreported(f->edge->control_state);
	edge_counters_mark_unreported(&f->edge->counters);
	push_encode(&hello, f->out);
	control_feed_send(f, 1);
}

static void control_feed_connect(struct control_feed *f)
{
	int r;

	(void)uv_pipe_init(&f->edge->loop, &f->pipe, 0);
	f->pipe.data = f;
	r = dial_unix_async(&f->pipe, f->path, &f->connect, on_control_feed_connect);
	if (r < 0)
		control_feed_disconnect(f, uv_strerror(r));
}

bool control_feed_is_hung(const struct edge *e)
{
	const struct control_feed *f = e->control_feed;

	/* a control that listens without accepting still hangs */
	if (!f->greeted)
		return f->silent;
	return clk_boot_ns(e->clk) - f->heard_ns > HANGS_MS * NS_PER_MS;
}

bool control_feed_is_serving(const struct edge *e)
{
	return e->control_feed->greeted && !control_feed_is_hung(e) &&
	       control_state_is_ready(e->control_state);
}

int control_feed_start(struct edge *e, struct cay_err *err)
{
	struct control_feed *f = calloc(1, sizeof(*f));
	int n;

	if (!f)
		return cay_no_memory(err);
	f->edge = e;
	n = snprintf(f->path, sizeof(f->path), "%s/edge/" PUSH_SOCKET, e->settings.run_dir);
	if (n < 0 || n >= (int)sizeof(f->path)) {
		free(f);
		return cay_fail(err, CAY_E_INVALID, "paths.run is too long");
	}
	(void)uv_timer_init(&e->loop, &f->retry_timer);
	(void)uv_timer_init(&e->loop, &f->report_timer);
	(void)uv_timer_init(&e->loop, &f->silence_timer);
	f->retry_timer.data = f->report_timer.data = f->silence_timer.data = f->connect.data =
		f->write.data = f;
	(void)uv_timer_start(&f->report_timer, on_control_feed_report_timer, NEWS_MS, NEWS_MS);
	e->control_feed = f;
	control_feed_connect(f);
	return 0;
}
