/* SPDX-License-Identifier: Apache-2.0 */
/* What cayd and cay-broker send each other: the first byte says which of them. */
#include "fuzz.h"
#include "wire/credential-message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct credential_message m;
	struct buf purpose = BUF_INIT(CREDENTIAL_PURPOSE_MAX);
	size_t lines = 0;

	if (!size || credential_message_check(data + 1, size - 1, data[0] & 1) < 0)
		return 0;
	CHECK(size - 1 == sizeof(m));
	memcpy(&m, data + 1, sizeof(m));
	CHECK(m.kind > 0 && m.kind < CREDENTIAL_MSG_NUM);
	if (m.kind != CREDENTIAL_MSG_PUT)
		return 0;
	CHECK(data[0] & 1 && m.form < CREDENTIAL_NUM_KINDS);
	CHECK(m.n_hosts >= 1 && m.n_hosts <= CREDENTIAL_HOSTS_MAX);
	CHECK(m.n_sealed >= 1 && m.n_sealed <= sizeof(m.sealed));
	/* one line for each member: no two credentials have the same purpose */
	CHECK(credential_purpose_write(&m, &purpose) >= 0);
	for (size_t i = 0; i < purpose.len; i++)
		lines += purpose.data[i] == '\n';
	CHECK(lines == 6U + m.n_hosts);
	buf_fini(&purpose);
	return 0;
}
