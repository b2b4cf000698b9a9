/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SCREEN_X_CLIPBOARD_H
#define CAY_INIT_SCREEN_X_CLIPBOARD_H
/*
 * x-clipboard - the clipboard: in X, a program owns it and sends its text to programs that ask
 *
 * A text that was set needs a process that stays, until another program copies something.
 */
#include "init/screen/x-property.h"

#define X_CLIPBOARD_MAX MIB(1)      /* that is read */
#define X_CLIPBOARD_SET_MAX KIB(32) /* that is set: one piece */

struct x_clipboard {
	uint32_t window, property; /* ours */
	uint32_t clipboard, utf8, incr, targets, text, plain, plain_utf8;
};

/* The text on the clipboard; empty if there is none. */
[[nodiscard]] int x_read_clipboard(struct x_conn *c, struct buf *ret, struct cay_err *err);
/* Become the owner of the clipboard. */
[[nodiscard]] int x_own_clipboard(struct x_conn *c, struct x_clipboard *b, struct cay_err *err);
/* Send the text to programs that ask, until another one is the owner. */
void x_serve_clipboard(struct x_conn *c, const struct x_clipboard *b, struct slice text);
#endif
