/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_COMPLETION_COMPLETE_H
#define CAY_CLI_COMPLETION_COMPLETE_H
/*
 * complete - completions of the last word of a command line
 *
 * Completions come from the tables of commands and options, so the shell scripts hold no
 * lists.  Output is lines of "WORD\tHELP"; the line ":files" tells the shell to add file
 * names.  A name from a server is offered only if it has no character that is special to a
 * shell: the completed line will be run.
 */
#include "cli/core/command.h"

struct complete {
	const struct cmd *cmd;        /* NULL: its name is incomplete */
	enum operand operand;         /* kind of the last word */
	const struct opt *choice_opt; /* or: it is a choice of this option */
	bool wants_option;            /* or: it is the name of an option */
	struct slice prefix;          /* text before it in the same word: "--image=" */
	const char *word;             /* the typed part */
	const char *sandbox;          /* the first operand, or NULL */
	const char *first_word;       /* without a command: the word before it, or NULL */
	const char *context;          /* of --context, or NULL */
};

/* words: all after "cay", the last one incomplete; n > 0. */
void complete_parse(const char *const *words, size_t n, struct complete *ret);
/* Add a completion if it begins with the typed word. */
[[nodiscard]] int complete_add_word(const struct complete *c, const char *word, const char *help,
				    struct buf *out);
/* The same for a name from the server. */
[[nodiscard]] int complete_add_server_name(const struct complete *c, const char *name,
					   const char *behind, const char *help, struct buf *out);
/* Completions from the tables. */
[[nodiscard]] int complete_from_tables(const struct complete *c, struct buf *out);
/* Completions from the server, and contexts. */
[[nodiscard]] int complete_from_server(struct cli *cli, const struct complete *c, struct buf *out);
#endif
