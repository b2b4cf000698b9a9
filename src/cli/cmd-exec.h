/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CMD_EXEC_H
#define CAY_CLI_CMD_EXEC_H
/* cmd-exec - the options of exec, which run has too, and running by them */
#include "cli/cmd.h"

struct exec_args {
	struct exec_run request;
	bool interactive;
};

extern const struct opt opts_exec[5];

/* Run the words behind "--" in a sandbox: the exit status, or -errno. */
[[nodiscard]] int exec_foreground(struct cli *c, const struct id *sandbox,
				  const struct exec_args *a, const struct opt_words *w,
				  struct cay_err *err);
#endif
