/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/exec/tty.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define ANSWER_MS 1000 /* for a terminal on a slow connection */
#define ANSWERS_MAX 30 /* times ANSWER_MS, while answers keep arriving */
#define ASK_MAX 96

/* Global because a signal handler has no arguments. */
static struct termios before, raw;
static volatile sig_atomic_t is_raw;

static const int tty_fatal_signals[] = {
	SIGSEGV, SIGBUS, SIGABRT, SIGILL, SIGFPE, SIGTRAP, SIGSYS
};

bool tty_read_size(uint16_t *ret_cols, uint16_t *ret_rows)
{
	struct winsize w = {};

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) < 0 && ioctl(STDIN_FILENO, TIOCGWINSZ, &w) < 0)
		return false;
	if (!w.ws_col || !w.ws_row)
		return false;
	*ret_cols = w.ws_col;
	*ret_rows = w.ws_row;
	return true;
}

static void tty_reset_mode(void)
{
	if (is_raw)
		(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
	is_raw = false;
}

static void on_tty_fatal_signal(int sig)
{
	tty_reset_mode();
	(void)raise(sig);
}

int tty_set_raw(struct cay_err *err)
{
	struct sigaction sa = { .sa_handler = on_tty_fatal_signal, .sa_flags = (int)SA_RESETHAND };

	if (tcgetattr(STDIN_FILENO, &before) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "read the terminal's mode");
	raw = before;
	cfmakeraw(&raw);
	for (size_t i = 0; i < ARRAY_SIZE(tty_fatal_signals); i++)
		(void)sigaction(tty_fatal_signals[i], &sa, NULL);
	(void)atexit(tty_reset_mode);
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "set the terminal to raw mode");
	is_raw = true;
	return 0;
}

void tty_set_raw_again(void)
{
	if (is_raw)
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

/* Ask for the cursor's position at two random places.  The output cannot have predicted them, so a
 * terminal that reports both has answered all earlier queries.  Returns the answer's length. */
static size_t tty_format_cursor_query(char question[static ASK_MAX], char answer[static ASK_MAX])
{
	uint16_t cols = 80, rows = 24;
	unsigned at[4];
	int n, m;

	(void)tty_read_size(&cols, &rows);
	if (getrandom(at, sizeof(at), 0) != (ssize_t)sizeof(at))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(at); i++)
		at[i] = at[i] % (i % 2 ? cols : rows) + 1;
	n = snprintf(question, ASK_MAX,
		     "\x1b\x37\x1b[?6l\x1b[r\x1b[%u;%uH\x1b[6n\x1b[%u;%uH\x1b[6n\x1b\x38", at[0],
		     at[1], at[2], at[3]);
	m = snprintf(answer, ASK_MAX, "\x1b[%u;%uR\x1b[%u;%uR", at[0], at[1], at[2], at[3]);
	return n > 0 && n < ASK_MAX && m > 0 && m < ASK_MAX ? (size_t)m : 0;
}

/* Many queries have many answers: wait as long as they keep arriving, up to ANSWERS_MAX. */
static void tty_drain_answers(void)
{
	uint64_t now = clk_boot_ns(&clk_system), until = now + ANSWER_MS * NS_PER_MS;
	uint64_t last = now + (uint64_t)ANSWERS_MAX * ANSWER_MS * NS_PER_MS;
	char question[ASK_MAX], answer[ASK_MAX], bytes[KIB(4)];
	size_t want = tty_format_cursor_query(question, answer), seen = 0;

	if (!want || write(STDOUT_FILENO, question, strlen(question)) < 0)
		return;
	while (seen < want && (now = clk_boot_ns(&clk_system)) < until) {
		struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
		ssize_t n;

		if (poll(&p, 1, (int)((until - now) / NS_PER_MS) + 1) <= 0)
			continue;
		n = read(STDIN_FILENO, bytes, sizeof(bytes));
		if (n <= 0)
			return;
		until = clk_boot_ns(&clk_system) + ANSWER_MS * NS_PER_MS;
		until = until < last ? until : last;
		for (ssize_t i = 0; i < n && seen < want; i++)
			seen = bytes[i] == answer[seen] ? seen + 1 : bytes[i] == answer[0];
	}
}

void tty_restore(bool asked)
{
	/* modes a program may have left on: mouse, bracketed paste, hidden cursor, colours */
	static const char calm[] = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l"
				   "\x1b[?25h\x1b[m";

	if (!is_raw)
		return;
	if (asked && isatty(STDOUT_FILENO) && write(STDOUT_FILENO, calm, sizeof(calm) - 1) > 0)
		tty_drain_answers();
	tty_reset_mode();
}
