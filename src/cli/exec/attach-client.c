/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/attach-client.h"

#include "cli/client/websocket.h"

#define GOING_AWAY 1001
#define NOT_ALLOWED 1008

void attach_client_fini(struct attach_client *t)
{
	http_client_fini(&t->http);
	*t = ATTACH_CLIENT_INIT;
}

static int attach_client_check_accept(const struct attach_client *t, const char *key,
				      struct cay_err *err)
{
	char accept[WEBSOCKET_ACCEPT_LEN + 1];

	if (websocket_compute_accept(key, accept) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "no SHA-1");
	if (!str_eq(accept, t->http.reply_headers.accept))
		return cay_fail(err, CAY_E_MISBEHAVED, "Sec-WebSocket-Accept does not match");
	return 0;
}

int attach_client_open(struct attach_client *t, struct api *a, const struct id *sandbox,
		       const struct id *exec, const struct exec_attach_query *q,
		       struct cay_err *err)
{
	struct api_call c = { .op = OP_EXEC_ATTACH, .ids = { *sandbox, *exec }, .query = q };
	char key[WEBSOCKET_KEY_LEN + 1];
	int r = websocket_create_key(key);

	attach_client_fini(t);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "random bytes");
	t->is_websocket = dial_is_remote(&a->dial);
	c.upgrade = t->is_websocket ? "websocket" : ATTACH_UPGRADE;
	c.ws_key = t->is_websocket ? key : NULL;
	r = api_call_upgrade(a, &c, &t->http, err);
	return r < 0 || !t->is_websocket ? r : attach_client_check_accept(t, key, err);
}

static int attach_client_fail_closed(const struct attach_client *t,
				     const struct websocket_message *m, struct cay_err *err)
{
	auto_buf why = BUF_INIT(256);

	if (t->finished || m->code == GOING_AWAY || m->code == ATTACH_GONE) {
		(void)cay_fail(err, CAY_E_UNAVAILABLE, "the server closed the connection");
		return -ECONNRESET;
	}
	if (buf_append(&why, m->data.p, m->data.n) < 0)
		buf_clear(&why);
	(void)cay_fail(err, m->code == NOT_ALLOWED ? CAY_E_FORBIDDEN : CAY_E_MISBEHAVED,
		       "the connection was closed: %u %.120s", m->code, buf_str(&why));
	return m->code == NOT_ALLOWED ? -EACCES : -EPROTO;
}

static int attach_client_fail_misbehaved(struct cay_err *err)
{
	(void)cay_fail(err, CAY_E_MISBEHAVED, "received an invalid frame");
	return -EPROTO;
}

/* Handles control messages on the way to the next frame. */
static int attach_client_next_ws_frame(struct attach_client *t, struct frame *ret,
				       struct cay_err *err)
{
	for (;;) {
		const uint8_t *in = (const uint8_t *)t->http.body.data + t->at;
		struct websocket_message m;
		ssize_t n = websocket_read_message(in, t->http.body.len - t->at, &m);
		int got;

		if (n == 0)
			return 0;
		if (n < 0)
			return attach_client_fail_misbehaved(err);
		t->at += (size_t)n;
		if (m.kind == WEBSOCKET_CLOSE)
			return attach_client_fail_closed(t, &m, err);
		if (m.kind == WEBSOCKET_PING && !http_client_has_unsent(&t->http) &&
		    websocket_write_message(&t->http.out, WEBSOCKET_PONG, m.data.p, m.data.n) < 0)
			return cay_no_memory(err);
		if (m.kind != WEBSOCKET_BINARY)
			continue;
		got = attach_frame_decode(ATTACH_OUT, (const uint8_t *)m.data.p, m.data.n, ret);
		return got > 0 && (size_t)got == m.data.n ? 1 : attach_client_fail_misbehaved(err);
	}
}

static int attach_client_next_bare_frame(struct attach_client *t, struct frame *ret,
					 struct cay_err *err)
{
	int n = attach_frame_decode(ATTACH_OUT, (const uint8_t *)t->http.body.data + t->at,
				    t->http.body.len - t->at, ret);

	if (n < 0)
		return attach_client_fail_misbehaved(err);
	t->at += (size_t)n;
	return n > 0;
}

int attach_client_next_frame(struct attach_client *t, struct frame *ret, struct cay_err *err)
{
	int r = 0;

	if (t->at < t->http.body.len)
		r = t->is_websocket ? attach_client_next_ws_frame(t, ret, err)
				    : attach_client_next_bare_frame(t, ret, err);
	if (r == 0) {
		buf_consume(&t->http.body, t->at);
		t->at = 0;
	} else if (r > 0 && t->finished) {
		return attach_client_fail_misbehaved(err); /* no frame may follow an end */
	} else if (r > 0) {
		t->finished = ret->type == FRAME_END || ret->type == FRAME_ERROR;
	}
	return r;
}

int attach_client_send_frame(struct attach_client *t, const struct frame *f, struct cay_err *err)
{
	auto_buf wire = BUF_INIT(WEBSOCKET_MESSAGE_MAX);
	int r = frame_encode(f, t->is_websocket ? &wire : &t->http.out);

	if (r >= 0 && t->is_websocket)
		r = websocket_write_message(&t->http.out, WEBSOCKET_BINARY, wire.data, wire.len);
	return r < 0 ? cay_no_memory(err) : 0;
}
