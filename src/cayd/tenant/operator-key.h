/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TENANT_OPERATOR_KEY_H
#define CAY_CAYD_TENANT_OPERATOR_KEY_H
/*
 * operator-key - the first key of a node, in db/operator.key below paths.state
 *
 * Created when the node has no key.  The file is written before the row: after a crash in
 * between the next start adds that key, and there is never a key that no file has.
 */
#include "cayd/core/cayd.h"

/* After recovery; fails when the file cannot be written. */
[[nodiscard]] int operator_key_ensure(struct cayd *c, struct cay_err *err);
#endif
