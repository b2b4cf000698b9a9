/* SPDX-License-Identifier: Apache-2.0 */
/* An actor that is read is spelled as it was, and never more than somebody's. */
#include "fuzz.h"
#include "ops/actor.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *in = fuzz_copy(data, size);
	struct actor a;

	if (actor_parse((struct slice){ in, size }, &a) == 0) {
		char text[ACTOR_TEXT_MAX + 1];

		actor_format(&a, text);
		CHECK(strlen(text) == size && memcmp(text, in, size) == 0);
		CHECK(a.one_sandbox == id_is_valid(&a.sandbox, ID_SANDBOX));
		CHECK((a.scope > SCOPE_PUBLIC) == id_is_valid(&a.tenant, ID_TENANT));
		CHECK(a.scope > SCOPE_PUBLIC ||
		      actor_check_access(&a, &ops[OP_SANDBOX_LIST], NULL) == CAY_E_FORBIDDEN);
	}
	free(in);
	return 0;
}
