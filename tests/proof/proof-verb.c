/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any message, any length up to the largest request, any number of fds: the
 * check stays inside, and what passes has its verb's size and fds, a sandbox id
 * where one belongs, and limits within range.
 *
 * sources: wire/verb.c base/id.c tests/proof/stubs.c
 * unwind: 14
 */
#include <string.h>

#include "proof.h"
#include "wire/verb-internal.h"

int main(void)
{
	uint8_t room[sizeof(union verb_any)], *in;
	size_t n = nondet_size(), fds = nondet_size();
	struct cay_err err;
	int verb;

	assume(n <= sizeof(room) && fds <= 16);
	in = room + sizeof(room) - n; /* so that nothing lies behind it */
	err.code = CAY_OK;
	verb = verb_request_check(in, n, (unsigned)fds, &err);
	if (verb < 0) {
		prove(err.code != CAY_OK);
		return 0;
	}
	prove(verb > VERB_NONE && verb < VERB_NUM);
	prove(n == verb_row_find((unsigned)verb)->request_size);
	prove(fds == verb_row_find((unsigned)verb)->fds);
	if (verb == VERB_START) {
		struct verb_start s;

		memcpy(&s, in, sizeof(s));
		prove(s.sandbox.noun == ID_SANDBOX && s.generation > 0);
		prove(s.runtime <= 15 && s.read_only <= 1);
		prove(s.pids > 0 && s.cpu_milli > 0 && s.nofile > 0 && s.shm_bytes > 0);
	}
	if (verb == VERB_PREPARE) {
		struct verb_prepare p;

		memcpy(&p, in, sizeof(p));
		prove(p.sandbox.noun == ID_SANDBOX && p.tenant.noun == ID_TENANT && p.memory <= 1);
		prove((uint64_t)VERB_RANGE_BASE + (uint64_t)p.range * VERB_RANGE_IDS +
			      VERB_RANGE_IDS <=
		      VERB_RANGE_FOREIGN);
	}
	return 0;
}
