/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CAYD_SANDBOX_REVOKED_H
#define CAY_CAYD_SANDBOX_REVOKED_H
/*
 * revoked - the tokens of a sandbox that were revoked one by one, as the journal has them
 *
 * A token is known by its random bytes and kept until it would have expired; then its slot
 * is free.  tenant/revoke.c fills the slots.
 */
#include "cayd/sandbox/sandbox.h"
#include "wire/push.h"

#define REVOKED_MAX PUSH_REVOKED_MAX

struct revoked_token {
	uint8_t nonce[8];
	uint64_t until_s; /* its last second (wall clock); 0: the slot is free */
};

/* Allocate the slots unless the sandbox has them. */
[[nodiscard]] int revoked_allocate(struct sandbox *sb);
[[nodiscard]] int revoked_restore(struct sandbox *sb, const struct field_list *from);
/* Rows for the journal; their texts are in `names`. */
size_t revoked_list_rows(const struct sandbox *sb, struct revoked rows[static REVOKED_MAX],
			 char names[static REVOKED_MAX][17]);
#endif
