/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_RECORD_H
#define CAY_CAYD_SANDBOX_RECORD_H
/* record - what the journal keeps of a sandbox, as text and back */
#include "cayd/sandbox/sandbox.h"

/* Of a row, for what comes later: 64 labels, what is taken back, how it ended. */
#define RECORD_RESERVE KIB(48)

[[nodiscard]] int sandbox_record_write(struct sandbox *sb, struct buf *out);
/* Whether it can be written down now and whatever is said of it later: a byte of a request
 * may be six there.  -E2BIG if not. */
[[nodiscard]] int sandbox_record_check_size(struct sandbox *sb);
/* A row of the journal becomes a box of the table. */
[[nodiscard]] int sandbox_record_read(struct cayd *c, const struct db_sandbox *row,
				      struct sandbox **ret, struct cay_err *err);
#endif
