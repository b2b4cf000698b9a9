/* SPDX-License-Identifier: Apache-2.0 */
/*
 * struct ws behind a TCP socket, for clients that other people wrote.  Says its
 * port on stdout; SIGTERM stops it in good order, so that a sanitizer can tell what
 * leaked.  Messages come back, and a text may ask for more:
 *
 *	close CODE REASON	begin to close
 *	flood N			N binary messages of 4 KiB, each begins with its number
 *	ping			ask for a pong; "pong" comes back when it did
 *	peak			the most bytes that ever waited in the session
 */
#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <uv.h>

#include "net/ws.h"

#define CHUNK KIB(4)

static const struct ws_conf conf = {
	.message_max = MIB(1),
	.fragments_max = 1024,
	.out_max = MIB(2),
};
static const char *const protocols[] = { "cay.echo", "cay.more", NULL };

struct conn {
	uv_tcp_t tcp;
	uv_write_t req;
	uv_shutdown_t end;
	struct http_parser http;
	struct ws ws;
	bool upgraded, reading, sending, last;
	uint32_t flood, flooded;
	size_t peak;
	struct buf in, out; /* not looked at yet; in the kernel's hands */
	char chunk[KIB(64)];
};

static void work(struct conn *c);

static void on_closed(uv_handle_t *h)
{
	struct conn *c = h->data;

	http_parser_fini(&c->http);
	ws_fini(&c->ws);
	buf_fini(&c->in);
	buf_fini(&c->out);
	free(c);
}

static void hang_up(struct conn *c)
{
	if (!uv_is_closing((uv_handle_t *)&c->tcp))
		uv_close((uv_handle_t *)&c->tcp, on_closed);
}

static void on_alloc(uv_handle_t *h, size_t, uv_buf_t *ret)
{
	struct conn *c = h->data;

	*ret = uv_buf_init(c->chunk, sizeof(c->chunk));
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct conn *c = s->data;

	if (n < 0 || (n > 0 && buf_append(&c->in, b->base, (size_t)n) < 0))
		hang_up(c);
	else if (n > 0)
		work(c);
}

static void on_written(uv_write_t *req, int status)
{
	struct conn *c = req->data;

	c->sending = false;
	buf_clear(&c->out);
	if (status < 0)
		hang_up(c);
	else
		work(c);
}

static void on_shut(uv_shutdown_t *, int) {}

/* One write at a time: what waits meanwhile waits in the session. */
static void pump(struct conn *c)
{
	struct slice out = ws_pending_output(&c->ws);
	uv_buf_t b;

	if (c->sending)
		return;
	if (c->upgraded && out.n && buf_append(&c->out, out.p, out.n) == 0)
		ws_consume_output(&c->ws, out.n);
	if (!c->out.len) {
		if (ws_is_over(&c->ws) && !c->last) {
			c->last = true; /* the client sees the end and closes, too */
			(void)uv_shutdown(&c->end, (uv_stream_t *)&c->tcp, on_shut);
		}
		return;
	}
	c->sending = true;
	b = uv_buf_init(c->out.data, (unsigned)c->out.len);
	if (uv_write(&c->req, (uv_stream_t *)&c->tcp, &b, 1, on_written) < 0)
		hang_up(c);
}

static int flood(struct conn *c)
{
	char chunk[CHUNK] = {};
	int r = 0;

	while (r == 0 && c->flooded < c->flood) {
		uint32_t number = htonl(c->flooded++);

		memcpy(chunk, &number, sizeof(number));
		r = ws_send(&c->ws, WS_BINARY, chunk, sizeof(chunk));
	}
	return r;
}

static int answer(struct conn *c, int type, const struct ws_event *ev)
{
	char text[64] = {}, reply[32];
	unsigned n;

	if (type == WS_PONG)
		return ws_send(&c->ws, WS_TEXT, "pong", 4);
	if (type == WS_TEXT && ev->data.n < sizeof(text)) {
		memcpy(text, ev->data.p, ev->data.n);
		if (sscanf(text, "close %u", &n) == 1)
			return ws_close(&c->ws, n, strlen(text) > 10 ? text + 11 : "");
		if (sscanf(text, "flood %u", &n) == 1) {
			c->flood = n;
			return 0;
		}
		if (str_eq(text, "ping"))
			return ws_ping(&c->ws);
		if (str_eq(text, "peak")) {
			int len = snprintf(reply, sizeof(reply), "%zu", c->peak);

			return ws_send(&c->ws, WS_TEXT, reply, (size_t)len);
		}
	}
	return ws_send(&c->ws, (enum ws_event_type)type, ev->data.p, ev->data.n);
}

