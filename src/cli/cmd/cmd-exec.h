/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CMD_CMD_EXEC_H
#define CAY_CLI_CMD_CMD_EXEC_H
/* cmd-exec - the options of exec, which run has too, and running by them */
#include "cli/core/command.h"

struct terminal_spec;

struct exec_args {
	struct exec_run request;
	bool interactive, tty;
	const char *keys; /* that leave a terminal, or NULL */
};

extern const struct opt opts_exec[7];

/* The one of --detach-keys, which attach and shell have too. */
#define OPT_DETACH_KEYS(at) \
	{ "detach-keys", \
	  0, \
	  OPT_TEXT, \
	  at, \
	  .arg = "KEYS", \
	  .help = "Keys that leave the terminal, as in 'ctrl-],d'; '' for none. By default " \
		  "ctrl-p,ctrl-q" }

/* Run it with a terminal and be at it: the exit status, or -errno. */
[[nodiscard]] int exec_run_terminal(struct cli *c, const struct id *sandbox,
				    struct exec_run *request, bool feed, const char *keys,
				    struct cay_err *err);

/* Be attached to it. */
[[nodiscard]] int exec_attach_foreground(struct cli *c, const struct terminal_spec *spec,
					 struct cay_err *err);
/* Run the words behind "--" in a sandbox: the exit status, or -errno. */
[[nodiscard]] int exec_run_foreground(struct cli *c, const struct id *sandbox,
				      const struct exec_args *a, const struct opt_words *w,
				      struct cay_err *err);
#endif
