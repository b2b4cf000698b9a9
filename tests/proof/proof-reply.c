/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A keeper's reply, any bytes: the check stays inside, a success is never made
 * of a failure, and the message that passes is ended.
 *
 * sources: wire/verb.c base/id.c tests/proof/stubs.c
 * unwind: 4
 */
#include <string.h>

#include "proof.h"
#include "wire/verb.h"

int main(void)
{
	struct verb_reply in;
	size_t n = nondet_size();
	struct verb_head request;
	struct cay_err err;
	int r;

	assume(n <= sizeof(in));
	assume(request.verb == VERB_KILL);
	err.code = CAY_OK;
	r = verb_check_reply(&in, n, &request, &err);
	prove(r <= 0);
	if (r == 0)
		prove(in.code == CAY_OK && n == sizeof(in) && in.head.seq == request.seq);
	else
		prove(err.code != CAY_OK);
	return 0;
}
