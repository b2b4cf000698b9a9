/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_E2B_SSE_H
#define CAY_E2B_SSE_H
/*
 * sse - read a stream of events (text/event-stream) as it arrives
 *
 *	while ((r = sse_next(&s, &in, &data, &err)) > 0)
 *		...
 *
 * Only the data of an event is kept; its name, its id and comments are skipped.
 * Bounded: the data of an event, and a line.
 */
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define SSE_MAX KIB(64) /* a watcher has a line and data of this size until it ends */

struct sse {
	struct buf line, data;
	bool has_data, handed; /* handed: the last event was these data */
};

void sse_init(struct sse *s);
void sse_fini(struct sse *s);
/* Consume *in up to one event: 1, and *ret, which is valid until the next call; 0: all of it. */
[[nodiscard]] int sse_next(struct sse *s, struct slice *in, struct slice *ret, struct cay_err *err);
#endif
