/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_EXEC_TTY_H
#define CAY_CLI_EXEC_TTY_H
/*
 * tty - the terminal we are at: raw while a sandbox has it, itself again afterwards
 *
 * Restored on every way out: by tty_restore(), at exit, and by the signals that end a
 * program that has gone wrong.
 *
 * What a sandbox wrote may have asked the terminal something (its title, the cursor, the
 * clipboard), and the answer is typed, as far as any reader can tell.  While we are
 * attached it goes where the question came from; tty_restore() waits for what is still to
 * come and throws it away, so that no shell behind us runs it.
 */
#include <stdint.h>

#include "base/err.h"

/* Of the terminal at stdout or stdin; false: neither is one. */
bool tty_read_size(uint16_t *ret_cols, uint16_t *ret_rows);
[[nodiscard]] int tty_set_raw(struct cay_err *err);
/* Again, after somebody else had it. */
void tty_set_raw_again(void);
/* asked: what was written may have had questions in it. */
void tty_restore(bool asked);
#endif
