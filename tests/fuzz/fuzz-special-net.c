/* SPDX-License-Identifier: Apache-2.0 */
/* An address: outside of unicast only IPv4 and what a gateway makes IPv4 is of the Internet, and a
 * gateway changes no verdict. */
#include "egress/special-net.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint8_t v4[12] = { [10] = 0xff, 0xff }, nat64[12] = { 0, 0x64, 0xff, 0x9b };
	uint8_t *in, inner[16], outer[16], again[16];

	if (size < 16)
		return 0;
	in = fuzz_copy(data, 16);
	address_unmap(in, inner);
	CHECK(address_is_special(in) == address_is_special(inner));
	address_unmap(inner, again);
	CHECK(memcmp(inner, again, 16) == 0);
	if (memcmp(inner, v4, 12) == 0) {
		memcpy(outer, nat64, 12);
		memcpy(outer + 12, inner + 12, 4);
		CHECK(address_is_special(outer) == address_is_special(inner));
	} else if (in[0] >> 5 != 1) {
		CHECK(address_is_special(in));
	}
	free(in);
	return 0;
}
