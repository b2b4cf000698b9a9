/* SPDX-License-Identifier: Apache-2.0 */
#include "cayd/sandbox/revoked.h"

#include "text/hex.h"

int revoked_allocate(struct sandbox *sb)
{
	if (!sb->revoked)
		sb->revoked = calloc(REVOKED_MAX, sizeof(*sb->revoked));
	return sb->revoked ? 0 : -ENOMEM;
}

int revoked_restore(struct sandbox *sb, const struct field_list *from)
{
	const struct revoked *rows = from->v;

	if (!from->n)
		return 0;
	if (from->n > REVOKED_MAX || revoked_allocate(sb) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < from->n; i++) {
		struct revoked_token *to = &sb->revoked[i];

		to->until_s = rows[i].until_s;
		if (hex_decode(rows[i].nonce, strlen(rows[i].nonce), to->nonce, sizeof(to->nonce)) <
		    0)
			return -EINVAL;
	}
	return 0;
}

size_t revoked_list_rows(const struct sandbox *sb, struct revoked rows[static REVOKED_MAX],
			 char names[static REVOKED_MAX][17])
{
	size_t n = 0;

	for (size_t i = 0; sb->revoked && i < REVOKED_MAX; i++) {
		if (!sb->revoked[i].until_s)
			continue;
		hex_encode(sb->revoked[i].nonce, sizeof(sb->revoked[i].nonce), names[n]);
		rows[n] = (struct revoked){ names[n], sb->revoked[i].until_s };
		n++;
	}
	return n;
}
