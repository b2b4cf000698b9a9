/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_EXEC_TTY_H
#define CAY_CLI_EXEC_TTY_H
/*
 * tty - set the user's terminal to raw mode and restore it
 *
 * It is restored by tty_restore(), at exit, and by signals such as SIGSEGV.
 *
 * Output of a sandbox may query the terminal (title, cursor, clipboard), and the answer
 * arrives as if it were typed.  While attached, it goes to the sandbox; tty_restore() waits
 * for outstanding answers and discards them, so that the user's shell does not run them.
 */
#include <stdint.h>

#include "base/err.h"

/* Of the terminal at stdout or stdin; false: neither is a terminal. */
bool tty_read_size(uint16_t *ret_cols, uint16_t *ret_rows);
[[nodiscard]] int tty_set_raw(struct cay_err *err);
/* After SIGCONT: the shell has changed the mode meanwhile. */
void tty_set_raw_again(void);
/* asked: the output may have contained queries. */
void tty_restore(bool asked);
#endif
