/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_PTY_H
#define CAY_INIT_EXEC_PTY_H
/*
 * pty - the terminal of an exec
 *
 * PID 1 has the master twice, as the exec's only output and as its input.  The slave is the
 * child's three standard streams and the controlling terminal of its session.  The sandbox's
 * devpts limits their number.
 */
#include "init/exec/exec.h"
#include "init/exec/pipes.h"

/* Set the requested terminal in an exec that has not started. */
void exec_set_pty(struct exec *exec, const struct exec_run *req);
/* Instead of exec_pipes_create(). */
[[nodiscard]] int pty_create(const struct exec *exec, struct exec_pipes *p);
/* Set the size and notify attached clients. */
[[nodiscard]] int exec_resize_pty(struct exec *exec, uint64_t cols, uint64_t rows,
				  struct cay_err *err);
#endif
