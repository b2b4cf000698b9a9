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

struct deferred_reply;
typedef void deferred_reply_fn(struct deferred_reply *l, const struct cay_err *outcome);

struct deferred_reply {
	struct cayd *cayd;
	struct request *rq; /* NULL: the client left */
	struct id id;       /* of the object that changes */
	char secret[KEY_TEXT_LEN + 1];
	uint8_t hash[KEY_HASH_LEN]; /* api-key.c's: the previous secret during a rotation */
	uint64_t old_until_ns;
	deferred_reply_fn *done;
};

/* NULL when out of memory; the request, if there is one, has been answered. */
struct deferred_reply *deferred_reply_create(struct cayd *c, struct request *rq,
					     const struct id *id, deferred_reply_fn *done);
/* For other replies that are sent later: *rq becomes NULL when its client leaves. */
void request_watch_client(struct request **rq);
/* Reply with value, or with *err if it is one; rq may be NULL. */
void request_reply_outcome(struct request *rq, const struct cay_err *err,
			   const struct field_table *t, const void *value);
/* Callback of the journal; frees arg, a struct deferred_reply. */
db_fn deferred_reply_finish;
#endif
