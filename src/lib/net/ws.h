/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_WS_H
#define CAY_NET_WS_H
/*
 * ws - the server's side of a WebSocket (RFC 6455), without I/O and without a clock
 *
 * ws_accept() judges the opening handshake.  After "101" a struct ws turns bytes
 * into messages and messages into bytes; the caller hands in what arrived, in any
 * pieces, and pulls events out, so back-pressure is not calling:
 *
 *	while ((r = ws_next_event(&w, &in, now_ms, &ev, &err)) > WS_MORE)
 *		...WS_TEXT, WS_BINARY, WS_PONG, WS_CLOSED...
 *	...send ws_pending_output(&w), ws_consume_output(&w, n)...
 *
 * States: open -> closing (ws_close) -> over (the peer's Close, or a broken rule).
 * Once over, what still arrives is ignored and what is in ws_pending_output() is sent before
 * the connection is closed.  A caller that waits for the peer's Close sets itself
 * a deadline.
 *
 * wslay reads and writes the frames; every rule about more than one frame is
 * here, because wslay's own event layer lets too much through (docs/adr/0024).
 * No extension is spoken.  Bounded: a message and its fragments, control frames by
 * a rate, output by out_max and one pong behind it.  Between messages a session
 * holds no memory but itself.
 *
 * Whoever has no use for where a message ends takes it in parts: each is handed out as
 * it comes, text up to the last whole letter, so a message may be as long as it likes.
 */
#include "http/http.h"

#define WS_KEY_LEN 24    /* 16 bytes of base64 */
#define WS_ACCEPT_LEN 28 /* 20 bytes of base64 */
#define WS_VERSION "13"
#define WS_PROTOCOLS_MAX 16 /* that a client may offer */

#define WS_CONTROL_MAX 125 /* payload of a control frame */
#define WS_REASON_MAX (WS_CONTROL_MAX - 2)
#define WS_PART_MAX KIB(8)       /* what wslay reads at once, and half a letter */
#define WS_OUT_MARK KIB(64)      /* more than this, or half of out_max, waiting: stop */
#define WS_OUT_LEAST 256         /* of out_max: a pong always has room below half */
#define WS_CONTROL_COST_MS 50    /* twenty control frames a second for ever */
#define WS_CONTROL_BURST_MS 5000 /* a hundred at once */

/* Close codes.  NO_STATUS is never sent: it says that the Close had none. */
enum ws_code {
	WS_NORMAL = 1000,
	WS_GOING_AWAY = 1001,
	WS_PROTOCOL = 1002,
	WS_KIND = 1003, /* text where bytes are spoken */
	WS_NO_STATUS = 1005,
	WS_NOT_TEXT = 1007,
	WS_POLICY = 1008, /* too many control frames, or what the path refuses */
	WS_TOO_BIG = 1009,
	WS_INTERNAL = 1011,
};

struct ws_answer {
	char accept[WS_ACCEPT_LEN + 1]; /* value of Sec-WebSocket-Accept */
	const char *protocol;           /* one of the list, or NULL: leave the header away */
};

/* May this request become a WebSocket?  protocols are ours, ended by NULL, or NULL
 * when none is spoken; the first the client names that is ours is taken, and a
 * client that names only others is refused.  CAY_E_INVALID, or CAY_E_UPGRADE, whose
 * reply has "Upgrade: websocket" and "Sec-WebSocket-Version: 13".  Who may connect,
 * and from which Origin, is the caller's to know. */
[[nodiscard]] int ws_accept(const struct http_head *h, const char *const *protocols,
			    struct ws_answer *ret, struct cay_err *err);

struct ws_conf {
	size_t message_max;     /* bytes of one message that comes in */
	unsigned fragments_max; /* frames of one message; in parts, empty ones in a row */
	size_t out_max;         /* bytes that wait to be sent */
	bool parts;             /* message_max says nothing then */
};

#define WS_CONF_DEFAULT \
	((struct ws_conf){ .message_max = MIB(1), .fragments_max = 1024, .out_max = MIB(1) })

enum ws_event_type { WS_MORE, WS_TEXT, WS_BINARY, WS_PONG, WS_CLOSED };
enum ws_state { WS_OPEN, WS_CLOSING, WS_OVER };

struct ws_event {
	struct slice data; /* the message, or the reason of a Close; until the next call */
	unsigned code;     /* with WS_CLOSED: the peer's, or WS_NO_STATUS */
	bool more;         /* a part, and not the last; the last one may be empty */
};

struct wslay_frame_context;

struct ws {
	struct ws_conf conf;
	enum ws_state state;
	unsigned code;                      /* that we closed with; 0 while open */
	struct wslay_frame_context *frames; /* NULL between frames */
	struct slice *in;                   /* inside ws_next_event() only */
	size_t unconsumed;                  /* bytes wslay took and has not given back */
	/* the frame that is being read */
	bool in_frame, fin;
	unsigned opcode;
	uint64_t left;
	char control[WS_CONTROL_MAX];
	size_t control_len;
	/* the message its frames make */
	unsigned kind; /* opcode of its first frame, 0 when there is none */
	unsigned fragments;
	struct buf msg;
	size_t checked; /* bytes of it known to be UTF-8 */
	size_t handed;  /* that are the caller's until the next call */
	/* control frames: what they may still cost, and the pong that waits for room */
	uint64_t seen_ms, credit_ms;
	char pong[WS_CONTROL_MAX];
	size_t pong_len;
	bool pong_waits;
	struct buf out;
};

void ws_init(struct ws *w, const struct ws_conf *conf);
void ws_fini(struct ws *w);

/* Take bytes from the front of *in up to one event; now_ms is any clock that does
 * not go back.  WS_MORE: all were taken.  After a failure the session is over and
 * its Close is in ws_pending_output(); w->code says which.  CAY_E_INVALID: the peer broke the
 * protocol; CAY_E_TOO_LARGE, CAY_E_RATE: a limit; CAY_E_NO_MEMORY: not its fault. */
[[nodiscard]] int ws_next_event(struct ws *w, struct slice *in, uint64_t now_ms,
				struct ws_event *ret, struct cay_err *err);

/* Queue a message of type WS_TEXT or WS_BINARY.  1: enough for now, go on when
 * ws_output_is_full() is false.  -EPIPE: closing or over; -ENOBUFS: no room for it, nothing
 * was queued; -EILSEQ: text that is not UTF-8; -ENOMEM. */
[[nodiscard]] int ws_send(struct ws *w, enum ws_event_type type, const void *p, size_t n);
/* Ask for a pong, to know that the peer lives. */
[[nodiscard]] int ws_ping(struct ws *w);
/* Begin to close, behind all that is queued; messages that come in from here on
 * are dropped.  A code that may be sent, a reason of UTF-8 up to WS_REASON_MAX:
 * -EINVAL when not.  -EPIPE: closing or over already; -ENOMEM. */
[[nodiscard]] int ws_close(struct ws *w, unsigned code, const char *reason);

/* What waits to be sent, and how much of it was. */
struct slice ws_pending_output(const struct ws *w);
void ws_consume_output(struct ws *w, size_t n);
bool ws_output_is_full(const struct ws *w);
/* Nothing that comes in matters any more. */
bool ws_is_over(const struct ws *w);
#endif
