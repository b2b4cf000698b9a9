/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/terminal-filter.h"

#include "cli/print/print.h"

#define ESC '\x1b'

/* The length of the colour at p, "\x1b[1;31m"; 0: it is none; SIZE_MAX: more bytes may make it one.
 */
static size_t terminal_colour_len(const char *p, size_t n)
{
	size_t i = 2;

	if (n > 1 && p[1] != '[')
		return 0;
	while (i < n && (ascii_is_digit(p[i]) || p[i] == ';' || p[i] == ':'))
		i++;
	if (i < n)
		return p[i] == 'm' ? i + 1 : 0;
	return n < TERMINAL_FILTER_HELD ? SIZE_MAX : 0;
}

static bool terminal_passes(char c)
{
	return c == '\n' || c == '\t' || c == '\r' || c == '\b';
}

/* Append the first character or colour that is held, and drop it; 0: it is not complete. */
static int terminal_filter_take(struct terminal_filter *f, struct buf *out)
{
	size_t n = utf8_len(f->held, f->n_held);
	bool colour = f->held[0] == ESC;
	int r;

	if (colour)
		n = terminal_colour_len(f->held, f->n_held);
	else if (!n && !utf8_whole_prefix_len(f->held, f->n_held))
		n = SIZE_MAX;
	if (n == SIZE_MAX)
		return 0;
	f->coloured |= colour && n;
	r = (colour && n) || terminal_passes(f->held[0])
		    ? buf_append(out, f->held, n)
		    : print_append_escaped(out, (struct slice){ f->held, n ? n : 1 });
	n = n ? n : 1;
	f->n_held -= n;
	memmove(f->held, f->held + n, f->n_held);
	return r < 0 ? r : 1;
}

int terminal_filter_add(struct terminal_filter *f, struct slice in, struct buf *out)
{
	for (size_t i = 0; i < in.n; i++) {
		int r = 1;

		f->held[f->n_held++] = in.p[i];
		while (r > 0 && f->n_held)
			r = terminal_filter_take(f, out);
		if (r < 0)
			return r;
	}
	return 0;
}

int terminal_filter_finish(struct terminal_filter *f, struct buf *out)
{
	int r = print_append_escaped(out, (struct slice){ f->held, f->n_held });

	if (r >= 0 && f->coloured)
		r = buf_puts(out, "\x1b[m");
	*f = (struct terminal_filter){};
	return r;
}

int print_append_lines(struct buf *out, struct slice text)
{
	int r = 0;

	while (r >= 0 && text.n) {
		size_t n = 0;

		while (n < text.n && text.p[n] != '\n' && text.p[n] != '\t')
			n++;
		r = print_append_escaped(out, (struct slice){ text.p, n });
		if (r >= 0 && n < text.n)
			r = buf_putc(out, text.p[n++]);
		text = (struct slice){ text.p + n, text.n - n };
	}
	return r;
}
