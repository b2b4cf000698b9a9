/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/idempotency-key.h"

#include <stdio.h>

int idempotency_key_read(struct slice header, const struct field_table *t, const void *body,
			 size_t text_max, struct idempotency_key *ret, struct cay_err *err)
{
	auto_buf text = BUF_INIT(text_max);
	struct jw w = jw_to(&text);
	uint64_t h;
	int n;

	*ret = (struct idempotency_key){ .key = header };
	if (!header.p)
		return 0;
	if (!header.n || header.n > IDEMPOTENCY_KEY_MAX)
		return cay_fail(err, CAY_E_INVALID, "Idempotency-Key has 1 to %d characters",
				IDEMPOTENCY_KEY_MAX);
	for (size_t i = 0; i < header.n; i++)
		if (header.p[i] <= ' ' || header.p[i] > '~')
			return cay_fail(err, CAY_E_INVALID,
					"Idempotency-Key must be printable ASCII without spaces");
	field_encode(t, NULL, body, &w);
	if (jw_finish(&w) < 0)
		return cay_no_memory(err);
	h = hash_bytes(0, text.data, text.len); /* stored: it must not change */
	n = snprintf(ret->body_hash, sizeof(ret->body_hash), "%016llx", (unsigned long long)h);
	return n == (int)sizeof(ret->body_hash) - 1 ? 0 : -EINVAL;
}
