/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EDGE_PREVIEW_H
#define CAY_CAYD_EDGE_PREVIEW_H
/*
 * preview - a URL that shows a port of a sandbox (auth/preview.h)
 *
 * The URL is valid whether or not a process listens at the port.  PID 1 is asked, and has
 * PREVIEW_PROBE_MS to reply; without a reply the preview does not say.
 */
#include "cayd/core/cayd.h"

#define PREVIEW_PROBE_MS 1000

[[nodiscard]] int previews_open(struct cayd *c, struct cay_err *err);
#endif
