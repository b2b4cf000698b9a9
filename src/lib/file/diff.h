/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_FILE_DIFF_H
#define CAY_FILE_DIFF_H
/*
 * diff - what changed, as a unified diff that patch(1) takes
 *
 * Lines equal at both ends are put aside; the rest is split at lines that stand
 * exactly once on both sides (patience), and what lies between those is compared
 * by Myers' algorithm as long as few lines differ.  What differs more is told as
 * removed and added whole: always right, only longer, and never slow.
 */
#include "base/buf.h"
#include "base/str.h"

/* -ENOBUFS when it does not fit ret, which then is as it was; -ENOMEM.  name is what
 * the header says; equal texts give an empty diff. */
[[nodiscard]] int diff_unified(struct slice before, struct slice after, struct slice name,
			       struct buf *ret);
#endif
