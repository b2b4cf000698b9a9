/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_SETUP_RUN_PROGRAM_H
#define CAY_CLI_SETUP_RUN_PROGRAM_H
/*
 * errand - a program of this machine, run to its end
 *
 * It gets a plain PATH and what the caller names, nothing of our environment.  What
 * it writes, to both streams, is kept up to the buffer's limit; the rest is read and
 * thrown away, so that it never waits for us.  One that takes too long is killed.
 */
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#define RUN_PROGRAM_ENV_MAX 8

struct run_program {
	const char *const *argv; /* argv[0] is absolute, or a name run_program_find_path() finds */
	const char *env[RUN_PROGRAM_ENV_MAX]; /* ended by NULL */
	const char *input;                    /* to its standard input, at most 4 KiB; or NULL */
	uint64_t timeout_ms;
};

/* Where a program is: in the directories a distribution puts them.  NULL: nowhere. */
const char *run_program_find_path(struct arena *arena, const char *name);
/* Its exit status, or -errno with err told.  A status other than 0 is no failure. */
[[nodiscard]] int run_program_to_end(struct arena *arena, const struct run_program *t,
				     struct buf *out, struct cay_err *err);
#endif
