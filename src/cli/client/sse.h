/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_SSE_H
#define CAY_CLI_CLIENT_SSE_H
/*
 * sse - a stream of server-sent events, read as it arrives
 *
 * Bytes go in as they come, in pieces of any size; an event comes out when the empty
 * line behind it is here, so that what a broken connection cut off is never seen.
 * Only "event" and "data" are read.  A line or an event larger than SSE_MAX is
 * refused for good.
 */
#include <sys/types.h>

#include "base/buf.h"
#include "base/str.h"

#define SSE_MAX KIB(16)
#define SSE_NAME_MAX 32

struct sse {
	struct buf line, data;
	char event[SSE_NAME_MAX]; /* "" when it has no name, or one nobody has */
	bool event_returned;      /* the last call gave an event out */
	bool refused;
};

#define SSE_INIT ((struct sse){ .line = BUF_INIT(SSE_MAX), .data = BUF_INIT(SSE_MAX) })
#define auto_sse CAY_CLEANUP(sse_fini) struct sse

struct sse_item {
	const char *event; /* NULL: none yet; both are valid until the next call */
	struct slice data;
};

/* Take bytes from the front of in: how many, or -EPROTO.  One event at the most is
 * written to *ret; call again while bytes are left. */
[[nodiscard]] ssize_t sse_read(struct sse *s, const char *in, size_t n, struct sse_item *ret);
void sse_fini(struct sse *s);
#endif
