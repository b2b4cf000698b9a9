/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_WIRE_VERB_INTERNAL_H
#define CAY_WIRE_VERB_INTERNAL_H
/* The checks of verb*.c, exposed to the test that adds the fields up. */
#include "wire/verb.h"

enum verb_kind {
	VK_SANDBOX,
	VK_TENANT,
	VK_SNAPSHOT,
	VK_VOLUME,
	VK_VOLUME_AFTER, /* or all zero */
	VK_MOUNTS,       /* VERB_MOUNTS_MAX of struct verb_mount */
	VK_AFTER,        /* a sandbox's id, or all zero */
	VK_U32,
	VK_U64,
	VK_DIGEST, /* not all zero: that would be a field left unset */
	VK_BYTES,
};

struct verb_field {
	const char *name;
	uint16_t offset, size;
	enum verb_kind kind;
	uint64_t min, max;
};

/* Any request, as large as the largest. */
union verb_any {
	struct verb_head head;
#define CAY_VERB(sym, number, name, request, ...) struct verb_##request sym;
#include "wire/verbs.def"
#undef CAY_VERB
};

/* Fields of a request after its head, ended by a row without a name. */
const struct verb_field *verb_request_fields(unsigned verb);
/* msg: a whole request of this verb. */
int verb_fields_check(unsigned verb, const void *msg, struct cay_err *err);

bool verb_id_is_zero(const uint8_t *at);
bool verb_mount_is_valid(const struct verb_mount *m);

/* at: VERB_MOUNTS_MAX of struct verb_mount. */
bool verb_mounts_are_valid(const uint8_t *at);
#endif
