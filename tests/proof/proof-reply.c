/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A keeper's reply to hello, which has both sizes, any bytes of any length up to the
 * largest: the check stays inside, a success is never made of a failure, and the
 * message that passes is ended.  (A list's rows are left to tests and fuzzer.)
 *
 * sources: wire/verb.c base/id.c tests/proof/stubs.c
 * unwind: 5
 */
#include <string.h>

#include "proof.h"
#include "wire/verb.h"

int main(void)
{
	size_t n = nondet_size(), fds = nondet_size();
	struct verb_head request;
	struct cay_err err, outcome;
	struct verb_reply reply;
	uint8_t none[1], failure[sizeof(struct verb_reply)],
		success[sizeof(struct verb_hello_reply)];
	uint8_t *in;
	int r;

	assume(n <= VERB_MESSAGE_MAX && fds <= 16);
	assume(request.verb == VERB_HELLO);
	/* no byte more than a reader of that length may touch */
	in = n == sizeof(success) ? success : n >= sizeof(failure) ? failure : none;
	err.code = CAY_OK;
	r = verb_reply_check(in, n, (unsigned)fds, &request, &outcome, &err);
	prove(r == 0 || (r == -EPROTO && err.code != CAY_OK));
	if (r < 0)
		return 0;
	memcpy(&reply, in, sizeof(reply));
	prove(reply.head.seq == request.seq);
	prove((outcome.code == CAY_OK) == (reply.code == CAY_OK));
	prove(outcome.code < CAY_NUM_CODES);
	prove(outcome.msg[sizeof(reply.msg) - 1] == 0);
	prove(reply.code != CAY_OK || n == verb_row_find(request.verb)->reply_size);
	return 0;
}
