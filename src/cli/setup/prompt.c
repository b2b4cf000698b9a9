/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/setup/prompt.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <termios.h>

#include "base/path.h"
#include "cli/print/print.h"

/* A single signal ends the prompt: only the terminal must be restored. */
static int prompt_wait_input(struct interrupt *i, int fd, struct cay_err *err)
{
	struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = i->fd, .events = POLLIN } };

	if (poll(p, ARRAY_SIZE(p), -1) < 0 && errno != EINTR)
		return cay_fail_sys(err, CAY_E_INTERNAL, errno, "poll");
	interrupt_read_signals(i);
	return i->signo ? cay_fail(err, CAY_E_INVALID, "interrupted") : 0;
}

/* Read to the end of file, or of the line if it is typed. */
static int prompt_token_read_fd(struct cli *c, int fd, bool line,
				char ret[static CONTEXT_TOKEN_MAX + 1], struct cay_err *err)
{
	char text[CONTEXT_TOKEN_MAX + 64];
	size_t n = 0;
	int r = 0;

	while (r >= 0 && n < sizeof(text)) {
		ssize_t got;

		if (line)
			r = prompt_wait_input(&c->api.intr, fd, err);
		if (r < 0)
			break;
		got = read(fd, text + n, sizeof(text) - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			r = cay_fail_sys(err, CAY_E_INVALID, errno, "read the token");
		n += got > 0 ? (size_t)got : 0;
		if (got == 0 || (line && n && text[n - 1] == '\n'))
			break;
	}
	if (r >= 0)
		r = context_token_parse((struct slice){ text, n }, ret, err);
	explicit_bzero(text, sizeof(text));
	return r;
}

static int prompt_token_read_hidden(struct cli *c, char ret[static CONTEXT_TOKEN_MAX + 1],
				    struct cay_err *err)
{
	struct termios before, quiet;
	int r = interrupt_open(&c->api.intr, err);

	if (r < 0)
		return r;
	if (tcgetattr(STDIN_FILENO, &before) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "read the terminal's mode");
	quiet = before;
	quiet.c_lflag &= ~(tcflag_t)ECHO;
	/* before the prompt: TCSAFLUSH discards keys typed ahead, and echo would show it */
	if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "turn off the terminal's echo");
	(void)!write(STDERR_FILENO, "token: ", 7);
	r = prompt_token_read_fd(c, STDIN_FILENO, /* line= */ true, ret, err);
	(void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
	(void)!write(STDERR_FILENO, "\n", 1);
	return r;
}

static int prompt_token_read_file(struct cli *c, const char *path,
				  char ret[static CONTEXT_TOKEN_MAX + 1], struct cay_err *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cay_fail_sys(err, CAY_E_INVALID, errno, "open '%s'", path);
	if (S_ISREG(st.st_mode) && st.st_mode & 044)
		print_note("other users may read '%s': run 'chmod 600' on it", path);
	return prompt_token_read_fd(c, fd, /* line= */ false, ret, err);
}

int prompt_token_read(struct cli *c, const struct prompt_token_source *from,
		      char ret[static CONTEXT_TOKEN_MAX + 1], struct cay_err *err)
{
	if (from->file)
		return prompt_token_read_file(c, from->file, ret, err);
	return isatty(STDIN_FILENO)
		       ? prompt_token_read_hidden(c, ret, err)
		       : prompt_token_read_fd(c, STDIN_FILENO, /* line= */ false, ret, err);
}

int prompt_line_read(struct cli *c, const char *question, char *ret, size_t size,
		     struct cay_err *err)
{
	struct slice text = { ret, 0 };
	int r = interrupt_open(&c->api.intr, err);

	if (r >= 0 && fd_write_all(STDERR_FILENO, question, strlen(question)) < 0)
		r = cay_fail(err, CAY_E_INVALID, "cannot write the question to stderr");
	while (r >= 0 && text.n + 1 < size) {
		ssize_t n;

		r = prompt_wait_input(&c->api.intr, STDIN_FILENO, err);
		n = r < 0 ? 0 : read(STDIN_FILENO, ret + text.n, size - text.n - 1);
		if (n <= 0)
			break;
		text.n += (size_t)n;
		if (ret[text.n - 1] == '\n') {
			text.n--;
			break;
		}
	}
	if (r < 0)
		return r;
	text = slice_trim(text);
	if (!text.n)
		return cay_fail(err, CAY_E_INVALID, "the answer is empty");
	memmove(ret, text.p, text.n);
	ret[text.n] = 0;
	return 0;
}
