/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_DIFF_H
#define CAY_FILE_DIFF_H
/* diff - unified diffs that patch(1) accepts
 *
 * Equal lines at both ends are set aside; the rest is split at lines that occur exactly once on
 * both sides (patience), and the stretches between are compared by Myers' algorithm while few lines
 * differ.  A stretch with more differences is written as removed and added whole: always correct,
 * only longer, and never slow. */
#include "base/buf.h"
#include "base/str.h"

/* -ENOBUFS if it does not fit ret, which is then unchanged; -ENOMEM. name is for the header;
 * equal texts give an empty diff. */
[[nodiscard]] int diff_unified(struct slice before, struct slice after, struct slice name,
			       struct buf *ret);
#endif
