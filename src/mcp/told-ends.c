/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/told-ends.h"

static size_t told_ends_slot(const struct id *id)
{
	return hash_bytes(0, id, sizeof(*id)) % TOLD_ENDS_MAX;
}

void told_ends_add(struct told_ends *t, const struct id *id)
{
	t->ids[told_ends_slot(id)] = *id;
}

bool told_ends_has(const struct told_ends *t, const struct id *id)
{
	return id_eq(&t->ids[told_ends_slot(id)], id);
}
