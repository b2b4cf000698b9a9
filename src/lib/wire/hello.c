/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/hello.h"

#include <errno.h>
#include <string.h>

#include "base/endian.h"

#define MAGIC UINT32_C(0x48594143) /* "CAYH" */

void hello_encode(const struct hello *h, uint8_t out[static HELLO_SIZE])
{
	le32_put(out, MAGIC);
	le16_put(out + 4, h->proto_min);
	le16_put(out + 6, h->proto_max);
	le64_put(out + 8, h->features);
	memcpy(out + 16, h->build, sizeof(h->build));
}

int hello_decode(const uint8_t *in, size_t n, struct hello *ret)
{
	struct hello h;

	if (n != HELLO_SIZE || le32_get(in) != MAGIC)
		return -EPROTO;
	h.proto_min = le16_get(in + 4);
	h.proto_max = le16_get(in + 6);
	h.features = le64_get(in + 8);
	memcpy(h.build, in + 16, sizeof(h.build));
	if (h.proto_min == 0 || h.proto_min > h.proto_max)
		return -EPROTO;
	*ret = h;
	return 0;
}

int hello_choose_version(const struct hello *theirs, uint16_t our_min, uint16_t our_max)
{
	uint16_t high = theirs->proto_max < our_max ? theirs->proto_max : our_max;
	uint16_t low = theirs->proto_min > our_min ? theirs->proto_min : our_min;

	return high >= low ? high : -EPROTONOSUPPORT;
}
