/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SETUP_PROMPT_H
#define CAY_CLI_SETUP_PROMPT_H
/*
 * prompt - read a token or a line from the terminal, standard input or a file
 *
 * A token is never a command line argument, which every process of the machine can read, and
 * is not echoed while it is typed.
 */
#include "cli/core/command.h"

/* Where a token comes from; neither set: there is none. */
struct prompt_token_source {
	const char *file;
	bool use_stdin; /* without echo if it is a terminal */
};

[[nodiscard]] int prompt_token_read(struct cli *c, const struct prompt_token_source *from,
				    char ret[static CONTEXT_TOKEN_MAX + 1], struct cay_err *err);
/* Ask for a line, with echo; fails if it is blank. */
[[nodiscard]] int prompt_line_read(struct cli *c, const char *question, char *ret, size_t size,
				   struct cay_err *err);
#endif
