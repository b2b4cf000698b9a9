/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_CORE_INIT_CALL_H
#define CAY_CAYD_CORE_INIT_CALL_H
/*
 * init-call - one request of cayd to the PID 1 of a sandbox
 *
 * The reply is untrusted: it must arrive within INIT_CALL_MS, has at most INIT_CALL_BODY_MAX bytes
 * and is passed on as a status and bytes.  The callback is called once, from the loop; at
 * once only when out of memory.
 */
#include "cayd/core/cayd.h"

#define INIT_CALL_MS 10000
#define INIT_CALL_BODY_MAX KIB(64)

/* status is 0 when there was no reply, and err says why. */
typedef void init_call_fn(void *arg, unsigned status, struct slice body, const struct cay_err *err);

/* body is empty for GET; media is its type, or NULL. Arguments are copied. */
void init_call(struct cayd *c, const struct id *sandbox, const char *method, const char *target,
	       struct slice body, init_call_fn *fn, void *arg);
/* The same, with another deadline. */
void init_call_with_deadline(struct cayd *c, const struct id *sandbox, const char *method,
			     const char *target, struct slice body, uint64_t ms, init_call_fn *fn,
			     void *arg);
/* Append the target of a tree of files, without a format that of one file; at most one of the paths
 * is given, the default is ".". */
[[nodiscard]] int tree_target_format(const struct id *sandbox, const char *format, const char *path,
				     const char *path_b64, struct buf *ret);
#endif
