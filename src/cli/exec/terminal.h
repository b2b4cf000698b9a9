/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_EXEC_TERMINAL_H
#define CAY_CLI_EXEC_TERMINAL_H
/*
 * terminal - be attached to a command that runs: its terminal, or its streams
 *
 * One poll loop.  Output that cannot be written is not read, input that was not taken is
 * held (TERMINAL_HELD) and sent again when the connection broke; it comes back by offset in both
 * directions.  The command outlives us whatever happens here.
 *
 * Without a terminal all is binary-clean, and the end of our standard input is the end of
 * its.
 */
#include "cli/client/api.h"
#include "cli/exec/detach-keys.h"

#define TERMINAL_HELD KIB(64)

struct terminal_spec {
	struct id sandbox, exec;
	bool tty;                       /* it has one */
	bool forward_stdin;             /* our standard input goes in */
	enum exec_role role;            /* of a terminal */
	struct detach_keys detach_keys; /* that leave it */
};

struct terminal_result {
	struct end end;
	bool detached;
	int quit; /* 0, or the exit status of who left before the command ended */
};

[[nodiscard]] int terminal_run(struct api *a, const struct terminal_spec *spec,
			       struct terminal_result *ret, struct cay_err *err);
#endif
