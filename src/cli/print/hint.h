/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CAY_CLI_PRINT_HINT_H
#define CAY_CLI_PRINT_HINT_H
/*
 * hint - the command that comes next, when one has failed
 *
 * The hints of errors.def are for who sends requests; somebody at a terminal is told what
 * to type.
 */
#include "cli/client/api.h"

struct hint {
	const char *op; /* how its name begins */
	enum cay_code code;
	const char *field; /* or NULL: any */
	const char *words;
};

extern const struct hint hints[]; /* ended by a row without words */

/* For a failure of what a was asked last; "" when nobody knows more. */
const char *hint_find(const struct api *a, const struct cay_err *err);
#endif
