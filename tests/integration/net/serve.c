/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve - the server and the relay with handlers that try them, for test_net.py
 *
 *	serve UPSTREAM [CERT KEY [raw]]    fd 3 listens; requests for a sandbox go to UPSTREAM
 *
 * raw: and so do all operations of control, with their bodies as they come.  Without
 * TLS CERT and KEY are empty.
 *
 *	SERVE_LIMITS="CONNECTIONS HEAD IDLE INSIDE HANDSHAKE KEPT"
 *
 * the most connections, and milliseconds: for a head, without a request, for a sandbox's
 * head, for a handshake of TLS, and that a connection to control is kept.
 *
 * SIGTERM stops it in good order, so that a sanitizer can tell what leaked.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "net/relay.h"
#include "net/server.h"
#include "net/tls.h"
#include "net/tunnel.h"

#define KEPT_MAX 2
#define PIECE KIB(16)
#define PAUSE_MS 1

/* Longer than any machine stands still; who tests one of them makes it short. */
static struct {
	uint64_t conns, head_ms, idle_ms, inside_ms, handshake_ms, kept_ms;
} limits = { 8, 20000, 20000, 20000, 20000, 20000 };

struct serve {
	uv_loop_t loop;
	uv_signal_t term;
	struct server *server;
	const char *upstream;
	struct upstream_pool *control;
	struct forward_handle hold; /* of the last one that went inside */
	bool raw;
	unsigned gone, relayed;
	unsigned taken, untouched; /* upgrades handed over, and holds nobody wrote to since */
	size_t most_queued;
};

static void say(struct request *rq, const char *text)
{
	auto_buf b = BUF_INIT(KIB(4));

	if (buf_puts(&b, text) < 0)
		abort();
	request_reply(rq, 200, "text/plain", &b);
}

static void stats(struct request *rq, void *arg)
{
	struct serve *s = arg;
	auto_buf b = BUF_INIT(KIB(4));

	if (buf_printf(&b, "gone=%u relayed=%u taken=%u untouched=%u queued=%zu conns=%u kept=%u",
		       s->gone, s->relayed, s->taken, s->untouched, s->most_queued,
		       server_count_connections(s->server),
		       upstream_pool_count_idle(s->control)) < 0)
		abort();
	say(rq, buf_str(&b));
	/* a peak is since the last time it was asked for */
	s->most_queued = 0;
}

static void on_gone(struct request *rq)
{
	struct serve *s = rq->data;

	s->gone++;
}

static void never(struct request *rq, void *arg)
{
	static const struct request_events events = { .gone = on_gone };

	rq->data = arg;
	rq->events = &events;
}

/* 64 MiB, as fast as the client takes them. */
struct source {
	struct serve *serve;
	size_t left;
};

static void produce(struct request *rq)
{
	static char zeroes[PIECE];
	struct source *src = rq->data;

	while (src->left) {
		bool full;

		src->left -= PIECE;
		full = request_write_stream(rq, zeroes, PIECE);
		if (request_queued_bytes(rq) > src->serve->most_queued)
			src->serve->most_queued = request_queued_bytes(rq);
		if (full)
			return;
	}
	free(src);
	request_end_stream(rq);
}

static void source_gone(struct request *rq)
{
	struct source *src = rq->data;

	src->serve->gone++;
	free(src);
}

static void stream(struct request *rq, void *arg)
{
	static const struct request_events events = { .drain = produce, .gone = source_gone };
	struct source *src = calloc(1, sizeof(*src));

	if (!src)
		abort();
	*src = (struct source){ .serve = arg, .left = MIB(64) };
	rq->data = src;
	rq->events = &events;
	request_start_stream(rq, 200, "application/octet-stream", REQUEST_LENGTH_UNKNOWN);
	produce(rq);
}

/* A MiB that waits for the client, and a byte each ms that does not. */
struct noisy {
	uv_timer_t timer;
	size_t left;
};

static void noisy_closed(uv_handle_t *h)
{
	free(h->data);
}

static void noisy_end(struct request *rq)
{
	struct noisy *y = rq->data;

	uv_close((uv_handle_t *)&y->timer, noisy_closed);
}

static void noisy_produce(struct request *rq)
{
	static char zeroes[PIECE];
	struct noisy *y = rq->data;

	while (y->left) {
		y->left -= PIECE;
		if (request_write_stream(rq, zeroes, PIECE))
			return;
	}
	noisy_end(rq);
	request_end_stream(rq);
}

static void noisy_tick(uv_timer_t *t)
{
	(void)request_write_stream(t->loop->data, ".", 1);
}

