/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_BOX_H
#define CAY_CAYD_BOX_H
/*
 * box - a sandbox as control sees it, and the steps of its life
 *
 *	pending --prepare, start, claim--> running --> ending --remove--> terminated
 *	   \------------ any of them fails ------------^                  | failed
 *
 * There is one way to the end, `ending` and then the keeper's remove, whatever
 * was the reason.  A client that leaves stops waiting; the steps go on.  Ended
 * ones are remembered until BOXES_ENDED_MAX newer ones have ended.
 */
#include "cayd/cayd.h"

#define BOXES_MAX 20000
#define BOXES_ENDED_MAX 1000

struct box {
	struct sandbox info; /* texts live in the pool */
	struct field_map env;
	struct cay_err failure; /* why it failed, for who waits for it */
	/* the rest is box.c's */
	struct cayd *cayd;
	struct box *next_by_id, *next_by_name, *newer, *older;
	uint64_t seq;
	uint32_t range;
	uint8_t image[32];
	bool steps; /* a call is under way that will look at the state again */
	uv_poll_t *watch;
	int pidfd;
	struct waiter *waiters;
	struct pool pool;
};

enum box_wait { WAIT_STARTED, WAIT_ENDED };

[[nodiscard]] int boxes_open(struct cayd *c, struct cay_err *err);
/* Remove what an earlier cayd left: without a journal nobody can say whose it
 * is.  Blocks; before the loop runs. */
[[nodiscard]] int boxes_recover(struct cayd *c, struct cay_err *err);

struct box *box_find(struct boxes *all, const struct id *id);
/* The newest whose seq is below `before` (0: any). */
struct box *box_before(struct boxes *all, uint64_t before);
/* Accept a sandbox and begin; a live one of that name is returned instead. */
[[nodiscard]] int box_create(struct boxes *all, const struct sandbox_create *spec, struct box **ret,
			     struct cay_err *err);
/* Begin its end; fine when it has begun. */
void box_end(struct box *b, unsigned reason, const char *detail);
bool box_ended(const struct box *b);
/* Answer a request with the sandbox once it has come so far. */
void box_answer(struct box *b, struct request *rq, enum box_wait until);
unsigned boxes_live(const struct boxes *all);
#endif
