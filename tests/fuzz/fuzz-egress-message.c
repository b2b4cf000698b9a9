/* SPDX-License-Identifier: Apache-2.0 */
/* What cayd and cay-egress send each other: the first byte is how many fds came, and from which. */
#include "fuzz.h"
#include "wire/egress-message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct egress_message m;
	bool from_cayd = size && data[0] & 0x80;
	unsigned n_fds = size ? data[0] & 0x7f : 0;

	if (!size || egress_message_check(data + 1, size - 1, n_fds, from_cayd) < 0)
		return 0;
	CHECK(size - 1 >= sizeof(m));
	memcpy(&m, data + 1, sizeof(m));
	CHECK(m.kind > 0 && m.kind < EGRESS_MSG_NUM);
	CHECK(n_fds <= (m.kind == EGRESS_MSG_SANDBOX));
	CHECK(from_cayd || m.kind == EGRESS_MSG_HELLO || m.kind >= EGRESS_MSG_APPLIED);
	CHECK(from_cayd || size - 1 == sizeof(m));
	return 0;
}
