/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CREATE_H
#define CAY_CAYD_CREATE_H
/*
 * create - requests for a sandbox, and whose turn it is
 *
 * Who cannot be served soon is told at once to come again (life/turn.h).  Until it is
 * its turn nothing of a sandbox is there: a client that leaves while it waits costs
 * nothing, and what waited too long is refused.
 */
#include "cayd/box.h"

[[nodiscard]] int creates_open(struct cayd *c, struct cay_err *err);
void create_ask(struct cayd *c, struct request *rq);
/* From box.c: it is not pending any more. */
void create_over(struct box *b);
/* From the sweeper: who has waited too long. */
void creates_sweep(struct cayd *c, uint64_t now);
const struct turns *creates_turns(const struct cayd *c);
#endif
