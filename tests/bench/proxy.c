/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proxy - the server and the relay and nothing else, for net.py
 *
 *	proxy sandbox|control UPSTREAM [CERT KEY]    fd 3 listens
 *	proxy origin                                 fd 3 listens: what is behind it
 *
 * sandbox: a connection per request; control: they are kept.  The origin answers
 * exec.get with a few bytes, exec.list with 64 KiB, exec.output with 300 MB, or with a
 * protocol in which nobody says anything.
 */
#include <signal.h>
#include <stdio.h>

#include "net/relay.h"
#include "net/tls.h"

#define CONNS 30000
#define HEAD_MS 10000
#define IDLE_MS 600000
#define KEPT 128
#define SMALL 100
#define MIDDLE KIB(64)
#define LARGE (UINT64_C(300) << 20)

struct proxy {
	const char *path;
	struct upstream_pool *control;
};

static char zeroes[MIDDLE];

static void pass(struct request *rq, void *arg)
{
	const struct proxy *p = arg;
	struct relay_conf conf = { .path = p->path, .upstream = p->control, .upgrade = true };

	relay_start(rq, &conf);
}

/* The origin. */

static void produce(struct request *rq)
{
	uint64_t *left = rq->data;

	while (*left) {
		size_t n = *left < MIDDLE ? (size_t)*left : MIDDLE;

		*left -= n;
		if (request_write_stream(rq, zeroes, n))
			return;
	}
	free(left);
	request_end_stream(rq);
}

static void gone(struct request *rq)
{
	free(rq->data);
}

static void nothing(struct conn *, struct slice) {}

static void end(struct conn *c, const struct cay_err *)
{
	conn_close(c);
}

static void fall_silent(struct request *rq)
{
	static const struct conn_events events = { .read = nothing,
						   .end = end,
						   .stuck = conn_close };
	auto_buf early = BUF_INIT(KIB(128));
	struct conn *c = request_upgrade(rq, &early);

	if (!c)
		return;
	conn_set_owner(c, &events, NULL, KIB(64));
	conn_set_reading(c, true);
}

static void flood(struct request *rq)
{
	static const struct request_events events = { .drain = produce, .gone = gone };
	uint64_t *left = malloc(sizeof(*left));

	if (!left)
		abort();
	*left = LARGE;
	rq->data = left;
	rq->events = &events;
	request_start_stream(rq, 200, "application/octet-stream", LARGE);
	produce(rq);
}

static void answer(struct request *rq, void *)
{
	auto_buf b = BUF_INIT(MIDDLE);

	if (rq->match.op == &ops[OP_EXEC_OUTPUT]) {
		if (rq->head->upgrade.n)
			fall_silent(rq);
		else
			flood(rq);
		return;
	}
	if (buf_append(&b, zeroes, rq->match.op == &ops[OP_EXEC_LIST] ? MIDDLE : SMALL) < 0)
		abort();
	request_reply(rq, 200, "application/json", &b);
}

int main(int argc, char **argv)
{
	bool origin = argc > 1 && str_eq(argv[1], "origin");
	struct proxy p = { .path = argc > 2 ? argv[2] : "" };
	struct server_conf conf = { .max_conns = CONNS,
				    .head_timeout_ms = HEAD_MS,
				    .idle_timeout_ms = IDLE_MS,
				    .handler = origin ? answer : pass,
				    .raw = !origin,
				    .arg = &p };
	struct tls_server_conf tls = { .handshake_ms = HEAD_MS };
	struct conn_layer *layer = NULL;
	struct cay_err err = {};
	struct server *server;
	uv_loop_t loop;

	(void)signal(SIGPIPE, SIG_IGN);
	if (argc < 2 || uv_loop_init(&loop) < 0)
		return 2;
	if (argc > 4) {
		tls.cert_file = argv[3];
		tls.key_file = argv[4];
		if (tls_server_new(&tls, &layer, &err) < 0)
			goto failed;
		conf.layer = layer;
	}
	if (str_eq(argv[1], "control"))
		p.control = upstream_pool_new(&loop, p.path, KEPT, IDLE_MS / 2);
	if (server_start(&loop, 3, &conf, &server, &err) < 0)
		goto failed;
	return uv_run(&loop, UV_RUN_DEFAULT);
failed:
	(void)fprintf(stderr, "proxy: %s\n", err.msg);
	return 1;
}