static void noisy(struct request *rq, void *arg)
{
	static const struct request_events events = { .drain = noisy_produce, .gone = noisy_end };
	struct noisy *y = calloc(1, sizeof(*y));
	struct serve *s = arg;

	if (!y || uv_timer_init(&s->loop, &y->timer) < 0)
		abort();
	y->left = MIB(1);
	y->timer.data = y;
	s->loop.data = rq; /* one at a time */
	rq->data = y;
	rq->events = &events;
	(void)uv_timer_start(&y->timer, noisy_tick, 1, 1);
	request_start_stream(rq, 200, "application/octet-stream", REQUEST_LENGTH_UNKNOWN);
	noisy_produce(rq);
}

/* Promises more than it sends. */
static void liar(struct request *rq, void *)
{
	request_start_stream(rq, 200, "text/plain", 100);
	(void)request_write_stream(rq, "short", 5);
	request_end_stream(rq);
}

/* Counts a raw body, pausing after every piece. */
struct count {
	struct serve *serve;
	struct request *rq;
	uv_timer_t timer;
	uint64_t bytes;
	bool over;
};

static void count_closed(uv_handle_t *h)
{
	free(h->data);
}

static void count_resume(uv_timer_t *t)
{
	struct count *c = t->data;

	request_resume_body(c->rq);
}

static void count_body(struct request *rq, struct slice bytes)
{
	struct count *c = rq->data;

	c->bytes += bytes.n;
	request_pause_body(rq);
	(void)uv_timer_start(&c->timer, count_resume, PAUSE_MS, 0);
}

static void count_end(struct request *rq)
{
	struct count *c = rq->data;
	char text[32];

	if (snprintf(text, sizeof(text), "%llu", (unsigned long long)c->bytes) < 0)
		abort();
	uv_close((uv_handle_t *)&c->timer, count_closed);
	say(rq, text);
}

static void count_gone(struct request *rq)
{
	struct count *c = rq->data;

	c->serve->gone++;
	uv_close((uv_handle_t *)&c->timer, count_closed);
}

static void count(struct request *rq, struct serve *s)
{
	static const struct request_events events = { .body = count_body,
						      .body_end = count_end,
						      .gone = count_gone };
	struct count *c = calloc(1, sizeof(*c));

	if (!c)
		abort();
	c->serve = s;
	c->rq = rq;
	(void)uv_timer_init(&s->loop, &c->timer);
	c->timer.data = c;
	rq->data = c;
	rq->events = &events;
}

static struct forward poison;

static void relayed(void *arg)
{
	struct serve *s = arg;

	s->relayed++;
	s->untouched += s->hold.forward == &poison;
	s->hold = (struct forward_handle){};
}

static void cut(struct request *rq, void *arg)
{
	struct serve *s = arg;
	struct cay_err err = {};

	(void)cay_fail(&err, CAY_E_UNAUTHENTICATED, "no more");
	forward_cancel(&s->hold, &err);
	say(rq, "cut");
}

/* Both ends are ours; and so is the hold from here on. */
static void taken(struct request *rq, struct conn *there, struct slice bytes, void *arg)
{
	struct serve *s = arg;
	auto_buf early = BUF_INIT(MIB(1));
	struct tunnel *t = tunnel_new(request_loop(rq), relayed, s);
	struct conn *client = request_upgrade(rq, &early);

	if (!t || !client)
		abort();
	s->taken += !s->hold.forward && !s->hold.tunnel;
	s->hold.forward = &poison;
	tunnel_start(t, client, (struct slice){ early.data, early.len }, there, bytes);
}

static void inside(struct request *rq, void *arg)
{
	struct serve *s = arg;
	bool take = rq->match.op == &ops[OP_EXEC_LIST];
	struct relay_conf conf = { .path = s->upstream,
				   .upgrade = take || rq->match.op == &ops[OP_EXEC_OUTPUT],
				   .protocol = take ? "taken/1" : NULL,
				   .upgraded = take ? taken : NULL,
				   .head_timeout_ms = limits.inside_ms,
				   .handle = &s->hold,
				   .done = relayed,
				   .arg = s };

	relay_start(rq, &conf);
}

static void to_control(struct request *rq, struct serve *s)
{
	static const struct relay_header who[] = { { "Cay-Tenant", "tn1" }, { "Cay-Key", "ky1" } };
	struct relay_conf conf = { .upstream = s->control,
				   .headers = who,
				   .n_headers = ARRAY_SIZE(who),
				   .head_timeout_ms = limits.inside_ms,
				   .done = relayed,
				   .arg = s };

	relay_start(rq, &conf);
}

