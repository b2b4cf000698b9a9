/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_OUTPUT_EXCERPT_H
#define CAY_INIT_EXEC_OUTPUT_EXCERPT_H
/*
 * tell - what a JSON reply has of an output: all of it, or its head, its tail, or both
 *
 * What is not told, for want of room or because it was overwritten, is named by its offset and
 * length.  Bounded: TELL_MAX of each output, twice that in base64.
 */
#include "init/exec/output.h"

#define TELL_MAX MIB(1)

/* Text and base64 of the two parts of an output; a reply points into it. */
struct output_excerpt {
	struct buf raw, b64, tail, tail_b64;
};

void output_excerpt_fini(struct output_excerpt *t);
#define auto_output_excerpt CAY_CLEANUP(output_excerpt_fini) struct output_excerpt
#define OUTPUT_EXCERPT_INIT \
	{ BUF_INIT(TELL_MAX), BUF_INIT(2 * TELL_MAX), BUF_INIT(TELL_MAX), BUF_INIT(2 * TELL_MAX) }

/* How much of the output that is longer than that the head may be. */
size_t output_excerpt_head_max(const struct run_query *q);
/* What stands in [from, end) and is asked for.  head: what was kept of its beginning while the
 * output went on, or NULL: what is still there. */
[[nodiscard]] int output_excerpt_fill(const struct output *o, uint64_t from, uint64_t end,
				      const struct run_query *q, const struct buf *head,
				      struct output_excerpt *t, struct run_output *ret);
#endif
