/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_PRINT_PULL_PROGRESS_H
#define CAY_CLI_PRINT_PULL_PROGRESS_H
/*
 * watch - a call that may wait for an image, with a bar while it does
 *
 * On a terminal, and when the answer is not here at once, events are followed on a
 * second connection until it is.  A bar that cannot be had is none: only the call counts.
 */
#include "cli/client/api.h"

/* As api_call(); of the pulls that are told of, this reference's is shown. */
[[nodiscard]] int pull_progress_call(struct api *a, const struct api_call *c, const char *reference,
				     void *ret, struct cay_err *err);
#endif
