/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_PRINT_PULL_PROGRESS_H
#define CAY_CLI_PRINT_PULL_PROGRESS_H
/*
 * pull-progress - a call that may pull an image, with a progress bar
 *
 * On a terminal, if the reply takes longer than PATIENCE_MS, events are read on a second
 * connection.  A failure of that connection only removes the bar.
 */
#include "cli/client/api.h"

/* As api_call(); shows the progress of the pull of this reference. */
[[nodiscard]] int pull_progress_call(struct api *a, const struct api_call *c, const char *reference,
				     void *ret, struct cay_err *err);
#endif
