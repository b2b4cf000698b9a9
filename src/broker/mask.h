/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BROKER_MASK_H
#define CAY_BROKER_MASK_H
/*
 * mask - overwrite a secret in what a host sends back
 *
 * Found are the secret itself, its base64 in both alphabets wherever it begins in a longer text,
 * its percent-encoding and its form in JSON.  Each is overwritten with as many '*', so no length
 * changes.  A host that transforms the secret in another way is not stopped: it was trusted with
 * it.
 *
 * Where a reply is split must not depend on the secret: a sandbox that sees a byte come later would
 * know that it continues the secret, and could try all bytes for the next.  Secrets are
 * printable ASCII, so held back is any printable text at the end, whatever it says.
 */
#include "base/buf.h"
#include "base/str.h"

#define MASK_FORMS_MAX 28
#define MASK_HELD_MAX KIB(16)

struct mask {
	unsigned n;
	size_t held_max; /* a power of two that no form is longer than */
	struct buf forms[MASK_FORMS_MAX];
};

/* Look for this secret, of printable ASCII, as well. */
[[nodiscard]] int mask_add(struct mask *m, struct slice secret);
void mask_fini(struct mask *m);
/* Overwrite every form in the bytes. */
void mask_apply(const struct mask *m, char *p, size_t n);
/* How many of the first bytes can be passed on; no secret is in them then.  Keep the others, less
 * than 2 * MASK_HELD_MAX, in front of the next ones; pass on the last after mask_apply(). */
size_t mask_release(const struct mask *m, char *p, size_t n);
#endif
