/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any message, any length, any number of fds: the check reads no more than
 * there is, and what passes has its verb's size and fds.  Its fields may be
 * right or wrong here; proof-verb-fields.c reads those.
 *
 * sources: wire/verb.c base/id.c tests/proof/stubs.c
 * unwind: 14
 */
#include "proof.h"
#include "wire/verb-internal.h"

bool nondet_bool(void);

int verb_fields_check(unsigned verb, const void *msg, struct cay_err *err)
{
	const struct verb_row *row = verb_row_find(verb);

	prove(row != NULL && __CPROVER_r_ok(msg, row->request_size));
	return nondet_bool() ? 0 : cay_fail(err, CAY_E_INVALID, "");
}

int main(void)
{
	uint8_t *in;
	size_t n = nondet_size(), fds = nondet_size();
	struct cay_err err = { .code = CAY_OK };
	int verb;

	assume(n <= sizeof(union verb_any) && fds <= 16);
	in = bytes_of(n);
	verb = verb_request_check(in, n, (unsigned)fds, &err);
	if (verb < 0) {
		prove(err.code != CAY_OK);
		return 0;
	}
	prove(verb > VERB_NONE && verb < VERB_NUM);
	prove(n == verb_row_find((unsigned)verb)->request_size);
	prove(fds == verb_row_find((unsigned)verb)->fds);
	return 0;
}
