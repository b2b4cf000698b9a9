/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_RECORD_H
#define CAY_CAYD_SANDBOX_RECORD_H
/* record - a sandbox as a row of the journal */
#include "cayd/sandbox/sandbox.h"

/* Kept free in a new row for later changes: 64 labels, revoked tokens, the end. */
#define RECORD_RESERVE KIB(48)

[[nodiscard]] int sandbox_record_write(struct sandbox *sb, struct buf *out);
/* Whether its row fits, now and after later changes; JSON may take six bytes for one. -E2BIG if
 * not. */
[[nodiscard]] int sandbox_record_check_size(struct sandbox *sb);
[[nodiscard]] int sandbox_record_read(struct cayd *c, const struct db_sandbox *row,
				      struct sandbox **ret, struct cay_err *err);
#endif
