/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_PRINT_REASON_H
#define CAY_CLI_PRINT_REASON_H
/* reason - why a sandbox ended: words and advice from reasons.def */
#include "base/buf.h"
#include "ops/types.h"

struct reason {
	const char *words;
	const char *advice;
};

extern const struct reason reasons[END_NUM_REASONS];

/* "exit 3: its entrypoint ended", not escaped. */
[[nodiscard]] int reason_format_line(const struct end *end, struct buf *out);
#endif
