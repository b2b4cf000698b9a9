/* SPDX-License-Identifier: Apache-2.0 */
/* What cay-egress sends to cay-broker: the first byte is how many fds came. */
#include "fuzz.h"
#include "wire/broker-message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct broker_record m, again;
	struct slice host, credential;

	if (!size || broker_record_check(data + 1, size - 1, data[0]) < 0)
		return 0;
	CHECK(size - 1 == sizeof(m) && data[0] == BROKER_NUM_FDS);
	memcpy(&m, data + 1, sizeof(m));
	host = (struct slice){ m.host, strnlen(m.host, sizeof(m.host)) };
	credential = (struct slice){ m.credential, strnlen(m.credential, sizeof(m.credential)) };
	CHECK(host.n && host.n < sizeof(m.host) && credential.n < sizeof(m.credential));
	CHECK(!strpbrk(m.host, " /:\r\n\"") && !strpbrk(m.credential, " /:\r\n\""));
	/* what is valid can be written, and is the same then */
	CHECK(broker_record_init(&again, &m.sandbox, &m.tenant, host, m.port, credential) == 0);
	CHECK(memcmp(&m, &again, sizeof(m)) == 0);
	return 0;
}
