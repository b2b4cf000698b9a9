/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SETUP_RUN_PROGRAM_H
#define CAY_CLI_SETUP_RUN_PROGRAM_H
/*
 * run-program - run a program of this machine to its end
 *
 * Its environment is a plain PATH.  Its output, both streams, is kept up to the buffer's
 * limit; the rest is read and dropped, so that it never blocks.  It is killed at the timeout.
 */
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

/* Search the usual directories of distributions.  NULL: not found. */
const char *run_program_find_path(struct arena *arena, const char *name);
/* argv[0] is absolute, or a name run_program_find_path() finds; input: at most 4 KiB, or NULL.
 * Returns its exit status (any status is a success), or -errno with err. */
[[nodiscard]] int run_program_to_end(struct arena *arena, const char *const *argv,
				     const char *input, uint64_t timeout_ms, struct buf *out,
				     struct cay_err *err);

struct run_program_output {
	struct buf kept; /* its end; the beginning is dropped when it is full */
	void (*on_output)(void *arg, const char *p, size_t n);
	void *arg;
};
/* The same without input, for a program that takes long: each part of its output is passed on
 * as it comes. */
[[nodiscard]] int run_program_watched(struct arena *arena, const char *const *argv,
				      uint64_t timeout_ms, struct run_program_output *out,
				      struct cay_err *err);
#endif
