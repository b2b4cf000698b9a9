/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SCREEN_X_CONN_H
#define CAY_INIT_SCREEN_X_CONN_H
/*
 * x-conn - a connection to the X server of the sandbox, by the X11 protocol itself
 *
 * The server is a program of the sandbox, and may be another one than it seems: whatever it sends
 * is checked here and in the other x-*.c, and no reply may be larger than its request allows. Calls
 * block, for X_PATIENCE_S at most while nothing arrives; the process is a child (child-op.h).
 *
 * Bounded: one reply of X_REPLY_MAX bytes, and what x-keyboard.h and picture.h say.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define X_REPLY_MAX MIB(64)
#define X_PATIENCE_S 5
#define X_WAIT_MS 10000 /* for a server that is starting */

struct x_conn {
	int in, out; /* one socket; the fuzzer has two files */
	uint16_t last_request;
	uint16_t max_request; /* in units of four bytes */
	struct buf reply;     /* the last one, with its head of 32 bytes */
	/* of the first screen */
	uint32_t root, id_base, id_mask;
	uint16_t width, height;
	uint8_t red, green, blue; /* shifts of a pixel of 32 bits */
	uint8_t min_keycode, max_keycode;
	/* opcodes; 0: the server has no such extension */
	uint8_t xtest, xfixes, damage;
};

#define X_CONN_INIT ((struct x_conn){ .in = -EBADF, .out = -EBADF, .reply = BUF_INIT(X_REPLY_MAX) })
#define auto_x_conn CAY_CLEANUP(x_conn_fini) struct x_conn

void x_conn_fini(struct x_conn *c);
/* Connect to the display that the environment names; wait for it if it is starting.
 * CAY_E_UNSUPPORTED: there is none. */
[[nodiscard]] int x_conn_open(struct x_conn *c, bool is_starting, struct cay_err *err);
/* Greet a server on in and out.  cookie: its authority, or empty. */
[[nodiscard]] int x_conn_greet(struct x_conn *c, struct slice cookie, struct cay_err *err);
/* The cookie for the display among the entries of an authority file; empty if there is none. */
struct slice x_authority_find(struct slice file, unsigned display);
/* The number of a display on this machine: ":0", ":0.0", "unix:0". */
[[nodiscard]] int x_display_parse(const char *text, unsigned *ret);

/* Send a request of n bytes, a multiple of four; its length is filled in. */
[[nodiscard]] int x_send(struct x_conn *c, uint8_t *request, size_t n, struct cay_err *err);
/* Wait for the reply to the last request: of at least min bytes with its head, at most max.
 * -ENOENT: the server refused the request, and err is not set. */
[[nodiscard]] int x_receive(struct x_conn *c, size_t min, size_t max, struct cay_err *err);
[[nodiscard]] int x_ask(struct x_conn *c, uint8_t *request, size_t n, size_t min, size_t max,
			struct cay_err *err);
/* The same where a refusal is an error. */
[[nodiscard]] int x_require(struct x_conn *c, uint8_t *request, size_t n, size_t min, size_t max,
			    struct cay_err *err);
/* Wait until the server has done everything that was sent. */
[[nodiscard]] int x_sync(struct x_conn *c, struct cay_err *err);
/* Wait up to ms for an event: 1 and its 32 bytes, or 0. */
[[nodiscard]] int x_wait_event(struct x_conn *c, uint64_t ms, uint8_t ret[static 32],
			       struct cay_err *err);
/* Bytes of the last reply. */
static inline const uint8_t *x_reply(const struct x_conn *c)
{
	return (const uint8_t *)c->reply.data;
}
/* Record that the server broke the protocol. */
int x_fail(struct cay_err *err, const char *what);
#endif
