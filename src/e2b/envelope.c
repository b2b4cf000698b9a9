/* SPDX-License-Identifier: Apache-2.0 */
#include "e2b/envelope.h"

int envelope_open(struct slice body, struct slice *ret, struct cay_err *err)
{
	const uint8_t *p = (const uint8_t *)body.p;
	size_t n;

	if (body.n < ENVELOPE_HEAD)
		return cay_fail(err, CAY_E_INVALID, "the envelope is incomplete");
	if (p[0])
		return cay_fail(err, CAY_E_INVALID, "compressed envelopes are not supported");
	n = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
	if (n != body.n - ENVELOPE_HEAD)
		return cay_fail(err, CAY_E_INVALID, "the body is not one envelope");
	*ret = (struct slice){ body.p + ENVELOPE_HEAD, n };
	return 0;
}

void envelope_head(unsigned flags, size_t n, uint8_t ret[static ENVELOPE_HEAD])
{
	ret[0] = (uint8_t)flags;
	for (unsigned i = 0; i < 4; i++)
		ret[1 + i] = (uint8_t)(n >> (24 - 8 * i));
}
