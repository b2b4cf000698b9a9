/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_EXEC_TERMINAL_H
#define CAY_CLI_EXEC_TERMINAL_H
/*
 * terminal - attach to a running command: its terminal, or its streams
 *
 * One poll loop.  Output that cannot be written is not read; unacknowledged input is held
 * (TERMINAL_HELD).  After a broken connection both directions continue by offset.  The
 * command keeps running when cay ends.
 *
 * Without a terminal, all bytes pass unchanged, and the end of standard input is passed on.
 */
#include "cli/client/api.h"
#include "cli/exec/detach-keys.h"

#define TERMINAL_HELD KIB(64)

struct terminal_spec {
	struct id sandbox, exec;
	bool tty; /* the command has a terminal */
	bool forward_stdin;
	enum exec_role role; /* if tty */
	struct detach_keys detach_keys;
};

struct terminal_result {
	struct end end;
	bool detached;
	int quit; /* 0, or the exit status after leaving before the command ended */
};

[[nodiscard]] int terminal_run(struct api *a, const struct terminal_spec *spec,
			       struct terminal_result *ret, struct cay_err *err);
#endif