static void handle(struct request *rq, void *arg)
{
	const struct serve *s = arg;
	struct cay_err err = {};

	if (s->raw) {
		to_control(rq, arg);
	} else if (rq->match.op == &ops[OP_SANDBOX_CREATE]) {
		const struct sandbox_create *req = rq->body;

		say(rq, req->image);
	} else if (rq->match.op == &ops[OP_SANDBOX_LIST]) {
		const struct page_query *q = rq->query;

		say(rq, q->limit == 7 ? "seven" : "other");
	} else if (rq->match.op == &ops[OP_IMAGE_IMPORT]) {
		const struct image_import_query *q = rq->query;

		/* the one operation with a body as large as anybody likes */
		if (str_eq(q->name, "relayed"))
			inside(rq, arg);
		else
			count(rq, arg);
	} else if (rq->match.op == &ops[OP_SANDBOX_GET] ||
		   rq->match.op == &ops[OP_SANDBOX_DELETE]) {
		to_control(rq, arg);
	} else {
		(void)cay_fail(&err, CAY_E_INTERNAL, "secret of the machine");
		request_fail(rq, &err);
	}
}

/* A protocol of our own: what comes goes back. */

static void echo_read(struct conn *c, struct slice bytes)
{
	uv_buf_t v = uv_buf_init((char *)(uintptr_t)bytes.p, (unsigned)bytes.n);

	if (conn_write(c, &v, 1) < 0)
		conn_close(c);
}

static void echo_end(struct conn *c, const struct cay_err *)
{
	conn_shutdown(c);
	conn_close(c);
}

static void echo_stuck(struct conn *c)
{
	conn_close(c);
}

static void echo(struct request *rq, void *)
{
	static const struct conn_events events = { .read = echo_read,
						   .end = echo_end,
						   .stuck = echo_stuck };
	auto_buf early = BUF_INIT(MIB(1));
	struct conn *c;

	if (!rq->head->upgrade.n) {
		say(rq, "ask for another protocol");
		return;
	}
	c = request_upgrade(rq, &early);
	if (!c)
		return;
	conn_set_owner(c, &events, NULL, MIB(1));
	echo_read(c, (struct slice){ early.data, early.len });
	conn_set_reading(c, true);
}

static void on_term(uv_signal_t *t, int)
{
	struct serve *s = t->data;

	server_stop(s->server);
	upstream_pool_free(s->control);
	uv_close((uv_handle_t *)t, NULL);
}

static int read_limits(const char *text)
{
	uint64_t *const each[] = { &limits.conns,     &limits.head_ms,      &limits.idle_ms,
				   &limits.inside_ms, &limits.handshake_ms, &limits.kept_ms };
	struct slice rest = slice_of(text ? text : "");

	for (size_t i = 0; text && i < ARRAY_SIZE(each); i++)
		if (str_parse_u64(slice_cut(&rest, ' '), 1, 100000, each[i]) < 0)
			return -EINVAL;
	return 0;
}

int main(int argc, char **argv)
{
	static const struct server_route routes[] = {
		{ METHOD_GET, "/stats", NULL, 0, stats },
		{ METHOD_GET, "/never", NULL, 0, never },
		{ METHOD_GET, "/stream", NULL, 0, stream },
		{ METHOD_GET, "/noisy", NULL, 0, noisy },
		{ METHOD_GET, "/liar", NULL, 0, liar },
		{ METHOD_GET, "/echo", NULL, 0, echo },
		{ METHOD_GET, "/cut", NULL, 0, cut },
	};
	struct serve s = { .upstream = argc > 1 ? argv[1] : "", .raw = argc > 4 };
	struct server_conf conf = { .routes = routes,
				    .n_routes = ARRAY_SIZE(routes),
				    .handler = handle,
				    .sandbox_handler = inside,
				    .raw = argc > 4,
				    .arg = &s };
	struct conn_layer *layer = NULL;
	struct cay_err err = {};

	if (read_limits(getenv("SERVE_LIMITS")) < 0)
		return 2;
	conf.max_conns = (unsigned)limits.conns;
	conf.head_timeout_ms = limits.head_ms;
	conf.idle_timeout_ms = limits.idle_ms;
	(void)signal(SIGPIPE, SIG_IGN);
	if (argc > 3 && argv[2][0]) {
		struct tls_server_conf tls = { .cert_file = argv[2],
					       .key_file = argv[3],
					       .handshake_ms = limits.handshake_ms };

		if (tls_server_new(&tls, &layer, &err) < 0) {
			(void)fprintf(stderr, "%s\n", err.msg);
			return 3;
		}
		conf.layer = layer;
	}
	if (uv_loop_init(&s.loop) < 0 || server_start(&s.loop, 3, &conf, &s.server, &err) < 0)
		return 1;
	s.control = upstream_pool_new(&s.loop, s.upstream, KEPT_MAX, limits.kept_ms);
	if (!s.control)
		return 1;
	(void)uv_signal_init(&s.loop, &s.term);
	s.term.data = &s;
	(void)uv_signal_start(&s.term, on_term, SIGTERM);
	(void)uv_run(&s.loop, UV_RUN_DEFAULT);
	tls_free(layer);
	return uv_loop_close(&s.loop) < 0 ? 2 : 0;
}
