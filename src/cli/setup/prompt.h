/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SETUP_PROMPT_H
#define CAY_CLI_SETUP_PROMPT_H
/*
 * ask - what a person types, or a file has: a server's address, a token
 *
 * A token never stands on a command line, where every process of the machine reads it, and
 * is not shown while it is typed.
 */
#include "cli/core/command.h"

/* Where a token comes from; neither: it is not asked for. */
struct prompt_token_source {
	const char *file;
	bool use_stdin; /* standard input; without an echo, when that is a terminal */
};

[[nodiscard]] int prompt_token_read(struct cli *c, const struct prompt_token_source *from,
				    char ret[static CONTEXT_TOKEN_MAX + 1], struct cay_err *err);
/* A line that is shown; nothing but spaces is no answer. */
[[nodiscard]] int prompt_line_read(struct cli *c, const char *question, char *ret, size_t size,
				   struct cay_err *err);
#endif
