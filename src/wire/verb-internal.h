/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_VERB_INTERNAL_H
#define CAY_WIRE_VERB_INTERNAL_H
/* What verb.c checks, open to the test that adds the fields up. */
#include "wire/verb.h"

enum verb_kind { VK_SANDBOX, VK_TENANT, VK_U32, VK_U64, VK_BYTES };

struct verb_field {
	const char *name;
	uint16_t offset, size;
	enum verb_kind kind;
	uint64_t min, max;
};

/* Fields of a request behind its head, ended by a row without a name. */
const struct verb_field *verb_fields(unsigned verb);
#endif
