/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_REGISTRY_AUTH_H
#define CAY_CLI_CLIENT_REGISTRY_AUTH_H
/* registry-auth - credentials of a registry for one pull, from a file: no argument has them */
#include "ops/types.h"

/* The first line of a file is USER:PASSWORD; "-" is standard input.  Texts live in the arena. */
[[nodiscard]] int registry_auth_read(const char *path, struct arena *arena,
				     struct registry_auth *ret, struct cay_err *err);
#endif
