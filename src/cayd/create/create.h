/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CREATE_CREATE_H
#define CAY_CAYD_CREATE_CREATE_H
/*
 * create - requests for a sandbox, and their queue
 *
 * Requests that cannot be served soon are refused at once with Retry-After
 * (life/create-queue.h).  Nothing of a sandbox exists before its turn: a client that leaves the
 * queue costs nothing, and a request that waited too long is refused.
 */
#include "cayd/sandbox/sandbox.h"

[[nodiscard]] int creates_open(struct cayd *c, struct cay_err *err);
/* Observer: once the sandbox is not pending any more, the next create can start. */
void create_slot_release(struct sandbox *sb);
/* Periodic sweep: refuse creates that have waited too long. */
void creates_expire_waiting(struct cayd *c, uint64_t now);
const struct create_queue *creates_get_queue(const struct cayd *c);
#endif
