/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_EDGE_EDGE_PUSH_H
#define CAY_CAYD_EDGE_EDGE_PUSH_H
/*
 * push - telling the edges what there is (wire/push.h)
 *
 * Listens at edge/push.sock.  Each edge hears everything once, then what changes.  One
 * that does not read is let go when PUSH_QUEUE_MAX bytes wait for it: it dials again
 * and hears everything.  What edges say of requests inside keeps sandboxes from being
 * idle, for as long as their connection lasts.
 */
#include "cayd/sandbox/sandbox.h"

#define PUSH_QUEUE_MAX MIB(48) /* everything there can be, and more */
#define PUSH_PEERS_MAX 256

struct edge_push;

[[nodiscard]] int edge_push_open(struct cayd *c, struct cay_err *err);
/* How many are connected. */
unsigned edge_push_count_edges(const struct cayd *c);
/* Observer: its state or its valid tokens have changed. */
void edge_push_sandbox(struct sandbox *sb);
void edge_push_key(struct cayd *c, const struct id *id);
void edge_push_token_keys(struct cayd *c);
#endif
