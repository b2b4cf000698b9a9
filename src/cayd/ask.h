/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_ASK_H
#define CAY_CAYD_ASK_H
/*
 * ask - one question of cayd's own to the PID 1 of a sandbox
 *
 * The answer is a stranger's: it has ASK_MS to come, ASK_BODY_MAX bytes, and is handed
 * over as a status and bytes.  The function is called once, from the loop; at once
 * only when there is no memory.
 */
#include "cayd/cayd.h"

#define ASK_MS 10000
#define ASK_BODY_MAX KIB(64)

/* status is 0 when there was no answer, and err says why. */
typedef void ask_fn(void *arg, unsigned status, struct slice body, const struct cay_err *err);

/* body is empty for GET; media is its type, or NULL.  What is passed in is copied. */
void ask(struct cayd *c, const struct id *sandbox, const char *method, const char *target,
	 struct slice body, ask_fn *fn, void *arg);
/* The same, with another deadline. */
void ask_within(struct cayd *c, const struct id *sandbox, const char *method, const char *target,
		struct slice body, uint64_t ms, ask_fn *fn, void *arg);
#endif
