/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_NET_WS_H
#define CAY_NET_WS_H
/*
 * ws - the server side of a WebSocket (RFC 6455), without I/O and without a clock
 *
 * ws_accept() checks the opening handshake.  After the 101 a struct ws turns bytes into
 * messages and messages into bytes.  The caller passes input in any pieces and pulls events
 * out; not calling is back-pressure:
 *
 *	while ((r = ws_next_event(&w, &in, now_ms, &ev, &err)) > WS_MORE)
 *		...WS_TEXT, WS_BINARY, WS_PONG, WS_CLOSED...
 *	...send ws_pending_output(&w), ws_consume_output(&w, n)...
 *
 * States: open -> closing (ws_close) -> over (the peer's Close, or a protocol error).  Once
 * over, input is ignored, and ws_pending_output() is sent before the connection is closed.  A
 * caller that waits for the peer's Close sets its own deadline.
 *
 * wslay reads and writes frames; every rule about more than one frame is here, because wslay's
 * own event layer is too lenient (docs/adr/0024).  No extensions.  Bounded: a message and its
 * fragments, control frames by a rate, output by out_max and one pong after it.  Between
 * messages a session holds no memory but itself.
 *
 * With `parts`, a message is returned in parts as it arrives, text up to the last whole
 * character, so a message may have any length.
 */
#include "http/http.h"

#define WS_KEY_LEN 24    /* 16 bytes of base64 */
#define WS_ACCEPT_LEN 28 /* 20 bytes of base64 */
#define WS_VERSION "13"
#define WS_PROTOCOLS_MAX 16 /* offered by a client */

#define WS_CONTROL_MAX 125 /* payload of a control frame */
#define WS_REASON_MAX (WS_CONTROL_MAX - 2)
#define WS_PART_MAX KIB(8)       /* one read of wslay, and half a character */
#define WS_OUT_MARK KIB(64)      /* stop when more than this, or half of out_max, is queued */
#define WS_OUT_LEAST 256         /* of out_max: a pong always fits below half */
#define WS_CONTROL_COST_MS 50    /* twenty control frames a second in the long run */
#define WS_CONTROL_BURST_MS 5000 /* a hundred at once */

/* Close codes.  NO_STATUS is never sent: the peer's Close had no code. */
enum ws_code {
	WS_NORMAL = 1000,
	WS_GOING_AWAY = 1001,
	WS_PROTOCOL = 1002,
	WS_KIND = 1003, /* text where binary is expected */
	WS_NO_STATUS = 1005,
	WS_NOT_TEXT = 1007,
	WS_POLICY = 1008, /* too many control frames, or refused by the path */
	WS_TOO_BIG = 1009,
	WS_INTERNAL = 1011,
};

struct ws_answer {
	char accept[WS_ACCEPT_LEN + 1]; /* value of Sec-WebSocket-Accept */
	const char *protocol;           /* one of the list, or NULL: omit the header */
};

/* Check a handshake.  protocols are ours, ended by NULL, or NULL when there are none; the first one
 * the client offers that is ours is chosen, and a client that offers only others is refused.
 * CAY_E_INVALID, or CAY_E_UPGRADE, whose reply needs "Upgrade: websocket" and
 * "Sec-WebSocket-Version: 13".  Credentials and Origin are the caller's to check. */
[[nodiscard]] int ws_accept(const struct http_head *h, const char *const *protocols,
			    struct ws_answer *ret, struct cay_err *err);

struct ws_conf {
	size_t message_max;     /* bytes of an incoming message */
	unsigned fragments_max; /* frames of a message; with parts, empty ones in a row */
	size_t out_max;         /* bytes queued for sending */
	bool parts;             /* return messages in parts; message_max is ignored */
};

#define WS_CONF_DEFAULT \
	((struct ws_conf){ .message_max = MIB(1), .fragments_max = 1024, .out_max = MIB(1) })

enum ws_event_type { WS_MORE, WS_TEXT, WS_BINARY, WS_PONG, WS_CLOSED };
enum ws_state { WS_OPEN, WS_CLOSING, WS_OVER };

struct ws_event {
	struct slice data; /* the message, or the reason of a Close; valid until the next call */
	unsigned code;     /* with WS_CLOSED: the peer's code, or WS_NO_STATUS */
	bool more;         /* a part, not the last; the last may be empty */
};

struct wslay_frame_context;

struct ws {
	struct ws_conf conf;
	enum ws_state state;
	unsigned code;                      /* our close code; 0 while open */
	struct wslay_frame_context *frames; /* NULL between frames */
	struct slice *in;                   /* only inside ws_next_event() */
	size_t unconsumed;                  /* bytes wslay has read and not returned */
	/* the current frame */
	bool in_frame, fin;
	unsigned opcode;
	uint64_t left;
	char control[WS_CONTROL_MAX];
	size_t control_len;
	/* the current message */
	unsigned kind; /* opcode of its first frame, 0: no message */
	unsigned fragments;
	struct buf msg;
	size_t checked; /* bytes verified as UTF-8 */
	size_t handed;  /* bytes returned to the caller, valid until the next call */
	/* rate of control frames, and a pong that waits for room */
	uint64_t seen_ms, credit_ms;
	char pong[WS_CONTROL_MAX];
	size_t pong_len;
	bool pong_waits;
	struct buf out;
};

void ws_init(struct ws *w, const struct ws_conf *conf);
void ws_fini(struct ws *w);

/* Consume *in up to one event; now_ms is any monotonic clock.  WS_MORE: all was consumed.  After a
 * failure the session is over, its Close is in ws_pending_output() and w->code is set.
 * CAY_E_INVALID: a protocol error; CAY_E_TOO_LARGE, CAY_E_RATE: a limit; CAY_E_NO_MEMORY. */
[[nodiscard]] int ws_next_event(struct ws *w, struct slice *in, uint64_t now_ms,
				struct ws_event *ret, struct cay_err *err);

/* Queue a WS_TEXT or WS_BINARY message.  1: queued, but stop until ws_output_is_full() is false.
 * -EPIPE: closing or over; -ENOBUFS: no room, nothing queued; -EILSEQ: not UTF-8; -ENOMEM. */
[[nodiscard]] int ws_send(struct ws *w, enum ws_event_type type, const void *p, size_t n);
/* Send a ping, to check that the peer responds. */
[[nodiscard]] int ws_ping(struct ws *w);
/* Begin to close, after all queued output; later messages are dropped.  -EINVAL: the code may not
 * be sent, or the reason is not UTF-8 of up to WS_REASON_MAX.  -EPIPE: not open; -ENOMEM. */
[[nodiscard]] int ws_close(struct ws *w, unsigned code, const char *reason);

/* Output to send; consume what was sent. */
struct slice ws_pending_output(const struct ws *w);
void ws_consume_output(struct ws *w, size_t n);
bool ws_output_is_full(const struct ws *w);
/* Input is ignored from here on. */
bool ws_is_over(const struct ws *w);
#endif
