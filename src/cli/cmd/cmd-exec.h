/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CMD_CMD_EXEC_H
#define CAY_CLI_CMD_CMD_EXEC_H
/* cmd-exec - the options of exec, shared with run, and running a command with them */
#include "cli/core/command.h"

struct terminal_spec;

struct exec_args {
	struct exec_run request;
	bool interactive, tty;
	const char *keys; /* --detach-keys, or NULL */
};

extern const struct opt opts_exec[7];
#define OPTS_EXEC_PROCESS { .rows = opts_exec, .n = 3 } /* user, workdir and setenv only */

/* --detach-keys, shared with attach and shell. */
#define OPT_DETACH_KEYS(at) \
	{ "detach-keys", \
	  0, \
	  OPT_TEXT, \
	  at, \
	  .arg = "KEYS", \
	  .help = "Keys that detach, e.g. 'ctrl-],d'; '' for none. By default ctrl-p,ctrl-q" }

/* Run a command with a terminal, attached: returns its exit status, or -errno. */
[[nodiscard]] int exec_run_terminal(struct cli *c, const struct id *sandbox,
				    struct exec_run *request, bool feed, const char *keys,
				    struct cay_err *err);

/* Attach to a running exec; returns its exit status, or -errno. */
[[nodiscard]] int exec_attach_foreground(struct cli *c, const struct terminal_spec *spec,
					 struct cay_err *err);
/* Run the words after "--" in a sandbox: returns the exit status, or -errno. */
[[nodiscard]] int exec_run_foreground(struct cli *c, const struct id *sandbox,
				      const struct exec_args *a, const struct opt_words *w,
				      struct cay_err *err);
#endif
