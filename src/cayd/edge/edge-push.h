/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EDGE_EDGE_PUSH_H
#define CAY_CAYD_EDGE_EDGE_PUSH_H
/*
 * edge-push - push sandboxes, keys and token keys to the edges (wire/push.h)
 *
 * Listens at edge/push.sock.  Each edge gets a snapshot, then changes.  An edge that does not
 * read is disconnected when PUSH_QUEUE_MAX bytes are queued for it; it reconnects and gets a
 * snapshot.  Edges report sandboxes with requests inside, which are not idle for as long as the
 * edge is connected.
 */
#include "cayd/sandbox/sandbox.h"

#define PUSH_QUEUE_MAX MIB(128) /* larger than any snapshot */
#define PUSH_PEERS_MAX 256

struct edge_push;

[[nodiscard]] int edge_push_open(struct cayd *c, struct cay_err *err);
unsigned edge_push_count_edges(const struct cayd *c);
/* Observer: its state or its valid tokens have changed. */
void edge_push_sandbox(struct sandbox *sb);
void edge_push_key(struct cayd *c, const struct id *id);
void edge_push_token_keys(struct cayd *c);
#endif
