/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tls-peer - the client side of TLS, for test_tls.py
 *
 *	tls-peer CA HOST MS    fd 3 is connected; stdin goes there and what comes back to stdout;
 *	                       a handshake has so many milliseconds
 *
 * Ends with 0 when the peer ended in good order, with 1 and a line on stderr if not.
 */
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>

#include "net/tls.h"

#define IN_MAX KIB(32)

static int status = 2;

static void on_read(struct conn *, struct slice bytes)
{
	if (fwrite(bytes.p, 1, bytes.n, stdout) != bytes.n)
		abort();
}

static void on_end(struct conn *c, const struct cay_err *err)
{
	if (err)
		(void)fprintf(stderr, "%s\n", err->msg);
	status = err ? 1 : 0;
	conn_close(c);
}

static void on_ready(struct conn *)
{
	(void)fprintf(stderr, "ready\n");
}

int main(int argc, char **argv)
{
	static const struct conn_events events = { .ready = on_ready,
						   .read = on_read,
						   .end = on_end };
	static char in[IN_MAX];
	struct tls_client_conf conf = {};
	struct conn_conf how = { .events = &events, .out_max = MIB(1) };
	struct conn_layer *layer = NULL;
	struct conn_shared *room;
	struct cay_err err = {};
	struct conn *c;
	uv_loop_t loop;
	uv_buf_t v;

	if (argc != 4 || str_parse_u64(slice_of(argv[3]), 1, 100000, &conf.handshake_ms) < 0)
		return 2;
	(void)signal(SIGPIPE, SIG_IGN);
	conf.ca_file = argv[1];
	conf.host = argv[2];
	v = uv_buf_init(in, (unsigned)fread(in, 1, sizeof(in), stdin));
	if (tls_client_new(&conf, &layer, &err) < 0) {
		(void)fprintf(stderr, "%s\n", err.msg);
		return 3;
	}
	how.layer = layer;
	if (uv_loop_init(&loop) < 0)
		return 2;
	room = conn_shared_new(&loop);
	if (!room || conn_open_fd(room, 3, AF_INET, &how, &c) < 0)
		return 2;
	/* before the handshake is over: it waits for that */
	if (conn_write(c, &v, 1) < 0)
		return 2;
	conn_set_reading(c, true);
	(void)uv_run(&loop, UV_RUN_DEFAULT);
	conn_shared_unref(room);
	tls_free(layer);
	if (uv_loop_close(&loop) < 0 || fflush(stdout) != 0)
		return 2;
	return status;
}
