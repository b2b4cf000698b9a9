/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CREATE_CREATE_H
#define CAY_CAYD_CREATE_CREATE_H
/*
 * create - requests for a sandbox, and whose turn it is
 *
 * Who cannot be served soon is told at once to come again (life/create-queue.h).  Until it is
 * its turn nothing of a sandbox is there: a client that leaves while it waits costs
 * nothing, and what waited too long is refused.
 */
#include "cayd/sandbox/sandbox.h"

[[nodiscard]] int creates_open(struct cayd *c, struct cay_err *err);
void op_sandbox_create(struct cayd *c, struct request *rq);
/* Observer: once the sandbox is not pending any more, the next create can start. */
void create_slot_release(struct sandbox *sb);
/* From the sweeper: who has waited too long. */
void creates_expire_waiting(struct cayd *c, uint64_t now);
const struct create_queue *creates_get_queue(const struct cayd *c);
#endif
