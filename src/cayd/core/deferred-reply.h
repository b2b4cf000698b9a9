/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CORE_DEFERRED_REPLY_H
#define CAY_CAYD_CORE_DEFERRED_REPLY_H
/*
 * later - an answer that waits for the journal
 *
 * What was asked for is done in memory and written down; done() is called once with the
 * outcome, takes it back if it failed, and answers if anybody is still there.
 */
#include "auth/key.h"
#include "cayd/core/cayd.h"

struct deferred_reply {
	struct cayd *cayd;
	struct request *rq; /* NULL: nobody waits any more */
	struct id id;       /* of what */
	char secret[KEY_TEXT_LEN + 1];
	uint8_t hash[KEY_HASH_LEN]; /* api-key.c's: what a rotation put aside */
	uint64_t old_until_ns;
	void (*done)(struct deferred_reply *l, const struct cay_err *outcome);
};

/* NULL when there is no memory, and the request was told. */
struct deferred_reply *deferred_reply_create(struct cayd *c, struct request *rq,
					     const struct id *id,
					     void (*done)(struct deferred_reply *l,
							  const struct cay_err *outcome));
/* The journal's outcome; arg is a struct deferred_reply, which is over then. */
db_fn deferred_reply_finish;
#endif
