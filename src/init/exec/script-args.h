/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_SCRIPT_ARGS_H
#define CAY_INIT_EXEC_SCRIPT_ARGS_H
/*
 * script-args - a shell script that is longer than one argument may be
 *
 * Linux limits an argument to ARG_BYTES_MAX, all of them together to a quarter of the stack limit.
 * A longer script of `sh -c` is passed in several arguments, and the shell joins and evaluates
 * them after it has removed them from its parameters:
 *
 *	bash -c 'eval "shift 2; ${1}${2}"' NAME PART PART ARG...
 *
 * So $0, the parameters, standard input, the exit status and line numbers are those of the whole
 * script; messages of syntax errors say "eval" instead of "-c".
 * Pure but for memory.
 */
#include "base/err.h"
#include "base/mem.h"

#define ARG_BYTES_MAX (KIB(128) - 1)

/* Refuse an argument that is too long and no script. */
[[nodiscard]] int script_args_check(const char *const *argv, size_t n, struct cay_err *err);
/* argv itself, or a new one with its script in parts; NULL without memory.  Both end with NULL. */
[[nodiscard]] const char *const *script_args_split(const char *const *argv);
#endif
