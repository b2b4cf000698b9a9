/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_PRINT_TERMINAL_FILTER_H
#define CAY_CLI_PRINT_TERMINAL_FILTER_H
/*
 * terminal-filter - output of a program that has no terminal, on its way to one
 *
 * Visible text, tab, line end, carriage return, backspace and colours (SGR) pass; everything else
 * is escaped as in print.h, so the output cannot move the cursor to another line, set a title, or
 * ask the terminal a question that it would answer as if it were typed.  Bytes come in pieces of
 * any size: a character or colour that is not complete is held.
 */
#include "base/buf.h"
#include "base/str.h"

#define TERMINAL_FILTER_HELD 32

struct terminal_filter {
	char held[TERMINAL_FILTER_HELD];
	size_t n_held;
	bool coloured; /* a colour has passed since the last finish */
};

[[nodiscard]] int terminal_filter_add(struct terminal_filter *f, struct slice in, struct buf *out);
/* No more comes: append the held bytes, and switch colours off. */
[[nodiscard]] int terminal_filter_finish(struct terminal_filter *f, struct buf *out);
/* Text of several lines, whole: only tab and line end pass. */
[[nodiscard]] int print_append_lines(struct buf *out, struct slice text);
#endif
