/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a request of each verb: the check of its fields stays inside, and
 * what passes has a sandbox id where one belongs and limits within range.
 * The mounts of a start may be right or wrong here; proof-volume-path.c reads a
 * path.
 *
 * sources: wire/verb-fields.c wire/verb.c base/id.c tests/proof/stubs.c
 * unwind: 14
 */
#include "proof.h"
#include "wire/verb-internal.h"

bool nondet_bool(void);

bool verb_mounts_are_valid(const uint8_t *at)
{
	prove(__CPROVER_r_ok(at, VERB_MOUNTS_MAX * sizeof(struct verb_mount)));
	return nondet_bool();
}

static bool passes(enum verb verb, const void *msg)
{
	struct cay_err err = { .code = CAY_OK };
	int r = verb_fields_check(verb, msg, &err);

	prove(r == 0 || (r < 0 && err.code != CAY_OK));
	return r == 0;
}

static void check_prepare(void)
{
	struct verb_prepare p;

	if (!passes(VERB_PREPARE, &p))
		return;
	prove(p.sandbox.noun == ID_SANDBOX && p.tenant.noun == ID_TENANT && p.memory <= 1);
	prove((uint64_t)VERB_RANGE_BASE + (uint64_t)p.range * VERB_RANGE_IDS + VERB_RANGE_IDS <=
	      VERB_RANGE_FOREIGN);
}

static void check_start(void)
{
	struct verb_start s;

	if (!passes(VERB_START, &s))
		return;
	prove(s.sandbox.noun == ID_SANDBOX && s.generation > 0);
	prove(s.runtime <= 15 && s.read_only <= 1);
	prove(s.pids > 0 && s.cpu_milli > 0 && s.nofile > 0 && s.shm_bytes > 0);
}

int main(void)
{
#define CAY_VERB(sym, number, name, request, ...) \
	{ \
		struct verb_##request msg; \
\
		passes(VERB_##sym, &msg); \
	}
#include "wire/verbs.def"
#undef CAY_VERB
	check_prepare();
	check_start();
	return 0;
}
