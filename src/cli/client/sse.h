/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_CLIENT_SSE_H
#define CAY_CLI_CLIENT_SSE_H
/*
 * sse - a stream of server-sent events, read as it arrives
 *
 * Bytes are fed in pieces of any size; an event is returned once the empty line after it
 * has arrived, so an event cut off by a broken connection is never seen.  Only "event" and
 * "data" are read.  After a line or event larger than the buffers every call fails.
 */
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

#define SSE_MAX KIB(16)
#define SSE_NAME_MAX 32

struct sse {
	struct buf line, data;
	char event[SSE_NAME_MAX]; /* "" when it has no name, or one that is too long */
	bool event_returned;      /* the last call returned an event */
	bool refused;
};

#define SSE_INIT ((struct sse){ .line = BUF_INIT(SSE_MAX), .data = BUF_INIT(SSE_MAX) })
#define auto_sse CAY_CLEANUP(sse_fini) struct sse

struct sse_item {
	const char *event; /* NULL: none yet; both are valid until the next call */
	struct slice data;
};

/* Returns how many bytes of in were used, or -EPROTO.  Returns at most one event in *ret;
 * call again while bytes are left. */
[[nodiscard]] ssize_t sse_read(struct sse *s, const char *in, size_t n, struct sse_item *ret);
/* Feed all of body, which is emptied, and call fn for each event until it fails. */
typedef int sse_fn(void *arg, const struct sse_item *item, struct cay_err *err);
[[nodiscard]] int sse_read_body(struct sse *s, struct buf *body, sse_fn *fn, void *arg,
				struct cay_err *err);
void sse_fini(struct sse *s);
#endif
