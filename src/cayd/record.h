/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_RECORD_H
#define CAY_CAYD_RECORD_H
/* record - what the journal keeps of a sandbox, as text and back */
#include "cayd/box.h"

[[nodiscard]] int record_write(struct box *b, struct buf *out);
/* A row of the journal becomes a box of the table. */
[[nodiscard]] int record_read(struct cayd *c, const struct db_row *row, struct box **ret,
			      struct cay_err *err);
#endif
