/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load - clients of a proxy on 127.0.0.1, for net.py
 *
 *	load get PORT TARGET CONNS COUNT [CA]    one request after the other on each connection
 *	load stall PORT TARGET CONNS             ask and never read
 *	load upgrade PORT TARGET CONNS           ask for another protocol and say nothing in it
 *
 * get ends when COUNT answers of status 200 are there; the others say "ready" and wait
 * for the end of stdin.  Anything else than what was asked for ends it with 1.
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "http/http.h"
#include "net/tls.h"

#define CONNS_MAX 20000
#define HANDSHAKE_MS 30000

struct load {
	uv_loop_t loop;
	struct conn_shared *room;
	struct conn_layer *layer;
	char request[1024];
	size_t n_request;
	bool upgrade;
	uint64_t left; /* answers to come, or upgrades */
	uint64_t open; /* requests still to be sent */
};

struct one {
	struct load *load;
	struct http_parser http;
};

[[noreturn]] static void die(const char *what)
{
	(void)fprintf(stderr, "load: %s\n", what);
	exit(1);
}

static void ask(struct load *l, struct conn *c)
{
	uv_buf_t v = uv_buf_init(l->request, (unsigned)l->n_request);

	if (conn_write(c, &v, 1) < 0)
		die("a request could not be sent");
}

static void one_less(struct load *l, struct one *o, struct conn *c)
{
	if (--l->left == 0)
		uv_stop(&l->loop);
	if (l->upgrade || !l->open)
		return;
	l->open--;
	http_parser_reset(&o->http);
	ask(l, c);
}

static void on_read(struct conn *c, struct slice in)
{
	struct one *o = conn_data(c);
	struct cay_err err = {};
	struct slice body;
	int r;

	while ((r = http_parser_next(&o->http, &in, &body, &err)) > HTTP_MORE) {
		if (r == HTTP_HEAD_DONE && o->http.head.status != (o->load->upgrade ? 101 : 200))
			die("another status");
		if (r == HTTP_END) {
			one_less(o->load, o, c);
			return;
		}
	}
	if (r < 0)
		die(err.msg);
}

static void on_end(struct conn *, const struct cay_err *err)
{
	die(err ? err->msg : "a connection was closed");
}

static void open_one(struct load *l, unsigned port, bool reads)
{
	static const struct conn_events events = { .read = on_read, .end = on_end };
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)port),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct one *o = calloc(1, sizeof(*o));
	struct conn_conf conf = {
		.layer = l->layer, .events = &events, .data = o, .out_max = KIB(64)
	};
	struct conn *c;

	if (!o || fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 ||
	    conn_open_fd(l->room, fd, AF_INET, &conf, &c) < 0)
		die("no connection");
	o->load = l;
	http_parser_init(&o->http, HTTP_KIND_RESPONSE);
	if (l->upgrade)
		http_parser_allow_upgrade(&o->http);
	if (reads)
		conn_set_reading(c, true);
	ask(l, c);
}

static uint64_t number(const char *s, uint64_t max)
{
	uint64_t n;

	if (str_parse_u64(slice_of(s), 1, max, &n) < 0)
		die("not a number");
	return n;
}

static void get_ca(struct load *l, const char *file)
{
	struct tls_client_conf conf = { .ca_file = file,
					.host = "localhost",
					.handshake_ms = HANDSHAKE_MS };
	struct cay_err err = {};

	if (tls_client_new(&conf, &l->layer, &err) < 0)
		die(err.msg);
}

int main(int argc, char **argv)
{
	struct load l = {};
	bool get = argc > 5 && str_eq(argv[1], "get"), stall;
	unsigned port, conns;
	int n;

	(void)signal(SIGPIPE, SIG_IGN);
	if (argc < 5 || uv_loop_init(&l.loop) < 0)
		return 2;
	l.room = conn_shared_new(&l.loop);
	if (!l.room)
		die("no memory");
	stall = str_eq(argv[1], "stall");
	l.upgrade = str_eq(argv[1], "upgrade");
	port = (unsigned)number(argv[2], 65535);
	conns = (unsigned)number(argv[4], CONNS_MAX);
	l.left = get ? number(argv[5], UINT32_MAX) : conns;
	l.open = get ? l.left - conns : 0;
	if (argc > 6)
		get_ca(&l, argv[6]);
	n = snprintf(l.request, sizeof(l.request), "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n",
		     argv[3], l.upgrade ? "Connection: upgrade\r\nUpgrade: nothing\r\n" : "");
	if (n < 0 || (size_t)n >= sizeof(l.request))
		die("the target is too long");
	l.n_request = (size_t)n;
	for (unsigned i = 0; i < conns; i++) {
		open_one(&l, port, !stall);
		(void)uv_run(&l.loop, UV_RUN_NOWAIT);
	}
	if (l.left && !stall)
		(void)uv_run(&l.loop, UV_RUN_DEFAULT);
	if (get)
		return 0;
	if (puts("ready") < 0 || fflush(stdout) != 0)
		return 1;
	while (getchar() != EOF)
		;
	return 0;
}
