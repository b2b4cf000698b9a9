/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_BROKER_MASK_H
#define CAY_BROKER_MASK_H
/*
 * mask - overwrite a secret in what a host sends back
 *
 * Found are the secret itself, its base64 in both alphabets wherever it begins in a longer text,
 * and its percent-encoding.  Each is overwritten with as many '*', so no length changes.  A host
 * that transforms the secret in another way is not stopped: it was trusted with it.
 */
#include "base/buf.h"
#include "base/str.h"

#define MASK_FORMS_MAX 24

struct mask {
	unsigned n;
	struct buf forms[MASK_FORMS_MAX];
};

/* Look for this secret as well. */
[[nodiscard]] int mask_add(struct mask *m, struct slice secret);
void mask_fini(struct mask *m);
/* Overwrite every form in the bytes; returns how many bytes at their end may be the beginning of
 * one: call again with these in front of the next. */
size_t mask_apply(const struct mask *m, char *p, size_t n);
#endif
