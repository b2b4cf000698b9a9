/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EDGE_PREVIEW_H
#define CAY_CAYD_EDGE_PREVIEW_H
/*
 * preview - a URL that shows a port of a sandbox (auth/preview.h)
 *
 * It is good whether anybody listens there or not: PID 1 is asked, and has PREVIEW_LOOK_MS
 * to say so.  Who does not say is not waited for.
 */
#include "cayd/core/cayd.h"

#define PREVIEW_PROBE_MS 1000

[[nodiscard]] int previews_open(struct cayd *c, struct cay_err *err);
/* The operation. */
void op_sandbox_preview(struct cayd *c, struct request *rq);
#endif
