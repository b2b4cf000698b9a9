/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/talk.h"

#include "cli/wsc.h"

#define GOING_AWAY 1001
#define NOT_ALLOWED 1008

void talk_fini(struct talk *t)
{
	http_fini(&t->http);
	*t = TALK_INIT;
}

static int check_answer(const struct talk *t, const char *key, struct cay_err *err)
{
	char accept[WSC_ACCEPT_LEN + 1];

	if (t->ws && wsc_accept(key, accept) < 0)
		return cay_fail(err, CAY_E_INTERNAL, "no SHA-1");
	if (t->ws ? !str_eq(accept, t->http.kept.accept)
		  : !str_eq(t->http.kept.upgrade, ATTACH_UPGRADE))
		return cay_fail(err, CAY_E_MISBEHAVED, "the reply is no answer to this upgrade");
	return 0;
}

int talk_open(struct talk *t, struct api *a, const struct id *sandbox, const struct id *exec,
	      const struct exec_attach_query *q, struct cay_err *err)
{
	struct api_call c = { .op = OP_EXEC_ATTACH, .ids = { *sandbox, *exec }, .query = q };
	char key[WSC_KEY_LEN + 1];
	int r = wsc_key(key);

	talk_fini(t);
	if (r < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, -r, "random bytes");
	t->ws = dial_far(&a->to);
	c.upgrade = t->ws ? "websocket" : ATTACH_UPGRADE;
	c.ws_key = t->ws ? key : NULL;
	r = api_open(a, &c, &t->http, err);
	if (r >= 0)
		r = api_head(a, c.op, &t->http, err);
	if (r >= 0 && !t->http.upgraded) {
		r = api_finish(a, c.op, &t->http, NULL, err);
		if (r >= 0)
			r = cay_fail(err, CAY_E_MISBEHAVED, "the reply is no upgrade");
	}
	return r < 0 ? r : check_answer(t, key, err);
}

static int closed(const struct talk *t, const struct wsc_message *m, struct cay_err *err)
{
	auto_buf why = BUF_INIT(256);

	if (t->over || m->code == GOING_AWAY || m->code == ATTACH_GONE) {
		(void)cay_fail(err, CAY_E_UNAVAILABLE, "the other side closed the connection");
		return -ECONNRESET;
	}
	if (buf_add(&why, m->data.p, m->data.n) < 0)
		buf_clear(&why);
	(void)cay_fail(err, m->code == NOT_ALLOWED ? CAY_E_FORBIDDEN : CAY_E_MISBEHAVED,
		       "the connection was closed: %u %.120s", m->code, buf_str(&why));
	return m->code == NOT_ALLOWED ? -EACCES : -EPROTO;
}

static int misbehaved(struct cay_err *err)
{
	(void)cay_fail(err, CAY_E_MISBEHAVED, "what came is no frame");
	return -EPROTO;
}

/* A WebSocket's next frame; control messages are seen to. */
static int next_message(struct talk *t, struct frame *ret, struct cay_err *err)
{
	for (;;) {
		const uint8_t *in = (const uint8_t *)t->http.body.data + t->at;
		struct wsc_message m;
		ssize_t n = wsc_next(in, t->http.body.len - t->at, &m);
		int got;

		if (n == 0)
			return 0;
		if (n < 0)
			return misbehaved(err);
		t->at += (size_t)n;
		if (m.kind == WSC_CLOSE)
			return closed(t, &m, err);
		if (m.kind == WSC_PING && !http_sending(&t->http) &&
		    wsc_put(&t->http.out, WSC_PONG, m.data.p, m.data.n) < 0)
			return cay_fail(err, CAY_E_NO_MEMORY, "no memory");
		if (m.kind != WSC_BINARY)
			continue;
		got = attach_cut(ATTACH_OUT, (const uint8_t *)m.data.p, m.data.n, ret);
		return got > 0 && (size_t)got == m.data.n ? 1 : misbehaved(err);
	}
}

static int next_frame(struct talk *t, struct frame *ret, struct cay_err *err)
{
	int n = attach_cut(ATTACH_OUT, (const uint8_t *)t->http.body.data + t->at,
			   t->http.body.len - t->at, ret);

	if (n < 0)
		return misbehaved(err);
	t->at += (size_t)n;
	return n > 0;
}

int talk_next(struct talk *t, struct frame *ret, struct cay_err *err)
{
	int r = 0;

	if (t->at < t->http.body.len)
		r = t->ws ? next_message(t, ret, err) : next_frame(t, ret, err);
	if (r == 0) {
		buf_consume(&t->http.body, t->at);
		t->at = 0;
	} else if (r > 0 && t->over) {
		return misbehaved(err); /* nothing follows an end */
	} else if (r > 0) {
		t->over = ret->type == FRAME_END || ret->type == FRAME_ERROR;
	}
	return r;
}

int talk_send(struct talk *t, const struct frame *f, struct cay_err *err)
{
	auto_buf wire = BUF_INIT(WSC_MESSAGE_MAX);
	int r = frame_encode(f, t->ws ? &wire : &t->http.out);

	if (r >= 0 && t->ws)
		r = wsc_put(&t->http.out, WSC_BINARY, wire.data, wire.len);
	return r < 0 ? cay_fail(err, CAY_E_NO_MEMORY, "no memory for a frame") : 0;
}
