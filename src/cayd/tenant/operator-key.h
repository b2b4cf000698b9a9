/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_TENANT_OPERATOR_KEY_H
#define CAY_CAYD_TENANT_OPERATOR_KEY_H
/*
 * first - the first key of a node, in db/operator.key below paths.state
 *
 * Made when there is no key at all.  The file is there before the row: who dies in
 * between leaves a key that the next start enters, never one that nobody has.
 */
#include "cayd/core/cayd.h"

/* When the journal was read; fails when the file cannot be written. */
[[nodiscard]] int operator_key_ensure(struct cayd *c, struct cay_err *err);
#endif
