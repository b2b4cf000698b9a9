/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_TERM_H
#define CAY_INIT_TERM_H
/*
 * term - the terminal of an exec that asked for one
 *
 * PID 1 has the master, twice: what it reads is the exec's only output, what it writes
 * the input.  The slave is the child's three standard streams and controls its session.
 * The sandbox's devpts says how many there are at the most.
 */
#include "init/job.h"
#include "init/pipes.h"

[[nodiscard]] int term_check(const struct exec_run *req, struct cay_err *err);
/* What was asked for, into a job that has not started. */
void term_set(struct job *j, const struct exec_run *req);
/* In the place of pipes_make(). */
[[nodiscard]] int term_make(const struct job *j, struct pipes *p);
/* The size, and whoever is attached is told. */
[[nodiscard]] int term_resize(struct job *j, uint64_t cols, uint64_t rows, struct cay_err *err);
#endif
