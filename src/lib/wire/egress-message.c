/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/egress-message.h"

#include <errno.h>
#include <string.h>

static const struct {
	bool from_cayd, from_egress, has_sandbox, has_policy;
} egress_kinds[EGRESS_MSG_NUM] = {
	[EGRESS_MSG_HELLO] = { .from_cayd = true, .from_egress = true },
	[EGRESS_MSG_ALL] = { .from_cayd = true },
	[EGRESS_MSG_SANDBOX] = { .from_cayd = true, .has_sandbox = true, .has_policy = true },
	[EGRESS_MSG_GONE] = { .from_cayd = true, .has_sandbox = true },
	[EGRESS_MSG_END] = { .from_cayd = true },
	[EGRESS_MSG_APPLIED] = { .from_egress = true, .has_sandbox = true },
	[EGRESS_MSG_REFUSED] = { .from_egress = true, .has_sandbox = true },
};

struct egress_message egress_message_init(enum egress_kind kind, const struct id *sandbox,
					  uint64_t generation)
{
	struct egress_message m = { .magic = EGRESS_MAGIC,
				    .kind = (uint16_t)kind,
				    .number = kind == EGRESS_MSG_HELLO ? EGRESS_ABI : 0,
				    .generation = generation };

	if (sandbox)
		m.sandbox = *sandbox;
	return m;
}

static bool egress_id_is_zero(const struct id *id)
{
	static const struct id zero;

	return memcmp(id, &zero, sizeof(zero)) == 0;
}

int egress_message_check(const void *msg, size_t n, unsigned n_fds, bool from_cayd)
{
	struct egress_message m;
	bool policy;

	if (n < sizeof(m) || n > EGRESS_MESSAGE_MAX)
		return -EPROTO;
	memcpy(&m, msg, sizeof(m));
	if (m.magic != EGRESS_MAGIC || !m.kind || m.kind >= EGRESS_MSG_NUM ||
	    !(from_cayd ? egress_kinds[m.kind].from_cayd : egress_kinds[m.kind].from_egress))
		return -EPROTO;
	policy = egress_kinds[m.kind].has_policy;
	if ((n > sizeof(m)) != policy || n_fds > policy ||
	    m.number != (m.kind == EGRESS_MSG_HELLO ? EGRESS_ABI : 0))
		return -EPROTO;
	if (egress_kinds[m.kind].has_sandbox ? !id_is_valid(&m.sandbox, ID_SANDBOX)
					     : !egress_id_is_zero(&m.sandbox) || m.generation)
		return -EPROTO;
	if (policy ? !id_is_valid(&m.tenant, ID_TENANT) || !m.generation
		   : !egress_id_is_zero(&m.tenant))
		return -EPROTO;
	return 0;
}
