/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CORE_DEFERRED_REPLY_H
#define CAY_CAYD_CORE_DEFERRED_REPLY_H
/*
 * deferred-reply - a reply that waits for the journal
 *
 * The change is made in memory and queued for the journal; done() is called once with the
 * outcome, undoes the change if the write failed, and replies if the client is still there.
 */
#include "auth/key.h"
#include "cayd/core/cayd.h"

struct deferred_reply {
	struct cayd *cayd;
	struct request *rq; /* NULL: the client left */
	struct id id;       /* of the object that changes */
	char secret[KEY_TEXT_LEN + 1];
	uint8_t hash[KEY_HASH_LEN]; /* api-key.c's: the previous secret during a rotation */
	uint64_t old_until_ns;
	void (*done)(struct deferred_reply *l, const struct cay_err *outcome);
};

/* NULL when out of memory; the request has been answered. */
struct deferred_reply *deferred_reply_create(struct cayd *c, struct request *rq,
					     const struct id *id,
					     void (*done)(struct deferred_reply *l,
							  const struct cay_err *outcome));
/* Callback of the journal; frees arg, a struct deferred_reply. */
db_fn deferred_reply_finish;
#endif