static void talk(struct conn *c, struct slice *in)
{
	struct ws_event ev;
	int r = WS_MORE;

	while (!ws_output_is_full(&c->ws) && flood(c) == 0 &&
	       (r = ws_next_event(&c->ws, in, uv_now(c->tcp.loop), &ev, NULL)) > WS_MORE) {
		if (r != WS_CLOSED && answer(c, r, &ev) < 0) {
			hang_up(c);
			return;
		}
		if (c->ws.out.len > c->peak)
			c->peak = c->ws.out.len;
	}
}

static void greet(struct conn *c, struct slice *in)
{
	struct slice body;
	struct ws_answer yes;
	struct cay_err err = {};
	int r = http_parser_next(&c->http, in, &body, &err);

	if (r == HTTP_MORE)
		return;
	if (r > 0)
		r = ws_accept(&c->http.head, protocols, &yes, &err);
	if (r < 0)
		r = buf_printf(
			&c->out,
			"HTTP/1.1 %d No\r\nContent-Length: 0\r\n"
			"Connection: close%s\r\n\r\n",
			cay_error_row(err.code)->http,
			err.code == CAY_E_UPGRADE
				? "\r\nUpgrade: websocket\r\nSec-WebSocket-Version: " WS_VERSION
				: "");
	else
		r = buf_printf(&c->out,
			       "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
			       "Connection: Upgrade\r\nSec-WebSocket-Accept: %s%s%s\r\n\r\n",
			       yes.accept, yes.protocol ? "\r\nSec-WebSocket-Protocol: " : "",
			       yes.protocol ? yes.protocol : "");
	c->upgraded = err.code == CAY_OK;
	if (!c->upgraded)
		c->ws.state = WS_OVER;
	if (r < 0)
		hang_up(c);
}

static void work(struct conn *c)
{
	struct slice in = { buf_str(&c->in), c->in.len };
	bool read;

	if (!c->upgraded && !ws_is_over(&c->ws))
		greet(c, &in);
	if (c->upgraded)
		talk(c, &in);
	if (ws_is_over(&c->ws))
		in.n = 0;
	buf_consume(&c->in, c->in.len - in.n);
	if (uv_is_closing((uv_handle_t *)&c->tcp))
		return;
	pump(c);
	read = !ws_output_is_full(&c->ws);
	if (read && !c->reading)
		(void)uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
	else if (!read && c->reading)
		(void)uv_read_stop((uv_stream_t *)&c->tcp);
	c->reading = read;
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct conn *c = status < 0 ? NULL : calloc(1, sizeof(*c));

	if (!c)
		return;
	http_parser_init(&c->http, HTTP_KIND_REQUEST);
	ws_init(&c->ws, &conf);
	c->in = BUF_INIT(KIB(128));
	c->out = BUF_INIT(MIB(4));
	c->tcp.data = c->req.data = c;
	(void)uv_tcp_init(listener->loop, &c->tcp);
	if (uv_accept(listener, (uv_stream_t *)&c->tcp) < 0)
		hang_up(c);
	else
		work(c);
}

static void on_walk(uv_handle_t *h, void *)
{
	if (!uv_is_closing(h))
		uv_close(h, h->data ? on_closed : NULL);
}

static void on_term(uv_signal_t *h, int)
{
	uv_walk(h->loop, on_walk, NULL);
}

int main(void)
{
	uv_loop_t *loop = uv_default_loop();
	struct sockaddr_in at;
	uv_signal_t term = {};
	uv_tcp_t listener = {};
	int len = sizeof(at), r;

	if (uv_ip4_addr("127.0.0.1", 0, &at) < 0 || uv_tcp_init(loop, &listener) < 0 ||
	    uv_tcp_bind(&listener, (struct sockaddr *)&at, 0) < 0 ||
	    uv_listen((uv_stream_t *)&listener, 16, on_connection) < 0 ||
	    uv_tcp_getsockname(&listener, (struct sockaddr *)&at, &len) < 0 ||
	    uv_signal_init(loop, &term) < 0 || uv_signal_start(&term, on_term, SIGTERM) < 0)
		return 1;
	(void)printf("%d\n", ntohs(at.sin_port));
	(void)fflush(stdout);
	r = uv_run(loop, UV_RUN_DEFAULT);
	return r || uv_loop_close(loop);
}
