/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_OPS_IDEMPOTENCY_KEY_H
#define CAY_OPS_IDEMPOTENCY_KEY_H
/*
 * idempotency-key - the header by which a client repeats a request without repeating its effect
 *
 * A request with a key that was used before gets the reply of the first.  The hash tells a
 * repetition from another request with the same key; it is of the decoded body, not of its
 * spelling.
 */
#include "ops/field.h"

#define IDEMPOTENCY_KEY_MAX 64

struct idempotency_key {
	struct slice key;   /* empty: none */
	char body_hash[17]; /* of the request */
};

/* header: its value, .p NULL without one; text_max: of the body as JSON. */
[[nodiscard]] int idempotency_key_read(struct slice header, const struct field_table *t,
				       const void *body, size_t text_max,
				       struct idempotency_key *ret, struct cay_err *err);
#endif
