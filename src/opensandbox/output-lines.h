/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPENSANDBOX_OUTPUT_LINES_H
#define CAY_OPENSANDBOX_OUTPUT_LINES_H
/*
 * output-lines - cut output into lines as it arrives
 *
 * A line ends at LF, CR or CR LF, which it does not contain.  One longer than OUTPUT_LINES_MAX is
 * cut where no character of UTF-8 is.
 */
#include "base/buf.h"
#include "base/str.h"

#define OUTPUT_LINES_MAX KIB(256)

struct output_lines {
	struct buf held;
	size_t handed; /* bytes of held that the last line took */
	bool after_cr; /* an LF belongs to the line before */
};

static inline struct output_lines output_lines_create(void)
{
	return (struct output_lines){ .held = BUF_INIT(OUTPUT_LINES_MAX + 8) };
}
void output_lines_fini(struct output_lines *l);
/* Take bytes from the front of *in: 1 with a line, valid until the next call, 0 when all were
 * taken, or -ENOMEM. */
[[nodiscard]] int output_lines_next(struct output_lines *l, struct slice *in, struct slice *ret);
/* What is left when the output ends: true, unless it is nothing. */
bool output_lines_last(struct output_lines *l, struct slice *ret);
#endif
