/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any address: outside of unicast none is of the Internet but IPv4, itself or by a gateway; no
 * private network is, and a gateway makes none of it.
 *
 * sources: egress/special-net.c
 * unwind: 22
 */
#include <string.h>

#include "egress/special-net.h"
#include "proof.h"

int main(void)
{
	static const uint8_t v4[12] = { [10] = 0xff, 0xff };
	uint8_t *in = bytes_of(16), inner[16];
	bool special = address_is_special(in);

	address_unmap(in, inner);
	prove(address_is_special(inner) == special);
	if (memcmp(inner, v4, 12) != 0) {
		prove(special || in[0] >> 5 == 1);
		prove(special || in[0] != 0x20 || in[1] != 2);
		return 0;
	}
	prove(special || (inner[12] != 0 && inner[12] != 10 && inner[12] != 127));
	prove(special || inner[12] < 224);
	prove(special || inner[12] != 169 || inner[13] != 254);
	prove(special || inner[12] != 192 || inner[13] != 168);
	prove(special || inner[12] != 172 || inner[13] >> 4 != 1);
	return 0;
}
