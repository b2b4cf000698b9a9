/* SPDX-License-Identifier: Apache-2.0 */
/* edge.trusted up to the first line end, then X-Forwarded-For of a request from 10.0.0.1. */
#include "edge/trusted-proxies.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct http_head head;
	static struct trusted_proxies trusted;
	char *in = fuzz_copy(data, size);
	struct slice value = { in, size }, setting = slice_cut(&value, '\n');
	uint8_t address[NET_ADDRESS_LEN], before[NET_ADDRESS_LEN];
	struct cay_err err = {};

	CHECK(net_address_parse(SLICE("10.0.0.1"), address) == 0);
	memcpy(before, address, sizeof(before));
	if (trusted_proxies_parse(setting, &trusted, &err) == 0) {
		CHECK(trusted.n <= TRUSTED_PROXIES_MAX);
		head = (struct http_head){ .n_headers = value.p ? 1 : 0 };
		head.headers[0] = (struct http_header){ SLICE("x-forwarded-for"), value };
		trusted_proxies_find_client(&trusted, &head, address);
		if (!trusted_proxies_contain(&trusted, before))
			CHECK(memcmp(address, before, sizeof(before)) == 0);
	} else {
		CHECK(err.code == CAY_E_INVALID && err.msg[0]);
	}
	free(in);
	return 0;
}
