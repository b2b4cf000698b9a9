/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_INIT_EXEC_OUTPUT_EXCERPT_H
#define CAY_INIT_EXEC_OUTPUT_EXCERPT_H
/*
 * output-excerpt - the part of an output in a JSON reply: all, head, tail, or both
 *
 * Bytes left out, because of the limit or because they were overwritten, are named by offset
 * and length.  Bounded: TELL_MAX of each output, twice that in base64, and TELL_REPLY_MAX as JSON.
 */
#include "init/core/init.h"
#include "init/exec/output.h"

#define TELL_MAX MIB(4)
/* Two outputs of text, of which an eighth may be characters of six bytes in JSON and the rest of
 * two. */
#define TELL_REPLY_MAX (2 * (TELL_MAX / 2 * 5) + MIB(1))

/* Text and base64 of the two parts of an output; a reply points into it. */
struct output_excerpt {
	struct buf raw, b64, tail, tail_b64;
};

void output_excerpt_fini(struct output_excerpt *t);
#define auto_output_excerpt CAY_CLEANUP(output_excerpt_fini) struct output_excerpt
#define OUTPUT_EXCERPT_INIT \
	{ BUF_INIT(TELL_MAX), BUF_INIT(2 * TELL_MAX), BUF_INIT(TELL_MAX), BUF_INIT(2 * TELL_MAX) }

/* Most bytes of each output that a reply may have: TELL_MAX, or less in a sandbox with little
 * memory, because PID 1 holds them several times while it replies. */
size_t output_excerpt_max(const struct init *in);
/* Let the ring of an output that a client waits for keep as many. */
void output_keep_excerpt(struct output *o, const struct run_query *q);
/* Size of the head when the output is longer than the limit. */
size_t output_excerpt_head_max(const struct run_query *q);
/* The requested part of [from, end).  head: the beginning, kept while the output went on;
 * NULL: read what is still in the ring. */
[[nodiscard]] int output_excerpt_fill(const struct output *o, uint64_t from, uint64_t end,
				      const struct run_query *q, const struct buf *head,
				      struct output_excerpt *t, struct run_output *ret);
#endif
