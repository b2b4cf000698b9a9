/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_PUSH_H
#define CAY_CAYD_PUSH_H
/*
 * push - telling the edges what there is (wire/push.h)
 *
 * Listens at edge/push.sock.  Each edge hears everything once, then what changes.  One
 * that does not read is let go when PUSH_QUEUE_MAX bytes wait for it: it dials again
 * and hears everything.  What edges say of requests inside keeps sandboxes from being
 * idle, for as long as their connection lasts.
 */
#include "cayd/box.h"

#define PUSH_QUEUE_MAX MIB(48) /* everything there can be, and more */
#define PUSH_PEERS_MAX 256

struct pushes;

[[nodiscard]] int push_open(struct cayd *c, struct cay_err *err);
/* How many are connected. */
unsigned push_edges(const struct cayd *c);
/* It has changed. */
void push_box(const struct box *b);
void push_key(struct cayd *c, const struct id *id);
void push_signs(struct cayd *c);
#endif
