/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_COMPLETION_COMPLETE_H
#define CAY_CLI_COMPLETION_COMPLETE_H
/*
 * complete - what could stand at the end of a line that somebody types
 *
 * The tables of commands and options answer, so no shell has a list of its own to fall
 * behind.  Answers are lines, "WORD\tHELP"; the line ":files" says that the shell may
 * offer files, too.  A name that came from a server is offered only when it is of letters
 * no shell gives a meaning to: what is completed will be run.
 */
#include "cli/core/command.h"

struct complete {
	const struct cmd *cmd;        /* NULL: its name is not all here yet */
	enum operand operand;         /* the last word names */
	const struct opt *choice_opt; /* or it is one of this option's choices */
	bool wants_option;            /* or an option's name */
	struct slice prefix;          /* what is in front of it in the same word: "--image=" */
	const char *word;             /* as far as it is typed */
	const char *sandbox;          /* the first operand, or NULL */
	const char *first_word;       /* without a command: the word in front, or NULL */
	const char *context;          /* that was said, or NULL */
};

/* words: all behind "cay", the last one as far as it is typed; n > 0. */
void complete_parse(const char *const *words, size_t n, struct complete *ret);
/* Add one, if it begins as the word does. */
[[nodiscard]] int complete_add_word(const struct complete *c, const char *word, const char *help,
				    struct buf *out);
/* The same of a name that a server told. */
[[nodiscard]] int complete_add_server_name(const struct complete *c, const char *name,
					   const char *behind, const char *help, struct buf *out);
/* What the tables know. */
[[nodiscard]] int complete_from_tables(const struct complete *c, struct buf *out);
/* What the server knows, and contexts. */
[[nodiscard]] int complete_from_server(struct cli *cli, const struct complete *c, struct buf *out);
#endif
