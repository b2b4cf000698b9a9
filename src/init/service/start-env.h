/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_SERVICE_START_ENV_H
#define CAY_INIT_SERVICE_START_ENV_H
/*
 * start-env - the variables that a sourced start script exports
 *
 * The shell that sources a script writes its environment to a memfd before and after, as
 * NUL-terminated words with the word "=" between:
 *
 *	NAME=VALUE... = NAME=VALUE...
 *
 * A new or different variable becomes part of the sandbox's environment, so later
 * scripts, services and commands have it.  The shell's own variables stay its own.  The bytes are
 * untrusted: words that are no variable are skipped.
 * Bounded: START_ENV_BYTES, START_ENV_MAX variables of the sandbox.
 */
#include "base/arena.h"
#include "base/str.h"
#include "ops/field.h"

#define START_ENV_BYTES KIB(128)
#define START_ENV_MAX 512

/* An empty memfd that cannot grow beyond START_ENV_BYTES. */
[[nodiscard]] int start_env_open(void);
/* Add to env, in arena, what the script changed; -ENOMEM: it has no room. */
[[nodiscard]] int start_env_merge(struct slice said, struct arena *arena, struct field_map *env);
#endif
