/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/pager.h"

#include <fcntl.h>
#include <signal.h>

#include "base/path.h"
#include "base/spawn.h"
#include "cli/exec/tty.h"
#include "cli/print/print.h"
#include "cli/setup/run-program.h"

#define ENV_MAX 1024

bool pager_is_needed(struct slice text, unsigned columns, unsigned rows)
{
	size_t lines = 0, width = 0;

	if (!columns || !rows)
		return false;
	for (size_t i = 0; i < text.n && lines < rows; i++) {
		width += ((unsigned char)text.p[i] & 0xc0) != 0x80;
		if (text.p[i] != '\n')
			continue;
		lines += width > 1 ? (width - 2) / columns + 1 : 1;
		width = 0;
	}
	return lines >= rows; /* one line is for the prompt */
}

/* PAGER, run by a shell, or less. */
static bool pager_choose_command(struct arena *arena, const char *ret[static 4])
{
	const char *said = getenv("PAGER"); /* NOLINT(concurrency-mt-unsafe): no threads */

	if (said && (!said[0] || str_eq(said, "cat")))
		return false;
	if (said) {
		ret[0] = "/bin/sh";
		ret[1] = "-c";
		ret[2] = said;
		return true;
	}
	ret[0] = run_program_find_path(arena, "less");
	return ret[0] != NULL;
}

/* Our environment, with defaults for less. */
static const char *const *pager_build_env(struct arena *arena)
{
	const char **env = arena_alloc(arena, ENV_MAX + 2, sizeof(*env));
	size_t n = 0;

	for (; env && environ[n] && n < ENV_MAX; n++)
		env[n] = environ[n];
	if (env && !getenv("LESS")) /* NOLINT(concurrency-mt-unsafe): no threads */
		env[n] = "LESS=FRX";
	return env;
}

/* Returns 1 if there is no pager or it cannot be started. */
static int pager_run(struct arena *arena, const struct buf *text)
{
	const char *argv[4] = {};
	auto_close int in = -EBADF, out = -EBADF;
	auto_child child = CHILD_INIT;
	struct spawn s;
	int fds[2], status;

	if (!pager_choose_command(arena, argv) || pipe2(fds, O_CLOEXEC) < 0)
		return 1;
	out = fds[0];
	in = fds[1];
	s = SPAWN_INIT(argv[0], argv);
	s.env = pager_build_env(arena);
	s.fds[0] = out;
	s.fds[1] = STDOUT_FILENO;
	s.fds[2] = STDERR_FILENO;
	s.n_fds = 3;
	/* Ctrl-C is for the pager: child_start() restores SIGINT in it */
	if (!s.env || signal(SIGINT, SIG_IGN) == SIG_ERR || child_start(&s, &child, NULL) < 0)
		return 1;
	cay_closep(&out);
	out = -EBADF;
	(void)!fd_write_all(in, text->data, text->len); /* the pager may quit early */
	cay_closep(&in);
	in = -EBADF;
	(void)child_wait(&child, &status);
	(void)signal(SIGINT, SIG_DFL);
	return 0;
}

int pager_show(const struct api *a, const struct buf *text, struct cay_err *err)
{
	auto_arena arena = ARENA_INIT(KIB(64));
	uint16_t columns = 0, rows = 0;

	if (a->no_pager || !isatty(STDOUT_FILENO) || !tty_read_size(&columns, &rows) ||
	    !pager_is_needed((struct slice){ buf_str(text), text->len }, columns, rows) ||
	    pager_run(&arena, text) > 0)
		return print_stdout(text, err);
	return 0;
}
