/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_PTY_H
#define CAY_INIT_EXEC_PTY_H
/*
 * term - the terminal of an exec that asked for one
 *
 * PID 1 has the master, twice: what it reads is the exec's only output, what it writes
 * the input.  The slave is the child's three standard streams and controls its session.
 * The sandbox's devpts says how many there are at the most.
 */
#include "init/exec/exec.h"
#include "init/exec/pipes.h"

[[nodiscard]] int pty_check_request(const struct exec_run *req, struct cay_err *err);
/* What was asked for, into a job that has not started. */
void exec_set_pty(struct exec *exec, const struct exec_run *req);
/* In the place of exec_pipes_create(). */
[[nodiscard]] int pty_create(const struct exec *exec, struct exec_pipes *p);
/* The size, and whoever is attached is told. */
[[nodiscard]] int exec_resize_pty(struct exec *exec, uint64_t cols, uint64_t rows,
				  struct cay_err *err);
#endif
